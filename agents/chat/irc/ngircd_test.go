package irc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

// What is for us comes in, in order, and nothing else does.
func TestNgircdReceive(t *testing.T) {
	ctx := timely(t)
	_, in := onDaemon(ctx, t, "mboxin", "#In")
	bob := newPerson(t, "bobin")
	bob.say("JOIN #in")
	bob.hears(" 366 ")
	bob.say(
		"PRIVMSG mboxin :first",
		"PRIVMSG #in :nobody is meant",
		"PRIVMSG #in :mboxinn: somebody else",
		"PRIVMSG #in :MBOXIN: second",
		"NOTICE mboxin :a notice",
		"NOTICE #in :mboxin: a notice",
		"PRIVMSG mboxin :\x01VERSION\x01",
		"PRIVMSG mboxin :\x01DCC SEND x 1 2 3\x01",
		"PRIVMSG mboxin :\x01ACTION waves\x01",
		"PRIVMSG mboxin :\x0304,01red\x03 gr\xfc\xdfe",
		"PRIVMSG #in :@mboxin last",
	)
	from := "bobin!~bobin@127.0.0.1"
	ids := map[string]bool{}
	for _, want := range []chat.Message{
		{Text: "first", In: chat.Conversation{Peer: from}},
		{Text: "second", In: chat.Conversation{Peer: "#In", Group: true}},
		{Text: "waves", In: chat.Conversation{Peer: from}},
		{Text: "red gr\uFFFDe", In: chat.Conversation{Peer: from}},
		{Text: "last", In: chat.Conversation{Peer: "#In", Group: true}},
	} {
		m := chattest.Next(ctx, t, in.Took)
		if m.Text != want.Text || m.In != want.In || m.From != from || m.Name != "bobin" || m.At.IsZero() {
			t.Errorf("took %+v, not %+v", m, want)
		}
		ids[m.ID] = true
	}
	if len(ids) != 5 {
		t.Errorf("the IDs are not distinct: %v", ids)
	}
	// Whoever is answered by a program could be one, too.
	bob.say("PRIVMSG mboxin :done", "PING :end")
	if chattest.Next(ctx, t, in.Took); len(in.Took) > 0 || len(in.Kept) > 0 {
		t.Error("something came that was for nobody, or a place was kept where there is none")
	}
	if heard := bob.hears("end"); !strings.Contains(heard, "PONG") {
		t.Errorf("bob got an answer: %s", heard)
	}
}

