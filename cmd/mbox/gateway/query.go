package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"mbox/schemas"
)

// param is a member of a query, or a header.
type param struct {
	name, about string
	many        bool
	form        form
}

// form is what a member may be: for openapi.json, and to check it. The zero form is
// any text.
type form struct {
	schema map[string]any
	check  func(string) error
}

// read reads the query. What nobody knows is refused: a filter that is misspelt
// would show everything.
func (to *route) read(r *http.Request) (map[string][]string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("the query cannot be read: "+schemas.Sentence(err.Error(), 200), "write %3B for ;, and %25 for %")
	}
	for name, values := range query {
		if to.page && strings.Join(values, "") == "" { // a form sends its empty fields, too
			delete(query, name)
			continue
		}
		i := slices.IndexFunc(to.query, func(p param) bool { return p.name == name })
		if i < 0 {
			return nil, badRequest(fmt.Sprintf("%s is no member of this query", schemas.Quote(name)), "it knows "+names(to.query))
		}
		p := to.query[i]
		if len(values) > 1 && !p.many {
			return nil, badRequest(fmt.Sprintf("%s is given %d times", p.name, len(values)), "give it once")
		}
		for _, v := range values {
			if v == "" { // of a variable that is not set: it would show everything
				return nil, badRequest(p.name+" is empty", "give it a value, or leave it out")
			}
			if p.form.check != nil {
				if err := p.form.check(v); err != nil {
					return nil, badRequest(fmt.Sprintf("%s: %v", p.name, err), "GET /openapi.json tells what it may be")
				}
			}
		}
	}
	return query, nil
}

func names(params []param) string {
	if len(params) == 0 {
		return "none"
	}
	var out []string
	for _, p := range params {
		out = append(out, p.name)
	}
	return strings.Join(out, ", ")
}

// value is a member of the query that is given at most once.
func (c *call) value(name string) string {
	if v := c.query[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (c *call) number(name string, standard int) int {
	n, err := strconv.Atoi(c.value(name))
	if err != nil {
		return standard // it was checked, so it is not given
	}
	return n
}
