// Package task says what a task is: its file, the states it may be in and the moves
// between them, what a drop may say, and what a ledger line tells of a move. It reads
// and writes nothing.
package task

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/schemas"
)

// ID names a task: ^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$. Two ids that differ in
// case only are the same id, and an id is never used again.
type ID string

// Fold is the case-folded id, under which an id is known.
func (id ID) Fold() string { return strings.ToLower(string(id)) }

// File is the name of the task's file.
func (id ID) File() string { return string(id) + ".json" }

// Ignored tells the names of files that are nobody's drop yet.
func Ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, ".part") || strings.HasSuffix(name, "~")
}

// TrimJSON is the id that a file name stands for.
func TrimJSON(name string) string { return strings.TrimSuffix(name, ".json") }

// Time is a time as mbox writes it: UTC, RFC 3339, milliseconds where they are
// not zero. Any RFC 3339 time is read.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.999Z07:00"

// At is t in UTC with the precision that is written.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// MarshalText writes UTC.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// MarshalJSON hides the embedded time's, which writes another precision.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.String() + `"`), nil
}

// UnmarshalText reads RFC 3339 of the years 1 to 9999 (UTC), which alone can be
// written again.
func (t *Time) UnmarshalText(text []byte) error {
	parsed, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return err
	}
	if !inYears(parsed) {
		return &schemas.Error{Code: schemas.CodeBadValue, Problem: "the year is out of range", Want: "a time of the years 1 to 9999, UTC"}
	}
	*t = At(parsed)
	return nil
}

// UnmarshalJSONFrom reads a string of RFC 3339.
func (t *Time) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() != '"' {
		return &json.SemanticError{JSONKind: value.Kind(), GoType: reflect.TypeFor[Time]()}
	}
	var room [40]byte
	text, err := jsontext.AppendUnquote(room[:0], value)
	if err != nil {
		return err
	}
	return t.UnmarshalText(text)
}

// inYears tells whether RFC 3339 has a form for the time.
func inYears(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 1 && year <= 9999
}

// UnixMillis is the time of so many milliseconds since 1970.
func UnixMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// Millis are the milliseconds since 1970; 0 for nil.
func Millis(t *Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMilli()
}

// TimeOf is the reverse of [Millis].
func TimeOf(ms int64) *Time {
	if ms == 0 {
		return nil
	}
	at := At(UnixMillis(ms))
	return &at
}

func (t Time) String() string { return t.UTC().Format(timeLayout) }

// Task is a task file. Its JSON form is fixed (package comment); what mbox adds
// to it stands in Mbox alone.
type Task struct {
	ID         ID         `json:"id" jsonschema:"pattern=^[A-Za-z0-9][A-Za-z0-9._-]{0\\,127}$,description=names the task; the file is <id>.json"`
	Version    int        `json:"version" jsonschema:"enum=1,description=format of the task file"`
	Created    Time       `json:"created" jsonschema:"description=RFC 3339\\, UTC"`
	Updated    Time       `json:"updated" jsonschema:"description=RFC 3339\\, UTC; rewritten by every transition"`
	Source     Source     `json:"source" jsonschema:"description=who asked"`
	Task       Request    `json:"task" jsonschema:"required,description=what is asked"`
	Assignment Assignment `json:"assignment" jsonschema:"description=who is to do it\\, and who does"`
	Result     Result     `json:"result" jsonschema:"description=what came of it"`
	Audit      Trail      `json:"audit" jsonschema:"description=the states that the task went through"`
	Mbox       Meta       `json:"mbox" jsonschema:"description=fields of mbox"`
}

// Source says who asked.
type Source struct {
	Agent   string `json:"agent" jsonschema:"maxLength=128,description=agent name\\, human\\, bridge:<name> or unknown"`
	Session string `json:"session,omitzero" jsonschema:"nullable,maxLength=512,description=opaque; where the answer goes"`
	User    string `json:"user,omitzero" jsonschema:"nullable,maxLength=512,description=who stands behind the agent"`
}

// Request says what is asked.
type Request struct {
	Type        string         `json:"type" jsonschema:"enum=research,enum=action,enum=analysis,enum=other,default=other"`
	Priority    string         `json:"priority" jsonschema:"enum=low,enum=normal,enum=high,enum=urgent,default=normal"`
	Title       string         `json:"title" jsonschema:"required,minLength=1,maxLength=500,description=brief"`
	Description string         `json:"description" jsonschema:"maxLength=262144,description=full; a thinking task without one is prompted by its title"`
	Context     jsontext.Value `json:"context,omitzero" jsonschema:"description=free; conversation_summary\\, relevant_files and constraints have a meaning"`
}

