package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/schemas"
)

// Line is one line of the ledger as it stands on disk. What is asked of it is
// taken out of its bytes by position where they are proven to be an entry in
// canonical form, and by the JSON decoder where not; both give the same.
type Line struct {
	Raw      []byte   // without the newline; valid until the reader's next step
	At       Position // where the line begins, and the chain before it
	End      Position // behind its newline, and the chain after it
	Seq      int64
	Checksum string
	parts    *parsed // of Raw, valid as long; nil if nobody has looked yet
}

// parsed is a line taken apart. If it is proven, the parts are the JSON values as
// they stand in an entry that Decode takes; else only what the chain needs is known.
type parsed struct {
	proven                        bool
	action, agent, details, event []byte
	session, task, ts             []byte
	seq                           int64
	prev                          []byte
	sum                           []byte // nil if it does not match
	members                       Members
	known                         Event

	decoded bool // what is not proven was given to the decoder
	entry   Entry
	bad     error
}

// ErrNoLine says that bytes do not even end as a line does.
var ErrNoLine = errors.New("no checksum suffix")

var (
	errChecksum = errors.New("checksum does not match")
	errLink     = errors.New("prev or seq missing")
	errMember   = errors.New("a field is missing, unknown or malformed")
)

// parse checks a line's checksum and takes it apart, in one pass without a copy.
// raw is changed and restored meanwhile; what l holds afterwards lies in raw.
func (l *parsed) parse(raw []byte) (err error) {
	*l = parsed{members: l.members[:0]}
	cut := len(raw) - suffixSize
	if cut < 1 || len(raw) > MaxLine {
		return ErrNoLine
	}
	sum, err := checksum(raw, cut)
	if err != nil {
		return err
	}
	if !l.prove(raw[:cut]) {
		*l = parsed{members: l.members[:0]}
		var link struct {
			Prev string `json:"prev"`
			Seq  int64  `json:"seq"`
		}
		if json.Unmarshal(raw, &link, jsontext.AllowDuplicateNames(true)) != nil || link.Prev == "" {
			return errLink
		}
		l.prev, l.seq = []byte(link.Prev), link.Seq
	}
	l.sum = sum
	return nil
}

// prove takes apart a line without its suffix, if it can prove that the line has
// exactly the fields of an entry, in canonical form and with values that Decode
// takes.
func (l *parsed) prove(body []byte) bool {
	c := cursor{b: body}
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
		return false
	}
	l.prev = inner(prev)
	for _, digit := range seq {
		l.seq = 10*l.seq + int64(digit-'0')
	}
	l.known = eventOf(inner(l.event))
	_, isTime := ParseTime(inner(l.ts))
	l.proven = l.known != "" && properName(l.agent) && isTime
	return l.proven
}

// properName tells whether a JSON string can be who wrote a line.
func properName(value []byte) bool {
	return len(value) > 2 && bytes.IndexByte(value, '\\') < 0 && string(value) != `"shared"`
}

// checksum returns the line's checksum if it is the right one. What is hashed
// is the line without its suffix, closed by a brace.
func checksum(raw []byte, cut int) ([]byte, error) {
	suffix, ok := bytes.CutPrefix(raw[cut:], []byte(suffixKey))
	if !ok || string(suffix[len(suffix)-2:]) != `"}` {
		return nil, ErrNoLine
	}
	was := raw[cut]
	raw[cut] = '}'
	digest := sha256.Sum256(raw[:cut+1])
	raw[cut] = was
	sum := suffix[:len(suffix)-2]
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], digest[:])
	if string(sum[:7]) != "sha256:" || string(sum[7:]) != string(text[:]) {
		return nil, errChecksum
	}
	return sum, nil
}

// continues says why the line does not continue the chain at p; nil if it does.
func (l *parsed) continues(p Position) error {
	switch {
	case string(l.prev) != p.Checksum:
		return fmt.Errorf("prev is not the checksum of the line before, seq %d", p.Seq)
	case l.seq != p.Seq+1:
		return fmt.Errorf("seq %d after %d", l.seq, p.Seq)
	}
	return nil
}

// skim checks a line's checksum and returns what chains it.
func skim(raw []byte) (seq int64, prev, checksum string, err error) {
	var l parsed
	if err := l.parse(raw); err != nil {
		return 0, "", "", err
	}
	return l.seq, string(l.prev), string(l.sum), nil
}

// taken is the line taken apart. One that is not proven has been decoded.
func (l Line) taken() *parsed {
	p := l.parts
	if p == nil {
		p = new(parsed)
		p.prove(l.Raw[:max(len(l.Raw)-suffixSize, 0)])
	}
	if !p.proven && !p.decoded {
		p.decoded = true
		p.entry, p.bad = decode(l.Raw)
		e := &p.entry
		p.agent, p.known, p.ts, p.task = appendString(nil, e.Agent), e.Event, appendString(nil, e.TS), appendOptional(nil, e.TaskID)
		p.members = MembersOf(e.Details, nil)
	}
	return p
}

// Sound tells whether Decode takes the line. Of one that it does not take, what
// follows may be missing.
func (l Line) Sound() error { return l.taken().bad }

