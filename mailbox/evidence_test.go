package mailbox

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/verify"
)

// losses are ways in which a ledger is lost or replaced. Each says what was there.
var losses = map[string]func(t *testing.T, home string){
	"its files deleted": func(t *testing.T, home string) {
		must(t, os.Remove(onlyLedger(t, home)))
	},
	"its folder deleted": func(t *testing.T, home string) {
		must(t, os.RemoveAll(filepath.Join(home, "audit")))
	},
	"an older copy put back": func(t *testing.T, home string) {
		path := onlyLedger(t, home)
		data, err := os.ReadFile(path)
		must(t, err)
		cut := strings.Index(string(data), "\n") + 1
		must(t, errors.Join(os.Remove(path), os.WriteFile(path, data[:cut], 0o600)))
	},
	"cut": func(t *testing.T, home string) {
		path := onlyLedger(t, home)
		data, err := os.ReadFile(path)
		must(t, err)
		must(t, os.Truncate(path, int64(strings.LastIndex(string(data[:len(data)-1]), "\n")+1)))
	},
	"another mailbox's": func(t *testing.T, dir string) {
		other := lived(t, homes{}.open(t, Options{}))
		for range 3 {
			sent(t, other, ID("more-"+home.RandomHex(4)))
		}
		data, err := os.ReadFile(onlyLedger(t, other.home))
		must(t, err)
		path := onlyLedger(t, dir)
		must(t, errors.Join(os.Remove(path), os.WriteFile(path, data, 0o600)))
	},
	"a line tampered with": func(t *testing.T, home string) {
		spoil(t, onlyLedger(t, home), func(data []byte) { data[strings.Index(string(data), "\n")+20] ^= 1 })
	},
}

// Whoever comes to a mailbox whose ledger is lost or replaced changes no task: it
// becomes read-only, and goes on when the ledger is back.
func TestRule14_LedgerLost(t *testing.T) {
	for name, lose := range losses {
		for label, mode := range map[string]durable.Mode{"journaled": durable.Standard, "none": durable.None} {
			for _, restarted := range []bool{false, true} {
				if restarted && mode == durable.None && (name == "cut" || name == "a line tampered with") {
					continue // nothing that a power cut does not do as well
				}
				t.Run(name+" "+label+map[bool]string{true: " restarted"}[restarted], func(t *testing.T) {
					loseAndBringBack(t, mode, restarted, lose)
				})
			}
		}
	}
}

func loseAndBringBack(t *testing.T, mode durable.Mode, restarted bool, lose func(*testing.T, string)) {
	home := filepath.Join(t.TempDir(), "home")
	o := Options{Sync: mode}
	must(t, Create(home, o))
	b := lived(t, opened(t, home, o))
	must(t, b.Close())
	kept := filepath.Join(t.TempDir(), "audit")
	must(t, os.CopyFS(kept, os.DirFS(filepath.Join(home, "audit"))))
	tasks := tasksOf(t, home)
	lose(t, home)
	if restarted {
		anotherBoot(t, home)
	}
	if again, err := Open(t.Context(), home, o); err == nil {
		must(t, again.Tidy(t.Context()))
		_, err := again.Submit(t.Context(), request("more"))
		healed := err == nil && restarted && brought(t, home, kept)
		if !healed && !errors.Is(err, audit.ErrDamaged) && !errors.Is(err, ErrReadOnly) {
			t.Errorf("a new task: %v", err)
		}
		again.Close()
	}
	for _, r := range []RecoverOptions{{}, {AfterIOError: true}} {
		_, err := Recover(t.Context(), home, o, r)
		if err == nil && mode == durable.Standard && brought(t, home, kept) {
			whole(t, home)
			return
		}
		if !errors.Is(err, audit.ErrDamaged) || !strings.Contains(err.Error(), "seq ") {
			t.Errorf("recover %+v: %v", r, err)
		}
	}
	if now := tasksOf(t, home); !maps.Equal(tasks, now) {
		t.Errorf("the tasks changed: %v, they were %v", now, tasks)
	}
	must(t, os.RemoveAll(filepath.Join(home, "audit")))
	must(t, os.CopyFS(filepath.Join(home, "audit"), os.DirFS(kept)))
	must(t, filepath.WalkDir(filepath.Join(home, "audit"), func(path string, e os.DirEntry, err error) error {
		return errors.Join(err, os.Chmod(path, map[bool]os.FileMode{true: durable.DirMode, false: durable.FileMode}[e.IsDir()]))
	}))
	if _, err := Recover(t.Context(), home, o, RecoverOptions{AfterIOError: true}); err != nil {
		t.Fatalf("with the ledger brought back: %v", err)
	}
	if got := tasksOf(t, home); !restarted && !maps.Equal(tasks, got) { // after a restart the worker's lease is over
		t.Errorf("the tasks changed: %v, they were %v", got, tasks)
	}
	whole(t, home)
}

