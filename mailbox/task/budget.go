package task

import (
	"maps"
	"slices"
)

// Limits of delegation.
const (
	MaxChildren = 100 // of one delegation
	MaxDepth    = 3   // default of Options.MaxDepth: depths 0, 1 and 2 run
)

// How many children a parent waits for.
const (
	JoinAll    = "all"    // until all have ended
	JoinAny    = "any"    // until one has completed
	JoinQuorum = "quorum" // until more than half have completed
)

// Joins are the join rules; the first is the default.
var Joins = []string{JoinAll, JoinAny, JoinQuorum}

// Joined tells whether a parent's children have ended, as far as its join rule
// asks.
func Joined(rule string, completed, failed, all int) bool {
	if rule != JoinAny && rule != JoinQuorum {
		return completed+failed == all
	}
	return Succeeded(rule, completed, all) || !Succeeded(rule, all-failed, all)
}

// Succeeded tells whether as many of a parent's children have completed as its
// join rule asks.
func Succeeded(rule string, completed, all int) bool {
	switch rule {
	case JoinAny:
		return completed >= 1
	case JoinQuorum:
		return completed >= all/2+1
	}
	return completed == all
}

// Budget is what a delegation tree may spend, or has spent, by kind.
type Budget map[string]int64

// The kinds of a budget.
const (
	SpentActions  = "actions"  // carried out
	SpentTokens   = "tokens"   // of models
	SpentSeconds  = "seconds"  // of attempts
	SpentChildren = "children" // created
)

// Add adds what was spent.
func (s Budget) Add(more Budget) {
	for kind, n := range more {
		s[kind] += n
	}
}

// Over names the first kind of which nothing is left; "" if there is none. A
// tree that has had all its children may go on without more.
func (s Budget) Over(limit Budget) string {
	for _, kind := range slices.Sorted(maps.Keys(limit)) {
		if kind != SpentChildren && s[kind] >= limit[kind] {
			return kind
		}
	}
	return ""
}
