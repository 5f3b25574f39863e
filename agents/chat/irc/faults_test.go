package irc

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

// at misbehaves at a command, and then says nothing more.
func at(command string, do func(p *peer)) func(*peer, line) bool {
	mad := false
	return func(p *peer, l line) bool {
		if l.command == command {
			mad = true
			do(p)
		}
		return mad
	}
}

// Whatever a server does, Receive ends with an error that is worth another try.
func TestFaults(t *testing.T) {
	cut := func(p *peer) { p.Close() }
	silent := func(*peer) {}
	huge := func(p *peer) {
		for range 1000 {
			p.say(strings.Repeat("x", 10_000))
		}
	}
	endless := func(p *peer) { _, _ = p.Write([]byte(strings.Repeat("x", 1<<20))) }
	garbage := func(p *peer) {
		_, _ = p.Write([]byte("\x00\xff\r\n@ \r\n: \r\n:\r\n@=;=\\ : :\r\n001\r\nPRIVMSG\r\nBATCH\r\nBATCH +\r\nNICK\r\nJOIN\r\nKICK\r\nCAP\r\nCAP * ACK\r\nPONG\r\n433\r\nPING\r\n:a!b@c PRIVMSG mbox\r\n:mbox!a@b NICK :\r\n005 x CHATHISTORY=-1\r\n"))
		p.Close()
	}
	for name, f := range map[string]*fake{
		"cut at once":          newFake(t, modern, at("CAP", cut)),
		"cut in the rooms":     newFake(t, modern, at("JOIN", cut)),
		"silent at once":       newFake(t, modern, at("CAP", silent)),
		"silent in the rooms":  newFake(t, modern, at("JOIN", silent)),
		"silent later":         newFake(t, modern, at("MODE", silent)),
		"huge lines at once":   newFake(t, modern, at("NICK", huge)),
		"huge lines later":     newFake(t, modern, at("JOIN", huge)),
		"a line without end":   newFake(t, modern, at("JOIN", endless)),
		"garbage at once":      newFake(t, modern, at("NICK", garbage)),
		"garbage later":        newFake(t, modern, at("JOIN", garbage)),
		"an ERROR at once":     newFake(t, modern, at("NICK", func(p *peer) { p.say("ERROR :Throttled") })),
		"an ERROR later":       newFake(t, modern, at("JOIN", func(p *peer) { p.say("ERROR :Closing link") })),
		"every nick is in use": newFake(t, modern, func(p *peer, l line) bool { p.say(":fake 433 * mbox :in use"); return true }),
	} {
		c := quick(t, f.settings())
		c.patience = 100 * time.Millisecond
		in := chattest.NewInbox()
		err := c.Receive(timely(t), "", in)
		if err == nil || errors.Is(err, chat.ErrSetup) || errors.Is(err, context.DeadlineExceeded) || len(in.Took) > 0 {
			t.Errorf("%s: %v", name, err)
		}
		if c.online != nil {
			t.Errorf("%s: a dead connection is left to Send", name)
		}
	}
}

// Receive ends soon when it is told to, whatever it waits for, and leaves nothing.
func TestReceiveEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	deaf := make(chan struct{})
	flood := func(p *peer, l line) bool {
		if l.command != "JOIN" {
			return false
		}
		for p.SetWriteDeadline(time.Now().Add(5*time.Second)) == nil {
			if _, err := p.Write([]byte(strings.Repeat(":bob!b@h PRIVMSG mbox :hello\r\nPING :x\r\n", 100))); err != nil {
				break
			}
		}
		return true
	}
	t.Run("servers", func(t *testing.T) {
		for name, f := range map[string]*fake{
			"registering": newFake(t, modern, at("CAP", func(*peer) {})),
			"at work":     newFake(t, modern, nil),
			"silent":      newFake(t, modern, at("JOIN", func(*peer) {})),
			"deaf":        newFake(t, modern, at("JOIN", func(*peer) { <-deaf })),
			"flooding":    newFake(t, modern, flood),
		} {
			ctx, cancel := context.WithCancel(t.Context())
			in := chattest.NewInbox()
			in.Took = make(chan chat.Message)
			ended := make(chan error, 1)
			go func() { ended <- quick(t, f.settings()).Receive(ctx, "", in) }()
			for len(f.told("CAP")) == 0 || name != "registering" && len(f.told("JOIN")) == 0 {
				runtime.Gosched()
			}
			begun := time.Now()
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(begun) > time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(begun))
			}
		}
		close(deaf)
	})
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// A message that was not taken ends Receive; where there is a history it comes again.
func TestTakeFails(t *testing.T) {
	ctx := timely(t)
	book := logbook{said(1, "bob", "#ops"), said(2, "bob", "#ops")}
	f := newFake(t, modern, book.serve)
	in, full := chattest.NewInbox(), errors.New("the disk is full")
	in.Fail = func(m chat.Message) error {
		if m.ID == "msgid:m2" {
			return full
		}
		return nil
	}
	if err := quick(t, f.settings()).Receive(ctx, "2026-01-01T11:00:00.000Z", in); !errors.Is(err, full) || len(in.Kept) > 0 {
		t.Errorf("%v, %d places kept", err, len(in.Kept))
	}
	in = chattest.NewInbox()
	chattest.Receiving(ctx, t, quick(t, f.settings()), "2026-01-01T11:00:00.000Z", in)
	for _, want := range []string{"msgid:m1", "msgid:m2"} {
		if m := chattest.Next(ctx, t, in.Took); m.ID != want {
			t.Errorf("%s came, not %s", m.ID, want)
		}
	}
}

