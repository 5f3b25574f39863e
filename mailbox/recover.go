package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/queue"
	"mbox/mailbox/task"
)

// RecoverOptions say what recovery may do beyond finishing what was begun.
type RecoverOptions struct {
	// AfterIOError lifts the read-only state that a failed flush or damage set:
	// the newest ledger file is copied to a new inode, checked, flushed and
	// swapped in.
	AfterIOError bool
	// Forget gives a ledger up that is lost or damaged, and begins another with
	// what the tree holds. It is refused where the ledger is whole.
	Forget bool
	// Adopt takes over, task by task, what was done by hand and is never
	// adopted by itself: edits, deletions, moves out of completed.
	Adopt []ID
	// AdoptDeleted gives up every task whose file is nowhere, and so ends the stop that
	// ErrGone is; and every entry that somebody has removed from quarantine.
	AdoptDeleted bool
	// MailboxID names the mailbox where .mbox is gone and the ledger is too old to
	// tell. It is refused where it is not what the ledger's first line proves, or
	// what .mbox says.
	MailboxID string

	made int // lock files that were missing
}

// Recovered says what a recovery did.
type Recovered struct {
	Tasks      int  `json:"tasks"`       // looked at
	Mended     int  `json:"mended"`      // brought to where the ledger has them
	Reclaimed  int  `json:"reclaimed"`   // given back, because their lease was over
	Quarantine int  `json:"quarantined"` // put away: staged or foreign bytes
	Lost       int  `json:"lost"`        // content that the ledger names and that is nowhere
	Adopted    int  `json:"adopted"`
	Locks      int  `json:"locks"`    // lock files made anew
	Rebuilt    bool `json:"rebuilt"`  // .mbox was lost, or its salt: see Recover
	Replayed   int  `json:"replayed"` // contents that a power cut took and the journal had
	Moved      bool `json:"moved"`    // the home is on another device or inode than before

	// Which tasks were mended, lost and adopted, in the order of the ids.
	MendedIDs  []ID `json:"mended_ids,omitzero"`
	LostIDs    []ID `json:"lost_ids,omitzero"`
	AdoptedIDs []ID `json:"adopted_ids,omitzero"`
}

func (r *Recovered) mended(id ID)  { r.Mended, r.MendedIDs = r.Mended+1, append(r.MendedIDs, id) }
func (r *Recovered) lost(id ID)    { r.Lost, r.LostIDs = r.Lost+1, append(r.LostIDs, id) }
func (r *Recovered) adopted(id ID) { r.Adopted, r.AdoptedIDs = r.Adopted+1, append(r.AdoptedIDs, id) }

// Recover settles everything, whatever the boot record says: it folds the
// ledger, walks all folders, and for each id brings the content that the last
// line names into that line's folder. Running it again changes no byte.
//
// Where .mbox is gone it is made anew. Its secrets are not: with another salt an
// idempotency key of before is not known any more, nor is a claim's repeated
// answer, and hashed identities differ from those in older lines.
func Recover(ctx context.Context, dir string, o Options, r RecoverOptions) (Recovered, error) {
	if err := home.CheckOwner(dir); err != nil {
		return Recovered{}, err
	}
	o = o.withDefaults()
	rebuilt, err := rebuild(dir, o, r)
	if err != nil {
		return Recovered{}, err
	}
	if !rebuilt {
		r.MailboxID = "" // nothing rests on it
	}
	alone := 0 // lock files that had to be made before a recovery could be alone
	if err := home.MakeLock(dir, "recovery", o.Sync); err == nil {
		alone = 1
	} else if !errors.Is(err, fs.ErrExist) {
		return Recovered{}, err
	}
	b, err := open(ctx, dir, o)
	if err != nil {
		return Recovered{}, err
	}
	defer b.Close()
	if err := b.recoveries.Acquire(ctx, b.o.LockWait); err != nil {
		return Recovered{}, home.LockError(err)
	}
	defer b.recoveries.Unlock()
	// A lock file that is made while others hold the old one excludes nobody by
	// itself: RemadeSlot and sayRemade keep them out.
	if r.made, err = home.MakeLocks(dir, home.RemadeSlot, o.Sync); err != nil {
		return Recovered{}, err
	}
	r.made += alone
	out, err := b.recover(ctx, r)
	out.Rebuilt = rebuilt
	return out, err
}

