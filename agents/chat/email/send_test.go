package email

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-message"
	"github.com/emersion/go-message/mail"
	"github.com/emersion/go-smtp"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

const key = "0123456789abcdefghijklmnopqrstuv"

func notice() chat.Notice {
	return chat.Notice{
		Key: key, To: chat.Conversation{Peer: "anna@example.com", Thread: "root@x"}, Reply: "last@x#0123",
		Title: "A täsk", Text: "It is done.\nLoňg " + strings.Repeat("x", 2000) + "\n.\n..dots\n",
	}
}

// parsed is a mail as who gets it reads it.
func parsed(t *testing.T, text string) (*mail.Header, *message.Entity) {
	t.Helper()
	entity, err := message.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(text, "\r\n") {
		if len(line) > 998 || strings.ContainsFunc(line, func(r rune) bool { return r > '~' || r < ' ' }) {
			t.Errorf("a line that no server must take: %.80q", line)
		}
	}
	return &mail.Header{Header: entity.Header}, entity
}

func TestANoticeIsAMail(t *testing.T) {
	for _, scheme := range []string{"smtp", "smtps"} {
		p := newPost(t)
		n := notice()
		id, err := opened(t, p.settings("imap", scheme)).Send(timed(t), n)
		if err != nil || id != key+"@example.org" || len(p.mails()) != 1 {
			t.Fatalf("%s: %q %v %v", scheme, id, err, p.mails())
		}
		got := p.mails()[0]
		h, entity := parsed(t, got.text)
		if got.from != agent || got.to != "anna@example.com" {
			t.Errorf("%+v", got)
		}
		for name, want := range map[string]string{
			"From": agent, "To": "anna@example.com", "Message-Id": "<" + id + ">", "In-Reply-To": "<last@x>",
			"References": "<root@x> <last@x>", "Auto-Submitted": "auto-replied", "X-Auto-Response-Suppress": "All", "Mime-Version": "1.0",
		} {
			if all := h.Values(name); len(all) != 1 || all[0] != want {
				t.Errorf("%s: %q, want %q", name, all, want)
			}
		}
		body, _ := io.ReadAll(entity.Body)
		subject, _ := h.Subject()
		if date, err := h.Date(); err != nil || time.Since(date) > time.Minute || subject != "Re: A täsk" ||
			strings.ReplaceAll(string(body), "\r\n", "\n") != n.Text {
			t.Errorf("%v %q %.60q", date, subject, body)
		}
	}
}

// Each try has the same Message-ID, and nothing else of it depends on the try.
func TestTheSameNoticeHasTheSameID(t *testing.T) {
	p := newPost(t)
	c := p.channel(t)
	for range 2 {
		if id, err := c.Send(timed(t), notice()); err != nil || id != key+"@example.org" {
			t.Errorf("%q %v", id, err)
		}
	}
	if len(p.mails()) != 2 {
		t.Errorf("%d mails", len(p.mails()))
	}
}

