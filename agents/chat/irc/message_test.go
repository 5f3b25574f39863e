package irc

import (
	"net"
	"strings"
	"testing"

	"mbox/agents/chat"
)

// Who is who rests on what the server vouches for, and on nothing that a sender can
// write himself.
func TestIdentity(t *testing.T) {
	const say = " PRIVMSG mbox :hello"
	for l, want := range map[string]string{
		"@account=Bob :bob!b@host":       "account:Bob",
		"@account=* :bob!b@host":         "bob!b@host",
		"@account= :bob!b@host":          "bob!b@host",
		"@+account=Bob :bob!b@host":      "bob!b@host",
		":bob!b@host":                    "bob!b@host",
		":account:Bob!b@host":            "",
		":bob!account:Bob@host":          "",
		":irc.example.org":               "",
		":bob!b":                         "",
		"@account=Bob":                   "",
		":MBOX!~mbox@host":               "",
		":b\xff!b@host":                  "",
		"@account=B\xff :bob!b@host":     "",
		"@bot;account=Bob :bob!b@host":   "",
		"@msgid=1;account=Bob :b!b@host": "account:Bob",
	} {
		if got := taken(t, l+say, "account-tag", "message-tags"); got.From != want {
			t.Errorf("%s is from %q, not %q", l, got.From, want)
		} else if proven := strings.HasPrefix(want, "account:"); proven != (got.Proof != "") {
			t.Errorf("%s has the proof %q", l, got.Proof)
		}
	}
	if m := taken(t, "@account=Bob :bob!b@host"+say, "message-tags"); m.From != "bob!b@host" {
		t.Errorf("without the extension anybody is %q", m.From)
	}
	if m := taken(t, "@account=Bob :bob!b@host"+say, "account-tag"); m.In != (chat.Conversation{Peer: "account:Bob", Thread: "bob"}) {
		t.Errorf("an answer goes to %+v", m.In)
	}
}

// What a message is called is the same when it comes again, and unique.
func TestMessageID(t *testing.T) {
	all := []string{"message-tags", "server-time"}
	id := func(l string, caps ...string) string { return taken(t, l+" PRIVMSG mbox :hello", caps...).ID }
	if got := id("@msgid=x=1;time=2026-01-01T12:00:00.000Z :bob!b@h", all...); got != "msgid:x=1" {
		t.Error(got)
	}
	first := id("@time=2026-01-01T12:00:00.000Z :bob!b@h", all...)
	if again := id("@time=2026-01-01T12:00:00.000Z :bob!b@h", all...); first != again {
		t.Error("a bouncer's repetition is another message")
	}
	for _, l := range []string{"@time=2026-01-01T12:00:00.001Z :bob!b@h", "@time=2026-01-01T12:00:00.000Z :bob!b@i"} {
		if id(l, all...) == first {
			t.Errorf("%s has the ID of another", l)
		}
	}
	if a, b := id(":bob!b@h", all...), id(":bob!b@h", all...); a == b || a == "" {
		t.Errorf("two connections gave the ID %q", a)
	}
	if a, b := id("@msgid=1 :bob!b@h"), id("@msgid=1 :bob!b@h"); a == b {
		t.Error("a tag that the server does not vouch for was an ID")
	}
}

// taken is what becomes of a line.
func taken(t *testing.T, raw string, caps ...string) chat.Message {
	t.Helper()
	ours, theirs := net.Pipe()
	theirs.Close()
	c := quick(t, chat.Settings{Server: "irc://localhost", User: "mbox", Rooms: []string{"#ops"}})
	s := newSession(t.Context(), c, ours)
	defer s.wait()
	defer s.end(nil)
	s.nick = "mbox"
	for _, name := range caps {
		s.caps[name] = true
	}
	l, ok := parse(raw)
	if !ok {
		t.Fatalf("%q is no line", raw)
	}
	if err := s.hear(l); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-s.queue:
		return *e.m
	default:
		return chat.Message{}
	}
}
