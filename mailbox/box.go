// Package mailbox keeps tasks in a home on disk: the verbs that change them, the one
// writer behind those, and what brings a home in order again. Package home tells the
// formats, package task the states, books.commit the order of a commit.
//
// # The parts
//
// Whoever changes something does it by the books: they have the home, the ledger and
// the locks of the tasks, and one frame for every change (transact: mark the intent,
// stage, append the line, apply it). Each job over them is a type of its own that calls
// the books, and no other: sender (new tasks), approvals, dependencies (who waits for
// whom), reclaimer (dead and hung workers), reconciler (what was done by hand) and
// recorder (decisions and changes). The explainer asks two of those. A Box has the
// verbs, and a recovery all of it. So calls lead downwards only:
//
//	Box, Claim, recovery, drop → explainer → the other parts → books
//	→ queue, tree, lease, evidence, history, home, audit
//
// # The rules, and the tests that hold them
//
// The tests of rule n are TestRule<nn>_…, in these packages; the mutants of
// cmd/prove/mutants name the rules that they break.
//
//	 1  order of locks; ids and keys under their locks             mailbox
//	 2  no lock object is shared                                   mailbox/durable
//	 3  lock files are never made, and are those of their names    mailbox, mailbox/durable
//	 4  what happens under the ledger's lock                       audit
//	 5  intent records, and settling by the ledger                 audit, mailbox
//	 6  nobody guesses after a failed append                       audit, mailbox/durable
//	 7  the same verb said again                                   mailbox
//	 8  put over and move never clobber                            mailbox, mailbox/durable
//	 9  verdicts only under the lock, by opening the name          audit, mailbox, mailbox/durable
//	10  the content is on the disk with its line                   audit, mailbox, mailbox/durable
//	11  artifacts and kept bytes are flushed before their line     mailbox
//	12  what is new has its folder flushed                         audit, mailbox, mailbox/durable
//	13  leases                                                     mailbox, mailbox/lease
//	14  the head record                                            audit, mailbox
//	15  midnight, and the time of a line                           audit
//	16  the longest valid chain after a restart                    audit, audit/verify, mailbox
//	17  an agent's copy is mended                                  audit, audit/verify, mailbox
//	18  what leaves the process rests on flushed lines             agents/chat, audit, mailbox
//	19  a failed flush stops the mailbox                           audit, mailbox
//	20  one recovery, and its order                                mailbox
//	21  a full recovery puts everything in its place               mailbox
//	22  another boot, or another home                              mailbox, mailbox/home
//	23  a backup is of one moment                                  audit, mailbox, mailbox/backup
//	24  one flush for all processes                                audit
//	25  generations                                                audit
//	26  what a flush covers                                        audit
//	27  a leader that stands still                                 audit
//	28  a flush that was begun and not ended                       audit
//	29  copies follow behind                                       audit, mailbox
//	30  slots of the intents                                       mailbox
//	31  one truth: ledger, lock and intents by name                audit, mailbox
//	32  skimming equals decoding                                   audit, mailbox/queue
//	33  which task a worker tries                                  mailbox
//	34  what a child inherits                                      mailbox
//	35  waiting for a lock                                         mailbox/durable
//	36  artifacts are copies                                       mailbox
//	37  nothing is blanked in doubt                                audit, mailbox
//	38  beside a process of the format before                      cmd/mbox, mailbox
//	39  the upgrade of a home                                      audit, cmd/mbox, mailbox
package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/history"
	"mbox/mailbox/home"
)

