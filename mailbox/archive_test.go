package mailbox

import (
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/task"
)

// asked sends a task as a bridge does, and completes it.
func (b *Box) asked(t *testing.T, source string) (ID, int64) {
	t.Helper()
	id, err := b.Submit(t.Context(), &Task{Source: Source{Agent: source, Session: "agent:a:chat:direct:eve"}, Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: "a"}})
	must(t, err)
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "a"})
	must(t, err)
	must(t, c.Complete(t.Context(), Result{Output: []byte(`"done"`)}))
	must(t, c.Close())
	e, _, err := b.ledger.LastMove(id)
	must(t, err)
	return id, e.Seq
}

func (b *Box) receipt(t *testing.T, id ID, event audit.Event, r task.Receipt) {
	t.Helper()
	text := string(id)
	details := audit.Details(r)
	if event == audit.ErrorEvent {
		details = audit.Details(map[string]any{"alarm": task.Undelivered, "leg": r.Leg, "end": r.End})
	}
	must(t, b.Note(t.Context(), audit.Entry{Agent: "bridge:chat", Event: event, TaskID: &text, Action: "x", Details: details}))
}

// A result that a bridge is to deliver goes to the archive by its leg, and by that of
// its last end: a line that says something else of it does not release it.
func TestArchiveByLeg(t *testing.T) {
	for _, c := range []struct {
		name   string
		source string
		event  audit.Event
		leg    task.Receipt
		before int64 // how far the leg's end lies before the task's
		want   int
	}{
		{"nothing", "bridge:chat", "", task.Receipt{}, 0, 0},
		{"stored", "bridge:chat", audit.ResultDelivered, task.Receipt{Leg: task.Stored, Parts: 1}, 0, 0},
		{"intent", "bridge:chat", audit.ResultDelivered, task.Receipt{Leg: task.Intent, Part: 1, Parts: 1}, 0, 0},
		{"a part", "bridge:chat", audit.ResultDelivered, task.Receipt{Leg: task.Notified, Part: 1, Parts: 2}, 0, 0},
		{"notified", "bridge:chat", audit.ResultDelivered, task.Receipt{Leg: task.Notified, Part: 2, Parts: 2}, 0, 1},
		{"seen", "bridge:chat", audit.ResultDelivered, task.Receipt{Leg: task.Seen}, 0, 1},
		{"acknowledged", "bridge:chat", audit.ResultDelivered, task.Receipt{Leg: task.Acknowledged}, 0, 1},
		{"another end", "bridge:chat", audit.ResultDelivered, task.Receipt{Leg: task.Acknowledged}, 1, 0},
		{"a dead letter", "bridge:chat", audit.ErrorEvent, task.Receipt{Leg: task.Acknowledged}, 0, 0},
		{"nobody waits", "human", "", task.Receipt{}, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newClock()
			b := homes{}.open(t, clock.options())
			id, end := b.asked(t, c.source)
			if c.event != "" {
				c.leg.End = end - c.before
				b.receipt(t, id, c.event, c.leg)
			}
			clock.turn(8 * 24 * time.Hour)
			byItself := min(c.want, len(c.event))
			if n, err := b.ArchiveDelivered(t.Context(), 7*24*time.Hour); err != nil || n != byItself {
				t.Errorf("%d by itself, want %d: %v", n, byItself, err)
			}
			if n, err := b.Archive(t.Context(), 0, "human"); err != nil || n != c.want-byItself {
				t.Errorf("%d by hand, want %d: %v", n, c.want-byItself, err)
			}
			whole(t, b.home)
		})
	}
}

// A drop may name a bridge as its source. Nobody delivers its result, so the archive
// does not wait for that.
func TestArchiveOfForgedDrop(t *testing.T) {
	b := homes{}.open(t, newClock().options())
	must(t, put(b.pending("forged.json"), `{"source":{"agent":"bridge:chat"},"task":{"title":"x"}}`))
	old(b.pending("forged.json"))
	mustScan(t, b)
	must(t, b.Cancel(t.Context(), "forged", "human", ""))
	if n, err := b.Archive(t.Context(), 0, "human"); err != nil || n != 1 {
		t.Errorf("%d archived: %v", n, err)
	}
}

// What mbox archives by itself it finds in what the ledger has had since the last
// time, and only when it is due.
func TestArchiveDeliveredGoesOn(t *testing.T) {
	clock := newClock()
	b := homes{}.open(t, clock.options())
	for i := range 3 {
		id, end := b.asked(t, "bridge:chat")
		if n, err := b.ArchiveDelivered(t.Context(), time.Hour); err != nil || n != 0 {
			t.Fatalf("%d before it is delivered: %v", n, err)
		}
		b.receipt(t, id, audit.ResultDelivered, task.Receipt{Leg: task.Seen, End: end})
		clock.turn(59 * time.Minute)
		if n, err := b.ArchiveDelivered(t.Context(), time.Hour); err != nil || n != 0 {
			t.Fatalf("%d too early: %v", n, err)
		}
		clock.turn(2 * time.Minute)
		if n, err := b.ArchiveDelivered(t.Context(), time.Hour); err != nil || n != 1 {
			t.Fatalf("number %d: %d archived: %v", i, n, err)
		}
	}
	if n, err := b.ArchiveDelivered(t.Context(), 0); err != nil || n != 0 || len(b.delivered.Tasks) != 0 {
		t.Errorf("%d are remembered", len(b.delivered.Tasks))
	}
}
