// Package delegation makes the ledger's lines about hand-overs, which agent gave which
// action to whom and what was decided, and finds them again.
//
// No value of a payload gets into a line (redact.go). What a model made up is cut: a
// name that is none, a text that is too long, and what looks like a secret (secret.go),
// so that every line fits into the ledger.
package delegation

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/schemas"
)

// Decision is what became of one hand-over.
type Decision string

const (
	Delivered Decision = "delivered" // the task's file landed in pending
	Rejected  Decision = "rejected"  // a check refused it; Step names the check
	Failed    Decision = "failed"    // it was allowed and could not be done
	Test      Decision = "test"      // it was only tried out
)

// Decisions lists every decision.
var Decisions = []Decision{Delivered, Rejected, Failed, Test}

// Step is the check that decided; "" where all of them passed.
type Step string

// The checks, in the order in which they are made.
const (
	StepRole       Step = "role"
	StepAction     Step = "action"
	StepParameters Step = "parameters"
	StepDepth      Step = "depth"
	StepPolicy     Step = "policy"
	StepEscalation Step = "escalation"
	StepCycle      Step = "cycle"
	StepBudget     Step = "budget"
	StepApproval   Step = "approval"
)

// Steps lists every check.
var Steps = []Step{StepRole, StepAction, StepParameters, StepDepth, StepPolicy, StepEscalation, StepCycle, StepBudget, StepApproval}

// Details are those of a delegation line. The line moves no task, so the two agents are
// called from_agent and to_agent: "from" and "to" belong to moves. Reason and
// ResultSummary should name rules, keys and sizes, not values.
type Details struct {
	RequestID       int64             `json:"request_id"` // NextRequestID
	FromAgent       string            `json:"from_agent"`
	ToAgent         string            `json:"to_agent"`
	Task            string            `json:"task"` // name of the action
	DelegationDepth int64             `json:"delegation_depth"`
	PayloadKeys     []string          `json:"payload_keys"` // this and the next two are of Redact
	PayloadSummary  jsontext.Value    `json:"payload_summary"`
	SensitiveHashes map[string]string `json:"sensitive_hashes"`
	Decision        Decision          `json:"decision"`
	Step            Step              `json:"step"`
	Reason          *string           `json:"reason"`
	TriedEndpoints  []string          `json:"tried_endpoints"` // mailbox paths
	ResultSummary   string            `json:"result_summary"`
	DurationMS      int64             `json:"duration_ms"`
	audit.Writer

	Root  string `json:"root,omitzero"`  // the task whose tree pays for it
	Spent *Spent `json:"spent,omitzero"` // what this costs the tree
}

// Spent is what a delegation takes from the budget of its tree.
type Spent struct {
	Actions  int64 `json:"actions,omitzero"`
	Tokens   int64 `json:"tokens,omitzero"`
	Seconds  int64 `json:"seconds,omitzero"`
	Children int64 `json:"children,omitzero"`
}

// Most runes of texts, and most endpoints.
const (
	maxSummary   = 1000
	maxReason    = 500
	maxEndpoint  = 300
	maxEndpoints = 8
)

var actionForm = schemas.Pattern(`^[a-z][a-z0-9_.-]{0,63}$`)

// Entry is the line that says this, by agent, about a task ("" where there is none). The
// writer is this process if none is named. It panics on a decision or step that is not
// listed above: verify would refuse such a line.
func (d Details) Entry(agent, taskID string) audit.Entry {
	d = d.normal()
	e := audit.Entry{Agent: agent, Event: audit.DelegationEvent, Action: d.sentence(), Details: audit.Details(d)}
	if taskID != "" {
		e.TaskID = &taskID
	}
	return e
}

// sentence is the human line: names only.
func (d *Details) sentence() string {
	said := fmt.Sprintf("%s handed %s to %s: %s", d.FromAgent, d.Task, d.ToAgent, d.Decision)
	if d.Step != "" {
		said += " at " + string(d.Step)
	}
	return said
}

// normal has everything cut to what a line may hold.
func (d Details) normal() Details {
	if !slices.Contains(Decisions, d.Decision) || d.Step != "" && !slices.Contains(Steps, d.Step) {
		panic(fmt.Sprintf("delegation: one that is %q at %q", d.Decision, d.Step))
	}
	if d.Writer == (audit.Writer{}) {
		d.Writer = audit.ThisWriter()
	}
	d.FromAgent, d.ToAgent = nameOrSize(d.FromAgent, audit.AgentForm()), nameOrSize(d.ToAgent, audit.AgentForm())
	d.Task = nameOrSize(d.Task, actionForm())
	if d.Root != "" {
		d.Root = nameOrSize(d.Root, audit.TaskForm())
	}
	if d.Reason != nil {
		d.Reason = new(plainly(*d.Reason, maxReason))
	}
	d.ResultSummary = plainly(d.ResultSummary, maxSummary)
	d.TriedEndpoints = slices.Clone(d.TriedEndpoints[:min(len(d.TriedEndpoints), maxEndpoints)])
	for i, path := range d.TriedEndpoints {
		d.TriedEndpoints[i] = plainly(path, maxEndpoint)
	}
	if len(d.PayloadSummary) == 0 {
		d.PayloadSummary = jsontext.Value("{}")
	}
	if s := d.Spent; s != nil {
		d.Spent = &Spent{whole(s.Actions), whole(s.Tokens), whole(s.Seconds), whole(s.Children)}
	}
	d.RequestID, d.DelegationDepth, d.DurationMS = whole(d.RequestID), whole(d.DelegationDepth), whole(d.DurationMS)
	return d
}

// nameOrSize is a name of the given form, and of anything else only its size.
func nameOrSize(name string, form *regexp.Regexp) string {
	if form.MatchString(name) && !looksSecret(name) {
		return name
	}
	return sized("string", utf8.RuneCountInString(name))
}

// plainly is one line of at most so many runes, with what looks like a secret blacked out.
func plainly(text string, most int) string { return schemas.Sentence(withoutSecrets(text), most) }

// whole brings a number into the range of the ledger's numbers.
func whole(n int64) int64 { return min(max(n, 0), 1<<53-1) }

var (
	lastRequest   atomic.Int64 // the millisecond of this process's last request id
	processDigits = sync.OnceValue(func() int64 { return digits(audit.ThisWriter()) })
)

// digits tells the processes of one mailbox apart. Side by side on a machine they have
// different pids; those of two containers may have the same, and another host's name.
func digits(w audit.Writer) int64 {
	h := fnv.New32a()
	h.Write([]byte(w.Host))
	return (int64(h.Sum32()%1000) + int64(w.PID)) % 1000
}

// NextRequestID makes the id of a request: the Unix time in milliseconds, and behind it
// three digits of this process, so that id/1000 is the time.
//
// The ids of one process rise strictly, each in a millisecond of its own: where they are
// drawn faster, or the clock goes back, they run ahead of the clock. Two processes draw
// the same one only in the same millisecond with the same three digits, which on one
// machine takes pids that are equal modulo 1000. Ids stay below 2^53 until the year 2255.
func NextRequestID(now time.Time) int64 {
	for {
		last := lastRequest.Load()
		ms := max(now.UnixMilli(), last+1)
		if lastRequest.CompareAndSwap(last, ms) {
			return ms*1000 + processDigits()
		}
	}
}
