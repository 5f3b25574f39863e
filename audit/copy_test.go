package audit

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/mailbox/durable"
)

// appended writes lines of two agents over two days, and copies none of them.
func appended(t *testing.T, l *Ledger, c *clock) {
	t.Helper()
	for i := range 12 {
		if i == 6 {
			c.now = c.now.Add(24 * time.Hour)
		}
		if _, err := l.Append(t.Context(), note([]string{"coder", "bridge:x", "coder"}[i%3], fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
}

// copyOf is a copy's path.
func copyOf(l *Ledger, agent, day string) string {
	return filepath.Join(l.home, "audit", Folder(agent), day+".jsonl")
}

// Wherever a process that copies is killed, the copies are the first of their
// agents' lines, and the next process goes on with them.
func TestRule29_KilledCopies(t *testing.T) {
	for n := 0; ; n++ {
		c := &clock{time.Date(2026, 2, 16, 12, 0, 0, 0, time.UTC)}
		l := newLedger(t, c)
		appendNote(t, l, "coder", "first")
		appended(t, l, c)
		remove := durable.SetFault(killAt(n))
		err := l.Copy(t.Context(), 0)
		remove()
		prefixCopies(t, l)
		next := openLedger(t, l.home, c)
		appended(t, next, c)
		must(t, next.Copy(t.Context(), 0))
		sameCopies(t, next)
		if t.Failed() {
			t.Fatalf("killed at step %d", n)
		}
		if err == nil {
			if n < 10 {
				t.Errorf("copying makes only %d steps: it proves little", n)
			}
			return
		}
	}
}

// A kill may tear the last write to a copy, and the record of how far they are.
// Then what is there is compared, and nothing that is right is written again.
func TestRule29_TornCopies(t *testing.T) {
	c := &clock{time.Date(2026, 2, 16, 12, 0, 0, 0, time.UTC)}
	l := newLedger(t, c)
	appended(t, l, c)
	must(t, l.Copy(t.Context(), 0))
	record := filepath.Join(l.home, ".mbox", "locks", copiesLock)
	writeFile(t, record, readFile(t, record)[:300])
	torn := copyOf(l, "coder", "2026-02-17")
	writeFile(t, torn, readFile(t, torn)[:1000])
	if behind := prefixCopies(t, l); behind["coder"] == 0 {
		t.Error("a torn copy is not behind")
	}
	next := openLedger(t, l.home, c)
	if _, err := next.Append(t.Context(), note("bridge:x", "one")); err != nil {
		t.Fatal(err)
	}
	got := steps(t, next, func() { must(t, next.Copy(t.Context(), 0)) })
	sameCopies(t, next)
	for _, step := range got {
		if step != "writeat audit/bridge_x/2026-02-17.jsonl" && step != "writeat audit/coder/2026-02-17.jsonl" && step != "writeat .mbox/locks/copies" {
			t.Errorf("%s, of %q", step, got)
		}
	}
}

// Lines that wait are copied by whoever is idle, or has many, and by Close.
func TestRule29_CopiesFollow(t *testing.T) {
	for name, when := range map[string]struct {
		delay time.Duration
		lines int
		do    func(l *Ledger)
	}{
		"by time":   {time.Millisecond, 1, func(*Ledger) {}},
		"by number": {time.Hour, copyLines, func(*Ledger) {}},
		"by Close":  {time.Hour, 3, func(l *Ledger) { must(t, l.Close()) }},
	} {
		home := newLedger(t, nil).home
		l, err := Open(home, testMailbox, Options{Mode: durable.None, CopyDelay: when.delay})
		must(t, err)
		copied := make(chan bool, 100)
		remove := durable.SetFault(func(_ durable.Op, path string) (bool, error) {
			if filepath.Base(path) == copiesLock {
				copied <- true
			}
			return true, nil
		})
		for i := range when.lines {
			if _, err := l.Append(t.Context(), note("coder", fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		when.do(l)
		select {
		case <-copied:
		case <-time.After(time.Minute):
			t.Errorf("%s: nothing was copied", name)
		}
		must(t, l.Close())
		remove()
		sameCopies(t, openLedger(t, home, nil))
	}
}

// Whoever ends does not wait long for one who stands still with the copies' lock,
// is not told of it, and the next one copies his lines.
func TestRule29_CopiesAreTried(t *testing.T) {
	l := newLedger(t, nil)
	next := openLedger(t, l.home, nil)
	_, err := l.Append(t.Context(), note("coder", "one"))
	must(t, err)
	lock, err := durable.TryLock(filepath.Join(l.home, ".mbox", "locks", copiesLock))
	must(t, err)
	if err := l.Copy(t.Context(), 0); err == nil {
		t.Error("copied without the lock")
	}
	begun := time.Now()
	must(t, l.Close())
	if took := time.Since(begun); took < copyWait || took > 20*time.Second {
		t.Errorf("Close took %v", took)
	}
	must(t, lock.Unlock())
	_, err = next.Append(t.Context(), note("tester", "two"))
	must(t, err)
	must(t, next.Copy(t.Context(), copyWait)) // which the copying behind Append may hold
	sameCopies(t, next)
}

// Days are written in order, and nothing behind what cannot be written.
func TestRule29_DaysInOrder(t *testing.T) {
	c := &clock{time.Date(2026, 2, 16, 12, 0, 0, 0, time.UTC)}
	l := newLedger(t, c)
	appended(t, l, c)
	first := copyOf(l, "coder", "2026-02-16")
	must(t, os.MkdirAll(first, 0o700))
	if err := l.Copy(t.Context(), 0); err == nil {
		t.Error("a folder is no copy")
	}
	if _, err := os.Lstat(copyOf(l, "coder", "2026-02-17")); err == nil {
		t.Error("the second day was begun without the first")
	}
	must(t, os.Remove(first))
	must(t, l.Copy(t.Context(), 0))
	sameCopies(t, l)
}

// However many lines wait, they are copied in steps, with the lock free between
// them, and who is to end ends then.
func TestRule29_CopiesInSteps(t *testing.T) {
	l := newLedger(t, nil)
	l.mode = durable.None
	long := strings.Repeat("x", 8000)
	for range 3 * copyBytes / 8000 {
		_, err := l.Append(t.Context(), note("coder", long))
		must(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	records := 0
	remove := durable.SetFault(func(_ durable.Op, path string) (bool, error) {
		if filepath.Base(path) == copiesLock {
			records++
			cancel()
		}
		return true, nil
	})
	err := l.Copy(ctx, 0)
	if behind := prefixCopies(t, l); err == nil || behind["coder"] < copyBytes || records != 1 {
		t.Errorf("%v: after %d steps the copy lacks %d bytes", err, records, behind["coder"])
	}
	must(t, l.Copy(t.Context(), 0))
	remove()
	if sameCopies(t, l); records < 3 {
		t.Errorf("%d steps", records)
	}
}

// A line in the chain whose agent has no name that an agent may have is copied
// nowhere: not over the ledger, and not outside of it.
func TestRule29_LineOfNoAgentIsNotCopied(t *testing.T) {
	l := newLedger(t, nil)
	before := readFile(t, newestPath(t, l.after(t, "coder")))
	for _, agent := range []string{"shared", "../../x", ""} {
		l.after(t, agent)
	}
	must(t, l.Copy(t.Context(), 0))
	must(t, l.MendCopies(t.Context(), nil))
	if data := readFile(t, newestPath(t, l)); !bytes.HasPrefix(data, before) || bytes.Count(data, []byte{'\n'}) != 4 {
		t.Errorf("the ledger is %q", data)
	}
	if names, _ := filepath.Glob(filepath.Join(l.home, "audit", "*")); len(names) != 2 {
		t.Errorf("in audit: %q", names)
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(l.home), "*")); len(names) != 1 {
		t.Errorf("beside the home: %q", names)
	}
}

// after is the ledger with one more line of that agent.
func (l *Ledger) after(t *testing.T, agent string) *Ledger {
	t.Helper()
	_, err := l.Append(t.Context(), note(agent, "x"))
	must(t, err)
	return l
}
