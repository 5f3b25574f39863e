package mailbox

import (
	"os"
	"path/filepath"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/evidence"
	"mbox/mailbox/history"
	"mbox/mailbox/home"
	"mbox/mailbox/lease"
	"mbox/mailbox/queue"
	"mbox/mailbox/tree"
)

// books are what every part of a mailbox works on: the home, the ledger, the locks
// of the tasks, and the one way to change them (books.transact). What keeps to
// itself is a part of Box with a type of its own.
type books struct {
	home     string
	o        Options
	id       string // mailbox id
	salt     []byte // for hashes of identities and keys
	boot     string
	looks    bool // it was opened by Look
	writer   audit.Writer
	ledger   history.Ledger
	shards   [home.Shards + 1]*durable.Lock
	intents  *home.Intents
	leases   *lease.Leases
	queue    *queue.Queue
	forest   *tree.Forest
	families *tree.Families
	places   *home.Places
	evidence evidence.Home
}

func newBooks(dir string, v home.Version, salt []byte, o Options, looks bool) (*books, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	boot, err := durable.BootID()
	if err != nil {
		return nil, err
	}
	writer := audit.ThisWriter()
	b := &books{
		home: dir, o: o, id: v.MailboxID, salt: salt, boot: boot, looks: looks, writer: writer, evidence: evidence.At(dir, v.MailboxID),
	}
	awake := func() time.Duration { return home.Awake() + time.Until(o.Now()) } // a clock of tests tells both
	if b.places, err = home.NewPlaces(dir, o.Now, func() { b.intents.Doubt() }); err != nil {
		return nil, err
	}
	b.leases = lease.New(dir, writer, boot, o.Now, awake, o.Lease, o.Sync)
	b.ledger.Ledger, err = audit.Open(dir, v.MailboxID, audit.Options{
		Mode: o.Sync, Wait: o.LockWait, Now: o.Now, Stands: b.evidence.Standing, Seal: o.AppendOnly, Looks: looks, CopyDelay: o.CopyDelay, Same: b.places.Same,
	})
	if err != nil {
		b.places.Close()
		return nil, err
	}
	b.queue = queue.New(queue.Options{
		Home: dir, Mailbox: v.MailboxID, Boot: boot, Ledger: b.ledger.Ledger, Looks: looks, Now: o.Now, Progress: o.Progress,
	})
	b.forest, b.families = tree.New(b.ledger.Ledger), tree.NewFamilies(b.ledger.Ledger)
	for i := range b.shards {
		b.shards[i] = durable.NewLock(home.LockPath(dir, home.ShardName(i)))
	}
	b.intents = home.NewIntents(dir, os.O_RDWR)
	return b, nil
}

// close waits for who has a shard, copies what waits for that, and releases what
// is open.
func (b *books) close() error {
	b.queue.Forget()
	for _, l := range b.shards {
		l.Idle()
	}
	b.intents.Close()
	b.places.Close()
	return b.ledger.Close()
}

func (b *books) path(parts ...string) string {
	return filepath.Join(append([]string{b.home}, parts...)...)
}

func (b *books) now() time.Time { return b.o.Now() }

// saltedHash is how an identity or key stands in the ledger.
func (b *books) saltedHash(kind, text string) string {
	return audit.Hash([]byte(string(b.salt) + kind + "\n" + text))
}

// Session is the task's session as the ledger has it: itself, or its salted
// hash; nil where there is none.
func (b *books) Session(t *Task) *string {
	if t == nil || t.Source.Session == "" {
		return nil
	}
	return new(identity(b, "session", t.Source.Session))
}

// Person is a person as the ledger has him: his name, or its salted hash.
func Person(b *Box, name string) string { return identity(b.books, "person", name) }

func identity(b *books, kind, text string) string {
	if b.o.HashIdentities {
		return b.saltedHash(kind, text)
	}
	return text
}
