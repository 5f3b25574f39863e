package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mbox/agents/memory"
	"mbox/agents/memory/memorytest"
)

// trigrams is an embedder of no model: texts are near that share groups of three letters.
type trigrams struct {
	model string
	dim   int
	err   error
	asked int
}

func (e *trigrams) Model() string { return e.model }

func (e *trigrams) Embed(_ context.Context, _ bool, texts ...string) (all [][]float32, err error) {
	e.asked++
	for _, text := range texts {
		v := make([]float32, e.dim)
		for word := range strings.FieldsSeq(strings.ToLower(text)) {
			word = " " + strings.Trim(word, ".,:?!") + " "
			for i := range len(word) - 2 {
				h := fnv.New64a()
				h.Write([]byte(word[i : i+3]))
				r := rand.New(rand.NewPCG(h.Sum64(), 0))
				for d := range v {
					v[d] += float32(r.NormFloat64())
				}
			}
		}
		all = append(all, v)
	}
	return all, e.err
}

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

// Without a model all is as with words alone, and told once.
func TestSQLiteWithoutModel(t *testing.T) {
	memorytest.Suite(t, func(dir string) memorytest.Open {
		path := filepath.Join(dir, "memory.db")
		return func(t testing.TB, agent string) memory.Store {
			s, _ := hybrid(t, path, agent, &trigrams{model: "away", err: errors.New("no server")})
			return s
		}
	})
	t.Run("Told", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "memory.db")
		e := &trigrams{model: "m", dim: 128}
		s, warned := hybrid(t, path, "coder", e)
		add(t, s, "one", "the deployment")
		e.err = errors.New("no server")
		add(t, s, "two", "the harbour")
		if keys := recalled(t, s, "harbour", 5); len(keys) != 1 || keys[0] != "two" {
			t.Errorf("recalled %v", keys)
		}
		if len(*warned) != 1 || !errors.Is((*warned)[0], e.err) {
			t.Errorf("warned %v", *warned)
		}
		e.err = nil
		if n, err := s.Embed(t.Context(), false); n != 1 || err != nil {
			t.Errorf("embedded %d later, %v", n, err)
		}
		if keys := recalled(t, s, "harbor", 1); len(keys) != 1 || keys[0] != "two" {
			t.Errorf("recalled by its later vector: %v", keys)
		}
	})
}

// What shares no word with the query is found by its vector; what both find comes first.
// Other agents' are not found.
func TestHybrid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	e := &trigrams{model: "m", dim: 200}
	other, _ := hybrid(t, path, "tester", e)
	add(t, other, "theirs", "deploying on tuesday")
	s, warned := hybrid(t, path, "coder", e)
	if keys := recalled(t, s, "deploying", 5); len(keys) > 0 || e.asked != 1 {
		t.Errorf("without vectors: %v, asked %d times", keys, e.asked)
	}
	for i := range 300 {
		add(t, s, fmt.Sprint("filler", i), fmt.Sprint("something else ", i*7919))
	}
	add(t, s, "meant", "redeployments happen weekly")
	add(t, s, "both", "deploying weekly")
	found, err := s.Recall(t.Context(), "deploying weekly", 2)
	if err != nil || len(found) != 2 || found[0].Key != "both" || found[0].Score != 1 || found[1].Key != "meant" || found[1].Score >= 1 {
		t.Errorf("recalled %+v, %v", found, err)
	}
	if keys := recalled(t, s, "deployment", 1); len(keys) != 1 || keys[0] != "meant" {
		t.Errorf("by meaning alone: %v", keys)
	}
	if len(*warned) > 0 {
		t.Errorf("warned %v", *warned)
	}
}

// Others' entries never take the places of an agent's own.
func TestIsolatedVectors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	e := &trigrams{model: "m", dim: 64}
	s, _ := hybrid(t, path, "coder", e)
	other, _ := hybrid(t, path, "tester", e)
	add(t, s, "mine", "something else")
	for range rescored + 1 {
		add(t, other, "theirs", "the harbour")
	}
	if keys := recalled(t, s, "harbours", 5); len(keys) != 1 || keys[0] != "mine" {
		t.Errorf("recalled %v", keys)
	}
}

