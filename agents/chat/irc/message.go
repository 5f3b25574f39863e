package irc

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"mbox/agents/chat"
)

// message queues what is for us.
func (s *session) message(l line) error {
	m, ok := s.understand(l)
	if !ok || s.deaf {
		return nil
	}
	return s.put(event{m: &m, at: s.time(l)})
}

func (s *session) put(e event) error {
	select {
	case s.queue <- e:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// understand reads a PRIVMSG. Not for us is what a program says that is marked as
// one, since two programs could answer each other for ever; what is a command to a
// client (CTCP); and what in a room is said to nobody or to somebody else.
func (s *session) understand(l line) (m chat.Message, ok bool) {
	from, nick := s.identity(l)
	_, robot := l.tags["bot"]
	text, ok := spoken(l.last())
	if from == "" || robot && s.has("message-tags") || !ok || len(l.params) != 2 {
		return m, false
	}
	m = chat.Message{From: from, Name: l.nick(), At: s.time(l), Text: text}
	if strings.HasPrefix(from, vouched) {
		m.Proof = from
	}
	if m.In, ok = s.conversation(l, from, nick); !ok {
		return m, false
	}
	if m.In.Group {
		m.Text, ok = addressed(m.Text, s.me())
	}
	if strings.TrimSpace(m.Text) == "" {
		return m, false
	}
	if m.At.IsZero() {
		m.At = time.Now()
	}
	m.ID = s.name(l)
	return m, ok
}

// identity is who the server says that it was: "" for ourselves, and for who has no full
// name. An account is written to by the nick that it has.
func (s *session) identity(l line) (from, nick string) {
	nick, mask, full := strings.Cut(l.prefix, "!")
	if !full || !single(nick) || strings.Contains(nick, ":") || !strings.Contains(mask, "@") || strings.HasPrefix(mask, vouched) || !utf8.ValidString(l.prefix) || same(nick, s.me()) {
		return "", ""
	}
	account := l.tags["account"]
	if !s.has("account-tag") || account == "" || account == "*" {
		return l.prefix, ""
	}
	if !utf8.ValidString(account) {
		return "", ""
	}
	return vouched + account, nick
}

// vouched is before the name of an account. No nick that is believed has a colon.
const vouched = "account:"

// conversation tells where a message was said. In the history of a person stands
// what we have said to him, too, and the nick that we had then.
func (s *session) conversation(l line, from, nick string) (chat.Conversation, bool) {
	if room := s.c.room(l.param(0)); room != "" {
		return chat.Conversation{Peer: room, Group: true}, true
	}
	if of := s.batches[l.tags["batch"]]; of != "" {
		return chat.Conversation{Peer: from, Thread: nick}, same(of, l.nick()) && !isRoom(l.param(0))
	}
	return chat.Conversation{Peer: from, Thread: nick}, same(l.param(0), s.me())
}

// spoken is the text that a person has written. An ACTION is text; any other command
// to the client is none.
func spoken(text string) (string, bool) {
	if !strings.HasPrefix(text, "\x01") {
		return plain(text), true
	}
	text, is := strings.CutPrefix(text, "\x01ACTION ")
	return plain(strings.TrimSuffix(text, "\x01")), is
}

// addressed returns what is said to a nick: "nick: text", "nick, text", "@nick text".
func addressed(text, nick string) (string, bool) {
	text, at := strings.CutPrefix(strings.TrimSpace(text), "@")
	if len(text) < len(nick) || !same(text[:len(nick)], nick) {
		return "", false
	}
	rest := text[len(nick):]
	if rest == "" || !strings.Contains(":,", rest[:1]) && !(at && rest[0] == ' ') {
		return "", false
	}
	return strings.TrimSpace(rest[1:]), true
}

// time is when the server says that it was; zero where it does not say.
func (s *session) time(l line) time.Time {
	if !s.has("server-time") {
		return time.Time{}
	}
	at, err := time.Parse(stamp, l.tags["time"])
	if err != nil {
		return time.Time{}
	}
	return at
}

// name is the ID of a message: the server's own; else made of what was said, by whom
// and when, so that it is the same when a bouncer repeats it; else one that no
// other message of any connection has.
func (s *session) name(l line) string {
	if id := l.tags["msgid"]; id != "" && len(id) <= 200 && s.has("message-tags") {
		return "msgid:" + id
	}
	if s.has("server-time") && l.tags["time"] != "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{l.tags["time"], l.prefix, l.param(0), l.last()}))
		return "said:" + hex.EncodeToString(sum[:16])
	}
	s.heard++
	return fmt.Sprintf("heard:%s-%d", s.id, s.heard)
}
