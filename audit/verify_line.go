package audit

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	sum                           []byte // nil if it does not match
	members                       []Member
}

var errMember = errors.New("a field is missing, unknown or malformed")

// parse checks a line's checksum and takes it apart. It proves in one pass
// without a copy that the line has exactly the fields of an entry and is in
// canonical form. What that pass cannot prove is left to entry, which then says
// why, or proves it in another way.
//
// raw is changed and restored meanwhile. What l holds afterwards lies in raw.
func (l *parsed) parse(raw []byte) (err error) {
	*l = parsed{members: l.members[:0]}
	cut := len(raw) - suffixSize
	if cut < 1 || len(raw) > MaxLine {
		return errNoSuffix
	}
	c := cursor{b: raw[:cut]}
	l.action = c.text(`{"action":`)
	l.agent = c.text(`,"agent":`)
	l.details = c.object(`,"details":`, &l.members)
	l.event = c.text(`,"event":`)
	prev := c.text(`,"prev":`)
	seq := c.positive(`,"seq":`)
	l.session = c.optional(`,"session":`)
	l.task = c.optional(`,"task_id":`)
	l.ts = c.text(`,"ts":`)
	if c.failed || string(c.b[c.at:]) != `,"v":1` || len(prev) != 73 || bytes.IndexByte(prev, '\\') >= 0 || len(seq) > 16 {
		return l.skim(raw)
	}
	if l.sum, err = checksum(raw, cut); err != nil {
		return err
	}
	l.prev = inner(prev)
	for _, digit := range seq {
		l.seq = 10*l.seq + int64(digit-'0')
	}
	l.proven = true
	return nil
}

// skim takes out of a line only what the chain needs.
func (l *parsed) skim(raw []byte) error {
	seq, prev, sum, err := skim(raw)
	*l = parsed{members: l.members[:0], seq: seq, prev: []byte(prev)}
	if err == nil {
		l.sum = []byte(sum)
	}
	return err
}

// checksum returns the line's checksum if it is the right one. What is hashed
// is the line without its suffix, closed by a brace.
func checksum(raw []byte, cut int) ([]byte, error) {
	was := raw[cut]
	raw[cut] = '}'
	digest := sha256.Sum256(raw[:cut+1])
	raw[cut] = was
	suffix, ok := bytes.CutPrefix(raw[cut:], []byte(suffixKey))
	if !ok || string(suffix[len(suffix)-2:]) != `"}` {
		return nil, errNoSuffix
	}
	sum := suffix[:len(suffix)-2]
	var said [sha256.Size]byte
	if string(sum[:7]) != "sha256:" || !Unhex(said[:], sum[7:]) || said != digest {
		return nil, errChecksum
	}
	return sum, nil
}

// read makes the entry of a line of the chain, or says why it is none.
func (v *verification) read(l *parsed, line *Line, e *Entry) (err error) {
	*e = Entry{}
	if !l.proven {
		*e, err = strictly(line)
		return err
	}
	if e.Agent, err = v.agent(l.agent); err != nil {
		return err
	}
	event := slices.IndexFunc(Events, func(e Event) bool { return string(e) == string(inner(l.event)) })
	switch {
	case event < 0:
		return fmt.Errorf("event %s is unknown", l.event)
	case !v.validTS(inner(l.ts)):
		return fmt.Errorf("ts %s is not UTC with three decimals", l.ts)
	}
	e.Details, e.Event, e.Prev, e.Seq, e.V, e.Checksum = l.details, Events[event], v.at.Checksum, l.seq, Format, line.Checksum
	if v.lost {
		e.Prev = string(l.prev)
	}
	v.fillIn(e, l)
	return nil
}

// fillIn makes the strings of an entry.
func (v *verification) fillIn(e *Entry, l *parsed) {
	e.Action, e.TS = v.string(l.action), v.string(l.ts)
	if l.session[0] == '"' {
		v.session = v.string(l.session)
		e.Session = &v.session
	}
	if l.task[0] == '"' {
		v.task = v.string(l.task)
		e.TaskID = &v.task
	}
}

// string decodes a JSON string, which is canonical.
func (v *verification) string(value []byte) string {
	if bytes.IndexByte(value, '\\') < 0 {
		return v.texts.add(inner(value))
	}
	v.unquoted, _ = jsontext.AppendUnquote(v.unquoted[:0], value) // canonical, so it can be unquoted
	return v.texts.add(v.unquoted)
}

// texts makes strings, many in one piece of memory: one that is kept keeps its
// neighbours too.
type texts struct{ piece strings.Builder }

func (t *texts) add(text []byte) string {
	begin := t.piece.Len()
	if t.piece.Cap()-begin < len(text) {
		t.piece.Reset()
		t.piece.Grow(max(16<<10, len(text)))
		begin = 0
	}
	t.piece.Write(text)
	return t.piece.String()[begin:]
}

// agent is the agent's name, checked once.
func (v *verification) agent(value []byte) (string, error) {
	if known, ok := v.agents[string(value)]; ok {
		return known, nil
	}
	name := string(inner(value))
	if !agentForm().MatchString(name) || name == "shared" {
		return "", fmt.Errorf("agent %s is no proper name", value)
	}
	v.agents[string(value)] = name
	return name, nil
}

// strictly makes the entry of a line that has no plain proof.
func strictly(line *Line) (Entry, error) {
	e, err := line.checkStrictly()
	if err != nil {
		return Entry{}, err
	}
	if !agentForm().MatchString(e.Agent) {
		return Entry{}, fmt.Errorf("agent %q is no proper name", e.Agent)
	}
	return e, nil
}

// inner is what stands between the quotes.
func inner(value []byte) []byte { return value[1 : len(value)-1] }

// validTS is the function of that name, which most lines are spared: their ts is
// in the same second as the one before.
func (v *verification) validTS(ts []byte) bool {
	n := len(v.second)
	if len(ts) == n+len("000Z") && string(ts[:n]) == string(v.second[:]) && ts[n+3] == 'Z' {
		return isDigit(ts[n]) && isDigit(ts[n+1]) && isDigit(ts[n+2])
	}
	if !validTS(ts) {
		return false
	}
	copy(v.second[:], ts)
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// validTS tells whether a ts is in the one form that it has: the parser of
// package time also takes hours of one digit and a comma.
func validTS(ts []byte) bool {
	const form = "0000-00-00T00:00:00.000Z"
	if len(ts) != len(form) {
		return false
	}
	for i := range form {
		if digit := isDigit(ts[i]); digit != (form[i] == '0') || !digit && ts[i] != form[i] {
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
