package mailbox

import (
	"bytes"
	"time"

	"mbox/audit"
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
	after    digest
	claim    digest
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
	if m, ok := moveOf(&e); ok && err == nil {
		s.decoded(m)
	}
	return s
}

func (k *skimmer) begin(line audit.Line) {
	k.last = skimmed{id: ID(line.Task()), event: line.Event(), agent: k.name(line.AgentBytes()), at: line.Time()}
}

// decoded fills in what a decoded move says.
func (s *skimmed) decoded(m *move) {
	s.moves, s.from, s.to = true, m.from(), m.to()
	s.after, s.claim, s.key = digestOf(hashOf(m.After)), digestOf(m.Claim), []byte(m.Key)
	s.revision, s.epoch, s.attempt, s.until = m.Revision, m.Epoch, m.Attempt, millis(m.Until)
	if q := m.Queue; q != nil {
		s.queued = true
		s.seat = record{
			class: class{q.Target, q.Type, q.Action}, priority: rank(q.Priority), created: q.Created.UnixMilli(), max: q.Max,
			notBefore: millis(q.NotBefore), deadline: millis(q.Deadline), dependsOn: q.DependsOn, asked: digestOf(q.Asked),
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
			tx, ok = true, len(value) > 2 && isPlain(value)
		case "from":
			s.from, ok = stateIn(value)
		case "to":
			s.to, ok = stateIn(value)
		case "after":
			if string(value) != "null" {
				s.after, ok = digestIn(value)
			}
		case "claim":
			s.claim, ok = digestIn(value)
		case "key":
			s.key, ok = plainIn(value)
		case "revision":
			s.revision, ok = intIn(value)
		case "epoch":
			s.epoch, ok = intIn(value)
		case "attempt":
			s.attempt, ok = intIn(value)
		case "until":
			s.until, ok = millisIn(value)
		case "queue":
			s.queued, ok = true, k.seat(value)
		case "uid", "pid":
			_, ok = intIn(value)
		case "before":
			ok = isText(value) || string(value) == "null"
		case "reason", "host", "request", "root", "source_sha256", "dropped", "found":
			ok = isText(value)
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
	r.priority = rank("")
	k.members = audit.Members(queue, k.members[:0])
	for _, m := range k.members {
		var text []byte
		value, ok := m.Value, true
		switch string(m.Name) {
		case "target", "type", "action", "priority", "join":
			text, ok = plainIn(value)
		}
		switch string(m.Name) {
		case "target":
			r.class.target = k.name(text)
		case "type":
			r.class.typ = k.name(text)
		case "action":
			r.class.action = k.name(text)
		case "priority":
			r.priority = rank(k.name(text))
		case "join":
			r.join = k.name(text)
		case "created":
			seen = true
			r.created, ok = millisIn(value)
		case "not_before":
			r.notBefore, ok = millisIn(value)
		case "deadline":
			r.deadline, ok = millisIn(value)
		case "max_attempts":
			r.max, ok = intIn(value)
		case "asked":
			r.asked, ok = digestIn(value)
		default: // a family, dependencies, or what nobody knows
			ok = false
		}
		if !ok {
			return false
		}
	}
	return seen // the decoder has a time of its own for none
}

func isPlain(value []byte) bool { return isText(value) && bytes.IndexByte(value, '\\') < 0 }

// plainIn reads a string without escapes.
func plainIn(value []byte) ([]byte, bool) {
	if !isPlain(value) {
		return nil, false
	}
	return value[1 : len(value)-1], true
}

// intIn reads an integer in the one way to write it.
func intIn(value []byte) (int64, bool) {
	digits := bytes.TrimPrefix(value, []byte{'-'})
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	return numberIn(value), len(digits) > 0 && len(digits) <= 16
}

// millisIn reads a time as mbox writes it, with up to three decimals.
func millisIn(value []byte) (int64, bool) {
	text, ok := plainIn(value)
	if !ok || len(text) < len("2006-01-02T15:04:05Z") || text[len(text)-1] != 'Z' {
		return 0, false
	}
	ts := [...]byte{19: '.', '0', '0', '0', 'Z'}
	if n := len(text) - 1; n > 19 && (n < 21 || n > 23) {
		return 0, false
	}
	copy(ts[:23], text[:len(text)-1])
	at, ok := audit.ParseTime(ts[:])
	return at.UnixMilli(), ok && at.Year() > 0
}
