package delegation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
)

// View is a delegation line in the shape of ColDBase's delegation audit, with from and to.
type View struct {
	Time            float64           `json:"time" jsonschema:"description=Unix time of the line in seconds"`
	RequestID       int64             `json:"request_id" jsonschema:"minimum=0,description=Unix time in ms\\, and three digits that make it unique"`
	From            string            `json:"from" jsonschema:"minLength=1,description=agent that hands the action over"`
	To              string            `json:"to" jsonschema:"minLength=1,description=agent that is to do it"`
	Task            string            `json:"task" jsonschema:"description=name of the action"`
	DelegationDepth int64             `json:"delegation_depth" jsonschema:"minimum=0,description=hand-overs before this one"`
	PayloadKeys     []string          `json:"payload_keys" jsonschema:"description=names of the parameters\\, sorted; never values"`
	PayloadSummary  jsontext.Value    `json:"payload_summary" jsonschema:"type=object,description=kind and size of each parameter"`
	SensitiveHashes map[string]string `json:"sensitive_hashes" jsonschema:"description=salted SHA-256 of each sensitive parameter by its path"`
	Decision        Decision          `json:"decision" jsonschema:"enum=delivered,enum=rejected,enum=failed,enum=test,description=what became of it"`
	Reason          *string           `json:"reason" jsonschema:"nullable,description=why not"`
	TriedEndpoints  []string          `json:"tried_endpoints" jsonschema:"description=mailbox paths"`
	ResultSummary   string            `json:"result_summary" jsonschema:"maxLength=1000,description=what came of it"`
	DurationMS      int64             `json:"duration_ms" jsonschema:"minimum=0,description=from the creation of the task\\, waiting included"`
	Host            string            `json:"host" jsonschema:"description=machine that decided"`
	TimeISO         string            `json:"time_iso" jsonschema:"format=date-time,description=time in UTC"`
	TaskID          *string           `json:"task_id" jsonschema:"nullable,description=task in the mailbox; null where there is none"`
}

// Of reads the details of a delegation line.
func Of(e *audit.Entry) (d Details, err error) {
	if e.Event != audit.DelegationEvent {
		return d, fmt.Errorf("seq %d is no delegation", e.Seq)
	}
	if err := e.Detail(&d); err != nil {
		return d, fmt.Errorf("seq %d: details of a delegation: %w", e.Seq, err)
	}
	if d.FromAgent == "" || d.ToAgent == "" || !slices.Contains(Decisions, d.Decision) {
		return d, fmt.Errorf("seq %d: its details are no delegation", e.Seq)
	}
	return d, nil
}

func viewOf(e *audit.Entry) (View, error) {
	d, err := Of(e)
	return View{
		Time:      float64(e.Time().UnixMilli()) / 1000,
		RequestID: d.RequestID, From: d.FromAgent, To: d.ToAgent, Task: d.Task, DelegationDepth: d.DelegationDepth,
		PayloadKeys: d.PayloadKeys, PayloadSummary: d.PayloadSummary, SensitiveHashes: d.SensitiveHashes,
		Decision: d.Decision, Reason: d.Reason, TriedEndpoints: d.TriedEndpoints,
		ResultSummary: d.ResultSummary, DurationMS: d.DurationMS, Host: d.Host, TimeISO: e.TS, TaskID: e.TaskID,
	}, err
}

// Query says which delegations are wanted. Its zero value is none.
type Query struct {
	N        int      // at most so many
	Head     bool     // the oldest, not the newest
	Task     string   // of this task only, in whatever case
	Decision Decision // with this decision only
}

// Find looks delegation lines up, oldest first. The newest are read from the end of the
// ledger, and no more of it than needed; other lines are passed over undecoded. As far as
// it is read the chain is checked, so that a spoilt line is an error and not missing in
// silence.
func Find(ctx context.Context, l *audit.Ledger, q Query) ([]View, error) {
	found := []View{}
	if q.N < 1 {
		return found, nil
	}
	lines := fromEnd(l)
	if q.Head {
		lines = fromStart(l)
	}
	for line, err := range lines {
		if err = errors.Join(err, ctx.Err()); err == nil {
			found, err = q.take(found, line)
		}
		if err != nil {
			return nil, err
		}
		if len(found) == q.N {
			break
		}
	}
	if !q.Head {
		slices.Reverse(found)
	}
	return found, nil
}

// fromStart yields the lines from the first on, and then where the chain breaks, if it does.
func fromStart(l *audit.Ledger) iter.Seq2[audit.Line, error] {
	return func(yield func(audit.Line, error) bool) {
		r := l.Read(audit.Position{})
		for line, err := range r.Lines() {
			if !yield(line, err) {
				return
			}
		}
		if broken := r.Broken(); broken != nil {
			yield(audit.Line{}, fmt.Errorf("%w: %w", audit.ErrDamaged, broken))
		}
	}
}

// fromEnd yields the lines from the last back to the first or to where the chain breaks.
func fromEnd(l *audit.Ledger) iter.Seq2[audit.Line, error] {
	return func(yield func(audit.Line, error) bool) {
		seq, prev := int64(0), "" // of the line behind the one at hand
		broken := func() error {
			return fmt.Errorf("%w: the line before seq %d is missing or spoilt", audit.ErrDamaged, seq)
		}
		for line, err := range l.Backward() {
			if err == nil && seq > 0 && prev != line.Checksum {
				err = broken()
			}
			if !yield(line, err) {
				return
			}
			seq, prev = line.Seq, line.At.Checksum
		}
		if seq > 1 {
			yield(audit.Line{}, broken())
		}
	}
}

// take adds the line to those found if it is wanted.
func (q *Query) take(found []View, line audit.Line) ([]View, error) {
	if line.Event() != audit.DelegationEvent || q.Task != "" && !strings.EqualFold(line.Task(), q.Task) {
		return found, nil
	}
	e, err := line.Decode()
	if err != nil {
		return found, err
	}
	v, err := viewOf(&e)
	if err != nil {
		return found, fmt.Errorf("%w: %w", audit.ErrDamaged, err)
	}
	if q.Decision == "" || v.Decision == q.Decision {
		found = append(found, v)
	}
	return found, nil
}