// boots reads the boot record, and what it would be now.
func (b *Box) boots() (was, now home.Boot, err error) {
	if now, err = home.CurrentBoot(b.home); err == nil {
		was, err = home.ReadBoot(b.home)
	}
	return was, now, err
}

// afterBoot recovers everything when the machine was restarted or the home was
// moved since the last recovery, because unflushed renames may be lost then, and
// when the last recovery died. Within this boot a recovery needs no help that is at
// work, shard by shard, nor a mailbox that is read-only: reading it is fine.
func (b *Box) afterBoot(ctx context.Context) error {
	was, now, err := b.boots()
	if err != nil || was == now {
		return err
	}
	if was.SameAs(now) {
		err := b.recoveries.Try()
		if err == nil {
			b.recoveries.Unlock()
		}
		if errors.Is(err, ErrBusy) || errors.Is(audit.CheckWritable(b.home), ErrReadOnly) {
			return nil
		}
	}
	return b.recoverAll(ctx, false)
}

// recoverAll recovers under the recover lock. Who waited for it reads the boot
// record again: somebody else may have done it. Where the record says nothing
// of what is wrong, anyway is true.
func (b *Box) recoverAll(ctx context.Context, anyway bool) error {
	if err := b.recoveries.Acquire(ctx, 10*time.Minute); err != nil {
		return home.LockError(err)
	}
	defer b.recoveries.Unlock()
	if err := b.places.Same(); err != nil {
		return err
	}
	if was, now, err := b.boots(); err != nil || was == now && !anyway {
		return err
	}
	begun := time.Now()
	_, err := b.recover(ctx, RecoverOptions{})
	if unread, is := errors.AsType[*unreadError](err); is {
		b.mu.Lock()
		b.unread = unread
		b.mu.Unlock()
		return nil
	}
	if errors.Is(err, ErrGone) {
		b.mu.Lock()
		b.judgedAt, b.judging = time.Now(), time.Since(begun)
		b.mu.Unlock()
	}
	return err
}

// recovery is one full recovery.
type recovery struct {
	b   *Box
	ctx context.Context
	o   RecoverOptions
	out Recovered

	was, now home.Boot // the boot record; now is written at the end

	last map[ID]*fate
	end  audit.Position // up to here the ledger is in last

	files     map[ID][]string // where files of an id lie
	artifacts map[ID]bool     // the tasks of which tasks/artifacts has some

	judged  bool // gone has been asked
	deleted []ID // what is gone and was deleted, as the operator says

	journaled map[string]bool // hashes of the contents that the journal has

	unread []error // of files that could not be read, each of which harms only itself

	unsaid string // what a recovery that died, or an upgrade, has left for the ledger

	restarted bool // the machine, since the mailbox was last recovered
	copied    bool // the home: what its leases name works in another one
	unwritten bool // what was written may not have reached the disk
	forgot    bool // the ledger: nothing tells what staged files were for
}

// fate is the last move that the ledger has of an id.
type fate struct {
	agent string
	m     *task.Move
	at    time.Time
	gone  bool // an alarm has said since that its file, or what it held, is gone
}

// recover does the work, with the recover lock held. The boot record is written
// last; until then it says that recovery is at work, so that the next Open goes
// on where this one is killed. A ledger that cannot be recovered changes not
// even that.
func (b *Box) recover(ctx context.Context, o RecoverOptions) (Recovered, error) {
	r := &recovery{b: b, ctx: ctx, o: o, journaled: map[string]bool{}}
	if err := r.begin(); err != nil {
		return Recovered{}, err
	}
	if err := fitToAdopt(r); err != nil {
		return r.out, err
	}
	first := []func() error{r.writable, r.makePrivate, r.goneFirst}
	if o.AfterIOError {
		// The mark comes first, because a crash after Renew leaves a mailbox that may
		// be written; and the journal comes back before Renew begins another.
		first = []func() error{b.markRecovery, r.journal, r.intact, func() error { return b.ledger.Renew(ctx) }}
	}
	if o.Forget {
		first = []func() error{r.forget}
	}
	for _, step := range append(first, r.journal, r.intact, r.ledger, b.markRecovery, r.sayRemade, r.fold, r.asides, r.walk, r.gone, r.tasks, r.records, r.shards, r.staged, r.strays, func() error { return giveUpEntries(r) }, r.sayMoved, r.leases, r.owed, r.dropSpares, r.copies) {
		if err := step(); err != nil {
			return r.out, err
		}
	}
	if err := home.WriteBoot(b.home, r.now, b.o.Sync); err != nil {
		return r.out, err
	}
	if err := r.unheard(); err != nil || len(r.unread) == 0 {
		return r.out, err
	}
	return r.out, &unreadError{errors.Join(r.unread...)}
}

