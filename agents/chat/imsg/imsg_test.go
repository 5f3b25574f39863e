package imsg

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

const (
	alice = "+15550001"
	room  = "iMessage;+;chat42"
)

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestMessagesIn(t *testing.T) {
	ctx, m, in := limited(t), newMac(t), chattest.NewInbox()
	t.Setenv("HOME", m.folder)
	folder, outside := filepath.Join(m.folder, "Library", "Messages", "Attachments"), filepath.Join(m.folder, "canary")
	cat, pipe, away := filepath.Join(folder, "cat.jpeg"), filepath.Join(folder, "pipe"), filepath.Join(folder, "away")
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(cat, []byte("a picture"), 0o600), os.WriteFile(outside, []byte("a secret"), 0o600),
		syscall.Mkfifo(pipe, 0o600), os.Symlink(outside, cat+".link"), os.Symlink(m.folder, away)); err != nil {
		t.Fatal(err)
	}
	for _, ignored := range []object{
		{"is_from_me": true},
		{"is_reaction": true},
		{"sender": ""},
		{"guid": ""},
		{"text": " \uFFFC"},
		{"chat_guid": "iMessage;+;other", "is_group": true},
		{"attachments": []object{{"transfer_name": "a", "missing": true, "original_path": cat}}, "text": ""},
		{"text": []string{"no text"}},
	} {
		m.add(ignored)
	}
	m.add(object{"text": "look\uFFFC", "sender_name": "Alice", "attachments": []object{
		{"transfer_name": "cat.jpeg", "mime_type": "image/jpeg", "total_bytes": 9, "original_path": cat},
		{"transfer_name": "p", "original_path": pipe},
		{"transfer_name": "l", "original_path": cat + ".link"},
		{"transfer_name": "r", "original_path": "cat.jpeg"},
		{"transfer_name": "o", "original_path": outside},
		{"transfer_name": "a", "original_path": filepath.Join(away, "canary")},
	}})
	m.add(object{"chat_guid": room, "is_group": true})
	chattest.Receiving(ctx, t, m.channel("", room), "0000001", in)
	got := chattest.Next(ctx, t, in.Took)
	if got.ID != "G9" || got.From != alice || got.Name != "Alice" || got.Text != "look" || got.In != (chat.Conversation{Peer: alice}) || got.At.UnixMilli() != 1795395723500 {
		t.Errorf("%+v", got)
	}
	if len(got.Files) != 6 {
		t.Fatalf("%+v", got.Files)
	}
	for i, file := range got.Files {
		r, err := file.Open(ctx)
		if i > 0 {
			if err == nil {
				t.Errorf("%s was opened", file.Name)
			}
			continue
		}
		text, _ := io.ReadAll(r)
		r.Close()
		if string(text) != "a picture" || file.Name != "cat.jpeg" || file.Type != "image/jpeg" || file.Size != 9 {
			t.Errorf("%q %+v", text, file)
		}
	}
	if got := chattest.Next(ctx, t, in.Took); got.ID != "G10" || got.In != (chat.Conversation{Peer: room, Group: true}) {
		t.Errorf("%+v", got)
	}
}