func TestAFileIsAttached(t *testing.T) {
	p := newPost(t)
	c := p.channel(t)
	n := notice()
	content := strings.Repeat("\x00ü\r\n.", 5000)
	n.File = &chat.File{Name: "../a\r\nBcc: eve@evil.com\"ö.txt", Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
	if _, err := c.Send(timed(t), n); err != nil {
		t.Fatal(err)
	}
	_, entity := parsed(t, p.mails()[0].text)
	parts := entity.MultipartReader()
	text, err := parts.NextPart()
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(text.Body); strings.ReplaceAll(string(body), "\r\n", "\n") != n.Text {
		t.Errorf("%.60q", body)
	}
	file, err := parts.NextPart()
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(file.Body)
	name, _ := (&mail.AttachmentHeader{Header: file.Header}).Filename()
	if string(body) != content || name != ".._a Bcc: eve@evil.com_ö.txt" {
		t.Errorf("%q with %d bytes", name, len(body))
	}
	n.File.Open = func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(endless{}, Kind.Limits.File+1)), nil
	}
	if _, err := c.Send(timed(t), n); !errors.Is(err, chat.ErrRefused) || len(p.mails()) != 1 {
		t.Errorf("a file beyond the limit: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// Nothing of a notice writes a line of its own into the header or the session.
func TestNothingIsInjected(t *testing.T) {
	const evil = "x\r\nBcc: eve@evil.com\r\n\r\n.\r\nMAIL FROM:<eve@evil.com>\r\n"
	for name, change := range map[string]func(*chat.Notice){
		"title":  func(n *chat.Notice) { n.Title = evil },
		"thread": func(n *chat.Notice) { n.To.Thread = "a@b>" + evil },
		"reply":  func(n *chat.Notice) { n.Reply = "a@b>" + evil + "#12" },
		"text":   func(n *chat.Notice) { n.Text = evil },
		"key":    func(n *chat.Notice) { n.Key = evil },
		"peer":   func(n *chat.Notice) { n.To.Peer = "anna@example.com>" + evil },
		"two":    func(n *chat.Notice) { n.To.Peer = "anna@example.com,eve@evil.com" },
		"room":   func(n *chat.Notice) { n.To.Group = true },
		"empty":  func(n *chat.Notice) { n.To.Peer, n.Key = "", "" },
	} {
		p := newPost(t)
		n := notice()
		change(&n)
		id, err := p.channel(t).Send(timed(t), n)
		if err != nil {
			if !errors.Is(err, chat.ErrRefused) || strings.ContainsAny(err.Error(), "\r\n") || id != "" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if len(p.mails()) != 1 || p.mails()[0].to != "anna@example.com" {
			t.Fatalf("%s: %+v", name, p.mails())
		}
		h, _ := parsed(t, p.mails()[0].text)
		if h.Has("Bcc") || h.Len() > 12 {
			t.Errorf("%s: %s", name, p.mails()[0].text)
		}
	}
}

func TestSubjects(t *testing.T) {
	for _, c := range []struct{ title, reply, want string }{
		{"a", "", "a"},
		{"a", "x", "Re: a"},
		{"RE: a", "x", "RE: a"},
		{"", "x", "Answer"},
		{"Re", "x", "Re: Re"},
		{" a\n b ", "", "a b"},
		{strings.Repeat("ü", 300), "", strings.Repeat("ü", 200) + "…"},
	} {
		if got := subject(chat.Notice{Title: c.title, Reply: c.reply}); got != c.want {
			t.Errorf("%q: %q", c.title, got)
		}
	}
}

func TestRefusalsOfTheServer(t *testing.T) {
	for _, c := range []struct {
		at             string
		code           int
		refused, setup bool
	}{
		{"AUTH", 535, false, true},
		{"AUTH", 454, false, false},
		{"MAIL", 553, true, false},
		{"MAIL", 530, false, true},
		{"RCPT", 550, true, false},
		{"RCPT", 451, false, false},
		{"DATA", 554, true, false},
		{"DATA", 452, false, false},
		{"DATA", 421, false, false},
	} {
		p := newPost(t)
		p.says = func(command, _ string) error {
			if command != c.at {
				return nil
			}
			return &smtp.SMTPError{Code: c.code, EnhancedCode: smtp.NoEnhancedCode, Message: "no " + secret}
		}
		id, err := p.channel(t).Send(timed(t), notice())
		if id != "" || err == nil || errors.Is(err, chat.ErrRefused) != c.refused || errors.Is(err, chat.ErrSetup) != c.setup || strings.Contains(err.Error(), secret) {
			t.Errorf("%s %d: %v", c.at, c.code, err)
		}
	}
}

func TestABadOutgoingServerIsAnError(t *testing.T) {
	flood := func(c net.Conn) {
		for {
			if _, err := io.WriteString(c, "250-"+strings.Repeat("x", 1000)+"\r\n"); err != nil {
				return
			}
		}
	}
	for name, s := range map[string]struct {
		script
		setup bool
	}{
		"closes":        {script{}, false},
		"floods":        {script{greeting: "220 hi\r\n", last: flood}, false},
		"is IMAP":       {script{greeting: "* OK hi\r\n"}, false},
		"is closed":     {script{greeting: "554 no service\r\n"}, false},
		"is another":    {script{greeting: "220 hi\r\n", steps: []step{{"example.org", "250-hi\r\n250 AUTH LOGIN\r\n"}}}, true},
		"cuts":          {script{greeting: "220 hi\r\n", steps: []step{{"example.org", "250-hi\r\n250 AUTH PLAIN\r\n"}, {"PLAIN", "235 in\r\n"}, {"FROM", "250 ok\r\n"}, {"TO", "250 ok\r\n"}, {"", "354 go\r\n"}}}, false},
		"is not itself": {script{greeting: "220 hi\r\n", steps: []step{{"", strings.Repeat("250-x\r\n", 100_000)}}}, false},
	} {
		c := opened(t, chat.Settings{Server: "imap://localhost", User: agent, Password: secret, Outgoing: "smtp://" + s.serve(t)})
		_, err := c.Send(timed(t), notice())
		if err == nil || errors.Is(err, chat.ErrRefused) || errors.Is(err, chat.ErrSetup) != s.setup || len(err.Error()) > 600 || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := opened(t, chat.Settings{Server: "imap://localhost", User: agent, Password: secret, Outgoing: "smtp://127.0.0.1:1"})
	if _, err := c.Send(timed(t), notice()); err == nil || errors.Is(err, chat.ErrSetup) || errors.Is(err, chat.ErrRefused) {
		t.Errorf("nobody listens: %v", err)
	}
	mute := script{last: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }}
	c = opened(t, chat.Settings{Server: "imap://localhost", User: agent, Password: secret, Outgoing: "smtp://" + mute.serve(t)})
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if _, err := c.Send(ctx, notice()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without an answer: %v", err)
	}
}

// Without STARTTLS nothing is sent to another machine, the password least of all.
func TestSubmissionIsEncrypted(t *testing.T) {
	for _, hello := range []string{"250-hi\r\n250 AUTH PLAIN\r\n", "250-hi\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n"} {
		heard := make(chan string, 100)
		s := script{greeting: "220 hi\r\n", steps: []step{{"", hello}}, last: func(c net.Conn) {
			line, _ := lineOf(c)
			heard <- line
			_, _ = io.WriteString(c, "454 not now\r\n")
			line, _ = lineOf(c)
			heard <- line
		}}
		c := opened(t, chat.Settings{Server: "imap://localhost", User: agent, Password: secret, Outgoing: "smtp://" + s.serve(t)})
		c.smtp.plain = false
		if _, err := c.Send(timed(t), notice()); err == nil {
			t.Error("sent")
		}
		if a, b := <-heard, <-heard; strings.Contains(a+b, "AUTH") || strings.Contains(a+b, "MAIL") {
			t.Errorf("it heard %q and %q", a, b)
		}
	}
}

func TestCheck(t *testing.T) {
	p := newPost(t)
	p.deliver(t, letterOf("a@x", "hello"))
	line, err := p.channel(t).Check(timed(t))
	if err != nil || line != agent+": INBOX of 127.0.0.1 has 1 mails, and the server tells of new mail at once; 127.0.0.1 takes ours" || len(p.mails()) != 0 || p.count(t) != 0 {
		t.Errorf("%q %v", line, err)
	}
	s := p.settings("imap", "smtp")
	for _, user := range []string{"agent", "", "a@b@c", "agent@exämple.org", "agent@x\r\ny"} {
		s.User = user
		if _, err := Kind.Open(s); !errors.Is(err, chat.ErrSetup) {
			t.Errorf("user %q: %v", user, err)
		}
	}
	s.User, s.Password = agent, "two\nlines"
	if _, err := Kind.Open(s); !errors.Is(err, chat.ErrSetup) {
		t.Error(err)
	}
}

// What we send, no bridge takes for a task: two of them do not write for ever.
func TestTwoBridgesDoNotTalk(t *testing.T) {
	p, ctx, in := newPost(t), timed(t), chattest.NewInbox()
	if _, err := p.channel(t).Send(ctx, notice()); err != nil {
		t.Fatal(err)
	}
	chattest.Receiving(ctx, t, p.channel(t), "", in)
	chattest.Next(ctx, t, in.Kept)
	own := strings.ReplaceAll(p.mails()[0].text, "\r\n", "\n")
	p.deliver(t, own)
	p.deliver(t, strings.Replace(own, "From: "+agent, "From: bot@example.com", 1))
	for range 2 {
		chattest.Next(ctx, t, in.Kept)
	}
	if len(in.Took) != 0 {
		t.Errorf("%+v", <-in.Took)
	}
}
