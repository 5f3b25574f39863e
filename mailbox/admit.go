package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// How long a drop that is not complete is left alone.
const (
	settleTime  = 200 * time.Millisecond // unchanged so long counts as complete where the system cannot say who writes
	halfWritten = 5 * time.Second        // a file that does not parse
	heldOpen    = 60 * time.Second       // a file that somebody holds open for writing
)

// admit looks at a file in pending that is not known to be a task of ours. It
// becomes a task, is rejected, goes to quarantine, or is left alone for now: then
// again is how long to wait before looking again.
func (b *Box) admit(ctx context.Context, name string, q *quota) (again time.Duration, err error) {
	if task.Ignored(name) {
		return 0, nil
	}
	if !q.look(name) {
		return goOn, nil
	}
	s, err := b.tryShard(ctx, home.Shard(task.TrimJSON(name)))
	switch {
	case errors.Is(err, ErrUnsettled):
		q.pass()
		return stays, nil
	case errors.Is(err, ErrBusy):
		return settleTime, nil
	case err != nil:
		return 0, err
	}
	defer s.unlock()
	d := &drop{b: b, s: s, q: q, name: name, path: b.path("tasks", string(Pending), name)}
	again, err = d.admit(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // somebody took it away
	}
	return again, err
}

// stays is what admit answers about a drop that cannot be moved. It is left where it
// is, for whatever it is it would have to be moved; doctor and status name it.
const stays = -time.Nanosecond

// drop is a file in pending under its shard.
type drop struct {
	b     *Box
	s     *shard
	q     *quota
	name  string
	path  string
	data  []byte
	hash  string
	mtime time.Time     // when it changed last
	age   time.Duration // since then
	held  bool          // somebody may still be writing
}

func (d *drop) admit(ctx context.Context) (time.Duration, error) {
	if ours, err := d.known(ctx); ours || err != nil {
		return 0, err
	}
	bad, err := d.read()
	if err != nil {
		return 0, err
	}
	if pinned(bad) {
		d.q.pass()
		return stays, nil
	}
	if bad != nil {
		if wait := d.unfinished(bad); wait > 0 {
			return wait, nil
		}
		if !d.q.putAway(d.name) {
			return goOn, nil
		}
		return 0, d.quarantine(ctx, bad)
	}
	t, fault := d.parse()
	if wait := d.unfinished(fault); wait > 0 {
		return wait, nil
	}
	switch {
	case fault == nil && !d.q.admit(d.name), fault != nil && !d.q.putAway(d.name):
		return goOn, nil
	case fault == nil:
		return d.accept(ctx, t)
	case task.NotATask(fault):
		return 0, d.quarantine(ctx, fault)
	}
	return 0, d.reject(ctx, fault)
}

