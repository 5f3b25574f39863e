package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"mbox/agents/memory"
	"mbox/agents/memory/memorytest"
	"mbox/agents/memory/postgres/postgrestest"
)

// hybrid opens a store with embeddings, and tells how often it has warned.
func hybrid(t testing.TB, url, agent string, e memory.Embedder) (*Store, *[]error) {
	t.Helper()
	s, warned := open(t, url, agent), new([]error)
	s.UseEmbeddings(e, func(err error) { *warned = append(*warned, err) })
	return s, warned
}

// By comparing all vectors, and by pgvector's index where the server can have it, meaning
// finds the same.
func TestMeaning(t *testing.T) {
	for _, with := range []bool{false, true} {
		t.Run(fmt.Sprintf("pgvector=%t", with), func(t *testing.T) {
			if with && !postgrestest.Pgvector(t) {
				t.Skip("the server cannot have pgvector, which Debian 12 has no package of: install postgresql-NN-pgvector")
			}
			memorytest.Meaning(t, func(dir string) memorytest.OpenWith {
				url := postgrestest.Database(t, dir)
				if with {
					postgrestest.Superuser(t, postgrestest.Name(url), "CREATE EXTENSION vector")
				}
				return func(t testing.TB, agent string, e memory.Embedder, warn func(error)) memory.Store {
					s := open(t, url, agent)
					s.UseEmbeddings(e, warn)
					return s
				}
			})
		})
	}
}

// The index is made with the first vector, is used where an agent has many, and is made
// late where the extension comes late.
func TestIndex(t *testing.T) {
	if !postgrestest.Pgvector(t) {
		t.Skip("the server cannot have pgvector, which Debian 12 has no package of: install postgresql-NN-pgvector")
	}
	url := own(t)
	e := &memorytest.Trigrams{Name: "m", Dim: 64}
	s, warned := hybrid(t, url, "coder", e)
	const there = "SELECT FROM pg_indexes WHERE indexname = 'vectors_near_64'"
	add(t, s, "first", "the harbour")
	if postgrestest.Run(t, url, there) != 0 {
		t.Fatal("an index without the extension")
	}
	postgrestest.Superuser(t, postgrestest.Name(url), "CREATE EXTENSION vector")
	add(t, s, "second", "the harbour")
	if postgrestest.Run(t, url, there) != 0 {
		t.Error("an index is made where there are vectors")
	}
	if n, err := s.Embed(t.Context(), false); n != 0 || err != nil {
		t.Errorf("embedded %d, %v", n, err)
	}
	if postgrestest.Run(t, url, there) != 1 {
		t.Error("no late index")
	}
	postgrestest.Run(t, url, `DROP INDEX vectors_near_64; DELETE FROM memories`)
	add(t, s, "third", "the lighthouse")
	if postgrestest.Run(t, url, there) != 1 {
		t.Error("no index with the first vector")
	}
	filledVectors(t, url, "coder", 2000, 64)
	found, err := s.Recall(t.Context(), "lighthouses", 1)
	if err != nil || len(found) != 1 || found[0].Key != "third" {
		t.Errorf("recalled %v, %v", found, err)
	}
	plan, err := s.ask(t.Context(), "SELECT set_config('enable_sort', 'off', false)") // of so few it would sort all
	if err == nil {
		plan, err = s.ask(t.Context(), "EXPLAIN "+byDistance(64), "coder", reals(make([]float32, 64)))
	}
	if err != nil || !strings.Contains(fmt.Sprintf("%s", plan.Rows), "Index Scan using vectors_near_64") {
		t.Errorf("the index is not used: %s, %v", plan.Rows, err)
	}
	if len(*warned) > 0 {
		t.Errorf("warned %v", *warned)
	}
}

// filledVectors adds entries with vectors by chance.
func filledVectors(t testing.TB, url, agent string, n, dim int) {
	t.Helper()
	postgrestest.Run(t, url, fmt.Sprintf(`WITH new AS (INSERT INTO memories (agent_id, category, key, content, at, author, task, words)
			SELECT uuid, 'core', 'key', 'w' || n %% 2 || ' w' || n %% 1000 || ' w' || n, 1771237800123 + n, 'human', '',
				to_tsvector('simple', 'key w' || n %% 2 || ' w' || n %% 1000 || ' w' || n)
			FROM agents, generate_series(1, %d) n WHERE alias = '%s' RETURNING id, agent_id),
		made AS (SELECT id, agent_id, ARRAY(SELECT (random() - 0.5)::real FROM generate_series(1, %d + id * 0)) AS vector FROM new)
		INSERT INTO vectors (id, agent_id, model, dim, vector, small)
		SELECT id, agent_id, 'm', %[3]d, vector,
			decode((SELECT string_agg(lpad(to_hex((x * 254)::int & 255), 2, '0'), '') FROM unnest(vector) x), 'hex') FROM made`, n, agent, dim))
	postgrestest.Run(t, url, "ANALYZE")
}

// BenchmarkRecall recalls from 100,000 entries with vectors of 768 dimensions, of which
// some words are in half of all and some in one of a thousand.
func BenchmarkRecall(b *testing.B) {
	url := postgrestest.Database(b, b.Name()) + "&maintenance_work_mem=1GB"
	s, _ := hybrid(b, url, "coder", &memorytest.Trigrams{Name: "m", Dim: 768})
	add(b, s, "first", "entry")
	filledVectors(b, url, "coder", 100_000, 768)
	for _, with := range []bool{false, true} {
		if with && !postgrestest.Pgvector(b) {
			b.Log("without pgvector")
			continue
		}
		if with {
			postgrestest.Superuser(b, postgrestest.Name(url), "CREATE EXTENSION vector")
			if _, err := s.Embed(b.Context(), false); err != nil {
				b.Fatal(err)
			}
		}
		for _, query := range []string{"", "w1", "w1 w777", "nothing of that"} {
			b.Run(fmt.Sprintf("pgvector=%t/%q", with, query), func(b *testing.B) {
				for b.Loop() {
					if found, err := s.Recall(context.Background(), query, 5); err != nil || len(found) != 5 {
						b.Fatal(found, err)
					}
				}
			})
		}
	}
}
