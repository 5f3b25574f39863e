package gateway

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mbox/audit/record"
)

var recordLink = regexp.MustCompile(`href="/records/([^"]+)"`)

// The records come page by page, the latest first, each once. One that somebody has
// edited says what is wrong with it, and hides no other one.
func TestRecordsPageByPage(t *testing.T) {
	p := newDesk(t)
	var want []string
	for i := range 2*mostRecords + 1 {
		id, err := p.box.Decide(t.Context(), record.Decision{Agent: "human", Context: "c", Options: []string{"o"}, Decision: fmt.Sprint("number ", i)})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, id)
	}
	slices.Reverse(want)
	spoilt := want[3]
	file := p.box.Home() + "/decisions/" + spoilt + ".md"
	if err := os.WriteFile(file, []byte("# Nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := p.logged("r")
	var got []string
	for path, pages := "/records", 0; path != "" && pages < 4; pages++ {
		page := b.page(path)
		for _, link := range recordLink.FindAllStringSubmatch(page, -1) {
			got = append(got, link[1])
		}
		path = ""
		if older := regexp.MustCompile(`href="(/records\?before=[^"]+)"`).FindStringSubmatch(page); older != nil {
			path = older[1]
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d records: %v", len(got), got)
	}
	if page := b.page("/records/" + spoilt); !strings.Contains(page, "decisions/"+spoilt+".md") {
		t.Error(page)
	}
	for _, id := range []string{"none", "..%2f..%2fmbox.toml", "%00", want[0] + ".md"} {
		if w := b.get("/records/" + id); w.Code != 404 {
			t.Errorf("%s: %d", id, w.Code)
		}
	}
}
