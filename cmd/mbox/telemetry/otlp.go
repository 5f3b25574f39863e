package telemetry

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// What follows is OTLP's JSON: identifiers in hex, enumerations as numbers, 64-bit
// integers as texts.

type request struct {
	ResourceSpans []resourceSpans `json:"resourceSpans"`
}

type resourceSpans struct {
	Resource   resource     `json:"resource"`
	ScopeSpans []scopeSpans `json:"scopeSpans"`
}

type resource struct {
	Attributes attributes `json:"attributes"`
}

type scopeSpans struct {
	Scope scope  `json:"scope"`
	Spans []span `json:"spans"`
}

type scope struct {
	Name    string `json:"name"`
	Version string `json:"version,omitzero"`
}

type span struct {
	TraceID    string     `json:"traceId"`
	SpanID     string     `json:"spanId"`
	ParentID   string     `json:"parentSpanId,omitzero"`
	Name       string     `json:"name"`
	Kind       int        `json:"kind"`
	Start      string     `json:"startTimeUnixNano"`
	End        string     `json:"endTimeUnixNano"`
	Attributes attributes `json:"attributes"`
	Links      []link     `json:"links,omitempty"`
	Status     *status    `json:"status,omitzero"`
}

type link struct {
	TraceID string `json:"traceId"`
	SpanID  string `json:"spanId"`
}

type status struct {
	Code int `json:"code"`
}

// Kinds of spans, and the code of a status.
const (
	kindInternal = 1
	kindClient   = 3
	statusError  = 2
)

type attributes []attribute

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

type value struct {
	Text *string `json:"stringValue,omitzero"`
	Int  *string `json:"intValue,omitzero"`
}

// text adds an attribute, unless it is empty.
func (a *attributes) text(key, text string) {
	if text != "" {
		*a = append(*a, attribute{key, value{Text: &text}})
	}
}

func (a *attributes) number(key string, n int64) {
	*a = append(*a, attribute{key, value{Int: new(strconv.FormatInt(n, 10))}})
}

// positive adds a count, unless it is not known.
func (a *attributes) positive(key string, n int64) {
	if n > 0 {
		a.number(key, n)
	}
}

// between gives the span its time; a clock that went back makes it none.
func (s *span) between(start, end time.Time) {
	if start.After(end) {
		start = end
	}
	s.Start, s.End = strconv.FormatInt(start.UnixNano(), 10), strconv.FormatInt(end.UnixNano(), 10)
}

// failed makes the span one of an error.
func (s *span) failed(kind string) {
	s.Status = &status{statusError}
	s.Attributes.text(errorType, kind)
}

// ids makes the identifiers of a mailbox. They follow from what they are of, so what
// is sent again is the same span.
type ids struct{ mailbox string }

func (m ids) trace(task string) string { return m.hash(16, "trace", task) }

func (m ids) span(task, what string, n int64) string {
	return m.hash(8, "span", task, what, strconv.FormatInt(n, 10))
}

func (m ids) hash(size int, parts ...string) string {
	sum := sha256.Sum256([]byte("mbox telemetry\n" + m.mailbox + "\n" + strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:size])
}
