package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox"
)

// asks says something and returns the answer.
func (b *bridged) asks(m Message) string {
	b.Helper()
	b.hears(m)
	return b.answer().Text
}

// has makes a task of a message and returns its id.
func (b *bridged) has(m Message) string {
	b.Helper()
	before := map[mailbox.ID]bool{}
	for _, t := range b.tasks() {
		before[t.ID] = true
	}
	b.hears(m)
	for _, t := range b.tasks() {
		if !before[t.ID] {
			return string(t.ID)
		}
	}
	b.Fatalf("%+v became no task", m)
	return ""
}

func in(room, who, id, text string) Message {
	return Message{ID: id, From: who, In: Conversation{Peer: room, Group: true}, Text: text}
}

func TestCommandsAreForOnesOwnTasks(t *testing.T) {
	b := aBridge(t)
	b.Settings.Rooms = []string{"#room", "#two"}
	b.Rules.Allow = append(b.Rules.Allow, "*")
	b.up()
	direct := b.has(from("anna", "1", "anna's own"))
	room := b.has(in("#room", "anna", "2", "anna's in the room"))
	foreign, err := b.Box.Submit(t.Context(), &mailbox.Task{Source: mailbox.Source{Agent: "coder", User: "anna", Session: "agent:pi:family:direct:anna"}, Task: mailbox.Request{Title: "anna's by another way"}})
	if err != nil {
		t.Fatal(err)
	}
	n := 10
	ask := func(m Message, format string, a ...any) string {
		n++
		m.ID, m.Text = fmt.Sprint(n), fmt.Sprintf(format, a...)
		return b.asks(m)
	}
	anna, bert, chief := from("anna", "", ""), from("bert", "", ""), from("chief", "", "")
	annaHere, annaThere, bertHere, chiefHere := in("#room", "anna", "", ""), in("#two", "anna", "", ""), in("#room", "bert", "", ""), in("#room", "chief", "", "")
	for _, c := range []struct {
		who  Message
		id   string
		seen bool
	}{
		{anna, direct, true},
		{anna, room, true},
		{annaHere, room, true},
		{chief, direct, true},
		{chief, room, true},
		{chief, string(foreign), true},
		{chiefHere, room, true},
		{annaHere, direct, false},
		{annaThere, room, false},
		{bert, direct, false},
		{bert, room, false},
		{bertHere, room, false},
		{anna, string(foreign), false},
		{anna, "task-none", false},
		{anna, "../../x", false},
		{chiefHere, direct, false},
		{bert, strings.ToUpper(direct), false},
	} {
		got := ask(c.who, "/why %s", c.id)
		if seen := strings.HasPrefix(got, c.id+", pending: "); seen != c.seen || !seen && got != noTask {
			t.Errorf("%s in %s asks about %s: %q", c.who.From, c.who.In.Peer, c.id, got)
		}
	}
	for _, c := range []struct {
		who  Message
		id   string
		want string
	}{
		{bert, direct, noTask},
		{bertHere, room, noTask},
		{annaHere, direct, noTask},
		{anna, string(foreign), noTask},
		{anna, "none", noTask},
		{anna, direct, "is cancelled"},
		{anna, direct, "is cancelled"},
		{chief, room, "is cancelled"},
		{chief, string(foreign), "is cancelled"},
	} {
		if got := ask(c.who, "/cancel %s", c.id); !strings.Contains(got, c.want) {
			t.Errorf("%s cancels %s: %q", c.who.From, c.id, got)
		}
	}
	for _, c := range []struct {
		who  Message
		id   string
		want string
	}{{bert, direct, noTask}, {anna, direct, "has come"}, {anna, direct, "has come"}, {chief, string(foreign), "has no result"}, {anna, "none", noTask}} {
		if got := ask(c.who, "/ack %s", c.id); !strings.Contains(got, c.want) {
			t.Errorf("%s acknowledges %s: %q", c.who.From, c.id, got)
		}
	}
	if got := b.ledger(audit.ResultDelivered); len(got) != 1 || got[0].Task() != direct {
		t.Errorf("%v", got)
	}
	if got := ask(anna, "/status"); got != "No task of yours waits or is at work." {
		t.Errorf("%q", got)
	}
}

