// Package verify proves the ledger of a mailbox: that every byte of it belongs to a
// line or to a range that an audit_repaired line names, each line by itself
// (checksum, RFC 8785 form, fields), the chain over all files, the agents' copies,
// and the end against the head record, which only this boot's has. It writes
// nothing, appenders may be at work meanwhile, and its memory does not grow with
// the ledger.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// MaxFaults is how many faults a report lists.
const MaxFaults = 1000

// Fault is one place where the ledger or a copy breaks an invariant. The
// invariants are numbered as in the design: here 9 (every byte belongs to a
// line or to a repaired range), 10 (form, checksum and chain), 11 (copies) and
// 14 (kinds of files); who reads the lines may add others.
type Fault struct {
	Invariant int    `json:"invariant"`
	File      string `json:"file"`          // path from the home
	Line      int    `json:"line,omitzero"` // from 1; 0 if the file as a whole is meant
	Seq       int64  `json:"seq,omitzero"`  // of the line that stands there, or should
	Task      string `json:"task,omitzero"` // of that line, if its reader found the fault
	What      string `json:"what"`
}

// String is the place and what is wrong there.
func (f Fault) String() string {
	where := f.File
	if f.Line > 0 {
		where = fmt.Sprintf("%s:%d", where, f.Line)
	}
	if f.Seq > 0 {
		where = fmt.Sprintf("%s: seq %d", where, f.Seq)
	}
	return where + ": " + f.What
}

// NoDay begins what is said of files that do not belong where the ledger lies.
const NoDay = "is no <date>.jsonl file"

// Options of Open. The zero value is the default.
type Options struct {
	Progress func(done, total int64) // called now and then with bytes of the ledger
	Wait     time.Duration           // for a lock, where something looks wrong; 2 s if zero
	// InFlight tells whether some process has begun to write at p or before it
	// and has not said that it is done. It is asked while the lock of the file in
	// question is held, so that who is at it stands still. Nobody is if nil.
	InFlight func(p audit.Position) bool
}

// Report says what was found. Faults are in the order of the ledger, those of the
// copies behind it.
type Report struct {
	Lines     int64
	Bytes     int64
	End       audit.Position // behind the last line that counts
	Faults    []Fault
	Notes     []string // what a killed process left and the next one mends
	Truncated bool     // there are more than MaxFaults faults
}

// Chain is one walk over a ledger: first all Lines, then Finish.
type Chain struct {
	ctx    context.Context
	home   string
	id     string // of the mailbox
	o      Options
	ledger *audit.Ledger // for its head record, and the copies
	reader *audit.Reader
	copies *audit.Copies
	report Report

	line    audit.Line      // at hand
	agents  map[string]bool // names that are good
	total   int64           // bytes of the ledger when the walk began
	told    int64           // bytes at the last call of Progress
	head    audit.Position  // the end according to the head record; Seq 0 if it says nothing
	last    bool            // the head record was read again at the end of the files
	ended   bool
	damaged string // the file in which a piece was found to be no line with nobody at it
}