// Options of a mailbox. The zero value is the default.
type Options struct {
	Sync           durable.Mode            // what is flushed before an answer
	AllowNetworkFS bool                    // work on NFS, SMB, 9p and FUSE all the same
	Lease          time.Duration           // how long a claim lasts without a sign of life; 15 min
	MaxAttempts    int                     // claims before a task has failed for good; 3
	ScanInterval   time.Duration           // 5 s, between 1 s and 60 s
	StartWithin    time.Duration           // a ready task not taken by then is an alarm; 10 min
	LockWait       time.Duration           // for any lock; 10 s
	CopyDelay      time.Duration           // after which lines stand in their agents' copies; if zero, when the box is closed
	RetryBase      time.Duration           // retry n waits RetryBase·2ⁿ, with jitter; 1 s
	MaxDepth       int                     // of delegation: a task this deep is refused; 3
	HashIdentities bool                    // sessions and operators enter the ledger as salted hashes
	AppendOnly     bool                    // finished files of the ledger become append-only, where this process may do that
	Agents         map[string]Capabilities // the registry: who may take what
	Now            func() time.Time        // the clock
	// Review judges a task that is to be created, by Submit or from a drop; a task
	// that Delegate creates has been judged by whoever delegates. An error refuses
	// it: the notes are written into the ledger either way. nil accepts all. Drops
	// with an action are judged in goroutines of their own, and do not wait for each
	// other; one that takes more than 10 s is refused.
	Review func(*Task) (notes []audit.Entry, err error)
	// Approval tells why a task needs an operator's approval before it is worked
	// at; "" if it needs none. nil: none does.
	Approval func(*Task) string
	// Folders lists what else than its own bytes an approval of a task binds, in
	// the order of the names. An error says that it cannot be bound, so that the
	// task cannot be approved. nil: nothing.
	Folders func(context.Context, *Task) ([]Folder, error)
	// Accept holds a result against the check of that name, under no lock. A finding
	// tells what is wrong with it; "" accepts it. nil: there is no check.
	Accept func(ctx context.Context, name string, h *Handover) (finding string, err error)
	// Unable tells why a registered agent cannot take a task now that it has to
	// think about; "" if it can. It is asked for alarms. nil: all can.
	Unable func(agent string) string
	// Progress is called now and then during long work: what is done, how many
	// of how many (total 0 where it is not known).
	Progress func(what string, done, total int64)
}

// Capabilities of a registered agent.
type Capabilities struct {
	Types     []string // task types that it takes from "any"
	Actions   []string // action names that it takes from "any"
	OnlyNamed bool     // takes only what names it
	Disabled  bool     // takes nothing
	Watches   []string // channels whose messages come into its inbox
	Unasked   bool     // gets nothing that is said to all agents

	Accept       []string // the checks that each of its results has to pass
	ExpectOutput bool     // an empty result of it is a failure
}

func (o Options) withDefaults() Options {
	o.Lease = cmp.Or(o.Lease, 15*time.Minute)
	o.ScanInterval = cmp.Or(o.ScanInterval, 5*time.Second)
	o.StartWithin = cmp.Or(o.StartWithin, 10*time.Minute)
	o.LockWait = cmp.Or(o.LockWait, 10*time.Second)
	o.RetryBase = cmp.Or(o.RetryBase, time.Second)
	o.MaxDepth = cmp.Or(o.MaxDepth, MaxDepth)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, 3)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	return o
}

// Box is an open mailbox. It is for use by many goroutines; any number of
// processes may have the same mailbox open.
type Box struct {
	*books
	sender       sender
	approvals    approvals
	dependencies dependencies
	reclaimer    reclaimer
	reconciler   reconciler
	recorder     recorder
	explainer    explainer
	// recoveries is held by who recovers. It comes before all others.
	recoveries *durable.Lock

	paces  paces
	checks checks // of drops, by Options.Review; it has a lock of its own

	delivered struct { // what ArchiveDelivered knows
		sync.Mutex
		history.Endings
	}

	mu      sync.Mutex // guards what follows
	lookout *lookout   // of the last Wait, for the next one
	closed  bool

	settledAt time.Time       // when every shard was last looked at
	unsettled []error         // which could not be settled then
	unread    error           // of files that a recovery could not read
	told      map[string]bool // the errors of those that Unsettled has told
	judgedAt  time.Time       // when a recovery last found that tasks are gone
	judging   time.Duration   // how long that took
}

// Create makes a mailbox in dir, which may exist. It never opens one: where one
// is, the error matches ErrExists; where what is left of one is, ErrLost. A
// Create that was cut short is finished by calling it again, because VERSION is
// written last.
func Create(dir string, o Options) error {
	o = o.withDefaults()
	if _, err := os.Lstat(home.Private(dir, "VERSION")); err == nil {
		return fmt.Errorf("%s: %w", dir, ErrExists)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err // perhaps there is one, and making another would take its id away
	}
	if err := home.CheckVacant(dir); err != nil {
		return err
	}
	if err := durable.MkdirAll(dir, o.Sync); err != nil {
		return err
	}
	if err := home.CheckFileSystem(dir, o.AllowNetworkFS); err != nil {
		return err
	}
	if err := os.Chmod(dir, durable.DirMode); err != nil {
		return err
	}
	if err := home.MakeFolders(dir, "", o.Sync); err != nil {
		return err
	}
	if _, err := home.MakeLocks(dir, home.BlankSlot, o.Sync); err != nil {
		return err
	}
	if err := home.MakeSalt(dir, o.Sync); err != nil {
		return err
	}
	if err := home.ProbeRenames(dir); err != nil {
		return err
	}
	boot, err := home.CurrentBoot(dir)
	if err != nil {
		return err
	}
	id := home.RandomHex(16)
	if err := home.MakeVersion(dir, id, boot, o.Sync); err != nil {
		return err
	}
	return beginLedger(dir, id, o)
}

