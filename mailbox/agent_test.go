package mailbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/lifecycle"
)

func paused(t testing.TB, b *Box, p Pause) Agent {
	t.Helper()
	a, err := PauseAgent(t.Context(), b, p)
	must(t, err)
	return a
}

func resumed(t testing.TB, b *Box, agent string) {
	t.Helper()
	a, err := ResumeAgent(t.Context(), b, agent, "human", "")
	must(t, err)
	if !a.Claims() {
		t.Errorf("%s is %s", agent, a)
	}
}

// A paused agent gets nothing and keeps what it has; others get what is for any. It is so
// in every process, with and without a snapshot, until somebody resumes it.
func TestPausedClaimsNothing(t *testing.T) {
	c := newClock()
	b := newBox(t, c.options())
	for _, id := range []ID{"held", "next"} {
		sent(t, b, id)
	}
	held, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	other, err := Open(t.Context(), b.Home(), b.Options())
	must(t, err)
	defer other.Close()
	paused(t, b, Pause{Agent: "coder", By: "human", Reason: "it is\ntired"})

	for name, box := range map[string]*Box{"its own": b, "another": other, "one with a snapshot": reopened(t, b)} {
		_, err := box.Claim(t.Context(), ClaimRequest{Agent: "coder"})
		var why *PausedError
		if !errors.Is(err, ErrPaused) || !errors.Is(err, ErrEmpty) || !errors.As(err, &why) || why.By != "human" || why.Reason != "it is tired" {
			t.Errorf("%s box: %v", name, err)
		}
	}
	must(t, held.Complete(t.Context(), Result{}))
	claim, err := other.Claim(t.Context(), ClaimRequest{Agent: "tester"})
	must(t, err)
	must(t, claim.Release(t.Context(), "", 0))
	end := b.ledger.End()
	paused(t, other, Pause{Agent: "coder", By: "human"})
	if b.ledger.End() != end {
		t.Error("a pause that stands is written again")
	}
	if a := paused(t, other, Pause{Agent: "coder", By: "human", Reason: "it still is"}); a.Reason != "it still is" {
		t.Errorf("it is %s", a)
	}
	resumed(t, other, "coder")
	end = b.ledger.End()
	resumed(t, b, "coder")
	if b.ledger.End() != end {
		t.Error("who is healthy is resumed again")
	}
	if _, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"}); err != nil {
		t.Errorf("resumed: %v", err)
	}
	e := lineOf(t, b, audit.AgentState)
	for _, want := range []string{`"agent":"coder"`, `"before":"paused"`, `"after":"healthy"`} {
		if !strings.Contains(string(e.Details), want) || e.Agent != "human" || e.TaskID != nil || e.Session != nil {
			t.Errorf("%s is not in %+v", want, e)
		}
	}
	whole(t, b.Home())
}

// A pause that comes while a claim looks for a task counts before that is taken; where
// there is none, the pause is what is told.
func TestPausedMeanwhile(t *testing.T) {
	b := newBox(t, Options{})
	other, err := Open(t.Context(), b.Home(), b.Options())
	must(t, err)
	defer other.Close()
	sent(t, b, "one")
	_, err = b.Claim(t.Context(), ClaimRequest{Agent: "coder", Thinks: func() bool {
		paused(t, other, Pause{Agent: "coder", By: "human"})
		return true
	}})
	if !errors.Is(err, ErrPaused) {
		t.Errorf("it was claimed: %v", err)
	}
	must(t, b.Cancel(t.Context(), "one", "human", ""))
	if _, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"}); !errors.Is(err, ErrPaused) {
		t.Errorf("with nothing to claim: %v", err)
	}
	resumed(t, b, "coder")
	if _, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"}); !errors.Is(err, ErrEmpty) || errors.Is(err, ErrPaused) {
		t.Errorf("resumed: %v", err)
	}
}

