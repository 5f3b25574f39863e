package chat

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox"
)

// notified runs a notifier and returns what its target was told until want notices
// were there.
func (p *post) notified(o NotifierOptions, want int, do func()) (told []string) {
	p.Helper()
	got := make(chan string, 100)
	p.fake.mu.Lock()
	p.fake.sent = func(n Notice) { got <- n.Title }
	p.fake.mu.Unlock()
	o.Box, o.Name, o.Channel, o.Pause = p.box, "me", p.fake, time.Millisecond
	o.Kind, o.Log = p.o.Kind, func(string, ...any) {}
	ctx, stop := context.WithCancel(p.Context())
	ended := make(chan error, 1)
	n := NewNotifier(o)
	lock, err := hold(p.box.Home(), n.file(), p.box.Options().Sync)
	p.must(err)
	p.must(n.restore()) // from here on
	p.must(lock.Unlock())
	go func() { ended <- n.Run(ctx) }()
	do()
	for len(told) < want {
		select {
		case title := <-got:
			told = append(told, title)
		case <-time.After(10 * time.Second):
			p.Fatalf("told only %q", told)
		}
	}
	stop()
	if err := <-ended; err != nil {
		p.Errorf("it ended: %v", err)
	}
	close(got)
	for title := range got {
		told = append(told, title)
	}
	return told
}

func TestNotify(t *testing.T) {
	p := newPost(t, AtLeastOnce)
	p.done("before")
	var done, failed, other mailbox.ID
	told := p.notified(NotifierOptions{On: Happenings, Agent: "a"}, 2, func() {
		done = p.done("42")
		failed = p.ask("human", "")
		c := p.claim()
		p.must(c.Fail(t.Context(), mailbox.Failure{TaskError: mailbox.TaskError{Code: "broken", Message: "no"}, Final: true}))
		p.must(c.Close())
		gone := p.ask("human", "")
		p.must(p.box.Cancel(t.Context(), gone, "human", ""))
		id, err := p.box.Submit(t.Context(), &mailbox.Task{Task: mailbox.Request{Title: "x"}, Assignment: mailbox.Assignment{TargetAgent: "b"}})
		p.must(err)
		p.completeAs("b", "of another agent")
		other = id
	})
	if want := []string{"completed: " + string(done), "failed: " + string(failed)}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q; %s is another agent's", told, want, other)
	}
	if n := p.fake.has[1]; !strings.Contains(n.Text, "What\nbroken: no") || len(n.Key) != 32 {
		t.Errorf("%+v", n)
	}
}

// A notice whose receipt was not kept is told again, with the same key, and nothing
// that was kept is.
func TestNotifyGoesOn(t *testing.T) {
	p := newPost(t, ByKey)
	o := NotifierOptions{On: []string{"completed"}, JSON: true}
	p.notified(o, 1, func() { p.done("one") })
	p.notified(o, 1, func() { p.done("two") })
	p.fake.after = []error{errors.New("cut off")}
	p.notified(o, 2, func() { p.done("three") })
	if len(p.fake.has) != 3 || !strings.Contains(p.fake.has[2].Text, `"event":"completed"`) {
		t.Errorf("%q", p.fake.texts())
	}
}

func (p *post) alarms() (n int) {
	p.Helper()
	for line, err := range p.box.Ledger().Backward() {
		p.must(err)
		if line.Event() == audit.ErrorEvent {
			n++
		}
	}
	return n
}

// A target that fails is one alarm, until it has taken something, and no task of the
// target's.
func TestNotifyAlarmsOnce(t *testing.T) {
	p := newPost(t, AtLeastOnce)
	for range triesBeforeAlarm + 3 {
		p.fake.fails = append(p.fake.fails, errors.New("down"))
	}
	p.notified(NotifierOptions{On: Happenings}, triesBeforeAlarm+3+1, func() { p.done("42") })
	if n := p.alarms(); n != 1 || len(p.fake.has) != 1 {
		t.Errorf("%d alarms, %q", n, p.fake.texts())
	}
	p.fake.fails = []error{fmt.Errorf("%w: not for us", ErrRefused), fmt.Errorf("%w: not for us", ErrRefused)}
	p.notified(NotifierOptions{On: Happenings}, 3, func() { p.done("1"); p.done("2"); p.done("3") })
	if n := p.alarms(); n != 2 || len(p.fake.has) != 2 {
		t.Errorf("%d alarms, %q", n, p.fake.texts())
	}
}

