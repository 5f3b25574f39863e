package webhook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"

	"mbox/agents/chat"
	"mbox/agents/chat/web"
)

// path is where messages come in.
const path = "/webhook"

const maxName = 256 // bytes of a sender, a thread, an id

// message is the body of what comes in. What else a sender puts there is ignored.
type message struct {
	Sender  string `json:"sender"`
	Content string `json:"content"`
	Thread  string `json:"thread_id"`
	ID      string `json:"id"`
}

// read makes a message of a body that is signed.
func read(body []byte) (m message, err error) {
	if err := json.Unmarshal(body, &m); err != nil {
		return m, fmt.Errorf("the body is no such JSON: %w", err)
	}
	for _, field := range []struct{ name, value string }{{"sender", m.Sender}, {"thread_id", m.Thread}, {"id", m.ID}} {
		if len(field.value) > maxName || strings.ContainsFunc(field.value, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return m, fmt.Errorf("%s: want at most %d bytes that can be printed", field.name, maxName)
		}
	}
	if m.Sender == "" || strings.TrimSpace(m.Content) == "" {
		return m, errors.New("sender and content are wanted")
	}
	return m, nil
}

// idStart makes ids of senders that share a secret differ: the first / ends the sender.
func idStart(sender string) string { return withoutSlash.Replace(sender) + "/" }

var withoutSlash = strings.NewReplacer("%", "%25", "/", "%2F")

// identify names a message by what it says of itself: "" for one that says nothing.
func (m message) identify(body []byte, key string) string {
	switch {
	case m.ID != "":
		return idStart(m.Sender) + m.ID
	case key != "":
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", len(key), key, body))
		return "key-" + hex.EncodeToString(sum[:16])
	}
	return ""
}

// A call is a request that waits until its message is a task.
type call struct {
	message
	id   string // "" for one without
	body []byte
	done chan answer // has room for one
}

type answer struct {
	id  string
	err error
}

// errMany says that there were too many messages without an id.
var errMany = errors.New("too many messages without an id in five minutes: give them ids")

// Receive implements chat.Channel. Where nothing is listened to, it waits.
func (c *channel) Receive(ctx context.Context, kept string, in chat.Inbox) error {
	if c.Listen == "" {
		<-ctx.Done()
		return ctx.Err()
	}
	door, err := web.Listen(c.Settings, c.Listen)
	if err != nil {
		return err
	}
	c.remark("it listens on http://%s%s", door.Address(), path)
	ctx, stop := context.WithCancelCause(ctx)
	calls := make(chan call)
	var serving sync.WaitGroup
	serving.Go(func() { stop(door.Serve(ctx, c.handler(ctx, calls))) })
	err = c.takeAll(ctx, calls, restore(kept, c.remark), in)
	stop(nil)
	serving.Wait()
	return err
}

// takeAll takes what the handlers hear, one after the other.
func (c *channel) takeAll(ctx context.Context, calls <-chan call, w *window, in chat.Inbox) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case said := <-calls:
			id, err := said.id, error(nil)
			if id == "" {
				id, err = w.identify(ctx, said.body, in)
			}
			if err == nil {
				err = in.Take(ctx, said.message.as(id))
			}
			said.done <- answer{id, err}
			if err != nil && !errors.Is(err, errMany) {
				return err
			}
		}
	}
}

func (m message) as(id string) chat.Message {
	return chat.Message{
		ID: id, From: m.Sender, Text: m.Content, At: time.Now(),
		In: chat.Conversation{Peer: m.Sender, Thread: m.Thread},
	}
}

// handler hears requests, many at once, and answers when their messages are tasks.
func (c *channel) handler(ctx context.Context, calls chan<- call) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		status, id, err := c.hear(ctx, calls, w, r)
		out := map[string]string{"status": "taken", "id": id}
		if err != nil {
			out = map[string]string{"error": err.Error()}
		}
		if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "30")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.MarshalWrite(w, out) // who has gone asks again
	})
	return mux
}

// errLater is what a sender hears of trouble on this side.
var errLater = errors.New("not taken: send the same again")

func (c *channel) hear(ctx context.Context, calls chan<- call, w http.ResponseWriter, r *http.Request) (int, string, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	switch tooLarge := (*http.MaxBytesError)(nil); {
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, "", fmt.Errorf("the body has more than %d bytes", maxBody)
	case err != nil:
		return http.StatusBadRequest, "", errors.New("the body did not come whole")
	case !c.signed(r.Header.Get(signatureHeader), body):
		return http.StatusUnauthorized, "", fmt.Errorf("%s is not the body's signature", signatureHeader)
	}
	m, err := read(body)
	if err != nil {
		return http.StatusBadRequest, "", err
	}
	key := cmp.Or(r.Header.Get("Idempotency-Key"), r.Header.Get("X-Idempotency-Key"))
	said := call{m, m.identify(body, key), body, make(chan answer, 1)}
	select {
	case calls <- said:
	case <-ctx.Done():
		return http.StatusServiceUnavailable, "", errLater
	}
	select {
	case got := <-said.done:
		if errors.Is(got.err, errMany) {
			return http.StatusTooManyRequests, "", got.err
		}
		if got.err != nil {
			return http.StatusServiceUnavailable, "", errLater // the error is not for strangers
		}
		return http.StatusAccepted, got.id, nil
	case <-ctx.Done():
		return http.StatusServiceUnavailable, "", errLater
	}
}

func (c *channel) remark(format string, a ...any) {
	if c.Log != nil {
		c.Log(format, a...)
	}
}
