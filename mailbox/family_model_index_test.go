package mailbox

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"mbox/audit"
	"mbox/mailbox/queue"
)

// Every queue of a mailbox is what the ledger alone says: the two processes',
// one that began with a snapshot and was folded on, and one from zero.

// shadow begins the queue that is folded on with what a snapshot of now has.
func (w *clan) shadow() {
	saved(w.t, w.b)
	w.base.Forget()
	w.base = another(w.b, w.dir)
	must(w.t, w.base.Update())
	if !hasBase(w.base) {
		w.t.Fatal("the snapshot is of no use")
	}
}

func (w *clan) compareIndexes() {
	fresh := another(w.b, w.dir+"/none")
	defer fresh.Forget()
	must(w.t, fresh.Update())
	must(w.t, w.base.Update())
	w.compare("a snapshot and the lines behind it", w.base, fresh)
	if should, are := inside[map[ID]bool](fresh, "tend"), inside[map[ID]bool](w.base, "tend"); !maps.Equal(should, are) {
		w.t.Fatalf("to be looked at from zero: %v, from a snapshot: %v", should, are)
	}
	for _, b := range w.boxes {
		must(w.t, b.queue.Update())
		w.compare("a process", b.queue, fresh)
	}
}

// compare compares a queue with one from zero. What a look at the folders has
// settled (blocked, check, held) is a process's own.
func (w *clan) compare(what string, q, fresh *queue.Queue) {
	w.t.Helper()
	for _, k := range w.kin {
		got, want := q.Find(k.id), fresh.Find(k.id)
		if (got == nil) != (want == nil) {
			w.t.Fatalf("%s: %s is %+v, from zero %+v", what, k.id, got, want)
		}
		if got == nil {
			continue
		}
		if want, got := plainEntry(want), plainEntry(got); !maps.Equal(want, got) {
			w.t.Fatalf("%s: %s, from zero and as it is:\n%v\n%v", what, k.id, want, got)
		}
		if got.State == Pending && got.Blocked && !want.Blocked {
			w.t.Fatalf("%s: %s waits for nobody", what, k.id)
		}
	}
	type links = map[string][]ID
	for name, maps := range map[string][2]links{
		"kids":            {inside[links](fresh, "kids"), inside[links](q, "kids")},
		"needs":           {needed(q), inside[links](q, "needs")},
		"needs from zero": {needed(fresh), inside[links](fresh, "needs")},
	} {
		if should, are := sortedIDs(maps[0]), sortedIDs(maps[1]); !reflect.DeepEqual(should, are) {
			w.t.Fatalf("%s: %s should be %v and are %v", what, name, should, are)
		}
	}
	for _, s := range []State{Pending, InProgress, Completed, Failed} {
		if q.Holds(s) != fresh.Holds(s) {
			w.t.Fatalf("%s: %s holds %v, from zero %v", what, s, q.Holds(s), fresh.Holds(s))
		}
	}
	for line, err := range w.b.ledger.Read(audit.Position{}).Lines() {
		must(w.t, err)
		if key := line.Text("key"); key != "" && !q.Knows(key) || line.Task() != "" && !q.Knows(ID(line.Task()).Fold()) {
			w.t.Fatalf("%s: it does not know what seq %d tells", what, line.Seq)
		}
	}
}

// plainEntry is what the ledger says of an entry, by field.
func plainEntry(e *queue.Entry) map[string]string {
	plain, v := map[string]string{}, reflect.ValueOf(*e)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Name != "Blocked" && f.Name != "Held" {
			plain[f.Name] = fmt.Sprint(v.Field(i))
		}
	}
	return plain
}

// needed is who waits for whom, made from the entries.
func needed(q *queue.Queue) map[string][]ID {
	needs := map[string][]ID{}
	for _, e := range inside[map[ID]*queue.Entry](q, "live") {
		if e.State == Pending && e.Blocked {
			for _, d := range e.Awaits() {
				needs[d.Fold()] = append(needs[d.Fold()], e.ID)
			}
		}
	}
	return needs
}

func sortedIDs(m map[string][]ID) map[string][]ID {
	out := map[string][]ID{}
	for key, ids := range m {
		out[key] = slices.Sorted(slices.Values(ids))
	}
	return out
}
