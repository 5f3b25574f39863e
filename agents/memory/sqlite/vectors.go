package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"mbox/agents/memory"
)

const (
	perBlock = 128 // ids of one row of signs
	rescored = 200 // entries of the fewest different signs, that are compared whole
)

// UseEmbeddings has recall find by meaning too. warn is told, once, when there is no
// vector to be had: then words alone count.
func (s *Store) UseEmbeddings(e memory.Embedder, warn func(error)) { s.meaning.Use(e, warn) }

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// fits returns ErrModel if the agent has vectors of another model or length. some
// tells whether it has any.
func (s *Store) fits(ctx context.Context, q querier, dim int) (some bool, err error) {
	var model string
	var have int
	err = q.QueryRowContext(ctx, "SELECT m.model, m.dim FROM vectors m WHERE "+ofAgent+" LIMIT 1", s.alias).Scan(&model, &have)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, s.about(err)
	}
	return true, s.meaning.Fits(model, have, dim)
}

// addVector stores the vector of an entry, and its signs with those of its neighbours.
func (s *Store) addVector(ctx context.Context, tx *sql.Tx, agent string, id int64, v []float32) error {
	if _, err := s.fits(ctx, tx, len(v)); errors.Is(err, memory.ErrModel) {
		s.meaning.TellKept(err)
		return nil
	} else if err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO vectors (id, agent_id, model, dim, vector) VALUES (?, ?, ?, ?, ?)",
		id, agent, s.meaning.Model(), len(v), memory.Quantised(v))
	if err != nil {
		return err
	}
	var block []byte
	err = tx.QueryRowContext(ctx, "SELECT data FROM signs WHERE agent_id = ? AND block = ?", agent, id/perBlock).Scan(&block)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	block = binary.LittleEndian.AppendUint64(block, uint64(id))
	for _, word := range signs(v) {
		block = binary.LittleEndian.AppendUint64(block, word)
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO signs (agent_id, block, data) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET data = excluded.data", agent, id/perBlock, block)
	return err
}

// dropVector removes what is there of an entry's vector.
func (s *Store) dropVector(ctx context.Context, tx *sql.Tx, id int64) error {
	var agent string
	var dim int
	err := tx.QueryRowContext(ctx, "DELETE FROM vectors AS m WHERE m.id = ? AND "+ofAgent+" RETURNING agent_id, dim", id, s.alias).Scan(&agent, &dim)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	var block, left []byte
	if err := tx.QueryRowContext(ctx, "SELECT data FROM signs WHERE agent_id = ? AND block = ?", agent, id/perBlock).Scan(&block); err != nil {
		return err
	}
	for record := range slices.Chunk(block, recordSize(dim)) {
		if binary.LittleEndian.Uint64(record) != uint64(id) {
			left = append(left, record...)
		}
	}
	if len(left) == 0 {
		_, err = tx.ExecContext(ctx, "DELETE FROM signs WHERE agent_id = ? AND block = ?", agent, id/perBlock)
		return err
	}
	_, err = tx.ExecContext(ctx, "UPDATE signs SET data = ? WHERE agent_id = ? AND block = ?", left, agent, id/perBlock)
	return err
}

// recordSize is how many bytes an entry has in a row of signs: its id, and one bit a dimension.
func recordSize(dim int) int { return 8 + (dim+63)/64*8 }

// signs are one bit for each dimension: whether it is above zero.
func signs(v []float32) []uint64 {
	out := make([]uint64, (len(v)+63)/64)
	for i, x := range v {
		if x > 0 {
			out[i/64] |= 1 << (i % 64)
		}
	}
	return out
}

type candidate struct {
	id   int64
	near float64
}

// byMeaning are the entries nearest to a query, best first; none if there are no vectors,
// or no model, which is told.
func (s *Store) byMeaning(ctx context.Context, query string) (near []memory.Entry, err error) {
	if v, err := s.made(ctx); err != nil || v < 2 {
		return nil, err
	}
	if some, err := s.fits(ctx, s.db, 0); err != nil || !some {
		return nil, err
	}
	v, err := s.meaning.OfQuery(ctx, query)
	if err != nil || v == nil {
		return nil, err
	}
	if _, err := s.fits(ctx, s.db, len(v)); err != nil {
		return nil, err
	}
	found, err := s.bySigns(ctx, v)
	if err == nil {
		found, err = s.rescore(ctx, v, found)
	}
	if err != nil {
		return nil, err
	}
	all, err := s.query(ctx, "SELECT "+columns+" FROM memories m WHERE "+ofAgent+" AND m.id IN ("+list(found)+")", s.alias)
	for _, c := range found {
		id := strconv.FormatInt(c.id, 10)
		if i := slices.IndexFunc(all, func(e memory.Entry) bool { return e.ID == id }); i >= 0 {
			near = append(near, all[i])
		}
	}
	return near, err
}

