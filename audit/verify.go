package audit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox/durable"
)

// MaxFaults is how many faults a report lists.
const MaxFaults = 1000

// Fault is one place where the ledger or a copy breaks an invariant. The
// invariants are numbered as in the design: here 9 (every byte belongs to a
// line or to a repaired range), 10 (form, checksum and chain), 11 (copies) and
// 14 (kinds of files); a visitor may return others.
type Fault struct {
	Invariant int    `json:"invariant"`
	File      string `json:"file"`          // path from the home
	Line      int    `json:"line,omitzero"` // from 1; 0 if the file as a whole is meant
	Seq       int64  `json:"seq,omitzero"`  // of the line that stands there, or should
	What      string `json:"what"`
}

func (f *Fault) Error() string {
	where := f.File
	if f.Line > 0 {
		where = fmt.Sprintf("%s:%d", where, f.Line)
	}
	if f.Seq > 0 {
		where = fmt.Sprintf("%s: seq %d", where, f.Seq)
	}
	return where + ": " + f.What
}

// VerifyOptions of Verify. The zero value is the default.
type VerifyOptions struct {
	Progress func(done, total int64) // called now and then with bytes of the ledger
	Wait     time.Duration           // for a lock, where something looks wrong; 2 s if zero
	// InFlight tells whether some process has begun to write at p or before it
	// and has not said that it is done. It is asked while the lock of the file in
	// question is held, so that who is at it stands still. Nobody is if nil.
	InFlight func(p Position) bool
}

// LedgerReport says what Verify found. Faults are in the order of the ledger,
// those of the copies behind it.
type LedgerReport struct {
	Lines     int64
	Bytes     int64
	End       Position // behind the last line that counts
	Faults    []Fault
	Notes     []string // what a killed process left and the next one mends
	Truncated bool     // there are more than MaxFaults faults
}

// Verify walks the whole ledger and checks that every byte of it belongs to a
// line or to a range that an audit_repaired line names, each line by itself
// (checksum, RFC 8785 form, fields), the chain over all files, the agents'
// copies, and the end against the head record, which only this boot's has. It
// writes nothing, appenders may be at work meanwhile, and its memory does not
// grow with the ledger.
//
// visit is called with every line that counts, in order; both arguments are
// valid until it returns (strings may be kept, Details may not). A *Fault that
// it returns is put into the report, with the line's place; any other error
// ends the walk. Behind a fault the walk goes on as well as it can.
//
// The error is for what could not be checked. A damaged ledger is no error.
func Verify(ctx context.Context, home, mailboxID string, visit func(Line, Entry) error, o VerifyOptions) (LedgerReport, error) {
	boot, err := durable.BootID()
	if err != nil {
		return LedgerReport{}, fmt.Errorf("boot id: %w", err)
	}
	if o.Wait == 0 {
		o.Wait = 2 * time.Second
	}
	v := &verification{
		ctx: ctx, home: home, genesis: Genesis(mailboxID), boot: boot, o: o, visit: visit,
		copies: newCopyCheck(home), differs: map[string]Position{}, agents: map[string]string{},
	}
	v.at.Checksum = v.genesis
	defer v.close()
	for _, step := range []func() error{v.begin, v.walk, v.checkHead, v.checkNames, v.checkCopies} {
		if err := step(); err != nil {
			return v.report, err
		}
	}
	v.report.End = v.at
	return v.report, v.tick()
}

// verification is one run of Verify.
type verification struct {
	ctx     context.Context
	home    string
	genesis string
	boot    string
	o       VerifyOptions
	visit   func(Line, Entry) error
	report  LedgerReport

	at       Position // the chain up to here
	day      *dayReader
	total    int64 // bytes of the ledger when the walk began
	told     int64 // bytes at the last call of Progress
	head     Head  // as it was before the walk; Boot is "" if it says nothing
	lost     bool  // the bytes before were no line: what comes next may be any later seq
	repaired bool  // a repair led to this line
	torn     bool  // the walk ended before bytes that are being written

	copies  *copyCheck
	differs map[string]Position // by folder: where the ledger is at a copy's first difference
	agents  map[string]string
	text    []byte
}

func (v *verification) close() {
	v.copies.close()
	if v.day != nil {
		v.day.file.Close()
	}
}

func (v *verification) fault(f Fault) {
	if len(v.report.Faults) == MaxFaults {
		v.report.Truncated = true
		return
	}
	v.report.Faults = append(v.report.Faults, f)
}

