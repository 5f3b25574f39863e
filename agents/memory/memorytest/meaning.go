package memorytest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"

	"mbox/agents/memory"
)

// Trigrams is an embedder of no model: texts are near that share groups of three letters.
type Trigrams struct {
	Name  string // of the model
	Dim   int    // of its vectors
	Err   error  // what it answers instead
	Asked int    // how often it was
}

var _ memory.Embedder = (*Trigrams)(nil)

// Model is the name.
func (e *Trigrams) Model() string { return e.Name }

// Embed implements [memory.Embedder].
func (e *Trigrams) Embed(_ context.Context, _ bool, texts ...string) (all [][]float32, err error) {
	e.Asked++
	for _, text := range texts {
		v := make([]float32, e.Dim)
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
	return all, e.Err
}

// OpenWith opens the store of an agent that finds by meaning with an embedder, and tells
// warn where it does not.
type OpenWith func(t testing.TB, agent string, e memory.Embedder, warn func(error)) memory.Store

// Meaning runs the tests of stores that find by meaning, each in a new folder.
func Meaning(t *testing.T, in func(dir string) OpenWith) {
	for name, test := range map[string]func(t *testing.T, open OpenWith){
		"Hybrid": hybrid, "Told": told, "IsolatedVectors": isolatedVectors, "ModelChanges": modelChanges, "Quality": quality,
	} {
		t.Run(name, func(t *testing.T) { test(t, in(t.TempDir())) })
	}
}

// meant is a memory whose store finds by meaning, and what it has warned of.
func meant(t *testing.T, open OpenWith, agent string, e memory.Embedder) (*memory.Memory, *[]error) {
	t.Helper()
	warned := new([]error)
	return memoryOf(t, func(t testing.TB, agent string) memory.Store {
		return open(t, agent, e, func(err error) { *warned = append(*warned, err) })
	}, agent), warned
}

func keys(t *testing.T, m *memory.Memory, query string, limit int) (all []string) {
	t.Helper()
	found, err := m.Recall(t.Context(), query, limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		all = append(all, e.Key)
	}
	return all
}

// What shares no word with the query is found by its vector; what both find comes first.
// What was forgotten is not found.
func hybrid(t *testing.T, open OpenWith) {
	e := &Trigrams{Name: "m", Dim: 200}
	m, warned := meant(t, open, "coder", e)
	same(t, "without vectors", keys(t, m, "deploying", 5), nil)
	for i := range 150 {
		add(t, m, memory.Core, fmt.Sprint("filler", i), fmt.Sprint("something else ", i*7919))
	}
	add(t, m, memory.Core, "meant", "redeployments happen weekly")
	both := add(t, m, memory.Core, "both", "deploying weekly")
	found, err := m.Recall(t.Context(), "deploying weekly", 2)
	if err != nil || len(found) != 2 || found[0].Key != "both" || found[0].Score != 1 || found[1].Key != "meant" || found[1].Score >= 1 {
		t.Errorf("recalled %+v, %v", found, err)
	}
	same(t, "by meaning alone", keys(t, m, "deployment", 1), []string{"meant"})
	if err := m.Forget(t.Context(), both.ID); err != nil {
		t.Fatal(err)
	}
	same(t, "forgotten", keys(t, m, "deploying", 1), []string{"meant"})
	same(t, "warned", *warned, nil)
}

// Without the model all is as with words alone, and told once. The vector can come later.
func told(t *testing.T, open OpenWith) {
	e := &Trigrams{Name: "m", Dim: 128}
	m, warned := meant(t, open, "coder", e)
	add(t, m, memory.Core, "one", "the deployment")
	e.Err = errors.New("no server")
	add(t, m, memory.Core, "two", "the harbour")
	same(t, "by words", keys(t, m, "harbour", 5), []string{"two"})
	if len(*warned) != 1 || !errors.Is((*warned)[0], e.Err) {
		t.Errorf("warned %v", *warned)
	}
	e.Err = nil
	if n, err := m.Embed(t.Context(), false); n != 1 || err != nil {
		t.Errorf("embedded %d later, %v", n, err)
	}
	same(t, "by its later vector", keys(t, m, "harbor", 1), []string{"two"})
}

// Others' entries never take the places of an agent's own.
func isolatedVectors(t *testing.T, open OpenWith) {
	e := &Trigrams{Name: "m", Dim: 64}
	m, _ := meant(t, open, "coder", e)
	other, _ := meant(t, open, "tester", e)
	add(t, m, memory.Core, "mine", "something else")
	for range 2*memory.Fused + 1 {
		add(t, other, memory.Core, "theirs", "the harbour")
	}
	same(t, "recalled", keys(t, m, "harbours", 5), []string{"mine"})
}

// Vectors of two models are never compared: that is told, nothing is lost, and Embed
// makes them anew.
func modelChanges(t *testing.T, open OpenWith) {
	for what, changed := range map[string]*Trigrams{"model": {Name: "new", Dim: 128}, "dimension": {Name: "old", Dim: 64}} {
		m, _ := meant(t, open, what, &Trigrams{Name: "old", Dim: 128})
		add(t, m, memory.Core, "deploys", "on tuesday")
		m, warned := meant(t, open, what, changed)
		if _, err := m.Recall(t.Context(), "tuesday", 5); !errors.Is(err, memory.ErrModel) || !strings.Contains(err.Error(), "128") {
			t.Errorf("%s: recall: %v", what, err)
		}
		add(t, m, memory.Core, "harbour", "is closed")
		if len(*warned) != 1 || !errors.Is((*warned)[0], memory.ErrModel) {
			t.Errorf("%s: warned %v", what, *warned)
		}
		if n, err := m.Embed(t.Context(), what == "dimension"); n != 2 || err != nil {
			t.Errorf("%s: embedded %d, %v", what, n, err)
		}
		same(t, what, keys(t, m, "harbor", 1), []string{"harbour"})
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
func quality(t *testing.T, open OpenWith) {
	first := func(m *memory.Memory) (n int) {
		for i, k := range known {
			add(t, m, memory.Core, fmt.Sprint(i), k[0])
		}
		for i, k := range known {
			if found := keys(t, m, k[1], 1); len(found) == 1 && found[0] == fmt.Sprint(i) {
				n++
			}
		}
		return n
	}
	words, _ := meant(t, open, "words", nil)
	both, _ := meant(t, open, "both", &Trigrams{Name: "trigrams", Dim: 768})
	byWords, byBoth := first(words), first(both)
	t.Logf("of %d questions the right entry comes first: words %d, hybrid of words and trigrams %d", len(known), byWords, byBoth)
	if byBoth <= byWords {
		t.Error("hybrid recall is no better than words alone")
	}
}
