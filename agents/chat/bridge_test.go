package chat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
)

func TestAMessageBecomesOneTask(t *testing.T) {
	b := aBridge(t)
	stop := b.up()
	m := Message{ID: "m:1", From: "anna", In: Conversation{Peer: "#room", Group: true, Thread: "t%1"}, Text: "Look at\u202e this\r\nand\x1b[2J that", Title: "A  sub\x07ject"}
	b.hears(m)
	b.hears(m)
	all := b.tasks()
	if len(all) != 1 {
		t.Fatalf("%d tasks", len(all))
	}
	got := all[0]
	if got.Source != (mailbox.Source{Agent: "bridge:family", Session: "agent:pi:family:group:#room:thread:t%251", User: "anna"}) {
		t.Errorf("source: %+v", got.Source)
	}
	if got.Task.Title != "A subject" || got.Task.Description != "Look at this\nand[2J that" || got.Assignment.TargetAgent != "pi" {
		t.Errorf("task: %+v for %s", got.Task, got.Assignment.TargetAgent)
	}
	if id, subject := Origin(got); id != "m:1" || subject != "A subject" {
		t.Errorf("the message was %q, %q", id, subject)
	}
	b.quiet()
	stop()
	b.up() // what it had in memory is gone
	b.hears(m)
	if n := len(b.tasks()); n != 1 {
		t.Errorf("the message again, to a bridge that has begun anew: %d tasks", n)
	}
	m.ID = "m:2"
	b.hears(m)
	if n := len(b.tasks()); n != 2 {
		t.Errorf("another message: %d tasks", n)
	}
}

// The same ID in another account, or over another bridge, is another message.
func TestAnIDIsOfItsAccount(t *testing.T) {
	keys := map[string]string{}
	for name, change := range map[string]func(*Bridge){
		"as it was": func(*Bridge) {}, "name": func(b *Bridge) { b.Name = "other" },
		"user": func(b *Bridge) { b.Settings.User = "them" }, "server": func(b *Bridge) { b.Settings.Server = "https://x" },
		"kind": func(b *Bridge) { b.Kind = &Kind{Name: "other", Open: b.Kind.Open} }, "token": func(b *Bridge) { b.Settings.User, b.Settings.Token = "", "t" },
	} {
		b := aBridge(t)
		change(&b.Bridge)
		r, err := b.open()
		if err != nil {
			t.Fatal(err)
		}
		key := (&inbox{run: r, secret: []byte("salt")}).key("1")
		if other := keys[key]; other != "" {
			t.Errorf("%s has the key of %s", name, other)
		}
		keys[key] = name
	}
	r, _ := aBridge(t).open()
	if long := (&inbox{run: r}).key(strings.Repeat("x", 1000)); len(long) > 256 {
		t.Errorf("a key of %d bytes", len(long))
	}
}

func TestOnlyWhoIsAllowedIsHeard(t *testing.T) {
	b := aBridge(t)
	b.up()
	for _, m := range []Message{
		from("eve", "1", "hello"), from("eve", "2", "/help"), from("Anna", "3", "hello"), from("", "4", "hello"), from("anna\u200b", "5", "hello"),
		{ID: "6", From: "eve", In: Conversation{Peer: "anna"}, Text: "hello"},
		{ID: "7", From: "eve", In: Conversation{Peer: "#room", Group: true}, Text: "hello"},
		{ID: "8", From: "anna", In: Conversation{Peer: "#elsewhere", Group: true}, Text: "hello"},
		{ID: "9", From: "anna", In: Conversation{Peer: "eve"}, Text: "hello"},
		{ID: "10", From: "*", In: Conversation{Peer: "*"}, Text: "hello"},
	} {
		b.hears(m)
	}
	b.quiet()
	if n := len(b.tasks()); n != 0 {
		t.Errorf("%d tasks", n)
	}
	denied := b.ledger(audit.PolicyDenied)
	if n := strings.Count(b.logged(), "refused"); n != 6 || len(denied) != 6 { // of each sender one
		t.Errorf("%d remarks and %d lines:\n%s", n, len(denied), b.logged())
	}
	if strings.ContainsAny(b.logged(), "\u200b") {
		t.Errorf("a remark has what cannot be seen: %q", b.logged())
	}
}

