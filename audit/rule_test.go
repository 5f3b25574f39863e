package audit

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"mbox/mailbox/durable"
)

// Tests of single rules of the protocol: the order of writes and flushes, what
// is done under the ledger's lock, and what counts as the ledger.

// steps notes what do writes and flushes, in its order, with paths from the home.
func steps(t *testing.T, l *Ledger, do func()) []string {
	t.Helper()
	var said []string
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		said = append(said, string(op)+" "+strings.TrimPrefix(path, l.home+"/"))
		return true, nil
	})
	defer remove()
	do()
	return said
}

func sameSteps(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// lockFree tells whether the ledger's lock could be had just now.
func lockFree(l *Ledger) bool {
	held, err := durable.TryLock(l.gate.Path())
	if err == nil {
		held.Unlock()
	}
	return err == nil
}

// The line is written, then the journal's record, then the head record, and then
// all is flushed, by one flush and with the ledger's lock free. It is noted before
// that a flush was begun, and afterwards up to where it counts.
func TestRule04_OrderOfAppend(t *testing.T) {
	for mode, want := range map[durable.Mode][]string{
		durable.Standard: {"append audit/shared/DAY", "writeat .mbox/journal", "writeat .mbox/locks/chain", "writeat .mbox/locks/sync", "sync .mbox/journal", "writeat .mbox/locks/sync"},
		durable.Strict:   {"append audit/shared/DAY", "writeat .mbox/locks/chain", "sync audit/shared/DAY"},
		durable.None:     {"append audit/shared/DAY", "writeat .mbox/locks/chain"},
	} {
		if mode == durable.Standard && !durable.CanSyncFS {
			continue
		}
		l := newLedger(t, nil)
		l.mode = mode
		appendNote(t, l, "coder", "one")
		day := filepath.Base(newestPath(t, l))
		var held []string
		got := steps(t, l, func() {
			if _, err := l.Append(context.Background(), note("coder", "two")); err != nil {
				t.Error(err)
			}
		})
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], day, "DAY")
		}
		sameSteps(t, fmt.Sprintf("mode %d", mode), got, want...)
		remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
			if op == durable.OpSync && !lockFree(l) {
				held = append(held, path)
			}
			return true, nil
		})
		if _, err := l.Append(context.Background(), note("coder", "three")); err != nil {
			t.Error(err)
		}
		remove()
		if len(held) > 0 {
			t.Errorf("flushed with the ledger's lock held: %q", held)
		}
	}
}

