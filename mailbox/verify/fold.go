package verify

import (
	"fmt"
	"slices"
	"strings"

	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/mailbox/task"
)

// folding is what the ledger's lines add up to. Its memory grows with the
// tasks, records and quarantine entries, not with the lines.
type folding struct {
	tasks   lineages
	records map[string]*recorded
	entries map[string]*entry // of the quarantine
	now     details           // of the line at hand
}

func newFolding() folding {
	return folding{tasks: newLineages(), records: map[string]*recorded{}, entries: map[string]*entry{}}
}

// recorded is the last line of a decision or change.
type recorded struct {
	sha task.Digest
	seq int64
}

// entry is a quarantine entry that a line names.
type entry struct {
	sha     task.Digest
	regular bool // it has a hash: it is a regular file
	shared  bool // others could write it when it was put there
	seq     int64
	task    task.ID
	why     task.Digest // of its reason
	noted   bool        // the line names that hash; the first versions of mbox did not
}

// line takes a line in. If it breaks an invariant it says which, and how; the
// line counts all the same, so that one fault is not followed by more.
func (f *folding) line(e *audit.Line) (broken int, what string) {
	d := &f.now
	d.read(e)
	if d.to != nil {
		what = f.move(e, d)
		if what == "" {
			what = f.keep(e, d.kept)
		}
		return breaks(7, what)
	}
	switch {
	case len(task.Moves[e.Event()]) > 0 && e.Event() != audit.Reconcile:
		return 7, fmt.Sprintf("%s moves no task: its details have no to", e.Event())
	case d.from != nil:
		return 7, "its details have from, but no to"
	case !task.IsNumber(d.uid) || !task.IsNumber(d.pid) || !task.IsText(d.host):
		return 10, "its details do not say who wrote it (uid, pid, host)"
	}
	switch e.Event() {
	case audit.DecisionEvent, audit.ChangeEvent:
		return breaks(12, f.record(e, d))
	case audit.DelegationEvent:
		return breaks(10, d.delegation())
	case audit.TaskQuarantined, audit.TaskLateResult, audit.Reconcile:
		switch {
		case d.entry != nil:
			return breaks(13, f.enter(e, task.TextOf(d.entry), d.sha256, d.why, d.shared))
		case d.gone != nil && e.Event() == audit.Reconcile:
			return breaks(13, f.leave(task.TextOf(d.gone)))
		}
	}
	return 0, ""
}

// breaks says which invariant a line breaks, if it does.
func breaks(invariant int, what string) (int, string) {
	if what == "" {
		return 0, ""
	}
	return invariant, what
}

// move folds a line that moves a task.
func (f *folding) move(e *audit.Line, d *details) (what string) {
	id := task.ID(e.Task())
	t := f.tasks.of(id.Fold())
	d.decode()
	from, knownFrom := task.StateIn(d.from)
	to, knownTo := task.StateIn(d.to)
	epoch := task.NumberIn(d.epoch)
	switch form := d.malformed(from, to); {
	case id == "":
		return "it moves no task: task_id is null"
	case !knownFrom || !knownTo:
		what = fmt.Sprintf("it moves %s from %s to %s, and these are no states", id, d.from, d.to)
	case form != "":
		what = form
	case !task.Allowed(e.Event(), from, to, d.adopted):
		what = fmt.Sprintf("%s may not move %s from %s to %s", e.Event(), id, task.FolderName(from), task.FolderName(to))
	case t == nil && !plainID(id) && task.CheckID(id) != nil:
		what = "its task_id is none"
	case t == nil && from != task.None:
		what = fmt.Sprintf("it moves %s from %s, and no line before has put it there", id, from)
	case t != nil:
		what = t.refuses(e.Event(), id, from, epoch, d)
	}
	if t == nil {
		t = f.tasks.add(id)
	}
	t.state, t.after, t.seq, t.seen = to, d.new, e.Seq, false
	t.epoch = max(t.epoch, epoch)
	t.completed = t.completed || e.Event() == audit.TaskCompleted
	t.tx = d.id
	copy(t.month[:], e.TS())
	return what
}

// plainID spares most new ids the regular expression.
func plainID(id task.ID) bool {
	for i := range len(id) {
		if c := id[i]; c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') || i == 0 && c == '-' {
			return false
		}
	}
	return len(id) > 0 && len(id) <= 128
}

