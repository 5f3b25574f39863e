package irc

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

// A fake is a server that offers what ngircd lacks, and misbehaves where a test
// wants it. It writes down what it was told.
type fake struct {
	t       *testing.T
	address string
	caps    string
	hear    func(p *peer, l line) bool // true: done, nothing else answers it

	mu    sync.Mutex
	heard []string
	peers []*peer
}

// A peer is a client of the fake.
type peer struct {
	net.Conn
	f    *fake
	nick string
}

func newFake(t *testing.T, caps string, hear func(*peer, line) bool) *fake {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, address: "irc://" + l.Addr().String(), caps: caps, hear: hear}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p := &peer{Conn: conn, f: f}
			f.mu.Lock()
			f.peers = append(f.peers, p)
			f.mu.Unlock()
			group.Go(p.serve)
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.mu.Lock()
		for _, p := range f.peers {
			p.Close()
		}
		f.mu.Unlock()
		group.Wait()
	})
	return f
}

func (p *peer) serve() {
	defer p.Close()
	r := bufio.NewReader(p)
	for {
		l, err := next(r)
		if err != nil {
			return
		}
		p.f.mu.Lock()
		p.f.heard = append(p.f.heard, strings.TrimSpace(l.command+" "+strings.Join(l.params, " ")))
		p.f.mu.Unlock()
		if p.f.hear == nil || !p.f.hear(p, l) {
			p.usual(l)
		}
	}
}

// say sends lines to the client.
func (p *peer) say(lines ...string) {
	_, _ = p.Write([]byte(strings.Join(lines, "\r\n") + "\r\n"))
}

const welcomed = "@time=2026-01-01T12:00:00.000Z :fake 001 mbox :Welcome"

// usual is what any server does.
func (p *peer) usual(l line) {
	switch l.command {
	case "CAP":
		switch l.param(0) {
		case "LS":
			first, second, _ := strings.Cut(p.f.caps, "|")
			if second != "" {
				p.say(":fake CAP * LS * :" + first)
				first = second
			}
			p.say(":fake CAP * LS :" + first)
		case "REQ":
			p.say(":fake CAP * ACK :" + l.param(1))
		case "END":
			p.say(welcomed, ":fake 005 mbox CHATHISTORY=3 BOT=B CASEMAPPING=ascii :are supported", ":fake 422 mbox :no MOTD")
		}
	case "NICK":
		p.nick = l.param(0)
	case "PING":
		p.say(":fake PONG fake :" + l.last())
	case "JOIN":
		p.say(":mbox!~mbox@host JOIN " + l.param(0))
	case "AUTHENTICATE":
		if l.param(0) == "PLAIN" {
			p.say("AUTHENTICATE +")
		} else if len(l.param(0)) < 400 {
			p.say(":fake 900 mbox mbox!~mbox@host Mbox :logged in", ":fake 903 mbox :done")
		}
	case "QUIT":
		p.Close()
	}
}

func (f *fake) told(command string) (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.heard {
		if strings.HasPrefix(l, command) {
			out = append(out, l)
		}
	}
	return out
}

func (f *fake) settings() chat.Settings {
	return chat.Settings{Server: f.address, User: "mbox", Rooms: []string{"#ops"}}
}

const modern = "sasl=EXTERNAL,PLAIN multi-prefix message-tags|server-time account-tag batch draft/chathistory standard-replies echo-message"

// The password goes to servers that take it, in pieces, and the login is waited for.
func TestSASL(t *testing.T) {
	ctx := timely(t)
	for _, n := range []int{1, 287, 290, 293, 900} { // "\0mbox\0" and 294 make 400 letters
		f := newFake(t, modern, nil)
		s := f.settings()
		s.Password = strings.Repeat("p", n)
		said, err := quick(t, s).Check(ctx)
		if err != nil || said != "mbox on fake, logged in as Mbox; senders are account:NAME, or nick!user@host" {
			t.Errorf("%q, %v", said, err)
		}
		var secret string
		for _, l := range f.told("AUTHENTICATE ")[1:] {
			piece := strings.TrimPrefix(l, "AUTHENTICATE ")
			if len(piece) > 400 {
				t.Errorf("a piece of %d letters", len(piece))
			}
			secret += strings.Trim(piece, "+")
		}
		if got, _ := base64.StdEncoding.DecodeString(secret); string(got) != "\x00mbox\x00"+s.Password {
			t.Errorf("the server was told %q", got)
		}
	}
}

