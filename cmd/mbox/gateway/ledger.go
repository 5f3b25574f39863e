package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/mailbox"
	"mbox/mailbox/verify"
	"mbox/schemas"
)

func ledgerRoutes() []route {
	var events []string
	for _, e := range audit.Events {
		events = append(events, string(e))
	}
	only := []param{
		{name: "agent", about: "only lines by this agent"},
		{name: "task", about: "only lines about this task"},
		{name: "event", about: "only lines of this event", many: true, form: among(events...)},
	}
	return []route{
		{
			method: "GET", path: "/audit/delegation", about: "who handed what to whom, and what was decided", gives: Delegations{}, do: (*call).delegations,
			query: []param{
				{name: "n", about: "at most so many (100)", form: between(1, mostPage)},
				{name: "tail", about: "the last ones (true), or the first", form: among("true", "false")},
				{name: "task", about: "only those of this task"},
			},
		},
		{
			method: "GET", path: "/audit/entries", about: "lines of the ledger behind since, oldest first", gives: Entries{}, do: (*call).entries,
			query: append([]param{
				{name: "since", about: "seq of the last line that is known; 0: from the beginning", form: seqForm()},
				{name: "n", about: "at most so many (100)", form: between(1, mostPage)},
			}, only...),
		},
		{
			method: "GET", path: "/events", waits: true, about: "the ledger live, as server-sent events; a line's seq is its id", kinds: []string{"text/event-stream"}, do: (*call).events,
			headers: []param{{name: "Last-Event-ID", about: "the same as since, and goes before it: browsers send it when they come again", form: seqForm()}},
			query:   append([]param{{name: "since", about: "seq of the last line that is known, as the header Last-Event-ID says it", form: seqForm()}}, only...),
		},
		{
			method: "GET", path: "/verify", waits: true, about: "prove that ledger and files agree", gives: verify.Report{}, do: (*call).verify,
			query: []param{{name: "ledger_only", about: "only the ledger and the agents' copies", form: among("true", "false")}},
		},
	}
}

func seqForm() form { return form{map[string]any{"type": "integer", "minimum": 0}, isSeq} }

func isSeq(v string) error {
	if n, err := strconv.ParseInt(v, 10, 64); err != nil || n < 0 {
		return fmt.Errorf("%s is no number of a line", schemas.Quote(v))
	}
	return nil
}

// Delegations are what was handed on.
type Delegations struct {
	Count   int               `json:"count"`
	Entries []delegation.View `json:"entries"`
}

func (c *call) delegations() error {
	if err := c.door.finding.take(c.ctx); err != nil {
		return err
	}
	defer c.door.finding.leave()
	found, err := delegation.Find(c.ctx, c.Box.Ledger(), delegation.Query{N: c.number("n", pageSize), Head: c.value("tail") == "false", Task: c.value("task")})
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, Delegations{len(found), slices.Concat([]delegation.View{}, found)})
}

// Entries is a piece of the ledger.
type Entries struct {
	Entries []jsontext.Value `json:"entries" jsonschema:"description=the lines\\, byte for byte"`
	Seq     int64            `json:"seq" jsonschema:"description=of the last line that was looked at: the since of the next piece"`
}

// wants is what a query asks for of the ledger.
func (c *call) wants(f frame) bool {
	task, agent, events := c.value("task"), c.value("agent"), c.query["event"]
	return (agent == "" || f.agent == agent) && (task == "" || strings.EqualFold(f.task, task)) &&
		(len(events) == 0 || slices.Contains(events, f.event))
}

func (c *call) seq(name string) int64 {
	n, _ := strconv.ParseInt(c.value(name), 10, 64) // it was checked
	return n
}

func (c *call) entries() error {
	out := Entries{Entries: []jsontext.Value{}, Seq: c.seq("since")}
	n, size := c.number("n", pageSize), 0
	err := c.linesBehind(out.Seq, func(f frame) bool {
		out.Seq = f.seq
		if c.wants(f) {
			out.Entries = append(out.Entries, jsontext.Value(f.raw))
			size += len(f.raw)
		}
		return len(out.Entries) < n && size < pageBytes
	})
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, out)
}

// nearEnd is how many lines are looked for from the ledger's end backwards, before
// it is read from an earlier place on.
const nearEnd = 10_000

// mostLines is how many lines of the ledger are read for one who looks for some of them,
// before it is the turn of the next. A variable for tests.
var mostLines = 20_000

// linesBehind yields the lines behind seq from the ledger itself, until yield says that
// it is enough, mostLines have come or the ledger ends. yield waits for nobody: others
// wait for their turn.
func (c *call) linesBehind(seq int64, yield func(frame) bool) error {
	if err := c.door.finding.take(c.ctx); err != nil {
		return err
	}
	defer c.door.finding.leave()
	from, err := c.place(seq)
	if err != nil {
		return err
	}
	r := c.Box.Ledger().Read(from)
	defer func() { c.read.put(r.Position()); r.Close() }()
	for n := 0; n < mostLines && c.ctx.Err() == nil; {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if line.Seq <= seq {
			continue
		}
		if n++; !yield(frameOf(line)) {
			return nil
		}
	}
	return c.ctx.Err()
}