// A journal that is begun says up to where the ledger is on the disk: that is
// brought there first, and the base is flushed before a record is believed.
func TestRule10_OrderOfJournal(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	if err := os.Remove(JournalPath(l.home)); err != nil {
		t.Fatal(err)
	}
	got := steps(t, l, func() { must(t, l.room(0)) })
	day := "audit/shared/" + filepath.Base(newestPath(t, l))
	sameSteps(t, "begun anew", got,
		"writeat .mbox/locks/chain", // no journal, says the head record
		"create .mbox/journal", "append .mbox/journal", "sync .mbox/journal", "syncdir .mbox",
		"syncfs .mbox/journal", "sync "+day, "writeat .mbox/locks/chain",
		"writeat .mbox/journal", "writeat .mbox/journal", "sync .mbox/journal", "writeat .mbox/locks/chain")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The records of an earlier use of the file, behind those of this one, are none.
func TestRule10_JournalOfEarlierUse(t *testing.T) {
	line := func(seq int64, prev string) (raw []byte, sum string) {
		e := note("coder", fmt.Sprint(seq))
		e.TS, e.Seq, e.Prev, e.V = "2026-02-16T12:00:00.000Z", seq, prev, Format
		raw, err := e.encode()
		must(t, err)
		return append(raw, '\n'), e.Checksum
	}
	genesis := Genesis(testMailbox)
	one, sum := line(1, genesis)
	two, _ := line(2, sum)
	twoOfOthers, _ := line(2, genesis)
	threeAfterOne, _ := line(3, sum)
	base := baseRecord(Position{Checksum: genesis})
	at := func(n int) Position { return Position{File: "2026-02-16.jsonl", Offset: int64(n)} }
	first := journalRecord(at(0), one, Payload{})
	for name, c := range map[string]struct {
		second []byte
		want   int
	}{"the next line": {two, 2}, "another prev": {twoOfOthers, 1}, "another seq": {threeAfterOne, 1}} {
		data := slices.Concat(base, first, journalRecord(at(len(one)), c.second, Payload{}))
		if j := parseJournal(data); j == nil || len(j.records) != c.want || j.end.Seq != int64(c.want) {
			t.Errorf("%s: %+v, want %d records", name, j, c.want)
		}
	}
	torn := slices.Concat(base, journalRecord(at(0), one, Payload{"a~1", []byte("content")}))
	torn[bytes.Index(torn, []byte("content"))] ^= 1 // the line has a checksum of its own
	if j := parseJournal(torn); j != nil && len(j.records) != 0 {
		t.Error("a torn record counts")
	}
}

// What Replay acts on is flushed first, and what it has put back before it says
// that it is there.
func TestRule10_ReplayFlushes(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	first := appendNote(t, l, "coder", "one")
	appendNote(t, l, "coder", "two")
	path := newestPath(t, l)
	must(t, os.Truncate(path, first.End.Offset))
	got := steps(t, l, func() {
		if _, err := l.Replay(context.Background(), true); err != nil {
			t.Error(err)
		}
	})
	day := "audit/shared/" + filepath.Base(path)
	sameSteps(t, "replay", got, "sync .mbox/journal", "append "+day, "sync "+day)
}

// Who begins a day's file has flushed the one before it, and flushes file and
// folder before a line stands there.
func TestRule15_OrderOfMidnight(t *testing.T) {
	const old, young = "audit/shared/2026-02-16.jsonl", "audit/shared/2026-02-17.jsonl"
	for mode, before := range map[durable.Mode]string{durable.Standard: "sync .mbox/journal", durable.Strict: ""} {
		if mode == durable.Standard && !durable.CanSyncFS {
			continue
		}
		c := &clock{time.Date(2026, 2, 16, 23, 59, 59, 0, time.UTC)}
		l := newLedger(t, c)
		l.mode = mode
		appendNote(t, l, "coder", "evening")
		c.now = c.now.Add(time.Minute)
		got := steps(t, l, func() {
			if _, err := l.Append(context.Background(), note("coder", "morning")); err != nil {
				t.Error(err)
			}
		})
		want := []string{before, "sync " + old, "create " + young, "sync " + young, "syncdir audit/shared", "writeat .mbox/locks/chain", "append " + young}
		want = slices.DeleteFunc(want, func(s string) bool { return s == "" })
		if i := slices.Index(got, "append "+young); i >= 0 {
			got = got[:i+1]
		}
		sameSteps(t, fmt.Sprintf("mode %d", mode), got, want...)
	}
}

// A flush that had begun before a line was written does not count for the line.
func TestRule15_FlushOfEarlierLines(t *testing.T) {
	for mode, file := range map[durable.Mode]string{durable.Standard: "journal", durable.Strict: ".jsonl"} {
		if mode == durable.Standard && !durable.CanSyncFS {
			continue
		}
		l := newLedger(t, nil)
		l.mode = mode
		appendNote(t, l, "coder", "one")
		second := make(chan error, 1)
		written := make(chan struct{})
		flushes, appends := 0, 0
		remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
			switch {
			case op == durable.OpWriteAt && path == l.gate.Path():
				if appends++; appends == 2 {
					close(written)
				}
			case op == durable.OpSync && strings.HasSuffix(path, file):
				if flushes++; flushes == 1 { // the second line is written while it runs
					go func() {
						_, err := l.Append(context.Background(), note("coder", "three"))
						second <- err
					}()
					<-written
					for !lockFree(l) { // when it is free, the line has its ticket
						runtime.Gosched()
					}
				}
			}
			return true, nil
		})
		_, err := l.Append(context.Background(), note("coder", "two"))
		if err := errors.Join(err, <-second); err != nil {
			t.Error(err)
		}
		remove()
		if flushes != 2 {
			t.Errorf("mode %d: %d flushes, want one for each line", mode, flushes)
		}
	}
}