// While an agent is paused no claim that begins gets a task, whoever else is at work;
// between pauses claims do get some.
func TestPauseHolds(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "one")
	var gate, asked, took atomic.Int64 // gate is odd while it is paused
	var working sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 3 {
		other, err := Open(t.Context(), b.Home(), b.Options())
		must(t, err)
		working.Go(func() {
			defer other.Close()
			for ctx.Err() == nil {
				before := gate.Load()
				claim, err := other.Claim(t.Context(), ClaimRequest{Agent: "coder"})
				if err == nil {
					if after := gate.Load(); before == after && before%2 == 1 {
						t.Error("a paused agent has claimed")
					}
					took.Add(1)
					err = claim.Release(t.Context(), "", 0)
				}
				if err != nil && !errors.Is(err, ErrEmpty) {
					t.Error(err)
				}
				asked.Add(1)
			}
		})
	}
	grows := func(n *atomic.Int64, by int64) {
		for had := n.Load(); n.Load() < had+by && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
	}
	for range 10 {
		paused(t, b, Pause{Agent: "coder", By: "human"})
		gate.Add(1)
		grows(&asked, 6)
		gate.Add(1)
		resumed(t, b, "coder")
		grows(&took, 1)
	}
	stop()
	working.Wait()
	whole(t, b.Home())
}

// A pause with an end ends by itself. One that asks for no more than there is leaves that;
// any other word counts, and a resume ends it at once.
func TestPauseEnds(t *testing.T) {
	c := newClock()
	b := newBox(t, c.options())
	until := func(d time.Duration) time.Time { return c.now().Add(d) }
	if a := paused(t, b, Pause{Agent: "coder", By: "human", Until: until(time.Hour)}); !a.Until.Equal(until(time.Hour)) {
		t.Errorf("it is %s", a)
	}
	sent(t, b, "one")
	claims := func() bool {
		claim, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
		if errors.Is(err, ErrPaused) {
			return false
		}
		must(t, err)
		must(t, claim.Release(t.Context(), "", 0))
		return true
	}
	c.turn(time.Hour - time.Second)
	if claims() {
		t.Error("the pause ended too soon")
	}
	if c.turn(time.Second); !claims() {
		t.Error("the pause did not end")
	}
	for _, step := range []struct {
		until  time.Duration // 0: no end
		longer bool
		want   time.Duration
	}{
		{2 * time.Hour, true, 2 * time.Hour},
		{time.Hour, true, 2 * time.Hour},
		{3 * time.Hour, true, 3 * time.Hour},
		{time.Hour, false, time.Hour},
		{0, false, 0},
		{time.Hour, true, 0},
		{time.Hour, false, time.Hour},
		{0, true, 0},
	} {
		p := Pause{Agent: "coder", By: "human", Longer: step.longer, Reason: fmt.Sprint(step)}
		if step.until > 0 {
			p.Until = until(step.until)
		}
		a := paused(t, b, p)
		if (a.Until == nil) != (step.want == 0) || a.Until != nil && !a.Until.Equal(until(step.want)) {
			t.Errorf("%+v: it is %s", step, a)
		}
	}
	if resumed(t, b, "coder"); !claims() {
		t.Error("it was resumed and claims nothing")
	}
	whole(t, b.Home())
}

// Which names can be paused, and by whom; a dead agent is not paused any more.
func TestPauseRefused(t *testing.T) {
	b := newBox(t, Options{})
	for _, p := range []Pause{
		{Agent: "any", By: "human"},
		{Agent: "Coder", By: "human"},
		{Agent: "", By: "human"},
		{Agent: "coder", By: "shared"},
		{Agent: "coder"},
		{Agent: "coder", By: "human", Until: time.Now()},
		{Agent: "coder", By: "human", Until: time.Now().AddDate(8000, 0, 0)},
	} {
		if _, err := PauseAgent(t.Context(), b, p); err == nil {
			t.Errorf("%+v was done", p)
		}
	}
	must(t, b.Note(t.Context(), audit.Entry{
		Agent: "human", Event: audit.AgentState, Details: audit.Details(lifecycle.Move{Agent: "coder", Before: lifecycle.Healthy, After: lifecycle.Dead}),
	}))
	_, err := PauseAgent(t.Context(), b, Pause{Agent: "coder", By: "human"})
	_, other := ResumeAgent(t.Context(), b, "coder", "human", "")
	if !errors.Is(err, ErrConflict) || !errors.Is(other, ErrConflict) || !strings.Contains(err.Error(), "agent coder is dead since") {
		t.Errorf("%v, %v", err, other)
	}
	if _, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"}); !errors.Is(err, ErrPaused) {
		t.Errorf("a dead agent claims: %v", err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for _, id := range []ID{"", "mine"} { // of the first another id is not looked for
		var ended *EndedError
		if _, err := b.Submit(soon, &Task{ID: id, Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: "coder"}}); !errors.As(err, &ended) {
			t.Errorf("a dead agent is sent %q: %v", id, err)
		}
	}
}

