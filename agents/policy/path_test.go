package policy

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "rewrite the tables of testdata from what is decided now; then read the difference")

// TestPaths runs testdata/paths.txt: per line a path and what Read and Write say
// of it under each policy of a section. A cell is a root (it is allowed, below
// that folder) or the rule that refuses.
func TestPaths(t *testing.T) {
	f := newTree(t)
	policies := f.policies(t)
	cases := 0
	data, err := os.ReadFile("testdata/paths.txt")
	f.must(t, err)
	var names []string
	var out strings.Builder
	for n, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] == "#":
			fmt.Fprintln(&out, line)
			continue
		case fields[0] == "policies":
			names = fields[1:]
			fmt.Fprintln(&out, line)
			continue
		}
		path := f.fill(fields[0])
		if strings.HasPrefix(path, `"`) {
			path, err = strconv.Unquote(path)
			f.must(t, err)
		}
		var got []string
		for _, name := range names {
			for _, decide := range []func(string) (Place, error){policies[name].Read, policies[name].Write} {
				place, err := decide(path)
				got = append(got, f.cell(t, place, err))
			}
		}
		cases += len(got)
		if fmt.Fprintf(&out, "%-34s %s\n", fields[0], strings.TrimRight(cells(got), " ")); !slices.Equal(got, fields[1:]) && !*update {
			t.Errorf("paths.txt:%d: %s:\n got %s\nwant %s", n+1, fields[0], cells(got), cells(fields[1:]))
		}
	}
	if *update {
		f.must(t, os.WriteFile("testdata/paths.txt", []byte(out.String()), 0o644))
	}
	if cases < 300 {
		t.Errorf("%d cases, want 300 or more", cases)
	}
}

func cells(row []string) string {
	var out strings.Builder
	for _, c := range row {
		fmt.Fprintf(&out, "%-16s ", c)
	}
	return out.String()
}

// cell is a decision in the table's words. It holds each place to its promise:
// Rel stays in Root, and neither has a symlink.
func (f tree) cell(t *testing.T, place Place, err error) string {
	t.Helper()
	var denied *Denied
	if errors.As(err, &denied) {
		return denied.Rule
	}
	if !filepath.IsLocal(place.Rel) {
		t.Errorf("%+v leaves its root", place)
	}
	if real, err := filepath.EvalSymlinks(place.Path()); err == nil && real != place.Path() {
		t.Errorf("%+v is really %s", place, real)
	}
	if place.Device {
		return "device"
	}
	for root, name := range map[string]string{
		"/": "ANY", f.at("home/agents/coder/workspace"): "WS", f.at("data"): "DATA", f.at("forbidden/open"): "OPEN",
		f.at("home/memory/context"): "CONTEXT", f.at("home/agents/pair/workspace"): "PAIR", f.at("home/agents/reader/workspace"): "READER",
		f.at("home/agents/dropbox/workspace"): "DROPBOX", f.at("home"): "HOME", f.top: "TOP",
	} {
		if place.Root == root {
			return name
		}
	}
	return place.Root
}

// What a place names can be opened by its root, and holds what the path meant.
func TestPlaceOpens(t *testing.T) {
	f := newTree(t)
	p := f.policy(t, nil)
	for _, path := range []string{
		"note", "self/note", "inside-abs/../note", "chain39", f.at("link-to-data/file"), f.at("data/file"), "to-data/file", "to-reader/note",
		f.at("home/agents/pair/workspace/note"), "to-open/file",
	} {
		place, err := p.Read(strings.ReplaceAll(path, "inside-abs/../", ""))
		f.must(t, err)
		root, err := os.OpenRoot(place.Root)
		f.must(t, err)
		if data, err := root.ReadFile(place.Rel); err != nil || string(data) != "x" {
			t.Errorf("%s: %+v: %q, %v", path, place, data, err)
		}
		f.must(t, root.Close())
	}
}

