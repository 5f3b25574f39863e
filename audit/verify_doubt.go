package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"mbox/mailbox/durable"
)

// readHead reads the head record without the lock. It is written by one pwrite,
// but a reader may still see half of it: then it looks again.
func (v *verification) readHead() Head {
	for range 5 {
		record := make([]byte, headSize)
		f, _, err := durable.OpenRegular(v.lockPath())
		if err != nil {
			return Head{}
		}
		n, _ := f.ReadAt(record, 0) // what cannot be read does not decode
		f.Close()
		h, ok := decodeHead(record[:n])
		switch {
		case ok && h.Boot == v.boot:
			return h
		case ok || len(bytes.Trim(record, " \x00\n")) == 0:
			return Head{}
		}
		time.Sleep(time.Millisecond)
	}
	return Head{}
}

func (v *verification) lockPath() string { return ChainPath(v.home) }

// sight is what a second look at doubtful bytes shows.
type sight int

const (
	damaged  sight = iota
	changed        // somebody was just writing: take them again
	inFlight       // a process died there, or lives: the next append mends them
)

// lookAgain looks at bytes that do not continue the chain, with the ledger's
// lock held, so that nobody is writing them. What the head record knows as
// written is damage at once, and so is everything in older files.
func (v *verification) lookAgain(p piece) (sight, error) {
	younger, err := v.younger()
	if err != nil {
		return damaged, err
	}
	head := v.readHead()
	if younger != "" || head.File == v.day.name && head.Length > v.day.offset {
		return v.peekAgain(p)
	}
	unlock, err := v.hold(v.lockPath())
	if err != nil {
		return damaged, err
	}
	defer unlock()
	if s, err := v.peekAgain(p); err != nil || s == changed {
		return s, err
	}
	if found, err := v.day.findRepair(v.at); err != nil || found != nil {
		return changed, err
	}
	here := v.at
	here.File, here.Offset = v.day.name, v.day.offset
	head = v.readHead()
	if head.File == v.day.name && head.Length == v.day.offset && v.o.InFlight != nil && v.o.InFlight(here) {
		return inFlight, nil
	}
	return damaged, nil
}

// peekAgain tells whether the bytes at hand have changed meanwhile.
func (v *verification) peekAgain(p piece) (sight, error) {
	was := bytes.Clone(p.raw)
	v.day.forget()
	now, err := v.day.peek()
	if err != nil {
		return damaged, err
	}
	if now.size != p.size || now.whole != p.whole || !bytes.Equal(now.raw, was) {
		return changed, nil
	}
	return damaged, nil
}

// hold takes a lock for a moment. A lock file that is missing, or that may not
// be opened for writing (a read-only file system), keeps nobody from writing or
// everybody: there is nothing to hold.
func (v *verification) hold(path string) (unlock func(), err error) {
	held, err := durable.AcquireLock(v.ctx, path, v.o.Wait)
	if errors.Is(err, durable.ErrBusy) {
		return nil, err
	}
	if err != nil {
		return func() {}, nil //nolint:nilerr // see above; package mailbox names a missing lock file
	}
	return func() { held.Unlock() }, nil
}

// checkHead compares the end with the head record: a line is written before the
// record of it, so a ledger that is read after the record never ends before what
// that says.
func (v *verification) checkHead() error {
	head := v.readHead()
	if v.torn || head.Seq <= v.at.Seq {
		return v.checkHeadFile(head)
	}
	if v.day == nil {
		if err := v.nextDay(""); err != nil {
			return err
		}
	}
	if err := v.walk(); err != nil {
		return err
	}
	if head.Seq <= v.at.Seq {
		return v.checkHeadFile(head)
	}
	f := Fault{Invariant: 10, File: "audit/shared/" + head.File, Seq: v.at.Seq + 1}
	if v.day != nil && v.day.name == head.File {
		f.Line = v.day.line
	}
	f.What = fmt.Sprintf("the ledger ends with seq %d, but seq %d was written in this boot: it was cut", v.at.Seq, head.Seq)
	v.fault(f)
	return nil
}

func (v *verification) checkHeadFile(head Head) error {
	if head.File == "" {
		return nil
	}
	_, err := os.Lstat(filepath.Join(sharedDir(v.home), head.File))
	if errors.Is(err, fs.ErrNotExist) {
		v.fault(Fault{Invariant: 10, File: "audit/shared/" + head.File, Seq: v.at.Seq + 1, What: "the newest file is gone"})
		return nil
	}
	return err
}

// jump goes on behind the bytes at hand if an audit_repaired line names them.
func (v *verification) jump() (bool, error) {
	r, err := v.day.findRepair(v.at)
	if r == nil || err != nil {
		return false, err
	}
	v.report.Bytes += r.at - v.day.offset
	v.day.seek(r.at, r.line)
	v.repaired, v.lost = true, false
	return true, nil
}
