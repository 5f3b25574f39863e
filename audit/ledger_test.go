package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mbox/mailbox/durable"
)

// What a dead appender or a stranger leaves behind the last line: it is named
// by an audit_repaired line and counts for nothing, and the chain goes on.
func TestRule14_TornTail(t *testing.T) {
	for name, torn := range map[string]string{
		"half a line":          `{"action":"half`,
		"a line of a stranger": "hello\n",
		"several lines":        "a\nb\n{\"x\":1}\nhalf",
		"NUL bytes":            strings.Repeat("\x00", 5000),
		"one newline":          "\n",
		"too long a line":      strings.Repeat("x", 3*MaxLine) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t, nil)
			appendNote(t, l, "coder", "one")
			addBytes(t, newestPath(t, l), torn)
			appendNote(t, l, "coder", "two")
			appendNote(t, l, "tester", "three")
			said := wholeChain(t, l)
			if len(said) != 4 || said[0] != "one" || !strings.Contains(said[1], "set aside") || said[2] != "two" || said[3] != "three" {
				t.Errorf("%q", said)
			}
			sameCopies(t, l)
		})
	}
}

// A whole last line that only lacks its newline is committed.
func TestMissingNewline(t *testing.T) {
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	second := appendNote(t, l, "coder", "two")
	path := newestPath(t, l)
	if err := os.Truncate(path, second.End.Offset-1); err != nil {
		t.Fatal(err)
	}
	// The head record was not written either: the writer died between the two.
	head, err := l.seeHead()
	if err != nil {
		t.Fatal(err)
	}
	head.Length, head.Seq, head.Checksum = second.At.Offset, second.At.Seq, second.At.Checksum
	if err := l.writeHead(head); err != nil {
		t.Fatal(err)
	}
	appendNote(t, l, "coder", "three")
	if said := wholeChain(t, l); fmt.Sprint(said) != "[one two three]" {
		t.Errorf("%q", said)
	}
	sameCopies(t, l)
}

// A line whose writer died before it wrote the head record counts.
func TestStaleHead(t *testing.T) {
	l := newLedger(t, nil)
	first := appendNote(t, l, "coder", "one")
	before, err := l.seeHead()
	if err != nil {
		t.Fatal(err)
	}
	appendNote(t, l, "coder", "two")
	before.Length, before.Seq, before.Checksum = first.End.Offset, first.End.Seq, first.End.Checksum
	if err := l.writeHead(before); err != nil {
		t.Fatal(err)
	}
	appendNote(t, l, "coder", "three")
	if said := wholeChain(t, l); fmt.Sprint(said) != "[one two three]" {
		t.Errorf("%q", said)
	}
}

// A ledger that is shorter than it was is damage: nothing more is written until
// an operator has seen to it.
func TestRule14_ShortLedger(t *testing.T) {
	l := newLedger(t, nil)
	first := appendNote(t, l, "coder", "one")
	appendNote(t, l, "coder", "two")
	if err := os.Truncate(newestPath(t, l), first.End.Offset); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := l.Append(context.Background(), note("coder", "three"))
		if !errors.Is(err, ErrUnwritten) || !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrReadOnly) {
			t.Errorf("append to a cut ledger: %v", err)
		}
	}
	if err := CheckWritable(l.home); !errors.Is(err, ErrReadOnly) {
		t.Errorf("not read-only: %v", err)
	}
	if err := l.Renew(context.Background()); err != nil {
		t.Fatal(err)
	}
	appendNote(t, l, "coder", "three")
	if said := wholeChain(t, l); fmt.Sprint(said) != "[one three]" {
		t.Errorf("%q", said)
	}
	sameCopies(t, l)
}

