// Package audit keeps the ledger of a mailbox and its agents' copies.
//
// # The format
//
// The ledger is the files audit/shared/<UTC date>.jsonl, one JSON object a
// line, one chain through all days. A line is the RFC 8785 canonical form of an
// entry without its checksum, whose last } is replaced by
// ,"checksum":"sha256:<64 hex>"}. That suffix is always 86 bytes, so any
// language verifies a line without a JSON parser: cut 86 bytes, add }, hash.
//
//	{"action":"coder picked task-2026-02-16-001","agent":"coder","details":{…},"event":"task_picked","prev":"sha256:…","seq":2,"session":null,"task_id":"task-2026-02-16-001","ts":"2026-02-16T10:30:00.123Z","v":1,"checksum":"sha256:…"}
//
// prev is the checksum of the line before, or Genesis for the first; seq counts
// from 1 without gaps. The order is seq, not the file's name or ts: a clock
// that goes back appends to the newest file. The first line of each file carries
// details.mailbox_id, so that a home whose .mbox is lost still knows its name. (Not
// so in the first versions: there a recovery's line may have it, by an operator.)
//
// # Deliveries
//
// A line result_delivered says how far the result of a task has come on its way back
// to who asked for it by a bridge. Its details have leg (stored, intent, notified,
// seen, acknowledged), end (seq of the line that ended the task) and epoch, and where
// there are such channel (the kind), key, part, parts and message (the channel's id).
// They never have the text, or whom it goes to. A result that was given up is an
// error with the alarm "undelivered", and the same details.
//
// # What Append promises
//
// When Append returns nil, the line is on disk and chained. Any number of
// processes may append at once: the line is written under the ledger's lock, by
// one write, and flushed after the lock is released, so that processes share
// a flush (flush.go). When it returns an error that matches ErrUnwritten, not a
// byte was written. Any other error leaves open whether the line counts: only
// reading the ledger tells (Settle in package mailbox does).
//
// Nothing in the ledger is ever cut off. Bytes that are no line (a write that a
// kill tore, or a stranger's) are closed with a newline and named by an
// audit_repaired line, and count for nothing from then on. A last line that is
// whole but for its newline counts, and gets the newline.
//
// With Options.Seal the files before the newest are append-only (chattr +a), where
// the writer may do that. A file that somebody else made so is appended to like any
// other; what has to write over it or rename it ends with a SealedError.
//
// # The head record
//
// The ledger's lock file, .mbox/locks/chain, holds file, device and inode, length,
// seq and checksum after the last append, the boot in which that was, the journal's
// generation, and the home's format: of a later one nothing is appended, though the
// home was open before (HomeFormat). Under the lock, every
// time, the file is compared with it: a longer file means that somebody died
// between write and record, or wrote without the lock, and the tail is read and
// mended; a shorter or missing one means damage, and the mailbox becomes
// read-only. So does a chain that a reader cannot follow to the record's seq.
//
// # The agents' copies
//
// audit/<agent>/<date>.jsonl has that agent's own lines, byte by byte, in files of
// the same dates. Copies are written behind the ledger, by whoever is at work, for
// all (copy.go): one is at any moment a byte prefix of its agent's lines, and has
// all of them after a recovery or where every process has ended by itself. They are
// not flushed and never evidence: a copy that holds anything else is written anew.
// The lock file "copies" holds one line, the CRC-32 in hex, a space, and {"boot":…,
// "ends":{…}}: for each folder where its copy ends, as file, offset, seq and
// checksum, and under "shared" up to where the ledger was copied. It counts in that
// boot only; audit/verify takes a copy that ends before for one that was cut.
//
// # A ledger that was given up
//
// Forget begins another chain, with seq 1, in a home whose ledger is lost. Its
// first line has details.forgotten, the last seq and checksum that anything
// remembered of the one before. What was left of that stays beside it as
// .<name>.forgotten-<time>.
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"mbox/mailbox/durable"
)

var (
	// ErrUnwritten says that not a byte of the entry reached the ledger.
	ErrUnwritten = errors.New("nothing was written to the ledger")
	// ErrReadOnly says that the mailbox is read-only after an I/O error or damage.
	ErrReadOnly = errors.New("the mailbox is read-only")
	// ErrForeignWrite says that bytes of somebody who does not take the lock came
	// in between, so that the line does not count.
	ErrForeignWrite = errors.New("foreign bytes in the ledger")
	// ErrDamaged says that the ledger is shorter than what was once written, or
	// broken where no crash breaks it.
	ErrDamaged = errors.New("the ledger is damaged")
)

