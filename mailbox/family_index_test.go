package mailbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"testing"

	"mbox/mailbox/home"
	"mbox/mailbox/queue"
	"mbox/mailbox/task"
)

// reopened closes nothing: it is another process that begins with the snapshot.
func reopened(t *testing.T, b *Box) *Box {
	t.Helper()
	saved(t, b)
	other, err := Open(t.Context(), b.Home(), b.Options())
	must(t, err)
	t.Cleanup(func() { other.Close() })
	must(t, other.queue.Update())
	if !hasBase(other.queue) {
		t.Fatal("it did not begin with the snapshot")
	}
	return other
}

// A box that begins with a snapshot knows whose child a task is: the parent's
// end takes the children along that began before it.
func TestSnapshotKeepsFamilies(t *testing.T) {
	b, c := family(t, Options{})
	ids := delegate(t, c, "", child("coder", "1"), child("tester", "2"))
	inner := delegate(t, claimAs(t, b, "coder"), "", child("third", "3"))
	other := reopened(t, b)
	must(t, other.Cancel(context.Background(), "parent", "human", "not needed"))
	for _, id := range append(ids, inner...) {
		if state, _ := stateOfTask(t, other, id); state != Failed {
			t.Errorf("%s is %s after its root was cancelled", id, state)
		}
	}
}

// A parent that waits goes on waiting in a box that begins with a snapshot, for
// the same children and by the same rule.
func TestSnapshotKeepsWaiting(t *testing.T) {
	for _, join := range task.Joins {
		b, c := family(t, Options{})
		ids := delegate(t, c, join, child("a", "1"), child("b", "2"), child("c", "3", 0))
		other := reopened(t, b)
		r, err := other.lookup("parent")
		must(t, err)
		if !r.Blocked || r.Join != join || len(r.WaitsFor) != len(ids) {
			t.Fatalf("%s: the parent is %+v", join, r)
		}
		for _, id := range ids {
			if r, err := other.lookup(id); err != nil || r.Parent != "parent" || r.Born != 1 {
				t.Fatalf("%s: the child is %+v, %v", join, r, err)
			}
		}
		nothingFor(t, other, "boss")
		finish(t, other, "a", true)
		if join == JoinAny {
			claimAs(t, other, "boss")
			continue
		}
		nothingFor(t, other, "boss")
		finish(t, b, "b", true) // by the other process
		if join == JoinAll {
			nothingFor(t, other, "boss")
			finish(t, b, "c", true)
		}
		claimAs(t, other, "boss")
	}
}

// A child that ends while somebody looks at what its parent waits for is not
// overlooked: the look that began before does not settle the question.
func TestEndDuringLook(t *testing.T) {
	b, c := family(t, Options{})
	ids := delegate(t, c, "", child("a", "1"), child("b", "2"))
	nothingFor(t, b, "boss") // looked at and settled
	finish(t, b, "b", true)
	must(t, b.queue.Update())
	seen := b.queue.Find("parent")
	if state, settled, err := b.dependencies.dependencyState(ids[0]); state != None || !settled || err != nil {
		t.Fatalf("the first child is %q, %v, %v", state, settled, err)
	}
	finish(t, b, "a", true) // here, between the first child and the second
	must(t, b.queue.Update())
	b.queue.Settle(seen, false)
	if got := claimAs(t, b, "boss"); got.ID() != "parent" {
		t.Fatalf("claimed %s", got.ID())
	}
}

