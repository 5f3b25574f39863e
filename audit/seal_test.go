package audit

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"iter"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"mbox/mailbox/durable"
)

// seal makes a file append-only until unseal is called or the test ends: by the
// system itself, or where asked or the system refuses, by a fault that refuses what
// the system would.
func seal(t *testing.T, path string, really bool) (unseal func()) {
	t.Helper()
	if really && durable.Seal(path) == nil {
		unseal = func() {
			cmd := exec.Command("chattr", "-a", path)
			if runtime.GOOS == "darwin" {
				cmd = exec.Command("chflags", "nouappnd", path)
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
		t.Cleanup(unseal)
		return unseal
	}
	if really {
		t.Log("SKIPPED: root is missing, or append-only files are: a fault stands for the system")
	}
	dir, base := filepath.Split(path)
	unseal = durable.SetFault(func(op durable.Op, changed string) (bool, error) {
		switch op {
		case durable.OpWriteAt, durable.OpExchange, durable.OpMove:
			if strings.HasPrefix(changed, dir) && strings.Contains(changed, base) {
				return false, &fs.PathError{Op: string(op), Path: changed, Err: syscall.EPERM}
			}
		}
		return true, nil
	})
	t.Cleanup(unseal)
	return unseal
}

func bothWays(t *testing.T, do func(t *testing.T, really bool)) {
	t.Run("by the system", func(t *testing.T) { do(t, true) })
	t.Run("by a fault", func(t *testing.T) { do(t, false) })
}

func wantSealed(t *testing.T, err error, path string) {
	t.Helper()
	var sealed *SealedError
	if !errors.As(err, &sealed) || len(sealed.Files) == 0 || sealed.Files[0] != path || errors.Is(err, ErrDamaged) {
		t.Errorf("the answer is %v (%+v), want one that names %s", err, sealed, path)
	}
}

// Rule 37: on append-only day files replay appends where it can. What has to be
// written over it leaves as it is, and says which file is in the way.
func TestRule37_ReplayAppendOnly(t *testing.T) {
	needJournal(t)
	for name, c := range map[string]struct {
		spoil   func(data []byte, from int64) []byte
		appends bool
	}{
		"nothing":        {func(d []byte, _ int64) []byte { return d }, true},
		"all lines gone": {func(d []byte, from int64) []byte { return d[:from] }, true},
		"cut in a line":  {func(d []byte, from int64) []byte { return d[:from+100] }, true},
		"NULs":           {func(d []byte, from int64) []byte { clear(d[from+10:]); return d }, false},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, really bool) {
				l := newLedger(t, nil)
				first := appendNote(t, l, "coder", "one")
				appendNote(t, l, "tester", "two")
				path := newestPath(t, l)
				whole := readFile(t, path)
				writeFile(t, path, c.spoil(bytes.Clone(whole), first.At.Offset))
				unseal := seal(t, path, really)
				_, err := l.Replay(context.Background(), true)
				if c.appends != (err == nil) {
					t.Fatalf("Replay: %v", err)
				}
				if !c.appends {
					wantSealed(t, err, path)
					unseal()
					_, err = l.Replay(context.Background(), true)
					must(t, err)
				}
				if !bytes.Equal(readFile(t, path), whole) {
					t.Error("not all of it came back")
				}
			})
		})
	}
}

// Lines that were never flushed cannot be blanked in an append-only file: that is
// said, and done when it can be.
func TestBlankAppendOnly(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	appendNote(t, l, "coder", "two")
	journal := readFile(t, JournalPath(l.home))
	clear(journal[2*journalBlock:])
	writeFile(t, JournalPath(l.home), journal)
	path := newestPath(t, l)
	unseal := seal(t, path, true)
	_, err := l.Replay(context.Background(), true)
	wantSealed(t, err, path)
	unseal()
	_, err = l.Replay(context.Background(), true)
	must(t, err)
	must(t, l.Recover(context.Background()))
	if said := wholeChain(t, l); len(said) != 2 || said[0] != "one" {
		t.Errorf("%q", said)
	}
}

// What renames a day file says which are in the way, and does it when they are not.
func TestRenewAndForgetAppendOnly(t *testing.T) {
	for name, do := range map[string]func(l *Ledger) error{
		"Renew": func(l *Ledger) error { return l.Renew(context.Background()) },
		"Forget": func(l *Ledger) error {
			return l.Forget(context.Background(), iter.Seq2[Entry, error](func(yield func(Entry, error) bool) { yield(note("coder", "anew"), nil) }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, really bool) {
				l := newLedger(t, nil)
				appendNote(t, l, "coder", "one")
				path := newestPath(t, l)
				unseal := seal(t, path, really)
				appendNote(t, l, "coder", "two") // appending needs nothing
				wantSealed(t, do(l), path)
				if said := wholeChain(t, l); len(said) != 2 {
					t.Errorf("afterwards the ledger is %q", said)
				}
				unseal()
				must(t, do(l))
				appendNote(t, l, "coder", "three")
			})
		})
	}
}

// A finished file is sealed once it is on the disk: when the next one is begun, and
// in Recover. The newest never is; and where the system refuses, nothing fails.
func TestRule37_SealsWhatIsFinished(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		c := &clock{time.Date(2026, 2, 16, 23, 59, 0, 0, time.UTC)}
		l := newLedger(t, c)
		l.seals = true
		var order []string
		durable.SetFault(func(op durable.Op, path string) (bool, error) {
			name := filepath.Base(path)
			if op == durable.OpSeal || op == durable.OpSync && dayFile().MatchString(name) || op == durable.OpCreate {
				order = append(order, string(op)+" "+name)
			}
			if op == durable.OpSeal && refuses {
				return false, &fs.PathError{Op: "seal", Path: path, Err: syscall.EPERM}
			}
			return op != durable.OpSeal, nil // else the test's folder could not be removed
		})
		appendNote(t, l, "coder", "one")
		c.now = c.now.Add(time.Hour)
		appendNote(t, l, "coder", "two")
		got := strings.Join(order, "\n")
		before, _, sealed := strings.Cut(got, "seal 2026-02-16.jsonl")
		if _, begun, ok := strings.Cut(before, "create 2026-02-16.jsonl"); !sealed || !ok || !strings.Contains(begun, "sync 2026-02-16.jsonl") {
			t.Errorf("not flushed, then sealed:\n%s", got)
		}
		order = nil
		must(t, l.Recover(context.Background()))
		if got := strings.Join(order, "\n"); strings.Count(got, "seal") != 1 || !strings.Contains(got, "seal 2026-02-16.jsonl") {
			t.Errorf("recovery does\n%s", got)
		}
		durable.SetFault(func(durable.Op, string) (bool, error) { return true, nil })()
		if said := wholeChain(t, l); len(said) != 2 {
			t.Errorf("%q", said)
		}
	}
}
