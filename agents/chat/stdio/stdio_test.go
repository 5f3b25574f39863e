package stdio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

func receive(t *testing.T, format, text string) (took []chat.Message, err error) {
	t.Helper()
	c, err := New(chat.Settings{User: "anna", Format: format}, strings.NewReader(text), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	in := chattest.NewInbox()
	err = c.Receive(t.Context(), "", in)
	close(in.Took)
	for m := range in.Took {
		took = append(took, m)
	}
	return took, err
}

func TestALineIsAMessage(t *testing.T) {
	took, err := receive(t, "", "one\r\n\n  \ntwo words\nthe last")
	if err != nil || len(took) != 3 {
		t.Fatalf("%d messages, %v", len(took), err)
	}
	ids := map[string]bool{}
	for i, want := range []string{"one", "two words", "the last"} {
		if m := took[i]; m.Text != want || m.From != "anna" || m.In != (chat.Conversation{Peer: "anna"}) || ids[m.ID] {
			t.Errorf("%+v", m)
		}
		ids[took[i].ID] = true
	}
	again, _ := receive(t, "", "one\n")
	if ids[again[0].ID] {
		t.Error("another process says the same ID")
	}
}

func TestJSONLines(t *testing.T) {
	took, err := receive(t, "json", `{"id":"7","title":"T","text":"a\nb","thread":"x"}`+"\n"+`{"text":"c"}`)
	if err != nil || len(took) != 2 {
		t.Fatalf("%d messages, %v", len(took), err)
	}
	if m := took[0]; m.ID != "7" || m.Title != "T" || m.Text != "a\nb" || m.In.Thread != "x" {
		t.Errorf("%+v", m)
	}
	for _, bad := range []string{"text", `{"text":1}`, `{"txt":"a"}`, `["a"]`, `{"text":"a"} {"text":"b"}`} {
		if took, err := receive(t, "json", bad+"\n"); len(took) != 0 || !errors.Is(err, chat.ErrSetup) || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: %d messages, %v", bad, len(took), err)
		}
	}
}

func TestLongLinesAndBrokenStreams(t *testing.T) {
	if took, err := receive(t, "", "a\n"+strings.Repeat("x", 3*maxLine)+"\nb\n"); len(took) != 1 || !errors.Is(err, chat.ErrSetup) {
		t.Errorf("a long line: %d messages, %v", len(took), err)
	}
	c, _ := New(chat.Settings{User: "anna"}, io.MultiReader(strings.NewReader("a\n"), broken{}), io.Discard)
	if err := c.Receive(t.Context(), "", chattest.NewInbox()); !errors.Is(err, chat.ErrSetup) {
		t.Errorf("a broken stream: %v", err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }

// What cannot be taken now cannot be read again, so it is kept.
func TestALineThatWasNotTakenComesAgain(t *testing.T) {
	c, _ := New(chat.Settings{User: "anna"}, strings.NewReader("one\ntwo\n"), io.Discard)
	in, busy := chattest.NewInbox(), errors.New("busy")
	in.Fail = func(chat.Message) error { return busy }
	for range 2 {
		if err := c.Receive(t.Context(), "", in); !errors.Is(err, busy) {
			t.Fatal(err)
		}
	}
	in.Fail = nil
	if err := c.Receive(t.Context(), "", in); err != nil || len(in.Took) != 2 {
		t.Errorf("%d messages, %v", len(in.Took), err)
	}
	if m := <-in.Took; m.Text != "one" {
		t.Errorf("%+v", m)
	}
}

func TestAnswersAreWritten(t *testing.T) {
	for format, want := range map[string]string{
		"text": "a\nb\nc\n",
		"json": `{"key":"k","reply":"7","text":"a\nb","thread":"x","title":"T"}` + "\n" + `{"again":true,"key":"l","text":"c\n"}` + "\n",
	} {
		var out bytes.Buffer
		c, _ := New(chat.Settings{User: "anna", Format: format}, strings.NewReader(""), &out)
		for _, n := range []chat.Notice{
			{Key: "k", Reply: "7", Title: "T", Text: "a\nb", To: chat.Conversation{Peer: "anna", Thread: "x"}},
			{Key: "l", Text: "c\n", Again: true, To: chat.Conversation{Peer: "anna"}},
		} {
			if _, err := c.Send(t.Context(), n); err != nil {
				t.Error(err)
			}
		}
		if out.String() != want {
			t.Errorf("%s:\n%s", format, out.String())
		}
	}
	if _, err := New(chat.Settings{Format: "xml"}, nil, nil); !errors.Is(err, chat.ErrSetup) {
		t.Errorf("%v", err)
	}
}

func TestReceiveEndsWithItsContext(t *testing.T) {
	before := runtime.NumGoroutine()
	r, w := io.Pipe()
	c, _ := New(chat.Settings{User: "anna"}, r, io.Discard)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Receive(ctx, "", chattest.NewInbox()) }()
	stop()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	case <-time.After(time.Second):
		t.Fatal("it goes on")
	}
	w.Close() // the goroutine that reads ends with the stream
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, there were %d", runtime.NumGoroutine(), before)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add("one\r\ntwo", true)
	f.Add(`{"id":"7","text":"a"}`, true)
	f.Fuzz(func(t *testing.T, text string, asJSON bool) {
		format := "text"
		if asJSON {
			format = "json"
		}
		c, _ := New(chat.Settings{User: "anna", Format: format}, strings.NewReader(text), io.Discard)
		in := chattest.NewInbox()
		in.Fail = func(m chat.Message) error {
			if m.ID == "" || m.From != "anna" {
				t.Fatalf("%+v", m)
			}
			return nil
		}
		_ = c.Receive(t.Context(), "", in)
	})
}
