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
	"mbox/mailbox/task"
)

func TestDeliveredOnce(t *testing.T) {
	p := newPost(t, AtLeastOnce)
	id := p.done("42")
	p.fake.sent = func(Notice) {
		if legs := p.legs(id); legs != "stored intent" {
			t.Errorf("it is sent with %q in the ledger", legs)
		}
	}
	p.deliver(1)
	p.deliver(1)
	p.reads("42")
	n := p.fake.has[0]
	if n.To != (Conversation{Peer: "eve"}) || len(n.Key) != 32 || n.Title != "What" || n.Again {
		t.Errorf("%+v", n)
	}
	if legs := p.legs(id); legs != "stored intent notified" {
		t.Error(legs)
	}
}

// Whom a bridge answers: those who asked through it. A child has its parent's session
// and may even be made under the bridge's name, and another bridge has its own
// conversations.
func TestOnlyWhoAskedIsAnswered(t *testing.T) {
	p := newPost(t, AtLeastOnce)
	parent := p.ask("bridge:chat", session)
	c, err := p.box.Claim(t.Context(), mailbox.ClaimRequest{Agent: "a"})
	p.must(err)
	part := &mailbox.Task{Task: mailbox.Request{Title: "part"}, Assignment: mailbox.Assignment{TargetAgent: "b"}}
	_, err = c.Delegate(t.Context(), mailbox.Delegation{Children: []mailbox.Child{{Task: part}}})
	p.must(err)
	p.must(c.Close())
	p.completeAs("b", "of the child")
	p.deliver(1)
	p.reads()
	p.complete("of the parent")
	p.ask("human", session)
	p.complete("of a human")
	other := p.ask("bridge:other", "agent:a:other:direct:eve")
	p.complete("of another bridge")
	p.deliver(1)
	p.reads("of the parent")
	if legs := p.legs(other); legs != "" {
		t.Errorf("another bridge's: %q", legs)
	}
	if legs := p.legs(parent); legs != "stored intent notified" {
		t.Error(legs)
	}
}

func TestChildUnderTheBridgesName(t *testing.T) {
	p := newPost(t, AtLeastOnce)
	_, err := p.box.Submit(t.Context(), &mailbox.Task{
		Source: mailbox.Source{Agent: "human", Session: session}, Task: mailbox.Request{Title: "x"}, Assignment: mailbox.Assignment{TargetAgent: "bridge:chat"},
	})
	p.must(err)
	c, err := p.box.Claim(t.Context(), mailbox.ClaimRequest{Agent: "bridge:chat"})
	p.must(err)
	part := &mailbox.Task{Task: mailbox.Request{Title: "part"}, Assignment: mailbox.Assignment{TargetAgent: "b"}}
	_, err = c.Delegate(t.Context(), mailbox.Delegation{Children: []mailbox.Child{{Task: part}}})
	p.must(err)
	p.must(c.Close())
	p.completeAs("b", "of the child")
	p.deliver(1)
	p.reads()
}

// A drop says that it comes from the bridge, and a task of the bridge may name any
// conversation. Neither makes it talk to a stranger.
func TestForgedDropIsNotAnswered(t *testing.T) {
	p := newPost(t, AtLeastOnce)
	drop := `{"source":{"agent":"bridge:chat","session":"` + session + `"},"task":{"title":"x"},"assignment":{"target_agent":"a"}}`
	path := filepath.Join(p.box.Home(), "tasks", "pending", "forged.json")
	p.must(os.WriteFile(path, []byte(drop), 0o600))
	p.must(os.Chtimes(path, time.Time{}, time.Now().Add(-time.Minute)))
	_, err := p.box.Scan(t.Context())
	p.must(err)
	p.complete("told to eve")
	p.deliver(1)
	p.reads()
	if legs := p.legs("forged"); legs != "" {
		t.Error(legs)
	}

	for _, to := range []string{"agent:a:chat:direct:mallory", "agent:a:other:direct:eve", "no session"} {
		id := p.ask("bridge:chat", to)
		p.complete("told to a stranger")
		p.deliver(1)
		p.reads()
		if legs := p.legs(id); legs != "dead" {
			t.Errorf("%s: %q", to, legs)
		}
	}
}

