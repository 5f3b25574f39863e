package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mbox/mailbox/durable"
)

// All processes of a mailbox share the flushes of its journal. Who has written a
// line takes the lock .mbox/locks/sync and flushes the journal for everybody, the
// leader; the others wait for that lock, and find in its record that their lines
// are on the disk already.
//
//	sync BOOT DEV INODE GENERATION BYTE BEGUN CRC32
//
// Up to BYTE that use of the journal is on disk. A line is covered by nothing but
// a record that names the file and the generation that it was written to. The
// record is read by pread, for who maps a file dies when somebody cuts it off.
//
//   - A flush counts for what was written before it began: the leader reads the
//     journal's end before it, and publishes that after it, with the lock held, and
//     not if the mailbox has become read-only.
//   - Nobody waits long for a leader, who may be stopped: after a while each flushes
//     for himself, by the descriptor that he wrote through, and publishes nothing.
//   - The system tells a write error once to each descriptor that was open then. So
//     a leader vouches only for what was written after his own was opened, or what
//     another one vouched for.
//   - BEGUN is up to where a flush was begun that has not ended. Who finds it, and
//     the lock free, does not know whether a killed leader was told of an error. He
//     makes a checkpoint, and with it a new generation.
//
// Without a journal nothing is shared but among the goroutines of a process. Under
// the ledger's lock everyone flushes for himself.

// leaderPatience is how long at least a leader is waited for.
const leaderPatience = 20 * time.Millisecond

// flusher is an open file that lines are written to and flushed through.
type flusher struct {
	file     *os.File
	name     string
	dev, ino uint64
	opened   journalAt    // of a journal: what it held when it was opened
	users    atomic.Int32 // the ledger and the tickets; the last one closes the file
	took     atomic.Int64 // the last flush, in nanoseconds

	mu     sync.Mutex // held while it is flushed
	done   ticket     // up to where it is known to be on disk
	failed error      // after an error the descriptor is never flushed again
}

// ticket is what a line's writer waits with: where the line ends, and in which use
// of the journal (0 in a day's file).
type ticket struct {
	from       *flusher
	generation uint64
	end        int64
}