func TestAnyoneIsHeardInItsRoomAlone(t *testing.T) {
	b := aBridge(t)
	b.Rules.Allow = []string{Anyone}
	b.up()
	b.hears(Message{ID: "1", From: "eve", In: Conversation{Peer: "#Room", Group: true}, Text: "hello"})
	b.hears(from("eve", "2", "hello"))
	b.hears(Message{ID: "3", From: "eve", In: Conversation{Peer: "#other", Group: true}, Text: "hello"})
	b.hears(Message{ID: "4", From: "eve", In: Conversation{Peer: "#room"}, Text: "hello"})
	if n := len(b.tasks()); n != 1 {
		t.Errorf("%d tasks", n)
	}
}

func TestASenderIsProvenWhereThatIsAsked(t *testing.T) {
	b := aBridge(t)
	b.Rules.RequireProof = true
	b.up()
	for _, proof := range []string{"", "dkim=example.org"} {
		m := from("anna", "id "+proof, "hello")
		m.Proof = proof
		b.hears(m)
	}
	b.hears(from("chief", "c", "/help"))
	if n := len(b.tasks()); n != 1 {
		t.Errorf("%d tasks", n)
	}
	if len(b.wire.sent) != 0 {
		t.Error("an operator without proof was answered")
	}
}

func TestABridgeForNobodyIsRefused(t *testing.T) {
	b := aBridge(t)
	b.Rules.Allow, b.Rules.Operators = nil, nil
	if err := b.Run(t.Context()); !errors.Is(err, ErrSetup) {
		t.Errorf("%v", err)
	}
}

func TestWhatIsTooMuchIsAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Message)
		want   string
	}{
		"long":   {func(m *Message) { m.Text = strings.Repeat("x", 1001) }, "1001 bytes, and at most 1000"},
		"file":   {func(m *Message) { m.Text, m.Files = "", []File{holds("x", "eleven signs")} }, "x: it is larger than 10 B. Nothing was done"},
		"no ID":  {func(m *Message) { m.ID = "" }, "no name"},
		"bad ID": {func(m *Message) { m.ID = "a\nb" }, "no name"},
	} {
		t.Run(name, func(t *testing.T) {
			b := aBridge(t)
			b.up()
			m := from("anna", "1", "hello")
			c.change(&m)
			b.hears(m)
			if n := b.answer(); !strings.Contains(n.Text, c.want) || n.To != m.In || n.Reply != "" && n.Reply != m.ID {
				t.Errorf("%+v", n)
			}
			if n := len(b.tasks()); n != 0 {
				t.Errorf("%d tasks", n)
			}
		})
	}
}

func TestTooManyAreRefusedAndToldOnce(t *testing.T) {
	b := aBridge(t)
	now := time.Now()
	b.now = func() time.Time { return now }
	b.Rules.PerHour, b.Rules.Burst, b.Rules.TotalPerHour = 60, 2, 30
	b.up()
	n := 0
	hear := func(who string) { n++; b.hears(from(who, fmt.Sprint(n), "hello")) }
	for range 5 {
		hear("anna")
	}
	if got := len(b.tasks()); got != 2 {
		t.Errorf("of one sender: %d tasks", got)
	}
	if a := b.answer(); !strings.Contains(a.Text, "60 seconds") || len(b.wire.sent) != 0 {
		t.Errorf("%q, and %d more", a.Text, len(b.wire.sent))
	}
	hear("bert") // the third of three at once
	hear("bert")
	if got := len(b.tasks()); got != 3 {
		t.Errorf("of all: %d tasks", got)
	}
	hear("chief") // an operator may have to end it
	if got := len(b.tasks()); got != 4 {
		t.Errorf("of an operator: %d tasks", got)
	}
	now = now.Add(time.Minute)
	hear("anna") // there is room for one of hers, and half of one of all
	now = now.Add(time.Minute)
	hear("anna")
	if got := len(b.tasks()); got != 5 {
		t.Errorf("two minutes later: %d tasks", got)
	}
}

// What a server hands over again is neither counted nor answered again, whoever took
// it: the same process or one before.
func TestWhatComesAgainIsNotCounted(t *testing.T) {
	b := aBridge(t)
	now := time.Now()
	b.now = func() time.Time { return now }
	b.Rules.PerHour, b.Rules.Burst = 1, 4
	stop := b.up()
	task := from("anna", "1", "hello")
	b.hears(task)
	answered := []Message{from("anna", "2", "/help"), from("anna", "3", strings.Repeat("x", 1001))}
	for _, m := range answered {
		b.asks(m)
	}
	for range 5 {
		for _, m := range append(answered, task) {
			b.hears(m)
		}
	}
	b.quiet()
	b.hears(from("anna", "4", "the fourth"))
	if n := len(b.tasks()); n != 2 {
		t.Errorf("%d tasks of two messages", n)
	}
	stop()
	b.up()
	for range 5 {
		b.hears(task)
	}
	for i := range 4 {
		b.hears(from("anna", fmt.Sprint("new ", i), "hello"))
	}
	if n := len(b.tasks()); n != 6 {
		t.Errorf("%d tasks of six messages", n)
	}
	b.quiet()
	if got := b.asks(from("anna", "one more", "hello")); !strings.Contains(got, "too many") {
		t.Errorf("%q", got)
	}
	now = now.Add(time.Hour)
	b.hears(from("anna", "one more", "hello")) // what was not taken may be said again
	if n := len(b.tasks()); n != 7 {
		t.Errorf("%d tasks of seven messages", n)
	}
}

