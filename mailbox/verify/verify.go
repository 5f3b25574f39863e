// Package verify tells whether the tree of a mailbox is what the lines of its ledger
// add up to. It writes nothing.
//
// All goes one way. Each line of the ledger is proven, and folded into what it says
// of a task, a record or a quarantine entry (fold.go). Then each file is looked at
// once, on all cores and without a lock (tree.go, task.go, files.go). Everything may
// be at work meanwhile, so what does not look right is a doubt: it is looked at again
// with nobody at it (doubt.go), and what is wrong then is a finding.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"mbox/audit"
	chain "mbox/audit/verify"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// Options of Home. The zero value is the default.
type Options struct {
	LedgerOnly bool                    // only what the ledger and its copies say of themselves
	Deep       bool                    // decode every task again, though the ledger confirms its bytes
	Wait       time.Duration           // for any lock; 10 s if zero
	Progress   func(done, total int64) // called now and then: bytes of the ledger, then tasks
}

// Report says what Home has read and what it found.
type Report struct {
	Lines     int64     `json:"lines"`
	Tasks     int64     `json:"tasks"`
	Records   int64     `json:"records"` // decisions, changes and messages
	Bytes     int64     `json:"bytes"`   // of the ledger
	Seq       int64     `json:"seq"`
	Checksum  string    `json:"checksum"` // of the last line: whoever keeps it can later prove a rollback
	Findings  []Finding `json:"faults"`
	Notes     []string  `json:"notes"`         // what is no fault: the next command sees to it
	Truncated bool      `json:"truncated"`     // there are more than chain.MaxFaults
	Gone      string    `json:"gone,omitzero"` // why the mailbox has stopped, or will, until tasks are back: see ErrGone
}

// Finding is one invariant that does not hold at one place. The invariants:
//
//	 1  an id, whatever its case, is in exactly one folder
//	 2  the file's name is the task's id, and the file is a valid task
//	 3  result.status is the folder; of an archived task, completed or failed
//	 4  completed has a result, a claimant and a token; failed has an error;
//	    in-progress has a claimant and a token; pending has none of these
//	 5  audit.state_changes is a path of the automaton from pending to the folder
//	 6  mbox.tx and the file's SHA-256 are those of the id's last move
//	 7  an id's lines are moves that their events make, each from where the one
//	    before led, and lead to the folder; it is completed at most once, and its
//	    epoch rises with each claim
//	 8  every file has lines, and every id with lines has its file
//	 9  every byte of the ledger belongs to a line or to a repaired range
//	10  checksum, canonical form, fields, prev, and seq without gaps
//	11  each agent's copy holds the first of its lines, as many as it was noted to hold
//	12  decisions, changes and messages have the bytes that their last line recorded
//	13  no staged file, lease or quarantine entry without what explains it, and
//	    no quarantine entry lost
//	14  modes, kinds and links of files, one device, nothing missing
//	15  artifacts have the bytes that their task names, and nothing lies among them
type Finding struct {
	Invariant int     `json:"invariant"`
	File      string  `json:"file"`          // path from the home
	Line      int     `json:"line,omitzero"` // of a ledger file, from 1
	Seq       int64   `json:"seq,omitzero"`  // the ledger line that is broken, or that the file contradicts
	Task      task.ID `json:"task,omitzero"`
	What      string  `json:"what"`
}

// String is the place and what is wrong there:
//
//	audit/shared/2026-02-16.jsonl:12: seq 12: checksum does not match
func (f Finding) String() string {
	return chain.Fault{File: f.File, Line: f.Line, Seq: f.Seq, What: f.What}.String()
}

// What is said of files that mbox knows nothing of.
const (
	noLineKnows = "no ledger line knows it"
	noLineNames = "no ledger line names it"
	noEntry     = "is the reason of an entry that is not there"
	noArtifacts = "is no folder of a task's artifacts"
	noArtifact  = "lies among a task's artifacts, and the task does not name it"
	noFolder    = "not a folder"
)