// The pauses between lines are those that servers bear.
func TestPace(t *testing.T) {
	ctx := timely(t)
	f := newFake(t, "", nil)
	c := quick(t, f.settings())
	c.pace, c.tending = 50*time.Millisecond, time.Hour
	chattest.Receiving(ctx, t, c, "", chattest.NewInbox())
	s, err := c.received(ctx)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	lines := 0
	for range 3 {
		if _, err := c.Send(ctx, chat.Notice{To: chat.Conversation{Peer: "bob"}, Text: "1\n2\n3\n4"}); err != nil {
			t.Fatal(err)
		}
		lines += 5
	}
	if least := time.Duration(lines-burst-1) * c.pace; time.Since(begun) < least {
		t.Errorf("%d lines in %v, not in %v", lines, time.Since(begun), least)
	}
	if s.ctx.Err() != nil {
		t.Error("the connection ended")
	}
}

// Settings with which it cannot work are refused, and no error holds a secret.
func TestOpen(t *testing.T) {
	good := chat.Settings{Server: "ircs://irc.example.org", User: "mbox", Password: "s3cret", Rooms: []string{"#ops"}}
	for name, c := range map[string]struct {
		change func(*chat.Settings)
		wrong  bool
	}{
		"TLS":                       {func(s *chat.Settings) {}, false},
		"in the clear":              {func(s *chat.Settings) { s.Server = "irc://irc.example.org" }, true},
		"in the clear, with leave":  {func(s *chat.Settings) { s.Server, s.Insecure = "irc://irc.example.org", true }, false},
		"in the clear, no password": {func(s *chat.Settings) { s.Server, s.Password = "irc://irc.example.org", "" }, false},
		"in the clear, a token":     {func(s *chat.Settings) { s.Server, s.Password, s.Token = "irc://irc.example.org", "", "s3cret" }, true},
		"in the clear, loopback":    {func(s *chat.Settings) { s.Server = "irc://[::1]:6667" }, false},
		"almost loopback":           {func(s *chat.Settings) { s.Server = "irc://127.0.0.1.example.org" }, true},
		"a password in the URL":     {func(s *chat.Settings) { s.Server = "ircs://mbox:s3cret@irc.example.org" }, true},
		"no URL":                    {func(s *chat.Settings) { s.Server = "ircs://s3cret\x7f" }, true},
		"a path":                    {func(s *chat.Settings) { s.Server = "ircs://irc.example.org/s3cret" }, true},
		"no scheme":                 {func(s *chat.Settings) { s.Server = "irc.example.org:6697" }, true},
		"HTTP":                      {func(s *chat.Settings) { s.Server = "https://irc.example.org" }, true},
		"no nick":                   {func(s *chat.Settings) { s.User = "" }, true},
		"two words":                 {func(s *chat.Settings) { s.User = "m box" }, true},
		"a second line":             {func(s *chat.Settings) { s.User = "mbox\r\nQUIT" }, true},
		"a room as a nick":          {func(s *chat.Settings) { s.User = "#mbox" }, true},
		"a nick as a room":          {func(s *chat.Settings) { s.Rooms = []string{"ops"} }, true},
		"two rooms in one":          {func(s *chat.Settings) { s.Rooms = []string{"#a,#b"} }, true},
		"a password of two lines":   {func(s *chat.Settings) { s.Token = "s3cret\nQUIT" }, true},
		"no file":                   {func(s *chat.Settings) { s.CA = "/nowhere/ca.pem" }, true},
	} {
		s := good
		c.change(&s)
		_, err := open(s)
		if (err != nil) != c.wrong || c.wrong && (!errors.Is(err, chat.ErrSetup) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