func TestFloodsAreBounded(t *testing.T) {
	g, h, r := newGuard(Rules{PerHour: 60, Burst: 1, TotalPerHour: 1_000_000}, nil), hourly{}, recent{}
	now := time.Now()
	for i := range 3 * mostSenders {
		g.pace(fmt.Sprint(i), now)
		h.may(fmt.Sprint(i), now)
		r.add(fmt.Sprint(i))
	}
	if len(g.each) > mostSenders || len(h) > mostSenders || len(r.young)+len(r.old) > 2*mostSenders {
		t.Errorf("%d and %d senders, %d and %d messages are kept", len(g.each), len(h), len(r.young), len(r.old))
	}
	if r.has("0") || !r.has(fmt.Sprint(2*mostSenders)) {
		t.Error("the last messages are not known, or all are")
	}
	now = now.Add(2 * time.Hour)
	if wait, _ := g.pace("new", now); wait != 0 || !h.may("new", now) {
		t.Error("nobody new is heard for ever")
	}
}

func TestPlaceIsKeptForItsAccount(t *testing.T) {
	b := aBridge(t)
	var began []string
	b.wire.receive = func(ctx context.Context, kept string, in Inbox) error {
		began = append(began, kept)
		if err := errors.Join(in.Keep(ctx, "1"), in.Keep(ctx, "2")); err != nil {
			t.Error(err)
		}
		for _, bad := range []string{strings.Repeat("x", maxCursor+1), "\xff"} {
			if in.Keep(ctx, bad) == nil {
				t.Errorf("%.10q was kept", bad)
			}
		}
		return nil
	}
	run := func() {
		t.Helper()
		if err := b.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	run()
	run()
	b.Settings.User = "them"
	run()
	b.kind.Name = "other"
	run()
	b.Settings.User = ""
	b.kind.Account = func(Settings) string { return "them" }
	run() // it is the same account by another token
	if got := strings.Join(began, ","); got != ",2,,,2" {
		t.Errorf("it began at %s", got)
	}
	info, err := os.Stat(filepath.Join(b.Box.Home(), ".mbox/bridges/family.in"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(filepath.Join(b.Box.Home(), ".mbox/bridges/family.in"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Run(t.Context()); !errors.Is(err, ErrSetup) {
		t.Errorf("a damaged place: %v", err)
	}
}

// Rule 18: a place that is kept rests on lines that are on the disk.
func TestRule18_PlaceBehindTheFlush(t *testing.T) {
	box := aBox(t)
	flushes := 0
	o := box.Options()
	o.Sync = durable.Standard
	home := box.Home()
	box.Close()
	box, err := mailbox.Open(t.Context(), home, o)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	b := aBridge(t)
	b.Box = box
	b.up()
	b.hears(from("anna", "0", "hello")) // the day's file is there
	broken := errors.New("no flush")
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op != durable.OpSync || !strings.Contains(path, "audit") && !strings.HasSuffix(path, "journal") {
			return true, nil
		}
		flushes++
		return false, broken
	})
	defer remove()
	_ = b.do(func(in Inbox) error {
		for range 2 { // the second time its line may be there
			if in.Take(context.Background(), from("anna", "1", "hello")) == nil {
				t.Error("a message was taken whose line is not on the disk")
			}
		}
		if in.Keep(context.Background(), "1") == nil {
			t.Error("a place was kept")
		}
		return nil
	})
	remove()
	if _, err := os.Stat(filepath.Join(home, ".mbox/bridges/family.in")); !errors.Is(err, os.ErrNotExist) || flushes == 0 {
		t.Errorf("the place: %v; %d flushes", err, flushes)
	}
}

func TestOneProcessABridge(t *testing.T) {
	b := aBridge(t)
	b.up()
	b.hears(from("anna", "1", "hello"))
	soon, end := context.WithTimeout(t.Context(), time.Second)
	defer end()
	if err := b.Run(soon); !errors.Is(err, mailbox.ErrBusy) {
		t.Errorf("%v", err)
	}
	other := b.Bridge
	other.Name = "second"
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if err := other.Run(ctx); err != nil {
		t.Errorf("another bridge: %v", err)
	}
}

func TestAChannelIsCalledAgain(t *testing.T) {
	b := aBridge(t)
	calls := 0
	b.wire.receive = func(ctx context.Context, _ string, in Inbox) error {
		switch calls++; calls {
		case 1:
			b.remark("connected with s3cr3t")
			return errors.New("cut off with s3cr3t")
		case 2:
			panic("out of s3cr3t range")
		case 3:
			return &WaitError{For: time.Millisecond, Err: errors.New("slowly")}
		}
		return in.Take(ctx, from("anna", "1", "hello"))
	}
	if err := b.Run(t.Context()); err != nil || len(b.tasks()) != 1 {
		t.Fatalf("%v, %d tasks", err, len(b.tasks()))
	}
	for _, want := range []string{"connected with <redacted>", "cut off with <redacted>", "out of <redacted> range", "slowly"} {
		if !strings.Contains(b.logged(), want) {
			t.Errorf("no %q in:\n%s", want, b.logged())
		}
	}
	if strings.Contains(b.logged(), "s3cr3t") {
		t.Error("a secret was logged")
	}
}

func TestWhatAPersonHasToMendIsAnAlarm(t *testing.T) {
	for name, open := range map[string]func(Settings) (Channel, error){
		"open": func(Settings) (Channel, error) { return nil, fmt.Errorf("%w: no s3cr3t", ErrSetup) },
		"receive": func(Settings) (Channel, error) {
			return &wire{receive: func(context.Context, string, Inbox) error { return fmt.Errorf("%w: no s3cr3t", ErrSetup) }}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := aBridge(t)
			b.kind.Open = open
			err := b.Run(t.Context())
			if !errors.Is(err, ErrSetup) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("%v", err)
			}
			lines := b.ledger(audit.ErrorEvent)
			if len(lines) != 1 || lines[0].Agent != "bridge:family" || strings.Contains(string(lines[0].Details), "s3cr3t") {
				t.Errorf("%+v", lines)
			}
		})
	}
}

func TestCheckTellsWhoWeAre(t *testing.T) {
	if says, err := aBridge(t).Check(t.Context()); says != "we are[31m us" || err != nil {
		t.Errorf("%q, %v", says, err)
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"a\r\nb\rc\u2028d": "a\nb\nc\nd", "\x00\x1b[31mred\x7f\u009b": "[31mred", "\u202eabc\u2066\u200f\ufeff": "abc",
		"hi\U000e0041\U000e0042": "hi", "👩‍👧 \tä": "👩‍👧 \tä", "\xff": "\ufffd",
	} {
		if got := Plain(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("a\r\nb\u202e\x1b")
	f.Fuzz(func(t *testing.T, text string) {
		got := Plain(text)
		if Plain(got) != got || strings.ContainsAny(got, "\r\x00\x1b\u202e\u2066\u200b") {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

// Whatever an allowed sender writes is taken or refused, and never an error that has
// it handed over for ever; a task of it leads back to where it was said.
func FuzzTake(f *testing.F) {
	f.Add("1", "hello", "", "", "#room", true)
	f.Add("m:%\x00", "/why x", "Subject\n", "t:1", "anna", false)
	box := aBox(f)
	b := Bridge{
		Box: box, Name: "family", To: "pi", Kind: &Kind{Name: "wire", Open: func(Settings) (Channel, error) { return &wire{}, nil }},
		Rules: Rules{Allow: []string{"anna"}, MaxMessage: 1000, PerHour: 1e9, Burst: 1e9, TotalPerHour: 1e9},
		Log:   func(string, ...any) {},
	}
	f.Fuzz(func(t *testing.T, id, text, title, thread, peer string, group bool) {
		b.Settings.Rooms = []string{peer}
		r, err := b.open()
		if err != nil {
			t.Fatal(err)
		}
		r.answers = &answers{queue: make(chan Notice, 100), log: r.Log}
		in := &inbox{run: r, guard: newGuard(r.Rules, r.Settings.Rooms), refused: hourly{}, secret: []byte("salt"), asked: map[mailbox.ID]bool{}}
		m := Message{ID: id, From: "anna", In: Conversation{Peer: peer, Group: group, Thread: thread}, Text: text, Title: title}
		if err := in.Take(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if _, _, c, ok := ParseSession(Session("pi", "family", m.In)); peer != "" && (!ok || c != m.In) {
			t.Fatalf("%+v came back as %+v", m.In, c)
		}
	})
}
