package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"mbox/agents/memory"
)

// UseEmbeddings has recall find by meaning too. warn is told, once, when there is no
// vector to be had: then words alone count.
func (s *Store) UseEmbeddings(e memory.Embedder, warn func(error)) { s.meaning.Use(e, warn) }

// fits returns ErrModel if the agent has vectors of another model or length. some tells
// whether it has any.
func (s *Store) fits(ctx context.Context, dim int) (some bool, err error) {
	r, err := s.ask(ctx, "SELECT model, dim FROM vectors WHERE "+ofAgent+" LIMIT 1", s.o.Agent)
	if err != nil || len(r.Rows) == 0 {
		return false, err
	}
	have, err := strconv.Atoi(string(r.Rows[0][1]))
	if err != nil {
		return false, err
	}
	return true, s.meaning.Fits(string(r.Rows[0][0]), have, dim)
}

// addVector stores the vector of an entry, in a transaction.
func (s *Store) addVector(ctx context.Context, agent, id string, v []float32) error {
	if _, err := s.fits(ctx, len(v)); err != nil {
		return err
	}
	if err := s.index(ctx, len(v), false); err != nil {
		return err
	}
	_, err := s.ask(ctx, `INSERT INTO vectors (id, agent_id, model, dim, vector, small) VALUES ($1, $2, $3, $4, $5, $6)`,
		id, agent, s.meaning.Model(), len(v), reals(v), `\x`+hex.EncodeToString(memory.Quantised(v)))
	return err
}

// reals is a vector as an array's text.
func reals(v []float32) string {
	var b strings.Builder
	for i, x := range v {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(strconv.FormatFloat(float64(x), 'g', -1, 32))
	}
	return b.String() + "}"
}

// mostIndexed is how many dimensions pgvector's index takes.
const mostIndexed = 2000

// indexOf is the name of pgvector's index of all vectors of so many dimensions.
func indexOf(dim int) string { return "vectors_near_" + strconv.Itoa(dim) }

// pgvector tells whether the extension is there, with a version that goes on where an
// index has brought too few of an agent's own (0.8).
const pgvector = "EXISTS (SELECT FROM pg_extension WHERE extname = 'vector' AND string_to_array(substring(extversion FROM '^[0-9]+[.][0-9]+'), '.')::int[] >= '{0,8}')"

// index makes pgvector's index of the vectors of so many dimensions, where it can be had
// and is not there: before the first of them, or with late whenever. It is in a
// transaction that has not written to vectors yet.
func (s *Store) index(ctx context.Context, dim int, late bool) error {
	if dim > mostIndexed {
		return nil
	}
	wanted := func() (bool, error) {
		r, err := s.ask(ctx, "SELECT "+pgvector+` AND to_regclass($1) IS NULL AND ($2 OR NOT EXISTS (SELECT FROM vectors WHERE dim = $3))
			AND (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'vectors'::regclass)`, indexOf(dim), late, dim)
		return err == nil && string(r.Rows[0][0]) == "t", err
	}
	if want, err := wanted(); err != nil || !want {
		return err
	}
	if err := s.run(ctx, makers); err != nil {
		return err
	}
	if want, err := wanted(); err != nil || !want { // somebody else has made it
		return err
	}
	return s.run(ctx, fmt.Sprintf("CREATE INDEX %s ON vectors USING hnsw ((vector::vector(%d)) vector_cosine_ops) WHERE dim = %[2]d", indexOf(dim), dim))
}

// byMeaning are the entries nearest to a query, best first; none if there are no vectors,
// or no model, which is told.
func (s *Store) byMeaning(ctx context.Context, query string) (near []memory.Entry, err error) {
	some := false
	err = s.read(ctx, func(ctx context.Context) error {
		some, err = s.fits(ctx, 0)
		return err
	})
	if err != nil || !some {
		return nil, err
	}
	v, err := s.meaning.OfQuery(ctx, query)
	if err != nil || v == nil {
		return nil, err
	}
	ids, err := s.nearest(ctx, v)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	all, err := s.entries(ctx, "WHERE "+ofAgent+" AND id = ANY($2)", s.o.Agent, "{"+strings.Join(ids, ",")+"}")
	for _, id := range ids {
		if i := slices.IndexFunc(all, func(e memory.Entry) bool { return e.ID == id }); i >= 0 {
			near = append(near, all[i])
		}
	}
	return near, err
}

// nearest are the ids of the entries whose vectors are the nearest: by pgvector's index,
// or else by comparing all of the agent's here.
func (s *Store) nearest(ctx context.Context, v []float32) (ids []string, err error) {
	err = s.read(ctx, func(ctx context.Context) error {
		if _, err := s.fits(ctx, len(v)); err != nil {
			return err
		}
		r, err := s.ask(ctx, "SELECT "+pgvector+" AND to_regclass($1) IS NOT NULL", indexOf(len(v)))
		if err != nil {
			return err
		}
		if string(r.Rows[0][0]) == "t" {
			ids, err = s.byIndex(ctx, v)
		} else {
			ids, err = s.byAll(ctx, v)
		}
		return err
	})
	return ids, err
}

