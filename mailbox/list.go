package mailbox

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"strings"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// Task returns a task and where it is. A file that somebody made unreadable is
// an error that names it; an id that is nowhere is ErrNotFound.
func (b *Box) Task(ctx context.Context, id ID) (*Task, State, error) {
	it, err := Lying(ctx, b, id)
	return it.Task, it.State, err
}

// Lying is [Box.Task] with where its file lies.
func Lying(ctx context.Context, b *Box, id ID) (Item, error) {
	if err := task.CheckID(id); err != nil {
		return Item{}, err
	}
	f, err := b.seek(id)
	if err != nil {
		return Item{}, err
	}
	return Item{Task: f.Task, State: f.State, Path: f.Path[len(b.home)+1:], Hash: f.Hash}, ctx.Err()
}

// Filter chooses tasks. Empty fields choose all. An agent is meant by each of the names
// that it has or had, and its tasks are those of all of them ([Filter.Naming]).
type Filter struct {
	States   []State // the folders to look in; pending, in-progress, completed and failed if empty
	Agent    string  // who picked it up
	Target   string
	Source   string
	Type     string
	Priority string
	After    string // the Path of an item: only those behind it, in its folder and in the later ones
	Limit    int    // 0: no limit

	called func(name string) string // nil: each name is an agent's own
}

// Naming is the filter that knows what agents were called, for whoever asks it himself
// (Matches). List does.
func (f Filter) Naming(b *Box) (Filter, error) {
	if f.Agent == "" && f.Target == "" && f.Source == "" || f.called != nil {
		return f, nil
	}
	var err error
	f.called, err = Names(b)
	return f, err
}

// Item is one listed task.
type Item struct {
	Task  *Task
	State State
	Path  string // from the home
	Hash  string // of the file
	Err   error  // the file cannot be read as a task; Task is nil
}

// List yields the tasks of the folders, each folder in the order of the ids, where
// numbers count by their value: those that mbox has named come oldest first. It reads
// little more than what is taken from it. A task that moves while it is listed may be
// missing or come twice.
func (b *Box) List(ctx context.Context, f Filter) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		f, err := f.Naming(b)
		if err != nil {
			yield(Item{}, err)
			return
		}
		left := f.Limit
		for it, err := range lying(ctx, b.home, f) {
			if err == nil && !f.Matches(it) {
				continue
			}
			if !yield(it, err) || err != nil {
				return
			}
			if left--; f.Limit > 0 && left == 0 {
				return
			}
		}
	}
}

// lying yields all that lies in the folders of a filter, as List orders it.
func lying(ctx context.Context, in string, f Filter) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		states := f.States
		if len(states) == 0 {
			states = task.Folders
		}
		folder, after := path.Split(f.After)
		for _, s := range states {
			for _, dir := range dirsOf(in, s) {
				here := ""
				switch {
				case folder == dir+"/":
					here, folder = task.TrimJSON(after), ""
				case folder != "":
					continue
				}
				for it, err := range itemsIn(ctx, in, s, dir, here, f.Limit) {
					if !yield(it, err) || err != nil {
						return
					}
				}
			}
		}
	}
}

func dirsOf(in string, s State) []string {
	if s != Archived {
		return []string{"tasks/" + string(s)}
	}
	months, err := home.Months(in)
	if err != nil {
		return nil
	}
	var dirs []string
	for _, m := range months {
		dirs = append(dirs, "tasks/archive/"+m)
	}
	return dirs
}

// How many files are read at once: as many as are wanted, or few, at first, and twice as
// many each time, so that no more are read in vain than are taken.
const (
	readFirst = 32
	readMost  = 1024
)