// The chain runs on over midnight, and a clock that goes back does not break it.
func TestMidnight(t *testing.T) {
	c := &clock{time.Date(2026, 2, 16, 23, 59, 59, 0, time.UTC)}
	l := newLedger(t, c)
	other := openLedger(t, l.home, c)
	appendNote(t, l, "coder", "evening")
	c.now = c.now.Add(2 * time.Second)
	appendNote(t, l, "coder", "after midnight")
	appendNote(t, other, "tester", "another process")
	c.now = c.now.Add(-time.Hour)
	appendNote(t, other, "coder", "the clock went back")
	c.now = c.now.Add(48 * time.Hour)
	appendNote(t, l, "coder", "two days later")
	if said := wholeChain(t, l); len(said) != 5 || said[3] != "the clock went back" {
		t.Errorf("%q", said)
	}
	files, err := dayFiles(sharedDir(l.home))
	if err != nil || fmt.Sprint(files) != "[2026-02-16.jsonl 2026-02-17.jsonl 2026-02-18.jsonl]" {
		t.Errorf("%v %v", files, err)
	}
	sameCopies(t, l)
}

// Over midnight another process begins the next day's copy.
func TestCopyOverMidnight(t *testing.T) {
	c := &clock{time.Date(2026, 2, 16, 23, 59, 0, 0, time.UTC)}
	l := newLedger(t, c)
	other := openLedger(t, l.home, c)
	appendNote(t, l, "coder", "evening")
	c.now = c.now.Add(time.Hour)
	appendNote(t, other, "coder", "another process")
	appendNote(t, l, "coder", "this process again")
	sameCopies(t, l)
}

