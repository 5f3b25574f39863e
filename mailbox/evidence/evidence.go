// Package evidence finds what tells of ledger lines, other than the ledger itself.
//
// A ledger that was deleted, cut or replaced has to be noticed: without its lines
// every task looks like a drop. So its end is compared with what else tells of it.
// Two things are sure: the journal, and the head record in the boot that wrote it.
// After a restart head record and snapshot may name lines that a power cut took
// and that were never acknowledged. Then the tree decides, because a task's file
// comes into its place after the flush of its line. As long as ledger and head
// record agree a drop proves nothing, so that who may drop cannot stop the mailbox.
package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/queue"
	"mbox/mailbox/task"
)

// Home is the home of a mailbox, with its id.
type Home struct{ home, id string }

// At is the home in a folder, of the mailbox with that id.
func At(home, id string) Home { return Home{home, id} }

// LostLines says what the ledger lacks; "" if it has all that is known of it.
// known is the furthest end that anything remembers. In a home that was moved
// ledger and head record may be those of an older copy, which agree.
func (e Home) LostLines(ctx context.Context, ledger *audit.Ledger, restarted, moved bool) (known audit.Position, why string, err error) {
	sure, seen, err := ledger.Remembered(!restarted)
	if err != nil {
		return known, "", err
	}
	if at := queue.Saved(e.home, e.id); at.Seq > seen.Seq {
		seen = at
	}
	there := map[audit.Position]bool{{}: true}
	pass := func(at audit.Position) {
		for _, p := range []audit.Position{sure, seen} {
			if p.Seq == at.Seq && p.Checksum == at.Checksum {
				there[p] = true
			}
		}
	}
	pass(audit.Position{Checksum: audit.Genesis(e.id)})
	lines := audit.NewReader(e.home, e.id)
	for line, err := range lines.Lines() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return known, "", err
		}
		pass(line.End)
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
	case !there[sure]:
		return known, lacks(sure), nil
	case !moved && (sure.Checksum != "" || seen.Checksum != "" && there[seen]):
		return known, "", nil
	}
	path, err := e.unheardOf(ctx, seen.Checksum == "" || there[seen])
	if path == "" || err != nil {
		return known, "", err
	}
	if !there[seen] {
		return known, lacks(seen) + "; " + path + " has a line behind that", nil
	}
	return known, fmt.Sprintf("%s has a line, and it is not in audit/shared, which ends after seq %d", path, end.Seq), nil
}

// unheardOf finds a task whose transaction no line of the ledger has; "" if there
// is none. Where the ledger's end is not known, or is there, what lies in pending
// may be anybody's.
func (e Home) unheardOf(ctx context.Context, notPending bool) (path string, err error) {
	known := map[string]bool{}
	for line, err := range audit.NewReader(e.home, e.id).Lines() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return "", err
		}
		if tx := line.Text("tx"); tx != "" {
			known[tx] = true
		}
	}
	for t, err := range e.Stamped() {
		if err != nil {
			return "", err
		}
		if !known[t.tx] && !(notPending && home.StateAt(e.home, t.Path) == task.Pending) {
			return strings.TrimPrefix(t.Path, e.home+"/"), nil
		}
	}
	return "", nil
}

// Stamp is the transaction that a task's file bears.
type Stamp struct{ Path, tx string }

// Stamped yields each file in a folder of tasks that holds a whole task of its own
// name with a transaction. One under another task's name, or torn, may be a file
// that a home of format 1 used again, and nothing tells that it was renamed since.
func (e Home) Stamped() iter.Seq2[Stamp, error] {
	return func(yield func(Stamp, error) bool) {
		dirs, err := home.TaskFolders(e.home)
		if err != nil {
			yield(Stamp{}, err)
			return
		}
		for path, err := range home.Paths(dirs...) {
			var t struct {
				ID   task.ID `json:"id"`
				Mbox struct {
					TX string `json:"tx"`
				} `json:"mbox"`
			}
			data, unread := durable.Read(path, task.MaxTask)
			whole := unread == nil && json.Unmarshal(data, &t) == nil && len(t.Mbox.TX) == 32 && strings.EqualFold(filepath.Base(path), t.ID.File())
			if (err != nil || whole) && !yield(Stamp{path, t.Mbox.TX}, err) {
				return
			}
		}
	}
}

// Standing tells which of the transactions, if any, stands in a file of the
// home, for the ledger, before it sets lines aside.
func (e Home) Standing(txs []string) (string, error) {
	for t, err := range e.Stamped() {
		if err != nil || slices.Contains(txs, t.tx) {
			return t.tx, err
		}
	}
	for path, err := range home.Paths(filepath.Join(e.home, "decisions"), filepath.Join(e.home, "changes")) {
		if err != nil {
			return "", err
		}
		data, _ := durable.Read(path, 4*task.MaxTask) // one that cannot be read has no transaction
		for _, tx := range txs {
			if bytes.Contains(data, []byte(`"tx": "`+tx+`"`)) {
				return tx, nil
			}
		}
	}
	return "", nil
}
