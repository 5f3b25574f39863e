package postgres

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"mbox/agents/memory"
)

const (
	enough    = 2000 // entries that are looked at for one recall
	mostWords = 64   // of a query, that are looked up
	maxWord   = 256  // bytes of a word in the index
)

// words are those of a text as the index has them.
func words(text string) []string {
	all := memory.Tokens(text)
	for i, word := range all {
		all[i] = strings.ToValidUTF8(word[:min(len(word), maxWord)], "")
	}
	return slices.Compact(all)
}

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
		all, err := s.entries(ctx, "WHERE "+ofAgent+" ORDER BY at DESC NULLS LAST, id DESC LIMIT $2", s.o.Agent, limit)
		slices.Reverse(all)
		return memory.Rank(all, query, limit), err
	}
	return s.meaning.Recall(ctx, query, limit, s.byWords, s.byMeaning)
}

func (s *Store) byWords(ctx context.Context, query string, limit int) ([]memory.Entry, error) {
	match, err := s.rarest(ctx, query)
	if err != nil || match == "" {
		return nil, err
	}
	all, err := s.entries(ctx, "WHERE "+ofAgent+" AND words @@ $2::tsquery ORDER BY id DESC LIMIT $3", s.o.Agent, match, enough)
	slices.SortStableFunc(all, func(a, b memory.Entry) int { return a.At.Compare(b.At) })
	return memory.Rank(all, query, limit), err
}

// prefix is the query of Postgres for what begins with a word.
func prefix(word string) string { return "'" + word + "':*" }

// rarest makes a query of Postgres of the rarest words; "" if none stands anywhere.
func (s *Store) rarest(ctx context.Context, query string) (match string, err error) {
	all := words(query)
	all = all[:min(len(all), mostWords)]
	in := map[string]int{}
	err = s.read(ctx, func(ctx context.Context) error {
		r, err := s.ask(ctx, `SELECT word, (SELECT count(*) FROM (
				SELECT FROM memories WHERE `+ofAgent+` AND words @@ ('''' || word || ''':*')::tsquery LIMIT $3) AS those)
			FROM unnest($2::text[]) AS word`, s.o.Agent, list(all), enough+1)
		if err != nil {
			return err
		}
		for _, row := range r.Rows {
			if in[string(row[0])], err = strconv.Atoi(string(row[1])); err != nil {
				return err
			}
		}
		return nil
	})
	all = slices.DeleteFunc(all, func(word string) bool { return in[word] == 0 })
	slices.SortStableFunc(all, func(a, b string) int { return in[a] - in[b] })
	var parts []string
	sum := 0
	for _, word := range all {
		if sum += in[word]; len(parts) > 0 && sum > enough {
			break
		}
		parts = append(parts, prefix(word))
	}
	return strings.Join(parts, "|"), err
}
