package top

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// listing is a folder of ended tasks, by the times of its files.
type listing struct {
	changed time.Time // the folder, when it was listed; zero where that was just then
	count   int       // by the ledger
	after   time.Time // not to be listed again before
	oldest  *mailbox.Time
	newest  []Row
}

// slowness is how many times as long as a listing took is waited for the next one: a
// folder with many files is listed less often.
const slowness = 50

// tellsEnded tells whether the tasks of a folder of ended ones are on the board.
func (r *reader) tellsEnded(s mailbox.State) bool {
	return s == mailbox.Failed || s == mailbox.Completed && !r.brief
}

// listAhead lists, while the index is read, the folders that have not been listed yet.
func (r *reader) listAhead(ctx context.Context) (wait func()) {
	found := make([]*listing, len(task.Folders))
	var wg sync.WaitGroup
	for i, s := range task.Folders {
		if r.tellsEnded(s) && r.ended[s] == nil {
			wg.Go(func() { found[i], _ = r.list(ctx, s) }) // endedRows tries again, and tells
		}
	}
	return func() {
		wg.Wait()
		for i, s := range task.Folders {
			if found[i] != nil {
				if r.ended[s] = found[i]; r.folders != nil {
					found[i].count = r.folders[s].Count
				}
			}
		}
	}
}

func (r *reader) endedRows(ctx context.Context, c *Column) error {
	l := r.ended[c.State]
	if l == nil || r.changed(c, l) {
		var err error
		if l, err = r.list(ctx, c.State); err != nil || l == nil {
			return err
		}
		l.count, r.ended[c.State] = c.Count, l
	}
	c.Rows, c.Oldest = slices.Clone(l.newest), l.oldest
	return nil
}

func (r *reader) folder(s mailbox.State) string {
	return filepath.Join(r.box.Home(), "tasks", string(s))
}

// changed tells whether a folder is to be listed again.
func (r *reader) changed(c *Column, l *listing) bool {
	if time.Now().Before(l.after) {
		return false
	}
	info, err := os.Stat(r.folder(c.State))
	return err != nil || !info.ModTime().Equal(l.changed) || c.Count != l.count
}

// list lists a folder of ended tasks. One that is missing is a problem, which is told as
// such.
func (r *reader) list(ctx context.Context, s mailbox.State) (*listing, error) {
	dir, begun := r.folder(s), time.Now()
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := durable.Names(dir)
	if err != nil {
		return nil, err
	}
	in, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	type file struct {
		name string
		at   int64 // ns
	}
	files := make([]file, len(names))
	if err := home.OnAllCores(ctx, len(names), func(i int) error {
		if task.Ignored(names[i]) || !strings.HasSuffix(names[i], ".json") {
			return nil
		}
		st, err := durable.LstatIn(in, names[i])
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		files[i] = file{names[i], st.Mtim.Nano()}
		return err
	}); err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(f file) bool { return f.name == "" })
	slices.SortFunc(files, func(a, b file) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.name, b.name)) })
	l := &listing{}
	for _, f := range files[:min(len(files), mostEnded)] {
		l.newest = append(l.newest, Row{ID: mailbox.ID(task.TrimJSON(f.name)), State: s, Since: task.At(time.Unix(0, f.at))})
	}
	if len(files) > 0 {
		oldest := task.At(time.Unix(0, files[len(files)-1].at))
		l.oldest = &oldest
	}
	if begun.Sub(info.ModTime()) > time.Second { // a change within the grain of the file system's clock would not be seen
		l.changed = info.ModTime()
	}
	if len(files) > mostEnded {
		l.after = time.Now().Add(slowness * time.Since(begun))
	}
	return l, nil
}