func (v *verification) faultHere(invariant int, seq int64, what string) {
	v.fault(*v.broken(invariant, seq, what))
}

func (v *verification) note(format string, args ...any) {
	v.report.Notes = append(v.report.Notes, fmt.Sprintf(format, args...))
}

// begin reads the head record, adds up the sizes and opens the first file.
func (v *verification) begin() error {
	v.head = v.readHead()
	files, err := dayFiles(sharedDir(v.home))
	if errors.Is(err, fs.ErrNotExist) {
		v.fault(Fault{Invariant: 9, File: "audit/shared", What: "the ledger's folder is missing"})
		return nil
	}
	for _, name := range files {
		if info, err := os.Lstat(filepath.Join(sharedDir(v.home), name)); err == nil {
			v.total += info.Size()
		}
	}
	return errors.Join(err, v.nextDay(""))
}

// checkNames finds what is no file of the ledger in its folder.
func (v *verification) checkNames() error {
	entries, err := os.ReadDir(sharedDir(v.home))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !dayFile.MatchString(e.Name()) {
			v.fault(Fault{Invariant: 9, File: "audit/shared/" + e.Name(), What: "is no <date>.jsonl file, and only those belong to the ledger"})
		}
	}
	return err
}

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

func (v *verification) lockPath() string { return filepath.Join(v.home, ".mbox", "locks", "ledger") }

