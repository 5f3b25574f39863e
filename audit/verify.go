package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

// NoDay begins what is said of files that do not belong where the ledger lies.
const NoDay = "is no <date>.jsonl file"

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
// visit is called with every line that counts, in order; it is valid until that
// returns. A *Fault that it returns is put into the report, with the line's place;
// any other error ends the walk. Behind a fault the walk goes on as well as it can.
//
// The error is for what could not be checked. A damaged ledger is no error.
func Verify(ctx context.Context, home, mailboxID string, visit func(*Line) error, o VerifyOptions) (LedgerReport, error) {
	boot, err := durable.BootID()
	if err != nil {
		return LedgerReport{}, fmt.Errorf("boot id: %w", err)
	}
	if o.Wait == 0 {
		o.Wait = 2 * time.Second
	}
	v := &verification{
		ctx: ctx, home: home, genesis: Genesis(mailboxID), boot: boot, o: o, visit: visit,
		agents: map[string]string{},
	}
	v.at.Checksum = v.genesis
	if v.copies, err = lookAtCopies(ctx, home, boot); err != nil {
		return LedgerReport{}, err
	}
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
	visit   func(*Line) error
	report  LedgerReport

	at       Position // the chain up to here
	day      *dayReader
	total    int64 // bytes of the ledger when the walk began
	told     int64 // bytes at the last call of Progress
	head     Head  // as it was before the walk; Boot is "" if it says nothing
	lost     bool  // the bytes before were no line: what comes next may be any later seq
	repaired bool  // a repair led to this line
	torn     bool  // the walk ended before bytes that are being written

	copies *copyLook
	agents map[string]string // names that are good, by their JSON

	// The line at hand: taken apart, and as the visitor sees it.
	line  parsed
	shown Line
}

func (v *verification) close() {
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
		if !strings.HasPrefix(e.Name(), ".") && !dayFile().MatchString(e.Name()) {
			v.fault(Fault{Invariant: 9, File: "audit/shared/" + e.Name(), What: NoDay + ", and only those belong to the ledger"})
		}
	}
	return err
}

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
		return true, v.count(l, p)
	}
	if bad != nil {
		if jumped, err := v.jump(); jumped || err != nil {
			return true, err
		}
	}
	if bad != nil && p.whole && v.day.damaged { // the first look was careful
		v.reject(l, bad, p)
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
			err = v.count(l, p)
		}
		return false, err
	case bad != nil:
		v.reject(l, bad, p)
		return true, nil
	case !p.whole:
		v.faultHere(9, l.seq, "the last line has no newline, and no process is at it")
	}
	return true, v.count(l, p)
}

// reject notes what does not continue the chain, and goes on behind it. A line
// that is whole becomes the new chain, so that one lost line is one fault; what
// is no line is passed over.
func (v *verification) reject(l *parsed, bad *Fault, p piece) {
	if l.sum != nil {
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
func (v *verification) accept(p piece) (l *parsed, bad *Fault) {
	l = &v.line
	err := l.parse(p.raw)
	switch {
	case p.size > MaxLine+1:
		return l, v.broken(9, v.at.Seq+1, fmt.Sprintf("%d bytes without a newline are no ledger line, and no audit_repaired line names them", p.size))
	case errors.Is(err, errNoSuffix):
		return l, v.broken(9, v.at.Seq+1, "is no ledger line, and no audit_repaired line names these bytes")
	case err != nil:
		return l, v.broken(10, v.at.Seq+1, err.Error())
	case v.lost && l.seq > v.at.Seq:
	default:
		if what := l.continues(v.at); what != "" {
			return l, v.broken(10, l.seq, what)
		}
	}
	return l, nil
}

func (v *verification) broken(invariant int, seq int64, what string) *Fault {
	return &Fault{Invariant: invariant, File: v.day.path(), Line: v.day.line, Seq: seq, What: what}
}

// count takes a line of the chain in.
func (v *verification) count(l *parsed, p piece) error {
	line := &v.shown
	*line = v.day.lineAt(p, v.at, l, string(l.sum))
	line.End.Offset = v.day.offset + int64(len(p.raw)) + 1 // its newline may be missing yet
	agent, err := v.form(line)
	if err != nil {
		v.faultHere(10, l.seq, err.Error())
	} else if err := v.look(line); err != nil {
		return err
	}
	if v.head.Seq == l.seq && v.head.Boot != "" && v.head.Checksum != line.Checksum {
		v.faultHere(10, l.seq, "the head record knows another line with this seq: lines were cut off and others written")
	}
	if err := v.copies.add(line, agent); err != nil {
		return err
	}
	v.at, v.lost, v.repaired = line.End, false, false
	v.report.Lines++
	v.report.Bytes += p.size
	v.day.step(p)
	return nil
}

// form says why a line of the chain is no entry, and whose it is.
func (v *verification) form(line *Line) (agent string, err error) {
	if !v.line.proven {
		_, err = line.checkStrictly()
	}
	agent, good := v.agents[string(line.AgentBytes())]
	if !good {
		if agent = line.Agent(); err == nil && !AgentForm().MatchString(agent) {
			err = fmt.Errorf("agent %q is no proper name", agent)
		}
	}
	if err == nil && !good {
		v.agents[agent] = agent
	}
	return agent, err
}

// look checks what the place of a line demands of it, and shows it to the visitor.
func (v *verification) look(line *Line) error {
	switch {
	case line.Event() == AuditRepaired && !v.repaired:
		v.faultHere(9, line.Seq, "names bytes that do not lie right before it, or that differ, or that count")
	case line.Event() != AuditRepaired && string(line.TS()[:len(time.DateOnly)]) > v.day.name[:len(time.DateOnly)]:
		v.faultHere(10, line.Seq, "ts is later than the file's date: it belongs to a younger file")
	}
	err := v.visit(line)
	if err == nil {
		return nil
	}
	var f *Fault
	if errors.As(err, &f) {
		v.faultHere(f.Invariant, line.Seq, f.What)
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