// What was changed behind mbox's back is not sent.
func TestEditedResultIsNotSent(t *testing.T) {
	p := newPost(t, AtLeastOnce)
	id := p.done("the truth")
	path := filepath.Join(p.box.Home(), "tasks", "completed", string(id)+".json")
	was, err := os.ReadFile(path)
	p.must(err)
	p.must(os.WriteFile(path, []byte(strings.Replace(string(was), "the truth", "a lie", 1)), 0o600))
	p.deliver(10)
	p.must(os.WriteFile(path, was, 0o600))
	p.reads()
	p.deliver(10)
	p.reads("the truth")
}

// A process that is killed at any step is followed by one that does what the class of
// the channel allows.
func TestKilledBetween(t *testing.T) {
	killed := errors.New("killed")
	for _, c := range []struct {
		once  Once
		sent  bool // the server had it already
		want  []string
		asked int
	}{
		{AtLeastOnce, false, []string{repetition + "\n42"}, 0},
		{AtLeastOnce, true, []string{"42", repetition + "\n42"}, 0},
		{ByKey, false, []string{"42"}, 0},
		{ByKey, true, []string{"42"}, 0},
		{BySearch, false, []string{"42"}, 1},
		{BySearch, true, []string{"42"}, 1},
	} {
		p := newPost(t, c.once)
		id := p.done("42")
		if p.fake.fails = []error{killed}; c.sent {
			p.fake.fails, p.fake.after = nil, []error{killed}
		}
		p.deliver(1)
		if legs := p.legs(id); legs != "stored intent" {
			t.Errorf("%v: killed after %q", c, legs)
		}
		p.deliver(1)
		p.reads(c.want...)
		if legs := p.legs(id); legs != "stored intent notified" || p.fake.asked != c.asked {
			t.Errorf("%v: %q, searched %d times", c, legs, p.fake.asked)
		}
		if n := p.fake.has[len(p.fake.has)-1]; n.Again != (c.once == AtLeastOnce) || n.Key != p.fake.has[0].Key {
			t.Errorf("%v: %+v", c, n)
		}
	}
}

// A server that wants a pause has not taken the message: sent again it is no
// repetition, and nothing is sent before the pause is over.
func TestPauseOfTheServer(t *testing.T) {
	p := newPost(t, AtLeastOnce)
	p.done("one")
	p.done("two")
	p.fake.fails = []error{&WaitError{60 * time.Millisecond, errors.New("slowly")}}
	tried := 0
	p.fake.sent = func(Notice) { tried++ }
	began := time.Now()
	d := p.deliver(1)
	p.rounds(d, 1)
	if tried != 1 && time.Since(began) < 60*time.Millisecond {
		t.Errorf("it was sent %d times", tried)
	}
	p.rounds(d, 100)
	p.reads("one", "two")
}

// A bridge with no way back keeps results, and that is no alarm.
func TestNoWayBack(t *testing.T) {
	p := newPost(t, AtLeastOnce)
	kind := p.o.Kind
	kind.Open = func(Settings) (Channel, error) { return p.fake, nil }
	kind.OneWay = func(s Settings) bool { return s.Server == "" }
	b := Bridge{Box: p.box, Name: "chat", Kind: &kind, Rules: Rules{Allow: []string{"eve"}}, Log: t.Logf}
	id := p.done("it rains")
	for range 2 {
		if r, err := b.Deliver(t.Context()); r != (Report{}) || err != nil {
			t.Errorf("%+v, %v", r, err)
		}
	}
	p.reads()
	if got := p.legs(id); got != "retained" {
		t.Errorf("legs: %s", got)
	}
	if n, err := p.box.ArchiveDelivered(t.Context(), 0); n != 1 || err != nil {
		t.Errorf("%d archived, %v", n, err)
	}
}

