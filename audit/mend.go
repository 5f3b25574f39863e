package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"mbox/mailbox/durable"
)

// MboxAgent is the agent of what mbox does by itself.
const MboxAgent = "mbox"

// mend reads the open file from the head record on, up to size bytes, and makes
// it end in a whole line of the chain: lines that a dead appender left count, a
// missing last newline is written, anything else is named by an audit_repaired
// line. Under the lock. Afterwards the head record is right.
func (l *chain) mend(size int64) error {
	at, unfinished, err := l.chainEnd(l.head.position(l.genesis))
	if err != nil {
		return err
	}
	if unfinished {
		if err := durable.Append(l.open.file, []byte{'\n'}); err != nil {
			return err
		}
		if at, _, err = l.chainEnd(at); err != nil {
			return err
		}
		size = max(size, at.Offset)
	}
	head := Head{File: at.File, Length: at.Offset, Seq: at.Seq, Checksum: at.Checksum, Journal: journalAt{Ino: l.head.Journal.Ino}}
	if err := l.writeHead(head); err != nil {
		return err
	}
	if at.Offset < size {
		if _, err := l.checkCut(at, size); err != nil {
			return err
		}
		if err := l.repair(at, size); err != nil {
			return err
		}
	}
	if l.journaled() {
		return nil // room begins the journal anew before the next line
	}
	return l.syncOpen()
}

// chainEnd walks from p to the end of the chain. unfinished means that a whole
// line without its newline stands there.
func (l *chain) chainEnd(p Position) (at Position, unfinished bool, err error) {
	r := newReader(l.home, l.genesis, p)
	for _, err := range r.Lines() {
		if err != nil {
			return r.at, false, err
		}
	}
	return r.at, r.stuck != nil && r.stuck.Err == nil, nil
}

// checkCut refuses to name or blank a range that holds a line whose effect is in
// the tree: such a line was flushed once, so this is damage and no crash. It counts
// the whole lines there.
func (l *chain) checkCut(at Position, size int64) (lines int, err error) {
	var txs []string
	for raw, err := range l.pieces(at.Offset, size) {
		var p parsed
		if err != nil {
			return 0, err
		}
		if p.parse(raw) != nil {
			continue
		}
		lines++
		if tx := (Line{Raw: raw, parts: &p}).Text("tx"); tx != "" {
			txs = append(txs, tx)
		}
	}
	if l.stands == nil || len(txs) == 0 {
		return lines, nil
	}
	tx, err := l.stands(txs)
	if err != nil || tx == "" {
		return lines, err
	}
	return lines, l.damaged(fmt.Sprintf("audit/shared/%s is broken at offset %d, after seq %d, before a line whose transaction %s stands in a file", at.File, at.Offset, at.Seq, tx))
}

// pieces are the bytes of the open file between from and to, cut at newlines and
// behind NULs, since a hole may have taken the newline before a whole line; of one
// that is too long to be a line only the beginning.
func (l *chain) pieces(from, to int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		in := &dayReader{file: l.open.file, offset: from}
		for in.offset < to {
			err := in.skipHole()
			p, failed := in.peek()
			if err = errors.Join(err, failed); err != nil {
				yield(nil, err)
				return
			}
			if p.size == 0 || !yield(p.raw, nil) {
				return
			}
			in.step(p)
		}
	}
}

// repair closes the bytes from at to size and names them.
func (l *chain) repair(at Position, size int64) error {
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(l.open.file, at.Offset, size-at.Offset)); err != nil {
		return err
	}
	last := make([]byte, 1)
	if _, err := l.open.file.ReadAt(last, size-1); err != nil {
		return err
	}
	var closing []byte
	if !bytes.Equal(last, []byte{'\n'}) {
		closing = []byte{'\n'}
		sum.Write(closing)
	}
	length := size - at.Offset + int64(len(closing))
	e := Entry{
		Agent:  MboxAgent,
		Event:  AuditRepaired,
		Action: fmt.Sprintf("mbox set aside %d bytes of %s at offset %d that are no ledger lines", length, at.File, at.Offset),
		Details: Details(struct {
			Repair
			Writer
		}{Repair{"audit/shared/" + at.File, at.Offset, length, "sha256:" + hex.EncodeToString(sum.Sum(nil))}, ThisWriter()}),
	}
	_, t, err := l.put(size-at.Offset, closing, e, l.now().UTC(), Payload{}, nil)
	if err == nil {
		err = l.flushNow(t.from)
		t.from.release()
	}
	return err
}

