package audit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// ofTask are the numbers of the lines that LinesOf finds.
func ofTask(t *testing.T, l *Ledger, id string) (seqs []int64) {
	t.Helper()
	for line, err := range l.LinesOf(id) {
		if err != nil {
			t.Fatal(err)
		}
		if e, err := line.Decode(); err != nil || e.Task() != id || e.Seq != line.Seq {
			t.Fatalf("seq %d of %q: %v, %v", line.Seq, id, e, err)
		}
		seqs = append(seqs, line.Seq)
	}
	return seqs
}

// crowdedDays is a ledger of four days with lines of many tasks, and what LinesOf has to
// find of each.
func crowdedDays(t *testing.T, seed uint64) (l *Ledger, want map[string][]int64) {
	t.Helper()
	c := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	l, want = newLedger(t, c), map[string][]int64{"nobody": nil}
	dice := rand.New(rand.NewPCG(seed, 2))
	for day := range 4 {
		for i := range 3 * pageRows {
			e := note("a", "says")
			if only := fmt.Sprintf("day%d", day); i == 0 {
				e.TaskID = &only
			} else if n := dice.IntN(150); n > 0 {
				id := fmt.Sprintf("t%d", n*n/150)
				if n > 145 {
					id = fmt.Sprintf("t\"\\%d", n) // not an id, but one may stand there
				}
				e.TaskID = &id
			}
			line, err := l.Append(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			if e.TaskID != nil {
				want[*e.TaskID] = slices.Insert(want[*e.TaskID], 0, line.Seq)
			}
		}
		c.now = c.now.Add(24 * time.Hour)
	}
	return l, want
}

func findsAll(t *testing.T, what string, l *Ledger, want map[string][]int64) {
	t.Helper()
	for id, seqs := range want {
		if got := ofTask(t, l, id); !slices.Equal(got, seqs) {
			t.Fatalf("%s: lines %d of %q, want %d", what, got, id, seqs)
		}
	}
}

// A table finds what the ledger has, and one that is damaged finds it too: it is made anew.
func TestPlacesOfLines(t *testing.T) {
	l, want := crowdedDays(t, 1)
	findsAll(t, "with new tables", l, want)
	tables, err := filepath.Glob(filepath.Join(l.home, ".mbox", "lines", "*"))
	if err != nil || len(tables) != 3 {
		t.Fatalf("tables %s, %v", tables, err)
	}
	findsAll(t, "by tables", l, want)
	whole, err := os.ReadFile(tables[1])
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	damaged := map[string][]byte{"of another day": other, "empty": nil, "cut": whole[:len(whole)-1], "rows of another": slices.Concat(whole[:headSize], other[headSize:len(whole)])}
	dice := rand.New(rand.NewPCG(1, 3))
	for range 30 {
		at, bits := dice.IntN(len(whole)), byte(1+dice.IntN(255))
		damaged[fmt.Sprintf("byte %d by %x", at, bits)] = slices.Concat(whole[:at], []byte{whole[at] ^ bits}, whole[at+1:])
	}
	for what, text := range damaged {
		for _, id := range []string{"day1", "t0", "t99", "nobody"} { // the first that is not found makes it anew
			if err := os.WriteFile(tables[1], text, 0o600); err != nil {
				t.Fatal(err)
			}
			findsAll(t, what, l, map[string][]int64{id: want[id]})
		}
	}
	if err := os.WriteFile(tables[1], damaged["of another day"], 0o600); err != nil {
		t.Fatal(err)
	}
	findsAll(t, "at last", l, want)
	if is, err := os.ReadFile(tables[1]); err != nil || !bytes.Equal(is, whole) {
		t.Errorf("the table was not made anew: %v", err)
	}
}

// A day that has a table is not read: of one without rows nothing is found.
func TestPlacesAreUsed(t *testing.T) {
	l, want := crowdedDays(t, 4)
	findsAll(t, "at first", l, want)
	for _, name := range []string{"2026-03-01.jsonl", "2026-03-02.jsonl", "2026-03-03.jsonl"} {
		table := lockRecord([]byte(placesHead(l.endOf(name)) + " 0"))
		if err := os.WriteFile(placesPath(l.home, name), table, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for id, seqs := range want {
		today := slices.DeleteFunc(slices.Clone(seqs), func(seq int64) bool { return seq <= l.endOf("2026-03-03.jsonl").Seq })
		if got := ofTask(t, l, id); !slices.Equal(got, today) {
			t.Errorf("lines %d of %q, want %d", got, id, today)
		}
	}
}

// Where no table can be kept, the ledger is read.
func TestNoRoomForPlaces(t *testing.T) {
	l, want := crowdedDays(t, 5)
	if err := os.WriteFile(filepath.Join(l.home, ".mbox", "lines"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	findsAll(t, "with a file in the place of the folder", l, want)
}

// What a repair has set aside is in no table, and a day that has a line that nobody can
// decode has none.
func TestPlacesOfMendedDay(t *testing.T) {
	c := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	l := newLedger(t, c)
	id := "t1"
	e := note("a", "says")
	e.TaskID = &id
	lost, err := l.Append(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := l.Append(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	day := filepath.Join(sharedDir(l.home), kept.At.File)
	text, err := os.ReadFile(day)
	if err != nil {
		t.Fatal(err)
	}
	copy(text[kept.At.Offset:], "{x") // a line that was torn
	if err := os.WriteFile(day, text, 0o600); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l = openLedger(t, l.home, c)
	if err := l.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	last, err := l.Append(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	want := ofTask(t, l, id)
	if want[0] != last.Seq || want[len(want)-1] != lost.Seq {
		t.Fatalf("lines %d", want)
	}
	c.now = c.now.Add(24 * time.Hour)
	appendNote(t, l, "a", "the next day")
	if got := ofTask(t, l, id); !slices.Equal(got, want) {
		t.Errorf("lines %d by the table, %d before", got, want)
	}
	if _, err := os.Stat(placesPath(l.home, kept.At.File)); err != nil {
		t.Error(err)
	}
}