// The time of a line is taken under the lock: the order of lines is that of
// their times, as long as the clock goes forward.
func TestRule15_TimeIsTakenUnderTheLock(t *testing.T) {
	l := newLedger(t, nil)
	asked := 0
	l.now = func() time.Time {
		if asked++; lockFree(l) {
			t.Error("the clock was read with the lock free")
		}
		return time.Now()
	}
	if _, err := l.Append(context.Background(), note("coder", "one")); err != nil || asked == 0 {
		t.Errorf("asked %d times (%v)", asked, err)
	}
}

// A whole line with a right checksum that does not continue the chain is no line.
func TestRule16_ForgedTail(t *testing.T) {
	for name, forge := range map[string]func(e *Entry, last Line){
		"another prev": func(e *Entry, last Line) { e.Seq, e.Prev = last.Seq+1, last.At.Checksum },
		"a seq ahead":  func(e *Entry, last Line) { e.Seq, e.Prev = last.Seq+2, last.Checksum },
	} {
		l := newLedger(t, nil)
		appendNote(t, l, "coder", "one")
		last := appendNote(t, l, "coder", "two")
		e := note("coder", "forged")
		e.TS, e.V = "2026-02-16T12:00:00.000Z", Format
		forge(&e, last)
		raw, err := e.encode()
		must(t, err)
		addBytes(t, newestPath(t, l), string(raw)+"\n")
		appendNote(t, l, "coder", "three")
		if said := strings.Join(wholeChain(t, l), " "); strings.Contains(said, "forged") || !strings.Contains(said, "set aside") {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// Of several repair lines that name the same place, the last counts.
func TestRule16_LastRepairCounts(t *testing.T) {
	l := newLedger(t, nil)
	last := appendNote(t, l, "coder", "one")
	junk := "junk\n"
	path := newestPath(t, l)
	addBytes(t, path, junk)
	for n := range 2 {
		data := readFile(t, path)
		range_ := data[last.End.Offset:]
		e := note(MboxAgent, fmt.Sprintf("repair %d", n))
		e.Event, e.TS, e.Seq, e.Prev, e.V = AuditRepaired, "2026-02-16T12:00:00.000Z", last.Seq+1, last.Checksum, Format
		e.Details = Details(struct {
			Repair
			Writer
		}{Repair{"audit/shared/" + filepath.Base(path), last.End.Offset, int64(len(range_)), Hash(range_)}, ThisWriter()})
		raw, err := e.encode()
		must(t, err)
		addBytes(t, path, string(raw)+"\n")
	}
	if said := strings.Join(wholeChain(t, l), ", "); said != "one, repair 1" {
		t.Error(said)
	}
}

// A repair line sets nothing aside but the very bytes that it names.
func TestRule16_RepairOfOtherBytes(t *testing.T) {
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	path := newestPath(t, l)
	before := len(readFile(t, path))
	addBytes(t, path, "junk\n")
	appendNote(t, l, "coder", "two")
	data := readFile(t, path)
	data[before] = 'J'
	writeFile(t, path, data)
	r := l.Read(Position{})
	defer r.Close()
	if line, err := r.Next(); err != nil || line.Seq != 1 {
		t.Fatalf("seq %d: %v", line.Seq, err)
	}
	if line, err := r.Next(); err == nil || r.Broken() == nil {
		t.Errorf("seq %d was read over bytes that changed since", line.Seq)
	}
}

// The head record is of one boot: in another one the ledger's end is read, for a
// power cut leaves a file of that length with a hole in it.
func TestRule14_HeadOfAnotherBoot(t *testing.T) {
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	cut := appendNote(t, l, "coder", "two")
	path := newestPath(t, l)
	data := readFile(t, path)
	clear(data[cut.At.Offset:])
	writeFile(t, path, data)
	again := openLedger(t, l.home, nil)
	again.boot = "another boot"
	appendNote(t, again, "coder", "three")
	if said := strings.Join(wholeChain(t, again), ", "); !strings.HasPrefix(said, "one, mbox set aside") || !strings.HasSuffix(said, ", three") {
		t.Error(said)
	}
}

// A head record that was damaged counts for nothing.
func TestRule14_DamagedHead(t *testing.T) {
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	appendNote(t, l, "coder", "two")
	record := readFile(t, l.gate.Path())
	at := bytes.Index(record, []byte(" 2 sha256:")) // the seq
	if at < 0 {
		t.Fatalf("%s", record)
	}
	record[at+1] = '3'
	writeFile(t, l.gate.Path(), record)
	appendNote(t, l, "coder", "three")
	if said := strings.Join(wholeChain(t, l), " "); said != "one two three" {
		t.Error(said)
	}
}

// Another file of the same length or longer, without the last line in its place,
// is not the ledger.
func TestRule14_LedgerFileOfAnother(t *testing.T) {
	for _, more := range []string{"", "and more\n"} {
		l := newLedger(t, nil)
		appendNote(t, l, "coder", "one")
		path := newestPath(t, l)
		data := bytes.ToUpper(readFile(t, path))
		must(t, errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, append(data, more...), 0o600)))
		if _, err := l.Append(context.Background(), note("coder", "two")); !errors.Is(err, ErrDamaged) || !errors.Is(err, ErrUnwritten) {
			t.Errorf("%q: %v", more, err)
		}
		if err := CheckWritable(l.home); !errors.Is(err, ErrReadOnly) || !errors.Is(err, ErrDamaged) {
			t.Errorf("the mark: %v", err)
		}
	}
}

// Where another file has the ledger's name, lines go into that one.
func TestRule14_LedgerFileReplaced(t *testing.T) {
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	path := newestPath(t, l)
	data := readFile(t, path)
	must(t, errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, data, 0o600)))
	appendNote(t, l, "coder", "two")
	if said := strings.Join(wholeChain(t, l), " "); said != "one two" {
		t.Error(said)
	}
	if now := readFile(t, path+".old"); !bytes.Equal(now, data) {
		t.Error("a line went into the file that had the name before")
	}
}

