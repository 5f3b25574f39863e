package mailbox

import (
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"

	"mbox/audit"
)

// Every index of a mailbox is what the ledger alone says: the two processes',
// one that began with a snapshot and was folded on, and one from zero.

// shadow begins the index that is folded on with what a snapshot of now has.
func (w *clan) shadow() {
	must(w.t, w.b.update())
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	must(w.t, w.b.writeSnapshot(w.b.index.draft()))
	live := w.b.index
	must(w.t, w.b.loadIndex(true))
	w.base.close()
	w.base, w.b.index = w.b.index, live
	if w.base.base == nil {
		w.t.Fatal("the snapshot is of no use")
	}
}

// foldOn folds what the ledger has and the index has not.
func foldOn(w *clan, x *index) {
	if x.reader == nil {
		x.reader = w.b.ledger.Read(audit.Position{})
	}
	for {
		line, err := x.reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(w.t, err)
		must(w.t, line.Sound())
		x.fold(line)
		x.at = line.End
	}
}

func (w *clan) compareIndexes() {
	fresh := newIndex()
	defer fresh.close()
	foldOn(w, fresh)
	foldOn(w, w.base)
	w.compare("a snapshot and the lines behind it", w.base, fresh)
	if !maps.Equal(fresh.tend, w.base.tend) {
		w.t.Fatalf("to be looked at from zero: %v, from a snapshot: %v", fresh.tend, w.base.tend)
	}
	for _, b := range w.boxes {
		must(w.t, b.update())
		b.mu.Lock()
		w.compare("a process", b.index, fresh)
		b.mu.Unlock()
	}
}

// compare compares an index with one from zero. What a look at the folders has
// settled (blocked, check, held) is a process's own.
func (w *clan) compare(what string, x, fresh *index) {
	w.t.Helper()
	for _, k := range w.kin {
		got, want := x.find(k.id), fresh.find(k.id)
		if (got == nil) != (want == nil) {
			w.t.Fatalf("%s: %s is %+v, from zero %+v", what, k.id, got, want)
		}
		if got == nil {
			continue
		}
		if want, got := plainRecord(want), plainRecord(got); !reflect.DeepEqual(want, got) {
			w.t.Fatalf("%s: %s, from zero and as it is:\n%+v\n%+v", what, k.id, want, got)
		}
		if got.state == Pending && got.blocked && !want.blocked {
			w.t.Fatalf("%s: %s waits for nobody", what, k.id)
		}
	}
	for name, maps := range map[string][2]map[string][]ID{
		"kids": {fresh.kids, x.kids}, "needs": {needed(x), x.needs}, "needs from zero": {needed(fresh), fresh.needs},
	} {
		if should, are := sortedIDs(maps[0]), sortedIDs(maps[1]); !reflect.DeepEqual(should, are) {
			w.t.Fatalf("%s: %s should be %v and are %v", what, name, should, are)
		}
	}
	if x.sets != fresh.sets {
		w.t.Fatalf("%s: the folders hold %v, from zero %v", what, x.sets, fresh.sets)
	}
	for h := range fresh.special {
		if !x.special[h] && (x.base == nil || !x.base.has(h)) {
			w.t.Fatalf("%s: it does not know an id", what)
		}
	}
}

func plainRecord(r *record) record {
	c := *r
	c.place, c.wake, c.rest, c.calls = 0, 0, 0, 0
	c.blocked, c.check, c.held, c.taken = false, false, false, false
	if len(c.dependsOn) == 0 {
		c.dependsOn = nil
	}
	if len(c.waitsFor) == 0 {
		c.waitsFor = nil
	}
	return c
}

// needed is who waits for whom, made from the records.
func needed(x *index) map[string][]ID {
	needs := map[string][]ID{}
	for _, r := range x.live {
		if r.state == Pending && r.blocked {
			for d := range r.awaits() {
				needs[d.Fold()] = append(needs[d.Fold()], r.id)
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
