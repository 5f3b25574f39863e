package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// commit makes a transition. It is the only function that changes the state of
// a task, and this is the order, told here and nowhere else. The caller holds
// the task's shard, has settled what a dead holder left (lockShard does), and
// has checked state, epoch and token against what it read under that lock.
//
//  1. Mark. The intent record says: from this place of the ledger on, a line
//     with this tx may stand. A crash before the line leaves a record and
//     perhaps a lease and a staged file; settle finds no line and removes them.
//  2. Stage. A completion's artifacts are copied to .mbox/tmp/<id>.<epoch>~<tx>/,
//     flushed, and moved into their place; what comes with a new task is copied
//     and flushed only. A claim's lease file is made and
//     locked. The new content is written
//     to .mbox/tmp/<id>~<tx>. tx is 128 random bits; it stands in the content,
//     in the staged name and in the line. What goes to quarantine is flushed, and
//     so is content that the ledger's journal does not take (a large one; all in
//     mode strict and on macOS).
//  3. Append one line, if the lock files are still those that are held (somebody
//     may have removed them, and recovery made others). It goes into the ledger and, with the content, into the
//     journal, and the journal is flushed (package audit tells how; without a
//     journal the ledger is). When that flush has ended the transition has
//     happened: this is the commit. A crash of the process after it is finished
//     by settle, with the function that step 4 uses; after a power cut recovery
//     takes line and content from the journal first. The shard is held over the
//     flush, the ledger's lock is not.
//  4. Apply. Renames bring the tree in line, and never replace what is not
//     ours: into in-progress the file is moved first and the staged content put
//     over it; everywhere else the content is put over the file first and moved
//     then. So no reader sees a completed task without its result, and no task
//     is in two folders. What came with a new task is in its place before.
//  5. Drop the lease that ended, blank the record, answer. The agent's copy of
//     the line follows behind (package audit).
//
// An error that matches ErrCommitted means that step 3 has happened. After any
// other error either nothing has happened, or nobody can tell without reading
// the ledger; then the record stays and the next holder of the shard decides.
func (b *books) commit(ctx context.Context, s *shard, c *change) error {
	tx := home.RandomHex(16)
	data, after, err := c.encode(tx, b.now())
	if err != nil {
		return err
	}
	var m *task.Move
	stage := func() (e audit.Entry, p audit.Payload, err error) {
		if err = b.stage(ctx, s, c, tx, data); err == nil {
			e, m = c.line(b, tx, after)
		}
		return e, b.payload(string(c.id)+"~"+tx, data), err
	}
	undo := func() error { return b.unstage(c, tx) }
	return b.transact(ctx, s, home.Intent{Kind: "task", Name: string(c.id), TX: tx}, stage, undo, func(ctx context.Context, line audit.Line) error {
		return b.apply(ctx, s, c, m, line)
	})
}

// transact makes a change that one line tells: it marks, stages, appends, applies
// and blanks the record again. undo takes back what was staged where not a byte of
// the line was written; if it cannot, or nobody knows whether the line was written,
// the record stays and settle decides. With no intent the change runs inside
// another one, whose record makes settle come back to it.
func (b *books) transact(ctx context.Context, s *shard, d home.Intent, stage func() (audit.Entry, audit.Payload, error), undo func() error, apply func(context.Context, audit.Line) error) error {
	inside := d.TX == ""
	if !inside {
		d.At = b.ledger.End()
		if err := s.mark(d); err != nil {
			return err
		}
	}
	entry, payload, err := stage()
	var line audit.Line
	if err == nil {
		line, err = b.say(ctx, s.locks, entry, payload)
		if err != nil && !errors.Is(err, audit.ErrUnwritten) {
			return fmt.Errorf("the ledger's line: %w", err)
		}
	}
	if err != nil {
		if bad := undo(); inside || bad != nil {
			return errors.Join(err, bad)
		}
		return errors.Join(err, s.withdraw())
	}
	// It has happened: from here on cancellation is ignored.
	err = apply(context.WithoutCancel(ctx), line)
	if err == nil && !inside {
		err = s.clean()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCommitted, err)
	}
	return nil
}