// A refusal is fit to be shown and names the key that would change it.
func TestDeniedTellsWhatToChange(t *testing.T) {
	f := newTree(t)
	p := f.policy(t, nil)
	p.Dead = func(name string) bool { return name == "grace" }
	rules := map[string]bool{}
	for _, path := range []string{
		"", "a\x00b", "\xff", "a\nb", `a\b`, "a/../b", "a%2f..%2fb", "~root/x", "loop", f.at("home/.mbox/x"), "to-config",
		f.at("home/agents/dropbox/workspace/note"), f.at("home/agents/reader/workspace/note"), "to-forbidden/file", "/elsewhere", strings.Repeat("x", 9000), "grace:x",
	} {
		for _, decide := range []func(string) (Place, error){p.Read, p.Write, f.policies(t)["looks"].Write} {
			_, err := decide(path)
			var d *Denied
			if errors.As(err, &d) {
				rules[d.Rule] = true
				f.showable(t, d)
			}
		}
	}
	for rule := range pathWords {
		if !rules[rule] {
			t.Errorf("%s: no path was refused by it", rule)
		}
	}
}

func (f tree) showable(t testing.TB, d *Denied) {
	t.Helper()
	text := d.Error()
	if len(text) > 900 || strings.ContainsAny(text, "\x00\n") || !utf8.ValidString(text) || pathWords[d.Rule].why != "" && strings.Contains(d.Hint, "%") {
		t.Errorf("%s is not fit to be shown: %q", d.Rule, text)
	}
	if d.Rule == "" || d.Why == "" || !strings.Contains(d.Hint, "mbox.toml") || !strings.Contains(d.Hint, ".") {
		t.Errorf("a refusal without rule, reason, or key: %+v", d)
	}
}

// On a Mac's disk names that differ in case are one.
func TestFoldedCase(t *testing.T) {
	f := newTree(t)
	p := f.policy(t, nil)
	upper := strings.Replace(f.at("home/.mbox/keys/k"), "/.mbox/", "/.MBOX/", 1)
	open := f.policies(t)["open"]
	if _, err := open.Read(upper); err != nil {
		t.Errorf("names that differ in case are one: %v", err)
	}
	defer func(was bool) { foldCase = was }(foldCase)
	foldCase = true
	if _, err := open.Read(upper); f.cell(t, Place{}, err) != rulePathPrivate {
		t.Errorf("%s: %v, want %s", upper, err, rulePathPrivate)
	}
	if _, err := open.Write(f.at("home/agents/new/AGENT.toml")); f.cell(t, Place{}, err) != rulePathProtected {
		t.Errorf("AGENT.toml: %v, want %s", err, rulePathProtected)
	}
	if place, err := p.Read(strings.ToUpper(f.at("data")) + "/file"); err != nil || place.Rel != "file" || place.Root != f.at("data") {
		t.Errorf("DATA: %+v %v", place, err)
	}
}

func TestBelow(t *testing.T) {
	defer func(was bool) { foldCase = was }(foldCase)
	for _, c := range []struct {
		path, folder, rel string
		fold, ok          bool
	}{
		{"/a/b", "/a", "b", false, true},
		{"/a", "/a", ".", false, true},
		{"/ab", "/a", "", false, false},
		{"/a", "/a/b", "", false, false},
		{"/a", "/", "a", false, true},
		{"/", "/", ".", false, true},
		{"/A/b", "/a", "", false, false},
		{"/A/b", "/a", "b", true, true},
		{"/A/b/c", "/a/B", "c", true, true},
		{"/\u212Aa/b", "/ka", "b", true, true}, // the sign for Kelvin is three bytes and folds to k
		{"/a", "", "", false, false},
		{"", "/a", "", false, false},
	} {
		foldCase = c.fold
		if rel, ok := below(c.path, c.folder); ok != c.ok || ok && rel != c.rel {
			t.Errorf("below(%q, %q), fold %v: %q %v", c.path, c.folder, c.fold, rel, ok)
		}
	}
}
