package mailbox

import (
	"bytes"
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
	"mbox/schemas"
)

// RecoverOptions say what recovery may do beyond finishing what was begun.
type RecoverOptions struct {
	// AfterIOError lifts the read-only state that a failed flush or damage set:
	// the newest ledger file is copied to a new inode, checked, flushed and
	// swapped in.
	AfterIOError bool
	// Adopt takes over, task by task, what a stranger did and what is never
	// adopted by itself: edits, deletions, moves out of completed.
	Adopt []ID
}

// Recovered says what a recovery did.
type Recovered struct {
	Tasks      int  `json:"tasks"`       // looked at
	Mended     int  `json:"mended"`      // brought to where the ledger has them
	Reclaimed  int  `json:"reclaimed"`   // given back, because their lease was over
	Quarantine int  `json:"quarantined"` // put away: staged or foreign bytes
	Lost       int  `json:"lost"`        // content that the ledger names and that is nowhere
	Adopted    int  `json:"adopted"`
	Locks      int  `json:"locks"` // lock files made anew
	Moved      bool `json:"moved"` // the home is on another machine or inode than before
}

// Recover settles everything, whatever the boot record says: it folds the
// ledger, walks all folders, and for each id brings the content that the last
// line names into that line's folder. Running it again changes no byte.
func Recover(ctx context.Context, dir string, o Options, r RecoverOptions) (Recovered, error) {
	if _, err := readVersion(dir); err != nil {
		return Recovered{}, err
	}
	made, err := remakeLocks(dir, o.Sync)
	if err != nil {
		return Recovered{}, err
	}
	b, err := open(dir, o)
	if err != nil {
		return Recovered{}, err
	}
	defer b.Close()
	lock, err := durable.AcquireLock(ctx, privatePath(b.home, "locks", "recover"), b.o.LockWait)
	if err != nil {
		return Recovered{}, lockError(err)
	}
	defer lock.Unlock()
	if r.AfterIOError {
		if err := b.ledger.Renew(ctx); err != nil {
			return Recovered{}, err
		}
	}
	out, err := b.recover(ctx, r.Adopt)
	out.Locks = made
	return out, err
}

// remakeLocks makes missing lock files anew. It is for recovery only: a lock
// file that is made while others hold the old one excludes nobody.
func remakeLocks(dir string, m durable.Mode) (made int, err error) {
	for _, name := range lockNames() {
		if _, err := os.Lstat(privatePath(dir, "locks", name)); errors.Is(err, fs.ErrNotExist) {
			made++
		}
	}
	if made == 0 {
		return 0, nil
	}
	return made, makeLocks(dir, m)
}

// afterBoot recovers everything when the machine was restarted or the home was
// moved since the last recovery: unflushed renames may be lost then.
func (b *Box) afterBoot(ctx context.Context) error {
	now, err := currentBoot(b.home)
	if err != nil {
		return err
	}
	was, err := os.ReadFile(privatePath(b.home, "boot"))
	if err == nil && bytes.Equal(was, now) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return b.recoverAll(ctx, "")
}

// recoverAll recovers under the recover lock. Who waited for it reads the boot
// record again: somebody else may have done it.
func (b *Box) recoverAll(ctx context.Context, because string) error {
	lock, err := durable.AcquireLock(ctx, privatePath(b.home, "locks", "recover"), 10*time.Minute)
	if err != nil {
		return lockError(err)
	}
	defer lock.Unlock()
	now, err := currentBoot(b.home)
	if err != nil {
		return err
	}
	if was, err := os.ReadFile(privatePath(b.home, "boot")); because == "" && err == nil && bytes.Equal(was, now) {
		return nil
	}
	_, err = b.recover(ctx, nil)
	return err
}

// recovery is one full recovery.
type recovery struct {
	b     *Box
	ctx   context.Context
	out   Recovered
	last  map[ID]*fate
	files map[ID][]string // where files of an id lie, from the home
	adopt []ID
}

// fate is what the ledger says of an id in the end.
type fate struct {
	agent string
	m     *move
	at    time.Time
}