// A long notice arrives whole, in lines that no server cuts.
func TestNgircdSend(t *testing.T) {
	ctx := timely(t)
	c, in := onDaemon(ctx, t, "mboxout", "#out")
	bob := newPerson(t, "bobout")
	bob.say("JOIN #out", "PRIVMSG mboxout :hello")
	m := chattest.Next(ctx, t, in.Took)

	words := strings.Repeat("Grüße und ein langes Wort ", 50)
	text := words + "\n\nzwei\r\n\x01VERSION\x01 \tdrei\n" + strings.Repeat("ü", 700)
	for _, to := range []chat.Conversation{m.In, {Peer: "#out", Group: true}} {
		if _, err := c.Send(ctx, chat.Notice{To: to, Text: text + "\nENDE"}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for len(got) == 0 || got[len(got)-1] != "ENDE" {
			l := bob.hears("PRIVMSG")
			if len(l)+2 > maxLine || !utf8.ValidString(l) {
				t.Errorf("a line of %d bytes: %q", len(l)+2, l)
			}
			_, said, _ := strings.Cut(l, " :")
			got = append(got, said)
		}
		want := strings.Fields(words + " zwei VERSION drei " + strings.Repeat("ü", 700) + " ENDE")
		if joined := strings.Join(got, " "); strings.ReplaceAll(joined, " ", "") != strings.Join(want, "") {
			t.Errorf("arrived otherwise: %q", joined)
		}
	}
}

// Send tells what will never work from what may work another time.
func TestNgircdRefuses(t *testing.T) {
	ctx := timely(t)
	c, in := onDaemon(ctx, t, "mboxref", "#ref", "#kicked")
	bob := newPerson(t, "bobref")
	bob.say("PRIVMSG mboxref :hello")
	bobs := chattest.Next(ctx, t, in.Took).In
	op := newPerson(t, "opref")
	op.say("JOIN #full", "MODE #full +n", "PING :x")
	op.hears("x")
	for peer, group := range map[string]bool{"nobody": false, "nobody!a@b": false, "bobref!~other@127.0.0.1": false, "account:bobref": false, "#full": true, "#none": true, "a,b": false, "a b": false, "\r\nQUIT": false, "": false, ":x": false, "#ref": false} {
		_, err := c.Send(ctx, chat.Notice{To: chat.Conversation{Peer: peer, Group: group}, Text: "secret"})
		if !errors.Is(err, chat.ErrRefused) {
			t.Errorf("%q: %v", peer, err)
		}
	}
	if _, err := c.Send(ctx, chat.Notice{To: bobs, Text: "still there"}); err != nil {
		t.Error(err)
	}
	if l := bob.hears("PRIVMSG"); !strings.HasSuffix(l, ":still there") {
		t.Errorf("bob got what was not for him: %s", l)
	}

	bob.say("NICK bobelse", "PING :y")
	bob.hears("y")
	thief := newPerson(t, "thief")
	thief.say("NICK bobref", "PING :z")
	thief.hears("z")
	if _, err := c.Send(ctx, chat.Notice{To: bobs, Text: "for bob"}); !errors.Is(err, chat.ErrRefused) {
		t.Errorf("to who has taken the nick: %v", err)
	}
	thief.say("PING :end")
	if l := thief.hears("end"); !strings.Contains(l, "PONG") {
		t.Errorf("the thief got %s", l)
	}
}

// The nick that is wanted is taken as soon as it is free.
func TestNgircdNick(t *testing.T) {
	ctx := timely(t)
	ngircd(t)
	other := newPerson(t, "mboxnick")
	second := newPerson(t, "mboxnick_")
	c, in := onDaemon(ctx, t, "mboxnick")
	bob := newPerson(t, "bobnick")
	bob.say("WHOIS mboxnick1")
	if l := bob.hears("mboxnick1"); !strings.Contains(l, " 311 ") {
		t.Fatalf("no other nick was tried: %s", l)
	}
	bob.say("PRIVMSG mboxnick1 :hello")
	chattest.Next(ctx, t, in.Took)
	second.say("QUIT")
	other.say("QUIT")
	for c.online.me() != "mboxnick" {
		bob.say("PING :again")
		bob.hears("again")
	}
	bob.say("PRIVMSG mboxnick :hello")
	if m := chattest.Next(ctx, t, in.Took); m.Text != "hello" {
		t.Errorf("took %+v", m)
	}
}

// Who is thrown out of a room comes back, and a notice waits for that.
func TestNgircdKick(t *testing.T) {
	ctx := timely(t)
	ngircd(t)
	op := newPerson(t, "opkick")
	op.say("JOIN #kick", "MODE #kick +i")
	c, in := onDaemon(ctx, t, "mboxkick", "#kick")
	to := chat.Notice{To: chat.Conversation{Peer: "#kick", Group: true}, Text: "back"}
	if _, err := c.Send(ctx, to); err == nil || errors.Is(err, chat.ErrRefused) {
		t.Errorf("in a room that we are not in yet: %v", err)
	}
	op.say("MODE #kick -i")
	op.hears("mboxkick!~mbox@127.0.0.1 JOIN")
	op.say("KICK #kick mboxkick :out")
	op.hears("mboxkick!~mbox@127.0.0.1 JOIN")
	op.say("PRIVMSG #kick :mboxkick, hello")
	if m := chattest.Next(ctx, t, in.Took); m.Text != "hello" {
		t.Errorf("took %+v", m)
	}
	if _, err := c.Send(ctx, to); err != nil {
		t.Error(err)
	}
	op.hears("PRIVMSG #kick :back")
}

// Check and Receive tell what a person has to mend, and over TLS who is believed.
func TestNgircdSetup(t *testing.T) {
	ctx := timely(t)
	ngircd(t)
	good := chat.Settings{Server: "ircs://" + daemon.tls, User: "mboxset", Token: letIn, CA: daemon.certificate}
	said, err := quick(t, good).Check(ctx)
	if err != nil || said != "mboxset on irc.example.org; senders are nick!user@host: this server names no accounts" {
		t.Errorf("%q, %v", said, err)
	}
	for name, change := range map[string]func(*chat.Settings){
		"a wrong password":        func(s *chat.Settings) { s.Token = "wrong-secret" },
		"no password":             func(s *chat.Settings) { s.Token = "" },
		"a login":                 func(s *chat.Settings) { s.Password = "account-secret" },
		"a certificate of nobody": func(s *chat.Settings) { s.CA = "" },
		"a nick too long":         func(s *chat.Settings) { s.User = strings.Repeat("n", 40) },
	} {
		s := good
		change(&s)
		c := quick(t, s)
		_, err := c.Check(ctx)
		failed := c.Receive(ctx, "", chattest.NewInbox())
		for _, err := range []error{err, failed} {
			if !errors.Is(err, chat.ErrSetup) || strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// By TLS as in the clear.
func TestNgircdTLS(t *testing.T) {
	ctx, cancel := context.WithCancel(timely(t))
	defer cancel()
	ngircd(t)
	c := quick(t, chat.Settings{Server: "ircs://" + daemon.tls, User: "mboxtls", Token: letIn, CA: daemon.certificate})
	in := chattest.NewInbox()
	chattest.Receiving(ctx, t, c, "", in)
	if _, err := c.received(ctx); err != nil {
		t.Fatal(err)
	}
	bob := newPerson(t, "bobtls")
	bob.say("PRIVMSG mboxtls :hello")
	m := chattest.Next(ctx, t, in.Took)
	if _, err := c.Send(ctx, chat.Notice{To: m.In, Text: "world"}); err != nil {
		t.Fatal(err)
	}
	bob.hears("PRIVMSG bobtls :world")
}

// A notice goes out where nobody receives, and its connection does not stay.
func TestNgircdSendAlone(t *testing.T) {
	ctx := timely(t)
	ngircd(t)
	bob := newPerson(t, "bobal")
	bob.say("JOIN #alone")
	c := quick(t, chat.Settings{Server: "irc://" + daemon.plain, User: "mboxal", Token: letIn, Rooms: []string{"#alone"}})
	c.grace = 0
	for _, text := range []string{"first", "second"} {
		if _, err := c.Send(ctx, chat.Notice{To: chat.Conversation{Peer: "#alone", Group: true}, Text: text}); err != nil {
			t.Fatal(err)
		}
		bob.hears("PRIVMSG #alone :" + text)
		bob.hears(" QUIT")
	}
	c.Token = "wrong-secret"
	if _, err := c.Send(ctx, chat.Notice{To: chat.Conversation{Peer: "bobal"}, Text: "x"}); !errors.Is(err, chat.ErrSetup) {
		t.Error(err)
	}
}