// known tells whether the file is a task that the ledger knows, and reconciles
// it where it does not look as it should. An ended task that somebody moved back
// here stays as it lies: such a move is never adopted by itself.
func (d *drop) known(ctx context.Context) (bool, error) {
	id := ID(task.TrimJSON(d.name))
	if id.File() != d.name {
		return false, nil
	}
	r, err := d.b.lookup(id)
	if err != nil {
		return false, err
	}
	if r == nil {
		return d.endedHere(id)
	}
	if r.State == Pending {
		return true, nil
	}
	if _, err := os.Lstat(d.b.path("tasks", string(r.State), id.File())); err == nil {
		return false, nil // the task is where it belongs, this is another file
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, d.b.reconciler.reconcile(ctx, d.s, id)
}

// endedHere tells whether the file is an ended task of ours, byte for byte.
func (d *drop) endedHere(id ID) (bool, error) {
	if known, err := d.b.known(id); err != nil || !known {
		return false, err
	}
	_, m, err := d.b.ledger.LastMove(id)
	if err != nil || m == nil || m.After == nil {
		return false, err
	}
	now, err := home.Look(d.path)
	return now.Hash == *m.After, err
}

// read takes the bytes, and says what is wrong with the file as a file.
func (d *drop) read() (bad, err error) {
	info, err := os.Lstat(d.path)
	if err != nil {
		return nil, err
	}
	d.changed(info.ModTime())
	if pin, err := durable.Pinned(d.path); pin != "" || err != nil {
		return kindFault(pinnedCode, string(pin)), err
	}
	bad = fileFault(d.name, info)
	if twoNames(bad) {
		st, err := durable.Lstat(d.path)
		if err != nil {
			return nil, err
		}
		d.changed(time.Unix(st.Ctim.Unix())) // a name more or less is no change of the content
	}
	if !info.Mode().IsRegular() {
		return bad, nil
	}
	f, _, err := durable.OpenRegular(d.path)
	if errors.Is(err, durable.ErrNotRegular) || errors.Is(err, fs.ErrPermission) && durable.Barred(d.path) {
		return cmp.Or(bad, kindFault("not_regular", "it cannot be opened as a regular file")), nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	idle, sure := durable.Idle(f)
	d.held = sure && !idle || !sure && d.age < settleTime
	if bad != nil {
		return bad, nil
	}
	d.data, err = durable.Read(d.path, MaxTask)
	if errors.Is(err, durable.ErrTooLarge) {
		return kindFault("too_large", fmt.Sprintf("it has more than %d bytes", MaxTask)), nil
	}
	d.hash = audit.Hash(d.data)
	return nil, err
}

// changed notes when the file changed last.
func (d *drop) changed(at time.Time) {
	d.mtime, d.age = at, d.b.now().Sub(at)
	switch {
	case d.age < -halfWritten:
		d.age = heldOpen // a time of the future was set: whoever writes now sets the present
	case d.age < 0:
		d.age = 0
	}
}

func kindFault(code, problem string) error {
	return &schemas.Error{Path: "$", Code: code, Problem: problem}
}

func fileFault(name string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return kindFault("not_regular", "it is a "+durable.KindOf(info.Mode())+", not a regular file")
	case ok && st.Nlink != 1:
		return kindFault("hard_link", fmt.Sprintf("it has %d names (hard links)", st.Nlink))
	case ok && int(st.Uid) != os.Getuid():
		return kindFault("not_ours", fmt.Sprintf("it belongs to user %d", st.Uid))
	case info.Size() > MaxTask:
		return kindFault("too_large", fmt.Sprintf("it has %d bytes, at most %d", info.Size(), MaxTask))
	case !strings.HasSuffix(name, ".json"):
		return kindFault("name", "its name does not end in .json")
	}
	return nil
}

func (d *drop) parse() (*Task, error) {
	t, err := task.ParseDrop(d.name, d.data)
	if err != nil {
		return nil, err
	}
	return t, task.InFile(t.Validate(), d.name)
}

// unfinished is how long to leave the file alone: while somebody holds it open
// for writing, and while it does not parse, because it may be half-written.
func (d *drop) unfinished(fault error) time.Duration {
	limit, _ := d.patience(fault)
	if d.age >= limit {
		return 0
	}
	// Soon at first, since most writers are done in a moment, then seldom.
	return min(max(d.age/2, 10*time.Millisecond), limit-d.age+time.Millisecond)
}

// patience is how long the file is left alone since its last change, and why.
func (d *drop) patience(fault error) (limit time.Duration, why string) {
	switch {
	case d.held:
		return heldOpen, "somebody has it open to write"
	case mayGrow(fault):
		return halfWritten, "it may be half-written"
	case twoNames(fault):
		return halfWritten, "its writer may be about to remove its other name"
	case wrongKind(fault):
		return settleTime, "its writer may be about to rename it"
	}
	return 0, ""
}

// patient says what a file in pending that is no task waits for before it is put away.
func patient(b *Box, name string) string {
	d := &drop{b: b, name: name, path: b.path("tasks", string(Pending), name)}
	fault, err := d.read()
	if fault == nil && err == nil {
		_, fault = d.parse()
	}
	limit, why := d.patience(fault)
	switch {
	case err != nil || fault == nil:
		return ""
	case pinned(fault):
		return "no task, and left where it is: " + fault.Error() + "; mbox doctor tells what helps"
	case limit <= d.age:
		return "no task: the next command puts it into quarantine"
	}
	return fmt.Sprintf("no task yet: %s, and is given %s, until %s", why, limit, task.At(d.mtime.Add(limit)))
}

const pinnedCode = "pinned"

// pinned tells whether a file with this fault cannot be moved.
func pinned(fault error) bool { return hasCode(fault, pinnedCode) }

// twoNames tells whether a file with this fault may be one that is just being delivered
// by link and unlink, as into a maildir.
func twoNames(fault error) bool { return hasCode(fault, "hard_link") }

// wrongKind tells whether a regular file with this fault may be one that another
// program writes beside the one that it is for, as sed -i does.
func wrongKind(fault error) bool {
	bad, is := errors.AsType[*schemas.Error](fault)
	return is && (bad.Code == "name" || bad.Code == schemas.CodeTooLarge) && bad.Path == "$"
}

// mayGrow tells whether a file with this fault may be one whose writer is not
// done.
func mayGrow(fault error) bool {
	return hasCode(fault, schemas.CodeTruncated, schemas.CodeEmpty, schemas.CodeNotJSON, schemas.CodeInvalidUTF8)
}

func hasCode(fault error, codes ...string) bool {
	bad, is := errors.AsType[*schemas.Error](fault)
	return is && slices.Contains(codes, bad.Code)
}

// accept makes the drop a task: the normalised file takes its place.
func (d *drop) accept(ctx context.Context, t *Task) (time.Duration, error) {
	b := d.b
	t.Complete(d.mtime, b.now(), "unknown", b.o.MaxAttempts)
	s := d.s
	if t.ID == "" {
		made, second, err := d.makeID(ctx)
		if err != nil || made == "" {
			return settleTime, err
		}
		if second != nil {
			defer second.unlock()
			s = second
			s.locks = append(s.locks, d.s.lock)
		}
		t.ID = made
	}
	if known, err := b.known(t.ID); err != nil || known {
		if err == nil {
			err = d.quarantine(ctx, &schemas.Error{Path: "id", Code: "id_taken", Problem: "the id " + string(t.ID) + " is taken or was used before", Want: "another name"})
		}
		return 0, err
	}
	t.Assignment.TargetAgent = b.queue.Called(t.Assignment.TargetAgent)
	if err := closes(b.books, t); err != nil {
		return 0, d.reject(ctx, asFault(err))
	}
	notes, err := d.reviewed(ctx, s, t)
	switch {
	case errors.Is(err, errNotYet):
		return settleTime, nil
	case err != nil && ctx.Err() != nil:
		return 0, err
	case err != nil:
		return 0, d.refuse(ctx, err)
	}
	key := ""
	if k := t.Mbox.IdempotencyKey; k != "" {
		key = b.saltedHash("key", k)
		n := home.Shard("key:" + k)
		if n != s.number && n != d.s.number {
			held, err := b.tryShard(ctx, n)
			if err != nil {
				return settleTime, ignoreBusy(err)
			}
			defer held.unlock()
			s.locks = append(s.locks, held.lock)
		}
		first, err := b.sender.idOfKey(key)
		if errors.Is(err, errUntold) {
			first, err = "a task of which the ledger has no line any more", nil
		}
		if err != nil || first != "" {
			if err == nil {
				err = d.quarantine(ctx, &schemas.Error{Path: "mbox.idempotency_key", Code: "key_taken", Problem: "the key was sent before, as " + string(first)})
			}
			return 0, err
		}
	}
	err = b.commit(ctx, s, &change{
		id: t.ID, by: audit.MboxAgent, event: audit.TaskCreated, from: None, to: Pending, task: t,
		reason: "admitted", action: fmt.Sprintf("mbox admitted %s for %s", t.ID, t.Assignment.TargetAgent),
		extra: func(m *task.Move) {
			m.SourceSHA256, m.Key = d.hash, key
			if t.ID.File() != d.name {
				m.Dropped = task.DroppedName(d.name)
			}
		},
	})
	if err != nil {
		return 0, task.About(t.ID, err)
	}
	return 0, b.approvals.noteAll(ctx, s, t.ID, notes)
}

// refuse rejects a drop that Options.Review refused.
func (d *drop) refuse(ctx context.Context, why error) error {
	bad, is := errors.AsType[*schemas.Error](why)
	if !is {
		bad = &schemas.Error{Path: "mbox.action", Code: "refused", Problem: why.Error()}
	}
	return d.reject(ctx, bad)
}

// asFault is a circle as what is wrong with a drop.
func asFault(err error) error {
	if circle, is := errors.AsType[*Refusal](err); is {
		return &schemas.Error{Path: "mbox.depends_on", Code: circle.Step, Problem: circle.Reason}
	}
	return err
}

func ignoreBusy(err error) error {
	if errors.Is(err, ErrBusy) {
		return nil
	}
	return err
}

// makeID draws an id for a drop whose name cannot be one. The drop's own shard
// stays locked, so nobody else admits it; the id's is tried without waiting.
func (d *drop) makeID(ctx context.Context) (ID, *shard, error) {
	id, err := d.b.sender.nextID(ctx, d.b.now())
	if err != nil {
		return "", nil, err
	}
	if home.Shard(string(id)) == d.s.number {
		return id, nil, nil
	}
	s, err := d.b.tryShard(ctx, home.Shard(string(id)))
	if err != nil {
		return "", nil, ignoreBusy(err)
	}
	return id, s, nil
}

// reject answers a task with a bad field: mbox files it under failed with the
// reason, and the original bytes go to quarantine.
func (d *drop) reject(ctx context.Context, fault error) error {
	b := d.b
	bad, is := errors.AsType[*schemas.Error](fault)
	if !is {
		return fault
	}
	id := ID(task.TrimJSON(d.name))
	if task.CheckID(id) != nil {
		return d.quarantine(ctx, fault)
	}
	t := task.Salvage(id, d.data)
	if known, err := b.known(id); err != nil || known {
		if err == nil {
			err = d.quarantine(ctx, fault)
		}
		return err
	}
	t.Complete(d.mtime, b.now(), "unknown", b.o.MaxAttempts)
	message := (&schemas.Error{Problem: bad.Problem, Want: bad.Want}).Error()
	t.Result.Error = &TaskError{Code: bad.Code, Message: message, Path: bad.Path}
	return task.About(t.ID, b.commit(ctx, d.s, &change{
		id: t.ID, by: audit.MboxAgent, event: audit.TaskRejected, from: None, to: Failed, task: t,
		reason: fmt.Sprintf("rejected: %s: %s", bad.Path, message), brief: fmt.Sprintf("%s at %s", bad.Code, bad.Path),
		action: fmt.Sprintf("mbox rejected %s", t.ID),
		keep:   &keeping{path: d.path, why: home.Reason{SHA256: d.hash, Name: schemas.Sentence(d.name, 120), Reason: bad.Problem, Code: bad.Code, Path: bad.Path, Want: bad.Want, Task: t.ID}},
		extra:  func(m *task.Move) { m.SourceSHA256, m.Dropped = d.hash, task.DroppedName(d.name) },
	}))
}

// quarantine puts what is no task away, with the reason.
func (d *drop) quarantine(ctx context.Context, fault error) error {
	why := home.Reason{Reason: fault.Error()}
	if bad, is := errors.AsType[*schemas.Error](fault); is {
		why.Reason, why.Code, why.Path, why.Want = bad.Problem, bad.Code, bad.Path, bad.Want
	}
	return d.b.setAside(ctx, d.s, d.path, d.name, audit.TaskQuarantined, why)
}
