package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// commit makes a transition. It is the only function that changes the state of
// a task, and this is the order, told here and nowhere else. The caller holds
// the task's shard, has settled what a dead holder left (lockShard does), and
// has checked state, epoch and token against what it read under that lock.
//
//  1. Mark. The dirty record says: from this place of the ledger on, a line
//     with this tx may stand. A crash before the line leaves a record and
//     perhaps a lease and a staged file; settle finds no line and removes them.
//  2. Stage. A completion's artifacts are copied to .mbox/tmp/<id>.<epoch>~<tx>/,
//     flushed, and moved into their place. A claim's lease file is made and
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
//     is in two folders.
//  5. Copy the line to its agent's copy, drop the lease that ended, blank the
//     record, answer.
//
// An error that matches ErrCommitted means that step 3 has happened. After any
// other error either nothing has happened, or nobody can tell without reading
// the ledger; then the record stays and the next holder of the shard decides.
func (b *Box) commit(ctx context.Context, s *shard, c *change) error {
	tx := randomHex(16)
	data, after, err := c.encode(tx, b.now())
	if err != nil {
		return err
	}
	if err := s.mark(dirty{kind: "task", name: string(c.id), tx: tx, at: b.ledger.End()}); err != nil {
		return err
	}
	if err := b.stage(ctx, s, c, tx, data); err != nil {
		return errors.Join(err, b.abort(s, c, tx))
	}
	entry, m := c.line(b, tx, after)
	line, err := b.say(ctx, s.locks, entry, b.payload(string(c.id)+"~"+tx, data))
	if errors.Is(err, audit.ErrUnwritten) {
		return errors.Join(err, b.abort(s, c, tx))
	}
	if err != nil {
		return fmt.Errorf("the ledger's line: %w", err)
	}
	// From here on nobody's impatience counts: it has happened.
	ctx = context.WithoutCancel(ctx)
	if c.stolen, err = b.apply(ctx, s, c.id, m, entry.Agent, line); err != nil {
		return fmt.Errorf("%w: %w", ErrCommitted, err)
	}
	if c.endsLease() {
		if err := b.dropLease(c.id, c.token); err != nil {
			return fmt.Errorf("%w: %w", ErrCommitted, err)
		}
	}
	if err := s.clean(); err != nil {
		return fmt.Errorf("%w: %w", ErrCommitted, err)
	}
	return nil
}

// apply is step 4 and the copy of step 5 in the normal path: the renames that
// have to be made where nobody else was at the files. Where somebody was, finish
// looks before each step.
func (b *Box) apply(ctx context.Context, s *shard, id ID, m *move, agent string, line audit.Line) (stolen bool, err error) {
	if p, ok := b.placing(ctx, s, id, m); ok {
		done, err := p.direct()
		if err != nil {
			return false, err
		}
		if !done {
			err = p.place()
		}
		if err == nil {
			return p.stolen, b.ledger.Copy(ctx, agent)
		}
		if !errors.Is(err, errLost) {
			return false, err
		}
	}
	e, err := line.Decode()
	if err != nil {
		return false, err
	}
	return b.finish(ctx, s, id, m, agent, e.Time())
}

// placing prepares the placement of a move between live folders that has no
// drop to put away; false for any other.
func (b *Box) placing(ctx context.Context, s *shard, id ID, m *move) (*placement, bool) {
	to := m.to()
	if b.o.Sync == durable.Strict || folderIndex(to) < 0 || m.SourceSHA256 != "" || m.Found != "" || m.Kept != nil {
		return nil, false
	}
	p := &placement{b: b, ctx: ctx, s: s, id: id, m: m, staged: b.staged(string(id), m.TX), to: b.path("tasks", string(to), id.file())}
	if m.from() != None {
		p.from = b.path("tasks", string(m.from()), id.file())
	}
	return p, m.from() == None || folderIndex(m.from()) >= 0
}

