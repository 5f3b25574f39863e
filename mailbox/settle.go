package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
)

// settledFor is how long nobody looks again: Open settles, and the first scan
// after it need not.
const settledFor = 50 * time.Millisecond

// settleAll settles every shard whose holder has died. It waits for nobody: a
// shard that is held is being worked on. It is the first thing that Open and
// every scan do, so that what a kill left does not stay invisible.
func (b *Box) settleAll(ctx context.Context) error {
	b.mu.Lock()
	fresh := time.Since(b.settledAt) < settledFor
	b.mu.Unlock()
	if fresh {
		return nil
	}
	defer func() {
		b.mu.Lock()
		b.settledAt = time.Now()
		b.mu.Unlock()
	}()
	all, err := b.intents.filled()
	if err != nil {
		return lockError(err)
	}
	for _, s := range all {
		if err := b.settleShard(ctx, s.number); err != nil {
			return err
		}
	}
	return nil
}

// settleShard settles one shard with an intent record, if nobody holds it.
func (b *Box) settleShard(ctx context.Context, number int) error {
	s, err := b.tryShard(ctx, number)
	if errors.Is(err, ErrBusy) || errors.Is(err, ErrReadOnly) {
		return nil
	}
	if errors.Is(err, errDamagedIntent) {
		return b.recoverAll(ctx, true)
	}
	if err == nil {
		s.unlock()
	}
	return err
}

// settle finishes or undoes what a dead holder of the shard had begun. The
// ledger decides: it is flushed first, for a line that is acted on must be on
// disk, and then read from the record's place on. A line with the record's tx
// means finish, none means undo. What it was putting aside on the way is put
// aside first: its line names the entry, and finishing would make another one.
func (b *Box) settle(ctx context.Context, s *shard, d intent) error {
	if err := b.ledger.Flushed(ctx); err != nil {
		return err
	}
	names, err := b.stagedBy(d)
	if err != nil {
		return err
	}
	found, asides, err := b.linesSince(d, names)
	if err != nil {
		return err
	}
	for _, e := range asides {
		if err := b.redo(ctx, s, intent{kind: "drop"}, &e); err != nil {
			return err
		}
	}
	for _, e := range found {
		if err := b.redo(ctx, s, d, &e); err != nil {
			return err
		}
	}
	if d.kind == "task" {
		if err := b.dropOtherLeases(ID(d.name)); err != nil {
			return err
		}
	}
	return b.sweepStaged(d)
}

// linesSince returns the entries of the dead holder's transaction, and those of
// files that it was setting aside on the way, whose reasons are among the staged
// names.
func (b *Box) linesSince(d intent, names []string) (found, asides []audit.Entry, err error) {
	var others []string
	for _, name := range names {
		if _, tx, ok := cutLast(strings.TrimSuffix(name, reasonSuffix), "~"); ok && tx != d.tx && strings.HasSuffix(name, reasonSuffix) {
			others = append(others, tx)
		}
	}
	at := d.at
	if b.ledger.Check(at) != nil {
		at = audit.Position{}
	}
	for line, err := range b.ledger.Read(at).Lines() {
		if err != nil {
			return nil, nil, err
		}
		into, tx := &found, line.Text("tx")
		if tx != d.tx {
			into = &asides
		}
		if tx != d.tx && !slices.Contains(others, tx) {
			continue
		}
		e, err := line.Decode()
		if err != nil {
			return nil, nil, fmt.Errorf("ledger seq %d: %w", line.Seq, err)
		}
		*into = append(*into, e)
	}
	return found, asides, nil
}

// redo finishes what one line of the dead holder says. A move that is not its
// task's last was finished before the next was begun: the record that names it
// is a stale one that a power cut brought back, and so may be the file that it
// would find.
func (b *Box) redo(ctx context.Context, s *shard, d intent, e *audit.Entry) error {
	if m, ok := task.MoveOf(e); ok {
		_, last, err := b.lastMove(ID(e.Task()))
		if err != nil || last != nil && last.TX != m.TX {
			return err
		}
		_, err = b.finish(ctx, s, ID(e.Task()), m, e.Time(), false)
		return err
	}
	switch d.kind {
	case "drop":
		var a asideDetails
		if err := e.Detail(&a); err != nil {
			return err
		}
		path := b.path(a.Place)
		if d.name != "" && !strings.HasPrefix(a.Place, ".mbox/tmp/") {
			path = filepath.Join(filepath.Dir(path), d.name) // the line has the name made printable
		}
		return b.finishKept(ctx, s, &task.Kept{Entry: a.Entry, SHA256: a.SHA256}, path)
	case "record":
		return b.placeRecord(e)
	}
	return nil
}

// stagedBy lists the staged files of a dead holder: those of its transaction,
// and those of its task, which exist only under the lock that is now ours.
func (b *Box) stagedBy(d intent) ([]string, error) {
	names, err := stagedNames(b.home)
	return slices.DeleteFunc(names, func(name string) bool { return !d.owns(name) }), err
}

// sweepStaged removes the staged files of a dead holder once its line, if there
// was one, is applied. A reason whose entry is in quarantine is moved to it.
func (b *Box) sweepStaged(d intent) error {
	names, err := b.stagedBy(d)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, tx, _ := cutLast(name, "~"); tx != d.tx && b.stagesArtifacts(name) {
			continue // of the task whose id and epoch look like this one's id
		}
		if err := b.sweep(name); err != nil {
			return err
		}
	}
	return nil
}

// stagesArtifacts tells whether a name in tmp is that of a folder of artifacts.
func (b *Box) stagesArtifacts(name string) bool {
	folder, tx, _ := cutLast(name, "~")
	_, _, ok := task.AttemptOf(folder)
	info, err := os.Lstat(privatePath(b.home, "tmp", name))
	return ok && len(tx) == 32 && err == nil && info.IsDir()
}

func (b *Box) sweep(name string) error {
	path := privatePath(b.home, "tmp", name)
	if b.stagesArtifacts(name) {
		return durable.RemoveAll(path)
	}
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return nil // nothing of mbox's; verify names it
	}
	if entry, ok := strings.CutSuffix(name, reasonSuffix); ok {
		kept := b.path("tasks", "quarantine", entry)
		_, err := os.Lstat(kept)
		if err == nil {
			err = durable.Move(path, kept+reasonSuffix)
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
				return err
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err // only an entry that is not there needs no reason
		}
	}
	return removeIfThere(path)
}

func stagedNames(home string) ([]string, error) { return listNames(privatePath(home, "tmp")) }

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
