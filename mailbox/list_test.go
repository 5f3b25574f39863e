package mailbox

import (
	"container/heap"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Ids come by their bytes, numbers in them by their value, and no two are the same.
func TestCompareIDs(t *testing.T) {
	sorted := []string{
		"0", "00", "1", "9", "10", "99999999999999999999", "100000000000000000000", "A", "a", "a-1", "a.1", "a0", "a01", "a1", "a01b", "a1b", "a1b2", "a2", "aB", "ab",
		"task-2026-11-23-001", "task-2026-11-23-002", "task-2026-11-23-999", "task-2026-11-23-1000", "task-2026-11-24-001", "task-2026-12-01-001", "task-a",
	}
	for i, a := range sorted {
		for j, b := range sorted {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := compareIDs(a, b); got != want {
				t.Errorf("%s and %s: %d, want %d", a, b, got, want)
			}
		}
	}
}

// A list can be had piece by piece, each from where the last one ended, and no file is
// read long before it is wanted.
func TestListPieceByPiece(t *testing.T) {
	b := newBox(t, Options{})
	var want []string
	for i := range 3 * readFirst {
		id := ID(fmt.Sprintf("x%d", i))
		submit(t, b, &Task{ID: id, Task: Request{Title: "x"}})
		want = append(want, "tasks/pending/"+id.File())
	}
	must(t, b.Cancel(t.Context(), "x0", "human", "no"))
	want = append(want[1:], "tasks/failed/x0.json")
	for _, most := range []int{1, 7, readFirst, 0, -1} {
		var got []string
		f := Filter{Limit: most}
		for more := true; more; {
			more = false
			for it, err := range b.List(t.Context(), f) {
				must(t, err)
				got = append(got, it.Path)
				f.After, more = it.Path, most > 0
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d at a time: %v", most, got)
		}
	}
	last := b.pending(ID(fmt.Sprintf("x%d", 3*readFirst-1)).File())
	data, err := os.ReadFile(last)
	must(t, err)
	seen := 0
	for _, err := range b.List(t.Context(), Filter{States: []State{Pending}}) {
		must(t, err)
		if seen++; seen == 1 {
			must(t, os.Remove(last))
		}
	}
	must(t, put(last, string(data)))
	if seen != 3*readFirst-2 {
		t.Errorf("%d were listed; the last one was gone before its turn", seen)
	}
}

// A folder of many names is listed in order, and whole.
func TestManyNames(t *testing.T) {
	dir := t.TempDir()
	n := 2000
	for i := range n {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("t%d.json", i)), nil, 0o600))
	}
	must(t, os.WriteFile(filepath.Join(dir, "t1.json~"), nil, 0o600))
	for after, first := range map[string]int{"": 0, "t100": 101, fmt.Sprintf("t%d", n): n} {
		ids, err := idsIn(dir, after)
		must(t, err)
		if len(ids) != n-first {
			t.Errorf("%d ids behind %q, want %d", len(ids), after, n-first)
		}
		for i := first; len(ids) > 0; i++ {
			if id := heap.Pop(&ids); id != fmt.Sprintf("t%d", i) {
				t.Fatalf("%v comes, want t%d", id, i)
			}
		}
	}
	if _, err := idsIn(filepath.Join(dir, "nothing"), ""); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