// What the channel refuses is a dead letter at once, what fails again and again after
// a while. Both are told, and a person may have them sent once more.
func TestDeadLetters(t *testing.T) {
	for _, c := range []struct {
		fault error
		tries int
		again string
	}{
		{fmt.Errorf("%w: no such room", ErrRefused), 1, repetition + "\n42"},
		{errors.New("down"), leastTries, repetition + "\n42"},
	} {
		p := newPost(t, AtLeastOnce)
		id := p.done("42")
		for range c.tries {
			p.fake.fails = append(p.fake.fails, c.fault)
		}
		p.deliver(100)
		p.deliver(1)
		p.reads()
		if legs := p.legs(id); legs != "stored intent dead" || len(p.fake.fails) != 0 {
			t.Errorf("%v: %q", c.fault, legs)
		}
		left, err := Undelivered(p.box)
		if err != nil || len(left) != 1 || left[0].ID != id || !strings.Contains(left[0].Dead, c.fault.Error()) {
			t.Errorf("%v: %+v, %v", c.fault, left, err)
		}
		w, err := p.box.Why(t.Context(), id)
		if err != nil || !strings.Contains(strings.Join(w.Alarms, "\n"), c.fault.Error()) {
			t.Errorf("why tells %q, %v", w.Alarms, err)
		}
		if n, err := p.box.Archive(t.Context(), 0, "human"); n != 0 || err != nil {
			t.Errorf("it was archived: %v", err)
		}
		p.must(Again(t.Context(), p.box, id, "human"))
		p.deliver(1)
		p.reads(c.again)
		if left, err := Undelivered(p.box); err != nil || len(left) != 0 {
			t.Errorf("%+v, %v", left, err)
		}
		if err := Again(t.Context(), p.box, id, "human"); !errors.Is(err, mailbox.ErrConflict) {
			t.Errorf("what was delivered is sent again: %v", err)
		}
	}
}

// What a channel says of its server may have a secret in it, and comes into the ledger.
func TestNoSecretInTheLedger(t *testing.T) {
	p := newPost(t, BySearch)
	p.done("42")
	p.fake.fails = []error{fmt.Errorf("%w: https://api/s3cr3t/send", ErrRefused)}
	p.o.Channel = newCareful(p.fake, secrets{"", "s3cr3t"})
	p.deliver(1)
	left, err := Undelivered(p.box)
	if err != nil || len(left) != 1 || !strings.HasSuffix(left[0].Dead, "https://api/<redacted>/send") {
		t.Errorf("%+v, %v", left, err)
	}
}

// One that cannot be delivered does not keep the others.
func TestOthersGoOn(t *testing.T) {
	p := newPost(t, BySearch)
	p.done("one")
	p.done("two")
	p.fake.fails = []error{errors.New("down")}
	p.deliver(1)
	p.reads("two")
}

func TestLongResults(t *testing.T) {
	long := strings.Repeat("word ", 60) // two messages of 200 bytes, with room for a remark
	p := newPost(t, BySearch)
	id := p.done(long)
	p.fake.after = []error{errors.New("killed")}
	p.deliver(1)
	p.deliver(1)
	if got := strings.Join(p.fake.texts(), " "); strings.TrimSpace(got) != strings.TrimSpace(long) || len(p.fake.has) != 2 || p.fake.has[0].Key == p.fake.has[1].Key {
		t.Errorf("%d messages: %q", len(p.fake.has), got)
	}
	if legs := p.legs(id); legs != "stored intent notified intent notified" {
		t.Error(legs)
	}

	id = p.done(strings.Repeat(long, 4))
	p.fake.has = nil
	p.deliver(1)
	texts := p.fake.texts()
	if last := texts[len(texts)-1]; len(texts) != 3 || !strings.HasSuffix(last, "mbox show "+string(id)) || len(last) > 200 {
		t.Errorf("%d messages: %q", len(texts), texts)
	}

	p.o.Kind.Limits.File = 10_000
	p.done(strings.Repeat(long, 4))
	p.fake.has = nil
	p.deliver(1)
	if n := p.fake.has[0]; len(p.fake.has) != 1 || n.File == nil || n.File.Size != int64(len(long)*4) || len(n.Text) > 200 {
		t.Errorf("%d messages: %+v", len(p.fake.has), n)
	}
}

