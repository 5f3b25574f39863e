package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"mbox/mailbox/durable"
)

// Replay puts the journal's lines back where a power cut took them from the
// ledger, flushes them, and returns the records, oldest first, for their
// contents. It writes only where the file has nothing, or the NULs that a file
// system leaves; a ledger that has other lines behind the base than the journal
// is damaged, not cut, and stays as it is. From a journal whose base is not in
// the ledger nothing is replayed: one of them is not what it was (Remembered).
// Running it again changes no byte.
//
// lost tells that something may not have reached the disk: the machine was
// restarted, or a write failed. So it may be where a leader was killed in its
// flush. Only then lines behind the journal's last are
// taken for what was never flushed. Else bytes that are there were written, and
// it is the journal that lacks them.
func (l *Ledger) Replay(ctx context.Context, lost bool) ([]Journaled, error) {
	unlock, err := l.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	j, err := l.readJournal(func(f *os.File) (bool, error) { return true, l.syncFile(f) }) // what is acted on must be on disk
	if err != nil || j == nil || l.Check(j.base) != nil {
		return nil, err
	}
	r := replay{dir: sharedDir(l.home), sync: l.syncFile}
	defer r.close()
	for i, rec := range j.records {
		there, err := r.bring(rec)
		if err == nil && !there {
			err = l.damaged(fmt.Sprintf("audit/shared/%s has at offset %d other bytes than .mbox/journal, for seq %d", rec.At.File, rec.At.Offset, rec.Seq))
		}
		if err != nil || !there {
			return j.records[:i], err
		}
	}
	if err := r.flush(); err != nil || !lost && !l.inDoubt() {
		return j.records, err
	}
	return j.records, l.blankUncovered(j.end)
}

// syncFile flushes a file that recovery reads or has written. An error makes the
// mailbox read-only: the next flush would say that all is well.
func (l *Ledger) syncFile(f *os.File) error {
	if l.mode == durable.None {
		return nil
	}
	if err := durable.Flush(f); err != nil {
		return errors.Join(err, l.setReadOnly("flushing "+f.Name()+" failed: "+err.Error()))
	}
	return nil
}

// blankUncovered overwrites with NULs what stands in the newest file behind what
// the journal covers, if there is a whole line in it, with its newline or without,
// in the chain or behind a hole: those lines were never flushed, and what they
// commit to may be lost. A line whose transaction stands in a file was not one of
// them; then the journal is not this ledger's, and that is damage. Under the lock.
func (l *Ledger) blankUncovered(covered Position) error {
	files, err := dayFiles(sharedDir(l.home))
	if err != nil || len(files) == 0 {
		return err
	}
	begins, err := l.startOf(files)
	if err != nil {
		return err
	}
	if covered.File < begins.File && covered.Seq == begins.Seq {
		covered = begins // a day was begun, and its first line not covered
	}
	size, err := l.follow(Head{File: begins.File, Seq: begins.Seq, Checksum: begins.Checksum})
	if err != nil || covered.File != begins.File || covered.Offset >= size {
		return err
	}
	if lines, err := l.checkCut(covered, size); err != nil || lines == 0 {
		return err
	}
	f, err := openOver(filepath.Join(sharedDir(l.home), begins.File))
	if err != nil {
		return err
	}
	defer f.Close()
	// The head record goes back first: after a crash behind this the next appender
	// must not chain on a line that is not there any more.
	st, err := durable.Lstat(JournalPath(l.home))
	if err != nil {
		return err
	}
	back := Head{File: covered.File, Length: covered.Offset, Seq: covered.Seq, Checksum: covered.Checksum, Journal: journalAt{Ino: st.Ino}}
	if err := l.writeHead(back); err != nil {
		return err
	}
	if err := durable.WriteAt(f, make([]byte, size-covered.Offset), covered.Offset); err != nil {
		return refused(err, f.Name())
	}
	return l.syncFile(f)
}

// openOver opens a day file to write over what it holds.
func openOver(path string) (*os.File, error) {
	f, err := durable.OpenFile(path, os.O_RDWR)
	return f, refused(err, path)
}

// replay writes lines into the day files that lack them.
type replay struct {
	dir     string
	sync    func(*os.File) error
	file    *os.File // the open day file, for reading and appending
	name    string
	changed bool
}

// bring makes sure that a record's line stands in its place; false if other
// bytes stand there.
func (r *replay) bring(rec Journaled) (bool, error) {
	if rec.At.File != r.name {
		if err := r.open(rec.At.File); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	info, err := r.file.Stat()
	if err != nil || info.Size() < rec.At.Offset {
		return false, err
	}
	have := make([]byte, len(rec.bytes))
	n, err := r.file.ReadAt(have, rec.At.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if bytes.Equal(have[:n], rec.bytes) {
		return true, nil
	}
	if !Torn(have[:n], rec.bytes) {
		return false, nil
	}
	r.changed = true
	if rec.At.Offset+int64(n) == info.Size() && bytes.HasPrefix(rec.bytes, have[:n]) {
		return true, durable.Append(r.file, rec.bytes[n:]) // which an append-only file takes, too
	}
	over, err := openOver(r.file.Name())
	if err != nil {
		return true, err
	}
	defer over.Close()
	return true, refused(durable.WriteAt(over, rec.bytes, rec.At.Offset), over.Name())
}

// Torn tells whether a power cut can have made have of whole: nothing is there
// but what belongs there, cut off or with NULs in it.
func Torn(have, whole []byte) bool {
	if len(have) > len(whole) {
		return false
	}
	for i, c := range have {
		if c != 0 && c != whole[i] {
			return false
		}
	}
	return true
}

func (r *replay) open(name string) error {
	if err := r.flush(); err != nil {
		return err
	}
	r.close()
	if !IsDay(name) {
		return fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	f, err := durable.OpenFile(filepath.Join(r.dir, name), os.O_RDWR|os.O_APPEND)
	if err != nil {
		return err
	}
	r.file, r.name = f, name
	return nil
}

func (r *replay) flush() error {
	if !r.changed {
		return nil
	}
	r.changed = false
	return r.sync(r.file)
}

func (r *replay) close() {
	if r.file != nil {
		r.file.Close()
		r.file, r.name = nil, ""
	}
}
