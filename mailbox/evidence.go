package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
)

// A ledger that was deleted, cut or replaced must not be taken for one that has
// nothing to say: every task would look like a stranger's drop. So it is held
// against what else remembers its end. Two things are sure: the journal, and the
// head record in the boot that wrote it. After a restart head record and index
// may speak of lines that a power cut took and that nobody was told of; then the
// tree decides, for a task's file is put into its place behind the flush of its
// line. A drop proves nothing as long as ledger and head record agree: whoever
// may drop cannot stop the mailbox.

// lostLines says what the ledger lacks; "" if it holds all that is known of it.
// known is the furthest end that anything remembers. In a home that was moved
// ledger and head record may be those of an older copy, which agree.
func (b *Box) lostLines(ctx context.Context, restarted, moved bool) (known audit.Position, why string, err error) {
	sure, seen, err := b.ledger.Remembered(!restarted)
	if err != nil {
		return known, "", err
	}
	if at := b.snapshotEnd(); at.Seq > seen.Seq {
		seen = at
	}
	holds := map[audit.Position]bool{{}: true}
	note := func(p audit.Position) {
		for _, q := range []audit.Position{sure, seen} {
			if q.Seq == p.Seq && q.Checksum == p.Checksum {
				holds[q] = true
			}
		}
	}
	note(audit.Position{Checksum: audit.Genesis(b.id)})
	lines := audit.NewReader(b.home, b.id)
	for line, err := range lines.Lines() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return known, "", err
		}
		note(line.End)
	}
	end := lines.Position()
	for _, p := range []audit.Position{sure, seen, end} {
		if p.Seq >= known.Seq && p.Checksum != "" {
			known = p
		}
	}
	lacks := func(p audit.Position) string {
		return fmt.Sprintf("seq %d was written (%s), and the chain in audit/shared goes from seq 1 to %d only", p.Seq, p.Checksum, end.Seq)
	}
	switch {
	case !holds[sure]:
		return known, lacks(sure), nil
	case !moved && (sure.Checksum != "" || seen.Checksum != "" && holds[seen]):
		return known, "", nil
	}
	path, err := b.unheardOf(ctx, seen.Checksum == "" || holds[seen])
	if path == "" || err != nil {
		return known, "", err
	}
	if !holds[seen] {
		return known, lacks(seen) + "; " + path + " has a line behind that", nil
	}
	return known, fmt.Sprintf("%s has a line, and it is not in audit/shared, which ends after seq %d", path, end.Seq), nil
}

// snapshotEnd is the place of the ledger at which the index was written down.
func (b *Box) snapshotEnd() audit.Position {
	f, _, err := durable.OpenRegular(b.snapshotPath())
	if err != nil {
		return audit.Position{}
	}
	s := &snapshot{file: f}
	defer s.close()
	if s.readHead() != nil || s.head.Mailbox != b.id {
		return audit.Position{}
	}
	return s.head.At
}

// unheardOf finds a task whose transaction no line of the ledger has; "" if there
// is none. Where the ledger's end is not known, or is there, what lies in pending
// may be anybody's.
func (b *Box) unheardOf(ctx context.Context, notPending bool) (path string, err error) {
	said := map[string]bool{}
	for line, err := range audit.NewReader(b.home, b.id).Lines() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return "", err
		}
		if tx := line.Text("tx"); tx != "" {
			said[tx] = true
		}
	}
	err = b.stamped(func(at, tx string) bool {
		if !said[tx] && !(notPending && strings.HasPrefix(at, "tasks/pending/")) {
			path = at
		}
		return path == ""
	})
	return path, err
}

// stamped calls visit with each file in a folder of tasks that holds a whole task
// of its own name with a transaction, until that answers false.
func (b *Box) stamped(visit func(path, tx string) bool) error {
	err := filepath.WalkDir(b.path("tasks"), func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.IsDir() && (path == b.path("tasks", "quarantine") || path == b.path(task.ArtifactsDir)):
			return fs.SkipDir
		case !e.Type().IsRegular() || task.Ignored(e.Name()):
			return nil
		}
		data, err := durable.Read(path, MaxTask)
		if err != nil {
			return nil //nolint:nilerr // what cannot be read proves nothing
		}
		var t struct {
			Mbox struct {
				TX string `json:"tx"`
			} `json:"mbox"`
		}
		if json.Unmarshal(data, &t) != nil || len(t.Mbox.TX) != 32 || !ownName(path, data) {
			return nil
		}
		if !visit(strings.TrimPrefix(path, b.home+"/"), t.Mbox.TX) {
			return fs.SkipAll
		}
		return nil
	})
	return err
}

// intact ends the recovery of a mailbox whose ledger is short of what is known
// of it, with nothing changed but the read-only mark.
func (r *recovery) intact() error {
	_, why, err := r.b.lostLines(r.ctx, r.restarted, r.out.Moved)
	if err != nil || why == "" {
		return err
	}
	return r.b.ledger.Stop(fmt.Errorf("%w: %s", audit.ErrDamaged, why))
}