// recover does the work, with the recover lock held. The boot record is written
// last.
func (b *Box) recover(ctx context.Context, adopt []ID) (Recovered, error) {
	boot, err := currentBoot(b.home)
	if err != nil {
		return Recovered{}, err
	}
	moved, sameBoot := b.bootChange(boot)
	r := &recovery{b: b, ctx: ctx, adopt: adopt, last: map[ID]*fate{}, files: map[ID][]string{}}
	r.out.Moved = moved
	for _, step := range []func() error{r.ledger, r.fold, r.walk, r.tasks, r.records, r.shards, r.staged, r.copies} {
		if err := step(); err != nil {
			return r.out, err
		}
	}
	if moved {
		if err := r.sayMoved(); err != nil {
			return r.out, err
		}
	}
	if err := r.leases(sameBoot); err != nil {
		return r.out, err
	}
	return r.out, durable.Replace(privatePath(b.home, "boot"), boot, b.o.Sync)
}

// bootChange compares the boot record with now: moved means another machine or
// inode, sameBoot the same start of the same machine.
func (b *Box) bootChange(now []byte) (moved, sameBoot bool) {
	var is, was bootRecord
	data, err := os.ReadFile(privatePath(b.home, "boot"))
	if err != nil || schemas.Decode(data, &was) != nil || schemas.Decode(now, &is) != nil {
		return true, false
	}
	return is.Host != was.Host || is.Dev != was.Dev || is.Inode != was.Inode, is.Boot == was.Boot && is.Host == was.Host
}

// ledger makes the ledger its longest valid chain. One that is broken elsewhere
// than at its unflushed end ends the recovery with nothing changed.
func (r *recovery) ledger() error { return r.b.ledger.Recover(r.ctx) }

func (r *recovery) fold() error {
	r.b.mu.Lock()
	r.b.index.close()
	r.b.index = newIndex()
	r.b.mu.Unlock()
	if err := removeIfThere(r.b.snapshotPath()); err != nil {
		return err
	}
	return r.b.foldAll(func(id ID, agent string, m *move, at time.Time) {
		r.last[id] = &fate{agent, m, at}
	})
}

// walk notes where the files of each id lie.
func (r *recovery) walk() error {
	dirs := []string{}
	for _, s := range Folders {
		dirs = append(dirs, filepath.Join("tasks", string(s)))
	}
	months, err := r.b.months()
	if err != nil {
		return err
	}
	for _, m := range months {
		dirs = append(dirs, filepath.Join("tasks", "archive", m))
	}
	for _, dir := range dirs {
		names, err := listNames(r.b.path(dir))
		if err != nil {
			return err
		}
		for _, name := range names {
			if id := ID(trimJSON(name)); id.file() == name {
				r.files[id] = append(r.files[id], filepath.Join(dir, name))
			}
		}
	}
	names, err := stagedNames(r.b.home)
	if err != nil {
		return err
	}
	for _, name := range names {
		if id, tx, ok := cutLast(name, "~"); ok && len(tx) == 32 {
			r.files[ID(id)] = append(r.files[ID(id)], filepath.Join(".mbox", "tmp", name))
		}
	}
	return nil
}

// tasks brings every id to rest, in the order of the ids.
func (r *recovery) tasks() error {
	ids := make([]ID, 0, len(r.last))
	for id := range r.last {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for i, id := range ids {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if i%500 == 0 {
			r.b.o.Progress("recovering", int64(i), int64(len(ids)))
		}
		if err := r.task(id, r.last[id]); err != nil {
			return err
		}
	}
	r.b.o.Progress("recovering", int64(len(ids)), int64(len(ids)))
	r.out.Tasks = len(ids)
	return nil
}

// task brings one id to rest under its shard: by the function of the normal
// path where the content is at hand, else by looking for it everywhere.
func (r *recovery) task(id ID, f *fate) error {
	to := f.m.to()
	if to == None || to == "pruned" {
		return nil
	}
	place := filepath.Join(r.b.folder(to, f.at), id.file())
	there, err := look(place)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(r.files[id]), func(p string) bool { return r.b.path(p) == place })
	if there.hash == hashOf(f.m.After) && len(rest) == 0 && f.m.Dropped == "" {
		return nil
	}
	s, err := r.shard(id)
	if err != nil {
		return err
	}
	defer s.unlock()
	if f, err = r.again(id, f); err != nil {
		return err
	}
	if to = f.m.to(); to == None || to == "pruned" {
		return nil
	}
	place = filepath.Join(r.b.folder(to, f.at), id.file())
	rest = slices.DeleteFunc(slices.Clone(r.files[id]), func(p string) bool { return r.b.path(p) == place })
	if adopted, err := r.adopted(s, id, f, place); adopted || err != nil {
		return err
	}
	return r.bring(s, id, f, place, rest)
}

