package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mbox/agents/memory"
	"mbox/agents/memory/memorytest"
)

// hybrid opens a store with embeddings, and tells how often it has warned.
func hybrid(t testing.TB, path, agent string, e memory.Embedder) (*Store, *[]error) {
	t.Helper()
	s, warned := open(t, path, agent), new([]error)
	s.UseEmbeddings(e, func(err error) { *warned = append(*warned, err) })
	return s, warned
}

func recalled(t testing.TB, s *Store, query string, limit int) (keys []string) {
	t.Helper()
	found, err := s.Recall(t.Context(), query, limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		keys = append(keys, e.Key)
	}
	return keys
}

// Without a model all is as with words alone.
func TestSQLiteWithoutModel(t *testing.T) {
	memorytest.Suite(t, func(dir string) memorytest.Open {
		path := filepath.Join(dir, "memory.db")
		return func(t testing.TB, agent string) memory.Store {
			s, _ := hybrid(t, path, agent, &memorytest.Trigrams{Name: "away", Err: errors.New("no server")})
			return s
		}
	})
}

func TestMeaning(t *testing.T) {
	memorytest.Meaning(t, func(dir string) memorytest.OpenWith {
		return func(t testing.TB, agent string, e memory.Embedder, warn func(error)) memory.Store {
			s := open(t, filepath.Join(dir, "memory.db"), agent)
			s.UseEmbeddings(e, warn)
			return s
		}
	})
}

// The vector of what is forgotten is in no byte of the database.
func TestForgottenVectorIsInNoFile(t *testing.T) {
	dir := t.TempDir()
	e := &memorytest.Trigrams{Name: "m", Dim: 768}
	s, _ := hybrid(t, filepath.Join(dir, "memory.db"), "coder", e)
	add(t, s, "stays", "a text")
	id := add(t, s, "goes", "the secret harbour")
	v, err := e.Embed(t.Context(), false, "goes: the secret harbour")
	if err != nil {
		t.Fatal(err)
	}
	var sign bytes.Buffer
	for _, word := range signs(v[0])[:4] {
		for i := range 8 {
			sign.WriteByte(byte(word >> (8 * i)))
		}
	}
	parts := map[string]string{"vector": string(memory.Quantised(v[0])[:64]), "signs": sign.String()}
	for what, part := range parts {
		if len(raw(t, dir, part)) != 1 {
			t.Fatalf("the %s was never there", what)
		}
	}
	if err := s.Forget(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for what, part := range parts {
		if in := raw(t, dir, part); len(in) > 0 {
			t.Errorf("the %s is still in %v", what, in)
		}
	}
	if keys := recalled(t, s, "harbour", 5); len(keys) != 1 || keys[0] != "stays" {
		t.Errorf("recalled %v", keys)
	}
}

// raw tells in which files of a folder some bytes stand.
func raw(t *testing.T, dir, part string) (in []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), part) {
			in = append(in, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// A database of the first version is read as it is, and made one of this version by what
// writes.
func TestFirstVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	s := open(t, path, "coder")
	add(t, s, "old", "the harbour")
	for _, do := range []string{"DROP TABLE vectors", "DROP TABLE signs", "PRAGMA user_version = 1"} {
		if _, err := s.db.Exec(do); err != nil {
			t.Fatal(err)
		}
	}
	s, _ = hybrid(t, path, "coder", &memorytest.Trigrams{Name: "m", Dim: 64})
	if keys := recalled(t, s, "harbour", 5); len(keys) != 1 {
		t.Errorf("before: %v", keys)
	}
	if v, err := s.made(t.Context()); v != 1 || err != nil {
		t.Errorf("reading has made version %d, %v", v, err)
	}
	if n, err := s.Embed(t.Context(), false); n != 1 || err != nil {
		t.Errorf("embedded %d, %v", n, err)
	}
	if keys := recalled(t, s, "harbor", 1); len(keys) != 1 {
		t.Errorf("after: %v", keys)
	}
}

// BenchmarkHybridRecall recalls from 100,000 entries with vectors of 768 dimensions.
func BenchmarkHybridRecall(b *testing.B) {
	e := &memorytest.Trigrams{Name: "m", Dim: 768}
	s, _ := hybrid(b, filepath.Join(b.TempDir(), "memory.db"), "coder", e)
	const n = 100_000
	filled(b, s, n-1, func(i int) string { return fmt.Sprintf("w%d w%d w%d", i%2, i%1000, i) })
	embedded(b, s, n)
	for _, query := range []string{"w1", "w1 w777", "nothing of that"} {
		b.Run(fmt.Sprintf("%q", query), func(b *testing.B) {
			for b.Loop() {
				if found, err := s.Recall(context.Background(), query, 5); err != nil || len(found) != 5 {
					b.Fatal(found, err)
				}
			}
		})
	}
}

// embedded gives the entries 2 to n random vectors.
func embedded(b *testing.B, s *Store, n int) {
	tx, err := s.db.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	agent, err := s.uuidOf(b.Context(), tx)
	r := rand.New(rand.NewPCG(1, 2))
	v := make([]float32, 768)
	for id := int64(2); id <= int64(n) && err == nil; id++ {
		for d := range v {
			v[d] = float32(r.NormFloat64())
		}
		err = s.addVector(b.Context(), tx, agent, id, v)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		b.Fatal(err)
	}
}