// Damaged is ErrDamaged where nobody can decode the line.
func (l Line) Damaged() error {
	if bad := l.Sound(); bad != nil {
		return fmt.Errorf("%w: ledger seq %d: %w", ErrDamaged, l.Seq, bad)
	}
	return nil
}

// Agent is the line's agent.
func (l Line) Agent() string { return unquoted(l.taken().agent) }

// AgentBytes is Agent where that is a proper name, valid as long as Raw.
func (l Line) AgentBytes() []byte { return inner(l.taken().agent) }

// Event is the line's event.
func (l Line) Event() Event { return l.taken().known }

// Task is the line's task id, "" where there is none.
func (l Line) Task() string { return unquoted(l.taken().task) }

// Of tells whether the line is about the task.
func (l Line) Of(id string) bool {
	task := l.taken().task
	if bytes.IndexByte(task, '\\') >= 0 {
		return id != "" && unquoted(task) == id
	}
	return id != "" && task[0] == '"' && string(inner(task)) == id
}

// TS is the line's ts, valid as long as Raw.
func (l Line) TS() []byte { return inner(l.taken().ts) }

// Time is the line's ts as a time.
func (l Line) Time() time.Time {
	at, _ := ParseTime(l.TS())
	return at
}

// Members are those of the line's details, valid as long as Raw.
func (l Line) Members() Members { return l.taken().members }

// MembersOf appends the members of a JSON object; none of what is no object.
func MembersOf(object []byte, to Members) Members {
	if found := to; objectAt(object, &found) {
		return found
	}
	var members map[string]jsontext.Value
	_ = json.Unmarshal(object, &members) // see above
	for name, value := range members {
		to = append(to, Member{[]byte(name), value})
	}
	return to
}

// Detail is the JSON value of a member of the line's details, nil if there is none.
func (l Line) Detail(name string) []byte { return l.Members().Get(name) }

// Text is a member of the line's details that is a string, "" if there is none.
func (l Line) Text(name string) string { return l.Members().Text(name) }

// Decode makes the line's entry. The line has passed its checksum; Decode also
// refuses unknown events, missing fields and a ts in another form.
func (l Line) Decode() (Entry, error) {
	p := l.taken()
	if p.decoded {
		return p.entry, p.bad
	}
	e := Entry{
		Action: unquoted(p.action), Agent: l.Agent(), Details: bytes.Clone(p.details), Event: p.known, Prev: string(p.prev), Seq: p.seq,
		TS: string(inner(p.ts)), V: Format, Checksum: string(l.Raw[len(l.Raw)-73 : len(l.Raw)-2]),
	}
	if p.session[0] == '"' {
		session := unquoted(p.session)
		e.Session = &session
	}
	if p.task[0] == '"' {
		task := unquoted(p.task)
		e.TaskID = &task
	}
	return e, nil
}

// decode is Decode by the JSON decoder.
func decode(raw []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(raw, &e, json.RejectUnknownMembers(true)); err != nil {
		return e, err
	}
	_, isTime := ParseTime([]byte(e.TS))
	switch {
	case eventOf([]byte(e.Event)) == "":
		return e, fmt.Errorf("event %q is unknown", e.Event)
	case e.V != Format:
		return e, fmt.Errorf("line format %d is unknown, this mbox knows %d", e.V, Format)
	case e.Agent == "" || e.Agent == "shared":
		return e, fmt.Errorf("agent %q is no proper name", e.Agent)
	case !isTime:
		return e, fmt.Errorf("ts %q is not UTC with three decimals", e.TS)
	case len(e.Details) == 0 || e.Details[0] != '{':
		return e, errors.New("details are no object")
	case e.Prev == "", e.Seq < 1, e.Checksum == "":
		return e, errMember
	}
	// JSON makes no difference between a null and a field that is missing, and the
	// ledger does: only session and task_id may be null, and all are there.
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(raw, &fields); err != nil || len(fields) != 11 || fields["action"].Kind() != '"' {
		return e, errMember
	}
	return e, nil
}

// Strict is what may be asked of a line beyond its checksum: that it has the
// canonical form, and is Sound.
func (l Line) Strict() error {
	if l.taken().proven {
		return nil
	}
	body := append(bytes.Clone(l.Raw[:len(l.Raw)-suffixSize]), '}')
	if err := schemas.CheckCanonical(body); err != nil {
		return fmt.Errorf("not in canonical form: %w", err)
	}
	return l.Sound()
}

// inner is what stands between the quotes.
func inner(value []byte) []byte { return value[1 : len(value)-1] }

// unquoted decodes a JSON string, "" for anything else.
func unquoted(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(inner(value))
	}
	text, _ := jsontext.AppendUnquote(nil, value) // it is one, so it can be unquoted
	return string(text)
}

// ParseTime reads a time in the one form of a ts: RFC 3339 in UTC, with exactly
// three decimals.
func ParseTime(ts []byte) (at time.Time, ok bool) {
	if len(ts) != len(timeLayout) || ts[19] != '.' || ts[23] != 'Z' {
		return at, false
	}
	err := at.UnmarshalText(ts) // takes no hour of one digit and no comma
	return at, err == nil
}
