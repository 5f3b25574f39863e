package mailbox

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// Task returns a task and where it is. A file that somebody made unreadable is
// an error that names it; an id that is nowhere is ErrNotFound.
func (b *Box) Task(ctx context.Context, id ID) (*Task, State, error) {
	if err := task.CheckID(id); err != nil {
		return nil, None, err
	}
	f, err := b.seek(id)
	if err != nil {
		return nil, None, err
	}
	return f.Task, f.State, ctx.Err()
}

// Filter chooses tasks. Empty fields choose all.
type Filter struct {
	States   []State // the folders to look in; pending, in-progress, completed and failed if empty
	Agent    string  // who picked it up
	Target   string
	Source   string
	Type     string
	Priority string
	Limit    int // 0: no limit
}

// Item is one listed task.
type Item struct {
	Task  *Task
	State State
	Path  string // from the home
	Err   error  // the file cannot be read as a task; Task is nil
}

// List yields the tasks of the folders, oldest first within each. A task that
// moves while it is listed may be missing or come twice.
func (b *Box) List(ctx context.Context, f Filter) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		left := f.Limit
		states := f.States
		if len(states) == 0 {
			states = task.Folders
		}
		for _, s := range states {
			for _, dir := range dirsOf(b.home, s) {
				items, err := listDir(ctx, b.home, s, dir, f)
				if err != nil {
					yield(Item{}, err)
					return
				}
				for _, it := range items {
					if !yield(it, nil) {
						return
					}
					if left--; f.Limit > 0 && left == 0 {
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

func listDir(ctx context.Context, in string, s State, dir string, f Filter) ([]Item, error) {
	names, err := durable.Names(filepath.Join(in, dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // verify and doctor tell of a missing folder
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return task.Ignored(name) || !strings.HasSuffix(name, ".json") })
	items := make([]Item, len(names))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		group.Go(func() error {
			items[i] = itemAt(in, s, dir, name)
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	items = slices.DeleteFunc(items, func(it Item) bool { return errors.Is(it.Err, fs.ErrNotExist) || !f.matches(it) })
	slices.SortFunc(items, func(a, b Item) int {
		if a.Task == nil || b.Task == nil {
			return cmp.Compare(a.Path, b.Path)
		}
		return cmp.Or(a.Task.Created.Compare(b.Task.Created.Time), cmp.Compare(a.Task.ID, b.Task.ID))
	})
	return items, nil
}

// itemAt reads one file of a folder.
func itemAt(in string, s State, dir, name string) Item {
	it := Item{State: s, Path: dir + "/" + name}
	f, err := home.Read(in, s, filepath.Join(in, dir, name))
	if err != nil {
		it.Err = err
		return it
	}
	if it.Task = f.Task; it.Task.ID == "" { // a drop that waits for admission
		it.Task.ID = ID(task.TrimJSON(name))
	}
	return it
}

func (f Filter) matches(it Item) bool {
	t := it.Task
	if t == nil {
		return f.Agent == "" && f.Target == "" && f.Source == "" && f.Type == "" && f.Priority == ""
	}
	by := ""
	if t.Assignment.PickedUpBy != nil {
		by = *t.Assignment.PickedUpBy
	}
	is := func(want, have string) bool { return want == "" || want == have }
	return is(f.Agent, by) && is(f.Target, t.Assignment.TargetAgent) && is(f.Source, t.Source.Agent) &&
		is(f.Type, t.Task.Type) && is(f.Priority, t.Task.Priority)
}
