package chat

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/mailboxtest"
)

// aBox is a mailbox of its own.
func aBox(t testing.TB) *mailbox.Box {
	t.Helper()
	return mailboxtest.New(t, mailbox.Options{Agents: map[string]mailbox.Capabilities{"pi": {}}})
}

// wire is a channel whose other end is the test.
type wire struct {
	receive func(ctx context.Context, kept string, in Inbox) error
	sent    chan Notice
	fails   func(Notice) error
}

func (w *wire) Receive(ctx context.Context, kept string, in Inbox) error {
	return w.receive(ctx, kept, in)
}

func (w *wire) Send(_ context.Context, n Notice) (string, error) {
	if w.fails != nil {
		if err := w.fails(n); err != nil {
			return "", err
		}
	}
	w.sent <- n
	return "sent", nil
}

func (w *wire) Check(context.Context) (string, error) { return "we are\x1b[31m us", nil }

// idle is a delivery of no results.
type idle struct{ Channel }

func (idle) Run(ctx context.Context) error                       { <-ctx.Done(); return nil }
func (i idle) Say(ctx context.Context, n Notice) (string, error) { return i.Send(ctx, n) }
func (idle) Seen(context.Context, string) error                  { return nil }
func (idle) Settled(context.Context, map[mailbox.ID]bool) error  { return nil }

// bridged is a bridge of the test's, whose channel hands over what the test says.
type bridged struct {
	*testing.T
	Bridge
	wire   *wire
	kind   Kind
	heard  chan func(Inbox) error
	done   chan error
	remark func(string, ...any)
	looks  int

	mu    sync.Mutex
	lines []string
}

func aBridge(t *testing.T) *bridged {
	b := &bridged{T: t, heard: make(chan func(Inbox) error), done: make(chan error)}
	b.wire = &wire{sent: make(chan Notice, 100)}
	b.wire.receive = func(ctx context.Context, _ string, in Inbox) error {
		for {
			select {
			case do := <-b.heard:
				b.done <- do(in)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	b.kind = Kind{Name: "wire", Limits: Limits{Text: 2000}, Open: func(s Settings) (Channel, error) { b.remark = s.Log; return b.wire, nil }}
	b.Bridge = Bridge{
		Box: aBox(t), Name: "family", To: "pi", Kind: &b.kind, first: time.Millisecond,
		Settings: Settings{User: "us", Rooms: []string{"#room"}, Token: "s3cr3t"},
		Rules:    Rules{Allow: []string{"anna", "bert"}, Operators: []string{"chief"}, MaxMessage: 1000, MaxAttachment: 10, MaxAttachments: 2, PerHour: 1000, Burst: 100, TotalPerHour: 10_000},
		deliver:  func(c Channel, _ func(Conversation) bool) deliverer { return idle{c} },
	}
	b.Bridge.Log = func(format string, a ...any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lines = append(b.lines, fmt.Sprintf(format, a...))
	}
	return b
}

func (b *bridged) Run(ctx context.Context) error { return b.Bridge.Run(ctx) }

func (b *bridged) logged() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "\n")
}

// up runs the bridge until it is stopped, at the latest when the test ends.
func (b *bridged) up() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Errorf("the bridge ended: %v", err)
		}
	})
	b.Cleanup(stop)
	return stop
}

func (b *bridged) do(what func(Inbox) error) error {
	b.Helper()
	select {
	case b.heard <- what:
	case <-time.After(20 * time.Second):
		b.Fatalf("the bridge hears nothing: %s", b.logged())
	}
	return <-b.done
}

// hears hands a message over, which has to be taken.
func (b *bridged) hears(m Message) {
	b.Helper()
	if err := b.do(func(in Inbox) error { return in.Take(context.Background(), m) }); err != nil {
		b.Fatal(err)
	}
}

// answer is what was said last; nothing is an error.
func (b *bridged) answer() Notice {
	b.Helper()
	select {
	case n := <-b.wire.sent:
		return n
	case <-time.After(20 * time.Second):
		b.Fatal("there is no answer")
	}
	return Notice{}
}

// quiet wants no answer to have been said: help is asked for, and has to be the next.
func (b *bridged) quiet() {
	b.Helper()
	b.looks++
	b.hears(Message{ID: fmt.Sprintf("quiet? %d", b.looks), From: "chief", In: Conversation{Peer: "chief"}, Text: "/help"})
	if n := b.answer(); !strings.HasPrefix(n.Text, "What you write") {
		b.Errorf("something was said: %+v", n)
	}
}

func (b *bridged) tasks() (all []*mailbox.Task) {
	b.Helper()
	for item, err := range b.Box.List(b.Context(), mailbox.Filter{}) {
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, item.Task)
	}
	return all
}

// lines are the ledger's of an event.
func (b *bridged) ledger(event audit.Event) (all []audit.Entry) {
	b.Helper()
	for line, err := range b.Box.Ledger().Read(audit.Position{}).Lines() {
		if err != nil {
			b.Fatal(err)
		}
		if e, err := line.Decode(); err == nil && e.Event == event {
			all = append(all, e)
		}
	}
	return all
}

func from(who, id, text string) Message {
	return Message{ID: id, From: who, In: Conversation{Peer: who}, Text: text}
}