// walk goes over all files, line by line.
func (v *verification) walk() error {
	for v.day != nil {
		p, err := v.day.peek()
		if err != nil {
			return err
		}
		if v.report.Bytes-v.told >= 1<<20 {
			if err := v.tick(); err != nil {
				return err
			}
		}
		var more bool
		if p.size == 0 {
			more, err = v.atEnd()
		} else {
			more, err = v.piece(p)
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func (v *verification) tick() error {
	v.told = v.report.Bytes
	if v.o.Progress != nil {
		v.o.Progress(v.report.Bytes, max(v.total, v.report.Bytes))
	}
	return v.ctx.Err()
}

// piece takes what stands between two newlines: a line, or not.
func (v *verification) piece(p piece) (more bool, err error) {
	l, bad := v.accept(p)
	if bad == nil && p.whole {
		return true, v.count(&l, p)
	}
	if bad != nil {
		if jumped, err := v.jump(); jumped || err != nil {
			return true, err
		}
	}
	if bad != nil && p.whole && v.day.damaged { // the first look was careful
		v.reject(&l, bad, p)
		return true, nil
	}
	sight, err := v.lookAgain(p)
	if err != nil || sight == changed {
		return true, err
	}
	if p, err = v.day.peek(); err != nil { // the second look has read the bytes anew
		return false, err
	}
	l, bad = v.accept(p)
	v.day.damaged = v.day.damaged || sight == damaged
	switch {
	case sight == inFlight:
		v.torn = true
		v.note("%s: %d bytes at offset %d are what an interrupted process appended; the next one mends them", v.day.path(), v.day.left(), v.day.offset)
		if bad == nil {
			err = v.count(&l, p)
		}
		return false, err
	case bad != nil:
		v.reject(&l, bad, p)
		return true, nil
	case !p.whole:
		v.faultHere(9, l.seq, "the last line has no newline, and no process is at it")
	}
	return true, v.count(&l, p)
}

// reject notes what does not continue the chain, and goes on behind it. A line
// that is whole becomes the new chain, so that one lost line is one fault; what
// is no line is passed over.
func (v *verification) reject(l *parsed, bad *Fault, p piece) {
	if l.sum != "" {
		v.fault(*bad)
		v.at.Seq, v.at.Checksum = l.seq-1, string(l.prev)
		return // the next look at it finds it in order
	}
	if !v.lost {
		v.fault(*bad)
	}
	v.lost = true
	v.report.Bytes += p.size
	v.day.step(p)
}

// accept checks that p is a line and continues the chain.
func (v *verification) accept(p piece) (l parsed, bad *Fault) {
	l, err := parseLine(p.raw)
	switch {
	case p.size > MaxLine+1:
		return parsed{}, v.broken(9, v.at.Seq+1, fmt.Sprintf("%d bytes without a newline are no ledger line, and no audit_repaired line names them", p.size))
	case errors.Is(err, errNoSuffix):
		return parsed{}, v.broken(9, v.at.Seq+1, "is no ledger line, and no audit_repaired line names these bytes")
	case err != nil:
		return parsed{}, v.broken(10, v.at.Seq+1, err.Error())
	case v.lost && l.seq > v.at.Seq:
	case string(l.prev) != v.at.Checksum:
		return l, v.broken(10, l.seq, fmt.Sprintf("prev is not the checksum of the line before, seq %d", v.at.Seq))
	case l.seq != v.at.Seq+1:
		return l, v.broken(10, l.seq, fmt.Sprintf("seq %d after %d", l.seq, v.at.Seq))
	}
	return l, nil
}

func (v *verification) broken(invariant int, seq int64, what string) *Fault {
	return &Fault{Invariant: invariant, File: v.day.path(), Line: v.day.line, Seq: seq, What: what}
}

// count takes a line of the chain in.
func (v *verification) count(l *parsed, p piece) error {
	line := Line{Raw: p.raw, Seq: l.seq, Checksum: l.sum, At: v.at}
	line.At.File, line.At.Offset = v.day.name, v.day.offset
	line.End = Position{File: v.day.name, Offset: v.day.offset + int64(len(p.raw)) + 1, Seq: l.seq, Checksum: l.sum}
	e, err := v.entry(l, line)
	if err != nil {
		v.faultHere(10, l.seq, err.Error())
	} else if err := v.look(line, e); err != nil {
		return err
	}
	if v.head.Seq == l.seq && v.head.Boot != "" && v.head.Checksum != l.sum {
		v.faultHere(10, l.seq, "the head record knows another line with this seq: lines were cut off and others written")
	}
	v.copy(line, e.Agent)
	v.at, v.lost, v.repaired = line.End, false, false
	v.report.Lines++
	v.report.Bytes += p.size
	v.day.step(p)
	return nil
}

// look checks what the place of a line demands of it, and shows it to the visitor.
func (v *verification) look(line Line, e Entry) error {
	switch {
	case e.Event == AuditRepaired && !v.repaired:
		v.faultHere(9, e.Seq, "names bytes that do not lie right before it, or that differ, or that count")
	case e.Event != AuditRepaired && e.TS[:len(time.DateOnly)] > v.day.name[:len(time.DateOnly)]:
		v.faultHere(10, e.Seq, "ts is later than the file's date: it belongs to a younger file")
	}
	err := v.visit(line, e)
	if err == nil {
		return nil
	}
	var f *Fault
	if errors.As(err, &f) {
		v.faultHere(f.Invariant, e.Seq, f.What)
		return nil
	}
	return err
}

// atEnd goes on to the next file, if there is one and nobody has written to the
// one before since.
func (v *verification) atEnd() (more bool, err error) {
	younger, err := v.younger()
	if err != nil || younger == "" {
		return false, err
	}
	if p, err := v.day.peek(); err != nil || p.size > 0 {
		return true, err
	}
	return true, v.nextDay(v.day.name)
}

// younger is the file behind the one at hand, "" if there is none.
func (v *verification) younger() (string, error) {
	files, err := dayFiles(sharedDir(v.home))
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(files, func(n string) bool { return n > v.day.name })
	if i < 0 {
		return "", nil
	}
	return files[i], nil
}

// nextDay opens the first file behind the given one that is a file.
func (v *verification) nextDay(after string) error {
	files, err := dayFiles(sharedDir(v.home))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range files {
		if name <= after {
			continue
		}
		f, _, err := durable.OpenRegular(filepath.Join(sharedDir(v.home), name))
		if errors.Is(err, durable.ErrNotRegular) {
			v.fault(Fault{Invariant: 14, File: "audit/shared/" + name, What: "is no regular file"})
			continue
		}
		if err != nil {
			return err
		}
		if v.day != nil {
			v.day.file.Close()
		}
		v.day = &dayReader{file: f, name: name, line: 1}
		return nil
	}
	if v.day != nil { // what was listed is gone, or no file
		v.day.file.Close()
		v.day = nil
	}
	return nil
}

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
	if found, err := v.findRepair(); err != nil || found != nil {
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
	r, err := v.findRepair()
	if r == nil || err != nil {
		return false, err
	}
	v.report.Bytes += r.at - v.day.offset
	v.day.seek(r.at, r.line)
	v.repaired, v.lost = true, false
	return true, nil
}

// findRepair finds the line that names the bytes from here to itself and
// continues the chain. If there are several, the last counts: it was written by
// somebody who had seen the others and found them inside the damage.
func (v *verification) findRepair() (*repairLine, error) {
	d := v.day
	if err := d.scanRepairs(); err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(d.repairs) {
		if r.File != d.path() || r.Offset != d.offset || r.Offset+r.Length != r.at || r.seq != v.at.Seq+1 || r.prev != v.at.Checksum {
			continue
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, io.NewSectionReader(d.file, r.Offset, r.Length)); err != nil {
			return nil, err
		}
		if r.SHA256 == "sha256:"+hex.EncodeToString(sum.Sum(nil)) {
			return &r, nil
		}
	}
	return nil, nil
}

// copy compares the line with its agent's copy.
func (v *verification) copy(line Line, agent string) {
	if agent == "" {
		agent = agentOf(line.Raw)
		if !agentForm.MatchString(agent) {
			return // that is a fault already
		}
	}
	folder := Folder(agent)
	r := v.copies.agents[folder]
	if r == nil {
		r = &copyReader{agent: agent}
		v.copies.agents[folder] = r
	}
	if r.differ != nil {
		return
	}
	if r.compare(v.home, line); r.differ != nil {
		v.differs[folder] = line.At
	}
}

// checkCopies gives the verdict on copies that looked different: they are
// written behind the ledger, so one that only lacks lines of somebody who is
// at it is none.
func (v *verification) checkCopies() error {
	if _, err := os.Lstat(filepath.Join(v.home, "audit")); errors.Is(err, fs.ErrNotExist) {
		return nil // begin has told it
	}
	differing, err := v.copies.finish()
	if err != nil {
		return err
	}
	for _, d := range differing {
		again, err := v.recheck(Folder(d.Agent))
		if err != nil {
			return err
		}
		if again != nil {
			v.fault(Fault{Invariant: 11, File: again.File, Line: again.Line, What: again.Why})
		}
	}
	return v.strangers()
}

// recheck looks at a copy again from where it first differed, until nothing but
// the difference is left, and then with the copy's lock held.
func (v *verification) recheck(folder string) (*Difference, error) {
	r := v.copies.agents[folder]
	from, ok := v.differs[folder]
	if !ok {
		from = v.at
	}
	for range 3 {
		next, _, err := v.recompare(r, from)
		if err != nil || next.differ == nil {
			return nil, err
		}
		stands := next.at == from
		if r, from = next.copyReader, next.at; stands {
			break
		}
	}
	unlock, err := v.hold(copyLock(v.home, r.agent))
	if err != nil {
		return nil, err
	}
	defer unlock()
	next, missing, err := v.recompare(r, from)
	if err != nil || next.differ == nil {
		return nil, err
	}
	if missing != nil && next.lacks(v.home, missing) && v.o.InFlight != nil && v.o.InFlight(next.at) {
		return nil, nil
	}
	return next.differ, nil
}

// compared is how far a copy was compared with the ledger.
type compared struct {
	*copyReader
	at Position // of the first line that the copy has otherwise or not at all, or the end
}

// recompare compares a copy with the ledger from a place on, where r had come
// to. missing is the first line that the copy has otherwise or not at all; it
// is nil where the copy has too much.
func (v *verification) recompare(r *copyReader, from Position) (n compared, missing []byte, err error) {
	if n.copyReader, err = r.reopen(v.home); err != nil {
		return n, nil, err
	}
	check := copyCheck{home: v.home, agents: map[string]*copyReader{Folder(n.agent): n.copyReader}}
	defer check.close()
	lines := newReader(v.home, v.genesis, from)
	defer lines.Close()
	for n.differ == nil {
		line, err := lines.Next()
		if err == io.EOF || errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrMoved) { // a file that is gone is told elsewhere
			n.at = lines.Position()
			n.atEnd()
			return n, nil, check.leftOver(Folder(n.agent))
		}
		if err != nil {
			return n, nil, err
		}
		if Folder(agentOf(line.Raw)) != Folder(n.agent) {
			continue
		}
		if n.compare(v.home, line); n.differ != nil {
			n.at, missing = line.At, bytes.Clone(line.Raw)
		}
	}
	return n, missing, v.ctx.Err()
}

// reopen makes a reader that stands before the line at which r stopped.
func (r *copyReader) reopen(home string) (*copyReader, error) {
	n := &copyReader{agent: r.agent, names: slices.Clone(r.names)}
	if len(n.names) == 0 {
		return n, nil
	}
	f, _, err := durable.OpenRegular(filepath.Join(home, r.path()))
	if err != nil { // the next comparison opens it, and tells
		n.names = n.names[:len(n.names)-1]
		return n, nil
	}
	in := &dayReader{file: f}
	for n.number < r.passed() {
		p, err := in.peek()
		if err != nil {
			f.Close()
			return nil, err
		}
		if !p.whole {
			break
		}
		in.step(p)
		n.number++
	}
	if _, err := f.Seek(in.offset, io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	n.file, n.lines = f, bufio.NewReaderSize(f, MaxLine+2)
	return n, nil
}

// passed is how many lines of the file at hand were the right ones.
func (r *copyReader) passed() int {
	if r.differ != nil && r.differ.Line > 0 {
		return r.differ.Line - 1
	}
	return r.number
}

// lacks tells whether the copy only ends too early: before the line, or inside it.
func (r *copyReader) lacks(home string, raw []byte) bool {
	f, _, err := durable.OpenRegular(filepath.Join(home, r.path()))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	in := &dayReader{file: f}
	for range r.passed() {
		p, err := in.peek()
		if err != nil || !p.whole {
			return false
		}
		in.step(p)
	}
	p, err := in.peek()
	return err == nil && !p.whole && bytes.HasPrefix(raw, p.raw)
}

// strangers finds what belongs to no copy in the folders of the copies.
func (v *verification) strangers() error {
	folders, err := os.ReadDir(filepath.Join(v.home, "audit"))
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if !folder.IsDir() || folder.Name() == "shared" || strings.HasPrefix(folder.Name(), ".") {
			continue
		}
		files, err := os.ReadDir(filepath.Join(v.home, "audit", folder.Name()))
		if err != nil {
			return err
		}
		for _, f := range files {
			if n := f.Name(); !dayFile.MatchString(strings.TrimSuffix(n, ".new")) && !strings.HasPrefix(n, ".") {
				v.fault(Fault{Invariant: 11, File: filepath.Join("audit", folder.Name(), n), What: "is no <date>.jsonl file, and only those belong to a copy"})
			}
		}
	}
	return nil
}

// dayReader reads one file piece by piece, in bounded memory whatever stands in
// it, and knows the number of each line.
type dayReader struct {
	file   *os.File
	name   string
	offset int64 // of the piece at hand
	line   int   // its number, from 1
	buf    []byte
	from   int // where the piece at hand begins in buf

	damaged   bool         // a piece was found to be no line with nobody at it
	repairs   []repairLine // the audit_repaired lines behind the first such piece
	scanned   int64        // offset up to which they were looked for
	scannedAt int          // number of the line there
	size      int64        // of the file at that time
}

// piece is what stands before a newline or the file's end.
type piece struct {
	raw   []byte // without the newline; its beginning only if size is over MaxLine+1
	size  int64  // with the newline; 0 at the end
	whole bool   // there is a newline
}

func (d *dayReader) path() string { return "audit/shared/" + d.name }

// left is how many bytes stand from the piece at hand to the end.
func (d *dayReader) left() int64 {
	info, err := d.file.Stat()
	if err != nil {
		return 0
	}
	return info.Size() - d.offset
}

// peek returns the piece at hand. It is valid until the next call.
func (d *dayReader) peek() (piece, error) {
	for searched := 0; ; {
		rest := d.buf[d.from:]
		if i := bytes.IndexByte(rest[searched:], '\n'); i >= 0 {
			return piece{rest[:searched+i], int64(searched+i) + 1, true}, nil
		}
		if searched = len(rest); searched > MaxLine {
			return d.measure(rest[:MaxLine+1])
		}
		more, err := d.fill()
		if err != nil {
			return piece{}, err
		}
		if !more {
			return piece{d.buf[d.from:], int64(searched), false}, nil
		}
	}
}

// fill reads more of the file behind the buffer.
func (d *dayReader) fill() (bool, error) {
	const chunk = 256 << 10
	kept := copy(d.buf[:cap(d.buf)], d.buf[d.from:])
	if cap(d.buf) < kept+chunk {
		grown := make([]byte, kept+chunk)
		copy(grown, d.buf[:kept])
		d.buf = grown
	}
	d.from = 0
	n, err := d.file.ReadAt(d.buf[kept:kept+chunk], d.offset+int64(kept))
	d.buf = d.buf[:kept+n]
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n > 0, err
}

// measure finds out how long a piece is that is too long to be a line.
func (d *dayReader) measure(raw []byte) (piece, error) {
	p := piece{raw: raw, size: int64(len(raw))}
	chunk := make([]byte, 256<<10)
	for {
		n, err := d.file.ReadAt(chunk, d.offset+p.size)
		if i := bytes.IndexByte(chunk[:n], '\n'); i >= 0 {
			p.size, p.whole = p.size+int64(i)+1, true
			return p, nil
		}
		p.size += int64(n)
		if errors.Is(err, io.EOF) {
			return p, nil
		}
		if err != nil {
			return p, err
		}
	}
}

// step goes on behind the piece at hand.
func (d *dayReader) step(p piece) {
	d.offset += p.size
	d.line++
	if p.size > int64(len(d.buf)-d.from) {
		d.forget()
		return
	}
	d.from += int(p.size)
}

func (d *dayReader) seek(offset int64, line int) {
	d.offset, d.line = offset, line
	d.forget()
}

// forget drops the buffer: the next peek reads the file.
func (d *dayReader) forget() { d.buf, d.from = d.buf[:0], 0 }

// repairLine is an audit_repaired line ahead.
type repairLine struct {
	Repair
	at   int64 // where it stands
	line int
	seq  int64
	prev string
}

// scanRepairs looks for audit_repaired lines from the piece at hand to the end,
// or from where the last scan ended.
func (d *dayReader) scanRepairs() error {
	info, err := d.file.Stat()
	if err != nil || d.scannedAt > 0 && info.Size() == d.size {
		return err
	}
	if d.size = info.Size(); d.scannedAt == 0 {
		d.scanned, d.scannedAt = d.offset, d.line
	}
	ahead := &dayReader{file: d.file, name: d.name, offset: d.scanned, line: d.scannedAt}
	for {
		p, err := ahead.peek()
		if err != nil {
			return err
		}
		if !p.whole {
			d.scanned, d.scannedAt = ahead.offset, ahead.line
			return nil
		}
		if p.size <= MaxLine+1 && bytes.Contains(p.raw, []byte(`"event":"audit_repaired"`)) {
			if r, ok := repairOf(p.raw); ok {
				r.at, r.line = ahead.offset, ahead.line
				d.repairs = append(d.repairs, r)
			}
		}
		ahead.step(p)
	}
}

func repairOf(raw []byte) (r repairLine, ok bool) {
	seq, prev, _, err := skim(raw)
	if err != nil {
		return r, false
	}
	e, err := Line{Raw: raw}.Decode()
	if err != nil || json.Unmarshal(e.Details, &r.Repair) != nil {
		return r, false
	}
	r.seq, r.prev = seq, prev
	return r, true
}

// parsed is a line taken apart. In one that is proven to be canonical the parts
// are the JSON values as they stand there; else proven is false, and only what
// the chain needs is known.
type parsed struct {
	proven                        bool
	action, agent, details, event []byte
	session, task, ts             []byte
	seq                           int64
	prev                          []byte
	sum                           string // "" if it does not match
}

var errMember = errors.New("a field is missing, unknown or malformed")

// parseLine checks a line's checksum and takes it apart. It proves in one pass
// without a copy that the line has exactly the fields of an entry and is in
// canonical form. What that pass cannot prove is left to entry, which then says
// why, or proves it in another way.
//
// raw is changed and restored meanwhile.
func parseLine(raw []byte) (l parsed, err error) {
	cut := len(raw) - suffixSize
	if cut < 1 || len(raw) > MaxLine {
		return l, errNoSuffix
	}
	c := cursor{b: raw[:cut]}
	l.action = c.member(`{"action":`, '"')
	l.agent = c.member(`,"agent":`, '"')
	l.details = c.member(`,"details":`, '{')
	l.event = c.member(`,"event":`, '"')
	prev := c.member(`,"prev":`, '"')
	seq := c.member(`,"seq":`, '0')
	l.session = c.member(`,"session":`, 'n')
	l.task = c.member(`,"task_id":`, 'n')
	l.ts = c.member(`,"ts":`, '"')
	if c.failed || string(c.b[c.at:]) != `,"v":1` || len(prev) != 73 || len(seq) > 16 {
		seq, prev, sum, err := skim(raw)
		return parsed{seq: seq, prev: []byte(prev), sum: sum}, err
	}
	if l.sum, err = checksum(raw, cut); err != nil {
		return parsed{}, err
	}
	l.prev = inner(prev)
	for _, digit := range seq {
		l.seq = 10*l.seq + int64(digit-'0')
	}
	l.proven = true
	return l, nil
}

// checksum returns the line's checksum if it is the right one. What is hashed
// is the line without its suffix, closed by a brace.
func checksum(raw []byte, cut int) (string, error) {
	was := raw[cut]
	raw[cut] = '}'
	digest := sha256.Sum256(raw[:cut+1])
	raw[cut] = was
	var want [suffixSize]byte
	copy(want[:], suffixKey+"sha256:")
	hex.Encode(want[len(suffixKey)+7:], digest[:])
	copy(want[suffixSize-2:], `"}`)
	switch {
	case bytes.Equal(raw[cut:], want[:]):
		return string(want[len(suffixKey) : suffixSize-2]), nil
	case bytes.HasPrefix(raw[cut:], []byte(suffixKey)) && bytes.HasSuffix(raw, []byte(`"}`)):
		return "", errChecksum
	}
	return "", errNoSuffix
}

// entry makes the entry of a line of the chain, or says why it is none.
func (v *verification) entry(l *parsed, line Line) (Entry, error) {
	if !l.proven {
		return strictly(line)
	}
	agent, err := v.agent(l.agent)
	if err != nil {
		return Entry{}, err
	}
	event, ok := eventNames[string(inner(l.event))]
	switch {
	case !ok:
		return Entry{Agent: agent}, fmt.Errorf("event %s is unknown", l.event)
	case !validTS(inner(l.ts)):
		return Entry{Agent: agent}, fmt.Errorf("ts %s is not UTC with three decimals", l.ts)
	}
	e := Entry{Agent: agent, Details: l.details, Event: event, Prev: v.at.Checksum, Seq: l.seq, V: Format, Checksum: l.sum}
	if v.lost {
		e.Prev = string(l.prev)
	}
	v.fillIn(&e, l)
	return e, nil
}

// fillIn makes the strings of an entry, of one piece of memory.
func (v *verification) fillIn(e *Entry, l *parsed) {
	var ends [4]int
	v.text = v.text[:0]
	for i, value := range [][]byte{l.action, l.session, l.task, l.ts} {
		switch {
		case bytes.IndexByte(value, '\\') >= 0:
			v.text, _ = jsontext.AppendUnquote(v.text, value) // canonical, so it can be unquoted
		case value[0] == '"':
			v.text = append(v.text, inner(value)...)
		}
		ends[i] = len(v.text)
	}
	all := string(v.text)
	e.Action, e.TS = all[:ends[0]], all[ends[2]:]
	if l.session[0] == '"' {
		e.Session = new(all[ends[0]:ends[1]])
	}
	if l.task[0] == '"' {
		e.TaskID = new(all[ends[1]:ends[2]])
	}
}

// agent is the agent's name, checked once.
func (v *verification) agent(value []byte) (string, error) {
	if known, ok := v.agents[string(value)]; ok {
		return known, nil
	}
	name := string(inner(value))
	if !agentForm.MatchString(name) || name == "shared" {
		return "", fmt.Errorf("agent %s is no proper name", value)
	}
	v.agents[string(value)] = name
	return name, nil
}

var eventNames = func() map[string]Event {
	names := make(map[string]Event, len(Events))
	for _, e := range Events {
		names[string(e)] = e
	}
	return names
}()

// strictly makes the entry of a line that has no plain proof.
func strictly(line Line) (Entry, error) {
	e, err := line.checkStrictly()
	if err != nil {
		return Entry{}, err
	}
	if !agentForm.MatchString(e.Agent) {
		return Entry{}, fmt.Errorf("agent %q is no proper name", e.Agent)
	}
	return e, nil
}

// inner is what stands between the quotes.
func inner(value []byte) []byte { return value[1 : len(value)-1] }

// validTS tells whether a ts is in the one form that it has: the parser of
// package time also takes hours of one digit and a comma.
func validTS(ts []byte) bool {
	const form = "0000-00-00T00:00:00.000Z"
	if len(ts) != len(form) {
		return false
	}
	for i := range form {
		if digit := ts[i] >= '0' && ts[i] <= '9'; digit != (form[i] == '0') || !digit && ts[i] != form[i] {
			return false
		}
	}
	two := func(i int) int { return int(ts[i]-'0')*10 + int(ts[i+1]-'0') }
	month, day := time.Month(two(5)), two(8)
	if month < 1 || month > 12 || day < 1 || two(11) > 23 || two(14) > 59 || two(17) > 59 {
		return false
	}
	return day <= 28 || time.Date(100*two(0)+two(2), month, day, 0, 0, 0, 0, time.UTC).Day() == day
}

// cursor reads JSON that should be canonical. It proves less than is true, never
// more: keys with escapes or beyond ASCII fail, and are looked at in another way.
type cursor struct {
	b      []byte
	at     int
	failed bool
}

// member returns the value behind a key, which must be of the kind: '"' a
// string, '0' a positive integer, '{' an object, 'n' a string or null.
func (c *cursor) member(key string, kind byte) []byte {
	begin := c.at + len(key)
	if c.failed || begin >= len(c.b) || string(c.b[c.at:begin]) != key {
		c.failed = true
		return nil
	}
	first := c.b[begin]
	switch kind {
	case '0':
		c.failed = first < '1' || first > '9'
	case 'n':
		c.failed = first != '"' && first != 'n'
	default:
		c.failed = first != kind
	}
	if c.failed {
		return nil
	}
	c.at = value(c.b, begin, 2)
	if c.failed = c.at < 0; c.failed {
		return nil
	}
	return c.b[begin:c.at]
}

// maxDepth is how deep objects and arrays may lie in one another, the line
// itself counted (schemas.MaxDepth).
const maxDepth = 32

// value returns where the value that begins at i ends, -1 if it is not proven
// to be canonical.
func value(b []byte, i, depth int) int {
	switch c := b[i]; {
	case c == '"':
		end, _ := text(b, i)
		return end
	case c == '{' && depth <= maxDepth:
		return object(b, i+1, depth)
	case c == '[' && depth <= maxDepth:
		return array(b, i+1, depth)
	case c >= '0' && c <= '9' || c == '-':
		return number(b, i)
	}
	for _, word := range []string{"null", "true", "false"} {
		if bytes.HasPrefix(b[i:], []byte(word)) {
			return i + len(word)
		}
	}
	return -1
}

func array(b []byte, i, depth int) int {
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	for i < len(b) {
		if i = value(b, i, depth+1); i < 0 || i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i++
		case ']':
			return i + 1
		default:
			return -1
		}
	}
	return -1
}

// object demands that each key is behind the one before: for ASCII the order of
// bytes is that of UTF-16.
func object(b []byte, i, depth int) int {
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	var last []byte
	for first := true; i < len(b); first = false {
		end, plain := text(b, i)
		if end < 0 || !plain || end+1 >= len(b) || b[end] != ':' {
			return -1
		}
		key := b[i+1 : end-1]
		if !first && bytes.Compare(last, key) >= 0 {
			return -1
		}
		last = key
		if i = value(b, end+1, depth+1); i < 0 || i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i++
		case '}':
			return i + 1
		default:
			return -1
		}
	}
	return -1
}

