package agents

import (
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"mbox/agents/action"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// The kinds of what is measured: lines of an attempt's log, too, where Worker.Measure
// says so.
const (
	SaidModel  = "model"  // a call of a model
	SaidAction = "action" // an action was done
)

// Measure is how long a call of a model or an action took. The ledger does not have it.
type Measure struct {
	Kind     string    `json:"-"`                 // SaidModel or SaidAction
	Ended    time.Time `json:"-"`                 // when
	Name     string    `json:"name,omitzero"`     // of the model that answered, or of the action
	Provider string    `json:"provider,omitzero"` // of the model
	Input    int64     `json:"input,omitzero"`    // tokens
	Output   int64     `json:"output,omitzero"`   // tokens
	Status   string    `json:"status,omitzero"`   // of the action's result
	Error    string    `json:"error,omitzero"`    // name of what went wrong
	Took     int64     `json:"took_ms"`
}

func calledModel(r Reply, begun time.Time, err error, fault *BrainError) Measure {
	m := Measure{Kind: SaidModel, Name: r.Model, Provider: r.Provider, Input: r.Input, Output: r.Output, Took: time.Since(begun).Milliseconds()}
	switch {
	case fault != nil:
		m.Error = string(fault.Fault)
	case err != nil:
		m.Error = "stopped"
	}
	return m
}

func didAction(name string, r action.Result, begun time.Time, err error) Measure {
	m := Measure{Kind: SaidAction, Name: name, Status: r.Status, Took: time.Since(begun).Milliseconds()}
	if err != nil {
		m.Error = "action_failed"
	}
	return m
}

// measure keeps a measure in the attempt's log.
func (a *attempt) measure(m Measure) {
	if !a.Measure {
		return
	}
	if text, err := json.Marshal(m); err == nil {
		a.speak(m.Kind, string(text))
	}
}

// Measures are those of one attempt, in their order. What was put aside because the
// attempt said too much is not among them. fs.ErrNotExist says that it said nothing.
func Measures(box *mailbox.Box, agent string, id mailbox.ID, epoch int64) ([]Measure, error) {
	f, _, err := durable.OpenRegular(filepath.Join(box.AgentDir(agent), "logs", string(id)+"."+strconv.FormatInt(epoch, 10)+".log"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []Measure
	_, err = linesOf(f, 0, func(s Said) error {
		if s.Kind != SaidModel && s.Kind != SaidAction || len(all) == mostMeasures {
			return nil
		}
		m := Measure{}
		if schemas.Decode([]byte(s.Text), &m) == nil && m.Took >= 0 {
			m.Kind, m.Ended = s.Kind, s.At.Time
			all = append(all, m)
		}
		return nil
	})
	return all, err
}

// mostMeasures is how many of one attempt are read: the first.
const mostMeasures = 1000
