package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/schemas"
)

// Problem is the form of an error (RFC 9457).
type Problem struct {
	Type   string `json:"type" jsonschema:"description=about:blank: the status says it"`
	Title  string `json:"title"`
	Status int    `json:"status" jsonschema:"minimum=400,maximum=599"`
	Detail string `json:"detail" jsonschema:"description=what is wrong"`
	Hint   string `json:"hint,omitzero" jsonschema:"description=what helps"`
	Code   string `json:"code,omitzero" jsonschema:"description=what is wrong in a document\\, as one word"`
	Path   string `json:"path,omitzero" jsonschema:"description=where in a document"`
}

// refusal is an error that has its status already.
type refusal struct {
	status       int
	detail, hint string
}

func (e *refusal) Error() string { return e.detail }

// unauthorized is told to who has no token that counts. The route knows what helps.
func unauthorized(detail string) error { return &refusal{http.StatusUnauthorized, detail, ""} }

func forbidden(detail, hint string) error { return &refusal{http.StatusForbidden, detail, hint} }

func badRequest(detail, hint string) error { return &refusal{http.StatusBadRequest, detail, hint} }

// renamed is an error about a document that was made of a request, with the names of the
// request's own members: each old one is followed by its new one.
func renamed(err error, members ...string) error {
	var bad *schemas.Error
	if !errors.As(err, &bad) || errors.Is(err, mailbox.ErrCommitted) {
		return err
	}
	for i := 0; i < len(members); i += 2 {
		rest, ok := strings.CutPrefix(bad.Path, members[i])
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			own := *bad
			own.Path = members[i+1] + rest
			return &own
		}
	}
	return err
}

// statuses are those of mbox's exit codes. What has none is 500.
var statuses = map[int]int{
	2: http.StatusBadRequest, 4: http.StatusNotFound, 5: http.StatusConflict, 6: http.StatusConflict,
	65: http.StatusUnprocessableEntity, 73: http.StatusForbidden, 74: http.StatusServiceUnavailable, 75: http.StatusServiceUnavailable,
}

// problemOf makes of an error what is answered.
func (d *Door) problemOf(err error) Problem {
	var own *refusal
	var data *schemas.Error
	p := Problem{Type: "about:blank", Detail: schemas.Sentence(err.Error(), maxDetail)}
	switch {
	case errors.As(err, &own):
		p.Status, p.Detail, p.Hint = own.status, own.detail, own.hint
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		p.Status, p.Detail, p.Hint = http.StatusServiceUnavailable, "it took too long, or mbox is being stopped", "try again in a moment"
	case errors.Is(err, mailbox.ErrReadOnly), errors.Is(err, audit.ErrDamaged), errors.Is(err, mailbox.ErrIntegrity), errors.Is(err, mailbox.ErrGone):
		p.Status = http.StatusServiceUnavailable
		_, p.Hint = d.o.Judge(err)
	default:
		exit, hint := d.o.Judge(err)
		p.Hint = hint
		if p.Status = statuses[exit]; p.Status == 0 {
			p.Status = http.StatusInternalServerError
		}
	}
	if errors.As(err, &data) {
		p.Code, p.Path = data.Code, data.Path
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// soonOver tells whether an error is one that ends by itself.
func soonOver(err error) bool {
	return errors.Is(err, mailbox.ErrBusy) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errNoMailbox) || errors.Is(err, errCrowded)
}

// errNoMailbox is told before the mailbox is open, and while mbox is being stopped.
var errNoMailbox = &refusal{http.StatusServiceUnavailable, "the mailbox is not open yet, or not any more", "try again in a moment"}

// maxDetail is how long the text of an error may get, in bytes.
const maxDetail = 2000

// fail answers with an error.
func (d *Door) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := d.problemOf(err)
	h := w.Header()
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="mbox"`)
	case http.StatusServiceUnavailable:
		if soonOver(err) {
			h.Set("Retry-After", "1")
		}
	case http.StatusInternalServerError:
		d.o.Log.Error().Err(err).Str("path", r.URL.Path).Msg("a request failed")
	}
	data, err := schemas.Encode(p)
	if err != nil {
		data = []byte("{}")
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(data) // who has gone away needs no answer
}
