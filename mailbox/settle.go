package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
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
	for i := range shards {
		_, set, err := readDirty(privatePath(b.home, "locks", shardName(i)))
		if !set && err == nil {
			continue
		}
		if err != nil && !errors.Is(err, errDamagedRecord) {
			return lockError(err)
		}
		if err := b.settleShard(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// settleShard settles one dirty shard if nobody holds it.
func (b *Box) settleShard(ctx context.Context, number int) error {
	s, err := b.tryShard(ctx, number)
	if errors.Is(err, ErrBusy) || errors.Is(err, ErrReadOnly) {
		return nil
	}
	if errors.Is(err, errDamagedRecord) {
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
// means finish, none means undo.
func (b *Box) settle(ctx context.Context, d dirty) error {
	if err := b.ledger.Flushed(ctx); err != nil {
		return err
	}
	found, agents, err := b.linesSince(d)
	if err != nil {
		return err
	}
	for _, e := range found {
		if err := b.redo(ctx, d, &e); err != nil {
			return err
		}
	}
	for _, agent := range agents {
		if err := b.ledger.Copy(ctx, agent); err != nil {
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

// linesSince returns the entries of the dead holder's transaction, and the
// agents of all lines since: a line that it wrote on the way (a stranger's file
// set aside) may lack in a copy.
func (b *Box) linesSince(d dirty) (found []audit.Entry, agents []string, err error) {
	at := d.at
	if b.ledger.Check(at) != nil {
		at = audit.Position{}
	}
	r := b.ledger.Read(at)
	defer r.Close()
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found, agents, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if agent := line.Agent(); !slices.Contains(agents, agent) {
			agents = append(agents, agent)
		}
		if !strings.Contains(string(line.Raw), `"tx":"`+d.tx+`"`) {
			continue
		}
		e, err := line.Decode()
		if err != nil {
			return nil, nil, fmt.Errorf("ledger seq %d: %w", line.Seq, err)
		}
		found = append(found, e)
	}
}

// redo finishes what one line of the dead holder says.
func (b *Box) redo(ctx context.Context, d dirty, e *audit.Entry) error {
	if m, ok := moveOf(e); ok {
		_, err := b.finish(ctx, ID(e.Task()), m, e.Agent, e.Time())
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
		return b.finishKept(ctx, &kept{Entry: a.Entry, SHA256: a.SHA256}, path)
	case "record":
		return b.placeRecord(e)
	}
	return nil
}

// sweepStaged removes the staged files of a dead holder once its line, if there
// was one, is applied: those of its transaction, and those of its task, which
// exist only under the lock that is now ours. A reason whose entry is in
// quarantine is moved to it.
func (b *Box) sweepStaged(d dirty) error {
	names, err := stagedNames(b.home)
	if err != nil {
		return err
	}
	for _, name := range names {
		owner, tx, _ := cutLast(strings.TrimSuffix(name, reasonSuffix), "~")
		ours := tx == d.tx || d.kind == "task" && (owner == d.name || owner == ID(d.name).file())
		if !ours {
			continue
		}
		if err := b.sweep(name); err != nil {
			return err
		}
	}
	return nil
}

func (b *Box) sweep(name string) error {
	path := privatePath(b.home, "tmp", name)
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return nil // nothing of mbox's; verify names it
	}
	if entry, ok := strings.CutSuffix(name, reasonSuffix); ok {
		kept := b.path("tasks", "quarantine", entry)
		if _, err := os.Lstat(kept); err == nil {
			err := durable.Move(path, kept+reasonSuffix)
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
	}
	return removeIfThere(path)
}

func stagedNames(home string) ([]string, error) {
	d, err := os.Open(privatePath(home, "tmp"))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