// again reads the id's last move and where its files lie once more, now that
// its shard is held: somebody may have been at work since the fold.
func (r *recovery) again(id ID, f *fate) (*fate, error) {
	e, m, err := r.b.lastMove(id)
	if err != nil || e == nil {
		return f, err
	}
	var files []string
	for _, p := range r.files[id] {
		if strings.HasPrefix(p, ".mbox/") || strings.HasPrefix(p, "tasks/archive/") {
			files = append(files, p)
		}
	}
	for _, s := range Folders {
		p := filepath.Join("tasks", string(s), id.file())
		if _, err := os.Lstat(r.b.path(p)); err == nil {
			files = append(files, p)
		}
	}
	r.files[id] = files
	return &fate{e.Agent, m, e.Time()}, nil
}

// shard takes a task's lock without settling: recovery is the settling.
func (r *recovery) shard(id ID) (*shard, error) { return r.shardNumber(shardOf(string(id))) }

func (r *recovery) shardNumber(number int) (*shard, error) {
	lock, err := durable.AcquireLock(r.ctx, privatePath(r.b.home, "locks", shardName(number)), r.b.o.LockWait)
	if err != nil {
		return nil, lockError(err)
	}
	f, err := os.OpenFile(lock.Path(), os.O_RDWR, 0)
	if err != nil {
		lock.Unlock()
		return nil, err
	}
	return &shard{number: number, lock: lock, file: f}, nil
}

// bring puts the right bytes into the right folder, wherever they lie.
func (r *recovery) bring(s *shard, id ID, f *fate, place string, rest []string) error {
	b, after := r.b, hashOf(f.m.After)
	staged := b.staged(string(id), f.m.TX)
	for _, p := range rest {
		seen, err := look(b.path(p))
		if err != nil {
			return err
		}
		if seen.hash != after || b.path(p) == staged {
			continue
		}
		now, err := look(place)
		if err != nil {
			return err
		}
		if now.hash == after {
			break // a second copy of the right bytes: removed below
		}
		if r.outOfReach(f, p) {
			// A stranger moved the right bytes on: that is reconciled, not undone.
			return nil
		}
		if _, err := os.Lstat(staged); errors.Is(err, fs.ErrNotExist) {
			if err := durable.Move(b.path(p), staged); err != nil {
				return err
			}
		}
		break
	}
	if !r.atHand(place, staged, id, f) {
		return r.lost(s, id, f, place, rest)
	}
	if f.m.to() == Archived {
		if err := durable.MkdirAll(filepath.Dir(place), b.o.Sync); err != nil {
			return err
		}
	}
	if _, err := b.finish(r.ctx, id, f.m, f.agent, f.at); err != nil {
		return err
	}
	b.dropOtherLeases(id)
	r.out.Mended++
	return r.clear(id, f, place, rest)
}

// outOfReach tells whether the right bytes lie in another live folder, where
// only a stranger's mv puts them.
func (r *recovery) outOfReach(f *fate, p string) bool {
	dir := filepath.ToSlash(filepath.Dir(p))
	if dir == "tasks/"+string(f.m.from()) {
		return false // our own move, not yet made
	}
	return strings.HasPrefix(dir, "tasks/") && !strings.HasPrefix(dir, "tasks/archive")
}

// atHand tells whether the bytes that the last line names can be had.
func (r *recovery) atHand(place, staged string, id ID, f *fate) bool {
	paths := []string{place, staged}
	if f.m.from() != None {
		paths = append(paths, filepath.Join(r.b.folder(f.m.from(), f.at), id.file()))
	}
	for _, p := range paths {
		if s, err := look(p); err == nil && s.hash == hashOf(f.m.After) {
			return true
		}
	}
	return false
}

// clear removes what is left of older versions once the right one is in place,
// and keeps what is no version of ours.
func (r *recovery) clear(id ID, f *fate, place string, rest []string) error {
	b := r.b
	for _, p := range rest {
		path := b.path(p)
		s, err := look(path)
		if err != nil || !s.there || path == place {
			if err != nil {
				return err
			}
			continue
		}
		if s.hash == hashOf(f.m.After) || s.hash == hashOf(f.m.Before) {
			if err := removeIfThere(path); err != nil {
				return err
			}
			continue
		}
		if strings.HasPrefix(p, "tasks/pending/") {
			continue // a drop with a used id: the scan after this sees to it
		}
		if err := b.setAside(r.ctx, nil, path, id.file(), audit.Reconcile, reason{Reason: "a file of a task that lies elsewhere", Task: id}); err != nil {
			return err
		}
		r.out.Quarantine++
	}
	return nil
}

