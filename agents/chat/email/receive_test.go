package email

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

func TestNewMailIsAMessage(t *testing.T) {
	for _, schemes := range [][2]string{{"imap", "smtp"}, {"imaps", "smtps"}} {
		t.Run(schemes[0], func(t *testing.T) {
			p, ctx, in := newPost(t), timed(t), chattest.NewInbox()
			p.deliver(t, letterOf("old@x", "was there before"))
			chattest.Receiving(ctx, t, opened(t, p.settings(schemes[0], schemes[1])), "", in)
			chattest.Next(ctx, t, in.Kept) // the place to begin at
			for _, text := range []string{"one", "two"} {
				p.deliver(t, letterOf(text+"@x", text))
				m := chattest.Next(ctx, t, in.Took)
				if m.Text != text || m.From != "anna@example.com" || m.Name != "Anna" || m.Title != "A task" || m.At.IsZero() ||
					m.In != (chat.Conversation{Peer: "anna@example.com", Thread: text + "@x"}) {
					t.Errorf("%+v", m)
				}
				chattest.Next(ctx, t, in.Kept)
			}
		})
	}
}

// In IDLE the server tells of new mail, and it is looked for at once.
func TestNewsEndTheWaiting(t *testing.T) {
	heard := make(chan string, 2)
	s := script{greeting: greeting, steps: openInbox(step{"UID SEARCH", "* SEARCH\r\n$ OK\r\n"}, step{"IDLE", "+ idling\r\n* 4 EXISTS\r\n"}), last: func(c net.Conn) {
		line, _ := lineOf(c)
		heard <- line
		fmt.Fprint(c, "T4 OK\r\n")
		line, _ = lineOf(c)
		heard <- line
	}}
	c := opened(t, chat.Settings{Server: "imap://" + s.serve(t), User: agent, Password: secret, Outgoing: "smtp://localhost"})
	c.idle = time.Hour
	err := c.Receive(timed(t), place{7, 8, 0, time.Now()}.String(), chattest.NewInbox())
	if done, search := <-heard, <-heard; done != "DONE" || !strings.Contains(search, "UID SEARCH UID 9:*") {
		t.Errorf("%q, then %q: %v", done, search, err)
	}
}

