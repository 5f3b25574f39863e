package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
//   - The system tells a write error once to each descriptor that was open then. So
//     who has opened the journal behind what the record says leads no flush, and
//     answers nobody by one of his own: somebody else may have been told of an error, and not
//     yet have marked the mailbox read-only. He waits for a leader who wrote before.
//     If none comes, that one was killed or is stopped, and he makes a checkpoint,
//     and with it a new generation.
//   - Nobody waits long for a leader, who may be stopped: after a while each of the
//     others flushes for himself, by the descriptor that he wrote through, and
//     publishes nothing. Who has just begun and may not lead flushes, too: only to
//     know how long that takes here.
//   - A generation ends with a checkpoint, so its lines are on disk: those that a
//     recovery has left in their places.
//   - BEGUN is up to where a flush was begun that has not ended. Recovery that finds
//     it, and the lock free, does not know whether a killed leader was told of an
//     error. (Whoever leads after him was told as well.)
//
// Without a journal nothing is shared but among the goroutines of a process, and one
// that opens the day's file after another was told of an error, and was stopped before
// it marked the mailbox read-only, does not learn of it. Under the ledger's lock everyone
// flushes for himself.

// leaderPatience is how long at least a leader is waited for, and leaderFlushes how many
// flushes long, each of at most longFlush, since one may have been stopped in it. A
// process that may not lead waits at least gapPatience for one who may, and twice as long
// as for a leader where somebody leads.
const (
	leaderPatience = 20 * time.Millisecond
	leaderFlushes  = 8
	longFlush      = time.Second
	gapPatience    = 10 * leaderPatience
)

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
	line       Position // behind it, in the ledger
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

