package mailbox

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// journal brings back what a power cut took from files that only the journal
// had on disk. It comes before everything else, and writes no ledger line: the
// first new line would write over the journal.
func (r *recovery) journal() error {
	records, err := r.b.ledger.Replay(r.ctx, r.unwritten)
	if err != nil && !(r.suspect && errors.Is(err, audit.ErrDamaged)) {
		return err // but who lifts the mark says that the lines behind the journal count
	}
	tasks := map[ID]*versions{}
	for _, rec := range records {
		id, tx, ok := home.CutLast(rec.Payload.Name, "~")
		if !ok || task.CheckID(ID(id)) != nil {
			continue
		}
		r.journaled[audit.Hash(rec.Payload.Data)] = true
		v := tasks[ID(id)]
		if v == nil {
			v = &versions{id: ID(id), known: map[string]bool{}}
			tasks[v.id] = v
		}
		if err := v.add(tx, rec); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(tasks)) {
		if err := r.restore(tasks[id]); err != nil {
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
	known    map[string]bool // hashes that its lines name: bytes that may lie about
	kept     string          // of a rejected drop, which goes to quarantine
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
	for _, h := range []string{task.HashOf(m.Before), task.HashOf(m.After), m.SourceSHA256, m.Found} {
		if h != "" {
			v.known[h] = true
		}
	}
	if m.Kept != nil {
		v.kept = m.Kept.SHA256
	}
	v.txs, v.contents = append(v.txs, tx), append(v.contents, rec.Payload.Data)
	return nil
}

// restore stages a task's newest content anew if a power cut took it, and then
// removes the torn files and older versions that lie where the task is not. What
// else lies in the task's places is a stranger's, and where the machine was not
// restarted it is left there for an operator to judge. After a restart nobody
// can tell, so the content comes back, and what was found in its place goes to
// quarantine when it is moved there. After an I/O error every content is staged
// anew, wherever it is.
func (r *recovery) restore(v *versions) error {
	if len(v.txs) == 0 || slices.Contains(r.deleted, v.id) {
		return nil
	}
	s, err := r.shard(v.id)
	if err != nil {
		return err
	}
	defer s.unlock()
	e, m, err := r.b.lastMove(v.id)
	if err != nil || e == nil {
		return err
	}
	newest := len(v.txs) - 1
	staged := home.StagedPath(r.b.home, string(v.id), m.TX)
	remains, there, err := r.look(v, r.places(v, m.TX, m.Enters(), e.Time()), task.HashOf(m.After))
	if err != nil || there == "" && m.TX != v.txs[newest] {
		return err // a later content, too large for the journal, was flushed by itself
	}
	if there == "" && slices.Contains(remains, "") && !r.restarted {
		return nil
	}
	if there == "" || r.suspect && m.TX == v.txs[newest] {
		if there, err = r.stageAnew(v, staged, there); err != nil {
			return err
		}
	}
	for _, p := range remains {
		if p != "" && p != there {
			if err := durable.RemoveIfThere(p); err != nil {
				return err
			}
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
	} else if out.Hash != audit.Hash(content) { // a stranger's edit of this moment
		return there, durable.Exchange(anew, there)
	}
	return there, durable.RemoveIfThere(anew)
}

// places are where a task's bytes may lie: its own folder first.
func (r *recovery) places(v *versions, last string, to State, at time.Time) []string {
	places := []string{filepath.Join(home.Folder(r.b.home, to, at), v.id.File())}
	for _, f := range task.Folders {
		if f != to {
			places = append(places, r.b.path("tasks", string(f), v.id.File()))
		}
	}
	for _, tx := range append([]string{last}, v.txs...) {
		if p := home.StagedPath(r.b.home, string(v.id), tx); !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	return places
}

// look finds where the content with the hash lies ("" for nowhere), and which
// of the places hold remains: torn bytes, or a version that has been superseded.
// A "" among those stands for what is neither.
func (r *recovery) look(v *versions, places []string, hash string) (remains []string, there string, err error) {
	for _, p := range places {
		data, err := durable.Read(p, MaxTask)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, durable.ErrNotRegular), errors.Is(err, durable.ErrTooLarge), errors.Is(err, fs.ErrPermission):
			remains = append(remains, "")
			continue
		case err != nil:
			return nil, "", err
		}
		sum := audit.Hash(data)
		switch {
		case sum == v.kept:
		case sum == hash && there == "":
			there = p
		case strings.HasPrefix(p, home.Private(r.b.home)), v.known[sum], r.says == home.UpgradedSays && r.superseded(data, sum), r.restarted && r.journaled[sum],
			slices.ContainsFunc(v.contents, func(c []byte) bool { return audit.Torn(data, c) }):
			remains = append(remains, p)
		default:
			remains = append(remains, "")
		}
	}
	return remains, there, nil
}

// dropSpares removes the folder in which a home of format 1 kept files that were
// to be used again. Each task is in its place by now, so what they hold has been
// superseded.
func dropSpares(dir string) error { return durable.RemoveAll(home.Private(dir, "spare")) }

// superseded tells whether the bytes are a version of some task that another one
// has taken the place of. Only a home of format 1 can have them in a task's place:
// it used files again, so a power cut leaves there what a file held before. (What
// was written into it since is in the journal.)
func (r *recovery) superseded(data []byte, hash string) bool {
	t := new(Task)
	if schemas.Decode(data, t) != nil || t.Mbox.TX == "" {
		return false
	}
	e, err := r.b.lineWith("tx", t.Mbox.TX)
	if err != nil || e == nil || ID(e.Task()) != t.ID {
		return false
	}
	m, ok := task.MoveOf(e)
	_, last, err := r.b.lastMove(t.ID)
	return ok && err == nil && task.HashOf(m.After) == hash && last != nil && last.TX != t.Mbox.TX
}