// A server without IDLE is asked.
func TestMailIsPolledForWithoutIdle(t *testing.T) {
	p, ctx, in := newPost(t), timed(t), chattest.NewInbox()
	c := p.channel(t)
	c.poll = 10 * time.Millisecond
	s, err := c.inbox(ctx, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.idles = false
	at, _, err := placeAt("", s.box)
	if err != nil {
		t.Fatal(err)
	}
	p.deliver(t, letterOf("one@x", "one"))
	if err := s.wait(ctx, 0, c.poll); err != nil {
		t.Fatal(err)
	}
	if err := c.takeAll(ctx, s, &at, in); err != nil {
		t.Fatal(err)
	}
	chattest.Next(ctx, t, in.Took)
}

// \Seen is what others go by: it may be there only when the place is kept.
func TestAMailIsSeenWhenItsPlaceIsKept(t *testing.T) {
	p, ctx := newPost(t), timed(t)
	in := &watched{Inbox: chattest.NewInbox(), post: p, t: t}
	chattest.Receiving(ctx, t, p.channel(t), "", in)
	chattest.Next(ctx, t, in.Kept)
	p.deliver(t, letterOf("one@x", "one"))
	p.deliver(t, strings.Replace(letterOf("robot@x", "I am away"), "\n", "\nAuto-Submitted: auto-replied\n", 1))
	p.deliver(t, letterOf("two@x", "two"))
	for range 3 {
		chattest.Next(ctx, t, in.Kept)
	}
	if len(in.Took) != 2 {
		t.Errorf("%d messages", len(in.Took))
	}
	p.seen(ctx, t, "1:1 3:3")
}

// watched looks whether a mail is marked before it may be.
type watched struct {
	*chattest.Inbox
	*post
	t     *testing.T
	kept  int
	taken int
}

func (w *watched) Take(ctx context.Context, m chat.Message) error {
	w.taken++
	return w.Inbox.Take(ctx, m)
}

func (w *watched) Keep(ctx context.Context, place string) error {
	if n := w.count(w.t); n > w.kept {
		w.t.Errorf("%d mails are marked, and %d places kept", n, w.kept)
	}
	w.kept = w.taken
	return w.Inbox.Keep(ctx, place)
}

func (p *post) count(t *testing.T) int {
	data, err := p.user.Status("INBOX", &imap.StatusOptions{NumUnseen: true, NumMessages: true})
	if err != nil {
		t.Fatal(err)
	}
	return int(*data.NumMessages - *data.NumUnseen)
}

// seen waits until these mails are marked, and no others.
func (p *post) seen(ctx context.Context, t *testing.T, want string) {
	t.Helper()
	s, err := p.channel(t).inbox(ctx, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for {
		data, err := s.client.UIDSearch(&imap.SearchCriteria{Flag: []imap.Flag{imap.FlagSeen}}, nil).Wait()
		if err != nil {
			t.Fatalf("waited for %s: %v", want, err)
		}
		var got []string
		for _, r := range data.All.(imap.UIDSet) {
			got = append(got, fmt.Sprintf("%d:%d", r.Start, r.Stop))
		}
		if strings.Join(got, " ") == want {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("seen are %v, want %s", got, want)
		}
	}
}

// Whatever the moment at which a bridge is killed: with the place that was kept last,
// all comes that was not kept yet, and at most one mail twice.
func TestAKeptPlaceLosesNothing(t *testing.T) {
	const mails = 3
	p, ctx := newPost(t), timed(t)
	for i := range mails {
		p.deliver(t, letterOf(fmt.Sprintf("%d@x", i), fmt.Sprint(i)))
	}
	for kill := 1; kill <= 2*mails; kill++ {
		in := &killed{Inbox: chattest.NewInbox(), place: place{1, 0, 0, time.Now().Add(-time.Hour)}.String(), left: kill, last: fmt.Sprintf("uid %d ", mails), ended: errors.New("killed")}
		for _, want := range []error{in.ended, context.Canceled} {
			rest, stop := context.WithCancel(ctx)
			in.stop = stop
			if err := p.channel(t).Receive(rest, in.place, in); !errors.Is(err, want) {
				t.Errorf("killed at call %d: %v", kill, err)
			}
			stop()
		}
		got := map[string]int{}
		for n := len(in.Took); n > 0; n-- {
			m := <-in.Took
			got[m.Text]++
		}
		if n := got["0"] + got["1"] + got["2"]; len(got) != mails || n > mails+1 {
			t.Errorf("killed at call %d: %v", kill, got)
		}
	}
}

// killed is an inbox whose process is killed in one of its calls: after a task was
// made, and before a place is kept.
type killed struct {
	*chattest.Inbox
	place, last string
	left        int
	ended       error
	stop        func()
}

func (k *killed) Take(ctx context.Context, m chat.Message) error {
	err := k.Inbox.Take(ctx, m)
	if k.left--; k.left == 0 {
		return k.ended
	}
	return err
}

func (k *killed) Keep(_ context.Context, place string) error {
	if k.left--; k.left == 0 {
		return k.ended
	}
	if k.place = place; strings.HasPrefix(place, k.last) {
		k.stop()
	}
	return nil
}

// A mailbox with other numbers is read again from the hour before the bridge began.
func TestNewNumbersAreReadAgain(t *testing.T) {
	p, ctx, in := newPost(t), timed(t), chattest.NewInbox()
	began := time.Now()
	stop := receiving(ctx, t, p.channel(t), "", in)
	chattest.Next(ctx, t, in.Kept)
	p.deliver(t, letterOf("one@x", "one"))
	first := chattest.Next(ctx, t, in.Took)
	kept := chattest.Next(ctx, t, in.Kept)
	stop()

	p.renumber(t)
	p.deliver(t, letterOf("one@x", "one"), imap.AppendOptions{Time: began})
	p.deliver(t, letterOf("ancient@x", "ancient"), imap.AppendOptions{Time: began.Add(-48 * time.Hour)})
	p.deliver(t, letterOf("two@x", "two"), imap.AppendOptions{Time: began})
	stop = receiving(ctx, t, p.channel(t), kept, in)
	if again := chattest.Next(ctx, t, in.Took); again.ID != first.ID {
		t.Errorf("the first mail is %q now, and was %q", again.ID, first.ID)
	}
	if m := chattest.Next(ctx, t, in.Took); m.Text != "two" {
		t.Errorf("%+v", m)
	}
	// What comes later comes whatever its date: somebody moved it here.
	p.deliver(t, letterOf("moved@x", "moved"), imap.AppendOptions{Time: began.Add(-48 * time.Hour)})
	if m := chattest.Next(ctx, t, in.Took); m.Text != "moved" {
		t.Errorf("%+v", m)
	}
	stop()
	if len(in.Took) != 0 {
		t.Errorf("%+v", <-in.Took)
	}
}

func receiving(ctx context.Context, t *testing.T, c chat.Channel, kept string, in chat.Inbox) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Receive(ctx, kept, in) }()
	return func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Receive ended: %v", err)
		}
	}
}

