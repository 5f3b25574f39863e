// Package memory is what agents remember: short texts with a key, each with who wrote
// it, when, and on which task.
//
// # One memory an agent
//
// [ForAgent] makes the memory of one agent. It writes to that agent's store alone, and
// stamps what it writes: agent, author, task and time are set by mbox, and what a model
// says about them counts for nothing. It reads the agent's own store, and those of the
// agents that its policy names (read_memory_from), whatever backend each has. A store of
// another agent that cannot be read is told and left out.
//
// # Stores
//
// A [Store] keeps the entries of one agent. All backends behave alike, and one suite of
// tests (package memorytest) runs on each:
//
//	markdown  MEMORY.md and memory/<date>.md of the agent's workspace
//	sqlite    one database of all agents (package sqlite)
//	postgres  one database of all agents, on a server (package postgres)
//	qdrant    one collection of all agents, on a server (package qdrant)
//	exec      what a program keeps (package adapter)
//	none      remembers nothing, and says so
//
// # Recall
//
// The score of an entry is the share of the query's words that it has: a word counts
// where it stands anywhere in key or content, whatever its case. Entries without any are
// left out. An empty query, or *, gives the newest. Scores of all backends are from 0 to
// 1 and mean the same, so results of several agents are merged by them; where they are
// equal the agent's own come first, then the newer ones.
//
// A store with an [Embedder] finds by meaning too. Its scores are by reciprocal ranks: 1
// for what words and meaning both have first, 0.5 for what one has first and the other
// not at all.
//
// # Forgetting
//
// What is forgotten is gone from the store's files; a server may keep the bytes of what it
// has deleted. The ledger holds a salted hash of it
// (see [Hash]), so that who still has the text can prove that it was forgotten.
package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mbox/audit"
	"mbox/schemas"
)

// Bounds of an entry, and of a recall.
const (
	MaxContent   = 64 << 10 // bytes
	MaxKey       = 128      // bytes
	DefaultLimit = 5        // entries of a recall where nothing else is said
	MaxLimit     = 1000
)

// The categories. Core lasts; the others belong to their day.
const (
	Core         = "core"
	Daily        = "daily"
	Conversation = "conversation"
	Custom       = "custom"
)

// Categories lists all of them.
var Categories = []string{Core, Daily, Conversation, Custom}

var (
	// ErrUnknown: there is no entry with this id.
	ErrUnknown = errors.New("no such entry")
	// ErrNone: the agent's backend is none.
	ErrNone = errors.New("it has no memory")
	// ErrFull: the store takes no more.
	ErrFull = errors.New("the memory is full")
)

// Entry is one thing that an agent remembers.
type Entry struct {
	ID       string    `json:"id,omitzero"`    // in its agent's store; never used again
	Agent    string    `json:"agent"`          // whose memory it is in
	Category string    `json:"category"`       // one of Categories
	Key      string    `json:"key"`            // what it is about, in one line
	Content  string    `json:"content"`        // text of any lines
	At       time.Time `json:"at,omitzero"`    // when it was added, in UTC and milliseconds; of what mbox did not write, its day, or zero
	By       string    `json:"by,omitzero"`    // who added it: human, or an agent; "": mbox did not write it
	Task     string    `json:"task,omitzero"`  // the task that was worked on; "": none
	Score    float64   `json:"score,omitzero"` // of a recall: from 0 to 1
}

// Store keeps the entries of one agent. Several processes may use it at once. What Add
// has returned is there for good.
type Store interface {
	// Add stores an entry that Check takes, and returns its id.
	Add(ctx context.Context, e Entry) (id string, err error)
	// Recall returns the best entries for a query, with their scores, best first.
	Recall(ctx context.Context, query string, limit int) ([]Entry, error)
	// All yields all entries, oldest first. Behind an error nothing follows.
	All(ctx context.Context) iter.Seq2[Entry, error]
	// Forget removes entries from the store. ErrUnknown if one is not there; then all stay.
	Forget(ctx context.Context, ids ...string) error
	Close() error
}

// Check returns an error if the entry cannot be stored. Key and content are text
// without control characters, but for line breaks and tabs in the content.
func (e Entry) Check() error {
	switch {
	case !known(e.Category):
		return wrong("category", fmt.Sprintf("%s is no category", schemas.Quote(e.Category)), "one of "+strings.Join(Categories, ", "))
	case e.Key == "" || len(e.Key) > MaxKey || strings.TrimSpace(e.Key) != e.Key || strings.Contains(e.Key, "**"):
		return wrong("key", fmt.Sprintf("%s cannot be a key", schemas.Quote(e.Key)), fmt.Sprintf("a text of 1 to %d bytes without ** and spaces around it", MaxKey))
	case len(e.Content) > MaxContent:
		return wrong("content", fmt.Sprintf("has %d bytes", len(e.Content)), fmt.Sprintf("at most %d: two entries, or a file and an entry that names it", MaxContent))
	case strings.TrimSpace(e.Content) == "":
		return wrong("content", "is empty", "a text")
	}
	if err := plain("key", e.Key, ""); err != nil {
		return err
	}
	return plain("content", e.Content, "\n\t")
}

func known(category string) bool {
	for _, c := range Categories {
		if c == category {
			return true
		}
	}
	return false
}

func plain(path, text, but string) error {
	if !utf8.ValidString(text) {
		return wrong(path, "is no UTF-8", "text")
	}
	for at, r := range text {
		if unicode.IsControl(r) && !strings.ContainsRune(but, r) {
			return wrong(path, fmt.Sprintf("has the control character U+%04X at byte %d", r, at), "text without it")
		}
	}
	return nil
}

func wrong(path, problem, want string) error {
	return &schemas.Error{Path: path, Code: schemas.CodeBadValue, Problem: problem, Want: want}
}

// Source is where the entry comes from, for people and prompts: who, when, on which task.
func (e Entry) Source() string {
	by := "nobody knows who"
	if e.By != "" {
		by = e.By
	}
	if !e.At.IsZero() {
		by += ", " + e.At.UTC().Format("2006-01-02T15:04:05Z")
	}
	if e.Task != "" {
		by += ", task " + e.Task
	}
	return by
}

// Attributed is the entry with whose memory it is from: "[coder] key: content".
func (e Entry) Attributed() string {
	if e.Key == "" {
		return "[" + e.Agent + "] " + e.Content
	}
	return "[" + e.Agent + "] " + e.Key + ": " + e.Content
}

// Hash stands for an entry where its text may not stand: SHA-256 of the mailbox's salt,
// "memory\n", the agent, the key and the content, each with a newline behind it.
func Hash(salt []byte, e Entry) string {
	return audit.Hash([]byte(string(salt) + "memory\n" + e.Agent + "\n" + e.Key + "\n" + e.Content + "\n"))
}