// place is one in the ledger from which one soon comes to what is behind seq: where
// somebody has ended, one near the end, or a day's beginning.
func (c *call) place(seq int64) (audit.Position, error) {
	ledger := c.Box.Ledger()
	if at := c.read.before(seq); at.Seq+nearEnd > seq && ledger.Check(at) == nil {
		return at, nil
	}
	looked := 0
	for line, err := range ledger.Backward() {
		if err != nil {
			return audit.Position{}, err
		}
		if line.Seq <= seq {
			return line.End, nil
		}
		if looked++; looked > nearEnd {
			break
		}
	}
	return ledger.Before(seq)
}

// places are those of the ledger to which it was read last, for who reads on. They are
// checked before they count.
type places struct {
	mu   sync.Mutex
	last [64]audit.Position
	next int
}

func (p *places) put(at audit.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[p.next] = at
	p.next = (p.next + 1) % len(p.last)
}

// before is the last place up to a line; the beginning where there is none.
func (p *places) before(seq int64) (best audit.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.last {
		if at.Seq <= seq && at.Seq > best.Seq {
			best = at
		}
	}
	return best
}

// heartbeat is how often a stream of events has a comment, by which both sides see that
// the other is there. A variable for tests.
var heartbeat = 15 * time.Second

// How a stream of events behaves.
const (
	eventBytes  = 32 << 10 // are sent at once
	reconnectMS = 2000     // after so long a client comes again whose stream was cut off
)

// events streams the ledger: what the caller has missed first, then what comes.
func (c *call) events() error {
	at, err := c.begin()
	if err != nil {
		return err
	}
	leave, err := c.stay()
	if err != nil {
		return err
	}
	defer leave()
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	if c.r.Method == http.MethodHead {
		return nil
	}
	out := http.NewResponseController(c.w)
	send := func(data []byte) error {
		if _, err := c.w.Write(data); err != nil {
			return err
		}
		return out.Flush()
	}
	if err := send(fmt.Appendf(nil, "retry: %d\n\n", reconnectMS)); err != nil {
		return nil //nolint:nilerr // he has gone
	}
	c.stream(at, send)
	return nil
}

// begin is the seq behind which a stream begins: what the client saw last, or the
// newest line.
func (c *call) begin() (int64, error) {
	last := c.r.Header.Get("Last-Event-ID")
	if last == "" {
		last = c.value("since")
	}
	if last != "" {
		if err := isSeq(last); err != nil {
			return 0, badRequest("Last-Event-ID: "+err.Error(), "leave it out to begin with what comes now")
		}
		return strconv.ParseInt(last, 10, 64)
	}
	seq, err := c.newest(c.ctx)
	return seq, err
}

// atOnce waits for nothing.
var atOnce = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// stream sends until the client has gone or the mailbox is not served any more. Who is
// far behind has the ledger read for him piece by piece, in turn with others.
func (c *call) stream(at int64, send func([]byte) error) {
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	var batch bytes.Buffer
	put := func(f frame) bool {
		if at = f.seq; c.wants(f) {
			fmt.Fprintf(&batch, "id: %d\ndata: %s\n\n", f.seq, f.raw)
		}
		return batch.Len() < eventBytes
	}
	for {
		if at > c.reached() && begunAnew(c.Box, at) {
			at = 0
		}
		before := at
		lines, grown, ok := c.since(at)
		if !ok && c.linesBehind(at, put) != nil {
			return
		}
		for _, f := range lines {
			if !put(f) {
				break
			}
		}
		if batch.Len() > 0 && send(batch.Bytes()) != nil {
			return
		}
		batch.Reset()
		if at > before { // there may be more at once
			grown = atOnce
		}
		select {
		case <-grown:
		case <-alive.C:
			if send([]byte(": alive\n\n")) != nil {
				return
			}
		case <-c.ctx.Done():
			return
		}
	}
}

// begunAnew tells whether the ledger ends before a line that a client has seen: it is
// another one since (mbox recover --forget-ledger, a restored backup).
func begunAnew(box *mailbox.Box, seen int64) bool {
	end, err := box.Ledger().Newest()
	return err == nil && seen > end.Seq
}

// verify proves the mailbox.
func (c *call) verify() error {
	report, err := c.proven(c.value("ledger_only") == "true")
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, report)
}

// proven proves the mailbox, in turn.
func (c *call) proven(ledgerOnly bool) (verify.Report, error) {
	if err := c.door.proving.take(c.ctx); err != nil {
		return verify.Report{}, err
	}
	defer c.door.proving.leave()
	return verify.Home(c.ctx, c.Box.Home(), verify.Options{LedgerOnly: ledgerOnly, Wait: c.Box.Options().LockWait})
}