// A ledger file that is gone is damage: no other is begun in its place.
func TestRule14_LedgerFileGone(t *testing.T) {
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	must(t, os.Remove(newestPath(t, l)))
	if _, err := l.Append(context.Background(), note("coder", "two")); !errors.Is(err, ErrDamaged) || !errors.Is(err, ErrUnwritten) {
		t.Errorf("append: %v", err)
	}
	if err := CheckWritable(l.home); !errors.Is(err, ErrReadOnly) {
		t.Errorf("afterwards: %v", err)
	}
}

// A stranger who writes between the look at the ledger's length and our line:
// our line does not count, and says so, and both are set aside.
func TestRule14_ForeignWrite(t *testing.T) {
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	path := newestPath(t, l)
	remove := durable.SetFault(func(op durable.Op, to string) (bool, error) {
		if op == durable.OpAppend && to == path {
			addBytes(t, path, "hello\n")
		}
		return true, nil
	})
	_, err := l.Append(context.Background(), note("coder", "two"))
	remove()
	if !errors.Is(err, ErrForeignWrite) || errors.Is(err, ErrUnwritten) {
		t.Errorf("append: %v", err)
	}
	appendNote(t, l, "coder", "three")
	if said := wholeChain(t, l); len(said) != 3 || said[0] != "one" || !strings.Contains(said[1], "set aside") || said[2] != "three" {
		t.Errorf("%q", said)
	}
}

