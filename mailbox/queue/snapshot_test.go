package queue

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"mbox/mailbox/durable"
	"mbox/mailbox/task"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// FuzzSnapshotEntry: an entry of a snapshot is read or refused; what is written is
// read as it was, also where another was read before.
func FuzzSnapshotEntry(f *testing.F) {
	full := &Entry{
		ID: "t1", State: task.Pending, Class: Class{"any", "other", "write_file"}, Priority: 2, Created: 1, NotBefore: -1, Deadline: 1 << 60,
		Since: 5, Revision: 1, Epoch: 2, Attempt: 3, Max: 4, DependsOn: []task.ID{"a", "B"}, WaitsFor: []task.ID{"c"}, Paths: []string{"d"}, Blocked: true, Alarmed: true,
		Claimant: "ada", Join: "all", Parent: "p", Until: 6, Born: 7, After: task.Digest{1}, Asked: task.Digest{2}, Claim: task.Digest{3},
	}
	f.Add(full.encode(nil))
	f.Add((&Entry{}).encode(nil))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, data []byte) {
		e, again := new(Entry), new(Entry)
		must(t, again.decode(full.encode(nil)))
		if e.decode(data) != nil {
			return
		}
		if err := again.decode(e.encode(nil)); err != nil || !reflect.DeepEqual(e, again) {
			t.Errorf("%+v was read as %+v: %v", e, again, err)
		}
	})
}

// written is a home with a snapshot of entries, of which the last two wait.
func written(t testing.TB, entries ...*Entry) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must(t, os.Mkdir(filepath.Dir(File(dir)), 0o700))
	file, err := durable.Create(File(dir))
	must(t, err)
	defer file.Close()
	d := &draft{entries: slices.Clone(entries), special: []uint64{7, 9, 7}}
	must(t, d.write(file, &Options{Now: time.Now}))
	return dir
}

func someEntries() (entries []*Entry) {
	for i, id := range []task.ID{"a", "b", "c", "d", "e"} {
		e := &Entry{ID: id, State: task.Pending, Class: Class{"any", "other", ""}, Priority: i % 2, Created: int64(i + 1)}
		if i > 2 {
			e.DependsOn, e.Blocked = []task.ID{"a"}, true
		}
		entries = append(entries, e)
	}
	return entries
}

// What a snapshot is asked for is what was written: by id, by run, and all of it;
// also where an entry lies over the end of a block.
func TestSnapshotReads(t *testing.T) {
	entries := someEntries()
	for i := range 2000 {
		entries = append(entries, &Entry{ID: task.ID("x" + string(rune('A'+i))), State: task.Pending, Class: Class{"you", "other", ""}, Created: int64(i)})
	}
	s, err := readSnapshot(written(t, entries...))
	must(t, err)
	defer s.file.Close()
	if s.head.Ready != 2003 || s.head.Entries != 2005 || len(s.head.Runs) != 3 || s.head.Specials != 2 || s.size < 4*blockSize {
		t.Fatalf("%+v in %d bytes", s.head, s.size)
	}
	for _, e := range entries {
		n, got := s.find(e.ID)
		if want := e; e.Blocked && got != nil || !e.Blocked && !reflect.DeepEqual(got, want) {
			t.Fatalf("%s is %+v, number %d", e.ID, got, n)
		}
	}
	if _, e := s.find("nobody"); e != nil || !s.has(7) || !s.has(9) || s.has(8) {
		t.Errorf("it knows %+v, or no hash", e)
	}
	var others []*Entry
	err = s.each(s.head.Ready, s.head.Entries, func(e *Entry) { others = append(others, e.copy()) })
	if err != nil || len(others) != 2 || !reflect.DeepEqual(others[0], entries[4]) {
		t.Errorf("the others are %+v, %v", others, err)
	}
	n, head := s.first(2)
	s.gone[n] = true
	if _, next := s.first(2); head.ID != "xA" || next.ID != "xB" {
		t.Errorf("behind %s comes %s", head.ID, next.ID)
	}
	if _, e := s.find("xA"); e != nil {
		t.Error("what is gone is found")
	}
	seen := map[task.ID]int{}
	must(t, s.each(0, s.head.Entries, func(e *Entry) {
		if n, _ := s.find(e.ID); seen[e.ID] > 0 || !reflect.DeepEqual(e, s.at(n)) && !e.Blocked {
			t.Errorf("%+v comes, want %+v, once", e, s.at(n))
		}
		seen[e.ID]++
	}))
	if len(seen) != len(entries)-1 || seen["xA"] > 0 {
		t.Errorf("%d of %d entries come, xA %d times", len(seen), len(entries), seen["xA"])
	}
}

