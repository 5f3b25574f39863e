package task

import (
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/schemas"
)

// Move is the details of a ledger line that moves a task: everything that is
// needed to bring the tree in line with it, so that recovery needs no more than
// the line and the staged file. The fields behind Writer are optional.
type Move struct {
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

	SourceSHA256 string    `json:"source_sha256,omitzero"` // admission: of the dropped bytes
	Dropped      string    `json:"dropped,omitzero"`       // admission: the drop's name, where it is not <id>.json
	Found        string    `json:"found,omitzero"`         // reconcile: SHA-256 of what a stranger left in the place
	Adopted      bool      `json:"adopted,omitzero"`       // reconcile: an operator said so
	Kept         *Kept     `json:"kept,omitzero"`          // bytes that this transition puts into quarantine
	Queue        *Envelope `json:"queue,omitzero"`         // into pending: what decides who takes it and when
	Until        *Time     `json:"until,omitzero"`         // into in-progress: the lease's deadline
	Request      string    `json:"request,omitzero"`       // salted hash of verb, token and content, so that a repeated verb is known
	Key          string    `json:"key,omitzero"`           // salted hash of the idempotency key
	Claim        string    `json:"claim,omitzero"`         // into in-progress: salted hash of the token
	Root         ID        `json:"root,omitzero"`          // of a task in a delegation tree: the tree
	Spent        Budget    `json:"spent,omitempty"`        // debited to the tree's budget
	Checks       []string  `json:"checks,omitempty"`       // completion: what the result has passed
	Fields       []string  `json:"fields,omitempty"`       // of an edit: JSON paths of what was changed; Queue has what of that decides claims

	Attachments []Attachment `json:"attachments,omitempty"` // into pending for the first time: what came with it
}

// Kept names an entry of the quarantine that a line puts there.
type Kept struct {
	Entry  string `json:"entry"` // in tasks/quarantine
	SHA256 string `json:"sha256"`
	Why    string `json:"why"`

	ReasonSHA256 string `json:"reason_sha256,omitzero"` // of the reason file
	Shared       bool   `json:"shared,omitzero"`        // its later bytes do not count (flushKept)
}

// Envelope is what claims are decided by: the envelope, never the content. Because
// every line into pending carries it, folding the ledger gives the queue
// without reading a task file.
type Envelope struct {
	Target    string   `json:"target"`
	Type      string   `json:"type"`
	Action    string   `json:"action,omitzero"`
	Priority  string   `json:"priority"`
	Created   Time     `json:"created"`
	NotBefore *Time    `json:"not_before,omitzero"`
	Deadline  *Time    `json:"deadline,omitzero"`
	DependsOn []ID     `json:"depends_on,omitempty"`
	Max       int64    `json:"max_attempts,omitzero"`
	Parent    ID       `json:"parent,omitzero"`     // who waits for it, while it is a child of a delegation
	Born      int64    `json:"born,omitzero"`       // the parent's epoch in which it was made
	WaitsFor  []ID     `json:"waits_for,omitempty"` // its own children
	Join      string   `json:"join,omitzero"`       // how many of them
	Paths     []string `json:"paths,omitempty"`     // no other task in progress may have one of them
	Asked     string   `json:"asked"`               // hash of what was asked: a foreign edit may not change it
}

// EnvelopeOf is what a claim has to know of the task.
func EnvelopeOf(t *Task) *Envelope {
	q := &Envelope{
		Target: t.Assignment.TargetAgent, Type: t.Task.Type, Priority: t.Task.Priority, Created: t.Created,
		NotBefore: t.Mbox.NotBefore, Deadline: t.Mbox.Deadline, DependsOn: t.Mbox.DependsOn, Max: t.Mbox.MaxAttempts,
		WaitsFor: t.Mbox.WaitsFor, Join: t.Mbox.Join, Paths: t.Mbox.Paths,
	}
	if born, ok := t.Born(); ok {
		q.Parent, q.Born = t.Mbox.ParentID, born
	}
	if t.Mbox.Action != nil {
		q.Action = t.Mbox.Action.Name
	}
	q.Asked = t.AskedHash()
	return q
}

