// Package stdio is a chat of one person, or one script, with an agent: a line of
// standard input is a message, and answers are written to standard output.
//
// As text, a message is a line, and an answer is its lines. As JSON, each is an
// object on one line:
//
//	in   {"id":"7","title":"Weather","text":"Will it rain?","thread":"a"}
//	out  {"key":"5f…","reply":"7","thread":"a","title":"Weather","text":"No.\n"}
//
// Of those only text has to be there. The same id is the same message, whenever it
// comes again. When the input ends, and all that was asked has its answer, it is over.
package stdio

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"mbox/agents/chat"
	"mbox/schemas"
)

// Kind is what this package speaks.
var Kind = chat.Kind{
	Name: "stdio", About: "lines of standard input and output",
	Needs: []string{"user"}, Takes: []string{"format"},
	Limits: chat.Limits{Text: 1 << 20, Parts: 1},
	Once:   chat.AtLeastOnce, Stdio: true,
	Open: func(s chat.Settings) (chat.Channel, error) { return New(s, os.Stdin, os.Stdout) },
}

// maxLine is how long a line may be, in bytes. It is far above what a bridge takes,
// which then says so.
const maxLine = 1 << 20

// channel is a conversation by two streams.
type channel struct {
	user string
	json bool
	in   io.Reader
	run  string // names this process in the IDs of messages that have none

	reading sync.Once
	lines   chan line
	next    *line // that was read and is not taken yet; Receive's alone

	mu  sync.Mutex // guards out
	out io.Writer
}

// New makes a channel of two streams. Settings.Format is text or json.
func New(s chat.Settings, in io.Reader, out io.Writer) (chat.Channel, error) {
	if s.Format != "" && s.Format != "text" && s.Format != "json" {
		return nil, fmt.Errorf("%w: format: %s is not allowed: want text or json", chat.ErrSetup, schemas.Quote(s.Format))
	}
	random := make([]byte, 8)
	rand.Read(random) // never fails (crypto/rand)
	return &channel{user: s.User, json: s.Format == "json", in: in, out: out, lines: make(chan line), run: hex.EncodeToString(random)}, nil
}

// message is one of the lines that are JSON.
type message struct {
	ID     string `json:"id,omitzero"`
	Thread string `json:"thread,omitzero"`
	Title  string `json:"title,omitzero"`
	Text   string `json:"text"`
}

// answer is one of the lines that are JSON.
type answer struct {
	Key    string `json:"key"`
	Reply  string `json:"reply,omitzero"`
	Thread string `json:"thread,omitzero"`
	Title  string `json:"title,omitzero"`
	Text   string `json:"text"`
	Again  bool   `json:"again,omitzero"`
}

// Receive hands over the lines until there are no more. What is read cannot be read
// again, so there is no place to keep; a line that could not be taken is handed over
// first when Receive is called again.
func (c *channel) Receive(ctx context.Context, _ string, in chat.Inbox) error {
	c.reading.Do(func() { go c.read() })
	for {
		if c.next == nil {
			select {
			case l, more := <-c.lines:
				if !more {
					return nil
				}
				c.next = &l
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := c.hear(ctx, c.next, in); err != nil {
			return err
		}
		c.next = nil
	}
}

// line is a line that was read, or why there are no more.
type line struct {
	number int
	text   []byte
	long   bool
	err    error
}

// read reads as long as there is something: nothing but the stream's end ends it.
func (c *channel) read() {
	defer close(c.lines)
	r := bufio.NewReaderSize(c.in, 64<<10)
	for n := 1; ; n++ {
		l := readLine(r)
		if l.number = n; len(l.text) == 0 && errors.Is(l.err, io.EOF) {
			return
		}
		if c.lines <- l; l.err != nil {
			return
		}
	}
}

// readLine reads a line, of which it keeps no more than is allowed.
func readLine(r *bufio.Reader) (l line) {
	for {
		piece, err := r.ReadSlice('\n')
		if l.long = l.long || len(l.text)+len(piece) > maxLine; !l.long {
			l.text = append(l.text, piece...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		l.text, l.err = bytes.TrimRight(l.text, "\r\n"), err
		return l
	}
}

func (c *channel) hear(ctx context.Context, l *line, in chat.Inbox) error {
	switch {
	case l.err != nil && !errors.Is(l.err, io.EOF):
		return fmt.Errorf("%w: standard input: %w", chat.ErrSetup, l.err)
	case l.long:
		return fmt.Errorf("%w: line %d of standard input has more than %d bytes", chat.ErrSetup, l.number, maxLine)
	case len(bytes.TrimSpace(l.text)) == 0:
		return nil
	}
	m := message{Text: string(l.text)}
	if c.json {
		m.Text = ""
		if err := schemas.Decode(l.text, &m); err != nil {
			return fmt.Errorf("%w: line %d of standard input: %w", chat.ErrSetup, l.number, err)
		}
	}
	if m.ID == "" {
		m.ID = fmt.Sprintf("%s.%d", c.run, l.number)
	}
	return in.Take(ctx, chat.Message{
		ID: m.ID, From: c.user, In: chat.Conversation{Peer: c.user, Thread: m.Thread}, Text: m.Text, Title: m.Title,
	})
}

// Send writes an answer, at once and whole.
func (c *channel) Send(_ context.Context, n chat.Notice) (string, error) {
	text := []byte(n.Text)
	if c.json {
		var err error
		a := answer{Key: n.Key, Reply: n.Reply, Thread: n.To.Thread, Title: n.Title, Text: n.Text, Again: n.Again}
		if text, err = schemas.Canonical(a); err != nil {
			return "", fmt.Errorf("%w: %w", chat.ErrRefused, err)
		}
	}
	if !bytes.HasSuffix(text, []byte{'\n'}) {
		text = append(text, '\n')
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.out.Write(text)
	return "", err
}

// Check needs nothing.
func (c *channel) Check(context.Context) (string, error) {
	return c.user + ", by standard input and output", nil
}
