package mailbox

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/history"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// journal brings back what a power cut took from files that only the journal
// had on disk. It comes before everything else, and writes no ledger line: the
// first new line would write over the journal.
func (r *recovery) journal() error {
	journal, err := r.b.ledger.Replay(r.ctx, r.unwritten)
	if err != nil && !(r.o.AfterIOError && errors.Is(err, audit.ErrDamaged)) {
		return err // but who lifts the mark says that the lines behind the journal count
	}
	tasks := map[ID]*versions{}
	for _, rec := range journal {
		id, tx, ok := home.CutLast(rec.Payload.Name, "~")
		if !ok || task.CheckID(ID(id)) != nil {
			continue
		}
		r.journaled[audit.Hash(rec.Payload.Data)] = true
		v := tasks[ID(id)]
		if v == nil {
			v = &versions{id: ID(id)}
			tasks[v.id] = v
		}
		if err := v.add(tx, rec); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(tasks)) {
		v := tasks[id]
		if len(v.txs) == 0 || slices.Contains(r.deleted, id) {
			continue
		}
		if err := r.under(home.Shard(string(id)), func(*shard) error { return r.bringBack(v) }); err != nil {
			return err
		}
	}
	return r.ctx.Err()
}

// versions are the contents of one task that the journal has, oldest first.
type versions struct {
	id       ID
	txs      []string
	contents [][]byte
	known    []string // hashes that its lines name: bytes that may lie about
	kept     string   // that of a rejected drop, which goes to quarantine
}

func (v *versions) add(tx string, rec audit.Journaled) error {
	e, err := rec.Entry()
	if err != nil {
		return err
	}
	m, ok := task.MoveOf(&e)
	if !ok {
		return nil
	}
	v.known = append(v.known, task.HashOf(m.Before), task.HashOf(m.After), m.SourceSHA256, m.Found)
	if m.Kept != nil {
		v.kept = m.Kept.SHA256
	}
	v.txs, v.contents = append(v.txs, tx), append(v.contents, rec.Payload.Data)
	return nil
}

// bringBack stages a task's newest content anew if a power cut took it, and then
// removes the torn files and older versions in the other places of the task. What
// else lies there is external: the content comes back, and what lies in its place goes
// to quarantine when it is moved there. Without a restart an edit of the task is left
// for an operator to judge; after one it cannot be told from what the power cut left.
// After an I/O error every content is staged anew, wherever it is.
func (r *recovery) bringBack(v *versions) error {
	e, m, err := r.b.ledger.LastMove(v.id)
	if err != nil || e == nil {
		return err
	}
	p := r.b.spotOf(v.id, &fate{m: m, at: e.Time()})
	newest := m.TX == v.txs[len(v.txs)-1]
	there, remains, edited, err := r.sift(v, p)
	switch {
	case err != nil:
		return err
	case there == "" && (!newest || edited && !r.restarted):
		return nil // a later content, too large for the journal, was flushed by itself
	case there == "" || r.o.AfterIOError && newest:
		if there, err = r.stageAnew(v, p.staged, there); err != nil {
			return err
		}
	}
	for _, path := range remains {
		if path == there {
			continue // staged anew just now
		}
		if err := durable.RemoveIfThere(path); err != nil {
			return err
		}
	}
	return nil
}

// stageAnew flushes a content in a new inode: as the staged file, or in the place
// of the one that is there. A flush of that one would prove nothing: the kernel
// reports a write error once, and perhaps somebody else has been told. A kill on
// the way leaves the old file where it was, and a file that no line names.
func (r *recovery) stageAnew(v *versions, staged, there string) (string, error) {
	anew, content := home.StagedPath(r.b.home, string(v.id), home.RandomHex(16)), v.contents[len(v.contents)-1]
	if err := durable.Stage(anew, content, r.b.o.Sync); err != nil {
		return "", err
	}
	if there == "" {
		r.out.Replayed++
		return staged, errors.Join(durable.RemoveIfThere(staged), durable.Move(anew, staged))
	}
	if err := durable.Exchange(anew, there); err != nil {
		return "", err
	}
	if out, err := home.Look(anew); err != nil {
		return "", err
	} else if out.Hash != audit.Hash(content) { // edited by hand at this moment
		return there, durable.Exchange(anew, there)
	}
	return there, durable.RemoveIfThere(anew)
}

// sift looks through the places in which a task's bytes may lie, its own folder
// first. It finds where its last content lies ("" for nowhere), what remains there
// of torn files and of versions that have been superseded, and whether somebody has
// edited the task, or made it unreadable.
func (r *recovery) sift(v *versions, p *spot) (there string, remains []string, edited bool, err error) {
	paths := []string{p.place}
	for _, f := range task.Folders {
		paths = append(paths, r.b.path("tasks", string(f), v.id.File()))
	}
	paths = append(paths, p.staged)
	for _, tx := range v.txs {
		paths = append(paths, home.StagedPath(r.b.home, string(v.id), tx))
	}
	for i, path := range paths {
		if slices.Contains(paths[:i], path) {
			continue
		}
		data, err := durable.Read(path, MaxTask)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, durable.ErrNotRegular), errors.Is(err, durable.ErrTooLarge):
			continue
		case errors.Is(err, fs.ErrPermission):
			edited = true
			continue
		case err != nil:
			return "", nil, false, err
		}
		switch sum := audit.Hash(data); {
		case sum == v.kept:
		case sum == task.HashOf(p.m.After) && there == "":
			there = path
		case strings.HasPrefix(path, home.Private(r.b.home)), slices.Contains(v.known, sum), r.restarted && r.journaled[sum], v.torn(data),
			r.unsaid == home.UpgradedSays && superseded(r.b.ledger, data, sum):
			remains = append(remains, path)
		default:
			edited = edited || v.edited(data)
		}
	}
	return there, remains, edited, nil
}

// edited tells whether the bytes are a version of the task that no line names.
func (v *versions) edited(data []byte) bool {
	t := new(Task)
	return schemas.Decode(data, t) == nil && t.ID == v.id
}

// torn tells whether the bytes are what a power cut left of a version.
func (v *versions) torn(data []byte) bool {
	return slices.ContainsFunc(v.contents, func(whole []byte) bool { return audit.Torn(data, whole) })
}

// dropSpares removes the folder in which a home of format 1 kept files that were
// to be used again. Each task is in its place by now, so what they hold has been
// superseded.
func (r *recovery) dropSpares() error { return durable.RemoveAll(home.Private(r.b.home, "spare")) }

// superseded tells whether the bytes are a version of some task that another one
// has taken the place of. Only a home of format 1 can have them in a task's place:
// it used files again, so a power cut leaves there what a file held before. (What
// was written into it since is in the journal.)
func superseded(ledger history.Ledger, data []byte, hash string) bool {
	t := new(Task)
	if schemas.Decode(data, t) != nil || t.Mbox.TX == "" {
		return false
	}
	e, err := ledger.LineWith("tx", t.Mbox.TX)
	if err != nil || e == nil || ID(e.Task()) != t.ID {
		return false
	}
	m, moves := task.MoveOf(e)
	_, last, err := ledger.LastMove(t.ID)
	return moves && err == nil && task.HashOf(m.After) == hash && last != nil && last.TX != m.TX
}
