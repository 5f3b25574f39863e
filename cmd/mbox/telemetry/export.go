// Package telemetry tells an OTLP server what tasks did, as OpenTelemetry traces: each
// task is a trace, whose root span is the task and whose other spans are its attempts,
// what was done in them, and approvals. A child's trace links to the attempt that made
// it: a tree may live for weeks, and a trace of weeks is shown by no tool.
//
// The spans are made of the ledger, behind what happens: nobody waits for the server,
// and no task fails by it. The place in the ledger is kept after the server has taken
// what is before it, so it is told at least once whatever dies; identifiers follow from
// the mailbox, the task and the claim, so what is told twice is the same span.
//
// No span has a title, a text, an output or a reason that somebody wrote: ids, agents,
// models, names of actions and errors, counts and times.
package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
	"mbox/agents/chat/web"
	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Options of an Exporter.
type Options struct {
	Box      *mailbox.Box
	Endpoint string        // of the server: /v1/traces is below it
	Settings chat.Settings // CA and Insecure count, and Token: the headers, as name=value,name=value
	Version  string        // of mbox
	Log      func(format string, args ...any)

	Pause time.Duration // before the second try, then longer each time; 1 s
}

// Exporter follows the ledger of a mailbox.
type Exporter struct {
	o      Options
	ids    ids
	server *web.Server
	header http.Header

	place Place // up to where spans were made
	kept  Place // up to where the server has them
	spans []span
}

// Place is what is kept of an export.
type Place struct {
	Format  int             `json:"format"` // 1
	At      audit.Position  `json:"at"`
	Open    map[string]open `json:"open,omitempty"`
	Sent    int64           `json:"sent"`             // spans that the server took
	Dropped int64           `json:"dropped"`          // that it refused, or of which the beginning was forgotten
	Fault   string          `json:"fault,omitzero"`   // why it does not take them now, or refused some last
	Since   task.Time       `json:"since,omitzero"`   // when that began
	Waiting bool            `json:"waiting,omitzero"` // they are kept, and sent when it takes them
}

const (
	file     = "otlp.traces"
	maxPlace = 1 << 20
	batch    = 256              // spans of a request
	patience = 10 * time.Second // for an answer
	maxPause = time.Minute      // between two tries
)

// New makes an exporter, and opens no connection. An error that is chat.ErrSetup says
// what is wrong with the settings.
func New(o Options) (*Exporter, error) {
	o.Pause = cmp.Or(o.Pause, time.Second)
	e := &Exporter{o: o}
	var err error
	if e.header, err = headers(o.Settings.Token); err != nil {
		return nil, err
	}
	if o.Box != nil {
		e.ids = ids{o.Box.MailboxID()}
	}
	e.server, err = web.Connect(o.Settings, o.Endpoint)
	return e, err
}

var headerName = schemas.Pattern("^[A-Za-z0-9!#$%&'*+.^_|~-]{1,128}$")

// headers reads what OTEL_EXPORTER_OTLP_HEADERS holds elsewhere: name=value, with
// commas between, and values in percent-encoding. An error shows nothing of it.
func headers(text string) (http.Header, error) {
	h := http.Header{}
	if text == "" {
		return h, nil
	}
	for i, part := range strings.Split(text, ",") {
		name, coded, ok := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		content, err := url.PathUnescape(strings.TrimSpace(coded))
		bad := func(r rune) bool { return r < ' ' || r == 0x7f }
		if !ok || err != nil || !headerName().MatchString(name) || strings.ContainsFunc(content, bad) {
			return nil, fmt.Errorf("%w: telemetry: header %d is not in the form name=value,name=value, with values in percent-encoding", chat.ErrSetup, i+1)
		}
		h.Add(name, content)
	}
	return h, nil
}

// Run exports until ctx ends. mailbox.ErrBusy says that another process does, and
// chat.ErrSetup that the server wants other settings: nothing is lost then.
func (e *Exporter) Run(ctx context.Context) error {
	lock, err := chat.Hold(e.o.Box, file)
	if err != nil {
		return err
	}
	if err = e.restore(ctx); err == nil {
		err = chat.Follow(ctx, e.o.Box, e.place.At, e.heed, e.flush)
	}
	if errors.Is(err, audit.ErrMoved) { // another ledger was begun
		err = e.restart(ctx)
	}
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, lock.Unlock())
}

func (e *Exporter) heed(ctx context.Context, line audit.Line) error {
	if err := e.fold(ctx, line); err != nil {
		return err
	}
	e.place.At = line.End
	if len(e.spans) < batch && line.Seq-e.kept.At.Seq < linesBetween {
		return nil
	}
	return e.flush(ctx)
}

// linesBetween is after how many lines without a span the place is kept all the same.
const linesBetween = 10_000

// flush sends what there is, and keeps the place behind it.
func (e *Exporter) flush(ctx context.Context) error {
	if len(e.spans) == 0 && e.place.At.Seq-e.kept.At.Seq < linesBetween {
		return nil
	}
	if err := e.o.Box.Ledger().Flushed(ctx); err != nil {
		return err
	}
	if len(e.spans) > 0 {
		if err := e.send(ctx); err != nil {
			return err
		}
	}
	e.spans = nil
	e.kept = e.place
	e.kept.Open = maps.Clone(e.place.Open)
	return e.keep(ctx)
}