// number takes integers below 2^53 in the one way to write them.
func number(b []byte, i int) int {
	begin, n := i, int64(0)
	if b[i] == '-' {
		i++
	}
	digits := i
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9' && i-digits < 17; i++ {
		n = 10*n + int64(b[i]-'0')
	}
	if i == digits || b[digits] == '0' && (i-digits > 1 || digits > begin) || n >= 1<<53 {
		return -1
	}
	return i
}

// text returns where the string that begins at i ends, -1 if it is none or not
// written the canonical way, and whether it is ASCII without escapes.
func text(b []byte, i int) (end int, plain bool) {
	if i >= len(b) || b[i] != '"' {
		return -1, false
	}
	plain = true
	for i++; ; {
		if i = special(b, i); i >= len(b) {
			return -1, false
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, plain
		case c < ' ':
			return -1, false
		case c == '\\':
			n := escape(b[i+1:])
			if n == 0 {
				return -1, false
			}
			i, plain = i+1+n, false
		default:
			r, size := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && size == 1 {
				return -1, false
			}
			i, plain = i+size, false
		}
	}
}

// escape returns how many bytes of a canonical escape stand behind the
// backslash, 0 if it is none: control characters that have no short form are
// \u00xx with small letters, and nothing else is escaped.
func escape(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return 1
	}
	if len(b) < 5 || string(b[:3]) != "u00" || b[3] != '0' && b[3] != '1' {
		return 0
	}
	low := b[4]
	if !(low >= '0' && low <= '9' || low >= 'a' && low <= 'f') || b[3] == '0' && bytes.IndexByte([]byte("89acd"), low) >= 0 {
		return 0
	}
	return 5
}

// special returns the index of the next byte from i on that is no plain ASCII
// of a string: a quote, a backslash, a control character, or beyond ASCII. It
// looks at eight bytes at a time: in each word below the lowest bit that is set
// is exact, as borrows only spread upwards.
func special(b []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^ones*'"', w^ones*'\\'
		found := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w | w) & tops
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			return i
		}
	}
	return i
}