// A line that only looks like a move of an agent changes nothing and stops nobody.
func TestForgedAgentState(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "one")
	paused(t, b, Pause{Agent: "tester", By: "human"})
	id := "one"
	for _, details := range []map[string]any{
		{},
		{"agent": 7},
		{"agent": []string{"coder"}, "before": "healthy", "after": "paused"},
		{"agent": "coder", "before": "healthy", "after": "asleep"},
		{"agent": "coder", "before": "dead", "after": "paused"},
		{"agent": "any", "before": "healthy", "after": "paused"},
		{"agent": "tester", "before": "healthy", "after": "healthy"},
		{"agent": "tester", "before": "draining", "after": "healthy"},
		{"agent": "coder", "before": "healthy", "after": "paused", "until": "soon"},
		{"agent": "coder", "before": "healthy", "after": "paused", "reason": map[string]any{"a": 1}},
		{"agent": "coder", "before": "healthy", "after": "paused", "to": "failed", "from": "pending", "until": 3},
	} {
		must(t, b.Note(t.Context(), audit.Entry{Agent: "coder", Event: audit.AgentState, Details: audit.Details(details)}))
		must(t, b.Note(t.Context(), audit.Entry{Agent: "coder", Event: audit.AgentState, TaskID: &id, Details: audit.Details(details)}))
	}
	for _, box := range []*Box{b, reopened(t, b)} {
		if err := MayClaim(box, "tester"); !errors.Is(err, ErrPaused) {
			t.Errorf("the tester: %v", err)
		}
		claim, err := box.Claim(t.Context(), ClaimRequest{Agent: "coder"})
		must(t, err)
		must(t, claim.Release(t.Context(), "", 0))
	}
	whole(t, b.Home())
}

// Who waits for a task as a paused agent has it as soon as the agent is resumed by another
// process, or its pause is over, and not when the next scan comes.
func TestWaitOfPaused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	b := newBox(t, Options{Sync: durable.None, ScanInterval: time.Minute})
	other, err := Open(ctx, b.Home(), b.Options())
	must(t, err)
	defer other.Close()
	wait := func() <-chan error {
		done := make(chan error, 1)
		go func() {
			claim, err := b.Wait(ctx, ClaimRequest{Agent: "coder"})
			if err == nil {
				err = claim.Complete(ctx, Result{})
			}
			done <- err
		}()
		return done
	}
	sent(t, b, "first")
	paused(t, other, Pause{Agent: "coder", By: "human", Until: time.Now().Add(300 * time.Millisecond)})
	if err := <-wait(); err != nil {
		t.Errorf("the pause is over: %v", err)
	}
	sent(t, b, "second")
	paused(t, other, Pause{Agent: "coder", By: "human"})
	done := wait()
	for b.queue.Agent("coder").Claims() { // it has not heard of it
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-done:
		t.Fatalf("a paused agent has claimed: %v", err)
	case <-time.After(100 * time.Millisecond): // it waits
	}
	resumed(t, other, "coder")
	if err := <-done; err != nil {
		t.Errorf("it is resumed: %v", err)
	}
	whole(t, b.Home())
}

// Why and the alarm name the pause, for agents of the registry and for any other.
func TestWhyPaused(t *testing.T) {
	c := newClock()
	o := c.options()
	o.Agents = map[string]Capabilities{"coder": {Types: []string{"other"}}, "idler": {Types: []string{"other"}, Disabled: true}}
	b := newBox(t, o)
	for id, target := range map[ID]string{"named": "coder", "open": "any", "strange": "porter"} {
		r := request("x")
		r.ID, r.Assignment.TargetAgent = id, target
		_, err := b.Submit(t.Context(), r)
		must(t, err)
	}
	for _, agent := range []string{"coder", "porter"} {
		paused(t, b, Pause{Agent: agent, By: "human", Reason: "a rest"})
	}
	says := "which is paused since " + lifecycleTime(t, b) + " by human: a rest"
	for id, want := range map[ID]string{"named": "coder, " + says, "open": "coder, " + says, "strange": "porter, " + says} {
		w, err := b.Why(t.Context(), id)
		must(t, err)
		if w.Summary != "pending: it waits for "+want {
			t.Errorf("%s: %s", id, w.Summary)
		}
		for _, asks := range w.Asks {
			if strings.Contains(asks, "whoever claims") {
				t.Errorf("%s: %s", id, asks)
			}
		}
	}
	c.turn(time.Hour)
	must(t, scanNow(b, Pending))
	for id, want := range map[ID]string{"named": "coder could take it and is paused since", "open": "coder could take it and is paused", "strange": "porter could take it and is paused"} {
		if w, err := b.Why(t.Context(), id); err != nil || len(w.Alarms) != 1 || !strings.HasPrefix(w.Alarms[0], want) {
			t.Errorf("%s: %q, %v", id, w.Alarms, err)
		}
	}
	resumed(t, b, "coder")
	if w, err := b.Why(t.Context(), "named"); err != nil || len(w.Waits) > 0 || len(w.Able) != 1 {
		t.Errorf("resumed: %+v, %v", w.Waits, err)
	}
}

