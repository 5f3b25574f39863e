package action

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"mbox/agents/policy"
	"mbox/schemas"
)

const (
	httpTime      = 10 * time.Second
	httpRedirects = 5
	httpBytes     = 1 << 20
	httpShown     = 1024 // bytes of the body in the result
)

// HTTPCheck asks a URL of the public internet, by GET.
type HTTPCheck struct {
	URL    string `json:"url" jsonschema:"minLength=1,maxLength=2000,description=http or https\\, of the public internet"`
	Status int    `json:"status,omitzero" jsonschema:"minimum=100,maximum=599,description=the status that is expected; else any below 400"`
	Header string `json:"header,omitzero" jsonschema:"maxLength=300,description=NAME: TEXT\\, a header of the answer that has the text in it"`
	Text   string `json:"text,omitzero" jsonschema:"maxLength=1000,description=that the first MiB of the body has in it"`
}

var headerForm = schemas.Pattern(`^[A-Za-z0-9-]{1,100}$`)

// Name is http_check.
func (*HTTPCheck) Name() string { return "http_check" }

// Validate checks the URL. What its host resolves to is checked when it is
// connected to.
func (c *HTTPCheck) Validate(Limits) error {
	if c.URL == "" {
		return fault("url", schemas.CodeMissingField, "is missing", "a URL")
	}
	switch name, _, colon := strings.Cut(c.Header, ":"); {
	case c.Status != 0 && (c.Status < 100 || c.Status > 599):
		return fault("status", schemas.CodeBadValue, fmt.Sprintf("%d is no status", c.Status), "100 to 599")
	case c.Header != "" && (!colon || !headerForm().MatchString(name)):
		return fault("header", schemas.CodeBadValue, schemas.Quote(c.Header)+" is no header", "NAME: TEXT")
	}
	_, err := parseURL(c.URL)
	if d := refusal(err); d != nil {
		return fault("url", schemas.CodeBadValue, schemas.Quote(c.URL)+" is not allowed ("+d.Rule+"): "+d.Why, "http or https, to a public host")
	}
	return err
}

// Permit asks whether the agent may use http_check.
func (c *HTTPCheck) Permit(p *policy.Policy) error { return p.Tool(c.Name()) }

// answer is what http_check found.
type answer struct {
	URL         string `json:"url"` // that answered, after redirects
	StatusCode  int    `json:"status_code"`
	ContentType string `json:"content_type,omitzero"`
	Size        int    `json:"size"`               // bytes that were read of the body
	Truncated   bool   `json:"truncated,omitzero"` // there was more than is ever read
	Body        string `json:"body"`               // the first of them

	missed string // what was expected and is not so
}

// Do asks: ok if the answer is as it is expected, else failed. A host that does not
// resolve or answer is failed too; an address that may not be asked is a
// *policy.Denied.
func (c *HTTPCheck) Do(ctx context.Context, env *Env) (Result, error) {
	u, err := parseURL(c.URL)
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, httpTime)
	defer cancel()
	result := Result{Action: c.Name(), Status: "ok", Path: c.URL}
	got, err := c.get(ctx, u, env.HTTP)
	if d := refusal(err); d != nil {
		return Result{}, d
	}
	if err != nil {
		result.Status, result.Error = "failed", httpError(err)
		return result, nil
	}
	if got.missed != "" {
		result.Status, result.Error = "failed", got.missed
	}
	result.Output, err = output(got)
	return result, err
}

func (c *HTTPCheck) get(ctx context.Context, u *url.URL, o HTTPOptions) (answer, error) {
	client := newClient(o)
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("User-Agent", "mbox")
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, httpBytes+1))
	if err != nil {
		return answer{}, err
	}
	got := answer{
		URL: response.Request.URL.String(), StatusCode: response.StatusCode,
		ContentType: schemas.Sentence(response.Header.Get("Content-Type"), 200),
		Size:        min(len(body), httpBytes), Truncated: len(body) > httpBytes,
	}
	got.Body = strings.ToValidUTF8(string(body[:min(len(body), httpShown)]), "\ufffd")
	got.missed = c.missed(response, string(body[:got.Size]))
	return got, nil
}

// missed is what an answer has not of what is expected; "" for nothing.
func (c *HTTPCheck) missed(r *http.Response, body string) string {
	status := fmt.Sprintf("%d %s", r.StatusCode, http.StatusText(r.StatusCode))
	name, want, _ := strings.Cut(c.Header, ":")
	has := func(value string) bool { return strings.Contains(value, strings.TrimSpace(want)) }
	switch {
	case c.Status == 0 && r.StatusCode >= 400:
		return status
	case c.Status != 0 && r.StatusCode != c.Status:
		return fmt.Sprintf("%s, not %d", status, c.Status)
	case c.Header != "" && !slices.ContainsFunc(r.Header.Values(name), has):
		return "no header " + schemas.Quote(c.Header)
	case !strings.Contains(body, c.Text):
		return "no text " + schemas.Quote(c.Text)
	}
	return ""
}

// newClient is a client that asks no proxy, keeps no connection and no cookie,
// and connects through a guard.
func newClient(o HTTPOptions) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil,
			DialContext:            guard{o, net.InterfaceAddrs}.dial,
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: o.redirect,
	}
}

// redirect lets an answer lead to what could have been asked at first: by the
// same rules, to https but not away from it, and not from elsewhere to loopback.
func (o HTTPOptions) redirect(next *http.Request, via []*http.Request) error {
	if len(via) > httpRedirects {
		return fmt.Errorf("more than %d redirects", httpRedirects)
	}
	u, err := parseURL(next.URL.String())
	if err != nil {
		return err
	}
	if last := via[len(via)-1].URL.Scheme; u.Scheme != last && u.Scheme != "https" {
		return denied("url_scheme", next.URL.String(), "a redirect from https to http is not followed")
	}
	if o.onLoopback(hostPort(u)) && !o.onLoopback(hostPort(via[0].URL)) {
		return denied("address_loopback", next.URL.String(), "a redirect to this machine is not followed")
	}
	next.Header.Del("Referer")
	return nil
}

// httpError is the reason of a failed request without the URL that it was for.
func httpError(err error) string {
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return "no answer in time"
	}
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return schemas.Sentence(err.Error(), 300)
}