// Without a login nothing goes on, and the password is in no error.
func TestSASLRefused(t *testing.T) {
	ctx := timely(t)
	welcome := func(p *peer, l line) bool {
		if l.command == "USER" {
			p.say(welcomed, ":fake 422 mbox :no MOTD")
		}
		return l.command == "CAP"
	}
	for name, f := range map[string]*fake{
		"not offered":      newFake(t, "server-time", nil),
		"another way":      newFake(t, "sasl=EXTERNAL", nil),
		"no extensions":    newFake(t, "", welcome),
		"a wrong password": newFake(t, "sasl", sasl(":fake 904 mbox :SASL authentication failed")),
		"a locked nick":    newFake(t, "sasl", sasl(":fake 902 mbox :You must use a nick assigned to you")),
	} {
		s := f.settings()
		s.Password = "the-secret"
		_, err := quick(t, s).Check(ctx)
		if !errors.Is(err, chat.ErrSetup) || strings.Contains(err.Error(), "secret") || len(f.told("JOIN")) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func sasl(answer string) func(*peer, line) bool {
	return func(p *peer, l line) bool {
		if l.command == "AUTHENTICATE" && l.param(0) != "PLAIN" {
			p.say(answer)
			return true
		}
		return false
	}
}

// An extension that the server takes back is no longer believed.
func TestCapDel(t *testing.T) {
	ctx := timely(t)
	f := newFake(t, modern, func(p *peer, l line) bool {
		if l.command == "JOIN" {
			p.say("@account=bob :bob!b@h PRIVMSG mbox :1", ":fake CAP mbox DEL :account-tag", "@account=bob :bob!b@h PRIVMSG mbox :2")
		}
		return false
	})
	in := chattest.NewInbox()
	chattest.Receiving(ctx, t, quick(t, f.settings()), "", in)
	for _, want := range []string{"account:bob", "bob!b@h"} {
		if m := chattest.Next(ctx, t, in.Took); m.From != want {
			t.Errorf("%q, not %q", m.From, want)
		}
	}
}

// logbook is a server's history of #ops and of bob.
type logbook []string

func said(i int, from, to string) string {
	return fmt.Sprintf("@time=2026-01-01T11:%02d:00.000Z;msgid=m%d :%s!u@host PRIVMSG %s :mbox: text %d", i, i, from, to, i)
}

// serve answers CHATHISTORY in pages of three, as the fake says that it does.
func (b logbook) serve(p *peer, l line) bool {
	if l.command != "CHATHISTORY" {
		return false
	}
	if l.param(0) == "TARGETS" {
		p.say(":fake BATCH +t draft/chathistory-targets", "@batch=t :fake CHATHISTORY TARGETS #ops 2026-01-01T11:00:00.000Z",
			"@batch=t :fake CHATHISTORY TARGETS bob 2026-01-01T11:00:00.000Z", ":fake BATCH -t")
		return true
	}
	kind, from, _ := strings.Cut(l.param(2), "=")
	n, begun := 0, false
	p.say(":fake BATCH +h chathistory " + l.param(1))
	for _, raw := range b {
		m, _ := parse(raw)
		if m.param(0) != l.param(1) && !(l.param(1) == "bob" && m.param(0)[0] != '#') {
			continue
		}
		behind := begun || kind == "timestamp" && m.tags["time"] > from
		begun = begun || m.tags["msgid"] == from
		if behind && n < 3 {
			n++
			p.say("@batch=h;" + raw[1:])
		}
	}
	p.say(":fake BATCH -h")
	return true
}

// What was said behind the kept place is taken, in order, and only then the place moves.
func TestHistory(t *testing.T) {
	ctx := timely(t)
	var book logbook
	for i := range 20 {
		book = append(book, said(i, "eve", "#ops"))
	}
	book = append(book, said(20, "bob", "mbox"), said(21, "mbox_", "bob"), said(22, "bob", "mbox_"))
	f := newFake(t, modern, func(p *peer, l line) bool {
		if l.command == "JOIN" {
			p.say("@time=2026-01-01T12:00:01.000Z;msgid=now :eve!u@host PRIVMSG #ops :mbox: now")
		}
		return book.serve(p, l)
	})
	in := chattest.NewInbox()
	var early atomic.Bool
	in.Fail = func(chat.Message) error { // whoever takes a message has kept no place behind it
		early.Store(early.Load() || len(in.Kept) > 0)
		return nil
	}
	chattest.Receiving(ctx, t, quick(t, f.settings()), "2026-01-01T11:05:00.000Z", in)
	var texts []string
	for range 18 {
		texts = append(texts, chattest.Next(ctx, t, in.Took).ID)
	}
	if early.Load() {
		t.Error("the place moved before the history was there")
	}
	want := "msgid:now msgid:m5" // the overlap repeats one; the key of its task is the same
	for i := 6; i < 20; i++ {
		want += fmt.Sprintf(" msgid:m%d", i)
	}
	if got := strings.Join(texts, " "); got != want+" msgid:m20 msgid:m22" {
		t.Errorf("took %s", got)
	}
	if kept := chattest.Next(ctx, t, in.Kept); kept != "2026-01-01T12:00:01.000Z" {
		t.Errorf("kept %s", kept)
	}
}

// A server that keeps nothing is asked for nothing, and a place is never kept.
func TestNoHistory(t *testing.T) {
	ctx := timely(t)
	f := newFake(t, "server-time message-tags", nil)
	c, in := quick(t, f.settings()), chattest.NewInbox()
	chattest.Receiving(ctx, t, c, "2026-01-01T11:05:00.000Z", in)
	if _, err := c.received(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Send(ctx, chat.Notice{To: chat.Conversation{Peer: "bob"}, Text: "x"}); err != nil {
		t.Fatal(err)
	}
	if len(f.told("CHATHISTORY")) > 0 || len(in.Kept) > 0 {
		t.Error("a history was asked for that the server does not offer")
	}
}

// What Send returns follows from what the server has said before the PONG.
func TestSendErrors(t *testing.T) {
	ctx := timely(t)
	var answer, replied string
	f := newFake(t, modern, func(p *peer, l line) bool {
		switch l.command {
		case "WHOIS":
			p.say(":fake 311 mbox bob u host * :Bob", ":fake 330 mbox bob Bob :is logged in as", ":fake 318 mbox bob :End")
		case "PRIVMSG":
			replied = l.tags["+draft/reply"]
			p.say(answer)
		}
		return l.command == "PRIVMSG"
	})
	c := quick(t, f.settings())
	ended := make(chan error, 1)
	go func() { ended <- c.Receive(ctx, "", chattest.NewInbox()) }()
	n := chat.Notice{To: chat.Conversation{Peer: "account:Bob", Thread: "bob"}, Text: "x", Reply: "msgid:a b"}
	var wait *chat.WaitError
	for _, number := range []string{"401", "403", "404", "477", "482", "531", "716"} {
		answer = ":fake " + number + " mbox bob :No"
		if _, err := c.Send(ctx, n); !errors.Is(err, chat.ErrRefused) || errors.As(err, &wait) {
			t.Errorf("%s: %v", answer, err)
		}
	}
	for _, later := range []string{":fake 263 mbox PRIVMSG :Wait", ":fake 439 mbox bob :Wait", ":fake 707 mbox bob :Wait"} {
		answer = later
		if _, err := c.Send(ctx, n); !errors.As(err, &wait) || wait.For <= 0 || errors.Is(err, chat.ErrRefused) {
			t.Errorf("%s: %v", answer, err)
		}
	}
	answer = ":fake 301 mbox bob :is away"
	if _, err := c.Send(ctx, n); err != nil || replied != "a b" {
		t.Errorf("%v, as an answer to %q", err, replied)
	}
	answer = "ERROR :Closing link"
	if _, err := c.Send(ctx, n); err == nil || errors.Is(err, chat.ErrRefused) {
		t.Errorf("a connection that was cut: %v", err)
	}
	if err := <-ended; err == nil || errors.Is(err, chat.ErrSetup) {
		t.Errorf("Receive ended: %v", err)
	}
}
