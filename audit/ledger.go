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
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
	seals   bool
	looks   bool

	gate     *durable.LockFile // the ledger's lock; its file holds the head record
	sync     *durable.LockFile // of who flushes for others; its file holds flushed
	mu       sync.Mutex
	open     *flusher // the newest file as this process knows it
	journal  *journal
	head     Head
	heads    *os.File // the lock file once more, for reading the head record without the lock
	headsIno uint64
}

// Create makes an empty ledger in a new home: the folder and the lock files.
func Create(home string, m durable.Mode) error {
	if err := durable.MkdirAll(sharedDir(home), m); err != nil {
		return err
	}
	locks := filepath.Join(home, ".mbox", "locks")
	if err := durable.MkdirAll(locks, m); err != nil {
		return err
	}
	for _, name := range LockNames() {
		if err := durable.Stage(filepath.Join(locks, name), make([]byte, headSize), m); err != nil {
			return err
		}
	}
	return durable.SyncDir(locks, m)
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
			mode: o.Mode, wait: cmp.Or(o.Wait, 10*time.Second), now: o.Now, stands: o.Stands, seals: o.Seal, looks: o.Looks,
			gate: durable.NewLockFile(ChainPath(home)), sync: durable.NewLockFile(filepath.Join(home, ".mbox", "locks", "sync")),
		},
		copies:    durable.NewLockFile(filepath.Join(home, ".mbox", "locks", copiesLock)),
		copyDelay: o.CopyDelay,
	}
	if l.now == nil {
		l.now = time.Now
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

func (l *chain) lockPath() string { return l.gate.Path() }

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

func (l *chain) write(ctx context.Context, e Entry, p Payload, locks []durable.Held) (Line, ticket, error) {
	unlock, err := l.lock(ctx)
	if err != nil {
		return Line{}, ticket{}, fmt.Errorf("%w: %w", ErrUnwritten, err)
	}
	defer unlock()
	if err := l.ready(); err != nil {
		return Line{}, ticket{}, fmt.Errorf("%w: %w", ErrUnwritten, err)
	}
	now := l.now().UTC()
	if err := l.turnDay(now); err != nil {
		return Line{}, ticket{}, fmt.Errorf("%w: %w", ErrUnwritten, err)
	}
	return l.put(0, nil, e, now, p, locks)
}

// lock takes the ledger's lock.
func (l *chain) lock(ctx context.Context) (unlock func(), err error) {
	if _, err := l.gate.Acquire(ctx, l.wait); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return func() { l.gate.Unlock() }, nil
}

// ready brings the process's view up to the head record, under the lock, and
// mends the tail if somebody died there.
func (l *chain) ready() error {
	if err := CheckWritable(l.home); err != nil {
		return err
	}
	head, err := readHead(l.gate.File())
	if err != nil {
		return err
	}
	if head.Boot != l.boot {
		return l.rebuildHead()
	}
	size, err := l.follow(head)
	if err != nil {
		return err
	}
	if size == head.Length {
		return nil
	}
	return l.mend(size)
}

// CheckWritable returns an error that matches ErrReadOnly, with the recorded
// reason, when the home is read-only.
func CheckWritable(home string) error {
	if _, err := os.Stat(ReadOnlyPath(home)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err // nobody knows, so nothing is written; but nothing has to be recovered for it
	}
	why, err := durable.Read(ReadOnlyPath(home), MaxLine)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return &readOnly{string(why)}
}

// readOnly is the error of a mailbox that carries the mark. It matches ErrDamaged
// as well where the mark says that the ledger is damaged, and no flush failed.
type readOnly struct{ why string }

func (e *readOnly) Error() string { return ErrReadOnly.Error() + " since " + e.why }

func (e *readOnly) Is(target error) bool {
	return target == ErrReadOnly || target == ErrDamaged && strings.Contains(e.why, ErrDamaged.Error())
}

// follow makes head's file the open one and returns its size. Under the lock.
func (l *chain) follow(head Head) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head = head
	if head.File == "" {
		return 0, nil
	}
	path := filepath.Join(sharedDir(l.home), head.File)
	st, err := durable.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, l.damaged(fmt.Sprintf("audit/shared/%s is gone, it held seq %d", head.File, head.Seq))
	}
	if err != nil {
		return 0, err
	}
	// Another file, or not so much in it as was noted: then the last line is looked at.
	if (st.Ino != head.Ino || uint64(st.Dev) != head.Dev || st.Size != head.Length) && head.Length > 0 && l.Check(head.position(l.genesis)) != nil {
		return 0, l.damaged(fmt.Sprintf("audit/shared/%s does not hold seq %d, which was written there", head.File, head.Seq))
	}
	if l.open == nil || l.open.ino != st.Ino || l.open.dev != uint64(st.Dev) {
		f, err := durable.OpenFile(path, os.O_RDWR|os.O_APPEND)
		if err != nil {
			return 0, err
		}
		if err := l.replaceOpen(f, head.File); err != nil {
			return 0, err
		}
	}
	return st.Size, nil
}