func TestAPlaceOfAnotherKindIsRefused(t *testing.T) {
	p := newPost(t)
	for _, kept := range []string{"12", "uid 1 of 1, again 0, since 5 ", `{"uid":1}`} {
		if err := p.channel(t).Receive(timed(t), kept, chattest.NewInbox()); !errors.Is(err, chat.ErrSetup) {
			t.Errorf("%q: %v", kept, err)
		}
	}
}

func TestReceiveEndsWithItsContext(t *testing.T) {
	p, in := newPost(t), chattest.NewInbox()
	silent := script{greeting: greeting, steps: openInbox(step{"UID SEARCH", "* SEARCH\r\n$ OK\r\n"}), last: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }}
	mute := script{last: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }}
	before := runtime.NumGoroutine()
	for name, s := range map[string]chat.Settings{
		"idle":     p.settings("imap", "smtp"),
		"tls":      p.settings("imaps", "smtps"),
		"no idle":  {Server: "imap://" + silent.serve(t)},
		"greeting": {Server: "imap://" + mute.serve(t)},
		"hello":    {Server: "imaps://" + mute.serve(t)},
	} {
		s.User, s.Password, s.Outgoing = agent, secret, "smtp://127.0.0.1:1"
		c := opened(t, s)
		c.idle = time.Hour
		ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
		begin := time.Now()
		err := c.Receive(ctx, "", in)
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took > time.Second {
			t.Errorf("%s: after %v: %v", name, took, err)
		}
		stop()
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && ours() != ""; {
		runtime.Gosched()
	}
	if left := ours(); left != "" {
		t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, left)
	}
}

// ours are the goroutines that a client left.
func ours() string {
	all := make([]byte, 1<<20)
	all = all[:runtime.Stack(all, true)]
	var left []string
	for one := range strings.SplitSeq(string(all), "\n\n") {
		if strings.Contains(one, "imapclient.") {
			left = append(left, one)
		}
	}
	return strings.Join(left, "\n\n")
}

