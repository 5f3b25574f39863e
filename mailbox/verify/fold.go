package verify

import (
	"fmt"
	"slices"
	"strings"

	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/mailbox/channel"
	"mbox/mailbox/task"
)

// fold is what the ledger's lines add up to. Its memory grows with the tasks,
// records and quarantine entries, not with the lines.
type fold struct {
	tasks map[string]*history // by folded id
	files map[string]*kept    // records and quarantine entries, by their paths from the home
}

func newFold() fold { return fold{map[string]*history{}, map[string]*kept{}} }

// history is what the ledger says of one task in the end.
type history struct {
	id        task.ID
	state     task.State // the folder; none or pruned where no file is left
	after     task.Digest
	tx        [16]byte
	seq       int64   // of its last move
	epoch     int64   // the highest
	month     [7]byte // of its last move: the folder of an archived task
	completed bool    // it has a task_completed line
	attached  bool    // files came with it
	seen      bool    // its file is as it should be
}

// file is where the task's file should lie, from the home; "" if there should be none.
func (t *history) file() string {
	switch t.state {
	case task.None, task.Pruned:
		return ""
	case task.Archived:
		return archive + "/" + string(t.month[:]) + "/" + t.id.File()
	}
	return "tasks/" + string(t.state) + "/" + t.id.File()
}

// kept is what the last line says of a record, or of an entry of the quarantine.
type kept struct {
	sha, why task.Digest // of the file, and of an entry's reason
	hashed   bool        // it has a hash: it is a regular file
	noted    bool        // the line names the hash of the reason; the first versions of mbox did not
	shared   bool        // others could write it when it was put there
	seen     bool        // something has the name
	seq      int64
	task     task.ID
}

func numbers(d audit.Members, names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !task.IsNumber(d.Get(name)) })
}

const unsigned = "its details do not say who wrote it (uid, pid, host)"

// signed tells whether a line with these details says who wrote it.
func signed(d audit.Members) bool { return numbers(d, "uid", "pid") && task.IsText(d.Get("host")) }

// line takes a line in. If it breaks an invariant it says which, and how; the
// line counts all the same, so that one fault is not followed by more.
func (f *fold) line(e *audit.Line) (invariant int, what string) {
	d, event := e.Members(), e.Event()
	switch {
	case d.Get("to") != nil:
		what = f.move(e, d)
		if kept := d.Get("kept"); what == "" && len(kept) > 0 && kept[0] == '{' {
			what = f.enter(e, audit.MembersOf(kept, nil))
		}
		return 7, what
	case len(task.Moves[event]) > 0 && event != audit.Reconcile:
		return 7, fmt.Sprintf("%s moves no task: its details have no to", event)
	case d.Get("from") != nil:
		return 7, "its details have from, but no to"
	case !signed(d):
		return 10, unsigned
	}
	switch event {
	case audit.DecisionEvent:
		return 12, f.record(e, d, "decisions/", ".md")
	case audit.ChangeEvent:
		return 12, f.record(e, d, "changes/", ".md")
	case audit.MessageEvent:
		return 12, f.message(e, d)
	case audit.DelegationEvent:
		return 10, handedOver(d)
	case audit.TaskQuarantined, audit.TaskLateResult, audit.Reconcile:
		if d.Get("entry") != nil {
			return 13, f.enter(e, d)
		}
		if d.Get("gone") != nil && event == audit.Reconcile {
			return 13, f.leave(d.Text("gone"))
		}
	}
	return 0, ""
}

// step is the move that a line makes.
type step struct {
	event             audit.Event
	id                task.ID
	from, to          task.State
	known             bool // both are states
	before, after     task.Digest
	hadBytes, hasByte bool // these are hashes
	tx                [16]byte
	hasTX             bool
	epoch             int64
	adopted           bool
}

func stepOf(e *audit.Line, d audit.Members) step {
	s := step{event: e.Event(), id: task.ID(e.Task()), epoch: task.NumberIn(d.Get("epoch")), adopted: string(d.Get("adopted")) == "true"}
	var from, to bool
	s.from, from = task.StateIn(d.Get("from"))
	s.to, to = task.StateIn(d.Get("to"))
	s.known = from && to
	s.before, s.hadBytes = task.DigestIn(d.Get("before"))
	s.after, s.hasByte = task.DigestIn(d.Get("after"))
	s.tx, s.hasTX = task.TxIn(d.Get("tx"))
	return s
}

// move folds a line that moves a task.
func (f *fold) move(e *audit.Line, d audit.Members) (what string) {
	s := stepOf(e, d)
	if s.id == "" {
		return "it moves no task: task_id is null"
	}
	key := s.id.Fold()
	t := f.tasks[key]
	form := s.malformed(d)
	switch {
	case form != "":
		what = form
	case !task.Allowed(s.event, s.from, s.to, s.adopted):
		what = fmt.Sprintf("%s may not move %s from %s to %s", s.event, s.id, task.FolderName(s.from), task.FolderName(s.to))
	case t != nil:
		what = t.refuses(s)
	case task.CheckID(s.id) != nil:
		what = "its task_id is none"
	case s.from != task.None:
		what = fmt.Sprintf("it moves %s from %s, and no line before has put it there", s.id, s.from)
	}
	if t == nil {
		t = &history{id: s.id}
		f.tasks[key] = t
	}
	t.state, t.after, t.tx, t.seq, t.seen = s.to, s.after, s.tx, e.Seq, false
	t.epoch = max(t.epoch, s.epoch)
	t.completed = t.completed || s.event == audit.TaskCompleted
	t.attached = t.attached || d.Get("attachments") != nil
	copy(t.month[:], e.TS())
	return what
}

