package task

import (
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPaths(t *testing.T) {
	for _, bad := range [][]string{
		{""},
		{"/"},
		{"/etc"},
		{".."},
		{"../a"},
		{"a/../b"},
		{"a/"},
		{"./a"},
		{"a//b"},
		{"a\n"},
		{"\xff"},
		{"a", "b", "a"},
		{strings.Repeat("a", MaxPath+1)},
		make([]string, MaxPaths+1),
	} {
		if err := checkPaths(bad); err == nil {
			t.Errorf("%q were taken", bad)
		}
	}
	for _, good := range [][]string{nil, {"."}, {"a", "A", "ab", "a b", ".a", "..a", "é", "a/b/c.go"}} {
		if err := checkPaths(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func TestOverlap(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"a", "a", "a"},
		{"a/b", "a", "a"},
		{"a", "a/b/c", "a"},
		{".", "a", "."},
		{"a", ".", "."},
		{".", ".", "."},
		{"a", "ab", ""},
		{"a/b", "a/c", ""},
		{"a", "A", ""},
		{"b/a", "a", ""},
	} {
		if got := Overlap([]string{"z", c.a}, []string{"y/y", c.b}); got != c.want {
			t.Errorf("%q and %q have %q in common, not %q", c.a, c.b, got, c.want)
		}
	}
	if got := Overlap(nil, []string{"."}); got != "" {
		t.Errorf("nothing has %q in common with all", got)
	}
}

// A path overlaps with another one if, going up from either, one comes to the other.
func TestOverlapGoesUp(t *testing.T) {
	one := rapid.Custom(func(t *rapid.T) string {
		return path.Join(append(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "a b", "..a"}), 0, 4).Draw(t, "parts"), ".")...)
	})
	above := func(p, q string) bool {
		for ; p != q; p = path.Dir(p) {
			if p == "." {
				return false
			}
		}
		return true
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := one.Draw(t, "a"), one.Draw(t, "b")
		want := above(a, b) || above(b, a)
		if err := checkPaths([]string{a}); err != nil {
			t.Fatal(err)
		}
		if got := Overlap([]string{a}, []string{b}); (got != "") != want || got != Overlap([]string{b}, []string{a}) {
			t.Errorf("%q and %q: %q", a, b, got)
		}
	})
}

// Whoever moves a task by hand may not change on what it works.
func TestPathsAreAsked(t *testing.T) {
	a, b := new(Task), new(Task)
	b.Mbox.Paths = []string{"a"}
	if a.AskedHash() == b.AskedHash() {
		t.Error("paths do not count as what was asked")
	}
}