// No server brings the bridge down, or makes it wait for ever, or fills its memory.
func TestABadServerIsAnError(t *testing.T) {
	flood := func(c net.Conn) {
		for {
			if _, err := c.Write([]byte(strings.Repeat("x", 1<<16))); err != nil {
				return
			}
		}
	}
	deep := "* 1 FETCH " + strings.Repeat("(", 100_000) + "\r\n"
	found := step{"UID SEARCH", "* SEARCH 9\r\n$ OK\r\n"}
	looked := step{"UID FETCH", "* 3 FETCH (UID 9 RFC822.SIZE 5 INTERNALDATE \"01-Jan-2026 00:00:00 +0000\")\r\n$ OK\r\n"}
	for name, s := range map[string]script{
		"closes at once":     {},
		"is no IMAP server":  {greeting: "HTTP/1.1 400 Bad Request\r\n\r\n"},
		"says bye":           {greeting: "* BYE go away\r\n"},
		"floods":             {last: flood},
		"floods a line":      {greeting: "* OK ", last: flood},
		"floods the search":  {greeting: greeting, steps: openInbox(step{"UID SEARCH", "* SEARCH 9"}), last: flood},
		"nests":              {greeting: greeting, steps: openInbox(step{"UID SEARCH", deep})},
		"a huge literal":     {greeting: greeting, steps: openInbox(found, looked, step{"UID FETCH", "* 3 FETCH (UID 9 BODY[]<0> {99999999999}\r\n"}), last: flood},
		"cuts a literal":     {greeting: greeting, steps: openInbox(found, looked, step{"UID FETCH", "* 3 FETCH (UID 9 BODY[]<0> {500}\r\nFrom: a@b\r\n"})},
		"does not hand over": {greeting: greeting, steps: openInbox(found, looked, step{"UID FETCH", "$ NO [SERVERBUG] cannot read\r\n"})},
		"no numbers":         {greeting: greeting, steps: []step{{"LOGIN", "$ OK [CAPABILITY IMAP4rev1] in\r\n"}, {"SELECT", "* 3 EXISTS\r\n$ OK\r\n"}}},
		"another tag":        {greeting: greeting, steps: []step{{"LOGIN", "X99 OK in\r\n"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c, in := opened(t, chat.Settings{Server: "imap://" + s.serve(t), User: agent, Password: secret, Outgoing: "smtp://localhost"}), chattest.NewInbox()
			err := c.Receive(timed(t), place{7, 8, 0, time.Now()}.String(), in)
			if err == nil || errors.Is(err, context.DeadlineExceeded) || len(err.Error()) > 600 {
				t.Errorf("%v", err)
			}
			if bounded := name == "floods" || name == "floods a line" || name == "a huge literal"; bounded != strings.Contains(err.Error(), errTooMuch.Error()) {
				t.Errorf("%v", err)
			}
			if len(in.Took) != 0 {
				t.Errorf("took %+v", <-in.Took)
			}
		})
	}
}

func TestASlowServerIsAnError(t *testing.T) {
	mute := script{greeting: greeting, last: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }}
	c := opened(t, chat.Settings{Server: "imap://" + mute.serve(t), User: agent, Password: secret, Outgoing: "smtp://localhost"})
	c.patience = 100 * time.Millisecond
	err := c.Receive(timed(t), "", chattest.NewInbox())
	if err == nil || !strings.Contains(err.Error(), "no answer within") {
		t.Error(err)
	}
}

// A list of mails without an end costs no memory, and the same mail twice nothing.
func TestMailsThatAreNotThereArePassed(t *testing.T) {
	gone, noop := step{"UID FETCH", "$ OK\r\n"}, step{"NOOP", "$ OK\r\n"}
	passed := make(chan bool, 1)
	s := script{last: func(net.Conn) { passed <- true }, greeting: greeting, steps: openInbox(step{"UID SEARCH", "* SEARCH 3 9 9 10 8\r\n$ OK\r\n"}, gone, noop, gone, gone, noop, gone)}
	c, in := opened(t, chat.Settings{Server: "imap://" + s.serve(t), User: agent, Password: secret, Outgoing: "smtp://localhost"}), chattest.NewInbox()
	err := c.Receive(timed(t), place{7, 8, 0, time.Now()}.String(), in)
	if err == nil || len(in.Took) != 0 || len(passed) == 0 {
		t.Errorf("%v, took %d", err, len(in.Took))
	}
}

