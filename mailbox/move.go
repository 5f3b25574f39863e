package mailbox

import (
	"cmp"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/schemas"
)

// move is the details of a ledger line that moves a task: everything that is
// needed to bring the tree in line with it, so that recovery needs no more than
// the line and the staged file. The fields behind Writer are optional.
type move struct {
	TX       string  `json:"tx"`
	From     *State  `json:"from"`
	To       *State  `json:"to"`
	Revision int64   `json:"revision"`
	Epoch    int64   `json:"epoch"`
	Attempt  int64   `json:"attempt"`
	Reason   string  `json:"reason"`
	Before   *string `json:"before"` // SHA-256 of the task file before
	After    *string `json:"after"`  // and after
	audit.Writer

	SourceSHA256 string `json:"source_sha256,omitzero"` // admission: of the dropped bytes
	Dropped      string `json:"dropped,omitzero"`       // admission: the drop's name, where it is not <id>.json
	Found        string `json:"found,omitzero"`         // reconcile: SHA-256 of what a stranger left in the place
	Adopted      bool   `json:"adopted,omitzero"`       // reconcile: an operator said so
	Kept         *kept  `json:"kept,omitzero"`          // bytes that this transition puts into quarantine
	Queue        *queue `json:"queue,omitzero"`         // into pending: what decides who takes it and when
	Until        *Time  `json:"until,omitzero"`         // into in-progress: the lease's deadline
	Request      string `json:"request,omitzero"`       // salted hash of verb, token and content, so that a repeated verb is known
	Key          string `json:"key,omitzero"`           // salted hash of the idempotency key
}

// kept names an entry of the quarantine that a line puts there.
type kept struct {
	Entry  string `json:"entry"` // in tasks/quarantine
	SHA256 string `json:"sha256"`
	Why    string `json:"why"`
}

// queue is what claims are decided by: the envelope, never the content. Because
// every line into pending carries it, folding the ledger gives the queue
// without reading a task file.
type queue struct {
	Target    string `json:"target"`
	Type      string `json:"type"`
	Action    string `json:"action,omitzero"`
	Priority  string `json:"priority"`
	Created   Time   `json:"created"`
	NotBefore *Time  `json:"not_before,omitzero"`
	Deadline  *Time  `json:"deadline,omitzero"`
	DependsOn []ID   `json:"depends_on,omitempty"`
	Max       int64  `json:"max_attempts,omitzero"`
	Asked     string `json:"asked"` // hash of what was asked: a foreign edit may not change it
}

func queueOf(t *Task) *queue {
	q := &queue{
		Target: t.Assignment.TargetAgent, Type: t.Task.Type, Priority: t.Task.Priority, Created: t.Created,
		NotBefore: t.Mbox.NotBefore, Deadline: t.Mbox.Deadline, DependsOn: t.Mbox.DependsOn, Max: t.Mbox.MaxAttempts,
	}
	if t.Mbox.Action != nil {
		q.Action = t.Mbox.Action.Name
	}
	q.Asked = t.askedHash()
	return q
}

// askedHash covers what the sender decided: whoever moves a task by hand may
// fill in its result, but not change this.
func (t *Task) askedHash() string {
	data, err := schemas.Encode(struct {
		ID      ID             `json:"id"`
		Created Time           `json:"created"`
		Source  Source         `json:"source"`
		Task    Request        `json:"task"`
		Target  string         `json:"target"`
		Action  *Action        `json:"action"`
		Depends []ID           `json:"depends_on"`
		Parent  ID             `json:"parent"`
		Labels  jsontext.Value `json:"labels,omitzero"`
	}{t.ID, t.Created, t.Source, t.Task, t.Assignment.TargetAgent, t.Mbox.Action, t.Mbox.DependsOn, t.Mbox.ParentID, t.Mbox.Labels})
	if err != nil {
		return ""
	}
	return audit.Hash(data)
}

func (m *move) from() State { return stateOf(m.From) }
func (m *move) to() State   { return stateOf(m.To) }

func stateOf(s *State) State {
	if s == nil {
		return None
	}
	return *s
}

func stateField(s State) *State {
	if s == None {
		return nil
	}
	return &s
}

func hashField(h string) *string {
	if h == "" {
		return nil
	}
	return &h
}