// bySigns are the entries whose signs differ least.
func (s *Store) bySigns(ctx context.Context, v []float32) ([]candidate, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT m.data FROM signs m WHERE "+ofAgent, s.alias)
	if err != nil {
		return nil, s.about(err)
	}
	defer rows.Close()
	want, size := signs(v), recordSize(len(v))
	by := make([][]int64, len(want)*64+1) // the ids, by how many signs differ
	var block sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&block); err != nil {
			return nil, s.about(err)
		}
		if len(block)%size != 0 {
			return nil, fmt.Errorf("%s: the signs of the embeddings are damaged; mbox memory embed --again makes them anew", s.path)
		}
		for record := range slices.Chunk([]byte(block), size) {
			n := differing(want, record[8:])
			by[n] = append(by[n], int64(binary.LittleEndian.Uint64(record)))
		}
	}
	return first(by, rescored), s.about(rows.Err())
}

// differing is how many signs differ.
func differing(want []uint64, have []byte) (n int) {
	for i, word := range want {
		n += bits.OnesCount64(word ^ binary.LittleEndian.Uint64(have[i*8:]))
	}
	return n
}

// first are the first n of lists, the highest of a list first: those are the newest.
func first(lists [][]int64, n int) (out []candidate) {
	for _, ids := range lists {
		slices.SortFunc(ids, func(a, b int64) int { return cmp.Compare(b, a) })
		for _, id := range ids[:min(len(ids), n-len(out))] {
			out = append(out, candidate{id: id})
		}
		if len(out) == n {
			break
		}
	}
	return out
}

// nearest sorts what is nearest to the front, and cuts the rest.
func nearest(all []candidate, n int) []candidate {
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.near, a.near), cmp.Compare(b.id, a.id)) })
	return all[:min(len(all), n)]
}

// rescore compares the whole vectors.
func (s *Store) rescore(ctx context.Context, v []float32, found []candidate) (out []candidate, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT m.id, m.vector FROM vectors m WHERE "+ofAgent+" AND m.id IN ("+list(found)+")", s.alias)
	if err != nil {
		return nil, s.about(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var stored sql.RawBytes
		if err := rows.Scan(&id, &stored); err != nil {
			return nil, s.about(err)
		}
		if len(stored) == len(v) {
			out = append(out, candidate{id, memory.Cosine(v, stored)})
		}
	}
	return nearest(out, memory.Fused), s.about(rows.Err())
}

// list is the ids for an expression of SQL.
func list(found []candidate) string {
	var ids []string
	for _, c := range found {
		ids = append(ids, strconv.FormatInt(c.id, 10))
	}
	return strings.Join(ids, ", ")
}

// Embed makes the vectors of all entries that have none, or with again, and where the
// model has changed, of all. What it has made stays if it ends early; n is how many.
func (s *Store) Embed(ctx context.Context, again bool) (n int, err error) {
	if s.meaning.Off() {
		return 0, memory.ErrNoModel
	}
	if there, err := s.there(ctx); err != nil || !there {
		return 0, err
	}
	if err := s.dropOthers(ctx, again); err != nil {
		return 0, err
	}
	for {
		todo, err := s.query(ctx, "SELECT "+columns+" FROM memories m WHERE "+ofAgent+" AND m.id NOT IN (SELECT id FROM vectors) ORDER BY m.id LIMIT ?", s.alias, memory.EmbedAtOnce)
		if err != nil || len(todo) == 0 {
			return n, err
		}
		all, err := s.meaning.OfEntries(ctx, todo)
		if err != nil {
			return n, err
		}
		if err := s.addVectors(ctx, todo, all); err != nil {
			return n, err
		}
		n += len(todo)
	}
}

// dropOthers removes the agent's vectors, if they are of another model or again is set.
func (s *Store) dropOthers(ctx context.Context, again bool) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if _, err := s.uuidOf(ctx, tx); err != nil { // makes the tables of this version
			return err
		}
		if _, err := s.fits(ctx, tx, 0); !again && !errors.Is(err, memory.ErrModel) {
			return err
		}
		for _, table := range []string{"vectors", "signs"} {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" AS m WHERE "+ofAgent, s.alias); err != nil {
				return err
			}
		}
		return nil
	})
}

// addVectors stores the vectors of entries that have none and are still there.
func (s *Store) addVectors(ctx context.Context, todo []memory.Entry, vectors [][]float32) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		agent, err := s.uuidOf(ctx, tx)
		for i := 0; i < len(todo) && err == nil; i++ {
			var id int64
			err = tx.QueryRowContext(ctx, "SELECT id FROM memories WHERE id = ? AND id NOT IN (SELECT id FROM vectors)", todo[i].ID).Scan(&id)
			if errors.Is(err, sql.ErrNoRows) {
				err = nil
				continue
			}
			if err == nil {
				_, err = s.fits(ctx, tx, len(vectors[i]))
			}
			if err == nil {
				err = s.addVector(ctx, tx, agent, id, vectors[i])
			}
		}
		return err
	})
}