// After a failed append only the ledger tells what is in it: it is unwritten
// only where the file has not grown.
func TestRule06_FailedAppend(t *testing.T) {
	for name, part := range map[string]int{"nothing": 0, "a part": 10} {
		l := newLedger(t, nil)
		appendNote(t, l, "coder", "one")
		path := newestPath(t, l)
		remove := durable.SetFault(func(op durable.Op, to string) (bool, error) {
			if op == durable.OpAppend && to == path {
				addBytes(t, path, strings.Repeat("x", part))
				return false, errors.New("no space left on device")
			}
			return true, nil
		})
		_, err := l.Append(context.Background(), note("coder", "two"))
		remove()
		if err == nil || errors.Is(err, ErrUnwritten) != (part == 0) {
			t.Errorf("%s was written: %v", name, err)
		}
	}
}

// A break in an older file is no crash: that file was flushed before the next
// was begun. Nothing is changed but the read-only mark.
func TestRule16_DamageInAnOlderFile(t *testing.T) {
	c := &clock{time.Date(2026, 2, 16, 12, 0, 0, 0, time.UTC)}
	l := newLedger(t, c)
	broken := appendNote(t, l, "coder", "one")
	appendNote(t, l, "coder", "two")
	older := newestPath(t, l)
	c.now = c.now.Add(24 * time.Hour)
	appendNote(t, l, "coder", "three")
	data := readFile(t, older)
	clear(data[broken.At.Offset+5 : broken.At.Offset+9])
	writeFile(t, older, data)
	newest := readFile(t, newestPath(t, l))
	l.boot = "another boot"
	if err := l.Recover(context.Background()); !errors.Is(err, ErrDamaged) {
		t.Errorf("recover: %v", err)
	}
	if err := CheckWritable(l.home); !errors.Is(err, ErrReadOnly) {
		t.Errorf("afterwards: %v", err)
	}
	if !bytes.Equal(readFile(t, newestPath(t, l)), newest) || !bytes.Equal(readFile(t, older), data) {
		t.Error("the ledger was written to")
	}
}

