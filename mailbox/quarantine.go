package mailbox

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// stageReason flushes the bytes that are to be kept, and stages their reason.
func (b *books) stageReason(k *keeping) error {
	sha, size, shared, err := b.flushKept(k.path)
	if err != nil {
		return err
	}
	k.shared = shared
	k.why.SHA256, k.why.Size, k.why.At = cmp.Or(k.why.SHA256, sha), size, task.At(b.now())
	k.why.Reason = task.OneLine(k.why.Reason)
	data, err := schemas.Encode(k.why)
	if err != nil {
		return err
	}
	k.noted = audit.Hash(data)
	return durable.Stage(home.StagedReason(b.home, k.why.Entry), data, b.o.Sync)
}

// flushKept brings a file that goes to quarantine to the disk, since a line
// will name it. What is no regular file is not opened. shared tells that somebody
// else can write it without coming by its new name: who holds it open for
// writing, who has another name of it, or whom it belongs to. mbox does not copy
// it, for it is to be kept as it came; so verify does not compare what it became.
func (b *books) flushKept(path string) (sha string, size int64, shared bool, err error) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "", 0, false, err
	}
	f, info, err := durable.OpenRegular(path)
	if errors.Is(err, fs.ErrPermission) && durable.Barred(path) || errors.Is(err, durable.ErrNotRegular) {
		return "", 0, false, nil
	}
	if err != nil {
		return "", 0, false, err
	}
	defer f.Close()
	if b.o.Sync != durable.None {
		if err := durable.SyncFile(f); err != nil {
			return "", 0, false, err
		}
	}
	idle, sure := durable.Idle(f)
	st, ok := info.Sys().(*syscall.Stat_t)
	shared = sure && !idle || ok && (st.Nlink != 1 || int(st.Uid) != os.Getuid())
	sha, err = home.HashKept(f, info)
	return sha, info.Size(), shared, err
}

// finishKept moves a kept file and its reason into quarantine. It goes on from
// wherever a crash has stopped it. If other bytes have come along, they are
// somebody's new file and go back. What was to be kept is gone then, and a line
// of its own says so, for the one before names an entry that never came.
func (b *books) finishKept(ctx context.Context, s *shard, k *task.Kept, path string) error {
	to := b.path("tasks", "quarantine", k.Entry)
	_, err := os.Lstat(home.StagedReason(b.home, k.Entry))
	switch {
	case err == nil:
		err = b.finishEntry(ctx, s, k, path, to)
	case errors.Is(err, fs.ErrNotExist):
		// The entry was there, and if somebody took it away verify tells. A power cut
		// may have undone its move alone; else another file has come to path since.
		right := false
		if right, err = hasHash(path, k.SHA256); right {
			err = moveKept(path, to)
		}
	}
	if err == nil && b.o.Sync == durable.Strict {
		err = durable.SyncDir(filepath.Dir(to), b.o.Sync)
	}
	return err
}

// finishEntry moves what lies at path into quarantine, and only then reads what it
// is. Once its reason has joined it an entry is not touched any more.
func (b *books) finishEntry(ctx context.Context, s *shard, k *task.Kept, path, to string) error {
	if err := moveKept(path, to); err != nil {
		return leave(ctx, b, s, k, path, err)
	}
	right, err := hasHash(to, k.SHA256)
	if err == nil && !right {
		err = b.sendBack(ctx, s, to, path)
		if err == nil {
			err = b.sayGone(ctx, s, k, "replaced or removed on its way into quarantine")
		}
	}
	if err != nil {
		return err
	}
	return b.sweep(k.Entry + home.ReasonSuffix)
}

// moveKept moves a file into quarantine, if it is there and has not been moved.
func moveKept(path, to string) error {
	err := durable.Move(path, to)
	if errors.Is(err, fs.ErrPermission) && os.Chmod(path, durable.DirMode) == nil {
		err = durable.Move(path, to) // a folder that may not be written may not be moved
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// leave gives a file up that was not moved because it cannot be. The next scan finds it
// as one that stays where it is. After any other error the move is tried again.
func leave(ctx context.Context, b *books, s *shard, k *task.Kept, path string, err error) error {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EBUSY) {
		return err
	}
	pin, failed := durable.Pinned(path)
	if pin == "" || failed != nil {
		return errors.Join(err, failed)
	}
	if err := b.sayGone(ctx, s, k, "left where it was: "+string(pin)); err != nil {
		return err
	}
	return b.sweep(k.Entry + home.ReasonSuffix)
}

// hasHash tells whether a file with this hash lies at path; hash is "" for what
// has none.
func hasHash(path, hash string) (bool, error) {
	now, err := home.HashKeptAt(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, fs.ErrPermission) && durable.Barred(path):
		return hash == "", nil
	}
	return err == nil && now == hash, err
}