// Open begins to prove a ledger. Close ends it.
func Open(ctx context.Context, home, mailboxID string, o Options) (*Chain, error) {
	ledger, err := audit.Open(home, mailboxID, audit.Options{Mode: durable.None, Looks: true})
	if err != nil {
		return nil, err
	}
	o.Wait = cmp.Or(o.Wait, 2*time.Second)
	c := &Chain{ctx: ctx, home: home, id: mailboxID, o: o, ledger: ledger, reader: audit.NewReader(home, mailboxID), agents: map[string]bool{}}
	c.head = c.seen()
	files, err := audit.Files(home)
	if errors.Is(err, fs.ErrNotExist) {
		c.fault(Fault{Invariant: 9, File: "audit/shared", What: "the ledger's folder is missing"})
		err = nil
	}
	for _, path := range files {
		if info, err := os.Lstat(path); err == nil {
			c.total += info.Size()
		}
	}
	if err == nil {
		c.copies, err = ledger.CheckCopies(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close releases what Open took.
func (c *Chain) Close() {
	c.reader.Close()
	c.ledger.Close()
}

// Lines yields every sound line that counts, in order; it is valid until the next.
// Behind a fault the walk goes on as well as it can. The error is for what could not
// be checked: a damaged ledger is no error.
func (c *Chain) Lines() iter.Seq2[*audit.Line, error] {
	return func(yield func(*audit.Line, error) bool) {
		for {
			sound, err := false, c.next()
			if err == io.EOF {
				return
			}
			if err == nil {
				sound, err = c.check()
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if sound && !yield(&c.line, nil) {
				return
			}
		}
	}
}

// Fault reports that the line at hand breaks an invariant, which its reader found.
func (c *Chain) Fault(invariant int, what string) {
	c.fault(Fault{Invariant: invariant, File: "audit/shared/" + c.line.At.File, Line: c.reader.Number(), Seq: c.line.Seq, Task: c.line.Task(), What: what})
}

func (c *Chain) faultHere(invariant int, what string) {
	c.fault(Fault{Invariant: invariant, File: "audit/shared/" + c.line.At.File, Line: c.reader.Number(), Seq: c.line.Seq, What: what})
}

func (c *Chain) fault(f Fault) {
	if len(c.report.Faults) == MaxFaults {
		c.report.Truncated = true
		return
	}
	c.report.Faults = append(c.report.Faults, f)
}

// Finish looks, behind the lines, at what else lies in the ledger's folder, and at
// the copies.
func (c *Chain) Finish() (Report, error) {
	c.report.End = c.reader.Position()
	for _, step := range []func() error{c.checkNames, c.checkCopies, c.tick} {
		if err := step(); err != nil {
			return c.report, err
		}
	}
	return c.report, nil
}

// checkNames finds what is no file of the ledger in its folder.
func (c *Chain) checkNames() error {
	entries, err := os.ReadDir(filepath.Join(c.home, "audit", "shared"))
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !audit.IsDay(e.Name()) {
			c.fault(Fault{Invariant: 9, File: "audit/shared/" + e.Name(), What: NoDay + ", and only those belong to the ledger"})
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (c *Chain) tick() error {
	c.told = c.report.Bytes
	if c.o.Progress != nil {
		c.o.Progress(c.report.Bytes, max(c.total, c.report.Bytes))
	}
	return c.ctx.Err()
}

// check looks at a line of the chain, and tells whether it is sound.
func (c *Chain) check() (sound bool, err error) {
	line := &c.line
	if bad := c.form(); bad != nil {
		c.faultHere(10, bad.Error())
	} else {
		sound = true
		if line.Event() != audit.AuditRepaired && string(line.TS()[:len(time.DateOnly)]) > line.At.File[:len(time.DateOnly)] {
			c.faultHere(10, "ts is later than the file's date: it belongs to a younger file")
		}
	}
	if c.head.Seq == line.Seq && c.head.Checksum != line.Checksum {
		c.faultHere(10, "the head record knows another line with this seq: lines were cut off and others written")
	}
	c.report.Lines++
	return sound, c.copies.Add(line)
}

// form says why the line at hand is no entry.
func (c *Chain) form() error {
	if err := c.line.Strict(); err != nil || c.agents[string(c.line.AgentBytes())] {
		return err
	}
	agent := c.line.Agent()
	if !audit.AgentForm().MatchString(agent) {
		return fmt.Errorf("agent %q is no proper name", agent)
	}
	c.agents[agent] = true
	return nil
}

// checkCopies gives the verdict on copies. One that looked different is compared
// again with nobody at it; where the ledger cannot be read to its end, the first
// verdict stays.
func (c *Chain) checkCopies() error {
	differ, strange, err := c.copies.Finish()
	if err == nil && len(differ) > 0 {
		var unlock func()
		if unlock, err = c.hold(audit.CopiesPath(c.home)); err == nil {
			differ, strange, err = c.compareAgain(differ, strange)
			unlock()
		}
	}
	for _, d := range differ {
		c.fault(Fault{Invariant: 11, File: d.File, Line: d.Line, What: d.What})
	}
	for _, name := range strange {
		c.fault(Fault{Invariant: 11, File: name, What: NoDay + ", and only those belong to a copy"})
	}
	return err
}

func (c *Chain) compareAgain(differ []*audit.CopyFault, strange []string) ([]*audit.CopyFault, []string, error) {
	again, err := c.ledger.CheckCopies(c.ctx)
	lines := audit.NewReader(c.home, c.id)
	for line, failed := range lines.Lines() {
		if err = cmp.Or(err, failed); err == nil {
			err = again.Add(&line)
		}
		if err != nil {
			break
		}
	}
	if err != nil || lines.Broken() != nil {
		return differ, strange, nil //nolint:nilerr // the first verdict stays
	}
	return again.Finish()
}