// Assignment says for whom the task is and who has taken it.
type Assignment struct {
	TargetAgent string  `json:"target_agent" jsonschema:"default=any,description=agent name\\, or any"`
	PickedUpBy  *string `json:"picked_up_by" jsonschema:"nullable,description=null until claimed"`
	PickedUpAt  *Time   `json:"picked_up_at" jsonschema:"nullable,description=null until claimed"`
}

// Result is what came of the task. Status follows the folder.
type Result struct {
	Status    State          `json:"status" jsonschema:"enum=pending,enum=in-progress,enum=completed,enum=failed"`
	Output    jsontext.Value `json:"output" jsonschema:"description=text or any JSON; null until done"`
	Artifacts []Artifact     `json:"artifacts" jsonschema:"nullable,description=files that the work left"`
	Error     *TaskError     `json:"error" jsonschema:"nullable,description=null unless failed"`
}

// Said is what the output says in words: the text that it is, or the answer of a brain;
// else all of it. "" if there is none.
func (r *Result) Said() string {
	var text string
	if json.Unmarshal(r.Output, &text) == nil {
		return text
	}
	var told struct {
		Answer string `json:"answer"`
	}
	if json.Unmarshal(r.Output, &told) == nil && told.Answer != "" {
		return told.Answer
	}
	return string(r.Output)
}

// Artifact is a file that the work left, and that mbox has kept since.
type Artifact struct {
	Path   string `json:"path" jsonschema:"required,description=from the mailbox's folder; of tasks that the first versions of mbox ended from the agent's home"`
	Size   int64  `json:"size" jsonschema:"minimum=0,description=bytes"`
	SHA256 string `json:"sha256" jsonschema:"pattern=^sha256:[0-9a-f]{64}$"`
}

// TaskError says why a task failed.
type TaskError struct {
	Code    string `json:"code" jsonschema:"required,description=stable name of the reason"`
	Message string `json:"message,omitzero"`
	Path    string `json:"path,omitzero" jsonschema:"description=JSON path of the field at fault"`
}

