package qdrant

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"unicode"

	client "github.com/qdrant/go-client/qdrant"

	"mbox/agents/memory"
)

const (
	enough    = 2000 // entries that are looked at for one recall
	mostWords = 64   // of a query, that are looked up
	maxWord   = 20   // letters of a word in the index
)

// words are those of a query as the index has them.
func words(query string) (all []string) {
	for _, word := range memory.Tokens(query) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			letters := []rune(word)
			all = append(all, string(letters[:min(len(letters), maxWord)]))
		}
	}
	all = slices.Compact(all)
	return all[:min(len(all), mostWords)]
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
		all, err := s.newest(ctx, limit, nil)
		return memory.Rank(all, query, limit), err
	}
	return s.meaning.Recall(ctx, query, limit, s.byWords, s.byMeaning)
}

// newest are the newest of the agent's entries that meet one of the conditions, or of all
// if there are none, oldest first.
func (s *Store) newest(ctx context.Context, limit int, of []*client.Condition) (all []memory.Entry, err error) {
	if limit <= 0 {
		return nil, nil
	}
	err = s.read(ctx, func(ctx context.Context, a *agent) error {
		those := a.of()
		those.Should = of
		found, err := s.c.Scroll(ctx, &client.ScrollPoints{
			CollectionName: s.o.Collection, Filter: those, Limit: client.PtrOf(uint32(limit)), WithPayload: client.NewWithPayload(true),
			OrderBy: &client.OrderBy{Key: "at", Direction: client.PtrOf(client.Direction_Desc)},
		})
		for _, p := range found {
			all = append(all, s.entry(p))
		}
		return err
	})
	slices.SortFunc(all, byAge)
	return all, err
}

func (s *Store) byWords(ctx context.Context, query string, limit int) ([]memory.Entry, error) {
	rare, err := s.rarest(ctx, query)
	if err != nil || len(rare) == 0 {
		return nil, err
	}
	var of []*client.Condition
	for _, word := range rare {
		of = append(of, has(word)...)
	}
	all, err := s.newest(ctx, enough, of)
	return memory.Rank(all, query, limit), err
}

// has are the conditions of which an entry with a word meets one.
func has(word string) []*client.Condition {
	return []*client.Condition{client.NewMatchText("key", word), client.NewMatchText("content", word)}
}

// rarest are the rarest words of a query; none if none stands anywhere.
func (s *Store) rarest(ctx context.Context, query string) (rare []string, err error) {
	all := words(query)
	in := make(map[string]uint64, len(all))
	err = s.read(ctx, func(ctx context.Context, a *agent) error {
		var wait sync.WaitGroup
		var lock sync.Mutex
		var failed error
		for _, word := range all {
			wait.Go(func() {
				those := a.of()
				those.Should = has(word)
				n, err := s.c.Count(ctx, &client.CountPoints{CollectionName: s.o.Collection, Exact: client.PtrOf(true), Filter: those})
				lock.Lock()
				defer lock.Unlock()
				in[word], failed = n, errors.Join(failed, err)
			})
		}
		wait.Wait()
		return failed
	})
	all = slices.DeleteFunc(all, func(word string) bool { return in[word] == 0 })
	slices.SortStableFunc(all, func(a, b string) int { return int(in[a]) - int(in[b]) })
	sum := uint64(0)
	for _, word := range all {
		if sum += in[word]; len(rare) > 0 && sum > enough {
			break
		}
		rare = append(rare, word)
	}
	return rare, err
}