// Strange tells whether the finding is a file that mbox knows nothing of. It takes
// none away, and none is missing: a person moves it out of the home.
func (f Finding) Strange() bool {
	return slices.Contains([]string{noLineKnows, noLineNames, noEntry, noArtifacts, noArtifact}, f.What) || strings.HasPrefix(f.What, chain.NoDay) || strings.HasSuffix(f.What, noFolder)
}

// Missing tells whether the finding is a task whose file is not there.
func (f Finding) Missing() bool { return f.Invariant == 8 && strings.HasPrefix(f.What, fileGone) }

const fileGone = "the file is gone"

// Second tells whether the finding is one more file of a task that lies where it should.
func (f Finding) Second() bool { return strings.HasPrefix(f.What, secondFile) }

const secondFile = "a second file of task "

// Linked tells whether the finding is a file with more than one name.
func (f Finding) Linked() bool { return strings.HasSuffix(f.What, linked) }

const linked = "names (hard links): what is written by another one changes it"

// Home checks the whole mailbox: every hash of the ledger, its chain, its
// copies, and that the tree is what the ledger's lines add up to. It writes
// nothing, and everything may be at work meanwhile: what looks wrong is looked
// at again under its lock, with the ledger read to its end, and a transition
// that a process died in is a note when what lies there is consistent with it.
//
// The report's first finding is the first bad line of the ledger, if there is
// one. The error is for what could not be checked: ErrNoMailbox, ErrFormat, an
// I/O error, or ErrBusy where something looked wrong and its lock was not had.
// A task whose bytes the ledger confirms is what a mailbox wrote, and is decoded
// once more only for its artifacts, or with Deep.
// Memory grows with the tasks, not with the ledger's lines.
func Home(ctx context.Context, dir string, o Options) (Report, error) {
	v, err := open(ctx, dir, o)
	if err != nil {
		return Report{}, err
	}
	defer v.close()
	steps := []func() error{v.awaitRecovery, v.prove}
	if !o.LedgerOnly {
		steps = append(steps, v.missing, v.lastRecovery, v.walk, v.suspects, v.verdicts, v.interruptions, v.waiting)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return v.r, err
		}
	}
	return v.finish(), nil
}

// run is one look at a home.
type run struct {
	ctx     context.Context
	o       Options
	dir     string // of the home
	id      string // of the mailbox
	device  uint64 // on which the home is
	ledger  *audit.Ledger
	intents *home.Intents

	fold   fold
	behind *audit.Reader // reads what is appended after the ledger was proven
	r      Report
	due    bool  // the next command recovers everything first
	total  int64 // tasks whose files should be there

	mu     sync.Mutex          // guards r and what follows, while files are looked at on all cores
	dirs   []string            // that are to be visited
	drops  []string            // files in pending that no line knows
	strays map[string][]string // by folded id: tasks that look wrong, and their files where none should be
	doubts map[string]bool     // files that look wrong by themselves, named from the home
}

