package chat

import (
	"math/rand/v2"
	"testing"
)

// pieces are what peers and threads are made of in these tests.
var pieces = []string{"%", ":", "%25", "%3A", "thread", "direct", "@Anna", "+15551234567", "#mbox", "!Room:example.org", "iMessage;-;", "ä", "-100", "/", " "}

func TestSessionsComeBackAsTheyWere(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func(least int) (s string) {
		for range least + r.IntN(4) {
			s += pieces[r.IntN(len(pieces))]
		}
		return s
	}
	for range 5000 {
		c := Conversation{Peer: text(1), Group: r.IntN(2) == 0, Thread: text(0)}
		session := Session("pi", "family", c)
		to, bridge, back, ok := ParseSession(session)
		if !ok || to != "pi" || bridge != "family" || back != c {
			t.Fatalf("%+v became %q and that %q %q %+v, %v", c, session, to, bridge, back, ok)
		}
	}
}

func TestSessionsHaveOpenClawsForm(t *testing.T) {
	for want, c := range map[string]Conversation{
		"agent:pi:family:direct:+1234567890":                 {Peer: "+1234567890"},
		"agent:pi:family:group:!Room%3Aexample.org":          {Peer: "!Room:example.org", Group: true},
		"agent:pi:family:direct:100%25:thread:<a@b.example>": {Peer: "100%", Thread: "<a@b.example>"},
	} {
		if got := Session("pi", "family", c); got != want {
			t.Errorf("%+v became %q, not %q", c, got, want)
		}
	}
	if to, bridge, c, ok := ParseSession("agent:pi:bluebubbles:dm:+1234567890"); !ok || to != "pi" || bridge != "bluebubbles" || c != (Conversation{Peer: "+1234567890"}) {
		t.Errorf("the older spelling became %q %q %+v, %v", to, bridge, c, ok)
	}
}

func TestWhatIsNoConversationIsNone(t *testing.T) {
	for _, session := range []string{
		"", "agent:pi:main", "agent:pi:direct:+1", "agent:pi:family:direct:", "agent:pi::direct:x", "agent::family:direct:x",
		"agent:pi:family:channel:x", "agent:pi:family:account:direct:x", "agent:pi:family:direct:x:thread:", "agent:pi:family:direct:x:y:z",
		"agent:pi:family:direct:x:thread:y:z", "agent:pi:family:direct:%", "agent:pi:family:direct:%41", "hook:agent:pi:family:direct:x", "cron:x",
	} {
		if to, bridge, c, ok := ParseSession(session); ok {
			t.Errorf("%q became %q %q %+v", session, to, bridge, c)
		}
	}
}

func FuzzParseSession(f *testing.F) {
	f.Add("agent:pi:bluebubbles:dm:+1234567890")
	f.Add("agent:pi:family:group:!Room%3Aexample.org:thread:100%25")
	f.Fuzz(func(t *testing.T, session string) {
		to, bridge, c, ok := ParseSession(session)
		if !ok {
			return
		}
		to2, bridge2, c2, ok := ParseSession(Session(to, bridge, c))
		if !ok || to2 != to || bridge2 != bridge || c2 != c {
			t.Fatalf("%q became %q %q %+v and back %q %q %+v, %v", session, to, bridge, c, to2, bridge2, c2, ok)
		}
	})
}