// ticket is for the flush that makes what was appended until now durable. Under
// the ledger's lock.
func (l *chain) ticket() ticket {
	t := ticket{from: l.open, end: l.head.Length, line: l.head.position(l.genesis)}
	if l.journaled() {
		t.from, t.generation, t.end = l.journal.flusher, l.head.Journal.Generation, l.head.Journal.Offset
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

var (
	errGap = errors.New("the journal was opened behind what is known to be on disk")
	// errEnded says that a generation has ended, and with that what the ledger has of it
	// is on disk.
	errEnded = errors.New("this use of the journal has ended")
)

// flush waits until the ticket's line is on disk. If the flush fails the mailbox
// is made read-only first, and then every waiter gets the error.
func (l *Ledger) flush(t ticket) error {
	err := l.flushed(t)
	if errors.Is(err, errEnded) {
		return l.keeps(t.line)
	}
	return err
}

// keeps is an error if the ledger ends no more with that line or goes on behind it: a
// recovery may have taken back what a failed flush has lost.
func (l *Ledger) keeps(p Position) error {
	for line, err := range l.BackwardFrom(p.Seq) {
		if err != nil {
			return err
		}
		if line.Seq == p.Seq && line.Checksum == p.Checksum {
			return CheckWritable(l.home)
		}
		break
	}
	return fmt.Errorf("seq %d: a recovery has taken it back, since its flush failed: %w", p.Seq, syscall.EIO)
}

// flushed is flush, or errEnded.
func (l *chain) flushed(t ticket) error {
	defer t.from.release()
	switch {
	case l.mode == durable.None:
		return nil
	case t.generation == 0:
		return l.flushTo(t, 0)
	}
	err := l.share(t)
	if errors.Is(err, errGap) {
		return l.retire(t)
	}
	return err
}

// share leads a flush, or finds that another process's has covered the ticket, or
// has no patience left with a leader: patience begins anew with each other one.
func (l *chain) share(t ticket) error {
	seen, since := flushed{}, time.Now()
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 2*time.Millisecond) {
		patience, gap := t.from.patience(), gapPatience
		file, err := l.sync.Acquire(context.Background(), patience)
		busy := err != nil
		if busy {
			gap = max(gap, 2*patience)
		} else {
			err = l.lead(t, file)
			l.sync.Unlock()
			if !errors.Is(err, errGap) {
				return err
			}
		}
		r := l.published(t)
		if seen.boot != "" && r != seen {
			since = time.Now()
		}
		seen = r
		switch waited := time.Since(since); {
		case r.to >= t.end:
			return CheckWritable(l.home)
		case busy && waited >= patience && (t.vouches(r) || t.from.took.Load() == 0):
			if err := l.flushTo(t, 0); err != nil || t.vouches(r) {
				return err
			}
		case waited >= gap:
			return errGap
		}
		time.Sleep(pause/2 + rand.N(pause))
	}
}

// lead flushes the journal for everybody, if that is still to be done, and
// publishes it. With the lock of the record.
func (l *chain) lead(t ticket, file *os.File) error {
	r, its := l.recorded(t, file)
	switch {
	case r.to >= t.end:
		return CheckWritable(l.home)
	case !its && l.ended(t):
		return errEnded
	case !t.vouches(r):
		return errGap
	}
	r.begun = l.written(t)
	if err := durable.WriteAt(file, r.encode(), 0); err != nil {
		return err
	}
	if err := l.flushTo(t, r.begun); err != nil {
		return err
	}
	r.to, r.begun = r.begun, 0
	return durable.WriteAt(file, r.encode(), 0)
}

// recorded is what the record says of the ticket's generation, if it is its record.
// Where it is not, the base is on disk, for that is flushed before all else.
func (l *chain) recorded(t ticket, file *os.File) (r flushed, its bool) {
	use := journalUse{l.boot, t.from.dev, t.from.ino, t.generation}
	if r = readFlushed(file); r.journalUse == use {
		return r, true
	}
	return flushed{journalUse: use, to: journalBlock}, false
}

// published is recorded for who has not the lock.
func (l *chain) published(t ticket) flushed {
	f, err := durable.OpenFile(l.sync.Path(), os.O_RDONLY)
	if err != nil {
		return flushed{}
	}
	defer f.Close()
	r, _ := l.recorded(t, f)
	return r
}

// vouches tells whether all of the journal is on disk once a flush through the
// ticket's descriptor has succeeded: what was written before it was opened is so
// by the record.
func (t ticket) vouches(r flushed) bool {
	opened := t.from.opened
	return opened.Generation != t.generation || opened.Offset <= r.to
}

func (f *flusher) patience() time.Duration {
	return max(leaderPatience, leaderFlushes*time.Duration(f.took.Load()))
}

// flushTo flushes the ticket's file by its own descriptor, if no other goroutine has
// done so for all up to to, which was written before. With 0 that is the ticket's line,
// and how far a flush reaches is looked up.
func (l *chain) flushTo(t ticket, to int64) error {
	f := t.from
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done.generation == t.generation && f.done.end >= max(t.end, to) {
		return CheckWritable(l.home)
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
		f.took.Store(int64(min(time.Since(begun), longFlush)))
	}
	if f.failed != nil {
		return errors.Join(f.failed, l.setReadOnly("flushing "+f.name+" failed: "+f.failed.Error()))
	}
	return nil
}

// ended tells whether the ticket's generation is over. Where there is no other
// generation nobody knows.
func (l *chain) ended(t ticket) bool {
	h, err := l.seeHead()
	return err == nil && h.Boot == l.boot && h.Journal.Generation != 0 && h.Journal.Generation != t.generation
}

// retire ends the ticket's generation by a checkpoint, which brings its lines to
// the disk.
func (l *chain) retire(t ticket) error {
	unlock, err := l.lock(context.Background())
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.ready(); err != nil {
		return err
	}
	if err := l.room(0); err != nil {
		return err
	}
	if l.head.Journal.Generation == t.generation {
		if err := l.beginJournal(); err != nil {
			return err
		}
	}
	file, err := l.sync.Try()
	if err != nil {
		return errEnded // who leads writes the record
	}
	defer l.sync.Unlock()
	r, its := l.recorded(ticket{from: l.journal.flusher, generation: l.head.Journal.Generation}, file)
	if !its {
		err = durable.WriteAt(file, r.encode(), 0) // takes back what was begun
	}
	return cmp.Or(err, errEnded)
}

// flushAll brings every line to the disk, in a mode that flushes, so that none is left
// uncovered: by a checkpoint where a flush of the journal would not vouch for all. Under
// the ledger's lock.
func (l *chain) flushAll() error {
	if l.open == nil {
		return nil
	}
	if err := l.room(0); err != nil {
		return err
	}
	if l.journaled() {
		t := ticket{from: l.journal.flusher, generation: l.head.Journal.Generation}
		if !t.vouches(l.published(t)) {
			return l.beginJournal()
		}
		if err := l.flushNow(t.from); err != nil {
			return err
		}
	}
	return l.syncOpen()
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
	t := strings.Fields(parseLockRecord(record))
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