// unreadError tells of a recovery that has ended, and of the files that it could not
// read. Nothing else hangs on them; when they can be read, another one sees to them.
type unreadError struct{ error }

func (e *unreadError) Unwrap() error { return e.error }

// passBy notes an error that is of one file, so that the others are recovered.
func (r *recovery) passBy(err error) error {
	if err == nil || !ofOneFile(r.b.home, err) {
		return err
	}
	r.unread = append(r.unread, err)
	return nil
}

// unheard is ErrNotFound for a task to adopt of which the ledger has no line. All else
// has been recovered by then.
func (r *recovery) unheard() error {
	for _, id := range r.o.Adopt {
		if r.last[id] == nil {
			return fmt.Errorf("task %s: %w", id, ErrNotFound)
		}
	}
	return nil
}

// begin reads what tells how much there is to recover.
func (r *recovery) begin() (err error) {
	if r.was, r.now, err = r.b.boots(); err != nil {
		return err
	}
	slots, err := r.b.intents.Filled()
	if err != nil {
		return home.LockError(err)
	}
	for _, s := range slots {
		r.unsaid = cmp.Or(r.unsaid, s.Say)
	}
	mark := audit.CheckWritable(r.b.home)
	r.restarted = r.was.Boot != r.now.Boot
	r.unwritten = r.restarted || errors.Is(mark, ErrReadOnly) && !errors.Is(mark, audit.ErrDamaged)
	r.out.Locks, r.out.Moved = r.o.made, r.was.Dev != r.now.Dev || r.was.Inode != r.now.Inode
	r.copied = r.out.Moved && r.was.Folders != r.now.Folders
	return nil
}

// markRecovery notes in the boot record that a recovery is at work. A record of
// another boot, or none, says that already, and stays: it tells what the leases
// are worth.
func (b *Box) markRecovery() error {
	was, now, err := b.boots()
	if err != nil || was != now {
		return err
	}
	now.Recovering = true
	return home.WriteBoot(b.home, now, b.o.Sync)
}

// writable ends the recovery of a mailbox that is read-only with nothing changed.
func (r *recovery) writable() error { return audit.CheckWritable(r.b.home) }

// ledger makes the ledger its longest valid chain. One that is broken elsewhere
// than at its unflushed end ends the recovery with nothing changed.
func (r *recovery) ledger() error { return r.b.ledger.Recover(r.ctx) }

// fold makes the index anew, and reads the last moves.
func (r *recovery) fold() error {
	r.b.queue.Forget()
	if err := durable.RemoveIfThere(queue.File(r.b.home)); err != nil {
		return err
	}
	return r.moves()
}

func (r *recovery) moves() error {
	r.last, r.end = map[ID]*fate{}, audit.Position{}
	return r.follow()
}

// follow folds what was appended since.
func (r *recovery) follow() (err error) {
	r.end, err = r.b.ledger.Fold(r.end, func(id ID, agent string, m *task.Move, at time.Time) {
		if m != nil {
			r.last[id] = &fate{agent: agent, m: m, at: at}
		} else if f := r.last[id]; f != nil {
			f.gone = true
		}
	})
	return err
}

// intact ends the recovery of a mailbox whose ledger is short of what is known
// of it, with nothing changed but the read-only mark.
func (r *recovery) intact() error {
	_, why, err := r.b.evidence.LostLines(r.ctx, r.b.ledger.Ledger, r.restarted, r.out.Moved)
	if err != nil || why == "" {
		return err
	}
	return r.b.ledger.Stop(fmt.Errorf("%w: %s", audit.ErrDamaged, why))
}