// beginLedger pays for the journal's first checkpoint, which the first line would
// pay for. A mailbox that is killed here lacks nothing.
func beginLedger(dir, id string, o Options) error {
	l, err := audit.Open(dir, id, audit.Options{Mode: o.Sync, Wait: o.LockWait, Now: o.Now})
	if err != nil {
		return err
	}
	return errors.Join(l.Flushed(context.Background()), l.Close())
}

// Open opens the mailbox in dir. It never makes one (ErrNoMailbox). What a
// crash left is settled first: one task's transition where only a process died,
// everything where the machine was restarted or the home was moved.
func Open(ctx context.Context, dir string, o Options) (*Box, error) {
	b, err := open(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	err = b.afterBoot(ctx)
	if errors.Is(err, ErrGone) {
		err = nil // reading goes on, and whoever would write is told
	}
	if err == nil {
		err = b.settleAll(ctx)
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Look opens a mailbox that Open refuses, to show what there is: nothing is
// settled, nothing may be written, and what the ledger says ends where its chain
// does. Even .mbox may be missing.
func Look(dir string, o Options) (*Box, error) {
	v, err := home.Present(dir)
	if errors.Is(err, ErrLost) {
		v.MailboxID, _ = audit.Identity(dir, "") // without it the chain begins nowhere
	} else if err != nil {
		return nil, err
	}
	salt, _ := home.Salt(dir) // nothing is compared with what was hashed
	return boxOf(dir, v, salt, o, true)
}

// open makes a Box without looking at what a crash left.
func open(ctx context.Context, dir string, o Options) (*Box, error) {
	if err := home.CheckOwner(dir); err != nil {
		return nil, err
	}
	if _, err := home.ReadVersion(dir); err != nil {
		return nil, err
	}
	if err := home.CheckFileSystem(dir, o.AllowNetworkFS); err != nil {
		return nil, err
	}
	if err := home.Upgrade(ctx, dir, o.Sync, o.withDefaults().LockWait); err != nil {
		return nil, err
	}
	v, err := home.Present(dir)
	if err != nil {
		return nil, err
	}
	salt, err := home.Salt(dir)
	if err != nil {
		return nil, err
	}
	return boxOf(dir, v, salt, o, false)
}

func boxOf(dir string, v home.Version, salt []byte, o Options, looks bool) (*Box, error) {
	on, err := newBooks(dir, v, salt, o.withDefaults(), looks)
	if err != nil {
		return nil, err
	}
	b := &Box{
		books:        on,
		sender:       sender{on, durable.NewLockFile(home.LockPath(on.home, "numbers"))},
		approvals:    approvals{on},
		dependencies: dependencies{on},
		reclaimer:    reclaimer{on},
		reconciler:   reconciler{on},
		recorder:     recorder{on},
		recoveries:   durable.NewLock(home.LockPath(on.home, "recovery")),
		paces:        paces{home: on.home, crowd: crowd, last: map[State]pace{}},
	}
	b.explainer = explainer{on, &b.dependencies, &b.approvals}
	return b, nil
}

// Close copies what waits for that and releases what the box holds open.
func (b *Box) Close() error {
	b.mu.Lock()
	last := b.lookout
	b.lookout, b.closed = nil, true
	b.mu.Unlock()
	b.sender.serial.Close()
	b.recoveries.Idle()
	if last != nil {
		last.w.close()
	}
	return b.books.close()
}

// Home is the mailbox's folder.
func (b *Box) Home() string { return b.home }

// Ledger is the mailbox's ledger.
func (b *Box) Ledger() *audit.Ledger { return b.ledger.Ledger }

// MailboxID names the mailbox; its ledger's chain begins with it.
func (b *Box) MailboxID() string { return b.id }

// Options returns the options in force, with defaults filled in.
func (b *Box) Options() Options { return b.o }