// An older ledger and the head record of that time agree; the journal does not.
func TestRule14_OlderLedgerAndHeadRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	must(t, Create(dir, Options{}))
	must(t, lived(t, opened(t, dir, Options{})).Close())
	paths := []string{onlyLedger(t, dir), home.Private(dir, "locks", "chain")}
	var older, newer [2][]byte
	read := func(into *[2][]byte) {
		for i, path := range paths {
			data, err := os.ReadFile(path)
			must(t, err)
			into[i] = data
		}
	}
	read(&older)
	b := opened(t, dir, Options{})
	sent(t, b, "later")
	sent(t, b, "last")
	read(&newer)
	tasks := tasksOf(t, dir)
	put := func(bytes [2][]byte) {
		for i, path := range paths {
			must(t, os.WriteFile(path, bytes[i], 0o600))
		}
	}
	put(older)
	r, err := verify.Home(t.Context(), dir, verify.Options{Deep: true})
	must(t, err)
	if !slices.ContainsFunc(r.Findings, func(f verify.Finding) bool { return f.Invariant == 10 && strings.Contains(f.What, "does not hold it") }) {
		t.Errorf("verify: %v", r.Findings)
	}
	for _, at := range []*Box{b, nil} { // one that works, and the next one
		var err error
		if at == nil {
			at, err = Open(t.Context(), dir, Options{})
		}
		if err == nil {
			err = at.Tidy(t.Context())
			at.Close()
		}
		if err != nil && !errors.Is(err, audit.ErrDamaged) {
			t.Error(err)
		}
	}
	if _, err := Recover(t.Context(), dir, Options{}, RecoverOptions{}); !errors.Is(err, audit.ErrDamaged) {
		t.Errorf("recover: %v", err)
	}
	if got := tasksOf(t, dir); !maps.Equal(tasks, got) {
		t.Errorf("the tasks changed: %v, they were %v", got, tasks)
	}
	put(newer)
	_, err = Recover(t.Context(), dir, Options{}, RecoverOptions{AfterIOError: true})
	must(t, err)
	whole(t, dir)
}

// brought tells whether the journal has brought back what the ledger had lost.
func brought(t *testing.T, home, kept string) bool {
	t.Helper()
	path := onlyLedger(t, home)
	was, err := os.ReadFile(filepath.Join(kept, "shared", filepath.Base(path)))
	must(t, err)
	is, err := os.ReadFile(path)
	must(t, err)
	return strings.HasPrefix(string(is), string(was))
}

// tasksOf is what lies in the folders of tasks: names and hashes.
func tasksOf(t *testing.T, home string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, text := range liveFiles(t, home) {
		if strings.HasPrefix(name, "tasks/") {
			out[name] = audit.Hash([]byte(text))[7:19]
		}
	}
	return out
}

// Given up by the operator, a lost ledger is followed by another that names it;
// every task, record and quarantine entry stays as it is, and the claim of a
// living worker goes on.
func TestRule21_ForgetLedger(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			h := homes{}
			b := h.open(t, Options{})
			running := lived(t, b)
			sent(t, b, "archived")
			must(t, b.Cancel(t.Context(), "archived", "human", "no"))
			end := b.ledger.End()
			must(t, put(home.Private(b.home, "tmp", "waiting~"+strings.Repeat("0", 32)), "staged, of a line that nobody can read"))
			if _, err := Recover(t.Context(), b.home, b.o, RecoverOptions{Forget: true}); !errors.Is(err, ErrConflict) {
				t.Fatalf("a ledger that is whole was forgotten: %v", err)
			}
			lose(t, b.home)
			if _, err := Recover(t.Context(), b.home, b.o, RecoverOptions{}); !errors.Is(err, audit.ErrDamaged) {
				t.Fatal(err)
			}
			tasks := tasksOf(t, b.home)
			_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{Forget: true})
			must(t, err)
			now := tasksOf(t, b.home)
			for file, sum := range tasks {
				if now[file] != sum {
					t.Errorf("%s is %q, it was %q", file, now[file], sum)
				}
			}
			if len(now) != len(tasks)+2 {
				t.Errorf("beside the staged file and its reason, %d files, there were %d", len(now), len(tasks))
			}
			r, err := verify.Home(t.Context(), b.home, verify.Options{Deep: true})
			must(t, err)
			if text := strings.Join(r.Notes, " "); len(r.Findings) > 0 || !strings.Contains(text, end.Checksum) {
				t.Errorf("%+v", r)
			}
			for id, state := range livedStates {
				if !stateIs(id, state)(t, running, nil) {
					t.Errorf("%s is not %s", id, state)
				}
			}
			again := opened(t, b.home, b.o)
			c, err := again.Claim(t.Context(), ClaimRequest{Agent: "coder"})
			must(t, err)
			must(t, c.Complete(t.Context(), Result{}))
			sent(t, again, "after")
			whole(t, b.home)
		})
	}
}