// AskedHash covers what the sender decided: whoever moves a task by hand may
// fill in its result, but not change this. It is taken over the canonical form,
// so that another JSON writer's spacing, key order and numbers do not matter.
func (t *Task) AskedHash() string {
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
		Accept  []string       `json:"accept,omitempty"`
		Output  bool           `json:"expect_output,omitzero"`
		Files   []Attachment   `json:"attachments,omitempty"`
		Paths   []string       `json:"paths,omitempty"`
	}{
		t.ID, t.Created, t.Source, t.Task, t.Assignment.TargetAgent, m.Action, m.DependsOn, m.ParentID, m.RootID, m.Depth,
		m.Join, m.WaitsFor, m.Budget, m.Trigger, m.IdempotencyKey, m.Labels, m.Accept, m.ExpectOutput, m.Attachments,
		m.Paths,
	}, json.Deterministic(true))
	canonical := jsontext.Value(data)
	if err != nil || canonical.Canonicalize() != nil {
		return ""
	}
	return audit.Hash(canonical)
}

// hexName marks a drop's name that is written in hex, because it is no UTF-8.
const hexName = "hex:"

// DroppedName is a file name as [Move].Dropped has it.
func DroppedName(name string) string {
	if utf8.ValidString(name) && !strings.HasPrefix(name, hexName) {
		return name
	}
	return hexName + hex.EncodeToString([]byte(name))
}

// DropName is the name that the dropped file had; "" if it had the task's.
func (m *Move) DropName() string {
	text, ok := strings.CutPrefix(m.Dropped, hexName)
	if name, err := hex.DecodeString(text); ok && err == nil {
		return string(name)
	}
	return m.Dropped
}

// Leaves is the state that the task was in before.
func (m *Move) Leaves() State { return textOf(m.From) }

// Enters is the state that the task is in after it.
func (m *Move) Enters() State { return textOf(m.To) }

// Replaces tells whether these bytes are what lay there before it.
func (m *Move) Replaces(hash string) bool {
	return hash != "" && (hash == HashOf(m.Before) || hash == m.SourceSHA256 || hash == m.Found)
}

// HashOf is the reverse of [Field].
func HashOf(h *string) string { return textOf(h) }

func textOf[T ~string](field *T) T {
	if field == nil {
		return ""
	}
	return *field
}

// Field is nil for "", as for [None].
func Field[T ~string](text T) *T {
	if text == "" {
		return nil
	}
	return &text
}

// MoveOf decodes the move of a ledger line; false if the line moves nothing.
func MoveOf(e *audit.Entry) (*Move, bool) {
	if audit.MembersOf(e.Details, nil).Get("to") == nil {
		return nil, false
	}
	m := new(Move)
	if err := e.Detail(m); err != nil || m.TX == "" || e.TaskID == nil {
		return nil, false
	}
	return m, true
}

// SaysGone tells whether the line is an alarm that a task's file, or what it held,
// is gone.
func SaysGone(line audit.Line) bool {
	kind := line.Text("alarm")
	return line.Event() == audit.ErrorEvent && line.Task() != "" && (kind == "lost" || kind == "missing")
}

// MoveIn is moveOf for a line, with its entry; nil if the line moves nothing.
func MoveIn(line audit.Line) (*audit.Entry, *Move) {
	if line.Detail("to") == nil {
		return nil, nil
	}
	e, err := line.Decode()
	if err != nil {
		return nil, nil // of which whoever looks for lines is told
	}
	if m, ok := MoveOf(&e); ok {
		return &e, m
	}
	return nil, nil
}

// Creates tells whether the line made its task.
func Creates(line audit.Line) bool {
	return line.Detail("to") != nil && string(line.Detail("from")) == "null"
}

// OneLine makes text fit for a reason: one line, no control characters, short.
func OneLine(text string) string {
	return schemas.Sentence(strings.Join(strings.Fields(text), " "), MaxReason)
}
