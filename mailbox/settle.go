package mailbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// settledFor is how long a settling of all shards counts: Open settles, and the
// first scan after it need not.
const settledFor = 50 * time.Millisecond

// settleAll settles every shard whose holder has died, without waiting for one that
// is held. Open and every scan begin with it, so that what a kill left does not
// stay invisible. One that cannot be settled keeps only those out who want it.
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
	all, err := b.intents.Filled()
	if err != nil {
		return home.LockError(err)
	}
	var bad []error
	for _, slot := range all {
		s, err := b.tryShard(ctx, slot.Number)
		switch {
		case err == nil:
			s.unlock() // tryShard has settled it
		case errors.Is(err, ErrUnsettled):
			bad = append(bad, err)
		case errors.Is(err, ErrBusy), errors.Is(err, ErrReadOnly):
		case errors.Is(err, home.ErrDamagedIntent):
			if err := b.recoverAll(ctx, true); err != nil {
				return err
			}
		default:
			return err
		}
	}
	b.mu.Lock()
	b.unsettled = bad
	b.mu.Unlock()
	return nil
}

// Unsettled tells of the shards that could not be settled when that was last tried, and
// of files that a recovery on the way could not read, each error once.
func Unsettled(b *Box) (news []error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	told := map[string]bool{}
	if b.unread != nil {
		news, b.unread = append(news, b.unread), nil
	}
	for _, err := range b.unsettled {
		if told[err.Error()] = true; !b.told[err.Error()] {
			news = append(news, err)
		}
	}
	b.told = told
	return news
}

// settle finishes or undoes what a dead holder of the shard had begun. The
// ledger decides: it is flushed first, for a line that is acted on must be on
// disk, and then read from the record's place on. A line with the record's tx
// means finish, none means undo. What it was putting aside on the way is put
// aside first: its line names the entry, and finishing would make another one.
func (b *books) settle(ctx context.Context, s *shard, d home.Intent) error {
	if err := b.ledger.Flushed(ctx); err != nil {
		return err
	}
	names, err := b.stagedBy(d)
	if err != nil {
		return err
	}
	for _, name := range names {
		if tx := reasonTX(name); tx != "" && tx != d.TX {
			if err := b.finishAside(ctx, s, tx, d); err != nil {
				return err
			}
		}
	}
	lines, err := d.Lines(b.ledger.Ledger, d.TX)
	if err != nil {
		return err
	}
	for _, e := range lines {
		if err := b.redo(ctx, s, d, &e); err != nil {
			return err
		}
	}
	if d.Kind == "task" {
		if err := b.leases.DropOthers(ID(d.Name)); err != nil {
			return err
		}
	}
	return b.sweepStaged(d)
}

// finishAside finishes putting bytes aside, if their line is committed. It belongs
// to no transition: what a move puts aside is finished with that.
func (b *books) finishAside(ctx context.Context, s *shard, tx string, d home.Intent) error {
	lines, err := d.Lines(b.ledger.Ledger, tx)
	for _, e := range lines {
		if _, moves := task.MoveOf(&e); err == nil && !moves {
			err = b.redo(ctx, s, home.Intent{Kind: "drop"}, &e)
		}
	}
	return err
}

// reasonTX is the transaction of a staged reason; "" for what is none.
func reasonTX(name string) string {
	entry, isReason := strings.CutSuffix(name, home.ReasonSuffix)
	if _, tx, ok := home.CutLast(entry, "~"); ok && isReason {
		return tx
	}
	return ""
}

// redo finishes what one line of the dead holder says. A move that is not its
// task's last was finished before the next was begun: the record that names it
// is a stale one that a power cut brought back, and so may be the file that it
// would find.
func (b *books) redo(ctx context.Context, s *shard, d home.Intent, e *audit.Entry) error {
	if m, ok := task.MoveOf(e); ok {
		_, last, err := b.ledger.LastMove(ID(e.Task()))
		if err != nil || last != nil && last.TX != m.TX {
			return err
		}
		_, err = b.finish(ctx, s, ID(e.Task()), m, e.Time(), false)
		return err
	}
	switch d.Kind {
	case "drop":
		var a asideDetails
		if err := e.Detail(&a); err != nil {
			return err
		}
		path := b.path(a.Place)
		if d.Name != "" && !strings.HasPrefix(a.Place, ".mbox/tmp/") {
			path = filepath.Join(filepath.Dir(path), d.Name) // the line has the name made printable
		}
		return b.finishKept(ctx, s, &task.Kept{Entry: a.Entry, SHA256: a.SHA256}, path)
	case "record":
		return b.placeRecord(e)
	}
	return nil
}

// stagedBy lists the staged files of a dead holder: those of its transaction,
// and those of its task, which exist only under the lock that is now ours.
func (b *books) stagedBy(d home.Intent) ([]string, error) {
	names, err := home.StagedNames(b.home)
	return slices.DeleteFunc(names, func(name string) bool { return !d.Owns(name) }), err
}

// sweepStaged removes the staged files of a dead holder once its line, if there
// was one, is applied.
func (b *books) sweepStaged(d home.Intent) error {
	names, err := b.stagedBy(d)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, tx, _ := home.CutLast(name, "~"); tx != d.TX && home.StagesArtifacts(b.home, name) {
			continue // of the task whose id and epoch look like this one's id
		}
		if err := b.sweep(name); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes one staged file. A reason whose entry is in quarantine joins it.
func (b *books) sweep(name string) error {
	path := home.Private(b.home, "tmp", name)
	if home.StagesArtifacts(b.home, name) {
		return durable.RemoveAll(path)
	}
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return nil // nothing of mbox's; verify names it
	}
	if entry, ok := strings.CutSuffix(name, home.ReasonSuffix); ok {
		kept := b.path("tasks", "quarantine", entry)
		_, err := os.Lstat(kept)
		if err == nil {
			err = durable.Move(path, kept+home.ReasonSuffix)
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
				return err
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err // only an entry that is not there needs no reason
		}
	}
	return durable.RemoveIfThere(path)
}
