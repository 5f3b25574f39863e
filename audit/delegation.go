package audit

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

	"mbox/schemas"
)

// DelegationDecision is what became of one hand-over.
type DelegationDecision string

// The decisions. Delivered means that the task's file landed in pending.
const (
	Delivered      DelegationDecision = "delivered"
	Rejected       DelegationDecision = "rejected" // a check refused it; Step names the check
	DeliveryFailed DelegationDecision = "failed"   // it was allowed and could not be done
	DeliveryTest   DelegationDecision = "test"     // it was only tried out
)

// DelegationDecisions lists every decision.
var DelegationDecisions = []DelegationDecision{Delivered, Rejected, DeliveryFailed, DeliveryTest}

// DelegationStep is the check that decided; "" where all of them passed.
type DelegationStep string

// The checks, in the order in which they are made.
const (
	StepRole       DelegationStep = "role"
	StepAction     DelegationStep = "action"
	StepParameters DelegationStep = "parameters"
	StepDepth      DelegationStep = "depth"
	StepPolicy     DelegationStep = "policy"
	StepEscalation DelegationStep = "escalation"
	StepCycle      DelegationStep = "cycle"
	StepBudget     DelegationStep = "budget"
	StepApproval   DelegationStep = "approval"
)

// DelegationSteps lists every check.
var DelegationSteps = []DelegationStep{
	StepRole, StepAction, StepParameters, StepDepth, StepPolicy, StepEscalation, StepCycle, StepBudget, StepApproval,
}

