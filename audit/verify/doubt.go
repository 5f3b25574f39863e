package verify

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// seen is the ledger's end according to the head record, read without the lock. It
// is written by one pwrite, but a reader may still see half of it: then it looks
// again.
func (c *Chain) seen() audit.Position {
	for range 5 {
		if p, ok := c.ledger.Seen(); ok {
			return p
		}
		time.Sleep(time.Millisecond)
	}
	return audit.Position{}
}

// next goes on to the next line that counts. What stands before it is reported.
func (c *Chain) next() (err error) {
	for !c.ended {
		if c.report.Bytes-c.told >= 1<<20 {
			if err := c.tick(); err != nil {
				return err
			}
		}
		before := c.reader.Position()
		c.line, err = c.reader.Next()
		if stuck := c.reader.Stuck(); err == io.EOF && stuck != nil {
			err = c.doubt(stuck)
		} else if err == io.EOF {
			err = c.atEnd()
		}
		if errors.Is(err, durable.ErrNotRegular) {
			err = c.skipFile()
		}
		if err != nil {
			return err
		}
		if c.line.Seq > 0 {
			c.step(before)
			return nil
		}
	}
	return io.EOF
}

// step counts the line at hand, and what stands between it and the one before.
func (c *Chain) step(before audit.Position) {
	from := before.Offset
	if before.File != c.line.At.File {
		from = 0
	}
	if c.line.Event() == audit.AuditRepaired && c.line.Sound() == nil && from == c.line.At.Offset {
		c.faultHere(9, "names bytes that do not lie right before it, or that differ, or that count")
	}
	c.report.Bytes += c.line.End.Offset - from
}

// skipFile goes on behind a file that is none.
func (c *Chain) skipFile() error {
	c.fault(Fault{Invariant: 14, File: "audit/shared/" + c.reader.Position().File, What: "is no regular file"})
	more, err := c.reader.Skip()
	c.ended = !more
	return err
}

// doubt decides on bytes that do not continue the chain. If nobody is at them they
// are reported, and passed over. One lost line is one fault: a line that is whole
// begins another chain.
func (c *Chain) doubt(b *audit.Broken) error {
	if !b.Whole || c.damaged != b.File { // else the first look was careful
		verdict, err := c.lookAgain(*b)
		if err != nil || verdict == changed {
			return err
		}
		if verdict == inFlight {
			c.ended = true
			c.report.Notes = append(c.report.Notes, fmt.Sprintf("%s: %d bytes at offset %d are what an interrupted process appended; the next one mends them", b.File, b.Left, b.Offset))
			if b.Err != nil {
				return io.EOF
			}
			return c.take()
		}
		c.damaged = b.File
	}
	if b.Here > 0 || !b.Behind {
		c.fault(faultOf(b))
	}
	if b.Here == 0 {
		c.report.Bytes += b.Size
	}
	_, err := c.reader.Skip()
	return err
}

// take takes the line at hand without its newline.
func (c *Chain) take() error {
	_, err := c.reader.Skip()
	if err == nil {
		c.line, err = c.reader.Next()
	}
	return err
}

// faultOf says what is wrong with bytes that do not continue the chain.
func faultOf(b *audit.Broken) Fault {
	f := Fault{Invariant: 10, File: b.File, Line: b.Line, Seq: b.Seq + 1}
	if b.Here > 0 {
		f.Seq = b.Here
	}
	switch {
	case b.Err == nil:
		f.Invariant, f.What = 9, "the last line has no newline, and no process is at it"
	case b.Size > audit.MaxLine+1:
		f.Invariant, f.What = 9, fmt.Sprintf("%d bytes without a newline are no ledger line, and no audit_repaired line names them", b.Size)
	case errors.Is(b.Err, audit.ErrNoLine):
		f.Invariant, f.What = 9, "is no ledger line, and no audit_repaired line names these bytes"
	default:
		f.What = b.Err.Error()
	}
	return f
}

// sight is what a second look at doubtful bytes shows.
type sight int

const (
	damaged  sight = iota
	changed        // somebody was just writing: it may be the next line by now
	inFlight       // a process died there, or lives: the next append mends them
)

// lookAgain looks at bytes that do not continue the chain, with the ledger's
// lock held, so that nobody is writing them. What the head record knows as
// written is damage at once, and so is everything in older files.
func (c *Chain) lookAgain(b audit.Broken) (sight, error) {
	younger, err := c.reader.Younger()
	if err != nil {
		return damaged, err
	}
	here, head := c.reader.Position(), c.seen()
	sure := younger != "" || head.File == here.File && head.Offset > here.Offset
	if !sure {
		unlock, err := c.hold(audit.ChainPath(c.home))
		if err != nil {
			return damaged, err
		}
		defer unlock()
	}
	c.line, err = c.reader.Again()
	if now := c.reader.Stuck(); err != io.EOF || now == nil || !same(now, &b) {
		if err == io.EOF {
			err = nil
		}
		return changed, err
	}
	if head = c.seen(); !sure && head.File == here.File && head.Offset == here.Offset && c.o.InFlight != nil && c.o.InFlight(here) {
		return inFlight, nil
	}
	return damaged, nil
}

func same(a, b *audit.Broken) bool {
	return a.File == b.File && a.Offset == b.Offset && a.Size == b.Size && a.Whole == b.Whole && fmt.Sprint(a.Err) == fmt.Sprint(b.Err)
}

// hold takes a lock for a moment. A lock file that is missing, or that may not
// be opened for writing (a read-only file system), keeps nobody from writing or
// everybody: there is nothing to hold.
func (c *Chain) hold(path string) (unlock func(), err error) {
	held, err := durable.AcquireLock(c.ctx, path, c.o.Wait)
	if errors.Is(err, durable.ErrBusy) {
		return nil, err
	}
	if err != nil {
		return func() {}, nil //nolint:nilerr // see above; package mailbox names a missing lock file
	}
	return func() { held.Unlock() }, nil
}

// atEnd compares the end with the head record: a line is written before the
// record of it, so a ledger that is read after the record never ends before what
// that says. The record is read again here, and the ledger after it.
func (c *Chain) atEnd() error {
	at := c.reader.Position()
	if !c.last && c.head.Seq <= at.Seq {
		c.last, c.head = true, c.seen()
		if c.head.Seq > at.Seq {
			return nil
		}
	}
	c.ended = true
	if c.head.Seq <= at.Seq {
		return c.checkHeadFile(at)
	}
	f := Fault{Invariant: 10, File: "audit/shared/" + c.head.File, Seq: at.Seq + 1}
	if at.File == c.head.File {
		f.Line = c.reader.Number() + 1
	}
	f.What = fmt.Sprintf("the ledger ends with seq %d, but seq %d was written in this boot: it was cut", at.Seq, c.head.Seq)
	c.fault(f)
	return io.EOF
}

func (c *Chain) checkHeadFile(at audit.Position) error {
	if c.head.File == "" {
		return io.EOF
	}
	_, err := os.Lstat(filepath.Join(c.home, "audit", "shared", c.head.File))
	if errors.Is(err, fs.ErrNotExist) {
		c.fault(Fault{Invariant: 10, File: "audit/shared/" + c.head.File, Seq: at.Seq + 1, What: "the newest file is gone"})
	} else if err != nil {
		return err
	}
	return io.EOF
}
