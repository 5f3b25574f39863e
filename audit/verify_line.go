package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// parsed is a line taken apart. In one that is proven to be canonical the parts
// are the JSON values as they stand there; else proven is false, and only what
// the chain needs is known.
type parsed struct {
	proven                        bool
	action, agent, details, event []byte
	session, task, ts             []byte
	seq                           int64
	prev                          []byte
	sum                           string // "" if it does not match
}

var errMember = errors.New("a field is missing, unknown or malformed")

// parseLine checks a line's checksum and takes it apart. It proves in one pass
// without a copy that the line has exactly the fields of an entry and is in
// canonical form. What that pass cannot prove is left to entry, which then says
// why, or proves it in another way.
//
// raw is changed and restored meanwhile.
func parseLine(raw []byte) (l parsed, err error) {
	cut := len(raw) - suffixSize
	if cut < 1 || len(raw) > MaxLine {
		return l, errNoSuffix
	}
	c := cursor{b: raw[:cut]}
	l.action = c.member(`{"action":`, '"')
	l.agent = c.member(`,"agent":`, '"')
	l.details = c.member(`,"details":`, '{')
	l.event = c.member(`,"event":`, '"')
	prev := c.member(`,"prev":`, '"')
	seq := c.member(`,"seq":`, '0')
	l.session = c.member(`,"session":`, 'n')
	l.task = c.member(`,"task_id":`, 'n')
	l.ts = c.member(`,"ts":`, '"')
	if c.failed || string(c.b[c.at:]) != `,"v":1` || len(prev) != 73 || len(seq) > 16 {
		seq, prev, sum, err := skim(raw)
		return parsed{seq: seq, prev: []byte(prev), sum: sum}, err
	}
	if l.sum, err = checksum(raw, cut); err != nil {
		return parsed{}, err
	}
	l.prev = inner(prev)
	for _, digit := range seq {
		l.seq = 10*l.seq + int64(digit-'0')
	}
	l.proven = true
	return l, nil
}

// checksum returns the line's checksum if it is the right one. What is hashed
// is the line without its suffix, closed by a brace.
func checksum(raw []byte, cut int) (string, error) {
	was := raw[cut]
	raw[cut] = '}'
	digest := sha256.Sum256(raw[:cut+1])
	raw[cut] = was
	var want [suffixSize]byte
	copy(want[:], suffixKey+"sha256:")
	hex.Encode(want[len(suffixKey)+7:], digest[:])
	copy(want[suffixSize-2:], `"}`)
	switch {
	case bytes.Equal(raw[cut:], want[:]):
		return string(want[len(suffixKey) : suffixSize-2]), nil
	case bytes.HasPrefix(raw[cut:], []byte(suffixKey)) && bytes.HasSuffix(raw, []byte(`"}`)):
		return "", errChecksum
	}
	return "", errNoSuffix
}

// entry makes the entry of a line of the chain, or says why it is none.
func (v *verification) entry(l *parsed, line Line) (Entry, error) {
	if !l.proven {
		return strictly(line)
	}
	agent, err := v.agent(l.agent)
	if err != nil {
		return Entry{}, err
	}
	event, ok := eventNames[string(inner(l.event))]
	switch {
	case !ok:
		return Entry{Agent: agent}, fmt.Errorf("event %s is unknown", l.event)
	case !validTS(inner(l.ts)):
		return Entry{Agent: agent}, fmt.Errorf("ts %s is not UTC with three decimals", l.ts)
	}
	e := Entry{Agent: agent, Details: l.details, Event: event, Prev: v.at.Checksum, Seq: l.seq, V: Format, Checksum: l.sum}
	if v.lost {
		e.Prev = string(l.prev)
	}
	v.fillIn(&e, l)
	return e, nil
}

// fillIn makes the strings of an entry, of one piece of memory.
func (v *verification) fillIn(e *Entry, l *parsed) {
	var ends [4]int
	v.text = v.text[:0]
	for i, value := range [][]byte{l.action, l.session, l.task, l.ts} {
		switch {
		case bytes.IndexByte(value, '\\') >= 0:
			v.text, _ = jsontext.AppendUnquote(v.text, value) // canonical, so it can be unquoted
		case value[0] == '"':
			v.text = append(v.text, inner(value)...)
		}
		ends[i] = len(v.text)
	}
	all := string(v.text)
	e.Action, e.TS = all[:ends[0]], all[ends[2]:]
	if l.session[0] == '"' {
		e.Session = new(all[ends[0]:ends[1]])
	}
	if l.task[0] == '"' {
		e.TaskID = new(all[ends[1]:ends[2]])
	}
}

// agent is the agent's name, checked once.
func (v *verification) agent(value []byte) (string, error) {
	if known, ok := v.agents[string(value)]; ok {
		return known, nil
	}
	name := string(inner(value))
	if !agentForm.MatchString(name) || name == "shared" {
		return "", fmt.Errorf("agent %s is no proper name", value)
	}
	v.agents[string(value)] = name
	return name, nil
}

var eventNames = func() map[string]Event {
	names := make(map[string]Event, len(Events))
	for _, e := range Events {
		names[string(e)] = e
	}
	return names
}()

// strictly makes the entry of a line that has no plain proof.
func strictly(line Line) (Entry, error) {
	e, err := line.checkStrictly()
	if err != nil {
		return Entry{}, err
	}
	if !agentForm.MatchString(e.Agent) {
		return Entry{}, fmt.Errorf("agent %q is no proper name", e.Agent)
	}
	return e, nil
}

// inner is what stands between the quotes.
func inner(value []byte) []byte { return value[1 : len(value)-1] }

// validTS tells whether a ts is in the one form that it has: the parser of
// package time also takes hours of one digit and a comma.
func validTS(ts []byte) bool {
	const form = "0000-00-00T00:00:00.000Z"
	if len(ts) != len(form) {
		return false
	}
	for i := range form {
		if digit := ts[i] >= '0' && ts[i] <= '9'; digit != (form[i] == '0') || !digit && ts[i] != form[i] {
			return false
		}
	}
	two := func(i int) int { return int(ts[i]-'0')*10 + int(ts[i+1]-'0') }
	month, day := time.Month(two(5)), two(8)
	if month < 1 || month > 12 || day < 1 || two(11) > 23 || two(14) > 59 || two(17) > 59 {
		return false
	}
	return day <= 28 || time.Date(100*two(0)+two(2), month, day, 0, 0, 0, 0, time.UTC).Day() == day
}