// byIndex has pgvector find them. Its index knows nothing of agents: it goes on until it
// has enough of this one's, and is not used where that has few.
func (s *Store) byIndex(ctx context.Context, v []float32) (ids []string, err error) {
	err = s.transact(ctx, func() error {
		if err := s.run(ctx, "SET LOCAL hnsw.iterative_scan = strict_order; SET LOCAL hnsw.ef_search = 200"); err != nil {
			return err
		}
		r, err := s.ask(ctx, byDistance(len(v)), s.o.Agent, reals(v))
		if err != nil {
			return err
		}
		for _, row := range r.Rows {
			ids = append(ids, string(row[0]))
		}
		return nil
	})
	return ids, err
}

// byDistance is the statement for which there is the index.
func byDistance(dim int) string {
	return fmt.Sprintf("SELECT id FROM vectors WHERE "+ofAgent+" AND dim = %d ORDER BY vector::vector(%[1]d) <=> $2::real[]::vector(%[1]d) LIMIT %d", dim, memory.Fused)
}

type candidate struct {
	id   int64
	near float64
}

// byAll compares all of the agent's vectors. They come as bytes, one for each dimension.
func (s *Store) byAll(ctx context.Context, v []float32) (ids []string, err error) {
	var best []candidate
	r := s.conn.ExecParams(ctx, "SELECT id::text, small FROM vectors WHERE "+ofAgent, texts([]any{s.o.Agent}), nil, nil, []int16{0, 1})
	for r.NextRow() {
		row := r.Values()
		id, err := strconv.ParseInt(string(row[0]), 10, 64)
		if err != nil || len(row[1]) != len(v) {
			err = errors.Join(err, fault(errors.New("the embeddings are damaged"), "mbox memory embed --again makes them anew"))
			_, _ = r.Close()
			return nil, err
		}
		best = append(best, candidate{id, memory.Cosine(v, bytes.Clone(row[1]))})
	}
	if _, err := r.Close(); err != nil {
		return nil, err
	}
	slices.SortFunc(best, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.near, a.near), cmp.Compare(b.id, a.id)) })
	for _, c := range best[:min(len(best), memory.Fused)] {
		if !math.IsNaN(c.near) {
			ids = append(ids, strconv.FormatInt(c.id, 10))
		}
	}
	return ids, nil
}

// Embed makes the vectors of all entries that have none, or with again, and where the
// model has changed, of all. What it has made stays if it ends early; n is how many.
func (s *Store) Embed(ctx context.Context, again bool) (n int, err error) {
	if s.meaning.Off() {
		return 0, memory.ErrNoModel
	}
	if err := s.dropOthers(ctx, again); err != nil {
		return 0, err
	}
	for {
		todo, err := s.entries(ctx, "WHERE "+ofAgent+" AND NOT EXISTS (SELECT FROM vectors WHERE vectors.id = memories.id) ORDER BY id LIMIT $2", s.o.Agent, memory.EmbedAtOnce)
		if err != nil {
			return n, err
		}
		if len(todo) == 0 {
			return n, s.lateIndex(ctx)
		}
		all, err := s.meaning.OfEntries(ctx, todo)
		if err == nil {
			err = s.addVectors(ctx, todo, all)
		}
		if err != nil {
			return n, err
		}
		n += len(todo)
	}
}

const maxIndex = time.Hour // for an index of vectors that are there already

// lateIndex makes pgvector's index where the extension came later than the vectors.
func (s *Store) lateIndex(ctx context.Context) error {
	return s.within(ctx, maxIndex, func(ctx context.Context) error {
		if s.made == 0 {
			return nil
		}
		return s.transact(ctx, func() error {
			r, err := s.ask(ctx, "SELECT dim FROM vectors WHERE "+ofAgent+" LIMIT 1", s.o.Agent)
			if err != nil || len(r.Rows) == 0 {
				return err
			}
			dim, err := strconv.Atoi(string(r.Rows[0][0]))
			if err != nil {
				return err
			}
			return s.index(ctx, dim, true)
		})
	})
}

// dropOthers removes the agent's vectors, if they are of another model or again is set.
func (s *Store) dropOthers(ctx context.Context, again bool) error {
	return s.read(ctx, func(ctx context.Context) error {
		return s.transact(ctx, func() error {
			if _, err := s.fits(ctx, 0); !again && !errors.Is(err, memory.ErrModel) {
				return err
			}
			_, err := s.ask(ctx, "DELETE FROM vectors WHERE "+ofAgent, s.o.Agent)
			return err
		})
	})
}

// addVectors stores the vectors of entries that have none and are still there.
func (s *Store) addVectors(ctx context.Context, todo []memory.Entry, vectors [][]float32) error {
	return s.change(ctx, func(ctx context.Context, agent string) error {
		for i, e := range todo {
			r, err := s.ask(ctx, "SELECT FROM memories WHERE id = $1 AND NOT EXISTS (SELECT FROM vectors WHERE id = $1) FOR KEY SHARE", e.ID)
			if err == nil && len(r.Rows) > 0 {
				err = s.addVector(ctx, agent, e.ID, vectors[i])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
