package memory

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// words are those of a query; nil where it asks for the newest.
func words(query string) []string {
	query = strings.ToLower(query)
	if strings.TrimSpace(query) == "*" {
		return nil
	}
	return strings.Fields(query)
}

// Newest tells whether a query asks for the newest entries.
func Newest(query string) bool { return len(words(query)) == 0 }

// Score is the share of the query's words that the entry has, from 0 to 1; 1 for an
// empty query and for *.
func Score(query string, e Entry) float64 {
	w := words(query)
	if len(w) == 0 {
		return 1
	}
	text, n := strings.ToLower(e.Key+": "+e.Content), 0
	for _, word := range w {
		if strings.Contains(text, word) {
			n++
		}
	}
	return float64(n) / float64(len(w))
}

// Tokens are the words of a text as an index has them: what is letters, digits and marks,
// in lower case, each once.
func Tokens(text string) []string {
	all := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
	slices.Sort(all)
	return slices.Compact(all)
}

// Best are the entries with the highest scores, best first; of equal ones those of own
// come first, then the newer ones. It sorts them in place.
func Best(all []Entry, own string, limit int) []Entry {
	slices.SortStableFunc(all, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(other(a, own), other(b, own)), b.At.Compare(a.At))
	})
	return all[:min(len(all), max(limit, 0))]
}

func other(e Entry, own string) int {
	if e.Agent == own {
		return 0
	}
	return 1
}

// Rank is Recall over entries, oldest first, that all lie at hand.
func Rank(all []Entry, query string, limit int) []Entry {
	found := make([]Entry, 0, len(all))
	for _, e := range slices.Backward(all) { // of one time, the one that came last is the newest
		if e.Score = Score(query, e); e.Score > 0 {
			found = append(found, e)
		}
	}
	return Best(found, "", limit)
}
