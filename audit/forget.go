package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"mbox/mailbox/durable"
)

// Remembered is the furthest end of the ledger that something beside it tells
// of. sure is of a line that was flushed, or written in this boot: the journal's
// last, and the head record's where its boot is trusted. seen is the head
// record's in any case: a power cut may have taken lines that nobody was told of.
// A position without a checksum is none.
func (l *Ledger) Remembered(sameBoot bool) (sure, seen Position, err error) {
	head, err := l.seeHead()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sure, seen, err
	}
	if head.Checksum != "" {
		seen = head.position(l.genesis)
	}
	if sameBoot && head.Boot == l.boot {
		sure = seen
	}
	j, err := l.readJournal(func(*os.File) (bool, error) { return true, nil })
	if j != nil && (sure.Checksum == "" || j.end.Seq > sure.Seq) {
		sure = j.end
	}
	return sure, seen, err
}

// readJournal reads the journal if it is wanted; nil where there is none with a base.
func (l *Ledger) readJournal(wanted func(*os.File) (bool, error)) (*journaled, error) {
	f, _, err := durable.OpenRegular(JournalPath(l.home))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if is, err := wanted(f); !is || err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, journalLimit+journalChunk))
	return parseJournal(data), err
}

// CheckJournal makes the mailbox read-only, with ErrDamaged, where the ledger is
// Outdated.
func (l *Ledger) CheckJournal() error {
	why, err := l.Outdated()
	if why != "" {
		return l.damaged(why)
	}
	return err
}

// Outdated names a line that the journal has and the ledger lacks; "" where there
// is none. Within one boot that cannot be: a line is in the ledger before it is in
// the journal. So an older ledger was put back, together with its head record: the
// two agree. Where they are the newest this is two reads.
func (l *Ledger) Outdated() (why string, err error) {
	head, err := l.seeHead()
	if errors.Is(err, fs.ErrNotExist) || err == nil && head.Boot != l.boot {
		return "", nil // that is for a recovery
	}
	if err != nil {
		return "", err
	}
	j, err := l.readJournal(func(f *os.File) (bool, error) { return goesOn(f, head) })
	if j != nil && l.Check(j.end) != nil {
		why = fmt.Sprintf("seq %d was written (%s), and audit/shared does not hold it", j.end.Seq, j.end.Checksum)
	}
	return why, err
}

// goesOn tells whether a journal has a line behind the one that the head record
// names.
func goesOn(f *os.File, head Head) (bool, error) {
	block := make([]byte, journalChunk)
	n, err := f.ReadAt(block[:journalBlock], 0)
	if base, ok := parseBase(block[:n]); ok && base.Seq > head.Seq {
		return true, nil
	}
	if at := head.Journal.Offset; at > 0 && (err == nil || errors.Is(err, io.EOF)) {
		n, err = f.ReadAt(block, at)
		if rec, _, ok := parseJournaled(block[:n]); ok && rec.prev == head.Checksum {
			return true, nil
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return false, err
}

// Forget puts a new ledger in the place of one that is lost, and lifts the
// read-only mark. The new one is written whole, flushed, and renamed into its
// place; what is left of the old one, and the agents' copies, stay beside it.
// Until the mark is lifted a crash leaves a ledger that is short of what is
// remembered, and Forget is called again.
func (l *Ledger) Forget(ctx context.Context, entries iter.Seq2[Entry, error]) error {
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := durable.MkdirAll(sharedDir(l.home), l.mode); err != nil {
		return err
	}
	now := l.now().UTC()
	fresh := filepath.Join(sharedDir(l.home), ".forget.new")
	if err := l.writeAnew(fresh, now.Format(timeLayout), entries); err != nil {
		return err
	}
	if err := l.stillHeld(nil); err != nil {
		return err // somebody else may have begun it anew by now
	}
	aside := ".forgotten-" + now.Format("20060102T150405.000")
	if err := l.putAside(aside); err != nil {
		return err
	}
	if err := durable.Move(fresh, filepath.Join(sharedDir(l.home), now.Format("2006-01-02")+".jsonl")); err != nil {
		return err
	}
	if err := durable.SyncDir(sharedDir(l.home), l.mode); err != nil {
		return err
	}
	l.forgetOpen()
	return l.begunAnew()
}

// begunAnew makes journal and head record those of a newest file that another
// one has taken the place of, and lifts the read-only mark.
func (l *Ledger) begunAnew() error {
	if err := l.dropJournal(); err != nil {
		return err
	}
	if err := l.rebuildHead(); err != nil {
		return err
	}
	if err := durable.RemoveIfThere(ReadOnlyPath(l.home)); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Join(l.home, ".mbox"), l.mode)
}

// writeAnew writes the entries as a ledger of one file, and flushes it.
func (l *Ledger) writeAnew(path, ts string, entries iter.Seq2[Entry, error]) error {
	if err := durable.RemoveIfThere(path); err != nil {
		return err
	}
	f, err := durable.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	seq, prev := int64(0), l.genesis
	for e, err := range entries {
		if err != nil {
			return err
		}
		seq++
		e.TS, e.Seq, e.Prev, e.V = ts, seq, prev, Format
		if seq == 1 {
			e.Details = signed(e.Details, l.id)
		}
		raw, err := e.encode()
		if err != nil {
			return err
		}
		prev = e.Checksum
		w.Write(append(raw, '\n')) // Flush says whether it went well
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return l.syncFile(f)
}

// putAside renames the files of the ledger and of its copies to hidden names.
func (l *Ledger) putAside(suffix string) error {
	folders, err := os.ReadDir(filepath.Join(l.home, "audit"))
	if err != nil {
		return err
	}
	for _, folder := range folders {
		dir := filepath.Join(l.home, "audit", folder.Name())
		if !folder.IsDir() {
			continue
		}
		names, err := dayFiles(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := durable.Move(filepath.Join(dir, name), filepath.Join(dir, "."+name+suffix)); err != nil {
				return refused(err, below(dir, names)...)
			}
		}
		if err := durable.SyncDir(dir, l.mode); err != nil {
			return err
		}
	}
	return nil
}