func hashOf(h *string) string {
	if h == nil {
		return ""
	}
	return *h
}

// moveOf decodes the move of a ledger line; false if the line moves nothing.
func moveOf(e *audit.Entry) (*move, bool) {
	if !strings.Contains(string(e.Details), `"to":`) {
		return nil, false
	}
	m := new(move)
	if err := e.Detail(m); err != nil || m.TX == "" || e.TaskID == nil {
		return nil, false
	}
	return m, true
}

// oneLine makes text fit for a reason: one line, no control characters, short.
func oneLine(text string) string {
	return schemas.Sentence(strings.Join(strings.Fields(text), " "), MaxReason)
}

// change is a decided transition that has not happened yet. The decision is
// made under the shard's lock, from what was read there.
type change struct {
	id       ID
	by       string
	event    audit.Event
	from, to State
	task     *Task  // the new content; nil where no file is left
	before   string // SHA-256 of the present file, as the ledger has it
	reason   string // stands in the task's state_changes
	brief    string // stands in the ledger; reason if empty. It holds no text of the work
	said     string // the line's action, in words
	token    string // of the lease that ends or begins
	extra    func(*move)
	keep     *keeping
	settled  bool // the task's trail ends in to already
	stolen   bool // set by commit: a stranger had moved the file to where a claim moves it
}

// keeping is a foreign file that a transition puts into quarantine.
type keeping struct {
	path  string // where it lies
	entry string
	sha   string
	why   reason
}

func (c *change) line(b *Box, tx string, after string) (audit.Entry, *move) {
	m := &move{
		TX: tx, From: stateField(c.from), To: stateField(c.to), Reason: oneLine(cmp.Or(c.brief, c.reason)),
		Before: hashField(c.before), After: hashField(after), Writer: b.writer,
	}
	if t := c.task; t != nil {
		m.Revision, m.Epoch, m.Attempt = t.Mbox.Revision, t.Mbox.Epoch, t.Mbox.Attempt
		switch c.to {
		case Pending:
			m.Queue = queueOf(t)
		case InProgress:
			m.Until = &t.Mbox.Lease.Deadline
		}
	}
	if c.keep != nil {
		m.Kept = &kept{Entry: c.keep.entry, SHA256: c.keep.sha, Why: c.keep.why.Reason}
	}
	if c.extra != nil {
		c.extra(m)
	}
	id := string(c.id)
	return audit.Entry{
		Agent: c.by, Event: c.event, TaskID: &id, Session: b.session(c.task), Action: c.said, Details: audit.Details(m),
	}, m
}

// stamp brings the parts of the task that follow the state up to date.
func (c *change) stamp(tx string, now time.Time) {
	t := c.task
	at := At(now)
	t.Updated = at
	t.Mbox.TX = tx
	t.Mbox.Revision++
	if c.to != Archived {
		t.Result.Status = c.to
	}
	if c.from != c.to && c.from != None && c.to != Archived && !c.settled || c.event == audit.TaskRejected {
		from := c.from
		if from == None {
			from = Pending
		}
		t.Audit.StateChanges = append(t.Audit.StateChanges, StateChange{From: from, To: c.to, By: c.by, At: at, Reason: stateReason(c.reason)})
		t.Audit.trim()
	}
	if c.to == Pending {
		t.Assignment.PickedUpBy, t.Assignment.PickedUpAt = nil, nil
		t.Mbox.Lease, t.Mbox.Progress = nil, nil
		t.Result.Output, t.Result.Artifacts, t.Result.Error = nil, []Artifact{}, nil
	}
}

// stateReason is never empty: a state change always says why.
func stateReason(why string) string {
	if why = oneLine(why); why == "" {
		return "no reason given"
	}
	return why
}

// maxStateChanges bounds a task file that is given back again and again. The
// ledger has them all.
const maxStateChanges = 400

// trim drops the oldest rounds (from pending back to pending) of a long trail.
func (t *Trail) trim() {
	for len(t.StateChanges) > maxStateChanges {
		cut := 1
		for cut < len(t.StateChanges) && t.StateChanges[cut].From != Pending {
			cut++
		}
		if cut == len(t.StateChanges) {
			return
		}
		t.StateChanges = t.StateChanges[cut:]
	}
}