// Where the channel's limits are others than when a result was begun, it begins anew,
// and says that parts of it may be there.
func TestCutOtherwise(t *testing.T) {
	p := newPost(t, AtLeastOnce)
	p.done(strings.Repeat("word ", 60))
	p.fake.after = []error{nil, errors.New("killed")}
	p.deliver(1)
	p.o.Kind.Limits.Text = 1000
	p.deliver(1)
	texts := p.fake.texts()
	if len(texts) != 3 || !strings.HasPrefix(texts[2], repetition) {
		t.Errorf("%q", texts)
	}
}

// What has failed says why in a line, and a task that is tried again and ends again
// is told again.
func TestEachEndIsTold(t *testing.T) {
	p := newPost(t, ByKey)
	id := p.ask("bridge:chat", session)
	c := p.claim()
	p.must(c.Fail(t.Context(), mailbox.Failure{TaskError: mailbox.TaskError{Code: "broken", Message: "no\nsuch\u202e branch"}, Final: true}))
	p.must(c.Close())
	p.deliver(1)
	p.must(p.box.Retry(t.Context(), id, "human", "once more"))
	p.deliver(1)
	p.must(p.box.Cancel(t.Context(), id, "human", "enough"))
	p.deliver(1)
	p.must(p.box.Retry(t.Context(), id, "human", "once more"))
	p.complete("fine")
	p.deliver(1)
	texts := p.fake.texts()
	if len(texts) != 3 || texts[0] != string(id)+" has failed (broken): no such branch" || !strings.HasPrefix(texts[1], string(id)+" was cancelled") || texts[2] != "fine" {
		t.Errorf("%q", texts)
	}
}

func TestArtifactsAreNamed(t *testing.T) {
	p := newPost(t, ByKey)
	id := p.ask("bridge:chat", session)
	c := p.claim()
	path := filepath.Join(t.TempDir(), "report.txt")
	p.must(os.WriteFile(path, []byte("12345"), 0o600))
	_, err := c.Keep(t.Context(), path)
	p.must(err)
	p.must(c.Complete(t.Context(), mailbox.Result{}))
	p.must(c.Close())
	p.deliver(1)
	p.reads(fmt.Sprintf("%s is done.\n\ntasks/artifacts/%s.1/report.txt (5 B)", id, id))
}