// apply is steps 4 and 5.
func (b *books) apply(ctx context.Context, s *shard, c *change, m *task.Move, line audit.Line) error {
	at := time.Time{}
	if c.from == Archived || c.to == Archived { // only there a folder has the line's time
		e, err := line.Decode()
		if err != nil {
			return err
		}
		at = e.Time()
	}
	var err error
	if c.stolen, err = b.finish(ctx, s, c.id, m, at, true); err == nil && c.endsLease() {
		err = b.leases.Drop(c.id, c.token)
	}
	return err
}

// encode stamps the task and renders it; data is nil where no file is left.
func (c *change) encode(tx string, now time.Time) (data []byte, after string, err error) {
	if c.keep != nil {
		c.keep.why.Entry = home.EntryName(filepath.Base(c.keep.path), tx)
	}
	if c.task == nil {
		return nil, "", nil
	}
	c.stamp(tx, now)
	data, err = schemas.Encode(c.task)
	if err != nil {
		return nil, "", err
	}
	if len(data) > MaxTask {
		return nil, "", &schemas.Error{
			Path: "$", Code: "too_large", Problem: fmt.Sprintf("the task file would have %d bytes", len(data)),
			Want: fmt.Sprintf("at most %d; hand over large results as artifacts", MaxTask),
		}
	}
	return data, audit.Hash(data), nil
}

func (b *books) stage(ctx context.Context, s *shard, c *change, tx string, data []byte) error {
	if c.left.Any() {
		if err := stageFiles(ctx, b, s, c, tx); err != nil {
			return err
		}
	}
	if c.lease != nil {
		if err := c.lease(); err != nil {
			return err
		}
	}
	if c.keep != nil {
		if err := b.stageReason(c.keep); err != nil {
			return err
		}
	}
	if data == nil {
		return nil
	}
	staged := home.StagedPath(b.home, string(c.id), tx)
	if b.ledger.Journals(len(data)) { // the line's flush brings it to the disk
		return durable.Stage(staged, data, durable.None)
	}
	return durable.Stage(staged, data, b.o.Sync)
}

// stageFiles stages what a completion leaves and puts it into its place, or stages
// what comes with a new task: its line puts that there. A folder in that place has a
// stranger put there, and the id is taken.
func stageFiles(ctx context.Context, b *books, s *shard, c *change, tx string) error {
	if _, err := os.Lstat(b.path(c.left.Under)); c.from == None && err == nil {
		return fmt.Errorf("%w: %s is there already, and is no task's", ErrConflict, c.left.Under)
	}
	err := b.stageLeft(ctx, c.left, tx)
	switch {
	case err != nil:
		return err
	case c.from == None:
		return durable.SyncDir(home.Private(b.home, "tmp"), b.o.Sync)
	}
	return b.placeLeft(s, c.left, tx)
}

// payload is the staged content that goes to the disk with the line, through
// the journal; none if it was flushed by itself.
func (b *books) payload(name string, data []byte) audit.Payload {
	if data == nil || !b.ledger.Journals(len(data)) {
		return audit.Payload{}
	}
	return audit.Payload{Name: name, Data: data}
}

// unstage takes back what was staged for a transition that has no line.
func (b *books) unstage(c *change, tx string) error {
	var errs []error
	if c.keep != nil {
		errs = append(errs, durable.RemoveIfThere(home.StagedReason(b.home, c.keep.why.Entry)))
	}
	if c.lease != nil {
		errs = append(errs, b.leases.Drop(c.id, c.token))
	}
	if c.left.Any() {
		errs = append(errs, durable.RemoveAll(b.stagedLeft(c.left, tx)))
	}
	return errors.Join(append(errs, durable.RemoveIfThere(home.StagedPath(b.home, string(c.id), tx)))...)
}

