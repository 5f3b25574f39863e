package audit

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mbox/mailbox/durable"
)

func needJournal(t testing.TB) {
	t.Helper()
	if !durable.CanSyncFS {
		t.Skip("syncfs is missing: there is no journal on this system")
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// What a power cut does to the ledger behind the journal's beginning comes
// back byte by byte; bytes that no power cut makes stay as they are.
func TestRule16_Replay(t *testing.T) {
	needJournal(t)
	cases := map[string]struct {
		spoil         func(data []byte, from int64) []byte
		back, damaged bool
	}{
		"nothing":           {func(d []byte, _ int64) []byte { return d }, true, false},
		"all lines gone":    {func(d []byte, from int64) []byte { return d[:from] }, true, false},
		"cut in a line":     {func(d []byte, from int64) []byte { return d[:from+100] }, true, false},
		"NULs to the end":   {func(d []byte, from int64) []byte { clear(d[from+10:]); return d }, true, false},
		"a hole":            {func(d []byte, from int64) []byte { clear(d[from : from+200]); return d }, true, false},
		"longer, with NULs": {func(d []byte, from int64) []byte { return append(d[:from], make([]byte, 9000)...) }, true, false},
		"a byte changed":    {func(d []byte, from int64) []byte { d[from+20] ^= 1; return d }, false, true},
		"too short":         {func(d []byte, from int64) []byte { return d[:from-1] }, false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t, nil)
			appendNote(t, l, "coder", "before")
			if err := os.Remove(JournalPath(l.home)); err != nil { // the next line begins another
				t.Fatal(err)
			}
			first := appendNote(t, l, "coder", "one")
			appendNote(t, l, "tester", "two")
			appendNote(t, l, "coder", "three")
			path := newestPath(t, l)
			whole := readFile(t, path)
			writeFile(t, path, c.spoil(bytes.Clone(whole), first.At.Offset))
			spoilt := readFile(t, path)
			for range 2 { // a second run changes nothing
				if _, err := l.Replay(context.Background(), true); errors.Is(err, ErrDamaged) != c.damaged || err != nil && !c.damaged {
					t.Fatal(err)
				}
				now := readFile(t, path)
				if c.back && !bytes.HasPrefix(now, whole) {
					t.Errorf("%d bytes came back, want %d", len(now), len(whole))
				}
				if !c.back && !bytes.Equal(now, spoilt) {
					t.Error("a ledger that is damaged, not cut, was written to")
				}
			}
		})
	}
}

// The journal holds what was appended since its beginning, with the contents.
func TestRule10_JournalRecords(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	want := []Payload{{"a~1", []byte("one")}, {}, {"b~2", bytes.Repeat([]byte("x"), MaxPayload)}, {"c~3", nil}}
	for _, p := range want {
		if _, err := l.AppendWith(context.Background(), note("coder", p.Name), p); err != nil {
			t.Fatal(err)
		}
	}
	got, err := l.Replay(context.Background(), true)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d records: %v", len(got), err)
	}
	for i, rec := range got {
		e, err := rec.Entry()
		if err != nil || e.Action != want[i].Name || rec.Seq != int64(i+1) {
			t.Errorf("record %d: seq %d, %q: %v", i, rec.Seq, e.Action, err)
		}
		if rec.Payload.Name != want[i].Name || !bytes.Equal(rec.Payload.Data, want[i].Data) {
			t.Errorf("record %d: payload %q of %d bytes", i, rec.Payload.Name, len(rec.Payload.Data))
		}
	}
}

// A full journal is checkpointed and begun again, and so is one that another
// process left behind, lost or replaced.
func TestRule10_JournalBeginsAnew(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	synced := 0
	remove := durable.SetFault(func(op durable.Op, _ string) (bool, error) {
		if op == durable.OpSyncFS {
			synced++
		}
		return true, nil
	})
	defer remove()
	big := Payload{"a~1", bytes.Repeat([]byte("x"), MaxPayload)}
	for range journalLimit/MaxPayload + 10 {
		if _, err := l.AppendWith(context.Background(), note("coder", "full"), big); err != nil {
			t.Fatal(err)
		}
	}
	if synced != 2 {
		t.Errorf("%d checkpoints, want one at the beginning and one when it was full", synced)
	}
	info, err := os.Stat(JournalPath(l.home))
	if err != nil || info.Size() > journalLimit+journalChunk {
		t.Errorf("the journal has %d bytes: %v", info.Size(), err)
	}
	steps := map[string]func(){
		"removed": func() { os.Remove(JournalPath(l.home)) },
		"replaced": func() {
			os.Remove(JournalPath(l.home))
			writeFile(t, JournalPath(l.home), []byte("journal of somebody else\n"))
		},
		"a line of a dead appender": func() {
			path := newestPath(t, l)
			before, head := readFile(t, path), readFile(t, l.gate.Path())
			appendNote(t, l, "coder", "dying")
			writeFile(t, l.gate.Path(), head) // it died before the head record
			if len(readFile(t, path)) <= len(before) {
				t.Error("no line was written")
			}
		},
	}
	for name, step := range steps {
		step()
		synced = 0
		appendNote(t, l, "coder", name)
		records, err := l.Replay(context.Background(), true)
		if err != nil || synced != 1 || len(records) != 1 {
			t.Errorf("%s: %d checkpoints, then %d records, want 1 and 1 (%v)", name, synced, len(records), err)
		}
	}
	if n := len(wholeChain(t, l)); n < journalLimit/MaxPayload {
		t.Errorf("%d lines", n)
	}
}