// malformed says what is missing in the details of a move.
func (s *step) malformed(d audit.Members) string {
	before, after := d.Get("before"), d.Get("after")
	switch {
	case !s.known:
		return fmt.Sprintf("it moves %s from %s to %s, and these are no states", s.id, d.Get("from"), d.Get("to"))
	case !s.hasTX:
		return "its details have no tx of 32 hex digits"
	case d.Get("from") == nil || before == nil || after == nil || !task.IsText(d.Get("reason")):
		return "its details lack from, before, after or reason"
	case !numbers(d, "revision", "epoch", "attempt"):
		return "its details lack revision, epoch or attempt"
	case !signed(d):
		return unsigned
	case s.hadBytes != (s.from != task.None), !s.hadBytes && string(before) != "null":
		return "before is not the hash of a file, or there was none"
	case s.hasByte != (s.to != task.None && s.to != task.Pruned), !s.hasByte && string(after) != "null":
		return "after is not the hash of a file, or there is none"
	}
	return ""
}

// refuses says why a task cannot make the move after those before.
func (t *history) refuses(s step) string {
	reconciled := s.event == audit.Reconcile
	switch {
	case t.id != s.id:
		return fmt.Sprintf("%s and %s differ in case only", s.id, t.id)
	case s.from == task.None:
		return fmt.Sprintf("it makes %s, which was there already: seq %d", s.id, t.seq)
	case s.from != t.state && !(reconciled && s.adopted):
		return fmt.Sprintf("it moves %s from %s, but seq %d left it in %s", s.id, task.FolderName(s.from), t.seq, task.FolderName(t.state))
	case s.before != t.after && !reconciled:
		return fmt.Sprintf("before is not the after of seq %d, the last move of %s", t.seq, s.id)
	case s.event == audit.TaskCompleted && t.completed:
		return fmt.Sprintf("%s is completed a second time", s.id)
	case s.epoch < t.epoch, s.epoch == t.epoch && s.event == audit.TaskPicked:
		return fmt.Sprintf("epoch %d of %s does not rise: it was %d", s.epoch, s.id, t.epoch)
	}
	return ""
}

// handedOver says what is missing in the details of a delegation line.
func handedOver(d audit.Members) string {
	switch {
	case d.Text("from_agent") == "" || d.Text("to_agent") == "":
		return "its details do not say who hands over to whom (from_agent, to_agent)"
	case !numbers(d, "request_id"):
		return "its details have no request_id"
	case !slices.Contains(delegation.Decisions, delegation.Decision(d.Text("decision"))):
		return "its decision is none of those that a delegation has"
	}
	return ""
}

// enter notes an entry that a line puts into quarantine.
func (f *fold) enter(e *audit.Line, d audit.Members) string {
	name, sha := d.Text("entry"), d.Get("sha256")
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r < '!' || r > '~' }) {
		return "it names a quarantine entry that cannot be one"
	}
	k := &kept{seq: e.Seq, task: task.ID(e.Task()), shared: string(d.Get("shared")) == "true"}
	k.sha, k.hashed = task.DigestIn(sha)
	k.why, k.noted = task.DigestIn(d.Get("reason_sha256"))
	if !k.hashed && string(sha) != `""` {
		return "it names a quarantine entry without its sha256"
	}
	f.files[quarantine+"/"+name] = k
	return ""
}

// leave takes back what an earlier line said of an entry.
func (f *fold) leave(name string) string {
	file := quarantine + "/" + name
	if f.files[file] == nil {
		return "it takes back a quarantine entry that no line before names"
	}
	delete(f.files, file)
	return ""
}

// message folds the line of a message, which is never replaced.
func (f *fold) message(e *audit.Line, d audit.Members) string {
	if d.Get("before") != nil {
		return "it replaces a message, and none is ever replaced"
	}
	return f.record(e, d, channel.Folder(d.Text("channel"))+"/", ".json")
}

// record folds the line of a record.
func (f *fold) record(e *audit.Line, d audit.Members, folder, suffix string) (what string) {
	file := d.Text("file")
	name, ok := strings.CutPrefix(file, folder)
	sha, hashed := task.DigestIn(d.Get("sha256"))
	if !ok || strings.Contains(name, "/") || !strings.HasSuffix(name, suffix) || !hashed {
		return fmt.Sprintf("its details name no file %s<id>%s with its sha256", folder, suffix)
	}
	last := f.files[file]
	before, replaced := task.DigestIn(d.Get("before"))
	switch {
	case last == nil && replaced:
		what = fmt.Sprintf("it replaces %s, which has no line before", file)
	case last != nil && before != last.sha:
		what = fmt.Sprintf("before is not the hash of %s that seq %d recorded", file, last.seq)
	}
	f.files[file] = &kept{sha: sha, hashed: true, seq: e.Seq}
	return what
}