func open(ctx context.Context, dir string, o Options) (*run, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	is, err := home.Present(dir)
	lost := errors.Is(err, home.ErrLost)
	if lost {
		is.MailboxID, err = audit.Identity(dir, "")
	}
	if err != nil && !lost {
		return nil, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	ledger, err := audit.Open(dir, is.MailboxID, audit.Options{Mode: durable.None, Looks: true})
	if err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	o.Wait = cmp.Or(o.Wait, 10*time.Second)
	v := &run{
		ctx: ctx, o: o, dir: dir, id: is.MailboxID, device: uint64(durable.StatOf(info).Dev), ledger: ledger, intents: home.NewIntents(dir, os.O_RDONLY),
		fold: newFold(), strays: map[string][]string{}, doubts: map[string]bool{},
	}
	if lost {
		v.find(14, ".mbox/VERSION", "is missing or damaged; mbox recover makes it anew")
	}
	return v, nil
}

func (v *run) close() {
	if v.behind != nil {
		v.behind.Close()
	}
	v.intents.Close()
	v.ledger.Close()
}

func (v *run) path(file string) string { return filepath.Join(v.dir, filepath.FromSlash(file)) }

// there tells whether anything has this name.
func (v *run) there(file string) (bool, error) {
	_, err := os.Lstat(v.path(file))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (v *run) find(invariant int, file, what string) {
	v.add(Finding{Invariant: invariant, File: file, What: what})
}

func (v *run) add(all ...Finding) {
	n := min(len(all), chain.MaxFaults-len(v.r.Findings))
	v.r.Findings = append(v.r.Findings, all[:n]...)
	v.r.Truncated = v.r.Truncated || n < len(all)
}

func (v *run) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	v.mu.Lock()
	defer v.mu.Unlock()
	if !slices.Contains(v.r.Notes, text) {
		v.r.Notes = append(v.r.Notes, text)
	}
}

// prove proves the ledger and folds it.
func (v *run) prove() error {
	proof, err := chain.Open(v.ctx, v.dir, v.id, chain.Options{Progress: v.o.Progress, Wait: v.wait(), InFlight: v.inFlight})
	if err != nil {
		return err
	}
	defer proof.Close()
	for line, err := range proof.Lines() {
		if err != nil {
			return err
		}
		if line.Seq == 1 {
			v.forgotten(line)
		}
		if broken, what := v.fold.line(line); what != "" {
			proof.Fault(broken, what)
		}
	}
	r, err := proof.Finish()
	if err != nil {
		return err
	}
	v.r.Lines, v.r.Bytes, v.r.Seq, v.r.Checksum = r.Lines, r.Bytes, r.End.Seq, r.End.Checksum
	v.r.Notes, v.r.Truncated = append(v.r.Notes, r.Notes...), r.Truncated
	for _, f := range r.Faults {
		v.add(Finding{f.Invariant, f.File, f.Line, f.Seq, task.ID(f.Task), f.What})
	}
	v.behind = v.ledger.Read(r.End)
	why, err := v.ledger.Outdated()
	if why != "" {
		v.add(Finding{Invariant: 10, File: "audit/shared", Seq: r.End.Seq + 1, What: why})
	}
	if _, is := durable.Obstacle(err); is {
		return nil // its shape tells of it
	}
	return err
}

// forgotten notes, for ever, that this is not the mailbox's first ledger.
func (v *run) forgotten(line *audit.Line) {
	last := audit.MembersOf(line.Detail("forgotten"), nil)
	if sum := last.Text("checksum"); sum != "" {
		v.note("the ledger begins anew on %s: the one before was given up, its last known line is seq %d, %s", line.TS(), task.NumberIn(last.Get("seq")), sum)
	}
}

// advance folds what was appended meanwhile, so that a second look compares the
// tree with all that is written.
func (v *run) advance() error {
	for {
		line, err := v.behind.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, audit.ErrMoved) {
			return nil
		}
		if err != nil {
			return err
		}
		f := Finding{Invariant: 10, File: "audit/shared/" + line.At.File, Seq: line.Seq}
		if err := line.Sound(); err != nil {
			f.What = err.Error()
		} else {
			f.Task = task.ID(line.Task())
			f.Invariant, f.What = v.fold.line(&line)
		}
		if f.What != "" {
			v.add(f)
		}
	}
}

// finish sorts the findings: those of the ledger stay in its order and come first.
func (v *run) finish() Report {
	ofLedger := func(f Finding) int {
		if strings.HasPrefix(f.File, "audit/shared") {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(v.r.Findings, func(a, b Finding) int {
		if c := cmp.Compare(ofLedger(a), ofLedger(b)); c != 0 || ofLedger(a) == 0 {
			return c
		}
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Invariant, b.Invariant))
	})
	v.r.Findings = append([]Finding{}, slices.Compact(v.r.Findings)...) // [] and not null in JSON
	v.r.Notes = append([]string{}, v.r.Notes...)
	return v.r
}