func TestStatusTellsWhatIsOnesOwnHere(t *testing.T) {
	b := aBridge(t)
	b.up()
	direct := b.has(from("anna", "1", "secret plan"))
	room := b.has(in("#room", "anna", "2", "open plan"))
	b.has(from("bert", "3", "bert's"))
	if got := b.asks(from("anna", "4", "/status")); !strings.Contains(got, direct+", pending: secret plan") || !strings.Contains(got, room) || strings.Contains(got, "bert") {
		t.Errorf("anna: %q", got)
	}
	if got := b.asks(in("#room", "anna", "5", "/status")); strings.Contains(got, "secret") || !strings.Contains(got, "open plan") {
		t.Errorf("anna in the room: %q", got)
	}
	for i := range mostListed {
		b.hears(from("anna", fmt.Sprint("m", i), "more"))
	}
	if got := b.asks(from("anna", "6", "/status")); !strings.HasSuffix(got, "and 2 more") {
		t.Errorf("many: %q", got)
	}
}

// approving gives the bridge a box whose actions an operator has to approve. hashed has
// who that is in the ledger as a hash.
func (b *bridged) approving(now func() time.Time, hashed bool) *mailbox.Box {
	b.Helper()
	b.Box.Close()
	o := mailbox.Options{Now: now, HashIdentities: hashed, Agents: map[string]mailbox.Capabilities{"pi": {}}, Approval: func(t *mailbox.Task) string {
		if t.Mbox.Action != nil {
			return "it deploys"
		}
		return ""
	}}
	box, err := mailbox.Open(b.Context(), b.Box.Home(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { box.Close() })
	b.Box = box
	return box
}

// deploys makes a task of anna's that waits for an approval.
func (b *bridged) deploys(id mailbox.ID, what string) mailbox.ID {
	b.Helper()
	params, err := json.Marshal(map[string]string{"what": what})
	if err == nil {
		id, err = b.Box.Submit(b.Context(), &mailbox.Task{
			ID: id, Source: mailbox.Source{Agent: "bridge:family", User: "anna", Session: "agent:pi:family:direct:anna"}, Task: mailbox.Request{Title: "Deploy"},
			Assignment: mailbox.Assignment{TargetAgent: "pi"}, Mbox: mailbox.Meta{Action: &mailbox.Action{Name: "deploy_it", Params: jsontext.Value(params)}},
		})
	}
	if err != nil {
		b.Fatal(err)
	}
	return id
}

// A task of which the channel does not show all has no code.
func TestNoCodeForHalf(t *testing.T) {
	b := aBridge(t)
	b.approving(nil, false)
	b.Kind.Limits.Text, b.Kind.Limits.Parts = 1000, 5
	b.up()
	for i, c := range []struct {
		what string
		all  bool
	}{
		{strings.Repeat("x", 1500), true},
		{strings.Repeat("x", 2100), false},
		{strings.Repeat("\u4e2d", 1900), false}, // three bytes each, and six messages
		{strings.Repeat("\u202e", 400), false},  // shown as six characters each
	} {
		id := b.deploys(mailbox.ID(fmt.Sprint("deploy", i)), c.what)
		for _, ask := range []string{"/why ", "/approve "} {
			var got string
			b.hears(from("chief", fmt.Sprint(i, ask), ask+string(id)))
			b.hears(from("chief", fmt.Sprint(i, ask, "end"), "/help"))
			for answer := ""; !strings.HasPrefix(answer, "What you write"); answer = b.answer().Text {
				got += answer
			}
			if code := strings.Contains(got, "/approve "+string(id)+" "); code != c.all || !c.all && !strings.Contains(got, "mbox show "+string(id)+" shows all") {
				t.Errorf("%s%s: %q", ask, id, got)
			}
		}
	}
}

func TestOnlyOperatorsApprove(t *testing.T) {
	b := aBridge(t)
	var late atomic.Int64
	box := b.approving(func() time.Time { return time.Now().Add(time.Duration(late.Load())) }, false)
	stop := b.up()
	id := b.deploys("deploy", "all of it")
	approved := func() int {
		all, err := box.Decisions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	for i, who := range []string{"anna", "bert"} {
		if got := b.asks(from(who, fmt.Sprint(i), "/approve "+string(id))); !strings.HasPrefix(got, "That is no command") {
			t.Errorf("%s: %q", who, got)
		}
	}
	if got := b.asks(from("anna", "w", "/why "+string(id))); strings.Contains(got, "/approve") {
		t.Errorf("anna learns the code: %q", got)
	}
	seen := b.asks(from("chief", "2", "/why "+string(id)))
	_, line, ok := strings.Cut(seen, "/approve ")
	if !ok || !strings.Contains(seen, `"all of it"`) {
		t.Fatalf("the chief sees %q", seen)
	}
	for i, wrong := range []string{"0123456789abcdef", "0", "%"} {
		if got := b.asks(from("chief", fmt.Sprint("x", i), "/approve deploy "+wrong)); !strings.Contains(got, "not what you have seen") {
			t.Errorf("%s: %q", wrong, got)
		}
	}
	if n := approved(); n != 0 {
		t.Fatalf("%d approvals", n)
	}
	if got := b.asks(from("chief", "3", "/approve "+line)); got != "deploy is approved for an hour." {
		t.Errorf("%q", got)
	}
	all, err := box.Decisions(t.Context())
	if err != nil || len(all) != 1 || !strings.Contains(fmt.Sprint(all[0]), "bridge:family chief") {
		t.Errorf("%+v, %v", all, err)
	}

	// What comes again approves nothing that the task has become meanwhile.
	again := func() {
		t.Helper()
		if err := errors.Join(box.Cancel(t.Context(), id, "human", "x"), box.Retry(t.Context(), id, "human", "x")); err != nil {
			t.Fatal(err)
		}
	}
	again()
	shown := b.asks(from("chief", "bare", "/approve deploy"))
	_, line, ok = strings.Cut(shown, "/approve ")
	if !ok || !strings.Contains(shown, `"all of it"`) || approved() != 1 {
		t.Fatalf("without a code: %q, %d approvals", shown, approved())
	}
	if got := b.asks(from("chief", "one", "/approve "+line)); got != "deploy is approved for an hour." {
		t.Errorf("%q", got)
	}
	stop() // the process that did it would not do it again
	b.up()
	late.Store(int64(2 * approvalLasts)) // it does not count any more, and the task is what it was
	if got := b.asks(from("chief", "one", "/approve "+line)); !strings.Contains(got, "counts once") || approved() != 2 {
		t.Errorf("again: %q, %d approvals", got, approved())
	}
	plain := b.has(from("anna", "4", "hello"))
	if got := b.asks(from("chief", "5", "/approve "+plain)); !strings.Contains(got, "waits for no approval") {
		t.Errorf("%q", got)
	}
}

// With hash_identities no operator stands in clear in the ledger and the decision, and an
// approval counts once all the same, also one that was given before that was set.
func TestOperatorsAreHashed(t *testing.T) {
	b := aBridge(t)
	b.Rules.Operators = []string{"+49170123456"}
	approve := func(id mailbox.ID, message string) string {
		t.Helper()
		_, line, ok := strings.Cut(b.asks(from("+49170123456", message+" asks", "/why "+string(id))), "/approve ")
		if !ok {
			t.Fatalf("%s has no code", id)
		}
		return b.asks(from("+49170123456", message, "/approve "+line))
	}
	var late time.Duration
	now := func() time.Time { return time.Now().Add(late) }
	b.approving(now, false)
	stop := b.up()
	before := b.deploys("before", "x")
	if got := approve(before, "1"); got != "before is approved for an hour." {
		t.Errorf("in clear: %q", got)
	}
	stop()
	late = 2 * approvalLasts
	box := b.approving(now, true)
	b.up()
	if got := approve(before, "1"); !strings.Contains(got, "counts once") {
		t.Errorf("what was given in clear: %q", got)
	}
	id := b.deploys("hashed", "x")
	if got := approve(id, "2"); got != "hashed is approved for an hour." {
		t.Errorf("hashed: %q", got)
	}
	if w, err := box.Why(t.Context(), id); err != nil || w.Approve != "" {
		t.Errorf("it waits for %+v, %v", w, err)
	}
	lines, err := linesOf(box, id)
	all, failed := box.Decisions(t.Context())
	if err := errors.Join(err, failed); err != nil || len(all) != 2 {
		t.Fatal(len(all), err)
	}
	told := fmt.Sprint(all[0], all[1])
	for _, line := range lines {
		told += string(line.Details) + line.Action
	}
	if n := strings.Count(told, "49170123456"); n != 1 || !strings.Contains(told, " of bridge:family sha256:") {
		t.Errorf("the number stands there %d times, which is once before: %s", n, told)
	}
}

func TestWhatIsACommand(t *testing.T) {
	for text, want := range map[string]bool{"/help": true, " /why x": true, "/etc/passwd is open": false, "/": false, "a /help": false, "/Help": false, "/help@them": false, "//help": false} {
		if _, _, is := command(text); is != want {
			t.Errorf("%q: %v", text, is)
		}
	}
	b := aBridge(t)
	b.up()
	for i, text := range []string{"/hlep", "/why", "/why a b", "/cancel", "/status all"} {
		if got := b.asks(from("anna", fmt.Sprint(i), text)); !strings.HasPrefix(got, "That is no command") {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got := b.asks(from("chief", "h", "/help")); !strings.Contains(got, "/approve") {
		t.Errorf("%q", got)
	}
	if got := b.asks(from("anna", "h2", "/help")); strings.Contains(got, "/approve") {
		t.Errorf("%q", got)
	}
}
