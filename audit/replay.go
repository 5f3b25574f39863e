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
	for i := 0; i < len(j.records); {
		n, err := l.replayDay(j.records[i:])
		if i += n; err != nil {
			return j.records[:i], err
		}
	}
	if !lost && !l.inDoubt() {
		return j.records, nil
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

// replayDay makes sure that the lines of the first record's file stand in their
// places, flushes what it had to write, and tells how many records there are.
func (l *Ledger) replayDay(records []Journaled) (n int, err error) {
	name, changed := records[0].At.File, false
	var f *os.File
	if err = fs.ErrNotExist; IsDay(name) {
		f, err = durable.OpenFile(filepath.Join(sharedDir(l.home), name), os.O_RDWR|os.O_APPEND)
	}
	if err != nil {
		return 0, l.unlike(records[0], err)
	}
	defer f.Close()
	for ; n < len(records) && records[n].At.File == name; n++ {
		there, wrote, err := bring(f, records[n])
		if err == nil && !there {
			err = fs.ErrNotExist
		}
		if changed = changed || wrote; err != nil {
			return n, l.unlike(records[n], err)
		}
	}
	if changed {
		err = l.syncFile(f)
	}
	return n, err
}

// unlike is the error of a record whose line cannot be brought to its place: damage
// if that, or the file, is not there.
func (l *Ledger) unlike(rec Journaled, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return l.damaged(fmt.Sprintf("audit/shared/%s has at offset %d other bytes than .mbox/journal, for seq %d", rec.At.File, rec.At.Offset, rec.Seq))
}

// bring makes sure that a record's line stands in its place in the file; it is not
// there if other bytes are.
func bring(f *os.File, rec Journaled) (there, wrote bool, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() < rec.At.Offset {
		return false, false, err
	}
	have := make([]byte, len(rec.bytes))
	n, err := f.ReadAt(have, rec.At.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, false, err
	}
	if bytes.Equal(have[:n], rec.bytes) {
		return true, false, nil
	}
	if !Torn(have[:n], rec.bytes) {
		return false, false, nil
	}
	if rec.At.Offset+int64(n) == info.Size() && bytes.HasPrefix(rec.bytes, have[:n]) {
		return true, true, durable.Append(f, rec.bytes[n:]) // which an append-only file takes, too
	}
	over, err := openOver(f.Name())
	if err != nil {
		return true, true, err
	}
	defer over.Close()
	return true, true, refused(durable.WriteAt(over, rec.bytes, rec.At.Offset), over.Name())
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