// Delegation is the details of a delegation line: who handed which action to
// whom, and what was decided. The line moves no task, so the two agents are
// called from_agent and to_agent: "from" and "to" belong to moves.
//
// No value of a payload is in it: PayloadKeys, PayloadSummary and
// SensitiveHashes are what [Redact] gives. Names that are none, texts that are
// too long and what looks like a secret in a text are cut by [Delegation.Entry],
// so that the line fits into the ledger whatever a model made up. Reason and
// ResultSummary should name rules, keys and sizes, not values.
type Delegation struct {
	RequestID       int64              `json:"request_id"` // NextRequestID
	FromAgent       string             `json:"from_agent"`
	ToAgent         string             `json:"to_agent"`
	Task            string             `json:"task"` // name of the action
	DelegationDepth int64              `json:"delegation_depth"`
	PayloadKeys     []string           `json:"payload_keys"`
	PayloadSummary  jsontext.Value     `json:"payload_summary"`
	SensitiveHashes map[string]string  `json:"sensitive_hashes"`
	Decision        DelegationDecision `json:"decision"`
	Step            DelegationStep     `json:"step"`
	Reason          *string            `json:"reason"`
	TriedEndpoints  []string           `json:"tried_endpoints"` // mailbox paths
	ResultSummary   string             `json:"result_summary"`
	DurationMS      int64              `json:"duration_ms"`
	Writer

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

// MaxResultSummary is how many runes a result's summary has at most.
const MaxResultSummary = 1000

const (
	maxReason    = 500 // runes
	maxEndpoint  = 300
	maxEndpoints = 8
	maxInteger   = 1<<53 - 1
)

var actionForm = schemas.Pattern(`^[a-z][a-z0-9_.-]{0,63}$`)

// Entry is the line that says this, by agent, about a task ("" where there is
// none). The writer is this process if the delegation names none. It panics on a
// decision or step that is not listed above: such a line verify would refuse.
func (d Delegation) Entry(agent, taskID string) Entry {
	d = d.normal()
	e := Entry{Agent: agent, Event: DelegationEvent, Action: d.sentence(), Details: Details(d)}
	if taskID != "" {
		e.TaskID = &taskID
	}
	return e
}

// sentence is the human line: names only.
func (d *Delegation) sentence() string {
	said := fmt.Sprintf("%s handed %s to %s: %s", d.FromAgent, d.Task, d.ToAgent, d.Decision)
	if d.Step != "" {
		said += " at " + string(d.Step)
	}
	return said
}

// normal is the delegation with everything cut to what a line may hold.
func (d Delegation) normal() Delegation {
	if !slices.Contains(DelegationDecisions, d.Decision) || d.Step != "" && !slices.Contains(DelegationSteps, d.Step) {
		panic(fmt.Sprintf("audit: a delegation that is %q at %q", d.Decision, d.Step))
	}
	if d.Writer == (Writer{}) {
		d.Writer = ThisWriter()
	}
	d.FromAgent, d.ToAgent = nameOrSize(d.FromAgent, AgentForm()), nameOrSize(d.ToAgent, AgentForm())
	d.Task = nameOrSize(d.Task, actionForm())
	if d.Root != "" {
		d.Root = nameOrSize(d.Root, TaskForm())
	}
	if d.Reason != nil {
		reason := plainly(*d.Reason, maxReason)
		d.Reason = &reason
	}
	d.ResultSummary = plainly(d.ResultSummary, MaxResultSummary)
	d.TriedEndpoints = slices.Clone(d.TriedEndpoints[:min(len(d.TriedEndpoints), maxEndpoints)])
	for i, path := range d.TriedEndpoints {
		d.TriedEndpoints[i] = plainly(path, maxEndpoint)
	}
	if len(d.PayloadSummary) == 0 {
		d.PayloadSummary = jsontext.Value("{}")
	}
	if d.Spent != nil {
		s := *d.Spent
		d.Spent = &Spent{whole(s.Actions), whole(s.Tokens), whole(s.Seconds), whole(s.Children)}
	}
	d.RequestID, d.DelegationDepth, d.DurationMS = whole(d.RequestID), whole(d.DelegationDepth), whole(d.DurationMS)
	return d
}

// nameOrSize is a name of the given form; of anything else only its size, for a
// model may have put anything in the name's place.
func nameOrSize(name string, form *regexp.Regexp) string {
	if form.MatchString(name) && !looksSecret(name) {
		return name
	}
	return sized("string", utf8.RuneCountInString(name))
}

// plainly is text fit for the ledger: one line of at most most runes, with what
// looks like a secret blacked out.
func plainly(text string, most int) string {
	return schemas.Sentence(withoutSecrets(text), most)
}

// whole brings a number into the range of the ledger's numbers.
func whole(n int64) int64 { return min(max(n, 0), maxInteger) }

// thisProcess is ThisWriter, asked once.
var thisProcess = sync.OnceValue(ThisWriter)

// lastRequest is the millisecond of this process's last request id.
var lastRequest atomic.Int64

// digits tells processes of one mailbox apart: processes that run side by
// side on a machine have different pids, and mostly ones close to each other;
// those of two containers may have the same and differ by their host's name.
func (w Writer) digits() int64 {
	h := fnv.New32a()
	h.Write([]byte(w.Host))
	return (int64(h.Sum32()%1000) + int64(w.PID)) % 1000
}

// NextRequestID makes the id of a request: the Unix time in milliseconds, with
// three digits behind it that are those of this process, so that id/1000 is the
// time in ms (RequestTime).
//
// The ids of one process rise strictly, each in a millisecond of its own: where
// they are drawn faster, or the clock goes back, they run ahead of the clock.
// Two processes of a machine get different ones if their pids differ modulo
// 1000; for others, also on other machines, it takes the same millisecond and
// the same three digits. It stays below 2^53 until the year 2255.
func NextRequestID(now time.Time) int64 {
	for {
		last := lastRequest.Load()
		ms := max(now.UnixMilli(), last+1)
		if lastRequest.CompareAndSwap(last, ms) {
			return ms*1000 + thisProcess().digits()
		}
	}
}

// RequestTime is when a request id was drawn.
func RequestTime(id int64) time.Time { return time.UnixMilli(id / 1000) }