// A day's file that a dead process began and left empty is gone on with.
func TestEmptyDayFile(t *testing.T) {
	c := &clock{time.Date(2026, 2, 16, 12, 0, 0, 0, time.UTC)}
	l := newLedger(t, c)
	appendNote(t, l, "coder", "one")
	if err := os.WriteFile(filepath.Join(sharedDir(l.home), "2026-02-17.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(24 * time.Hour)
	appendNote(t, l, "coder", "two")
	if said := wholeChain(t, l); fmt.Sprint(said) != "[one two]" {
		t.Errorf("%q", said)
	}
}

// After a restart the head record counts for nothing, and what stands behind
// the longest valid chain is named in one range, whole lines in it included.
func TestRule16_Restart(t *testing.T) {
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	cut := appendNote(t, l, "coder", "two")
	appendNote(t, l, "coder", "three")
	path := newestPath(t, l)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := cut.At.Offset; i < cut.End.Offset; i++ {
		data[i] = 0 // a power cut left a hole of NULs
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	l.boot = "another boot"
	if err := l.Recover(context.Background()); err != nil {
		t.Fatal(err)
	}
	appendNote(t, l, "coder", "four")
	if said := wholeChain(t, l); len(said) != 3 || said[0] != "one" || !strings.Contains(said[1], "set aside") || said[2] != "four" {
		t.Errorf("%q", said)
	}
	if err := l.MendCopies(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	sameCopies(t, l)
}

// A hole before a line whose transaction stands in a file is damage, not a crash.
func TestRule16_RestartWithDamage(t *testing.T) {
	l := newLedger(t, nil)
	cut := appendNote(t, l, "coder", "one")
	e := note("coder", "two")
	e.Details = Details(map[string]any{"tx": "abc", "uid": 0, "pid": 1, "host": "h"})
	if _, err := l.Append(context.Background(), e); err != nil {
		t.Fatal(err)
	}
	path := newestPath(t, l)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[cut.At.Offset+5] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	l.boot = "another boot"
	l.stands = func(txs []string) (string, error) { return txs[0], nil }
	if err := l.Recover(context.Background()); !errors.Is(err, ErrDamaged) {
		t.Errorf("recover: %v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(data) {
		t.Errorf("the damaged ledger was changed (%v)", err)
	}
}

// A copy that is torn, short, longer or different is written anew.
func TestRule17_CopiesAreMended(t *testing.T) {
	for name, spoil := range map[string]func(path string, data []byte) error{
		"short":     func(p string, d []byte) error { return os.WriteFile(p, d[:len(d)/2], 0o600) },
		"gone":      func(p string, d []byte) error { return os.Remove(p) },
		"different": func(p string, d []byte) error { d[3] ^= 1; return os.WriteFile(p, d, 0o600) },
		"longer":    func(p string, d []byte) error { return os.WriteFile(p, append(d, d...), 0o600) },
		"stray day": func(p string, d []byte) error {
			return os.WriteFile(filepath.Join(filepath.Dir(p), "1999-01-01.jsonl"), d, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t, nil)
			for i := range 5 {
				appendNote(t, l, "coder", fmt.Sprint(i))
				appendNote(t, l, "bridge:x", fmt.Sprint(i))
			}
			path := filepath.Join(l.home, "audit", "coder", filepath.Base(newestPath(t, l)))
			data, err := os.ReadFile(path)
			if err == nil {
				err = spoil(path, data)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := l.MendCopies(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			sameCopies(t, l)
			appendNote(t, l, "coder", "more")
			sameCopies(t, l)
		})
	}
}

// Sixteen goroutines in four ledgers on one home: one chain, no line lost.
func TestAppendersAtOnce(t *testing.T) {
	first := newLedger(t, nil)
	var wg sync.WaitGroup
	const each = 25
	for i := range 16 {
		l := first
		if i%4 != 0 {
			l = openLedger(t, first.home, nil)
		}
		wg.Go(func() {
			for n := range each {
				agent := fmt.Sprintf("agent-%d", i%3)
				if _, err := l.Append(context.Background(), note(agent, fmt.Sprintf("%d of %d", n, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if said := wholeChain(t, first); len(said) != 16*each {
		t.Errorf("%d lines", len(said))
	}
	prefixCopies(t, first)
	must(t, first.Copy(t.Context(), time.Second))
	sameCopies(t, first)
}

// The flush that fails makes the mailbox read-only before anybody is told, and
// is not tried again on that descriptor.
func TestRule19_FailedFlush(t *testing.T) {
	for mode, file := range map[durable.Mode]string{durable.Standard: "journal", durable.Strict: ".jsonl"} {
		t.Run(file, func(t *testing.T) { failFlush(t, mode, file) })
	}
}

func failFlush(t *testing.T, mode durable.Mode, file string) {
	l := newLedger(t, nil)
	l.mode = mode
	appendNote(t, l, "coder", "one")
	flushes := 0
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpSync && strings.HasSuffix(path, file) {
			flushes++
			return false, errors.New("input/output error")
		}
		return true, nil
	})
	_, err := l.Append(context.Background(), note("coder", "two"))
	if err == nil || errors.Is(err, ErrUnwritten) {
		t.Errorf("append: %v", err)
	}
	_, err = l.Append(context.Background(), note("coder", "three"))
	if !errors.Is(err, ErrReadOnly) || !errors.Is(err, ErrUnwritten) {
		t.Errorf("append after it: %v", err)
	}
	remove()
	if flushes != 1 {
		t.Errorf("%d flushes of a failed descriptor", flushes)
	}
	if err := l.Renew(context.Background()); err != nil {
		t.Fatal(err)
	}
	appendNote(t, l, "coder", "four")
	if said := wholeChain(t, l); fmt.Sprint(said) != "[one two four]" {
		t.Errorf("%q", said)
	}
}

func TestBackwardSkipsWhatIsSetAside(t *testing.T) {
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	line := appendNote(t, l, "coder", "two")
	addBytes(t, newestPath(t, l), "junk\n"+string(line.Raw)+"\n")
	appendNote(t, l, "coder", "three")
	var said []string
	for line, err := range l.Backward() {
		if err != nil {
			t.Fatal(err)
		}
		e, err := line.Decode()
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, e.Action)
	}
	if len(said) != 4 || said[0] != "three" || said[2] != "two" || said[3] != "one" {
		t.Errorf("%q", said)
	}
}

// Who looks for lines by their numbers is led past the days in which they cannot be: a
// day that cannot be read any more holds nobody up who has no business in it.
func TestBeforeAndBackwardFrom(t *testing.T) {
	c := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	l := newLedger(t, c)
	day := map[int64]string{}
	for i := range 9 {
		if i%3 == 0 && i > 0 {
			c.now = c.now.AddDate(0, 0, 1)
		}
		line := appendNote(t, l, "coder", fmt.Sprint(i))
		day[line.Seq] = filepath.Base(newestPath(t, l))
	}
	for seq := int64(0); seq <= 10; seq++ {
		at, err := l.Before(seq)
		if err != nil {
			t.Fatal(err)
		}
		if want := min(seq/3*3, 6); at.Seq != want || want > 0 && at.File != day[want] {
			t.Errorf("before %d: %+v, want seq %d", seq, at, want)
		}
		next := at.Seq
		for line, err := range l.Read(at).Lines() {
			if next++; err != nil || line.Seq != next {
				t.Fatalf("from %+v: line %d, %v; want %d", at, line.Seq, err, next)
			}
		}
		next = min(seq, 9)
		for line, err := range l.BackwardFrom(seq) {
			if err != nil || line.Seq != next {
				t.Fatalf("back from %d: line %d, %v; want %d", seq, line.Seq, err, next)
			}
			next--
		}
		if next != 0 {
			t.Errorf("back from %d ends at %d", seq, next)
		}
	}
	spoilt := filepath.Join(sharedDir(l.home), day[9])
	was, err := os.ReadFile(spoilt)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(spoilt); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(spoilt, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, err := range l.BackwardFrom(6) {
		if err != nil {
			t.Error(err)
		}
	}
	if at, err := l.Before(4); err != nil || at.Seq != 3 {
		t.Error(at, err)
	}
	if err := os.Remove(spoilt); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(spoilt, was, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A day that is empty, or whose end is no line, leads nobody past the line that he
// looks for.
func TestBeforeBlankDays(t *testing.T) {
	c := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	l := newLedger(t, c)
	for range 4 {
		appendNote(t, l, "coder", "x")
		c.now = c.now.AddDate(0, 0, 2)
	}
	for i, text := range []string{"", "junk\n", ""} {
		name := filepath.Join(sharedDir(l.home), fmt.Sprintf("2026-03-%02d.jsonl", 2*i+2))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for seq := int64(0); seq <= 5; seq++ {
		at, err := l.Before(seq)
		if err != nil || at.Seq > seq || at.Seq < min(seq, 3)-1 {
			t.Errorf("before %d: %+v, %v", seq, at, err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	l := newLedger(b, nil)
	l.mode = durable.None
	for i := range 5000 {
		if _, err := l.Append(context.Background(), note("coder", strings.Repeat("x", 300)+fmt.Sprint(i))); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		r := l.Read(Position{})
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
		r.Close()
	}
	b.ReportMetric(float64(b.N)*5000/b.Elapsed().Seconds(), "lines/s")
}

// Who has lost the ledger's lock file to somebody else swaps no file of the ledger.
func TestRule31_SwappedUnderALostLock(t *testing.T) {
	for name, row := range map[string]struct {
		copied string
		swap   func(l *Ledger) error
	}{
		"renew": {".new", func(l *Ledger) error { return l.Renew(context.Background()) }},
		"forget": {".forget.new", func(l *Ledger) error {
			return l.Forget(context.Background(), func(yield func(Entry, error) bool) { yield(note("coder", "anew"), nil) })
		}},
	} {
		l := newLedger(t, nil)
		appendNote(t, l, "coder", "one")
		defer durable.SetFault(func(op durable.Op, path string) (bool, error) {
			if op == durable.OpCreate && strings.HasSuffix(path, row.copied) {
				if err := errors.Join(os.Remove(l.gate.Path()), os.WriteFile(l.gate.Path(), nil, 0o600)); err != nil {
					t.Error(err)
				}
			}
			return true, nil
		})()
		if err := row.swap(l); !errors.Is(err, durable.ErrReplaced) {
			t.Errorf("%s: it was not refused: %v", name, err)
		}
		if said := wholeChain(t, l); fmt.Sprint(said) != "[one]" {
			t.Errorf("%s: the ledger has %q", name, said)
		}
	}
}
