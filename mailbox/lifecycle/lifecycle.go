// Package lifecycle tells which states an agent can be in, and which of them follow on which.
// It does no I/O: each move is one line of the ledger (event agent_state, [Move]), and the
// state of an agent is what the last of its moves has left. So every process knows it.
//
//	provisioning ──► healthy ◄──► paused ──► draining ──► dead
//
//	provisioning  it is being made, or has not begun to work yet: it claims nothing
//	healthy       it may claim; so may an agent of which the ledger says nothing
//	paused        it claims nothing, and goes on with what it has. It is healthy again by
//	              somebody's word, or when its time is over, of which no line tells
//	draining      it claims nothing more; it is dead when what it has is done
//	dead          it is gone, and its name stays taken
//	renamed       it lives on under another name, in the state that it had; this one
//	              stays taken, and means the same agent
//
// Besides, a healthy agent can be drained, and one that is provisioning; any of them can be
// dead next. A pause may follow on a pause: it has another end, or another reason. A dead
// one that is brought back from the archive is provisioning again. One that is provisioning,
// healthy or paused can be renamed; it may have a name back that it had.
package lifecycle

import (
	"cmp"
	"slices"
	"time"

	"mbox/audit"
	"mbox/mailbox/task"
)

// State is what an agent may do.
type State string

// The states. Unborn is only in the line that begins to make an agent.
const (
	Unborn       State = ""
	Provisioning State = "provisioning"
	Healthy      State = "healthy"
	Paused       State = "paused"
	Draining     State = "draining"
	Dead         State = "dead"
	Renamed      State = "renamed"
)

// moves are the states that may follow on each.
var moves = map[State][]State{
	Unborn:       {Provisioning},
	Provisioning: {Healthy, Draining, Dead, Renamed},
	Healthy:      {Paused, Draining, Dead, Renamed},
	Paused:       {Healthy, Paused, Draining, Dead, Renamed},
	Draining:     {Dead},
	Dead:         {Provisioning},
}

// Legal tells whether an agent can come from one state to another.
func Legal(from, to State) bool { return slices.Contains(moves[from], to) }

// Move is the details of an agent_state line. Who has done it stands in the line.
type Move struct {
	Agent  string     `json:"agent"` // whose state it is
	Before State      `json:"before"`
	After  State      `json:"after"`
	Until  *task.Time `json:"until,omitzero"` // when a pause ends by itself; nil: it does not
	Reason string     `json:"reason"`
	UUID   string     `json:"uuid,omitzero"` // of an agent that is born: it stays whatever the name
	Name   string     `json:"name,omitzero"` // of one that is renamed: what it is called from now on
	// Where the home of a dead agent lies, from the mailbox, and the hash of its manifest.
	Archive  string `json:"archive,omitzero"`
	Manifest string `json:"manifest,omitzero"`
}

// MoveOf is the move that a line tells of; false if it tells of none. A line that no mbox
// has written tells of none, and so does a move that is not legal.
func MoveOf(e *audit.Entry) (m Move, ok bool) {
	if e.Event != audit.AgentState || e.Detail(&m) != nil || task.CheckAgent(m.Agent) != nil {
		return Move{}, false
	}
	if !Legal(m.Before, m.After) || m.Until != nil && m.After != Paused {
		return Move{}, false
	}
	if renames := m.After == Renamed; renames != (m.Name != "") || renames && (task.CheckAgent(m.Name) != nil || m.Name == m.Agent) {
		return Move{}, false
	}
	m.Reason = task.OneLine(m.Reason)
	return m, true
}

// Agent is what the ledger tells of an agent. The zero Agent is one of which it says
// nothing.
type Agent struct {
	State  State      `json:"state" jsonschema:"enum=provisioning,enum=healthy,enum=paused,enum=draining,enum=dead,enum=renamed"`
	Since  task.Time  `json:"since,omitzero"`
	Until  *task.Time `json:"until,omitzero" jsonschema:"description=when a pause ends by itself\\, if it does"`
	By     string     `json:"by,omitzero" jsonschema:"description=who brought it into this state: human\\, or an agent"`
	Reason string     `json:"reason,omitzero"`
	UUID   string     `json:"uuid,omitzero" jsonschema:"description=that it got at its birth"`
	Name   string     `json:"name,omitzero" jsonschema:"description=what an agent is called now that was renamed"`
}

// Fold takes the move of a line in: all are the agents by name.
func Fold(all map[string]Agent, e *audit.Entry, m Move) {
	was := all[m.Agent]
	if m.After == Renamed {
		all[m.Name] = was
	}
	all[m.Agent] = Agent{
		State: m.After, Since: task.At(e.Time()), Until: m.Until, By: e.Agent, Reason: m.Reason,
		UUID: cmp.Or(m.UUID, was.UUID), Name: m.Name,
	}
}

// Called is what the agent is called now that has a name, or had it.
func Called(all map[string]Agent, name string) string {
	for range all { // a name leads to another one at most as often as there are names
		a := all[name]
		if a.State != Renamed {
			break
		}
		name = a.Name
	}
	return name
}

// At is the agent at a time: a pause may be over by then.
func (a Agent) At(now time.Time) Agent {
	if a.State == Unborn || a.State == Paused && a.Until != nil && !now.Before(a.Until.Time) {
		return Agent{State: Healthy, UUID: a.UUID}
	}
	return a
}

// Claims tells whether an agent in this state may claim.
func (a Agent) Claims() bool { return a.State == Healthy }

// Outlasts tells whether a pause ends behind another end; the zero time is none.
func (a Agent) Outlasts(until time.Time) bool {
	return a.State == Paused && (a.Until == nil || !until.IsZero() && !a.Until.Before(until))
}

// String is the state for people: since when, by whom, and why.
func (a Agent) String() string {
	if a.Since.IsZero() {
		return string(a.State)
	}
	text := string(a.State)
	if a.Name != "" {
		text += " to " + a.Name
	}
	text += " since " + a.Since.String() + " by " + a.By
	if a.Until != nil {
		text += ", until " + a.Until.String()
	}
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	return text
}