// A line of a process without a journal ends its use: the next one in it begins
// with a checkpoint.
func TestJournalWithStrictNeighbour(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	strict, err := Open(l.home, testMailbox, Options{Mode: durable.Strict})
	if err != nil {
		t.Fatal(err)
	}
	defer strict.Close()
	appendNote(t, strict, "coder", "two")
	appendNote(t, l, "coder", "three")
	records, err := l.Replay(context.Background(), true)
	if err != nil || len(records) != 1 || records[0].Seq != 3 {
		t.Errorf("%d records: %v", len(records), err)
	}
	if said := strings.Join(wholeChain(t, l), " "); said != "one two three" {
		t.Error(said)
	}
}

// A failed checkpoint makes the mailbox read-only, and nothing is written.
func TestFailedCheckpoint(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	remove := durable.SetFault(func(op durable.Op, _ string) (bool, error) {
		if op == durable.OpSyncFS {
			return false, errors.New("input/output error")
		}
		return true, nil
	})
	_, err := l.Append(context.Background(), note("coder", "one"))
	remove()
	if !errors.Is(err, ErrUnwritten) {
		t.Errorf("append: %v", err)
	}
	if err := CheckWritable(l.home); !errors.Is(err, ErrReadOnly) {
		t.Errorf("afterwards: %v", err)
	}
	if files, _ := filepath.Glob(filepath.Join(sharedDir(l.home), "*.jsonl")); len(files) > 0 && len(readFile(t, files[0])) > 0 {
		t.Error("a line was written")
	}
}

// FuzzJournal: whatever stands in a journal, only whole records are taken, and
// each renders to the bytes that it was read from.
func FuzzJournal(f *testing.F) {
	l := newLedger(f, nil)
	for i, p := range []Payload{{"a~1", []byte("one")}, {}, {"b~2", bytes.Repeat([]byte{0}, 5000)}} {
		if _, err := l.AppendWith(context.Background(), note("coder", strings.Repeat("x", i)), p); err != nil {
			f.Fatal(err)
		}
	}
	if data, err := os.ReadFile(JournalPath(l.home)); err == nil {
		f.Add(data[:4*journalBlock])
		f.Add(data[:journalBlock+100])
		f.Add(bytes.Replace(data[:2*journalBlock], []byte("one"), []byte("two"), 1))
	}
	f.Add([]byte("journal 2026-01-01.jsonl 0 1 - 0 00000000\n"))
	f.Add([]byte("journal 2026-01-01.jsonl -1 99999999999999999999 a 65537 ffffffff\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var records []Journaled
		if j := parseJournal(data); j != nil {
			records = j.records
		}
		for _, rec := range records {
			again := journalRecord(rec.At, rec.bytes, rec.Payload)
			back, n, ok := parseJournaled(again)
			if !ok || n != len(again) || back.Seq != rec.Seq || !bytes.Equal(back.Payload.Data, rec.Payload.Data) {
				t.Errorf("seq %d is not read as it is written", rec.Seq)
			}
		}
	})
}

// A line that reached the disk by itself, before the journal did, was never
// flushed: it is blanked and set aside. One whose transaction stands in a file
// is none of those.
func TestRule16_UncoveredLine(t *testing.T) {
	needJournal(t)
	for _, stands := range []bool{false, true} {
		l := newLedger(t, nil)
		appendNote(t, l, "coder", "one")
		e := note("coder", "two")
		e.Details = Details(map[string]any{"tx": "abc", "uid": 0, "pid": 1, "host": "h"})
		if _, err := l.Append(context.Background(), e); err != nil {
			t.Fatal(err)
		}
		data := readFile(t, JournalPath(l.home))
		clear(data[2*journalBlock:])
		writeFile(t, JournalPath(l.home), data)
		l.stands = func(txs []string) (string, error) {
			if stands {
				return txs[0], nil
			}
			return "", nil
		}
		before := readFile(t, newestPath(t, l))
		_, err := l.Replay(context.Background(), true)
		if err == nil {
			err = l.Recover(context.Background())
		}
		if stands {
			if !errors.Is(err, ErrDamaged) || !bytes.Equal(readFile(t, newestPath(t, l)), before) {
				t.Errorf("a line that stands in a file: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		appendNote(t, l, "coder", "three")
		if said := wholeChain(t, l); len(said) != 3 || said[0] != "one" || !strings.Contains(said[1], "set aside") || said[2] != "three" {
			t.Errorf("%q", said)
		}
	}
}

// Lines of a process without a journal are not taken for uncovered ones.
func TestStrictLinesAreCovered(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	strict, err := Open(l.home, testMailbox, Options{Mode: durable.Strict})
	if err != nil {
		t.Fatal(err)
	}
	defer strict.Close()
	appendNote(t, strict, "coder", "two")
	l.boot = "another boot"
	recovered := func() {
		if _, err := l.Replay(context.Background(), true); err != nil {
			t.Fatal(err)
		}
		if err := l.Recover(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	recovered()
	appendNote(t, strict, "coder", "three")
	recovered()
	if said := strings.Join(wholeChain(t, l), " "); said != "one two three" {
		t.Error(said)
	}
}