// Who may drop cannot stop the mailbox: where ledger and head record agree, a
// drop that carries a transaction is a rejected drop.
func TestRule09_DropWithTransaction(t *testing.T) {
	for _, recover := range []bool{false, true} {
		b := homes{}.open(t, Options{})
		if recover {
			sent(t, b, "x")
			anotherBoot(t, b.home)
		}
		b.drop(t, "forged.json", `{"id":"forged","task":{"title":"x"},"mbox":{"tx":"`+strings.Repeat("0", 32)+`"}}`)
		if recover {
			_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
			must(t, err)
		}
		must(t, scanNow(b))
		if !stateIs("forged", Failed)(t, b, nil) {
			t.Error("the drop was not rejected")
		}
		must(t, audit.CheckWritable(b.home))
		sent(t, b, "y")
	}
}

// The same where nothing tells any more how long the ledger was.
func TestRule09_DropWithTransactionBesideNothing(t *testing.T) {
	b := homes{}.open(t, Options{})
	sent(t, b, "x")
	must(t, b.Close())
	must(t, os.RemoveAll(home.Private(b.home)))
	b.drop(t, "forged.json", `{"id":"forged","task":{"title":"x"},"mbox":{"tx":"`+strings.Repeat("0", 32)+`"}}`)
	_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
	must(t, err)
	again := opened(t, b.home, b.o)
	must(t, scanNow(again))
	if !stateIs("forged", Failed)(t, again, nil) {
		t.Error("the drop was not rejected")
	}
}

// A process that lives through it reads the new ledger from its first line: it
// would take for drops what others send from then on.
func TestRule14_ForgottenUnderAProcess(t *testing.T) {
	for _, lose := range []string{"its files deleted", "cut", "another mailbox's"} {
		b := homes{}.open(t, Options{})
		running := lived(t, b)
		must(t, scanNow(running))
		losses[lose](t, b.home)
		_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{Forget: true})
		must(t, err)
		other := opened(t, b.home, b.o)
		sent(t, other, "after")
		must(t, scanNow(running))
		sent(t, running, "more")
		for _, id := range []ID{"after", "more"} {
			if !stateIs(id, Pending)(t, running, nil) {
				t.Errorf("%s: %s is not pending", lose, id)
			}
		}
		must(t, other.Close())
		whole(t, b.home)
	}
}

// Ledger and .mbox of an older copy agree with each other. The tasks behind them
// tell that they are not the newest, and none is changed.
func TestRule09_OlderCopyPutBack(t *testing.T) {
	b := homes{}.open(t, Options{})
	lived(t, b)
	must(t, b.Close())
	copied := func(from, to string) {
		t.Helper()
		for _, dir := range []string{".mbox", "audit"} {
			must(t, os.RemoveAll(filepath.Join(to, dir)))
			must(t, os.CopyFS(filepath.Join(to, dir), os.DirFS(filepath.Join(from, dir))))
		}
	}
	kept := t.TempDir()
	copied(b.home, kept)
	b = opened(t, b.home, b.o)
	sent(t, b, "newer")
	_, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	must(t, b.Close())
	tasks := tasksOf(t, b.home)
	copied(kept, b.home)
	if _, err := Recover(t.Context(), b.home, b.o, RecoverOptions{}); !errors.Is(err, audit.ErrDamaged) {
		t.Errorf("recover: %v", err)
	}
	if now := tasksOf(t, b.home); !maps.Equal(tasks, now) {
		t.Errorf("the tasks changed: %v, they were %v", now, tasks)
	}
	_, err = Recover(t.Context(), b.home, b.o, RecoverOptions{Forget: true})
	must(t, err)
	if now := tasksOf(t, b.home); !maps.Equal(tasks, now) {
		t.Errorf("forgotten, the tasks changed: %v, they were %v", now, tasks)
	}
}

// An artifact is what an agent wrote. It tells nothing of the ledger.
func TestRule09_ArtifactWithTransaction(t *testing.T) {
	b := lived(t, homes{}.open(t, Options{}))
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	forged := filepath.Join(t.TempDir(), "x.json")
	must(t, put(forged, `{"id":"x","mbox":{"tx":"`+strings.Repeat("0", 32)+`"}}`))
	_, err = c.Keep(t.Context(), forged)
	must(t, errors.Join(err, c.Complete(t.Context(), Result{})))
	must(t, b.Close())
	must(t, os.RemoveAll(home.Private(b.home)))
	_, err = Recover(t.Context(), b.home, b.o, RecoverOptions{})
	must(t, err)
	whole(t, b.home)
}