// Text is why an attempt has failed: its code, the path of the field at fault, and what
// it says.
func (e *TaskError) Text() string {
	text := e.Code
	if e.Path != "" {
		text += ": " + e.Path
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Trail is the task's way through the states.
type Trail struct {
	StateChanges []StateChange `json:"state_changes" jsonschema:"nullable"`
}

// StateChange is one step of the way.
type StateChange struct {
	From   State  `json:"from"`
	To     State  `json:"to"`
	By     string `json:"by"`
	At     Time   `json:"at"`
	Reason string `json:"reason"`
}

// Meta holds mbox's own fields. A drop may set action, depends_on, not_before,
// deadline, max_attempts, idempotency_key, accept, expect_output, paths and labels; parent_id, root_id,
// depth, join, waits_for and budget come through a delegation, the rest from
// mbox alone.
type Meta struct {
	TX             string         `json:"tx,omitzero" jsonschema:"description=the transaction that wrote the file"`
	Revision       int64          `json:"revision,omitzero" jsonschema:"minimum=0,description=counts the writes"`
	Attempt        int64          `json:"attempt,omitzero" jsonschema:"minimum=0,description=claims that burnt an attempt"`
	MaxAttempts    int64          `json:"max_attempts,omitzero" jsonschema:"minimum=0,maximum=100"`
	Epoch          int64          `json:"epoch,omitzero" jsonschema:"minimum=0,description=fencing counter: raised by every claim"`
	Lease          *Lease         `json:"lease,omitzero" jsonschema:"nullable"`
	NotBefore      *Time          `json:"not_before,omitzero" jsonschema:"nullable,description=not ready before this"`
	Deadline       *Time          `json:"deadline,omitzero" jsonschema:"nullable,description=fails if not taken by then"`
	DependsOn      []ID           `json:"depends_on,omitempty" jsonschema:"nullable,maxItems=100,pattern=^[A-Za-z0-9][A-Za-z0-9._-]{0\\,127}$,description=ids that must be completed first"`
	ParentID       ID             `json:"parent_id,omitzero" jsonschema:"nullable"`
	RootID         ID             `json:"root_id,omitzero" jsonschema:"nullable"`
	Depth          int64          `json:"depth,omitzero" jsonschema:"minimum=0"`
	Join           string         `json:"join,omitzero" jsonschema:"nullable,enum=all,enum=any,enum=quorum"`
	WaitsFor       []ID           `json:"waits_for,omitempty" jsonschema:"nullable,description=the children that it handed on last"`
	Budget         Budget         `json:"budget,omitempty" jsonschema:"nullable,description=what the whole tree may spend"`
	Trigger        string         `json:"trigger,omitzero" jsonschema:"nullable"`
	Action         *Action        `json:"action,omitzero" jsonschema:"nullable,description=an action that needs no thinking"`
	Progress       *Progress      `json:"progress,omitzero" jsonschema:"nullable"`
	IdempotencyKey string         `json:"idempotency_key,omitzero" jsonschema:"nullable,minLength=1,maxLength=256,description=a second send with the same key is the first task"`
	Accept         []string       `json:"accept,omitempty" jsonschema:"nullable,maxItems=20,description=names of [accept.NAME] in mbox.toml: checks that the result has to pass"`
	ExpectOutput   bool           `json:"expect_output,omitzero" jsonschema:"description=an empty result is a failure"`
	Labels         jsontext.Value `json:"labels,omitzero" jsonschema:"description=free"`
	Paths          []string       `json:"paths,omitempty" jsonschema:"nullable,maxItems=50,pattern=^([.]|([^/.][^/]*|[.][^/.][^/]*|[.][.][^/]+)(/([^/.][^/]*|[.][^/.][^/]*|[.][.][^/]+))*)$,description=files and folders that it works on: it is never in progress beside another task with one of them"`
	Attachments    []Attachment   `json:"attachments,omitempty" jsonschema:"nullable,maxItems=20,description=files that came with it"`
}

// Lease is a claim's right to the task.
type Lease struct {
	Token    string `json:"token" jsonschema:"description=random; every verb of the claimant shows it"`
	Host     string `json:"host"`
	Deadline Time   `json:"deadline" jsonschema:"description=later if the lease file was touched later"`
}

// Action is a named act with its parameters.
type Action struct {
	Name   string         `json:"name" jsonschema:"required,pattern=^[a-z][a-z0-9_]{0\\,63}$"`
	Params jsontext.Value `json:"params,omitzero"`
}

// Progress is the last word of whoever works on the task.
type Progress struct {
	At      Time   `json:"at"`
	Percent *int   `json:"percent,omitzero" jsonschema:"nullable,minimum=0,maximum=100"`
	Message string `json:"message,omitzero" jsonschema:"maxLength=1000"`
}

// Limits of a task file, in bytes unless said otherwise.
const (
	MaxTask        = 1 << 20          // the file
	MaxNew         = MaxTask - 24<<10 // a new task's file: what comes later needs room
	MaxOutput      = 256 << 10        // of JSON in result.output; what is longer becomes an artifact
	MaxTitle       = 500              // runes
	MaxDescription = 256 << 10
	MaxDependsOn   = 100
	MaxAccept      = 20
	MaxPaths       = 50
	MaxPath        = 512 // bytes of each
	MaxReason      = 300 // runes
)

// Priorities in the order of their rank.
var Priorities = []string{"low", "normal", "high", "urgent"}

// Types of task.
var Types = []string{"research", "action", "analysis", "other"}

// Rank is a priority's place among [Priorities]; any other text counts as normal.
func Rank(priority string) int {
	if i := slices.Index(Priorities, priority); i >= 0 {
		return i
	}
	return 1
}

// Lacks says what a task in a state must have, or must not have, and does not.
func (t *Task) Lacks(s State) string {
	claimed, token := t.Claimant() != "", t.Token() != ""
	done := Given(t.Result.Output) || len(t.Result.Artifacts) > 0
	switch s {
	case Pending:
		switch {
		case t.Assignment.PickedUpBy != nil || t.Assignment.PickedUpAt != nil || t.Mbox.Lease != nil:
			return "it is pending and has a claimant or a lease"
		case done || t.Result.Error != nil:
			return "it is pending and has a result or an error"
		}
	case InProgress:
		if !claimed || !token {
			return "it is in progress without a claimant or a token"
		}
	case Completed:
		switch {
		case !done:
			return "it is completed without a result"
		case !claimed || !token:
			return "it is completed without a claimant or a token"
		}
	case Failed:
		if t.Result.Error == nil || t.Result.Error.Code == "" {
			return "it is failed without an error"
		}
	}
	return ""
}

// Delegated marks the trigger of a child: "delegate:<parent's epoch>".
const Delegated = "delegate:"

// Scheduled marks the trigger of what a schedule sent: "schedule:<name>:<tick>".
const Scheduled = "schedule:"

// Heartbeat is the trigger of what an agent has to look after by its heartbeat.md, and
// HeartbeatOK its answer where nothing of that needs anybody.
const (
	Heartbeat   = "heartbeat"
	HeartbeatOK = "HEARTBEAT_OK"
)

// NoReply is the answer of an agent that has nothing to say to a message.
const NoReply = "NO_REPLY"

// Told marks the triggers of inbox items: "<one of these><id of the message>".
var Told = []string{"mention:", "watch:", "broadcast:"}

// Message is the id of the message of which an inbox item tells; "" for any other task.
func (t *Task) Message() string {
	for _, marks := range Told {
		if id, is := strings.CutPrefix(t.Mbox.Trigger, marks); is {
			return id
		}
	}
	return ""
}

// Repeats tells whether a task asks again for what another one was made for, whose
// idempotency key it has. Any other task with that key was a stranger's: who sends
// this one would take its result for his own.
func (t *Task) Repeats(made *Task) bool {
	return made.Source.Agent == t.Source.Agent && made.Task.Title == t.Task.Title
}

// Quiet tells whether it was a heartbeat in which nothing needed anybody.
func (t *Task) Quiet() bool { return t.Mbox.Trigger == Heartbeat && t.Result.Said() == HeartbeatOK }

// Channel is the channel of that message.
func (t *Task) Channel() string {
	if t.Message() == "" {
		return ""
	}
	return strings.TrimPrefix(t.Source.Session, ChannelSession)
}

// ChannelSession is how the session of an inbox item begins; the channel's name follows.
const ChannelSession = "channel:"

// Born is the epoch of the parent in which a child was made; false for a task
// that is no child, or that nobody waits for any more.
func (t *Task) Born() (int64, bool) {
	text, ok := strings.CutPrefix(t.Mbox.Trigger, Delegated)
	n, err := strconv.ParseInt(text, 10, 64)
	return n, ok && err == nil && t.Mbox.ParentID != ""
}

// Root is the id of the tree that the task belongs to.
func (t *Task) Root() ID { return cmp.Or(t.Mbox.RootID, t.ID) }

// maxMessage bounds an error's texts in the task file, in runes.
const maxMessage = 1000

// Bound cuts an error's texts to what a task file has room for. The end of a
// message says most.
func (e *TaskError) Bound() {
	e.Code = schemas.Sentence(e.Code, 64)
	e.Path = schemas.Sentence(e.Path, 500)
	if text := []rune(strings.ToValidUTF8(e.Message, "\uFFFD")); len(text) > maxMessage {
		e.Message = "…" + string(text[len(text)-maxMessage:])
	}
}

// InFile names the file in a *schemas.Error that names none.
func InFile(err error, file string) error {
	if bad, is := errors.AsType[*schemas.Error](err); is && bad.File == "" {
		c := *bad
		c.File = file
		return &c
	}
	return err
}

// ByHand is who is taken for the claimant of a task that was moved by hand.
func ByHand(target string) string {
	if target == "any" || target == "" {
		return "unknown"
	}
	return target
}

// AsksFor tells whether the task asks for what it was created with. Fields that
// only mbox fills, and that were empty, are emptied again.
func (t *Task) AsksFor(asked Digest) bool {
	if DigestOf(t.AskedHash()) == asked {
		return true
	}
	c := *t
	m := &c.Mbox
	m.RootID, m.Depth, m.Join, m.WaitsFor, m.Budget, m.Trigger, m.IdempotencyKey = "", 0, "", nil, nil, "", ""
	if DigestOf(c.AskedHash()) != asked {
		return false
	}
	*t = c
	return true
}

// ErrNotFound: there is no such task, record or archive.
var ErrNotFound = errors.New("not found")

// About puts the id in front of an error.
func About(id ID, err error) error {
	if about := "task " + string(id) + ": "; err == nil || strings.HasPrefix(err.Error(), about) {
		return err
	}
	return fmt.Errorf("task %s: %w", id, err)
}

// Asked is the part of a new task that its sender decided, for comparing two
// sends of one id.
func (t *Task) Asked() Task {
	c := *t
	c.Created, c.Updated = Time{}, Time{}
	return c
}

// Claimant is who has taken the task; "" if nobody has.
func (t *Task) Claimant() string { return textOf(t.Assignment.PickedUpBy) }

// Token is that of the task's claim; "" if it has none.
func (t *Task) Token() string {
	if t.Mbox.Lease == nil {
		return ""
	}
	return t.Mbox.Lease.Token
}