// Recover makes the ledger its longest valid chain after a restart, or when the
// operator asks: the head record is made anew from the newest file, and what
// stands behind the chain there is named by an audit_repaired line. A break in
// an older file, or one before a line whose transaction stands in a file, is
// damage: ErrDamaged, and nothing is changed but the read-only mark.
func (l *Ledger) Recover(ctx context.Context) error {
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := CheckWritable(l.home); err != nil {
		return err
	}
	if err := l.checkOlder(); err != nil {
		return err
	}
	if err := l.rebuildHead(); err != nil {
		return err
	}
	if err := l.syncOpen(); err != nil { // lines that recovery acts on, and that no journal may have
		return err
	}
	l.sealOlder()
	return nil
}

// checkOlder looks for files that were renamed, and walks the chain up to the
// newest file.
func (l *Ledger) checkOlder() error {
	files, err := dayFiles(sharedDir(l.home))
	if err != nil {
		return err
	}
	for _, name := range files {
		first, _, err := beginning(filepath.Join(sharedDir(l.home), name))
		if err != nil {
			return err
		}
		if e, err := first.Decode(); err == nil && e.Event != AuditRepaired && e.TS[:len(time.DateOnly)] > name[:len(time.DateOnly)] {
			return l.damaged(fmt.Sprintf("audit/shared/%s begins with a line of %s: was it renamed?", name, e.TS))
		}
	}
	if len(files) < 2 {
		return nil
	}
	newest := files[len(files)-1]
	r := newReader(l.home, l.genesis, Position{})
	for line, err := range r.Lines() {
		if err != nil {
			return err
		}
		if line.At.File == newest {
			return nil
		}
	}
	if r.at.File == newest {
		return nil
	}
	why := fmt.Sprintf("audit/shared/%s ends before its last line", r.at.File)
	if broken := r.Broken(); broken != nil {
		why = broken.Error()
	}
	return l.damaged(why)
}

// Cut tells whether a transaction stands only in bytes that an audit_repaired
// line sets aside: its line was written and a power cut took it.
func (l *Ledger) Cut(tx string) (bool, error) {
	want := []byte(`"tx":"` + tx + `"`)
	files, err := dayFiles(sharedDir(l.home))
	if err != nil || len(files) == 0 {
		return false, err
	}
	f, err := durable.OpenFile(filepath.Join(sharedDir(l.home), files[len(files)-1]), os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return contains(f, want)
}

// contains tells whether the text stands anywhere in what is read.
func contains(in io.Reader, text []byte) (bool, error) {
	buf := make([]byte, 0, 256<<10)
	for {
		n, err := in.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case bytes.Contains(buf, text):
			return true, nil
		case err == io.EOF:
			return false, nil
		case err != nil:
			return false, err
		}
		begun := max(0, len(buf)-len(text)+1) // it may stand half in the next
		buf = buf[:copy(buf, buf[begun:])]
	}
}

// Renew lifts the read-only mark after an I/O error: the newest file is copied
// to a new inode, which is checked to be a whole chain, flushed, and put in the
// old one's place. The old bytes stay beside it as .<name>.before-<time>. What
// the journal was needed for is brought to the disk, and the journal, whose
// flush may be the one that failed, is begun anew in another inode.
func (l *Ledger) Renew(ctx context.Context) error {
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.checkOlder(); err != nil {
		return err
	}
	files, err := dayFiles(sharedDir(l.home))
	if err != nil {
		return err
	}
	if len(files) > 0 {
		if err := l.renewFile(files[len(files)-1]); err != nil {
			return err
		}
	}
	return l.begunAnew()
}

func (l *Ledger) renewFile(name string) error {
	path := filepath.Join(sharedDir(l.home), name)
	old, err := durable.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer old.Close()
	fresh := filepath.Join(sharedDir(l.home), "."+name+".new")
	if err := durable.RemoveIfThere(fresh); err != nil {
		return err
	}
	if err := durable.StageFrom(fresh, old, l.mode); err != nil {
		return err
	}
	if err := l.stillHeld(nil); err != nil {
		return err // somebody else may have appended since it was copied
	}
	if err := durable.Exchange(fresh, path); err != nil {
		return refused(err, path)
	}
	l.forgetOpen()
	kept := filepath.Join(sharedDir(l.home), "."+name+".before-"+l.now().UTC().Format("20060102T150405.000"))
	if err := durable.Move(fresh, kept); err != nil {
		return err
	}
	return durable.SyncDir(sharedDir(l.home), l.mode)
}