// finish brings the tree in line with a committed line. Commit, settle and
// recovery call it, and calling it again changes nothing. fresh tells that the
// caller has staged the content himself; else it may be torn, or have been used.
// stolen means that the file of a task that was to be claimed lay in in-progress
// before ours was moved there: somebody's mv was faster.
func (b *books) finish(ctx context.Context, s *shard, id ID, m *task.Move, at time.Time, fresh bool) (stolen bool, err error) {
	p := &placement{b: b, ctx: ctx, s: s, id: id, m: m, staged: home.StagedPath(b.home, string(id), m.TX)}
	if m.Enters() != None {
		p.to = filepath.Join(home.Folder(b.home, m.Enters(), at), id.File())
	}
	switch {
	case m.Leaves() != None:
		p.from = filepath.Join(home.Folder(b.home, m.Leaves(), at), id.File())
	case m.SourceSHA256 != "" && m.Dropped == "":
		p.from = p.to // a drop in its task's place
	}
	p.from = b.cameFrom(p)
	if len(m.Attachments) > 0 {
		if err := placeAttached(b, id, m.TX); err != nil {
			return false, err
		}
	}
	err = p.place(fresh)
	if err == nil && m.Enters() == Archived {
		err = b.archiveArtifacts(id, m.Epoch, p.to)
	}
	if errors.Is(err, errLost) {
		// A stranger destroyed it between our renames. It has happened all the
		// same; verify names what is missing, and a line says so now.
		err = b.sayLost(ctx, s, id)
	}
	if err == nil {
		err = b.finishDrop(ctx, s, id, m)
	}
	if err == nil && b.o.Sync == durable.Strict {
		err = p.syncFolders()
	}
	return p.stolen, err
}

// placement brings the file of one committed move into its place.
type placement struct {
	b        *books
	ctx      context.Context
	s        *shard
	id       ID
	m        *task.Move
	staged   string
	from, to string // "" where there is none
	looks    int
	stolen   bool
}

// old tells whether the bytes are those that the move replaces.
func (p *placement) old(s home.Sight) bool {
	return p.m.Replaces(s.Hash)
}

// maxLooks bounds the looks of place: each that is not the last has met a rename
// by somebody else or put a stranger's file aside.
const maxLooks = 64

// place renames until the content with the hash after lies at to. What is fresh
// is renamed first, for as a rule nobody else is at the files. Where somebody was,
// or a crash came between, each further step follows from what lies where.
func (p *placement) place(fresh bool) error {
	if p.to == "" {
		return durable.RemoveIfThere(p.staged)
	}
	if p.m.Enters() == Archived {
		if err := durable.MkdirAll(filepath.Dir(p.to), p.b.o.Sync); err != nil {
			return err
		}
	}
	done, err := false, error(nil)
	if fresh {
		err = p.rename()
		done = err == nil
	}
	for ; !done; p.looks++ {
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if p.looks == maxLooks {
			return fmt.Errorf("%w: task %s does not come to rest in %s", ErrIntegrity, p.id, p.m.Enters())
		}
		done, err = p.step()
	}
	return nil
}

// rename makes the renames of the move. None of them replaces what is not there
// to be replaced, and what an exchange brings out is looked at.
func (p *placement) rename() error {
	switch {
	case p.from == "":
		return durable.Move(p.staged, p.to)
	case p.from == p.to:
		return p.exchange(p.to)
	case p.m.Enters() == InProgress:
		if err := durable.Move(p.from, p.to); err != nil {
			return err
		}
		p.looks++ // what lies there from now on we have put there
		return p.exchange(p.to)
	}
	if err := p.exchange(p.from); err != nil {
		return err
	}
	return durable.Move(p.from, p.to)
}

// exchange puts the staged content over the file at path.
func (p *placement) exchange(path string) error {
	if err := durable.Exchange(p.staged, path); err != nil {
		return err
	}
	return p.discard()
}

