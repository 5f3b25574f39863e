package brain

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"mbox/agents"
)

// A list of models without an end is read to a bound, not into memory.
func TestEndlessList(t *testing.T) {
	var sent atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n, err := io.WriteString(w, `{"models":[{"name":"x"}`)
		for ; err == nil; n, err = io.WriteString(w, `,{"name":"a model with a name of some length, so that it goes faster"}`) {
			sent.Add(int64(n))
		}
	}))
	t.Cleanup(s.Close)
	forget(s.URL)
	o, err := NewOllama(Options{URL: s.URL, Model: "x"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = o.Missing(t.Context())
	var e *agents.BrainError
	if !errors.As(err, &e) || e.Fault != agents.BrainDown {
		t.Errorf("%v", err)
	}
	if n := sent.Load(); n < maxList || n > 8*maxList { // the rest lies in the sockets' buffers
		t.Errorf("%d bytes were sent", n)
	}
}