// malformed says what is missing in the details of a move.
func (d *details) malformed(from, to task.State) string {
	switch {
	case !d.hasID:
		return "its details have no tx of 32 hex digits"
	case d.from == nil || d.before == nil || d.after == nil || !task.IsText(d.reason):
		return "its details lack from, before, after or reason"
	case !task.IsNumber(d.revision) || !task.IsNumber(d.epoch) || !task.IsNumber(d.attempt):
		return "its details lack revision, epoch or attempt"
	case !task.IsNumber(d.uid) || !task.IsNumber(d.pid) || !task.IsText(d.host):
		return "its details do not say who wrote it (uid, pid, host)"
	case d.hasOld != (from != task.None), !d.hasOld && string(d.before) != "null":
		return "before is not the hash of a file, or there was none"
	case d.hasNew != (to != task.None && to != task.Pruned), !d.hasNew && string(d.after) != "null":
		return "after is not the hash of a file, or there is none"
	}
	return ""
}

// delegation says what is missing in the details of a delegation line.
func (d *details) delegation() string {
	known := func(r delegation.Decision) bool { return string(r) == task.TextOf(d.ruling) }
	switch {
	case task.TextOf(d.handedBy) == "" || task.TextOf(d.handedTo) == "":
		return "its details do not say who hands over to whom (from_agent, to_agent)"
	case !task.IsNumber(d.request):
		return "its details have no request_id"
	case !slices.ContainsFunc(delegation.Decisions, known):
		return "its decision is none of those that a delegation has"
	}
	return ""
}

// refuses says why a task cannot make the move after those before.
func (t *lineage) refuses(event audit.Event, id task.ID, from task.State, epoch int64, d *details) string {
	switch {
	case t.id != id:
		return fmt.Sprintf("%s and %s differ in case only", id, t.id)
	case from == task.None:
		return fmt.Sprintf("it makes %s, which was there already: seq %d", id, t.seq)
	case from != t.state && !(event == audit.Reconcile && d.adopted):
		return fmt.Sprintf("it moves %s from %s, but seq %d left it in %s", id, task.FolderName(from), t.seq, task.FolderName(t.state))
	case d.old != t.after && event != audit.Reconcile:
		return fmt.Sprintf("before is not the after of seq %d, the last move of %s", t.seq, id)
	case event == audit.TaskCompleted && t.completed:
		return fmt.Sprintf("%s is completed a second time", id)
	case epoch < t.epoch, epoch == t.epoch && event == audit.TaskPicked:
		return fmt.Sprintf("epoch %d of %s does not rise: it was %d", epoch, id, t.epoch)
	}
	return ""
}

// keep notes the entry that a move puts into quarantine.
func (f *folding) keep(e *audit.Line, kept []byte) string {
	if kept == nil || kept[0] != '{' {
		return ""
	}
	var name, sha, why, shared []byte
	for _, m := range audit.Members(kept, nil) {
		switch string(m.Name) {
		case "entry":
			name = m.Value
		case "sha256":
			sha = m.Value
		case "reason_sha256":
			why = m.Value
		case "shared":
			shared = m.Value
		}
	}
	return f.enter(e, task.TextOf(name), sha, why, shared)
}

func (f *folding) enter(e *audit.Line, name string, sha, why, shared []byte) string {
	if name == "" || name != strings.Map(printable, name) {
		return "it names a quarantine entry that cannot be one"
	}
	hash, regular := task.DigestIn(sha)
	if !regular && string(sha) != `""` {
		return "it names a quarantine entry without its sha256"
	}
	noted := &entry{sha: hash, regular: regular, seq: e.Seq, task: task.ID(e.Task())}
	noted.why, noted.noted = task.DigestIn(why)
	noted.shared = string(shared) == "true"
	f.entries[name] = noted
	return ""
}

// leave takes back what an earlier line said of an entry.
func (f *folding) leave(name string) string {
	if f.entries[name] == nil {
		return "it takes back a quarantine entry that no line before names"
	}
	delete(f.entries, name)
	return ""
}

// printable leaves the characters that an entry's name may have (entryName).
func printable(r rune) rune {
	if r == '/' || r < '!' || r > '~' {
		return -1
	}
	return r
}

// record folds the line of a decision or change.
func (f *folding) record(e *audit.Line, d *details) string {
	folder := "decisions/"
	if e.Event() == audit.ChangeEvent {
		folder = "changes/"
	}
	file := task.TextOf(d.file)
	name, ok := strings.CutPrefix(file, folder)
	sha, hashed := task.DigestIn(d.sha256)
	if !ok || strings.Contains(name, "/") || !strings.HasSuffix(name, ".md") || !hashed {
		return fmt.Sprintf("its details name no file %s<id>.md with its sha256", folder)
	}
	last := f.records[file]
	before, replaced := task.DigestIn(d.before)
	what := ""
	switch {
	case last == nil && replaced:
		what = fmt.Sprintf("it replaces %s, which has no line before", file)
	case last != nil && before != last.sha:
		what = fmt.Sprintf("before is not the hash of %s that seq %d recorded", file, last.seq)
	}
	f.records[file] = &recorded{sha: sha, seq: e.Seq}
	return what
}