// newFlusher takes the file over: on an error it is closed.
func newFlusher(f *os.File, name string) (*flusher, error) {
	st, err := durable.Fstat(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	fl := &flusher{file: f, name: name, dev: uint64(st.Dev), ino: st.Ino}
	fl.users.Add(1)
	return fl, nil
}

// release closes the file when nobody uses it any more.
func (f *flusher) release() {
	if f.users.Add(-1) == 0 {
		f.file.Close()
	}
}

// target is the file that is flushed for a line. Under the ledger's lock.
func (l *chain) target() *flusher {
	if l.journaled() {
		return l.journal.flusher
	}
	return l.open
}

// ticket is for the flush that makes what was appended until now durable. Under
// the ledger's lock.
func (l *chain) ticket() ticket {
	t := ticket{from: l.target(), end: l.head.Length}
	if l.journaled() {
		t.generation, t.end = l.head.Journal.Generation, l.head.Journal.Offset
	}
	t.from.users.Add(1)
	return t
}

// written is up to where the ticket's file is written by now.
func (l *chain) written(t ticket) int64 {
	h, err := l.lastHead()
	switch {
	case err != nil:
	case t.generation != 0 && h.Journal.Generation == t.generation && h.Journal.Ino == t.from.ino:
		return max(t.end, h.Journal.Offset)
	case t.generation == 0 && h.Ino == t.from.ino && h.Dev == t.from.dev:
		return max(t.end, h.Length)
	}
	return t.end
}

var errDoubt = errors.New("a flush was begun and has not ended")

// flush waits until the ticket's line is on disk. If the flush fails the mailbox
// is made read-only first, and then every waiter gets the error.
func (l *chain) flush(t ticket) error {
	defer t.from.release()
	if l.mode == durable.None {
		return nil
	}
	for {
		err := l.share(t)
		if !errors.Is(err, errDoubt) {
			return err
		}
		if err := l.doubt(); err != nil {
			return err
		}
	}
}

// share leads a flush, or finds that another process's has covered the ticket, or
// has no patience left with a leader.
func (l *chain) share(t ticket) error {
	if t.generation == 0 {
		return l.flushTo(t, 0)
	}
	file, err := l.sync.Acquire(context.Background(), l.patience(t.from))
	if err != nil {
		return l.flushTo(t, 0)
	}
	defer l.sync.Unlock()
	r, use := readFlushed(file), l.use(t)
	switch {
	case r.journalUse == use && r.to >= t.end:
		return CheckWritable(l.home)
	case r.boot == l.boot && r.begun != 0:
		return errDoubt
	case r.journalUse != use:
		r = flushed{journalUse: use}
	}
	r.begun = l.written(t)
	if err := durable.WriteAt(file, r.encode(), 0); err != nil {
		return err
	}
	if err := l.flushTo(t, r.begun); err != nil {
		return err
	}
	if opened := t.from.opened; opened.Generation != t.generation || opened.Offset <= r.to {
		r.to = r.begun
	}
	r.begun = 0
	return durable.WriteAt(file, r.encode(), 0)
}

func (l *chain) patience(f *flusher) time.Duration {
	return max(leaderPatience, 8*time.Duration(f.took.Load()))
}

// flushTo flushes the ticket's file by its own descriptor, if no other goroutine
// has done so since the line was written. to is up to where the file was written
// before; 0 means to look.
func (l *chain) flushTo(t ticket, to int64) error {
	f := t.from
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done.generation == t.generation && f.done.end >= t.end {
		return nil
	}
	if to == 0 {
		to = l.written(t)
	}
	if err := l.flushHeld(f); err != nil {
		return err
	}
	f.done = ticket{generation: t.generation, end: to}
	return CheckWritable(l.home)
}

// flushNow flushes whatever was written until now. Under the ledger's lock.
func (l *chain) flushNow(f *flusher) error {
	if l.mode == durable.None {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return l.flushHeld(f)
}

func (l *chain) flushHeld(f *flusher) error {
	if f.failed == nil {
		begun := time.Now()
		f.failed = durable.Flush(f.file)
		f.took.Store(int64(time.Since(begun)))
	}
	if f.failed != nil {
		return errors.Join(f.failed, l.setReadOnly("flushing "+f.name+" failed: "+f.failed.Error()))
	}
	return nil
}

// doubt ends the journal's generation after a leader has died in its flush: a
// checkpoint finds the error that it may have been told of.
func (l *chain) doubt() error {
	unlock, err := l.lock(context.Background())
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.ready(); err != nil {
		return err
	}
	file, err := l.sync.Acquire(context.Background(), leaderPatience)
	if err != nil {
		return nil //nolint:nilerr // somebody leads again, so there is no doubt any more
	}
	defer l.sync.Unlock()
	if readFlushed(file).begun == 0 {
		return nil
	}
	if err := l.uncover(l.head.Journal.Ino); err != nil {
		return err
	}
	if err := l.room(0); err != nil {
		return err
	}
	fresh := ticket{from: l.journal.flusher, generation: l.head.Journal.Generation}
	return durable.WriteAt(file, flushed{journalUse: l.use(fresh), to: journalBlock}.encode(), 0)
}

// inDoubt tells whether a leader of this boot has died in its flush.
func (l *chain) inDoubt() bool {
	file, err := l.sync.Try()
	if err != nil {
		return false
	}
	defer l.sync.Unlock()
	r := readFlushed(file)
	return r.boot == l.boot && r.begun != 0
}

// journalUse names one generation of one file.
type journalUse struct {
	boot                 string
	dev, ino, generation uint64
}

func (l *chain) use(t ticket) journalUse {
	return journalUse{l.boot, t.from.dev, t.from.ino, t.generation}
}

// flushed is the record in .mbox/locks/sync.
type flushed struct {
	journalUse
	to, begun int64
}

func (s flushed) encode() []byte {
	return lockRecord(fmt.Appendf(make([]byte, 0, headSize), "sync %s %d %d %d %d %d", s.boot, s.dev, s.ino, s.generation, s.to, s.begun))
}

// readFlushed reads the record. One that is none says nothing.
func readFlushed(f *os.File) flushed {
	record := make([]byte, headSize)
	if n, _ := f.ReadAt(record, 0); n < len(record) {
		return flushed{}
	}
	text, _ := parseLockRecord(record)
	t := strings.Fields(text)
	if len(t) != 7 || t[0] != "sync" {
		return flushed{}
	}
	var n [5]uint64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseUint(t[i+2], 10, 64); err != nil {
			return flushed{}
		}
	}
	return flushed{journalUse{t[1], n[0], n[1], n[2]}, int64(n[3]), int64(n[4])}
}

// syncOpen flushes the newest file. Under the lock.
func (l *chain) syncOpen() error {
	if l.open == nil {
		return nil
	}
	return l.flushNow(l.open)
}

// forgetOpen lets go of the newest file, which another one has taken the place of.
func (l *chain) forgetOpen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != nil {
		l.open.release()
		l.open = nil
	}
}