// resealed is a snapshot that was changed, of one block, with its sums made right.
func resealed(changed []byte) []byte {
	whole := changed[:len(changed)-8]
	sum := func(data []byte) []byte {
		return binary.LittleEndian.AppendUint32(nil, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
	}
	return slices.Concat(whole, sum(whole), sum(sum(whole)))
}

// A snapshot of another version counts for nothing, and is written anew.
func TestOldSnapshot(t *testing.T) {
	b, c := family(t, Options{})
	ids := delegate(t, c, JoinAny, child("a", "1"), child("b", "2"))
	reopened(t, b)
	data, err := os.ReadFile(queue.File(b.home))
	must(t, err)
	now, before := fmt.Sprintf(`"v":%d,`, home.SnapshotVersion), fmt.Sprintf(`"v":%d,`, home.SnapshotVersion+1)
	if bytes.Count(data, []byte(now)) != 1 {
		t.Fatalf("the snapshot does not say %s once", now)
	}
	changed := bytes.Replace(data, []byte(now), []byte(before), 1)
	must(t, os.WriteFile(queue.File(b.home), resealed(changed), 0o600))
	old := queue.SnapshotLines
	queue.SnapshotLines = 1
	defer func() { queue.SnapshotLines = old }()
	other, err := Open(t.Context(), b.Home(), b.Options())
	must(t, err)
	defer other.Close()
	if q := another(other, b.home); q.Update() != nil || hasBase(q) {
		t.Fatal("it begins with a snapshot of another version")
	}
	r, err := other.lookup("parent")
	if err != nil || r == nil || !r.Blocked || !slices.Equal(r.WaitsFor, ids) || r.Join != JoinAny {
		t.Fatalf("the parent is %+v, %v", r, err)
	}
	if data, err := os.ReadFile(queue.File(b.home)); err != nil || !bytes.Contains(data, []byte(now)) {
		t.Fatalf("it was not written anew: %v", err)
	}
	must(t, other.Cancel(t.Context(), "parent", "human", "x"))
	for _, id := range ids {
		if state, _ := stateOfTask(t, other, id); state != Failed {
			t.Errorf("%s is %s", id, state)
		}
	}
}

// A snapshot of which a part was lost on the disk is not believed: what it knew is known,
// what waits is found, and it is made anew, by whatever question comes upon the loss.
func TestDamagedSnapshot(t *testing.T) {
	b := newBox(t, Options{})
	first, err := b.Submit(t.Context(), &Task{Task: Request{Title: "pay"}, Assignment: Assignment{TargetAgent: "a"}, Mbox: Meta{IdempotencyKey: "invoice-17"}})
	must(t, err)
	for i := range 700 { // more than a block of the file
		submit(t, b, &Task{ID: ID(fmt.Sprintf("x%03d", i)), Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: "b"}})
	}
	must(t, b.Cancel(t.Context(), "x000", "human", ""))
	must(t, b.queue.Save())
	whole, err := os.ReadFile(queue.File(b.home))
	must(t, err)
	for name, ask := range map[string]func(*Box){
		"key": func(b *Box) {
			id, err := b.Submit(t.Context(), &Task{Task: Request{Title: "pay"}, Assignment: Assignment{TargetAgent: "a"}, Mbox: Meta{IdempotencyKey: "invoice-17"}})
			if err != nil || id != first {
				t.Errorf("the key gives %s, not %s: %v", id, first, err)
			}
		},
		"id": func(b *Box) {
			if _, err := b.Submit(t.Context(), &Task{ID: "x000", Task: Request{Title: "other"}}); !errors.Is(err, ErrConflict) {
				t.Errorf("an id that was used: %v", err)
			}
		},
		"find": func(b *Box) {
			if r, err := b.lookup("x007"); err != nil || r == nil {
				t.Errorf("a live task is %+v, %v", r, err)
			}
		},
		"claim": func(b *Box) { claimAs(t, b, "b") },
		"save": func(b *Box) {
			must(t, b.queue.Update())
			q := another(b, b.home)
			if err := errors.Join(b.queue.Save(), q.Update()); err != nil || !hasBase(q) {
				t.Errorf("it is not written anew: %v", err)
			}
		},
	} {
		head := bytes.Index(whole, []byte(`{"v":`))
		for _, lost := range []int{len(whole) / 2, head} {
			must(t, os.WriteFile(queue.File(b.home), append(make([]byte, lost), whole[lost:]...), 0o600))
			other, err := Open(t.Context(), b.Home(), b.Options())
			must(t, err)
			ask(other)
			other.Close()
			if t.Failed() {
				t.Fatalf("%s, without the first %d bytes", name, lost)
			}
		}
	}
	// Where it cannot be removed, as of a mailbox that is looked at, it counts for nothing.
	must(t, os.WriteFile(queue.File(b.home), append(make([]byte, len(whole)/2), whole[len(whole)/2:]...), 0o600))
	q := another(b, b.home)
	must(t, q.Update())
	if q.Find("x007") == nil || !q.Knows("x000") || hasBase(q) {
		t.Error("a damaged snapshot that stays is believed, or what it hides is not found")
	}
	if ids, err := q.In(Pending, func(*queue.Entry) bool { return true }); err != nil || len(ids) != 698 { // two were claimed
		t.Errorf("%d wait, %v", len(ids), err)
	}
	if index, err := b.Index(); err != nil || len(index.Live) != 700 {
		t.Errorf("%d tasks are live, %v", len(index.Live), err)
	}
}

// A child that was made in an earlier claim of its parent is no child of the one
// that stands: nobody waits for it, although the parent is in progress again.
func TestOrphanOfAnEarlierClaim(t *testing.T) {
	b, c := family(t, Options{})
	d := Delegation{Children: []Child{child("a", "1")}, Join: JoinAll}
	id, err := c.create(context.Background(), nil, d, 0, make([]ID, 1))
	must(t, err)
	must(t, c.Fail(context.Background(), Failure{TaskError: TaskError{Code: "worker_lost"}}))
	must(t, os.Rename(b.path("tasks/pending/parent.json"), b.path("tasks/in-progress/parent.json"))) // claimed before anybody tends
	mustScan(t, b)
	if state, parent := stateOfTask(t, b, "parent"); state != InProgress || parent.Mbox.Epoch != 2 {
		t.Fatalf("the parent is %s in epoch %d", state, parent.Mbox.Epoch)
	}
	if state, _ := stateOfTask(t, b, id); state != Failed {
		t.Fatalf("the child of the earlier claim is %s", state)
	}
}
