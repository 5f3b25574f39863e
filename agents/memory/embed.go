package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
)

var (
	// ErrModel: the vectors of a store are of another model than the one that is asked now.
	ErrModel = errors.New("the embeddings are of another model")
	// ErrNoModel: the store has no embeddings.
	ErrNoModel = errors.New("it finds by words alone")
)

// Embedder makes vectors of texts: those of texts that mean the same are near.
type Embedder interface {
	// Model names the model. Vectors of different models cannot be compared.
	Model() string
	// Embed returns one vector for each text, all of one length. question tells that the
	// texts are queries, and not what is looked for.
	Embed(ctx context.Context, question bool, texts ...string) ([][]float32, error)
}

// Meaning is what a store has of a model. The zero value has none: words alone count.
type Meaning struct {
	embedder Embedder
	warn     func(error)
	told     bool // warn was called
}

// EmbedAtOnce is how many texts a model gets at once.
const EmbedAtOnce = 32

// Use has a store find by meaning too. warn is told, once, when there is no vector to be
// had: then words alone count.
func (m *Meaning) Use(e Embedder, warn func(error)) { m.embedder, m.warn = e, warn }

// Off tells whether there is no model.
func (m *Meaning) Off() bool { return m.embedder == nil }

// Model names the model.
func (m *Meaning) Model() string { return m.embedder.Model() }

func (m *Meaning) tell(err error) {
	if !m.told {
		m.told = true
		m.warn(err)
	}
}

// TellKept warns that an entry was kept without its vector, and why.
func (m *Meaning) TellKept(err error) {
	m.tell(fmt.Errorf("it is kept, and found by its words alone until mbox memory embed: %w", err))
}

// OfEntry is the vector of a new entry; nil if there is none to be had, which is told.
func (m *Meaning) OfEntry(ctx context.Context, e Entry) []float32 {
	if m.Off() {
		return nil
	}
	all, err := m.embedder.Embed(ctx, false, e.text())
	if err != nil {
		m.TellKept(err)
		return nil
	}
	return all[0]
}

// OfEntries are the vectors of entries.
func (m *Meaning) OfEntries(ctx context.Context, all []Entry) ([][]float32, error) {
	var texts []string
	for _, e := range all {
		texts = append(texts, e.text())
	}
	return m.embedder.Embed(ctx, false, texts...)
}

// OfQuery is the vector of a query; nil if there is none to be had, which is told.
func (m *Meaning) OfQuery(ctx context.Context, query string) ([]float32, error) {
	all, err := m.embedder.Embed(ctx, true, query)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		m.tell(fmt.Errorf("only words are looked for: %w", err))
		return nil, nil
	}
	return all[0], nil
}

// Fits returns ErrModel if vectors of a model with so many dimensions cannot be compared
// with one of this model that has dim of them; a dim of 0 is not looked at.
func (m *Meaning) Fits(model string, have, dim int) error {
	switch {
	case model != m.Model():
		return fmt.Errorf("%w: %s (%d dimensions), and memory.embed_model is %s", ErrModel, model, have, m.Model())
	case dim > 0 && dim != have:
		return fmt.Errorf("%w: %s had %d dimensions, and now has %d", ErrModel, model, have, dim)
	}
	return nil
}

// text is what the vector of an entry is made of.
func (e Entry) text() string { return e.Key + ": " + e.Content }

// Quantised is a vector with one byte for each dimension, the greatest of them ±127.
func Quantised(v []float32) []byte {
	var most float64
	for _, x := range v {
		most = max(most, math.Abs(float64(x)))
	}
	out := make([]byte, len(v))
	for i, x := range v {
		if most > 0 {
			out[i] = byte(int8(math.Round(float64(x) / most * 127)))
		}
	}
	return out
}

// Cosine is how near a vector that was quantised is to one: from -1 to 1.
func Cosine(v []float32, stored []byte) float64 {
	var dot, a, b float64
	for i, x := range v {
		y := float64(int8(stored[i]))
		dot, a, b = dot+float64(x)*y, a+float64(x)*float64(x), b+y*y
	}
	if a == 0 || b == 0 {
		return 0
	}
	return dot / math.Sqrt(a*b)
}

// Fused is how many entries words and meaning each bring to a recall.
const Fused = 100

const rankBase = 60.0 // of reciprocal rank fusion

// Recall asks a store what its words find, up to so many entries, and, where there is a
// model, what meaning finds.
func (m *Meaning) Recall(ctx context.Context, query string, limit int, byWords func(ctx context.Context, query string, most int) ([]Entry, error), byMeaning func(ctx context.Context, query string) ([]Entry, error)) ([]Entry, error) {
	found, err := byWords(ctx, query, max(limit, Fused))
	if err != nil || m.Off() {
		return found[:min(len(found), limit)], err
	}
	near, err := byMeaning(ctx, query)
	if err != nil || len(near) == 0 {
		return found[:min(len(found), limit)], err
	}
	return fuse(found, near, limit), nil
}

// fuse merges what words and what meaning have found, each best first, by reciprocal
// ranks: the score of what both have first is 1, of what one has first and the other not
// 0.5.
func fuse(byWords, byMeaning []Entry, limit int) []Entry {
	score := map[string]float64{}
	all := byWords[:len(byWords):len(byWords)]
	for rank, e := range byWords[:min(len(byWords), Fused)] {
		score[e.ID] += share(rank)
	}
	for rank, e := range byMeaning[:min(len(byMeaning), Fused)] {
		if score[e.ID] == 0 {
			all = append(all, e)
		}
		score[e.ID] += share(rank)
	}
	for i := range all {
		all[i].Score = score[all[i].ID]
	}
	return Best(all, "", limit)
}

func share(rank int) float64 { return (rankBase + 1) / (rankBase + 1 + float64(rank)) / 2 }
