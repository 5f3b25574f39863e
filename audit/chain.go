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
	"time"

	"mbox/mailbox/durable"
)

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

func (e *readOnly) Error() string { return ErrReadOnly.Error() + " since " + cmp.Or(e.why, unwritten) }

// unwritten is the reason where the disk took the mark and none of its bytes.
const unwritten = "an unknown time, for a reason that could not be written (was the disk full?)"

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
// returns it. Where another home lies in the place of this one, that is the error.
func (l *chain) Stop(why error) error {
	if err := l.same(); err != nil {
		return err
	}
	return errors.Join(why, l.setReadOnly(why.Error()))
}

func (l *chain) setReadOnly(why string) error {
	if err := l.same(); err != nil {
		return err
	}
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