// step looks at what lies where and does what follows. It asks nothing of the
// past, so it goes on from wherever a crash or a stranger has stopped the move.
func (p *placement) step() (done bool, err error) {
	after := task.HashOf(p.m.After)
	var to, from, staged home.Sight
	if to, err = home.Look(p.to); err != nil {
		return false, err
	}
	if to.There && to.Hash == after {
		err = p.tidy()
		return err == nil, err
	}
	if p.from != p.to {
		from, err = home.Look(p.from)
	}
	if err == nil {
		staged, err = home.Look(p.staged)
	}
	if err != nil {
		return false, err
	}
	ready := staged.There && staged.Hash == after
	switch {
	case p.old(to) && ready:
		p.stolen = p.looks == 0 && p.m.Leaves() == Pending && p.m.Enters() == InProgress && p.m.Found == ""
		return false, p.exchange(p.to)
	case p.old(to) && from.Hash == after:
		return false, durable.Remove(p.to) // a copy: the right one has been seen
	case to.There && !p.old(to):
		return false, p.setAside(p.to, "another file stood where a committed task belongs")
	case to.There, !ready && p.old(from):
		return false, p.lost()
	case from.There && from.Hash == after:
		return false, durable.Move(p.from, p.to)
	case from.There && ready:
		return false, p.rename()
	case from.There:
		return false, p.setAside(p.from, "edited by hand while a transition was made")
	case ready:
		return false, durable.Move(p.staged, p.to)
	}
	// Neither here nor there nor staged: somebody moved our file on.
	for _, s := range task.Folders {
		elsewhere, err := home.Look(p.b.path("tasks", string(s), p.id.File()))
		if err != nil || elsewhere.Hash == after {
			return err == nil, err
		}
	}
	return false, p.lost()
}

// discard removes the bytes that came out of an exchange, if they are the
// expected ones, or a copy of what is in place already; others are kept.
func (p *placement) discard() error {
	out, err := home.Look(p.staged)
	switch {
	case err != nil || !out.There:
		return err
	case p.old(out), out.Hash == task.HashOf(p.m.After):
		return durable.Remove(p.staged)
	}
	return p.setAside(p.staged, "edited by hand while a transition was made")
}

// tidy removes what is left once the content is in its place.
func (p *placement) tidy() error {
	if err := p.discard(); err != nil || p.from == "" || p.from == p.to {
		return err
	}
	second, err := home.Look(p.from)
	switch {
	case err != nil || !second.There:
		return err
	case p.old(second):
		return durable.Remove(p.from) // the right one has been seen
	}
	return p.setAside(p.from, "a second file of a task that has moved on")
}

func (p *placement) lost() error {
	return fmt.Errorf("%w: task %s: the content that the ledger names (%s) is nowhere, %s cannot be brought up to date",
		errLost, p.id, task.HashOf(p.m.After), p.to)
}

// errLost says that the content of a committed line is nowhere any more.
var errLost = fmt.Errorf("%w: lost", ErrIntegrity)

func (p *placement) setAside(path, why string) error {
	return p.b.setAside(p.ctx, p.s, path, p.id.File(), audit.Reconcile, home.Reason{Reason: why, Task: p.id})
}

func (p *placement) syncFolders() error {
	for _, path := range slices.Compact([]string{p.from, p.to}) {
		if path == "" {
			continue
		}
		if err := durable.SyncDir(filepath.Dir(path), p.b.o.Sync); err != nil {
			return err
		}
	}
	return nil
}

// finishDrop removes a dropped file whose admitted task has another name, and
// moves the original of a rejected drop into quarantine.
func (b *books) finishDrop(ctx context.Context, s *shard, id ID, m *task.Move) error {
	if m.Kept != nil {
		return b.finishKept(ctx, s, m.Kept, b.path("tasks", string(Pending), m.DropName()))
	}
	if m.Dropped == "" {
		return nil
	}
	drop, out := b.path("tasks", string(Pending), m.DropName()), home.StagedPath(b.home, string(id), m.TX)
	if now, err := home.Look(drop); err != nil || now.Hash != m.SourceSHA256 {
		return err // gone, or already somebody's next drop of that name
	}
	if err := durable.Move(drop, out); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	p := &placement{b: b, ctx: ctx, s: s, id: id, m: m, staged: out}
	return p.discard()
}
