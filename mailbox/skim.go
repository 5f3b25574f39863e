package mailbox

import (
	"time"

	"mbox/audit"
	"mbox/mailbox/task"
)

// skimmed is what a ledger line means for the queue. Every process asks that of each
// line of all others, so it is taken out of the bytes by position; where a value
// is not just what mbox writes, the line is decoded, and that decides.
type skimmed struct {
	id       ID
	event    audit.Event
	agent    string
	at       time.Time
	moves    bool // it moves the task; the rest is of that
	from, to State
	after    task.Digest
	claim    task.Digest
	key      []byte // hash of an idempotency key
	revision int64
	epoch    int64
	attempt  int64
	until    int64
	queued   bool   // it says how the task waits
	seat     record // with what it says of that
}

// skimmer skims lines.
type skimmer struct {
	names map[string]string // what many lines have in common: agents, types, actions
	last  skimmed           // line

	members []audit.Member // of its queue
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
	k.last = skimmed{id: ID(line.Task()), event: line.Event(), agent: k.name(line.AgentBytes()), at: line.Time()}
}

// decoded fills in what a decoded move says.
func (s *skimmed) decoded(m *task.Move) {
	s.moves, s.from, s.to = true, m.Leaves(), m.Enters()
	s.after, s.claim, s.key = task.DigestOf(task.HashOf(m.After)), task.DigestOf(m.Claim), []byte(m.Key)
	s.revision, s.epoch, s.attempt, s.until = m.Revision, m.Epoch, m.Attempt, task.Millis(m.Until)
	if q := m.Queue; q != nil {
		s.queued = true
		s.seat = record{
			class: class{q.Target, q.Type, q.Action}, priority: task.Rank(q.Priority), created: q.Created.UnixMilli(), max: q.Max,
			notBefore: task.Millis(q.NotBefore), deadline: task.Millis(q.Deadline), dependsOn: q.DependsOn, asked: task.DigestOf(q.Asked),
			parent: q.Parent, born: q.Born, waitsFor: q.WaitsFor, join: q.Join,
		}
	}
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
			s.to, ok = task.StateIn(value)
		case "after":
			if string(value) != "null" {
				s.after, ok = task.DigestIn(value)
			}
		case "claim":
			s.claim, ok = task.DigestIn(value)
		case "key":
			s.key, ok = task.PlainIn(value)
		case "revision":
			s.revision, ok = task.IntIn(value)
		case "epoch":
			s.epoch, ok = task.IntIn(value)
		case "attempt":
			s.attempt, ok = task.IntIn(value)
		case "until":
			s.until, ok = task.MillisIn(value)
		case "queue":
			s.queued, ok = true, k.seat(value)
		case "uid", "pid":
			_, ok = task.IntIn(value)
		case "before":
			ok = task.IsText(value) || string(value) == "null"
		case "reason", "host", "request", "root", "source_sha256", "dropped", "found":
			ok = task.IsText(value)
		case "adopted", "kept", "spent":
			ok = false
		}
		if !ok {
			return false
		}
	}
	s.moves = true
	return tx && s.id != ""
}

// seat fills in what the queue of a move says.
func (k *skimmer) seat(queue []byte) bool {
	r, seen := &k.last.seat, false
	r.priority = task.Rank("")
	k.members = audit.Members(queue, k.members[:0])
	for _, m := range k.members {
		var text []byte
		value, ok := m.Value, true
		switch string(m.Name) {
		case "target", "type", "action", "priority", "join":
			text, ok = task.PlainIn(value)
		}
		switch string(m.Name) {
		case "target":
			r.class.target = k.name(text)
		case "type":
			r.class.typ = k.name(text)
		case "action":
			r.class.action = k.name(text)
		case "priority":
			r.priority = task.Rank(k.name(text))
		case "join":
			r.join = k.name(text)
		case "created":
			seen = true
			r.created, ok = task.MillisIn(value)
		case "not_before":
			r.notBefore, ok = task.MillisIn(value)
		case "deadline":
			r.deadline, ok = task.MillisIn(value)
		case "max_attempts":
			r.max, ok = task.IntIn(value)
		case "asked":
			r.asked, ok = task.DigestIn(value)
		default: // a family, dependencies, or what nobody knows
			ok = false
		}
		if !ok {
			return false
		}
	}
	return seen // the decoder has a time of its own for none
}
