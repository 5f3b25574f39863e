package gateway

import (
	"bytes"
	"net/http"
	"strings"

	"mbox/schemas"
)

// worded holds back what a library answers in plain words to a request that it does not
// take: that becomes a problem, as every error.
type worded struct {
	http.ResponseWriter
	status int // of that answer; 0: there is none
	words  bytes.Buffer
}

func (w *worded) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		w.status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *worded) Write(data []byte) (int, error) {
	if w.status != 0 {
		return w.words.Write(data)
	}
	return w.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (w *worded) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// refused is the error that was held back, with what helps; nil if there is none.
func (w *worded) refused(hint string) error {
	if w.status == 0 {
		return nil
	}
	if w.status == http.StatusRequestEntityTooLarge {
		hint = largerBodies
	}
	return &refusal{w.status, schemas.Sentence(strings.TrimSpace(w.words.String()), maxDetail), hint}
}