// From the place that was kept nothing is missing, and nothing comes again.
func TestKeptPlace(t *testing.T) {
	ctx, m := limited(t), newMac(t)
	for range 9 {
		m.add(nil)
		m.add(object{"is_from_me": true})
	}
	var got, want []string
	for i := 3; i <= 17; i += 2 {
		want = append(want, "G"+strconv.Itoa(i))
	}
	for kept := "2"; kept != "18"; {
		in, before := chattest.NewInbox(), kept
		boom, n := errors.New("killed"), 0
		in.Fail = func(chat.Message) error {
			if n++; n > 3 {
				return boom
			}
			return nil
		}
		run, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- m.channel("").Receive(run, kept, in) }()
		for over := false; !over; {
			select {
			case kept = <-in.Kept:
				over = kept == "18"
			case err := <-ended:
				if !errors.Is(err, boom) {
					t.Fatal(err)
				}
				over = true
				ended <- err
			}
		}
		stop()
		<-ended
		for len(in.Kept) > 0 {
			kept = <-in.Kept
		}
		for len(in.Took) > 0 {
			got = append(got, (<-in.Took).ID)
		}
		if kept == before {
			t.Fatal("it does not get on")
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Without a place it hears what is said from now on; an older imsg has no cursors.
func TestFirstStart(t *testing.T) {
	ctx, m, in := limited(t), newMac(t), chattest.NewInbox()
	m.add(nil)
	chattest.Receiving(ctx, t, m.channel(""), "", in)
	for m.wrote("watch.subscribe") == "" && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if asked := m.wrote("watch.subscribe"); asked != "{\"attachments\":true}\n" {
		t.Errorf("it asked for %s", asked)
	}
	for len(in.Took) == 0 && ctx.Err() == nil { // the fake looks where the end is at some moment
		m.add(object{"cursor": 0})
		time.Sleep(5 * time.Millisecond)
	}
	if got := chattest.Next(ctx, t, in.Took); got.ID == "G1" {
		t.Error("what was said before was taken")
	}
	if kept := chattest.Next(ctx, t, in.Kept); kept == "" || kept == "0" {
		t.Errorf("kept %q", kept)
	}
}

func TestNoticeOut(t *testing.T) {
	ctx, m := limited(t), newMac(t)
	for _, to := range []chat.Conversation{{Peer: alice}, {Peer: room, Group: true}} {
		if id, err := m.channel("").Send(ctx, chat.Notice{Key: "k", To: to, Text: "done\n"}); id != "SENT" || err != nil {
			t.Error(id, err)
		}
	}
	var got [2]struct{ To, Text, Chat_guid string }
	for i, line := range strings.Split(strings.TrimSpace(m.wrote("send")), "\n") {
		if err := json.Unmarshal([]byte(line), &got[i], json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
	}
	if got[0].To != alice || got[0].Chat_guid != "" || got[1].To != "" || got[1].Chat_guid != room || got[0].Text != "done" {
		t.Errorf("%+v", got)
	}
}

// The child has what it needs, and no secret of the bridge's.
func TestEnvironmentOfChild(t *testing.T) {
	t.Setenv("MBOX_TEST_SECRET", "s3cret")
	m := newMac(t)
	if _, err := m.channel("").Check(limited(t)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(m.wrote("environment")) {
		if name, _, _ := strings.Cut(line, "="); !slices.Contains(environment, name) {
			t.Errorf("the child has %s", name)
		}
	}
	if !strings.Contains(m.wrote("environment"), "PATH=") {
		t.Error("the child has no PATH")
	}
}

func TestBadChildren(t *testing.T) {
	in := chattest.NewInbox()
	for _, c := range []struct {
		fault, receive, send string // what the errors say; "" for none, "-" for what is not tried
		is                   error
	}{
		{"dies", "status 3: no Full Disk  Access", "status 3", nil},
		{"prose", "no JSON-RPC", "no JSON-RPC", nil},
		{"endless", "a line of more than", "a line of more than", nil},
		{"brother", "status 1", "status 1", nil},
		{"overflow", "tells no more", "", nil},
		{"no database", "Full Disk Access", "", chat.ErrSetup},
		{"refuses", "-", "unknown chat_id", chat.ErrRefused},
		{"unknown", "-", "may_have_completed", nil},
		{"stays", "-", "", nil},
	} {
		m := newMac(t)
		if c.receive != "-" {
			err := m.channel(c.fault).Receive(limited(t), "", in)
			expect(t, c.fault, err, c.receive, c.is)
		}
		_, err := m.channel(c.fault).Send(limited(t), chat.Notice{To: chat.Conversation{Peer: alice}, Text: "x"})
		expect(t, c.fault, err, c.send, c.is)
	}
	if len(in.Took) > 0 {
		t.Error("something was taken")
	}
	for _, s := range []chat.Settings{{}, {Command: []string{""}}} {
		if _, err := open(s); !errors.Is(err, chat.ErrSetup) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	gone, err := open(chat.Settings{Command: []string{filepath.Join(t.TempDir(), "gone")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Check(limited(t)); err == nil {
		t.Error("a command that is not there")
	}
	if err := newMac(t).channel("").Receive(limited(t), "yesterday", in); !errors.Is(err, chat.ErrSetup) {
		t.Errorf("a place that is none: %v", err)
	}
}

func expect(t *testing.T, name string, err error, say string, is error) {
	t.Helper()
	switch {
	case (err == nil) != (say == ""), err != nil && !strings.Contains(err.Error(), say):
		t.Errorf("%s: %v, want %q", name, err, say)
	case err != nil && is != nil && !errors.Is(err, is):
		t.Errorf("%s: %v is not %v", name, err, is)
	case is == nil && (errors.Is(err, chat.ErrSetup) || errors.Is(err, chat.ErrRefused)):
		t.Errorf("%s: %v is final", name, err)
	}
}

func TestCheck(t *testing.T) {
	m := newMac(t)
	for fault, want := range map[string]string{
		"":            "imsg 0.15.10, which reads /Users/me/Library/Messages/chat.db",
		"old":         "imsg, which reads the database of Messages",
		"no database": "cannot be opened",
	} {
		said, err := m.channel(fault).Check(limited(t))
		if err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, want) || (err != nil) != (fault == "no database") || err != nil && !errors.Is(err, chat.ErrSetup) {
			t.Errorf("%s: %q %v", fault, said, err)
		}
	}
}

// Receive ends with its context, and nothing is left of the child, willing or not.
func TestReceiveEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, fault := range []string{"", "stays", "silent"} {
		m := newMac(t)
		ctx, stop := context.WithCancel(limited(t))
		ended := make(chan error, 1)
		go func() { ended <- m.channel(fault).Receive(ctx, "", chattest.NewInbox()) }()
		for m.wrote("environment") == "" || fault != "silent" && m.wrote("watch.subscribe") == "" {
			time.Sleep(time.Millisecond)
		}
		begun := time.Now()
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(begun) > time.Second {
			t.Errorf("%q: %v after %v", fault, err, time.Since(begun))
		}
	}
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, before %d:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}

func FuzzHeard(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","method":"message","params":{"message":{"id":1,"guid":"G","sender":"a","text":"x","attachments":[{"original_path":"/x"}]}}}`))
	f.Add([]byte(`{"method":"watch.overflow"}`))
	f.Add([]byte(`{"id":1,"error":{"code":-32602,"data":{}}}`))
	c := &channel{}
	f.Fuzz(func(t *testing.T, line []byte) {
		var fr frame
		if json.Unmarshal(line, &fr) != nil {
			return
		}
		if fr.Error != nil {
			_ = fr.Error.Error()
		}
		m, err := c.heard(fr)
		if err != nil {
			return
		}
		in := chattest.NewInbox()
		if err := c.take(t.Context(), m, in); err != nil {
			t.Error(err)
		}
		if len(in.Took) > 0 {
			if got := <-in.Took; got.ID == "" || got.From == "" || got.Text == "" && len(got.Files) == 0 {
				t.Errorf("%+v", got)
			}
		}
	})
}
