package sqlite

import (
	"context"
	"slices"
	"strings"

	"mbox/agents/memory"
)

// enough is how many entries are looked at for one recall.
const enough = 2000

// Recall finds entries by the rarest of the query's words: those that stand in few
// entries, as many as together lead to at most enough of them, and one at least. Of what
// has them the newest are scored by all words. So an entry that has only common words
// may be missed where rare ones lead to others.
//
// A word leads to entries that have a word that begins with it.
//
// With embeddings (see UseEmbeddings) the entries of the nearest vectors come too.
func (s *Store) Recall(ctx context.Context, query string, limit int) ([]memory.Entry, error) {
	if memory.Newest(query) {
		all, err := s.query(ctx, "SELECT "+columns+" FROM memories m WHERE "+ofAgent+" ORDER BY m.at DESC, m.id DESC LIMIT ?", s.alias, limit)
		slices.Reverse(all)
		return memory.Rank(all, query, limit), err
	}
	return s.meaning.Recall(ctx, query, limit, s.byWords, s.byMeaning)
}

func (s *Store) byWords(ctx context.Context, query string, limit int) ([]memory.Entry, error) {
	match, err := s.rarest(ctx, tokens(query))
	if err != nil || match == "" {
		return nil, err
	}
	all, err := s.query(ctx, "SELECT "+columns+` FROM words JOIN memories m ON m.id = words.rowid
		WHERE words MATCH ? AND `+ofAgent+" ORDER BY words.rowid DESC LIMIT ?", match, s.alias, enough)
	slices.SortStableFunc(all, func(a, b memory.Entry) int { return a.At.Compare(b.At) })
	return memory.Rank(all, query, limit), err
}

// mostWords is how many words of a query are looked up.
const mostWords = 64

func tokens(query string) []string {
	all := memory.Tokens(query)
	return all[:min(len(all), mostWords)]
}

// prefix is the expression of FTS5 for what begins with a word.
func prefix(word string) string { return `"` + word + `"*` }

// rarest makes an expression of FTS5 of the rarest words; "" if none stands anywhere.
func (s *Store) rarest(ctx context.Context, words []string) (match string, err error) {
	if there, err := s.there(ctx); err != nil || !there {
		return "", err
	}
	in := map[string]int{}
	for _, word := range words {
		var n int
		err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT rowid FROM words WHERE words MATCH ? LIMIT ?)", prefix(word), enough+1).Scan(&n)
		if err != nil {
			return "", s.about(err)
		}
		in[word] = n
	}
	words = slices.DeleteFunc(words, func(word string) bool { return in[word] == 0 })
	slices.SortStableFunc(words, func(a, b string) int { return in[a] - in[b] })
	var parts []string
	sum := 0
	for _, word := range words {
		if sum += in[word]; len(parts) > 0 && sum > enough {
			break
		}
		parts = append(parts, prefix(word))
	}
	return strings.Join(parts, " OR "), nil
}
