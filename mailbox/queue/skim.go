package queue

import (
	"time"

	"mbox/audit"
	"mbox/mailbox/task"
)

// skimmed is what a ledger line means for the queue. Every process asks that of each
// line of all others, so it is taken out of the bytes by position; where a value
// is not just what mbox writes, the line is decoded, and that decides.
type skimmed struct {
	event  audit.Event
	agent  string
	at     time.Time
	moves  bool // it moves the task; the rest is of that
	from   task.State
	key    []byte // hash of an idempotency key
	queued bool   // it says how the task waits
	Entry         // with what it says of that
}

// skimmer skims lines.
type skimmer struct {
	names map[string]string // what many lines have in common: agents, types, actions
	last  skimmed           // line

	members audit.Members // of its queue
}

// name makes a string once.
func (k *skimmer) name(text []byte) string {
	if name, ok := k.names[string(text)]; ok {
		return name
	}
	if len(k.names) > 4096 || k.names == nil {
		k.names = map[string]string{}
	}
	name := string(text)
	k.names[name] = name
	return name
}

// of skims a sound line. The result is valid until the next.
func (k *skimmer) of(line audit.Line) *skimmed {
	s := &k.last
	k.begin(line)
	if line.Detail("to") == nil || k.skim(line) {
		return s
	}
	k.begin(line)
	e, err := line.Decode()
	if m, ok := task.MoveOf(&e); ok && err == nil {
		s.decoded(m)
	}
	return s
}

func (k *skimmer) begin(line audit.Line) {
	k.last = skimmed{event: line.Event(), agent: k.name(line.AgentBytes()), at: line.Time()}
	k.last.ID = task.ID(line.Task())
}

// decoded fills in what a decoded move says.
func (s *skimmed) decoded(m *task.Move) {
	s.moves, s.from, s.State, s.key = true, m.Leaves(), m.Enters(), []byte(m.Key)
	s.After, s.Claim = task.DigestOf(task.HashOf(m.After)), task.DigestOf(m.Claim)
	s.Revision, s.Epoch, s.Attempt, s.Until = m.Revision, m.Epoch, m.Attempt, task.Millis(m.Until)
	q := m.Queue
	if s.queued = q != nil; !s.queued {
		return
	}
	s.Class, s.Priority, s.Created, s.Max = Class{q.Target, q.Type, q.Action}, task.Rank(q.Priority), q.Created.UnixMilli(), q.Max
	s.NotBefore, s.Deadline, s.Asked = task.Millis(q.NotBefore), task.Millis(q.Deadline), task.DigestOf(q.Asked)
	s.DependsOn, s.Parent, s.Born, s.WaitsFor, s.Join = q.DependsOn, q.Parent, q.Born, q.WaitsFor, q.Join
	s.Paths = q.Paths
}

// skim fills in what a line that has a "to" says; false if decoding has to tell.
func (k *skimmer) skim(line audit.Line) bool {
	s, tx := &k.last, false
	for _, m := range line.Members() {
		value, ok := m.Value, true
		switch string(m.Name) {
		case "tx":
			tx, ok = true, len(value) > 2 && task.IsPlain(value)
		case "from":
			s.from, ok = task.StateIn(value)
		case "to":
			s.State, ok = task.StateIn(value)
		case "after":
			if string(value) != "null" {
				s.After, ok = task.DigestIn(value)
			}
		case "claim":
			s.Claim, ok = task.DigestIn(value)
		case "key":
			s.key, ok = task.PlainIn(value)
		case "revision":
			s.Revision, ok = task.IntIn(value)
		case "epoch":
			s.Epoch, ok = task.IntIn(value)
		case "attempt":
			s.Attempt, ok = task.IntIn(value)
		case "until":
			s.Until, ok = task.MillisIn(value)
		case "queue":
			s.queued, ok = true, k.seat(value)
		case "uid", "pid":
			_, ok = task.IntIn(value)
		case "before":
			ok = task.IsText(value) || string(value) == "null"
		case "reason", "host", "request", "root", "source_sha256", "dropped", "found":
			ok = task.IsText(value)
		case "adopted", "kept", "spent", "checks", "fields":
			ok = false
		}
		if !ok {
			return false
		}
	}
	s.moves = true
	return tx && s.ID != ""
}

// seat fills in what the queue of a move says.
func (k *skimmer) seat(queue []byte) bool {
	e, seen := &k.last.Entry, false
	e.Priority = task.Rank("")
	k.members = audit.MembersOf(queue, k.members[:0])
	for _, m := range k.members {
		var priority string
		value, ok := m.Value, true
		switch string(m.Name) {
		case "target":
			e.Target, ok = k.text(value)
		case "type":
			e.Type, ok = k.text(value)
		case "action":
			e.Action, ok = k.text(value)
		case "join":
			e.Join, ok = k.text(value)
		case "priority":
			priority, ok = k.text(value)
			e.Priority = task.Rank(priority)
		case "created":
			seen = true
			e.Created, ok = task.MillisIn(value)
		case "not_before":
			e.NotBefore, ok = task.MillisIn(value)
		case "deadline":
			e.Deadline, ok = task.MillisIn(value)
		case "max_attempts":
			e.Max, ok = task.IntIn(value)
		case "asked":
			e.Asked, ok = task.DigestIn(value)
		default: // a family, dependencies, paths, or what nobody knows
			ok = false
		}
		if !ok {
			return false
		}
	}
	return seen // the decoder has a time of its own for none
}

// text is a string that stands in many lines.
func (k *skimmer) text(value []byte) (string, bool) {
	inner, ok := task.PlainIn(value)
	return k.name(inner), ok
}