// lifecycleTime is when the last move of an agent was.
func lifecycleTime(t *testing.T, b *Box) string {
	t.Helper()
	a, err := AgentOf(b, "coder")
	must(t, err)
	return a.Since.String()
}

// Who has ended gets no new task, by nobody's word; what comes all the same waits, and why
// tells for whom. The same verb said again is answered as before.
func TestEndedAgentGetsNothing(t *testing.T) {
	b, claim := family(t, Options{})
	born(t, b, "ada", "")
	end := func(state lifecycle.State) {
		t.Helper()
		_, err := MoveAgent(t.Context(), b, "human", "ends it", lifecycle.Move{Agent: "ada", After: state, Reason: "over"})
		must(t, err)
	}
	for1 := func(id ID) *Task {
		return &Task{ID: id, Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: "ada"}}
	}
	submit(t, b, for1("first"))
	ids := delegate(t, claim, "", child("ada", "Write"))
	submit(t, b, &Task{ID: "open", Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: "boss"}})
	open := claimAs(t, b, "boss")
	for _, state := range []lifecycle.State{lifecycle.Draining, lifecycle.Dead} {
		end(state)
		var ended *EndedError
		if _, err := b.Submit(t.Context(), for1("second")); !errors.As(err, &ended) || !errors.Is(err, ErrConflict) || ended.State != state {
			t.Errorf("%s: it is sent: %v", state, err)
		}
		if id, err := b.Submit(t.Context(), for1("first")); id != "first" || err != nil {
			t.Errorf("%s: said again: %s %v", state, id, err)
		}
		submit(t, b, &Task{ID: "to-" + ID(state), Task: Request{Title: "x"}})
		if _, err := Edit(t.Context(), b, "to-"+ID(state), "human", "", toAgent("ada")); !errors.As(err, &ended) {
			t.Errorf("%s: it is given to it: %v", state, err)
		}
		var refusal *Refusal
		if _, err := open.Delegate(t.Context(), Delegation{Children: []Child{child("ada", "x")}}); !errors.As(err, &refusal) || refusal.Step != "parameters" || !strings.Contains(refusal.Reason, "ada is "+string(state)) {
			t.Errorf("%s: it is asked: %v", state, err)
		}
	}
	b.drop(t, "dropped.json", `{"task":{"title":"x"},"assignment":{"target_agent":"ada"}}`)
	mustScan(t, b)
	tick := &Task{Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: "ada"}}
	if _, made, err := Fire(t.Context(), b, tick, "nightly", "2026-11-22T10:00:00Z"); !made || err != nil {
		t.Errorf("a schedule is refused: %v", err)
	}
	for id, want := range map[ID]string{
		"dropped": "it waits for ada, which is dead since ",
		"parent":  "it waits for all of its children: " + string(ids[0]) + ", which is for ada, which is dead since ",
	} {
		if w, err := b.Why(t.Context(), id); err != nil || !strings.Contains(w.Summary, want) || !strings.HasSuffix(w.Summary, "over") {
			t.Errorf("%s: %+v %v", id, w, err)
		}
	}
	whole(t, b.Home())
}

// A resume ends pauses alone: what is provisioning has its first pulse to come.
func TestResumeMakesNobodyHealthy(t *testing.T) {
	b := newBox(t, Options{})
	_, err := MoveAgent(t.Context(), b, "human", "bore ada", lifecycle.Move{Agent: "ada", After: lifecycle.Provisioning})
	must(t, err)
	end := b.ledger.End()
	a, err := ResumeAgent(t.Context(), b, "ada", "human", "")
	if !errors.Is(err, ErrConflict) || a.State != lifecycle.Provisioning || b.ledger.End() != end {
		t.Errorf("%s: %v", a, err)
	}
}
