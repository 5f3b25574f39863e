package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/schemas"
)

// Event names what happened. The set is closed: a reader refuses others.
type Event string

// The events. Which of them move a task, and from where to where, is told in
// package mailbox.
const (
	TaskCreated     Event = "task_created"
	TaskPicked      Event = "task_picked"
	TaskProgress    Event = "task_progress"
	TaskCompleted   Event = "task_completed"
	TaskFailed      Event = "task_failed"
	TaskReleased    Event = "task_released"
	TaskRetried     Event = "task_retried"
	TaskCancelled   Event = "task_cancelled"
	TaskRejected    Event = "task_rejected"
	TaskQuarantined Event = "task_quarantined"
	TaskLateResult  Event = "task_late_result"
	TaskArchived    Event = "task_archived"
	TaskEdited      Event = "task_edited"
	ResultDelivered Event = "result_delivered"
	DelegationEvent Event = "delegation"
	DecisionEvent   Event = "decision"
	ChangeEvent     Event = "change"
	MessageEvent    Event = "message"
	PolicyDenied    Event = "policy_denied"
	AgentState      Event = "agent_state"
	Reconcile       Event = "reconcile"
	AuditRepaired   Event = "audit_repaired"
	ErrorEvent      Event = "error"
)

// Events lists every event in the order of the specification.
var Events = []Event{
	TaskCreated, TaskPicked, TaskProgress, TaskCompleted, TaskFailed, TaskReleased, TaskRetried,
	TaskCancelled, TaskRejected, TaskQuarantined, TaskLateResult, TaskArchived, TaskEdited, ResultDelivered,
	DelegationEvent, DecisionEvent, ChangeEvent, MessageEvent, PolicyDenied, AgentState, Reconcile, AuditRepaired, ErrorEvent,
}

// eventOf is the event with this name, "" if there is none.
func eventOf(name []byte) Event {
	for _, e := range Events {
		if string(name) == string(e) {
			return e
		}
	}
	return ""
}

// MaxLine is the longest ledger line in bytes, without its newline.
const MaxLine = 64 << 10

// Format is the version of the line format, the field v.
const Format = 1

// The names of agents and tasks.
var (
	AgentForm = schemas.Pattern(`^(bridge:)?[a-z0-9][a-z0-9_-]{0,63}$`)
	TaskForm  = schemas.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

const timeLayout = "2006-01-02T15:04:05.000Z"

// Entry is one ledger line. Append fills in TS, Seq, Prev, V and Checksum.
type Entry struct {
	Action   string         `json:"action" jsonschema:"description=one human line: ids and agent names\\, never text from a task"`
	Agent    string         `json:"agent" jsonschema:"minLength=1,description=who did it"`
	Details  jsontext.Value `json:"details" jsonschema:"description=what the event needs; a line with 'to' here is a transition"`
	Event    Event          `json:"event" jsonschema:"description=what happened"`
	Prev     string         `json:"prev" jsonschema:"pattern=^sha256:[0-9a-f]{64}$,description=checksum of the entry before"`
	Seq      int64          `json:"seq" jsonschema:"minimum=1,description=position in the ledger\\, from 1\\, without gaps"`
	Session  *string        `json:"session" jsonschema:"nullable,description=the task's session\\, or its salted hash"`
	TaskID   *string        `json:"task_id" jsonschema:"nullable,description=null where there is no task"`
	TS       string         `json:"ts" jsonschema:"pattern=^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}Z$,description=UTC\\, exactly three decimals"`
	V        int            `json:"v" jsonschema:"enum=1,description=format"`
	Checksum string         `json:"checksum,omitzero" jsonschema:"pattern=^sha256:[0-9a-f]{64}$,description=last in the line: SHA-256 of the canonical object without it"`
}

// Time is the entry's ts as a time; zero if ts is malformed.
func (e *Entry) Time() time.Time {
	at, _ := ParseTime([]byte(e.TS))
	return at
}

// Task is the entry's task id, "" where there is none.
func (e *Entry) Task() string {
	if e.TaskID == nil {
		return ""
	}
	return *e.TaskID
}

// Detail decodes the details into v, ignoring what v does not name.
func (e *Entry) Detail(v any) error { return json.Unmarshal(e.Details, v) }

// Details encodes v, a struct or map, for Entry.Details. It panics if v cannot
// be JSON, which is a broken invariant of the caller.
func Details(v any) jsontext.Value {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic("audit: details are no JSON: " + err.Error())
	}
	return data
}

// Writer says which process wrote a line. Every line carries it in its details.
type Writer struct {
	UID  int    `json:"uid"`
	PID  int    `json:"pid"`
	Host string `json:"host"`
}

// ThisWriter describes the running process.
func ThisWriter() Writer {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return Writer{UID: os.Getuid(), PID: os.Getpid(), Host: host}
}

// Hash is the form in which mbox writes a SHA-256: "sha256:" and 64 hex digits.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Unhex reads lower-case hex digits, two for each byte of to. False if there are too
// few digits, or if what stands there is none.
func Unhex(to, from []byte) bool {
	if len(from) < 2*len(to) {
		return false
	}
	from = from[:2*len(to)]
	_, err := hex.Decode(to, from)
	return err == nil && !bytes.ContainsAny(from, "ABCDEF")
}

// Genesis is the prev of a mailbox's first entry.
func Genesis(mailboxID string) string {
	return Hash([]byte("mbox-ledger-v1\n" + mailboxID + "\n"))
}

const (
	suffixKey  = `,"checksum":"`
	suffixSize = len(suffixKey) + 71 + len(`"}`) // always 86 bytes
)

// encode renders the line of e without its newline and sets e.Checksum.
func (e *Entry) encode() ([]byte, error) {
	details := e.Details.Clone()
	if err := details.Canonicalize(); err != nil {
		return nil, fmt.Errorf("details of %s: %w", e.Event, err)
	}
	line := make([]byte, 0, 512+len(details))
	line = appendString(append(line, `{"action":`...), e.Action)
	line = appendString(append(line, `,"agent":`...), e.Agent)
	line = append(append(line, `,"details":`...), details...)
	line = appendString(append(line, `,"event":`...), string(e.Event))
	line = appendString(append(line, `,"prev":`...), e.Prev)
	line = strconv.AppendInt(append(line, `,"seq":`...), e.Seq, 10)
	line = appendOptional(append(line, `,"session":`...), e.Session)
	line = appendOptional(append(line, `,"task_id":`...), e.TaskID)
	line = appendString(append(line, `,"ts":`...), e.TS)
	line = strconv.AppendInt(append(line, `,"v":`...), int64(e.V), 10)
	line = append(line, '}')
	e.Checksum = Hash(line)
	line = append(line[:len(line)-1], suffixKey...)
	line = append(append(line, e.Checksum...), `"}`...)
	if len(line) > MaxLine {
		return nil, fmt.Errorf("ledger line of %s: %d bytes, at most %d", e.Event, len(line), MaxLine)
	}
	return line, nil
}

func appendString(line []byte, s string) []byte {
	line, err := jsontext.AppendQuote(line, strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		panic("audit: quoting valid UTF-8: " + err.Error())
	}
	return line
}

func appendOptional(line []byte, s *string) []byte {
	if s == nil {
		return append(line, "null"...)
	}
	return appendString(line, *s)
}