// send tries until the server has the spans, or refuses them for good.
func (e *Exporter) send(ctx context.Context) error {
	body, err := json.Marshal(e.request(), json.Deterministic(true))
	if err != nil {
		return err
	}
	for tries := 1; ; tries++ {
		refused, err := e.post(ctx, body)
		var wait *chat.WaitError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			e.place.Sent += int64(len(e.spans))
			e.place.Fault, e.place.Since, e.place.Waiting = "", task.Time{}, false
			return nil
		case errors.Is(err, chat.ErrRefused):
			e.place.Sent += int64(len(e.spans)) - refused
			e.place.Dropped += refused
			e.blame(&e.place, err, false)
			e.o.Log("telemetry: %d spans are dropped: %v", refused, err)
			return nil
		case errors.Is(err, chat.ErrSetup) || tries == 1:
			e.blame(&e.kept, err, true)
			if fault := e.keep(ctx); fault != nil {
				return fault
			}
			if errors.Is(err, chat.ErrSetup) {
				return err
			}
			e.o.Log("telemetry: %v; it is tried again, and nothing is lost", err)
		}
		pause := min(e.o.Pause<<min(tries-1, 16), maxPause)
		pause = pause/2 + rand.N(pause/2+1)
		if errors.As(err, &wait) {
			pause = max(wait.For, pause)
		}
		if !chat.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// blame notes why the server does not take spans.
func (e *Exporter) blame(p *Place, err error, waiting bool) {
	if p.Since.IsZero() || p.Waiting != waiting {
		p.Since = task.At(time.Now())
	}
	p.Fault, p.Waiting = task.OneLine(schemas.Sentence(err.Error(), 200)), waiting
}

func (e *Exporter) request() request {
	var about attributes
	about.text(serviceName, "mbox")
	about.text(serviceVersion, e.o.Version)
	about.text(serviceInstanceID, e.ids.mailbox)
	return request{[]resourceSpans{{resource{about}, []scopeSpans{{scope{"mbox", e.o.Version}, e.spans}}}}}
}

// post sends one request. Of an error that is chat.ErrRefused it tells how many spans
// the server will never take; chat.ErrSetup is for a person to mend, and any other may
// pass.
func (e *Exporter) post(ctx context.Context, body []byte) (refused int64, err error) {
	ctx, end := context.WithTimeout(ctx, patience)
	defer end()
	r := e.server.Request(ctx, http.MethodPost, body, "v1", "traces")
	for name, values := range e.header {
		r.Header[name] = values
	}
	answer, err := e.server.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	switch code := answer.StatusCode; {
	case code/100 == 2 && err != nil:
		return 0, fmt.Errorf("%s: its answer: %w", e.server.Host(), err)
	case code/100 == 2:
		return e.partly(data)
	case code == http.StatusTooManyRequests, code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return 0, &chat.WaitError{For: web.Pause(answer), Err: fmt.Errorf("%s answers %d", e.server.Host(), code)}
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusNotFound, code == http.StatusMethodNotAllowed:
		return 0, fmt.Errorf("%w: %s answers %d: endpoint or headers in [telemetry] are wrong", chat.ErrSetup, e.server.Host(), code)
	default:
		return int64(len(e.spans)), fmt.Errorf("%w: %s answers %d", chat.ErrRefused, e.server.Host(), code)
	}
}

// partly reads how many spans were refused of a request that was taken. A server that
// answers anything else than OTLP's JSON has taken all.
func (e *Exporter) partly(data []byte) (int64, error) {
	var answer struct {
		Partial struct {
			Rejected jsontext.Value `json:"rejectedSpans"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(data, &answer) != nil {
		return 0, nil
	}
	n, err := strconv.ParseInt(strings.Trim(string(answer.Partial.Rejected), `"`), 10, 64)
	if err != nil || n <= 0 {
		return 0, nil
	}
	return min(n, int64(len(e.spans))), fmt.Errorf("%w: %s takes only a part", chat.ErrRefused, e.server.Host())
}

// Check asks the server whether it would take spans, by a request without any.
func (e *Exporter) Check(ctx context.Context) error {
	_, err := e.post(ctx, []byte(`{"resourceSpans":[]}`))
	return err
}

// Read is the place that is kept in a home; fs.ErrNotExist where there is none.
func Read(home string) (p Place, err error) {
	data, err := durable.Read(chat.PlaceFile(home, file), maxPlace)
	if err == nil {
		err = schemas.Decode(data, &p)
	}
	if err == nil && p.Format != 1 {
		err = fmt.Errorf("%s: format %d is not known to this mbox", chat.PlaceFile(home, file), p.Format)
	}
	return p, err
}

// restore takes up the place that was kept. Where the ledger does not hold it, it is
// begun anew at the end.
func (e *Exporter) restore(ctx context.Context) (err error) {
	e.spans = nil
	if e.kept, err = Read(e.o.Box.Home()); err == nil && e.o.Box.Ledger().Check(e.kept.At) == nil {
		e.resume()
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.o.Log("telemetry: the place that was kept cannot be read: %v", err)
	}
	return e.restart(ctx)
}

func (e *Exporter) resume() {
	e.place = e.kept
	if e.place.Open = maps.Clone(e.kept.Open); e.place.Open == nil {
		e.place.Open = map[string]open{}
	}
}

// restart begins at the ledger's end.
func (e *Exporter) restart(ctx context.Context) error {
	end, err := e.o.Box.Ledger().Newest()
	if err != nil {
		return err
	}
	e.kept = Place{Format: 1, At: end}
	e.resume()
	return e.keep(ctx)
}

func (e *Exporter) keep(ctx context.Context) error {
	data, err := schemas.Encode(e.kept)
	if err == nil {
		err = e.o.Box.Ledger().Flushed(ctx)
	}
	if err == nil {
		err = durable.Replace(chat.PlaceFile(e.o.Box.Home(), file), data, e.o.Box.Options().Sync)
	}
	return err
}
