package mailbox

import (
	"cmp"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
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
	Claim        string `json:"claim,omitzero"`         // into in-progress: salted hash of the token
	Root         ID     `json:"root,omitzero"`          // of a task in a delegation tree: the tree
	Spent        Budget `json:"spent,omitempty"`        // debited to the tree's budget
}

// kept names an entry of the quarantine that a line puts there.
type kept struct {
	Entry  string `json:"entry"` // in tasks/quarantine
	SHA256 string `json:"sha256"`
	Why    string `json:"why"`

	ReasonSHA256 string `json:"reason_sha256,omitzero"` // of the reason file
	Shared       bool   `json:"shared,omitzero"`        // its later bytes do not count (flushKept)
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
	Parent    ID     `json:"parent,omitzero"`     // who waits for it, while it is a child of a delegation
	Born      int64  `json:"born,omitzero"`       // the parent's epoch in which it was made
	WaitsFor  []ID   `json:"waits_for,omitempty"` // its own children
	Join      string `json:"join,omitzero"`       // how many of them
	Asked     string `json:"asked"`               // hash of what was asked: a foreign edit may not change it
}

func queueOf(t *Task) *queue {
	q := &queue{
		Target: t.Assignment.TargetAgent, Type: t.Task.Type, Priority: t.Task.Priority, Created: t.Created,
		NotBefore: t.Mbox.NotBefore, Deadline: t.Mbox.Deadline, DependsOn: t.Mbox.DependsOn, Max: t.Mbox.MaxAttempts,
		WaitsFor: t.Mbox.WaitsFor, Join: t.Mbox.Join,
	}
	if born, ok := t.born(); ok {
		q.Parent, q.Born = t.Mbox.ParentID, born
	}
	if t.Mbox.Action != nil {
		q.Action = t.Mbox.Action.Name
	}
	q.Asked = t.askedHash()
	return q
}

// askedHash covers what the sender decided: whoever moves a task by hand may
// fill in its result, but not change this. It is taken over the canonical form,
// so that another JSON writer's spacing, key order and numbers do not matter.
func (t *Task) askedHash() string {
	m := t.Mbox
	data, err := json.Marshal(struct {
		ID      ID             `json:"id"`
		Created Time           `json:"created"`
		Source  Source         `json:"source"`
		Task    Request        `json:"task"`
		Target  string         `json:"target"`
		Action  *Action        `json:"action"`
		Depends []ID           `json:"depends_on"`
		Parent  ID             `json:"parent"`
		Root    ID             `json:"root"`
		Depth   int64          `json:"depth"`
		Join    string         `json:"join"`
		Waits   []ID           `json:"waits_for"`
		Budget  Budget         `json:"budget"`
		Trigger string         `json:"trigger"`
		Key     string         `json:"key"`
		Labels  jsontext.Value `json:"labels,omitzero"`
	}{
		t.ID, t.Created, t.Source, t.Task, t.Assignment.TargetAgent, m.Action, m.DependsOn, m.ParentID, m.RootID, m.Depth,
		m.Join, m.WaitsFor, m.Budget, m.Trigger, m.IdempotencyKey, m.Labels,
	}, json.Deterministic(true))
	canonical := jsontext.Value(data)
	if err != nil || canonical.Canonicalize() != nil {
		return ""
	}
	return audit.Hash(canonical)
}

// hexName marks a drop's name that is written in hex, because it is no UTF-8.
const hexName = "hex:"

func droppedName(name string) string {
	if utf8.ValidString(name) && !strings.HasPrefix(name, hexName) {
		return name
	}
	return hexName + hex.EncodeToString([]byte(name))
}

// drop is the name that the dropped file had; "" if it had the task's.
func (m *move) drop() string {
	text, ok := strings.CutPrefix(m.Dropped, hexName)
	if name, err := hex.DecodeString(text); ok && err == nil {
		return string(name)
	}
	return m.Dropped
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
	if !e.Has("to") {
		return nil, false
	}
	m := new(move)
	if err := e.Detail(m); err != nil || m.TX == "" || e.TaskID == nil {
		return nil, false
	}
	return m, true
}

// moveIn is moveOf for a line, with its entry; nil if the line moves nothing.
func moveIn(line audit.Line) (*audit.Entry, *move) {
	if line.Detail("to") == nil {
		return nil, nil
	}
	e, err := line.Decode()
	if err != nil {
		return nil, nil // of which whoever looks for lines is told
	}
	if m, ok := moveOf(&e); ok {
		return &e, m
	}
	return nil, nil
}

// creates tells whether the line made its task.
func creates(line audit.Line) bool {
	return line.Detail("to") != nil && string(line.Detail("from")) == "null"
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
	task     *Task        // the new content; nil where no file is left
	before   string       // SHA-256 of the present file, as the ledger has it
	reason   string       // stands in the task's state_changes
	brief    string       // stands in the ledger; reason if empty. It holds no text of the work
	said     string       // the line's action, in words
	token    string       // of the lease that ends or begins
	lease    func() error // of a claim: makes its lease file
	extra    func(*move)
	keep     *keeping
	left     *leaving // of a completion: its artifacts
	spent    Budget   // debited with the line
	settled  bool     // the task's trail ends in to already
	stolen   bool     // set by commit: a stranger had moved the file to where a claim moves it
}

// endsLease tells whether the claim with the change's token is over by it: the
// task leaves in-progress, or somebody else has it there.
func (c *change) endsLease() bool {
	return c.from == InProgress && (c.to != InProgress || c.task.Mbox.Lease.Token != c.token)
}

// keeping is a foreign file that a transition puts into quarantine.
type keeping struct {
	path  string // where it lies
	entry string
	sha   string
	why   reason
	noted string // SHA-256 of the reason file

	shared bool // somebody else could still write it
}

func (c *change) line(b *Box, tx string, after string) (audit.Entry, *move) {
	m := &move{
		TX: tx, From: stateField(c.from), To: stateField(c.to), Reason: oneLine(cmp.Or(c.brief, c.reason)),
		Before: hashField(c.before), After: hashField(after), Writer: b.writer,
	}
	if t := c.task; t != nil {
		m.Revision, m.Epoch, m.Attempt = t.Mbox.Revision, t.Mbox.Epoch, t.Mbox.Attempt
		m.Root, m.Spent = t.Mbox.RootID, c.spent
		switch c.to {
		case Pending:
			m.Queue = queueOf(t)
		case InProgress:
			m.Until, m.Claim = &t.Mbox.Lease.Deadline, b.saltedHash("token", t.Mbox.Lease.Token)
		}
	}
	if c.keep != nil {
		// The whole reason, which may quote what was dropped, lies beside the bytes.
		m.Kept = &kept{Entry: c.keep.entry, SHA256: c.keep.sha, Why: oneLine(cmp.Or(c.brief, c.keep.why.Reason)), ReasonSHA256: c.keep.noted, Shared: c.keep.shared}
	}
	if c.extra != nil {
		c.extra(m)
	}
	id := string(c.id)
	return audit.Entry{
		Agent: c.by, Event: c.event, TaskID: &id, Session: b.Session(c.task), Action: c.said, Details: audit.Details(m),
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

// maxTrail bounds the trail in a task file that is given back again and again,
// in bytes. The ledger has all of it.
const maxTrail = 8 << 10

// trim drops the oldest rounds (from pending back to pending) of a long trail.
func (t *Trail) trim() {
	for t.size() > maxTrail {
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

// size is about what the trail takes in the file.
func (t *Trail) size() int {
	n := 0
	for _, c := range t.StateChanges {
		n += 200 + len(c.Reason) + len(c.By)
	}
	return n
}
