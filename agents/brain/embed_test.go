package brain

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mbox/agents/brain/ollamatest"
)

// A real server makes a vector for each text, and the same one for the same text.
func TestEmbed(t *testing.T) {
	s := ollama(t)
	s.Create("tiny-embed", ollamatest.Embedder(1), "", nil)
	o, err := NewOllama(Options{URL: s.URL, Model: "tiny-embed"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := o.Embed(t.Context(), false, "one text", "another", "one text")
	if err != nil || len(all) != 3 || len(all[0]) == 0 {
		t.Fatalf("%v, %v", all, err)
	}
	if fmt.Sprint(all[0]) != fmt.Sprint(all[2]) || fmt.Sprint(all[0]) == fmt.Sprint(all[1]) {
		t.Errorf("vectors %v", all)
	}
	o, err = NewOllama(Options{URL: s.URL, Model: "missing"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Embed(t.Context(), false, "text"); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a model that is not there: %v", err)
	}
}

// What is no vector is refused, and the model of nomic gets the marks that it knows.
func TestEmbedRefuses(t *testing.T) {
	var answer string
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		asked = request.Input
		fmt.Fprint(w, answer)
	}))
	defer s.Close()
	o, err := NewOllama(Options{URL: s.URL, Model: "nomic-embed-text"})
	if err != nil {
		t.Fatal(err)
	}
	for reply, want := range map[string]string{
		`{"embeddings":[[1,2]]}`:       "1 embeddings for 2 texts",
		`{"embeddings":[[1,2],[1]]}`:   "has 1 dimensions",
		`{"embeddings":[[],[]]}`:       "has 0 dimensions",
		`{"embeddings":[[1],[2]],`:     "",
		`{"embeddings":[[1e99],[1]]}`:  "",
		`{"embeddings":[["x"],["y"]]}`: "",
	} {
		answer = reply
		if _, err := o.Embed(t.Context(), false, "a", "b"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", reply, err)
		}
	}
	if strings.Join(asked, "|") != "search_document: a|search_document: b" {
		t.Errorf("asked for %q", asked)
	}
	answer = `{"embeddings":[[1,2]]}`
	if all, err := o.Embed(t.Context(), true, "a"); err != nil || len(all) != 1 || asked[0] != "search_query: a" {
		t.Errorf("a question: %v, %v, %q", all, err, asked)
	}
}