// lost deals with content that the ledger names and that is nowhere. A claim
// that a power cut overtook is voided. What a stranger edited stays where it is
// for verify to name and an operator to adopt. What is no task any more goes to
// quarantine, and a line says that the content is lost; verify goes on naming
// the task until an operator gives it up.
func (r *recovery) lost(s *shard, id ID, f *fate, place string, rest []string) error {
	b := r.b
	best := append([]string{strings.TrimPrefix(place, b.home+"/")}, rest...)
	for _, p := range best {
		seen, err := look(b.path(p))
		if err != nil {
			return err
		}
		if seen.there && seen.hash == hashOf(f.m.Before) && f.m.to() == InProgress && f.m.from() == Pending {
			return r.void(s, id, f, p)
		}
	}
	for _, p := range best {
		if found, err := b.read(id, None, b.path(p)); err == nil && found.task.ID == id && found.hash != hashOf(f.m.Before) {
			return nil
		}
	}
	r.out.Lost++
	for _, p := range best {
		if seen, err := look(b.path(p)); err != nil || !seen.there {
			continue
		}
		if err := b.setAside(r.ctx, nil, b.path(p), id.file(), audit.Reconcile, reason{Reason: "lost: the content that the ledger names is nowhere, this was left", Code: "lost", Task: id}); err != nil {
			return err
		}
		r.out.Quarantine++
	}
	if said, err := b.lineWith(`"alarm":"lost","host"`); err != nil || said != nil && ID(said.Task()) == id {
		return err
	}
	return b.sayAlarm(r.ctx, s, id, "lost", fmt.Sprintf("its content is lost; mbox recover --adopt %s gives it up", id))
}

// void undoes a claim whose staged file a power cut took: the task goes back to
// pending with its old content, and its epoch stays used.
func (r *recovery) void(s *shard, id ID, f *fate, p string) error {
	b := r.b
	found, err := b.read(id, Pending, b.path(p))
	if err != nil {
		return err
	}
	t := found.task
	t.Mbox.Epoch = f.m.Epoch
	err = b.commit(r.ctx, s, &change{
		id: id, by: audit.MboxAgent, event: audit.Reconcile, from: InProgress, to: Pending, task: t, before: hashOf(f.m.After),
		reason: "the claim was voided: a power cut took its content",
		said:   fmt.Sprintf("mbox voided the claim on %s", id),
		extra:  func(m *move) { m.Found = found.hash },
	})
	r.out.Mended++
	return err
}

// records brings decision and change files to what their last lines name.
func (r *recovery) records() error {
	last := map[string]*audit.Entry{}
	rd := r.b.ledger.Read(audit.Position{})
	defer rd.Close()
	for {
		line, err := rd.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if !bytes.Contains(line.Raw, []byte(`"event":"decision"`)) && !bytes.Contains(line.Raw, []byte(`"event":"change"`)) {
			continue
		}
		e, err := line.Decode()
		if err != nil {
			return err
		}
		var d recordDetails
		if e.Detail(&d) == nil && d.File != "" {
			last[d.File] = &e
		}
	}
	for _, e := range last {
		if err := r.b.placeRecord(e); err != nil && !errors.Is(err, ErrIntegrity) {
			return err
		}
	}
	return nil
}