func (l *chain) replaceOpen(f *os.File, name string) error {
	fresh, err := newFlusher(f, "audit/shared/"+name)
	if err != nil {
		return err
	}
	if l.open != nil {
		l.open.release()
	}
	l.open = fresh
	return nil
}

// damaged turns the mailbox read-only: no crash of a process makes this, so
// nothing is repaired by itself.
func (l *chain) damaged(why string) error { return l.Stop(fmt.Errorf("%w: %s", ErrDamaged, why)) }

// Stop makes the mailbox read-only for a reason that matches ErrDamaged, and
// returns it.
func (l *chain) Stop(why error) error { return errors.Join(why, l.setReadOnly(why.Error())) }

func (l *chain) setReadOnly(why string) error {
	text := l.now().UTC().Format(timeLayout) + ": " + why
	err := durable.Stage(ReadOnlyPath(l.home), []byte(text), l.mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// turnDay begins a new day's file when the date has moved on. The file before
// is flushed first: what the new day is chained on must be on disk before it.
func (l *chain) turnDay(now time.Time) error {
	name := now.Format(time.DateOnly) + ".jsonl"
	if l.head.File >= name {
		return nil
	}
	if err := l.flushAll(); err != nil {
		return err
	}
	path := filepath.Join(sharedDir(l.home), name)
	f, err := durable.Create(path)
	if errors.Is(err, fs.ErrExist) {
		f, err = durable.OpenFile(path, os.O_RDWR|os.O_APPEND)
	}
	if err != nil {
		return err
	}
	if l.mode != durable.None {
		if err := durable.SyncFile(f); err != nil {
			f.Close()
			return err
		}
	}
	if err := durable.SyncDir(sharedDir(l.home), l.mode); err != nil {
		f.Close()
		return err
	}
	l.mu.Lock()
	err = l.replaceOpen(f, name)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	// The record names the new file before it has a line, so that a crash here
	// leaves an empty file that the next appender knows of.
	if err := l.writeHead(Head{File: name, Seq: l.head.Seq, Checksum: l.head.Checksum, Journal: l.head.Journal}); err != nil {
		return err
	}
	l.sealOlder()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	return l.mend(info.Size())
}

// put writes one line at the end of the open file, then into the journal, and
// then the head record. Under the lock, with the view brought up to date. A crash
// before the record leaves a ledger that is longer than the head says; whoever
// comes next mends it, and begins the journal anew.
//
// Behind so many torn bytes closing ends them in the same write. The head record
// counts them only with the line: until then whoever comes next has to see them.
//
// The order lets no two processes speak for one task, whatever was done to the
// lock files while one of them stood still: the place is fixed, the locks are
// looked at by name, the line is written, and then it is asked where it went. Who
// makes lock files anew appends a line before anybody can take one of them, so
// what is written after the look lands behind that line, and does not count.
func (l *chain) put(torn int64, closing []byte, e Entry, now time.Time, p Payload, locks []durable.Held) (Line, ticket, error) {
	at := Position{File: l.head.File, Offset: l.head.Length + torn, Seq: l.head.Seq, Checksum: l.head.Checksum}
	e.TS, e.Seq, e.Prev, e.V = now.Format(timeLayout), at.Seq+1, at.Checksum, Format
	if l.head.Length == 0 {
		e.Details = signed(e.Details, l.id)
	}
	raw, err := e.encode()
	if err != nil {
		return Line{}, ticket{}, fmt.Errorf("%w: %w", ErrUnwritten, err)
	}
	data := make([]byte, 0, len(closing)+len(raw)+1)
	data = append(append(append(data, closing...), raw...), '\n')
	var record []byte
	if l.journaled() {
		record = journalRecord(at, data, p)
	}
	if err := l.room(int64(len(record))); err != nil {
		return Line{}, ticket{}, fmt.Errorf("%w: %w", ErrUnwritten, err)
	}
	if err := l.stillHeld(locks); err != nil {
		return Line{}, ticket{}, err
	}
	if err := durable.Append(l.open.file, data); err != nil {
		return Line{}, ticket{}, l.untouched(at.Offset, err)
	}
	// Where the write went is asked, not assumed: a stranger who appends without
	// the lock may have been faster by a moment. Then the head record stays as
	// it was, the next appender names his bytes and ours, and ours do not count.
	reached, err := l.open.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return Line{}, ticket{}, err
	}
	if reached != at.Offset+int64(len(data)) {
		return Line{}, ticket{}, fmt.Errorf("audit/shared/%s: somebody wrote without the lock (%d, not %d): %w", at.File, reached, at.Offset+int64(len(data)), ErrForeignWrite)
	}
	end := Position{File: at.File, Offset: at.Offset + int64(len(data)), Seq: e.Seq, Checksum: e.Checksum}
	at.Offset += int64(len(closing))
	line := Line{Raw: raw, At: at, End: end, Seq: e.Seq, Checksum: e.Checksum}
	next := l.head.Journal
	if record != nil {
		if err := durable.WriteAt(l.journal.file, record, next.Offset); err != nil {
			return line, ticket{}, err
		}
		next.Offset += int64(len(record))
	}
	if err := l.writeHead(Head{File: end.File, Length: end.Offset, Seq: end.Seq, Checksum: end.Checksum, Journal: next}); err != nil {
		return line, ticket{}, err
	}
	l.wrote()
	return line, l.ticket(), nil
}

// stillHeld tells, under the ledger's lock, whether the files of that one and of
// the others are still those that are held.
func (l *chain) stillHeld(others []durable.Held) error {
	if err := durable.StillHeld(append(others, l.gate)...); err != nil {
		return fmt.Errorf("%w: %w", ErrUnwritten, err)
	}
	return nil
}

// untouched adds ErrUnwritten to the error of an append that put not a byte
// into the file.
func (l *chain) untouched(length int64, err error) error {
	if info, failed := l.open.file.Stat(); failed == nil && info.Size() == length {
		return fmt.Errorf("%w: %w", ErrUnwritten, err)
	}
	return err
}

// End is the end of the ledger as this process last saw it. The true end is
// there or behind it.
func (l *chain) End() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head.position(l.genesis)
}

// Flushed brings every line that is now in the ledger to the disk. A line that
// another process wrote may be acted on only after this.
func (l *Ledger) Flushed(ctx context.Context) error {
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	err = l.ready()
	if err == nil {
		err = l.room(0)
	}
	var t ticket
	if err == nil && l.open != nil {
		t = l.ticket()
	}
	unlock()
	if err != nil || t.from == nil {
		return err
	}
	return l.flush(t)
}

// Frozen calls do with the ledger's lock held, the tail mended and everything
// flushed: while it runs the ledger does not grow. For a backup's last round.
func (l *chain) Frozen(ctx context.Context, do func(end Position) error) error {
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.ready(); err != nil {
		return err
	}
	if err := l.flushAll(); err != nil {
		return err
	}
	return do(l.End())
}