// Vectors of two models are never compared: that is told, nothing is lost, and Embed
// makes them anew.
func TestModelChanges(t *testing.T) {
	for name, changed := range map[string]*trigrams{"model": {model: "new", dim: 128}, "dimension": {model: "old", dim: 64}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "memory.db")
			s, _ := hybrid(t, path, "coder", &trigrams{model: "old", dim: 128})
			add(t, s, "deploys", "on tuesday")
			s, warned := hybrid(t, path, "coder", changed)
			if _, err := s.Recall(t.Context(), "tuesday", 5); !errors.Is(err, memory.ErrModel) || !strings.Contains(err.Error(), "128") {
				t.Errorf("recall: %v", err)
			}
			add(t, s, "harbour", "is closed")
			if len(*warned) != 1 || !errors.Is((*warned)[0], memory.ErrModel) {
				t.Errorf("warned %v", *warned)
			}
			if n, err := s.Embed(t.Context(), name == "dimension"); n != 2 || err != nil {
				t.Errorf("embedded %d, %v", n, err)
			}
			if keys := recalled(t, s, "harbor", 1); len(keys) != 1 || keys[0] != "harbour" {
				t.Errorf("recalled %v", keys)
			}
		})
	}
}

// The vector of what is forgotten is in no byte of the database.
func TestForgottenVectorIsInNoFile(t *testing.T) {
	dir := t.TempDir()
	e := &trigrams{model: "m", dim: 768}
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
	s, _ = hybrid(t, path, "coder", &trigrams{model: "m", dim: 64})
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

// known are entries, and for each a question that it alone answers.
var known = [][2]string{
	{"The deployment runs on Tuesday evening", "when do we deploy"},
	{"Anna approves every invoice", "who approved invoices"},
	{"The database is backed up hourly", "how often do backups happen"},
	{"Customers in Norway pay in kroner", "Norwegian payments"},
	{"The staging certificate expires in March", "certificates expiring"},
	{"Logs are kept for ninety days", "logging retention"},
	{"The linter refuses unused imports", "linting rules"},
	{"Searching the archive needs an index", "indexed archives"},
	{"Peter translates the manual into German", "translation of manuals"},
	{"The printer on floor two is broken", "printing"},
	{"Passwords rotate every quarter", "password rotation"},
	{"Our migration from Jenkins has finished", "migrating off Jenkins"},
	{"Benchmarks are measured on two cores", "benchmarking measurement"},
	{"The webhook is authenticated by a signature", "authentication of webhooks"},
	{"Meetings were cancelled in August", "cancelling a meeting"},
	{"Caching made the dashboard faster", "caches"},
}

// Hybrid recall finds at first what words alone do not.
func TestQuality(t *testing.T) {
	dir := t.TempDir()
	first := func(s *Store) (n int) {
		for i, k := range known {
			add(t, s, fmt.Sprint(i), k[0])
		}
		for i, k := range known {
			if keys := recalled(t, s, k[1], 1); len(keys) == 1 && keys[0] == fmt.Sprint(i) {
				n++
			}
		}
		return n
	}
	both, _ := hybrid(t, filepath.Join(dir, "hybrid.db"), "coder", &trigrams{model: "trigrams", dim: 768})
	words, hybrid := first(open(t, filepath.Join(dir, "words.db"), "coder")), first(both)
	t.Logf("of %d questions the right entry comes first: words %d, hybrid of words and trigrams %d", len(known), words, hybrid)
	if hybrid <= words {
		t.Error("hybrid recall is no better than words alone")
	}
}

// BenchmarkHybridRecall recalls from 100,000 entries with vectors of 768 dimensions.
func BenchmarkHybridRecall(b *testing.B) {
	e := &trigrams{model: "m", dim: 768}
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