// A position that was kept counts only while the ledger has that line there.
func TestRule18_KeptPosition(t *testing.T) {
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	end := appendNote(t, l, "coder", "two").End
	must(t, l.Check(end))
	must(t, l.Check(Position{}))
	other := end
	other.Checksum = "sha256:" + hex.EncodeToString(make([]byte, 32))
	short := end
	short.Offset += 10
	gone := end
	gone.File = "1999-01-01.jsonl"
	for name, p := range map[string]Position{"another line": other, "behind the end": short, "another file": gone} {
		if err := l.Check(p); !errors.Is(err, ErrMoved) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What was frozen is flushed, and nobody appends to it meanwhile.
func TestRule23_Frozen(t *testing.T) {
	l := newLedger(t, nil)
	last := appendNote(t, l, "coder", "one")
	inside := false
	got := steps(t, l, func() {
		must(t, l.Frozen(context.Background(), func(end Position) error {
			inside = true
			if lockFree(l) || end != last.End {
				t.Errorf("free: %v; it ends at %+v", lockFree(l), end)
			}
			return nil
		}))
	})
	if !inside || len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "sync ") {
		t.Errorf("%v %q", inside, got)
	}
}

// A copy that was torn, or has what the ledger has not, is written anew by the
// next line of its agent.
func TestRule17_NextLineMendsItsCopy(t *testing.T) {
	for name, spoil := range map[string]func(d []byte) []byte{
		"torn":         func(d []byte) []byte { return d[:len(d)-10] },
		"no newline":   func(d []byte) []byte { return d[:len(d)-1] },
		"empty":        func([]byte) []byte { return nil },
		"another line": func(d []byte) []byte { d[len(d)-20] ^= 1; return d },
		"longer":       func(d []byte) []byte { return append(d, "{}\n"...) },
		"somebody's":   func([]byte) []byte { return []byte("hello\n") },
		"of another ledger": func([]byte) []byte { // a power cut took that one's line
			e := note("coder", "another one")
			e.TS, e.Seq, e.Prev, e.V = "2026-02-16T12:00:00.000Z", 1, Genesis(testMailbox), Format
			raw, err := e.encode()
			must(t, err)
			return append(raw, '\n')
		},
	} {
		l := newLedger(t, nil)
		appendNote(t, l, "coder", "one")
		appendNote(t, l, "tester", "two")
		path := filepath.Join(l.home, "audit", "coder", filepath.Base(newestPath(t, l)))
		writeFile(t, path, spoil(readFile(t, path)))
		appendNote(t, openLedger(t, l.home, nil), "coder", "three")
		if n := bytes.Count(readFile(t, path), []byte{'\n'}); n != 2 {
			t.Errorf("%s: %d lines", name, n)
		}
		sameCopies(t, l)
	}
}

// A copy is written anew beside the old one and renamed: a death leaves the old
// one whole.
func TestRule17_CopyIsRenamedIntoPlace(t *testing.T) {
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	path := filepath.Join(l.home, "audit", "coder", filepath.Base(newestPath(t, l)))
	must(t, os.Chmod(path, 0o600))
	writeFile(t, path, []byte("torn"))
	got := steps(t, l, func() { must(t, l.MendCopies(context.Background(), nil)) })
	name := strings.TrimPrefix(path, l.home+"/")
	sameSteps(t, "mended", got, "remove "+name+".new", "create "+name+".new", "append "+name+".new", "syncdir "+filepath.Dir(name),
		"writeat "+name+".new", "replace "+name, "writeat .mbox/locks/copies")
}

// After an I/O error the newest file and the journal are in other inodes than
// those whose flush failed, and the old bytes are kept.
func TestRule19_RenewTakesOtherInodes(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	path := newestPath(t, l)
	inode := func(p string) uint64 {
		st, err := durable.Lstat(p)
		must(t, err)
		return st.Ino
	}
	old, journal, data := inode(path), inode(JournalPath(l.home)), readFile(t, path)
	must(t, l.setReadOnly("a test"))
	must(t, os.Link(JournalPath(l.home), filepath.Join(l.home, "journal-of-before"))) // so that its inode is not used again
	got := steps(t, l, func() { must(t, l.Renew(context.Background())) })
	kept, err := filepath.Glob(filepath.Join(sharedDir(l.home), ".*.before-*"))
	if err != nil || len(kept) != 1 || inode(kept[0]) != old || inode(path) == old {
		t.Fatalf("kept: %q (%v)", kept, err)
	}
	if !bytes.Equal(readFile(t, kept[0]), data) || !bytes.Equal(readFile(t, path), data) {
		t.Error("the bytes differ")
	}
	fresh := "audit/shared/." + filepath.Base(path) + ".new"
	if s, x := slices.Index(got, "sync "+fresh), slices.Index(got, "exchange "+strings.TrimPrefix(path, l.home+"/")); s < 0 || x < s {
		t.Errorf("the new file is not flushed before it is the ledger: %q", got)
	}
	appendNote(t, l, "coder", "two")
	if inode(JournalPath(l.home)) == journal {
		t.Error("the journal is in the inode that it was in")
	}
	if said := strings.Join(wholeChain(t, l), " "); said != "one two" {
		t.Error(said)
	}
}

// Everything that is made is flushed into its folder: an agent's folder and each of
// its files.
func TestRule12_NewNamesAreFlushed(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	makeHome(t, home)
	l := openLedger(t, home, nil)
	got := steps(t, l, func() { appendNote(t, l, "coder", "one") })
	for _, want := range []string{"syncdir audit", "syncdir audit/coder", "syncdir audit/shared"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// A line of another process, which may have died before its flush, is acted on
// only after one.
func TestRule05_FlushedFlushesForOthers(t *testing.T) {
	for _, mode := range []durable.Mode{durable.Standard, durable.Strict} {
		l := newLedger(t, nil)
		l.mode = mode
		if _, _, err := l.write(context.Background(), note("coder", "one"), Payload{}, nil); err != nil {
			t.Fatal(err)
		}
		other := openLedger(t, l.home, nil)
		other.mode = mode
		got := steps(t, other, func() { must(t, other.Flushed(context.Background())) })
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "sync ") }) {
			t.Errorf("mode %d: %q", mode, got)
		}
	}
}
