package gateway

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json"
)

// Requests are made of what openapi.json says of them, most of their values as it says
// and some not. Each is answered as it says, and never by a mistake of mbox's own.
func TestGeneratedRequests(t *testing.T) {
	n := 800
	if os.Getenv("MBOX_TORTURE") != "" {
		n = 20_000
	}
	p := newPlace(t)
	doc := p.description()
	g := &generator{Rand: rand.New(rand.NewPCG(1, uint64(n))), ids: []string{p.ended(), string(p.sent("o", titled("x", "coder")))}}
	type operation struct {
		path, method string
		item         *openapi3.PathItem
	}
	var all []operation
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			if path != "/events" && path != "/mcp" && path != "/verify" { // without an end, of another protocol, slow
				all = append(all, operation{path, method, item})
			}
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	answers, well := map[int]int{}, map[string]bool{}
	for range n {
		o := all[g.IntN(len(all))]
		path, in, body := g.request(o.path, o.item.GetOperation(o.method))
		w := p.ask([]string{"o", "o", "r", "a", ""}[g.IntN(5)], o.method, path, body)
		answers[w.Code]++
		if w.Code >= 500 && o.path != "/health" {
			t.Fatalf("%s %s %.300q: %d: %s", o.method, path, body, w.Code, w.Body)
		}
		if w.Code < 300 {
			well[o.method+" "+o.path] = true
		}
		if err := p.fits(doc, o.item, o.method, o.path, path, body, in, w, 400); err != nil { // what it allows itself is TestDescriptionIsTrue's
			t.Fatalf("%s %s %.300q: %d: %v", o.method, path, body, w.Code, err)
		}
	}
	if len(well) < len(all)/2 {
		t.Errorf("of %d operations only these were answered well: %v", len(all), well)
	}
	for _, code := range []int{200, 202, 400, 401, 403, 404, 409, 422} {
		if answers[code] == 0 {
			t.Errorf("nothing was answered with %d: %v", code, answers)
		}
	}
}

// generator makes values of schemas.
type generator struct {
	*rand.Rand
	ids []string
}

func (g *generator) often() bool { return g.IntN(20) > 0 }

// request is one that a description allows, or nearly.
func (g *generator) request(path string, op *openapi3.Operation) (target string, in map[string]string, body string) {
	query, in := url.Values{}, map[string]string{}
	for _, ref := range op.Parameters {
		q := ref.Value
		switch {
		case q.In == "header":
		case q.In == "path":
			in[q.Name] = g.ids[g.IntN(len(g.ids))]
			if g.IntN(10) == 0 {
				in[q.Name] = cmp.Or(g.word(), "none") // an empty one is another path
			}
			path = strings.ReplaceAll(path, "{"+q.Name+"}", url.PathEscape(in[q.Name]))
		case g.IntN(3) == 0:
			v := g.value(q.Schema, 2)
			if many, is := v.([]any); is {
				for _, one := range many {
					query.Add(q.Name, fmt.Sprint(one))
				}
			} else {
				query.Set(q.Name, fmt.Sprint(v))
			}
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	if op.RequestBody == nil || g.IntN(20) == 0 {
		return path, in, ""
	}
	data, err := json.Marshal(g.value(op.RequestBody.Value.Content["application/json"].Schema, 6))
	if err != nil {
		panic(err) // of what was made here
	}
	if !g.often() {
		data = bytes.Replace(data, []byte{':'}, []byte{','}, 1)
	}
	return path, in, string(data)
}

func (g *generator) value(ref *openapi3.SchemaRef, deep int) any {
	s := ref.Value
	switch {
	case !g.often():
		return []any{nil, true, -1, 1e300, "", "x", []any{}, map[string]any{"x": 1}}[g.IntN(8)]
	case deep == 0:
		return nil
	case len(s.OneOf) > 0:
		return g.value(s.OneOf[g.IntN(len(s.OneOf))], deep)
	case len(s.AnyOf) > 0:
		return g.value(s.AnyOf[g.IntN(len(s.AnyOf))], deep)
	case len(s.AllOf) > 0:
		return g.value(s.AllOf[g.IntN(len(s.AllOf))], deep)
	case len(s.Enum) > 0:
		return s.Enum[g.IntN(len(s.Enum))]
	case s.Type.Includes("object"):
		return g.object(s, deep)
	case s.Type.Includes("array"):
		out := []any{}
		for range g.IntN(3) {
			out = append(out, g.value(s.Items, deep-1))
		}
		return out
	case s.Type.Includes("integer"), s.Type.Includes("number"):
		least, most := 0.0, 1e6
		if s.Min != nil {
			least = *s.Min
		}
		if s.Max != nil {
			most = *s.Max
		}
		return int64(least) + g.Int64N(max(1, int64(most-least)))
	case s.Type.Includes("boolean"):
		return g.IntN(2) == 0
	}
	return g.text(s)
}

// object has what must be there, and some of the rest.
func (g *generator) object(s *openapi3.Schema, deep int) any {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field := s.Properties[name]
		if slices.Contains(s.Required, name) && g.often() || g.IntN(4) == 0 {
			out[name] = g.value(field, deep-1)
		}
	}
	if !g.often() {
		out[g.word()] = 1
	}
	return out
}

// text is one that its form may allow: of each form there are some.
func (g *generator) text(s *openapi3.Schema) string {
	forms := []string{"coder", "tester", "any", "delegate", "file_check", "20ms", "1ms", "2030-01-02T03:04:05Z", "0", "12", strings.Repeat("0", 64), g.word()}
	if s.Pattern == "" {
		return forms[g.IntN(len(forms))]
	}
	return append(forms, g.ids...)[g.IntN(len(forms)+len(g.ids))]
}

func (g *generator) word() string {
	return []string{"x", "", "a b", "é\u202e", "../x", "\x00", "%", strings.Repeat("x", 300), "{id}", "true"}[g.IntN(10)]
}