// sendBack undoes the move of a file that took the place of the one to be kept.
func (b *books) sendBack(ctx context.Context, s *shard, to, path string) error {
	err := durable.Move(to, path)
	if errors.Is(err, fs.ErrExist) { // yet another has come
		why := home.Reason{Reason: "it came while another file of its name was put into quarantine, and a third came then"}
		return b.setAside(ctx, s, to, filepath.Base(path), audit.Reconcile, why)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sayGone writes, once, that an entry is not there to come: whoever dropped the
// file replaced or removed it before it was moved, or it cannot be moved any more. It
// takes back what the line that names the entry says, inside its transition and when
// that is settled.
func (b *books) sayGone(ctx context.Context, s *shard, k *task.Kept, why string) error {
	if before, err := b.ledger.LineWith("gone", k.Entry); err != nil || before != nil {
		return err
	}
	return b.sayAlone(ctx, s.locks, audit.Entry{
		Agent: audit.MboxAgent, Event: audit.Reconcile,
		Action:  "mbox could not keep " + k.Entry + ": it was " + why,
		Details: audit.Details(map[string]string{"gone": k.Entry, "sha256": k.SHA256, "reason": why}),
	})
}

// asideDetails are the details of a line that puts bytes into quarantine
// without moving a task.
type asideDetails struct {
	TX     string `json:"tx"`
	Name   string `json:"name"`
	Entry  string `json:"entry"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	Reason string `json:"reason"`
	Code   string `json:"code,omitzero"`
	Place  string `json:"place"` // where it lay, from the home

	ReasonSHA256 string `json:"reason_sha256,omitzero"` // of the reason file
	Shared       bool   `json:"shared,omitzero"`        // its later bytes do not count (flushKept)

	audit.Writer
}

// setAside moves an external file into quarantine: its bytes are flushed,
// the reason is staged, the line is appended, and then the renames follow. It
// marks the intent record itself, unless one stands there: then it runs inside a
// transition, whose record makes settle come back to it.
func (b *books) setAside(ctx context.Context, s *shard, path, name string, event audit.Event, why home.Reason) error {
	return b.putAside(ctx, s, path, nil, name, event, why)
}

// putAside is setAside also for bytes that are in no file yet: a late result.
func (b *books) putAside(ctx context.Context, s *shard, path string, data []byte, name string, event audit.Event, why home.Reason) error {
	tx := home.RandomHex(16)
	why.Name, why.Entry = schemas.Sentence(name, 120), home.EntryName(name, tx)
	k := &keeping{path: path, why: why}
	if data != nil {
		k.path = home.Private(b.home, "tmp", k.why.Entry)
	}
	d := home.Intent{Kind: "drop", Name: name, TX: tx}
	if s.marked {
		d = home.Intent{}
	}
	stage := func() (e audit.Entry, p audit.Payload, err error) {
		if data != nil {
			err = durable.Stage(k.path, data, durable.None) // stageReason flushes it
		}
		if err == nil {
			err = b.stageReason(k)
		}
		return b.asideEntry(k, tx, event), p, err
	}
	undo := func() error {
		err := durable.RemoveIfThere(home.StagedReason(b.home, k.why.Entry))
		if data != nil {
			err = errors.Join(err, durable.RemoveIfThere(k.path))
		}
		return err
	}
	return b.transact(ctx, s, d, stage, undo, func(ctx context.Context, _ audit.Line) error {
		return b.finishKept(ctx, s, &task.Kept{Entry: k.why.Entry, SHA256: k.why.SHA256}, k.path)
	})
}

func (b *books) asideEntry(k *keeping, tx string, event audit.Event) audit.Entry {
	place, ok := strings.CutPrefix(k.path, b.home+"/")
	if !ok {
		place = k.path
	}
	e := audit.Entry{
		Agent: audit.MboxAgent, Event: event,
		Action: "mbox put " + k.why.Entry + " into quarantine",
		Details: audit.Details(asideDetails{
			TX: tx, Name: k.why.Name, Entry: k.why.Entry, SHA256: k.why.SHA256, Size: k.why.Size, Reason: k.why.Reason, Code: k.why.Code,
			Place: schemas.Sentence(place, 200), ReasonSHA256: k.noted, Shared: k.shared, Writer: b.writer,
		}),
	}
	if id := string(k.why.Task); id != "" && event != audit.TaskQuarantined {
		e.TaskID = &id
	}
	return e
}