// staged deals with what is left in tmp: it has no line, so it was never
// acknowledged. A reason whose entry lies in quarantine joins it; content whose
// line a power cut took is kept; the rest was not committed and goes.
func (r *recovery) staged() error {
	names, err := stagedNames(r.b.home)
	if err != nil {
		return err
	}
	for _, name := range names {
		owner, tx, _ := cutLast(strings.TrimSuffix(name, reasonSuffix), "~")
		number := shardOf(trimJSON(owner))
		for i := range shards {
			if d, set, err := readDirty(privatePath(r.b.home, "locks", shardName(i))); err == nil && set && d.tx == tx {
				number = i // its owner said so
			}
		}
		s, err := r.shardNumber(number)
		if err != nil {
			return err
		}
		err = r.sweepOne(name)
		s.unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) sweepOne(name string) error {
	path := privatePath(r.b.home, "tmp", name)
	_, tx, ok := cutLast(strings.TrimSuffix(name, reasonSuffix), "~")
	if strings.HasSuffix(name, reasonSuffix) {
		if err := r.finishAside(tx); err != nil {
			return err
		}
	}
	if ok && !strings.HasSuffix(name, reasonSuffix) {
		if cut, err := r.b.ledger.Cut(tx); err != nil {
			return err
		} else if cut {
			r.out.Quarantine++
			return r.b.setAside(r.ctx, nil, path, name, audit.Reconcile, reason{Reason: "staged for a ledger line that a power cut took"})
		}
	}
	return r.b.sweep(name)
}

// shards settles what dirty records are left and blanks them. A damaged one
// cannot be settled; the recovery until here has done it.
func (r *recovery) shards() error {
	for i := range shards {
		_, set, err := readDirty(privatePath(r.b.home, "locks", shardName(i)))
		if err != nil && !errors.Is(err, errDamagedRecord) {
			return err
		}
		if !set {
			continue
		}
		s, err := r.shardNumber(i)
		if err != nil {
			return err
		}
		if d, set, bad := readDirty(s.lock.Path()); set && bad == nil {
			err = r.b.settle(r.ctx, d)
		}
		if err == nil {
			err = s.clean()
		}
		s.unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// finishAside finishes putting bytes away whose line is committed, where no
// dirty record tells of it any more.
func (r *recovery) finishAside(tx string) error {
	e, err := r.b.lineWith(`"tx":"` + tx + `"`)
	if err != nil || e == nil {
		return err
	}
	if _, ok := moveOf(e); ok {
		return nil // bring has seen to it
	}
	return r.b.redo(r.ctx, dirty{kind: "drop"}, e)
}

func (r *recovery) copies() error { return r.b.ledger.MendCopies(r.ctx) }

func (r *recovery) sayMoved() error {
	tx := randomHex(16)
	s, err := r.b.lockShard(r.ctx, audit.MboxAgent)
	if err != nil {
		return err
	}
	defer s.unlock()
	return r.b.note(r.ctx, s, tx, audit.Entry{
		Agent: audit.MboxAgent, Event: audit.Reconcile, Action: "mbox: home moved or copied",
		Details: audit.Details(struct {
			Reason string `json:"reason"`
			TX     string `json:"tx"`
			audit.Writer
		}{"home moved or copied", tx, r.b.writer}),
	})
}

// leases gives back the tasks whose lease is over. After a restart all leases
// of this machine are, those without a lease file too.
func (r *recovery) leases(sameBoot bool) error {
	b := r.b
	if err := b.update(); err != nil {
		return err
	}
	b.mu.Lock()
	ids := b.index.inProgress()
	b.mu.Unlock()
	for _, id := range ids {
		if sameBoot {
			ok, err := b.reclaimOne(r.ctx, id)
			if err != nil {
				return err
			}
			if ok {
				r.out.Reclaimed++
			}
			continue
		}
		if err := r.endLease(id); err != nil {
			return err
		}
	}
	return b.dropStrayLeases(r.ctx)
}

// endLease takes a task back after a restart.
func (r *recovery) endLease(id ID) error {
	s, err := r.b.lockShard(r.ctx, string(id))
	if err != nil {
		return err
	}
	defer s.unlock()
	f, rec, err := r.b.current(id)
	if errors.Is(err, ErrNotFound) || errors.Is(err, errForeign) {
		return nil
	}
	if err != nil || rec.state != InProgress {
		return err
	}
	r.out.Reclaimed++
	return r.b.commit(r.ctx, s, r.b.takeBack(f, leaseLost))
}

// standing tells which of the transactions, if any, stands in a file of the
// home, for the ledger, before it sets lines aside.
func (b *Box) standing(txs []string) (string, error) {
	in := map[string]bool{}
	for _, tx := range txs {
		in[tx] = true
	}
	found := ""
	for _, dir := range []string{"tasks", "decisions", "changes"} {
		err := filepath.WalkDir(b.path(dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || found != "" || !e.Type().IsRegular() || strings.Contains(path, "/quarantine/") {
				return err
			}
			data, _, err := durable.Read(path, 4*MaxTask)
			if err != nil {
				return nil //nolint:nilerr // an unreadable file stands for no transaction
			}
			var t struct {
				Mbox struct {
					TX string `json:"tx"`
				} `json:"mbox"`
			}
			if i := bytes.Index(data, []byte(`"tx": "`)); i >= 0 && len(data) >= i+7+32 {
				t.Mbox.TX = string(data[i+7 : i+7+32])
			}
			if in[t.Mbox.TX] {
				found = t.Mbox.TX
			}
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return found, nil
}