// What a program wrote when it failed goes into the log, and not into the ledger: it may
// repeat what it was told.
func TestWordsStayOutOfTheLedger(t *testing.T) {
	p := newPost(t, AtLeastOnce)
	refused := fmt.Errorf("%w: %w", ErrRefused, &WordsError{Err: errors.New("/bin/x: exit status 3"), Words: "no between us"})
	p.fake.fails = []error{refused, refused}
	told := func() (reasons int) {
		for line, err := range p.box.Ledger().Backward() {
			if p.must(err); line.Text("reason") == "/bin/x: exit status 3" {
				reasons++
			}
		}
		return reasons
	}
	ctx, end := context.WithTimeout(p.Context(), 10*time.Second)
	defer end()
	p.notified(NotifierOptions{On: Happenings}, 1, func() {
		p.done("42")
		for told() == 0 && ctx.Err() == nil { // it is ended once it has called, before it may have said how
			runtime.Gosched()
		}
	})
	p.fake.sent = nil
	p.deliver(1)
	for line, err := range p.box.Ledger().Backward() {
		p.must(err)
		if e, err := line.Decode(); err != nil || strings.Contains(string(e.Details), "between us") || strings.Contains(e.Action, "between us") {
			t.Errorf("%s %s %v", e.Action, e.Details, err)
		}
	}
	if reasons := told(); reasons != 2 || !strings.HasSuffix(refused.Error(), ": no between us") {
		t.Errorf("%d reasons; the log has %v", reasons, refused)
	}
}

func TestNotifyApproval(t *testing.T) {
	p := newPost(t, AtLeastOnce)
	p.box.Close()
	box, err := mailbox.Open(t.Context(), p.box.Home(), mailbox.Options{Sync: p.box.Options().Sync, Approval: func(t *mailbox.Task) string {
		if t.Mbox.Action != nil {
			return "it deploys"
		}
		return ""
	}})
	p.must(err)
	t.Cleanup(func() { box.Close() })
	p.box = box
	told := p.notified(NotifierOptions{On: []string{"approval"}}, 1, func() {
		p.ask("human", "")
		_, err := box.Submit(t.Context(), &mailbox.Task{
			ID: "deploy", Task: mailbox.Request{Title: "x"}, Assignment: mailbox.Assignment{TargetAgent: "a"}, Mbox: mailbox.Meta{Action: &mailbox.Action{Name: "deploy_compose"}},
		})
		p.must(err)
	})
	if !slices.Equal(told, []string{"approval: deploy"}) || !strings.Contains(p.fake.has[0].Text, "it deploys\nmbox approve deploy") {
		t.Errorf("%q: %q", told, p.fake.texts())
	}
}

// Of messages those are told that name the people, and by the agent that is wanted.
func TestNotifyMessages(t *testing.T) {
	p := newPost(t, AtLeastOnce)
	say := func(from, text string) {
		t.Helper()
		_, _, _, err := mailbox.PostMessage(t.Context(), p.box, mailbox.Post{Channel: "general", From: from, Text: text})
		p.must(err)
	}
	_, _, _, err := mailbox.PostMessage(t.Context(), p.box, mailbox.Post{Channel: "general", From: "human", Text: "@apes talk", Create: true})
	p.must(err)
	say("a", "@apes before")
	told := p.notified(NotifierOptions{On: []string{"message"}, Agent: "a"}, 1, func() {
		say("a", "no name")
		say("b", "@apes from another one")
		p.done("42")
		say("a", "@apes look\x1b[2J\nat this")
	})
	if n := p.fake.has[0]; !slices.Equal(told, []string{"message"}) || n.Text != `#general, a: @apes look[2J at this` || len(n.Key) != 32 {
		t.Errorf("told %q: %+v", told, n)
	}
	quiet := p.notified(NotifierOptions{On: []string{"completed"}}, 1, func() {
		say("a", "@apes nobody wants to know")
		p.done("43")
	})
	if len(quiet) != 1 || !strings.HasPrefix(quiet[0], "completed") {
		t.Errorf("told %q", quiet)
	}
}