func TestWrongCredentialsAreASetup(t *testing.T) {
	p := newPost(t)
	wrong := p.settings("imap", "smtp")
	wrong.Password = "another word"
	untrusted := p.settings("imaps", "smtps")
	untrusted.CA = ""
	nowhere := p.settings("imap", "smtp")
	nowhere.CA = "/nonexistent/ca.pem"
	nowhere.Server = "imaps://" + p.front["imaps"]
	for name, s := range map[string]chat.Settings{"password": wrong, "certificate": untrusted, "ca": nowhere} {
		_, err := opened(t, s).Check(timed(t))
		if !errors.Is(err, chat.ErrSetup) || strings.Contains(err.Error(), s.Password) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for code, setup := range map[string]bool{"[AUTHENTICATIONFAILED] ": true, "": true, "[UNAVAILABLE] ": false, "[INUSE] ": false} {
		s := script{greeting: greeting, steps: []step{{"LOGIN", "$ NO " + code + "LOGIN \"" + secret + "\" failed\r\n"}}}
		c := opened(t, chat.Settings{Server: "imap://" + s.serve(t), User: agent, Password: secret, Outgoing: "smtp://localhost"})
		err := c.Receive(timed(t), "", chattest.NewInbox())
		if err == nil || errors.Is(err, chat.ErrSetup) != setup || strings.Contains(err.Error(), secret) {
			t.Errorf("NO %s: %v", code, err)
		}
	}
}

// A password goes to another machine with TLS only.
func TestNoPasswordInTheClear(t *testing.T) {
	for _, c := range []struct {
		url            string
		insecure       bool
		refused, plain bool
	}{
		{"imap://127.0.0.1", false, false, true},
		{"imap://[::1]:1143", false, false, true},
		{"imap://localhost", false, false, true},
		{"imap://mail.example.org", false, false, false},
		{"imap://localhost.example.org", false, false, false},
		{"imap://mail.example.org", true, false, true},
		{"imaps://mail.example.org", true, false, false},
		{"imaps://login@mail.example.org", false, true, false},
		{"imaps://login:word@mail.example.org", false, true, false},
		{"mail.example.org", false, true, false},
		{"https://mail.example.org", false, true, false},
		{"imaps://mail.example.org/INBOX", false, true, false},
		{"imaps://", false, true, false},
		{"imaps://host:port:word@x", false, true, false},
	} {
		got, err := Kind.Open(chat.Settings{Server: c.url, Outgoing: "smtps://localhost", User: agent, Password: secret, Insecure: c.insecure})
		if (err != nil) != c.refused || err != nil && (!errors.Is(err, chat.ErrSetup) || strings.Contains(err.Error(), "word@")) {
			t.Errorf("%s: %v", c.url, err)
		}
		if err == nil && got.(*channel).imap.plain != c.plain {
			t.Errorf("%s: %+v", c.url, got.(*channel).imap)
		}
	}
}

// STARTTLS is not an offer, but a condition; what came before it does not count.
func TestStartTLSIsRequired(t *testing.T) {
	heard := make(chan string, 100)
	s := script{greeting: "* OK [CAPABILITY IMAP4rev1] ready\r\n", steps: []step{{"STARTTLS", "$ BAD what\r\n"}}, last: func(c net.Conn) {
		for line, err := lineOf(c); err == nil; line, err = lineOf(c) {
			heard <- line
		}
	}}
	c := opened(t, chat.Settings{Server: "imap://" + s.serve(t), User: agent, Password: secret, Outgoing: "smtp://localhost"})
	c.imap.plain = false
	if err := c.Receive(timed(t), "", chattest.NewInbox()); err == nil || len(heard) != 0 {
		t.Errorf("%v; it heard %d lines", err, len(heard))
	}
	p, in := newPost(t), chattest.NewInbox()
	c = p.channel(t)
	c.imap.plain, c.smtp.plain = false, false
	if line, err := c.Check(timed(t)); err != nil {
		t.Errorf("%s %v", line, err)
	}
	ctx := timed(t)
	chattest.Receiving(ctx, t, c, "", in)
	chattest.Next(ctx, t, in.Kept)
}
