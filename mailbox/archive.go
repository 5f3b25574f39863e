package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/history"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// Archive moves ended tasks that were last touched before olderThan ago to
// tasks/archive/<month>, with their artifacts, and returns how many. The result of a task that came
// over a bridge stays until it was delivered.
func (b *Box) Archive(ctx context.Context, olderThan time.Duration, by string) (int, error) {
	if err := task.CheckActor(by); err != nil {
		return 0, err
	}
	ended, limit, seen := history.Endings{}, b.now().Add(-olderThan), int64(0)
	if err := b.ledger.Ended(&ended); err != nil {
		return 0, err
	}
	return archiveAll(ctx, b.books, &ended, by, func(e *history.EndedTask) bool {
		if seen++; seen%500 == 0 {
			b.o.Progress("archiving", seen, int64(len(ended.Tasks)))
		}
		return !e.At.After(limit) && (!e.Awaited || !e.Delivered.IsZero())
	})
}

// archiveAll archives those of the ended tasks that are due, in the order of the ids.
func archiveAll(ctx context.Context, b *books, ended *history.Endings, by string, due func(*history.EndedTask) bool) (moved int, err error) {
	for _, id := range slices.Sorted(maps.Keys(ended.Tasks)) {
		e := ended.Tasks[id]
		if !due(e) {
			continue
		}
		ok, err := b.archive(ctx, id, e, by)
		if err != nil {
			return moved, err
		}
		if ok {
			moved++
		}
	}
	return moved, nil
}

// ArchiveTask is Archive of one task, however lately it ended. One that is there already
// is fine; one that has not ended, or whose result has not been delivered, is ErrConflict.
func ArchiveTask(ctx context.Context, b *Box, id ID, by string) error {
	if err := cmp.Or(task.CheckID(id), task.CheckActor(by)); err != nil {
		return err
	}
	f, err := b.seek(id)
	if err != nil {
		return err
	}
	if f.State == Archived {
		return nil
	}
	if f.State != Completed && f.State != Failed {
		return task.About(id, fmt.Errorf("%w: it is %s, and only what has ended can be archived", ErrConflict, f.State))
	}
	ended := history.Endings{}
	if err := b.ledger.Ended(&ended); err != nil {
		return err
	}
	e := ended.Tasks[id]
	if e != nil && e.Awaited && e.Delivered.IsZero() {
		return task.About(id, fmt.Errorf("%w: its result waits to be delivered", ErrConflict))
	}
	if e != nil {
		if ok, err := b.archive(ctx, id, e, by); ok || err != nil {
			return err
		}
	}
	return task.About(id, fmt.Errorf("%w: it is not as its last ledger line has it", ErrConflict))
}

// ArchiveDelivered is Archive for tasks whose results were delivered longer ago, and
// for inbox items that were acknowledged longer ago, by mbox itself. Of the ledger it reads what came since the last call.
func (b *Box) ArchiveDelivered(ctx context.Context, longerAgo time.Duration) (int, error) {
	b.delivered.Lock()
	defer b.delivered.Unlock()
	ended := &b.delivered.Endings
	ended.Awaited = true
	if err := b.ledger.Ended(ended); err != nil {
		return 0, err
	}
	limit := b.now().Add(-longerAgo)
	return archiveAll(ctx, b.books, ended, audit.MboxAgent, func(e *history.EndedTask) bool {
		return !e.Delivered.IsZero() && !e.Delivered.After(limit)
	})
}

// archive moves one ended task, if it may go and still is what the ledger said.
func (b *books) archive(ctx context.Context, id ID, e *history.EndedTask, by string) (bool, error) {
	s, err := b.lockShard(ctx, string(id))
	if err != nil {
		return false, task.About(id, err)
	}
	defer s.unlock()
	f, err := home.Read(b.home, e.State, b.path("tasks", string(e.State), id.File()))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if f == nil {
		return false, task.About(id, err)
	}
	if f.Task == nil || f.Hash != e.After {
		return false, nil // edited by hand, which verify names, or retried meanwhile
	}
	if r, err := b.lookup(id); err != nil || r != nil {
		return false, err
	}
	month := b.now().UTC().Format("2006-01")
	for i := range f.Task.Result.Artifacts {
		a := &f.Task.Result.Artifacts[i]
		if rest, live := strings.CutPrefix(a.Path, task.ArtifactsDir+"/"); live {
			if _, ok := f.Task.Keeps(i); ok {
				a.Path = path.Join("tasks/archive", month, rest)
			}
		}
	}
	return true, task.About(id, b.commit(ctx, s, &change{
		id: id, by: by, event: audit.TaskArchived, from: e.State, to: Archived, task: f.Task, before: f.Hash,
		reason: "ended before " + e.At.Format(time.DateOnly), action: fmt.Sprintf("%s archived %s", by, id),
	}))
}

// archiveArtifacts moves the artifacts of a task that lies in the archive, of all
// its attempts, to where its file says they are: beside it, but for a task that
// was archived as a month ended.
func (b *books) archiveArtifacts(id ID, epoch int64, file string) error {
	month := ""
	for e := range epoch + 1 {
		from := b.path(task.ArtifactsDir, task.ArtifactFolder(id, e))
		if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		if month == "" {
			f, err := home.Read(b.home, Archived, file)
			if err != nil {
				return err
			}
			month = filepath.Dir(file)
			for i := range f.Task.Result.Artifacts {
				if folder, ok := f.Task.Keeps(i); ok && strings.HasPrefix(folder, "tasks/archive/") {
					month = b.path(path.Dir(folder))
				}
			}
		}
		if err := durable.MkdirAll(month, b.o.Sync); err != nil {
			return err
		}
		err := durable.Move(from, filepath.Join(month, filepath.Base(from)))
		if err != nil && !errors.Is(err, fs.ErrExist) { // whatever came there, verify names it
			return err
		}
		if b.o.Sync == durable.Strict {
			if err := errors.Join(durable.SyncDir(month, b.o.Sync), durable.SyncDir(filepath.Dir(from), b.o.Sync)); err != nil {
				return err
			}
		}
	}
	return nil
}