// encode stamps the task and renders it; data is nil where no file is left.
func (c *change) encode(tx string, now time.Time) (data []byte, after string, err error) {
	if c.keep != nil {
		c.keep.entry = entryName(filepath.Base(c.keep.path), tx)
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

func (b *Box) staged(name, tx string) string {
	return privatePath(b.home, "tmp", name+"~"+tx)
}

func (b *Box) stage(ctx context.Context, s *shard, c *change, tx string, data []byte) error {
	if c.left.any() {
		if err := b.stageLeft(ctx, s, c.left, tx); err != nil {
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
	staged := b.staged(string(c.id), tx)
	if b.ledger.Journals(len(data)) { // the line's flush brings it to the disk
		return durable.Stage(staged, data, durable.None)
	}
	return durable.Stage(staged, data, b.o.Sync)
}

// payload is the staged content that goes to the disk with the line, through
// the journal; none if it was flushed by itself.
func (b *Box) payload(name string, data []byte) audit.Payload {
	if data == nil || !b.ledger.Journals(len(data)) {
		return audit.Payload{}
	}
	return audit.Payload{Name: name, Data: data}
}

// abort takes back what was staged for a transition that has no line.
func (b *Box) abort(s *shard, c *change, tx string) error {
	var errs []error
	if c.keep != nil {
		errs = append(errs, removeIfThere(b.stagedReason(c.keep.entry)))
	}
	if c.lease != nil {
		errs = append(errs, b.dropLease(c.id, c.token))
	}
	if c.left.any() {
		errs = append(errs, durable.RemoveAll(b.staged(c.left.folder, tx)))
	}
	errs = append(errs, removeIfThere(b.staged(string(c.id), tx)))
	if err := errors.Join(errs...); err != nil {
		return err // the record stays: settle removes what is left
	}
	return s.clean()
}

func removeIfThere(path string) error {
	err := durable.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// finish brings the tree and the agent's copy in line with a committed line. It
// runs in the normal path, in settle and in recovery, and running it again
// changes nothing. stolen means that the file of a task that was to be claimed
// lay in in-progress at the first look: somebody's mv was faster.
func (b *Box) finish(ctx context.Context, s *shard, id ID, m *move, agent string, at time.Time) (stolen bool, err error) {
	p := &placement{b: b, ctx: ctx, s: s, id: id, m: m, staged: b.staged(string(id), m.TX)}
	if m.from() != None {
		p.from = filepath.Join(b.folder(m.from(), at), id.file())
	}
	if m.to() != None {
		p.to = filepath.Join(b.folder(m.to(), at), id.file())
	}
	p.from = b.cameFrom(p)
	err = p.place()
	if err == nil && m.to() == Archived {
		err = b.archiveArtifacts(id, m.Epoch, p.to)
	}
	if errors.Is(err, errLost) {
		// A stranger destroyed it between our renames. It has happened all the
		// same; verify names what is missing, and a line says so now.
		if err := b.sayLost(ctx, s, id); err != nil {
			return false, err
		}
	} else if err != nil {
		return false, err
	}
	if err := b.finishDrop(ctx, s, id, m); err != nil {
		return false, err
	}
	if b.o.Sync == durable.Strict {
		if err := p.syncFolders(); err != nil {
			return false, err
		}
	}
	return p.stolen, b.ledger.Copy(ctx, agent)
}

// placement brings the file of one committed move into its place.
type placement struct {
	b        *Box
	ctx      context.Context
	s        *shard
	id       ID
	m        *move
	staged   string
	from, to string // "" where there is none
	rounds   int
	stolen   bool
}

// sight is what a look at a path shows.
type sight struct {
	there bool
	hash  string // "" for what is no regular file
}

func look(path string) (sight, error) {
	if path == "" {
		return sight{}, nil
	}
	data, err := durable.Read(path, 4*MaxTask)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sight{}, nil
	case errors.Is(err, durable.ErrNotRegular), errors.Is(err, durable.ErrTooLarge):
		return sight{there: true}, nil
	case err != nil:
		return sight{}, err
	}
	return sight{true, audit.Hash(data)}, nil
}

// old tells whether the bytes are those that the move replaces.
func (p *placement) old(s sight) bool {
	return s.hash != "" && (s.hash == hashOf(p.m.Before) || s.hash == p.m.SourceSHA256 || s.hash == p.m.Found)
}

// maxLooks bounds the rounds of place: each round that is not the last has met a
// rename by somebody else or put a stranger's file aside.
const maxLooks = 64

// place renames until the content with the hash after lies at to. It asks
// nothing of the past: each round looks at what lies where, so it goes on from
// wherever a crash has stopped it.
func (p *placement) place() error {
	if p.to == "" {
		return removeIfThere(p.staged)
	}
	if p.m.to() == Archived {
		if err := durable.MkdirAll(filepath.Dir(p.to), p.b.o.Sync); err != nil {
			return err
		}
	}
	for ; p.rounds < maxLooks; p.rounds++ {
		done, err := p.round()
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if done {
			return p.tidy()
		}
	}
	return fmt.Errorf("%w: task %s does not come to rest in %s", ErrIntegrity, p.id, p.m.to())
}

// direct makes the renames without looking first: none of them replaces what is
// not there to be replaced, and what an exchange brings out is looked at. False
// means that somebody was at the files; place goes on from wherever that is.
func (p *placement) direct() (done bool, err error) {
	switch {
	case p.from == "":
		err = durable.Move(p.staged, p.to)
	case p.from == p.to:
		err = p.exchange(p.to)
	case p.m.to() == InProgress:
		if err = durable.Move(p.from, p.to); err == nil {
			p.rounds++
			err = p.exchange(p.to)
		}
	default:
		if err = p.exchange(p.from); err == nil {
			err = durable.Move(p.from, p.to)
		}
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

func (p *placement) exchange(path string) error {
	if err := durable.Exchange(p.staged, path); err != nil {
		return err
	}
	return p.discard()
}

func (p *placement) round() (done bool, err error) {
	after := hashOf(p.m.After)
	there, err := look(p.to)
	if err != nil {
		return false, err
	}
	switch {
	case there.there && there.hash == after:
		return true, nil
	case p.old(there):
		p.stolen = p.rounds == 0 && p.m.from() == Pending && p.m.to() == InProgress && p.m.Found == ""
		return false, p.putOver(p.to)
	case there.there:
		return false, p.setAside(p.to, "another file stood where a committed task belongs")
	}
	if p.from == p.to {
		return p.fromStaged()
	}
	here, err := look(p.from)
	if err != nil {
		return false, err
	}
	switch {
	case !here.there:
		return p.fromStaged()
	case here.hash == after, p.old(here) && p.m.to() == InProgress:
		return false, durable.Move(p.from, p.to)
	case p.old(here):
		return false, p.putOver(p.from)
	}
	return false, p.setAside(p.from, "edited by hand while a transition was made")
}

// putOver exchanges the staged content with the file at path and checks what
// came out.
func (p *placement) putOver(path string) error {
	ready, err := look(p.staged)
	if err != nil {
		return err
	}
	if !ready.there || ready.hash != hashOf(p.m.After) {
		return p.lost(path)
	}
	return p.exchange(path)
}

// discard removes the bytes that came out of an exchange, if they are the
// expected ones; others are kept.
func (p *placement) discard() error {
	out, err := look(p.staged)
	if err != nil || !out.there {
		return err
	}
	if p.old(out) {
		return durable.Remove(p.staged)
	}
	return p.setAside(p.staged, "edited by hand while a transition was made")
}

// fromStaged moves the staged content to a place where nothing stands.
func (p *placement) fromStaged() (bool, error) {
	ready, err := look(p.staged)
	if err != nil {
		return false, err
	}
	if ready.there && ready.hash == hashOf(p.m.After) {
		return false, durable.Move(p.staged, p.to)
	}
	// Neither here nor there nor staged: somebody moved our file on.
	for _, s := range Folders {
		elsewhere, err := look(p.b.path("tasks", string(s), p.id.file()))
		if err != nil {
			return false, err
		}
		if elsewhere.hash == hashOf(p.m.After) {
			return true, nil
		}
	}
	return false, p.lost(p.to)
}

func (p *placement) lost(path string) error {
	return fmt.Errorf("%w: task %s: the content that the ledger names (%s) is nowhere, %s cannot be brought up to date",
		errLost, p.id, hashOf(p.m.After), path)
}

// errLost says that the content of a committed line is nowhere any more.
var errLost = fmt.Errorf("%w: lost", ErrIntegrity)

// sayLost writes one alarm about a task whose content a stranger destroyed
// while it was moved. It runs inside the transition.
func (b *Box) sayLost(ctx context.Context, s *shard, id ID) error {
	if said, err := b.saidLost(id); err != nil || said {
		return err
	}
	action := fmt.Sprintf("its content was destroyed while it was moved; mbox recover --adopt %s takes what there is", id)
	if _, err := b.say(ctx, s.locks, b.alarmEntry(id, randomHex(16), "lost", "destroyed while it was moved", action), audit.Payload{}); err != nil {
		return err
	}
	return b.ledger.Copy(ctx, audit.MboxAgent)
}

// tidy removes what is left once the content is in its place.
func (p *placement) tidy() error {
	if err := p.leftover(); err != nil {
		return err
	}
	if p.from == "" || p.from == p.to {
		return nil
	}
	second, err := look(p.from)
	switch {
	case err != nil || !second.there:
		return err
	case p.old(second):
		return durable.Remove(p.from) // the right one has been seen
	}
	return p.setAside(p.from, "a second file of a task that has moved on")
}

// leftover removes the staged name: the bytes that an exchange brought out
// before a crash, or a copy of what is in place already.
func (p *placement) leftover() error {
	left, err := look(p.staged)
	if err != nil || !left.there {
		return err
	}
	if left.hash == hashOf(p.m.After) {
		return durable.Remove(p.staged)
	}
	return p.discard()
}

func (p *placement) setAside(path, why string) error {
	return p.b.setAside(p.ctx, p.s, path, p.id.file(), audit.Reconcile, reason{Reason: why, Task: p.id})
}

func (p *placement) syncFolders() error {
	for _, path := range []string{p.from, p.to} {
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
func (b *Box) finishDrop(ctx context.Context, s *shard, id ID, m *move) error {
	if m.Kept != nil {
		return b.finishKept(ctx, s, m.Kept, b.path("tasks", string(Pending), m.drop()))
	}
	if m.Dropped == "" {
		return nil
	}
	drop, out := b.path("tasks", string(Pending), m.drop()), b.staged(string(id), m.TX)
	if now, err := look(drop); err != nil || now.hash != m.SourceSHA256 {
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