func TestSeenAndAcknowledged(t *testing.T) {
	p := newPost(t, ByKey)
	id := p.done("42")
	d := p.deliver(1)
	p.must(d.Seen(t.Context(), "strange"))
	p.must(d.Seen(t.Context(), "m1"))
	p.must(d.Seen(t.Context(), "m1"))
	p.must(d.Acknowledge(t.Context(), id))
	p.must(Acknowledge(t.Context(), p.box, id, "human"))
	if legs := p.legs(id); legs != "stored intent notified seen acknowledged" {
		t.Error(legs)
	}
	p.done("43")
	p.deliver(1)
	d = NewDelivery(p.o) // another process, which has the kept place alone
	p.must(d.Seen(t.Context(), "m2"))
	if legs := p.legs(p.newest()); legs != "stored intent notified seen" {
		t.Error(legs)
	}
	open := p.ask("bridge:chat", session)
	for id, want := range map[mailbox.ID]error{open: mailbox.ErrConflict, "nothing": mailbox.ErrNotFound} {
		if err := Acknowledge(t.Context(), p.box, id, "human"); !errors.Is(err, want) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// The kept place saves reading, and nothing else: without it, and with one that the
// ledger does not hold any more, all is delivered once.
func TestKeptPlace(t *testing.T) {
	p := newPost(t, AtLeastOnce)
	p.done("one")
	p.deliver(1)
	path := outPath(p.box, "chat")
	first, err := os.ReadFile(path)
	p.must(err)
	waits := p.ask("bridge:chat", session)
	p.deliver(1)
	p.complete("two")
	for _, kept := range []string{"", "{", strings.Replace(string(first), `"checksum": "sha256:`, `"checksum": "sha256:0`, 1), string(first)} {
		if p.must(os.RemoveAll(path)); kept != "" {
			p.must(os.WriteFile(path, []byte(kept), 0o600))
		}
		p.deliver(1)
		p.reads("one", "two")
	}
	if legs := p.legs(waits); legs != "stored intent notified" {
		t.Error(legs)
	}
}

// Run delivers what ends while it runs, and ends soon after its context.
func TestRun(t *testing.T) {
	p := newPost(t, ByKey)
	told := make(chan string, 10)
	p.fake.sent = func(n Notice) { told <- n.Text }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	d := NewDelivery(p.o)
	go func() { ended <- d.Run(ctx) }()
	for _, text := range []string{"one", "two"} {
		p.done(text)
		if got := <-told; got != text {
			t.Errorf("it tells %q", got)
		}
	}
	open := p.ask("bridge:chat", session)
	settled := make(chan error, 1)
	go func() { settled <- d.Settled(t.Context(), map[mailbox.ID]bool{open: true}) }()
	p.complete("three")
	if err := <-settled; err != nil || p.legs(open) != "stored intent notified" {
		t.Errorf("%v: %q", err, p.legs(open))
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	p.deliver(1)
	p.reads("one", "two", "three")
}

// A receipt of an end before, which comes late, says nothing of the one that waits.
func TestReceiptOfAnEndBefore(t *testing.T) {
	p := newPost(t, ByKey)
	id := p.ask("bridge:chat", session)
	p.must(p.box.Cancel(t.Context(), id, "human", ""))
	p.deliver(1)
	first, err := resultOf(p.box, id)
	p.must(err)
	p.must(p.box.Retry(t.Context(), id, "human", ""))
	p.complete("fine")
	p.must(receive(t.Context(), p.box, first, "bridge:chat", task.Receipt{Leg: task.Seen, Message: "m1"}, "seen"))
	p.deliver(1)
	if texts := p.fake.texts(); len(texts) != 2 || texts[1] != "fine" {
		t.Errorf("%q", texts)
	}
}

// The place is kept behind a flush: what it says was delivered stands in lines that a
// power cut does not take.
func TestRule18_KeptBehindTheFlush(t *testing.T) {
	p := newPost(t, ByKey)
	p.box.Close()
	box, err := mailbox.Open(t.Context(), p.box.Home(), mailbox.Options{})
	p.must(err)
	t.Cleanup(func() { box.Close() })
	p.box, p.o.Box = box, box
	p.done("42")
	d := p.deliver(1)
	path := outPath(box, "chat")
	p.must(os.Remove(path))
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		ledger := op == durable.OpSync && (strings.Contains(path, "audit") || strings.HasSuffix(path, "journal"))
		if ledger {
			return false, errors.New("no flush")
		}
		return true, nil
	})
	defer remove()
	if box.Note(t.Context(), audit.Entry{Agent: "a", Event: audit.AgentState, Action: "x"}) == nil {
		t.Fatal("nothing had to be flushed")
	}
	p.must(d.out.update())
	d.save(t.Context(), 0)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a place is kept behind a line that is not on the disk: %v", err)
	}
}
