package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Delegated is a delegation line as the view shows it: the shape of ColDBase's
// delegation audit, with from and to.
type Delegated struct {
	Time            float64            `json:"time" jsonschema:"description=Unix time of the line in seconds"`
	RequestID       int64              `json:"request_id" jsonschema:"minimum=0,description=Unix time in ms\\, and three digits that make it unique"`
	From            string             `json:"from" jsonschema:"minLength=1,description=agent that hands the action over"`
	To              string             `json:"to" jsonschema:"minLength=1,description=agent that is to do it"`
	Task            string             `json:"task" jsonschema:"description=name of the action"`
	DelegationDepth int64              `json:"delegation_depth" jsonschema:"minimum=0,description=hand-overs before this one"`
	PayloadKeys     []string           `json:"payload_keys" jsonschema:"description=names of the parameters\\, sorted; never values"`
	PayloadSummary  jsontext.Value     `json:"payload_summary" jsonschema:"type=object,description=kind and size of each parameter"`
	SensitiveHashes map[string]string  `json:"sensitive_hashes" jsonschema:"description=salted SHA-256 of each sensitive parameter by its path"`
	Decision        DelegationDecision `json:"decision" jsonschema:"enum=delivered,enum=rejected,enum=failed,enum=test,description=what became of it"`
	Reason          *string            `json:"reason" jsonschema:"nullable,description=why not"`
	TriedEndpoints  []string           `json:"tried_endpoints" jsonschema:"description=mailbox paths"`
	ResultSummary   string             `json:"result_summary" jsonschema:"maxLength=1000,description=what came of it"`
	DurationMS      int64              `json:"duration_ms" jsonschema:"minimum=0,description=from the creation of the task\\, waiting included"`
	Host            string             `json:"host" jsonschema:"description=machine that decided"`
	TimeISO         string             `json:"time_iso" jsonschema:"format=date-time,description=time in UTC"`
	TaskID          *string            `json:"task_id" jsonschema:"nullable,description=task in the mailbox; null where there is none"`
}

// Delegation reads the details of a delegation line.
func (e *Entry) Delegation() (d Delegation, err error) {
	if e.Event != DelegationEvent {
		return d, fmt.Errorf("seq %d is no delegation", e.Seq)
	}
	if err := e.Detail(&d); err != nil {
		return d, fmt.Errorf("seq %d: details of a delegation: %w", e.Seq, err)
	}
	if d.FromAgent == "" || d.ToAgent == "" || !slices.Contains(DelegationDecisions, d.Decision) {
		return d, fmt.Errorf("seq %d: its details are no delegation", e.Seq)
	}
	return d, nil
}

// Delegated is the view of a delegation line.
func (e *Entry) Delegated() (Delegated, error) {
	d, err := e.Delegation()
	if err != nil {
		return Delegated{}, err
	}
	return Delegated{
		Time:      float64(e.Time().UnixMilli()) / 1000,
		RequestID: d.RequestID, From: d.FromAgent, To: d.ToAgent, Task: d.Task, DelegationDepth: d.DelegationDepth,
		PayloadKeys: d.PayloadKeys, PayloadSummary: d.PayloadSummary, SensitiveHashes: d.SensitiveHashes,
		Decision: d.Decision, Reason: d.Reason, TriedEndpoints: d.TriedEndpoints,
		ResultSummary: d.ResultSummary, DurationMS: d.DurationMS, Host: d.Host, TimeISO: e.TS, TaskID: e.TaskID,
	}, nil
}

// DelegationQuery says which delegations are wanted. Its zero value is none.
type DelegationQuery struct {
	N        int                // at most so many
	Head     bool               // the oldest, not the newest
	Task     string             // of this task only, in whatever case
	Decision DelegationDecision // with this decision only
}

// Delegations looks delegation lines up, oldest first. The newest are read from
// the end of the ledger, and no more of it than needed; other lines are passed
// over undecoded. As far as it is read the chain is checked, so that a line that
// somebody has spoilt is an error and not missing in silence.
func (l *Ledger) Delegations(ctx context.Context, q DelegationQuery) (found []Delegated, err error) {
	switch {
	case q.N < 1:
		return []Delegated{}, nil
	case q.Head:
		return l.firstDelegations(ctx, q)
	}
	return l.lastDelegations(ctx, q)
}

func (l *Ledger) lastDelegations(ctx context.Context, q DelegationQuery) (found []Delegated, err error) {
	found = []Delegated{}
	var after Line // the line behind the one at hand; no bytes of it
	for line, err := range l.Backward() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		if after.Seq > 0 && after.At.Checksum != line.Checksum {
			return nil, fmt.Errorf("%w: the line before seq %d is missing or spoilt", ErrDamaged, after.Seq)
		}
		after = Line{Seq: line.Seq, At: line.At}
		if found, err = q.take(found, line); err != nil {
			return nil, err
		}
		if len(found) == q.N {
			break
		}
	}
	if len(found) < q.N && after.Seq > 1 {
		return nil, fmt.Errorf("%w: the line before seq %d is missing or spoilt", ErrDamaged, after.Seq)
	}
	slices.Reverse(found)
	return found, nil
}

func (l *Ledger) firstDelegations(ctx context.Context, q DelegationQuery) (found []Delegated, err error) {
	found = []Delegated{}
	r := l.Read(Position{})
	for line, err := range r.Lines() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		if found, err = q.take(found, line); err != nil {
			return nil, err
		}
		if len(found) == q.N {
			return found, nil
		}
	}
	if broken := r.Broken(); broken != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, broken)
	}
	return found, nil
}

// take adds the line to those found if it is wanted.
func (q *DelegationQuery) take(found []Delegated, line Line) ([]Delegated, error) {
	if line.Event() != DelegationEvent || q.Task != "" && !strings.EqualFold(line.Task(), q.Task) {
		return found, nil
	}
	e, err := line.Decode()
	if err != nil {
		return found, err
	}
	d, err := e.Delegated()
	if err != nil {
		return found, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if q.Decision != "" && d.Decision != q.Decision {
		return found, nil
	}
	return append(found, d), nil
}