// Each byte of a snapshot is under a sum: one that is another is found when it is read,
// and so is an end that was cut off.
func TestSnapshotSums(t *testing.T) {
	entries := someEntries()
	for i := range 1200 {
		entries = append(entries, &Entry{ID: task.ID(fmt.Sprintf("id%d", i)), State: task.Pending, Class: Class{"you", "other", ""}, Created: int64(i)})
	}
	dir := written(t, entries...)
	data, err := os.ReadFile(File(dir))
	must(t, err)
	sound := func(data []byte) bool {
		must(t, os.WriteFile(File(dir), data, 0o600))
		s, err := readSnapshot(dir)
		if err != nil {
			return false
		}
		defer s.file.Close()
		all := s.each(0, s.head.Entries, func(*Entry) {})
		for off := int64(0); off < s.size; off += blockSize {
			s.bytes(off, 1)
		}
		return s.err == nil && all == nil
	}
	if len(data) < 2*blockSize || !sound(data) {
		t.Fatalf("what was written, %d bytes, cannot be read", len(data))
	}
	for i := 0; i < len(data); i += 101 {
		data[i] ^= 1
		if sound(data) {
			t.Errorf("byte %d of %d is another, and it is believed", i, len(data))
		}
		data[i] ^= 1
	}
	for cut := 1; cut < len(data); cut += 5003 {
		if sound(data[:len(data)-cut]) {
			t.Errorf("it is believed without its last %d bytes", cut)
		}
	}
}

// Whoever panics at an entry leaves nobody behind who decodes more of them.
func TestLookPanics(t *testing.T) {
	entries := someEntries()
	for i := range 10 * atOnce {
		entries = append(entries, &Entry{ID: task.ID(fmt.Sprint("x", i)), State: task.Pending, Class: Class{"you", "other", ""}, Created: int64(i)})
	}
	s, err := readSnapshot(written(t, entries...))
	must(t, err)
	defer s.file.Close()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it did not panic")
			}
		}()
		_ = s.each(0, s.head.Entries, func(*Entry) { panic("no") })
	}()
	stacks := make([]byte, 1<<20)
	if stacks = stacks[:runtime.Stack(stacks, true)]; bytes.Contains(stacks, []byte("(*snapshot).pass(")) {
		t.Errorf("it decodes on:\n%s", stacks)
	}
}

// Who looks for what waits too long begins behind those that have an alarm, wherever in
// the snapshot they lie.
func TestToldAreNotReadAgain(t *testing.T) {
	var entries []*Entry
	for i, id := range []task.ID{"a", "b", "c", "d", "e"} {
		entries = append(entries, &Entry{ID: id, State: task.Pending, Class: Class{"any", "other", ""}, Created: int64(i + 1), Since: int64(i + 1), Alarmed: slices.Contains([]int{0, 1, 3}, i)})
	}
	entries = append(entries, &Entry{ID: "f", State: task.Pending, Class: Class{"you", "other", ""}, Created: 1, Alarmed: true})
	s, err := readSnapshot(written(t, entries...))
	must(t, err)
	defer s.file.Close()
	if runs := s.head.Runs; len(runs) != 2 || runs[0].Told != 2 || runs[1].Told != 6 {
		t.Fatalf("%+v", s.head.Runs)
	}
	q := &Queue{state: state{base: s}}
	late := q.Overdue(5, 10)
	if len(late) != 1 || late[0].ID != "c" {
		t.Fatalf("%d are late: %+v", len(late), late)
	}
	if late = q.Overdue(6, 10); len(late) != 2 || late[1].ID != "e" {
		t.Fatalf("%d are late: %+v", len(late), late)
	}
	s.gone[2] = true
	if late = q.Overdue(6, 10); len(late) != 1 || late[0].ID != "e" {
		t.Fatalf("%d are late: %+v", len(late), late)
	}
}

// FuzzSnapshotFile: a snapshot with some bytes changed is used or not, but it
// does not stop a mailbox: it is derived.
func FuzzSnapshotFile(f *testing.F) {
	dir := written(f, someEntries()...)
	good, err := os.ReadFile(File(dir))
	must(f, err)
	f.Add(uint16(0), []byte{1}, uint16(0))
	f.Add(uint16(len(good)-4), []byte{0xff, 0xff, 0xff, 0x7f}, uint16(0))
	f.Add(uint16(len(good)/2), []byte{}, uint16(100))
	f.Fuzz(func(t *testing.T, at uint16, change []byte, cut uint16) {
		bad := bytes.Clone(good)
		copy(bad[min(int(at), len(bad)):], change)
		bad = bad[:len(bad)-min(int(cut), len(bad))]
		must(t, os.WriteFile(File(dir), bad, 0o600))
		s, err := readSnapshot(dir)
		if err != nil {
			return
		}
		defer s.file.Close()
		_ = s.each(s.head.Ready, s.head.Entries, func(*Entry) {})
		_, _ = s.find("b")
		_ = s.has(7)
		for i := range s.head.Runs {
			_, _ = s.first(i)
		}
		_ = (&draft{base: s}).takeBase()
	})
}
