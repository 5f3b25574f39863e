package openclaw

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mbox/agents/chat"
)

// standIn stands for openclaw: it keeps its arguments, one a line, and does what the
// script says.
func standIn(t *testing.T, script string) (c chat.Channel, said func() []string) {
	t.Helper()
	dir := t.TempDir()
	path, log := filepath.Join(dir, "openclaw"), filepath.Join(dir, "log")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nfor a; do printf '%s\\n' \"$a\"; done >>"+log+"\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := open(chat.Settings{Command: []string{path, "--no-color"}})
	if err != nil {
		t.Fatal(err)
	}
	return c, func() []string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

func TestSend(t *testing.T) {
	c, said := standIn(t, "")
	n := chat.Notice{To: chat.Conversation{Peer: "telegram/work:-100", Group: true, Thread: "42"}, Text: `--dry-run $(id) 'x'`}
	if _, err := c.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	want := []string{"--no-color", "message", "send", "--channel=telegram", "--target=-100", "--account=work", "--thread-id=42", "--message=" + n.Text}
	if got := said(); !slices.Equal(got, want) {
		t.Errorf("it is called with %q, not %q", got, want)
	}
}

// What OpenClaw does not send may have been sent, and its error has no text of ours.
func TestSendFails(t *testing.T) {
	c, _ := standIn(t, `echo "cannot send $6: gateway closed" >&2; exit 1`)
	n := chat.Notice{To: chat.Conversation{Peer: "whatsapp:+1"}, Text: "between us"}
	_, err := c.Send(t.Context(), n)
	if err == nil || errors.Is(err, chat.ErrRefused) || errors.Is(err, chat.ErrSetup) || !strings.Contains(err.Error(), "gateway closed") || strings.Contains(err.Error(), "between us") {
		t.Error(err)
	}
	n.To.Peer = "whatsapp"
	if _, err := c.Send(t.Context(), n); !errors.Is(err, chat.ErrRefused) {
		t.Error(err)
	}
	for _, argv := range [][]string{nil, {"openclaw"}} {
		if _, err := open(chat.Settings{Command: argv}); !errors.Is(err, chat.ErrSetup) {
			t.Errorf("%q: %v", argv, err)
		}
	}
}

func TestCheck(t *testing.T) {
	c, said := standIn(t, `[ "$2" = health ] || echo 2026.7.1`)
	if says, err := c.Check(t.Context()); err != nil || says != "OpenClaw 2026.7.1, its gateway answers" || !slices.Contains(said(), "health") {
		t.Error(says, err)
	}
	c, _ = standIn(t, `[ "$2" != health ] || { echo "gateway not reachable" >&2; exit 1; }`)
	if _, err := c.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "gateway not reachable") {
		t.Error(err)
	}
	c, err := open(chat.Settings{Command: []string{filepath.Join(t.TempDir(), "none")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Check(t.Context()); !errors.Is(err, chat.ErrSetup) {
		t.Error(err)
	}
}

func TestPlaces(t *testing.T) {
	for session, want := range map[string]string{
		"agent:pi:bluebubbles:dm:+1234567890":              "--channel=bluebubbles --target=+1234567890",
		"agent:main:whatsapp:work:direct:+49":              "--channel=whatsapp --target=+49 --account=work",
		"agent:main:telegram:group:-100:topic:42":          "--channel=telegram --target=-100 --thread-id=42",
		"agent:main:discord:direct:123":                    "--channel=discord --target=user:123",
		"agent:main:discord:channel:123:thread:9":          "--channel=discord --target=channel:123 --thread-id=9",
		"agent:main:slack:channel:channel:C1":              "--channel=slack --target=channel:C1",
		"agent:main:matrix:channel:!room:example.org":      "--channel=matrix --target=!room:example.org",
		"agent:main:msteams:group:19:a@thread.tacv2":       "--channel=msteams --target=19:a@thread.tacv2",
		"agent:main:imessage:group:7":                      "--channel=imessage --target=chat_id:7",
		"agent:main:telegram:group:direct:8":               "--channel=telegram --target=direct:8",
		"agent:main:signal:direct:--target=+1":             "--channel=signal --target=--target=+1",
		"agent:main:telegram:direct:8:thread:9:thread:-10": "--channel=telegram --target=8:thread:9 --thread-id=-10",
	} {
		c, ok := conversation(session)
		p, known := placeOf(c)
		if got := strings.Join(p.arguments(), " "); !ok || !known || got != want {
			t.Errorf("%s: %q, %v %v", session, got, ok, known)
		}
	}
	for _, session := range []string{
		"", "agent:main:main", "agent:main:direct:+1", "agent:main:telegram:direct:", "agent:main:Tele gram:direct:8", "agent::telegram:direct:8",
		"hook:1", "agent:main:telegram:a:b:direct:8", "x agent:main:telegram:direct:8", "agent:main:telegram:direct:8\n", "agent:main:telegram/x:direct:8",
		"agent:main:telegram:direct:" + strings.Repeat("8", 300), "agent:main:telegram:direct:\u202e8",
	} {
		if c, ok := conversation(session); ok {
			t.Errorf("%q became %+v", session, c)
		}
	}
}
