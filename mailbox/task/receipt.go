package task

import (
	"strings"

	"mbox/audit"
)

// Bridge is how the agent name of a bridge begins.
const Bridge = "bridge:"

// Leg is how far a result has come on its way back to who asked.
type Leg string

// The legs, in their order. A result counts as delivered from Retained on, one of several parts with its last.
const (
	Stored       Leg = "stored"       // it is to be sent, in so many parts; said again by a person: once more
	Intent       Leg = "intent"       // a part is about to be sent
	Retained     Leg = "retained"     // it stays with the task: its bridge has no way back
	Notified     Leg = "notified"     // the channel has the part; with the last one the whole
	Seen         Leg = "seen"         // who asked has read it, as the channel says
	Acknowledged Leg = "acknowledged" // who asked, or an operator, says that it came
)

// Undelivered is the alarm about a result that was given up: a dead letter. Its line
// is an error, and its details are those of a [Receipt], too.
const Undelivered = "undelivered"

// Receipt is the details of a result_delivered line. The result's text, and whom it
// goes to, stand in the task alone.
type Receipt struct {
	Leg     Leg    `json:"leg"`
	End     int64  `json:"end"`              // seq of the line that ended the task: one that is retried ends again
	Epoch   int64  `json:"epoch"`            // of the task then
	Channel string `json:"channel,omitzero"` // the kind of chat system
	Key     string `json:"key,omitzero"`     // the notice's, the same for each try
	Part    int    `json:"part,omitzero"`    // from 1
	Parts   int    `json:"parts,omitzero"`
	Message string `json:"message,omitzero"` // the channel's id for it
}

// Delivers tells whether with this receipt the result counts as delivered.
func (r *Receipt) Delivers() bool {
	switch r.Leg {
	case Notified:
		return r.Part == r.Parts
	case Retained, Seen, Acknowledged:
		return true
	}
	return false
}

// ReceiptOf is the receipt that a line holds; nil if it holds none.
func ReceiptOf(e *audit.Entry) *Receipt {
	var d struct {
		Alarm string `json:"alarm"`
		Receipt
	}
	if e.Event != audit.ResultDelivered && e.Event != audit.ErrorEvent || e.Detail(&d) != nil || d.End == 0 {
		return nil
	}
	if e.Event == audit.ErrorEvent && d.Alarm != Undelivered {
		return nil
	}
	return &d.Receipt
}

// AskedByBridge tells whether the line made its task because a bridge sent it. A
// drop that names a bridge as its source is admitted by mbox, and a child is made by
// the agent that handed it on: neither has anybody to whom its result is delivered.
func AskedByBridge(e *audit.Entry, m *Move) bool {
	child := m.Queue != nil && m.Queue.Parent != ""
	return e.Event == audit.TaskCreated && m.Leaves() == None && strings.HasPrefix(e.Agent, Bridge) && !child
}