// Options of a ledger. The zero value is the default.
type Options struct {
	Mode durable.Mode     // what is flushed
	Wait time.Duration    // for the ledger's lock; 10 s if zero
	Now  func() time.Time // the clock; time.Now if nil
	// Stands tells which of these transactions, if any, stands in a file of the
	// home. It is asked when whole lines lie behind damage: a line that was
	// never acknowledged has left no file, so one that has is no crash.
	Stands func(txs []string) (tx string, err error)
	// Same tells whether the home is still the folder that was opened. It is asked
	// before a mailbox is made read-only: another one is not damaged. Nil: it is.
	Same func() error
	// Seal makes each day's file append-only when a younger one is begun and in
	// Recover, where this process may.
	Seal bool
	// Looks lets readers end where the chain does, without a verdict: for who
	// tells of the damage, or shows what there is in spite of it.
	Looks bool
	// CopyDelay is how long lines of this process may wait until they stand in
	// their agents' copies. If zero, they wait for Copy or Close.
	CopyDelay time.Duration
}

// Ledger is the open ledger of one mailbox. It is for use by many goroutines.
type Ledger struct {
	chain

	copies    *durable.LockFile // its file holds how far the agents' copies are
	copying   sync.Mutex        // held by the goroutine that is at them
	copyDelay time.Duration
	endBehind func()

	mu     sync.Mutex  // guards what follows
	owed   int         // lines of this process that wait to be copied
	behind *time.Timer // copies them; nil if only Close does
}

// chain is the newest end of a ledger: it appends lines, flushes them, and mends
// what a crash has left of the last ones.
type chain struct {
	home    string
	id      string // of the mailbox
	genesis string
	boot    string
	mode    durable.Mode
	wait    time.Duration
	now     func() time.Time
	wrote   func() // is called after each line
	stands  func([]string) (string, error)
	same    func() error
	seals   bool
	looks   bool

	gate    *durable.LockFile // the ledger's lock; its file holds the head record
	sync    *durable.LockFile // of who flushes for others; its file holds flushed
	mu      sync.Mutex
	open    *flusher // the newest file as this process knows it
	journal *journal
	head    Head
	heads   *durable.File // the lock file once more, for reading the head record without the lock
}

// Open opens the ledger of the home whose mailbox id is given. It reads and
// writes nothing yet.
func Open(home, mailboxID string, o Options) (*Ledger, error) {
	boot, err := durable.BootID()
	if err != nil {
		return nil, fmt.Errorf("boot id: %w", err)
	}
	l := &Ledger{
		chain: chain{
			home: home, id: mailboxID, genesis: Genesis(mailboxID), boot: boot,
			mode: o.Mode, wait: cmp.Or(o.Wait, 10*time.Second), now: o.Now, stands: o.Stands, same: o.Same, seals: o.Seal, looks: o.Looks,
			gate: durable.NewLockFile(ChainPath(home)), sync: durable.NewLockFile(filepath.Join(home, ".mbox", "locks", "sync")),
		},
		copies:    durable.NewLockFile(filepath.Join(home, ".mbox", "locks", copiesLock)),
		copyDelay: o.CopyDelay,
	}
	if l.now == nil {
		l.now = time.Now
	}
	if l.same == nil {
		l.same = func() error { return nil }
	}
	l.wrote = l.owe
	l.beginBehind()
	return l, nil
}

// Close copies what waits for that and releases the ledger's descriptors.
func (l *Ledger) Close() error {
	l.endCopies()
	return l.close()
}

func (l *chain) close() error {
	l.gate.Close()
	l.sync.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.open != nil {
		err = l.open.file.Close()
		l.open = nil
	}
	if l.journal != nil {
		err = errors.Join(err, l.journal.file.Close())
		l.journal = nil
	}
	if l.heads != nil {
		err = errors.Join(err, l.heads.Close())
		l.heads = nil
	}
	return err
}

// ReadOnlyPath is the file whose presence makes a mailbox read-only.
func ReadOnlyPath(home string) string { return filepath.Join(home, ".mbox", "readonly") }

// Append commits one entry: it returns when the line is on disk. TS, Seq, Prev,
// V and Checksum of e are set by the ledger. The locks are those under which the
// entry is true: nothing is written if the file of one has been replaced.
func (l *Ledger) Append(ctx context.Context, e Entry, locks ...durable.Held) (Line, error) {
	return l.AppendWith(ctx, e, Payload{}, locks...)
}

// AppendWith is Append of an entry that commits to staged content that was not
// flushed (see Journals): when it returns, both are on disk.
func (l *Ledger) AppendWith(ctx context.Context, e Entry, p Payload, locks ...durable.Held) (Line, error) {
	line, flush, err := l.write(ctx, e, p, locks)
	if err != nil {
		return line, err
	}
	return line, l.flush(flush)
}