// itemsIn yields what lies in one folder behind an id; "": all. So many are wanted; 0 or
// less: it is not known.
func itemsIn(ctx context.Context, in string, s State, dir, after string, wanted int) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		left, err := idsIn(filepath.Join(in, dir), after)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // verify and doctor tell of a missing folder
			yield(Item{}, err)
			return
		}
		for ahead := min(cmp.Or(max(wanted, 0), readFirst), readMost); len(left) > 0; ahead = min(2*ahead, readMost) {
			items := make([]Item, min(ahead, len(left)))
			for i := range items {
				items[i].Path = dir + "/" + heap.Pop(&left).(string) + ".json"
			}
			if err := home.OnAllCores(ctx, len(items), func(i int) error {
				items[i] = itemAt(in, s, items[i].Path)
				return nil
			}); err != nil {
				yield(Item{}, err)
				return
			}
			for _, it := range items {
				if !errors.Is(it.Err, fs.ErrNotExist) && !yield(it, nil) {
					return
				}
			}
		}
	}
}

// idsIn are the ids of a folder's task files, as far as they come behind one.
func idsIn(dir, after string) (idHeap, error) {
	names, err := durable.Names(dir)
	if err != nil {
		return nil, err
	}
	ids := make(idHeap, 0, len(names))
	for _, name := range names {
		id, is := strings.CutSuffix(name, ".json")
		if is && !task.Ignored(name) && (after == "" || compareIDs(id, after) > 0) {
			ids = append(ids, id)
		}
	}
	heap.Init(&ids)
	return ids, nil
}

// idHeap is a heap in the order of a list.
type idHeap []string

func (s idHeap) Len() int           { return len(s) }
func (s idHeap) Less(i, j int) bool { return compareIDs(s[i], s[j]) < 0 }
func (s idHeap) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *idHeap) Push(id any)       { *s = append(*s, id.(string)) } // for container/heap, as Pop

// Pop is for container/heap.
func (s *idHeap) Pop() any {
	last := len(*s) - 1
	id := (*s)[last]
	*s = (*s)[:last]
	return id
}

// compareIDs compares two ids: by their bytes, but numbers by their value. So 999 comes
// before 1000.
func compareIDs(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	for i > 0 && digits(a[i-1:]) > 0 {
		i--
	}
	x, y := a[i:], b[i:]
	for x != "" && y != "" {
		n, m := digits(x), digits(y)
		p, q := x[:n], y[:m]
		switch {
		case n == 0 || m == 0:
			n, m = 1, 1
			p, q = x[:1], y[:1]
		case n != m:
			p, q = strings.TrimLeft(p, "0"), strings.TrimLeft(q, "0")
		}
		if c := cmp.Or(cmp.Compare(len(p), len(q)), cmp.Compare(p, q)); c != 0 {
			return c
		}
		x, y = x[n:], y[m:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// digits is the length of the number with which a text begins.
func digits(s string) (n int) {
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// itemAt reads one file; its path is from the home.
func itemAt(in string, s State, file string) Item {
	it := Item{State: s, Path: file}
	f, err := home.Read(in, s, filepath.Join(in, file))
	if err != nil {
		it.Err = err
		return it
	}
	it.Hash = f.Hash
	if it.Task = f.Task; it.Task.ID == "" { // a drop that waits for admission
		it.Task.ID = ID(task.TrimJSON(path.Base(file)))
	}
	return it
}

// Matches tells whether an item is what a filter asks for of a task. A file that is no
// task is what asks for nothing.
func (f Filter) Matches(it Item) bool {
	t := it.Task
	if t == nil {
		return f.Agent == "" && f.Target == "" && f.Source == "" && f.Type == "" && f.Priority == ""
	}
	is := func(want, have string) bool { return want == "" || want == have }
	named := func(want, have string) bool {
		return is(want, have) || f.called != nil && f.called(want) == f.called(have)
	}
	return named(f.Agent, t.Claimant()) && named(f.Target, t.Assignment.TargetAgent) && named(f.Source, t.Source.Agent) &&
		is(f.Type, t.Task.Type) && is(f.Priority, t.Task.Priority)
}
