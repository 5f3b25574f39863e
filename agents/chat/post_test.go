package chat

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/mailboxtest"
	"mbox/mailbox/task"
	"mbox/mailbox/verify"
)

// fake is a server that keeps what it was sent, beyond the life of a delivery. It is
// a channel of any class: only who asks it by key or searches it finds anything.
type fake struct {
	mu    sync.Mutex
	once  Once
	has   []Notice
	fails []error        // of the next sends; nil for none
	after []error        // of the next sends, once the notice is there
	sent  func(n Notice) // called before a notice is there
	asked int            // how often it was searched
}

func (f *fake) Receive(ctx context.Context, _ string, _ Inbox) error { <-ctx.Done(); return ctx.Err() }
func (f *fake) Check(context.Context) (string, error)                { return "", nil }

func (f *fake) Send(_ context.Context, n Notice) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sent != nil {
		f.sent(n)
	}
	if len(f.fails) > 0 {
		err := f.fails[0]
		if f.fails = f.fails[1:]; err != nil {
			return "", err
		}
	}
	if i := f.find(n); i < 0 || f.once != ByKey {
		f.has = append(f.has, n)
	}
	if len(f.after) > 0 {
		err := f.after[0]
		if f.after = f.after[1:]; err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("m%d", len(f.has)), nil
}

func (f *fake) find(n Notice) int {
	return slices.IndexFunc(f.has, func(o Notice) bool { return o.Key == n.Key })
}

func (f *fake) Sent(_ context.Context, n Notice) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if i := f.find(n); i >= 0 {
		return fmt.Sprintf("m%d", i+1), nil
	}
	return "", nil
}

// texts are what people read.
func (f *fake) texts() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.has {
		all = append(all, n.Text)
	}
	return all
}

// post is a mailbox with a bridge named chat to a fake server.
type post struct {
	*testing.T
	box  *mailbox.Box
	fake *fake
	o    DeliveryOptions
}

func newPost(t *testing.T, once Once) *post {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	t.Cleanup(func() { // when the box is closed
		r, err := verify.Home(context.Background(), dir, verify.Options{Deep: true})
		if err != nil || len(r.Findings) > 0 {
			t.Errorf("verify: %v, %v", r.Findings, err)
		}
	})
	box := mailboxtest.In(t, dir, mailbox.Options{RetryBase: time.Nanosecond})
	f := &fake{once: once}
	return &post{t, box, f, DeliveryOptions{
		Box: box, Name: "chat", Channel: f, Kind: Kind{Name: "fake", Once: once, Limits: Limits{Text: 200, Parts: 3}},
		Allowed: func(c Conversation) bool { return c.Peer == "eve" }, Pause: time.Millisecond, GiveUp: time.Nanosecond,
	}}
}

const session = "agent:a:chat:direct:eve"

// ask submits a task as a source does.
func (p *post) ask(source, session string) mailbox.ID {
	p.Helper()
	id, err := p.box.Submit(p.Context(), &mailbox.Task{
		Source: mailbox.Source{Agent: source, Session: session, User: "eve"},
		Task:   mailbox.Request{Title: "What"}, Assignment: mailbox.Assignment{TargetAgent: "a"},
	})
	p.must(err)
	return id
}

func (p *post) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *post) claim() *mailbox.Claim {
	p.Helper()
	c, err := p.box.Claim(p.Context(), mailbox.ClaimRequest{Agent: "a"})
	p.must(err)
	return c
}

// done is a task that was asked for by the bridge and has ended with this output.
func (p *post) done(output string) mailbox.ID {
	p.Helper()
	id := p.ask("bridge:chat", session)
	p.complete(output)
	return id
}

func (p *post) complete(output string) { p.Helper(); p.completeAs("a", output) }

func (p *post) completeAs(agent, output string) {
	p.Helper()
	c, err := p.box.Claim(p.Context(), mailbox.ClaimRequest{Agent: agent})
	p.must(err)
	text, err := jsontext.AppendQuote(nil, output)
	p.must(err)
	p.must(c.Complete(p.Context(), mailbox.Result{Output: text}))
	p.must(c.Close())
}

// deliver is what a process does from its start on until nothing is left that can be
// done now, at most so many times.
func (p *post) deliver(times int) *Delivery {
	p.Helper()
	d := NewDelivery(p.o)
	p.rounds(d, times)
	return d
}

func (p *post) rounds(d *Delivery, times int) {
	p.Helper()
	for range times {
		report, err := d.Once(p.Context())
		p.must(err)
		if report.Left == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond) // longer than the backoff of a test
	}
}

// newest is the task of the ledger's last receipt.
func (p *post) newest() mailbox.ID {
	p.Helper()
	for line, err := range p.box.Ledger().Backward() {
		p.must(err)
		if line.Event() == audit.ResultDelivered {
			return mailbox.ID(line.Task())
		}
	}
	return ""
}

// legs are those in the ledger about a task, in order.
func (p *post) legs(id mailbox.ID) string {
	p.Helper()
	lines, err := linesOf(p.box, id)
	p.must(err)
	var legs []string
	for i := range lines {
		if r := task.ReceiptOf(&lines[i]); r != nil && lines[i].Event == audit.ErrorEvent {
			legs = append(legs, "dead")
		} else if r != nil {
			legs = append(legs, string(r.Leg))
		}
	}
	return strings.Join(legs, " ")
}

func (p *post) reads(want ...string) {
	p.Helper()
	if got := p.fake.texts(); !slices.Equal(got, want) {
		p.Errorf("it reads %q, want %q", got, want)
	}
}
