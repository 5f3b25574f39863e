package mailbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/backup"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/queue"
	"mbox/schemas"
)

// Tests of single rules of the protocol: settling, recovery, backup.

// killedAtMove does what is killed when it renames a file for the n-th time:
// its line is written.
func killedAtMove(t *testing.T, n int, do func() error) {
	t.Helper()
	dead, moves := false, 0
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpMove || op == durable.OpExchange {
			moves++
		}
		if dead = dead || moves == n; dead {
			return false, errInjected
		}
		return true, nil
	})
	err := do()
	remove()
	if !dead || err == nil {
		t.Fatalf("it was not killed: %v", err)
	}
}

func sendX(t *testing.T, b *Box) func() error {
	t.Helper()
	return func() error {
		task := request("x")
		task.ID = "x"
		_, err := b.Submit(t.Context(), task)
		return err
	}
}

// What a killed process left is finished by whoever comes next, whatever he came
// for: Open, a scan, a look.
func TestRule05_KilledSendIsSeen(t *testing.T) {
	for name, come := range map[string]func(b *Box) error{
		"open": func(b *Box) error { return b.settleAll(t.Context()) },
		"scan": func(b *Box) error { _, err := b.Scan(t.Context()); return err },
		"tidy": func(b *Box) error { return b.Tidy(t.Context()) },
	} {
		b := newBox(t, Options{})
		killedAtMove(t, 1, func() error { _, err := b.Decide(t.Context(), decision("decision-2026-02-16-001")); return err })
		killedAtMove(t, 1, sendX(t, b))
		if name == "open" {
			opened(t, b.home, b.o)
		} else {
			router, err := durable.TryLock(home.Private(b.home, "locks", "routing")) // one that does not get to it
			must(t, err)
			defer router.Unlock()
			b.mu.Lock()
			b.settledAt = b.settledAt.Add(-time.Second)
			b.mu.Unlock()
			must(t, come(b))
		}
		if !stateIs("x", Pending)(t, b, nil) {
			t.Errorf("%s: it is not there", name)
		}
		if _, err := os.Lstat(b.path("decisions", "decision-2026-02-16-001.md")); err != nil { // nothing else leads there
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nobody waits for a shard that is held, and a damaged record means that
// everything is recovered.
func TestRule05_IntentThatHelpsNobody(t *testing.T) {
	b := newBox(t, Options{})
	killedAtMove(t, 1, sendX(t, b))
	other := opened(t, b.home, b.o)
	s, err := other.holdShard(t.Context(), home.Shard("x"))
	must(t, err)
	must(t, s.mark(home.Intent{Kind: "task", Name: "x", TX: strings.Repeat("1", 32), At: other.ledger.End()}))
	patient := b.o
	patient.LockWait = time.Hour
	opened(t, b.home, patient) // it does not wait
	s.unlock()
	b.slot(t, home.Shard("y"), home.SlotOf("intent task \"y\" 0 - 0 0 - 1 00000000"))
	must(t, put(home.Private(b.home, "tmp", "t9~"+strings.Repeat("0", 32)), "{}"))
	opened(t, b.home, b.o)
	if left, _ := home.StagedNames(b.home); len(left) > 0 {
		t.Errorf("not recovered: %q", left)
	}
	if all, err := b.intents.Filled(); err != nil || len(all) > 0 {
		t.Errorf("%+v (%v)", all, err)
	}
	if !stateIs("x", Pending)(t, b, nil) {
		t.Error("the task that was sent is not there")
	}
}

// Content that was torn is never put into a task's place, wherever the commit
// was cut off.
func TestRule10_TornContentIsNotPutInPlace(t *testing.T) {
	for _, c := range []struct {
		from   State
		reboot bool
	}{{None, true}, {InProgress, true}, {None, false}, {InProgress, false}} {
		from := c.from
		b := homes{}.open(t, Options{})
		do := sendX(t, b)
		if from == InProgress {
			sent(t, b, "x")
			c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
			must(t, err)
			do = func() error { return c.Complete(t.Context(), Result{}) }
		}
		killedAtMove(t, 1, do)
		names, err := home.StagedNames(b.home)
		if err != nil || len(names) != 1 {
			t.Fatalf("%q %v", names, err)
		}
		const torn = "{\n  \"id\": \"x"
		must(t, put(home.Private(b.home, "tmp", names[0]), torn))
		if c.reboot {
			anotherBoot(t, b.home)
		}
		got := steps(t, b.home, func() {
			if again, err := Open(t.Context(), b.home, b.o); err == nil {
				again.Close()
			}
		})
		if !c.reboot && (slices.Contains(got, "exchange tasks/in-progress/x.json") || slices.Contains(got, "move tasks/pending/x.json")) {
			t.Errorf("from %q: for a moment the torn bytes were in place: %q", from, got)
		}
		for name, text := range liveFiles(t, b.home) {
			if text == torn && !strings.HasPrefix(name, "tasks/quarantine/") {
				t.Errorf("from %q: the torn bytes are in %s", from, name)
			}
		}
	}
}

// A claim whose content a power cut took is voided, and its epoch stays used: a
// worker that goes on with it is refused.
func TestRule10_VoidedClaim(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	before, err := os.ReadFile(b.pending("x.json"))
	must(t, err)
	first, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	must(t, errors.Join(os.Remove(b.path("tasks", "in-progress", "x.json")), put(b.pending("x.json"), string(before))))
	anotherBoot(t, b.home)
	_, err = Recover(t.Context(), b.home, b.o, RecoverOptions{})
	must(t, err)
	second, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	if second.Task.Mbox.Epoch <= first.Task.Mbox.Epoch {
		t.Errorf("epoch %d after %d", second.Task.Mbox.Epoch, first.Task.Mbox.Epoch)
	}
	if err := first.Complete(t.Context(), Result{}); !errors.Is(err, ErrStale) {
		t.Errorf("the voided claim's result: %v", err)
	}
}

// Staged content whose line a power cut took was never acknowledged, and is kept.
func TestRule21_StagedContentOfACutLine(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "first")
	end := b.ledger.End()
	killedAtMove(t, 1, sendX(t, b))
	path := onlyLedger(t, b.home)
	data, err := os.ReadFile(path)
	must(t, err)
	clear(data[end.Offset : end.Offset+20])
	must(t, os.WriteFile(path, data, 0o600))
	anotherBoot(t, b.home)
	again := opened(t, b.home, b.o)
	if kept := quarantine(t, again); len(kept) != 1 || !strings.Contains(kept[0].Reason, "power cut") {
		t.Errorf("%+v", kept)
	}
	if _, _, err := again.Task(t.Context(), "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the task: %v", err)
	}
	whole(t, b.home)
}

// A transaction stands in a file if a whole task of that name has it, or a
// record. A file that was used again lies under another task's name, or is torn.
func TestRule16_Standing(t *testing.T) {
	b := homes{}.open(t, Options{})
	tx := func(digit string) string { return strings.Repeat(digit, 32) }
	task := func(id ID, tx string) string {
		n := request("x")
		n.ID, n.Mbox.TX = id, tx
		data, err := schemas.Encode(n)
		must(t, err)
		return string(data)
	}
	cut := func(task string) string { return task[:len(task)-4] } // without the closing braces
	month := b.path("tasks", "archive", "2026-02")
	must(t, os.Mkdir(month, 0o700))
	for path, text := range map[string]string{
		b.pending("own.json"):                               task("own", tx("1")),
		b.path("tasks", "in-progress", "other.json"):        task("someone", tx("2")),
		b.path("tasks", "completed", "torn.json"):           cut(task("torn", tx("3"))),
		b.path("tasks", "failed", "nul.json"):               cut(task("nul", tx("4"))) + strings.Repeat("\x00", 4),
		filepath.Join(month, "Archived.json"):               task("archived", tx("5")),
		b.path("tasks", "quarantine", "away.json"):          task("away", tx("6")),
		b.path("decisions", "decision-2026-02-16-001.json"): task("a-record", tx("7")),
		b.path("tasks", "completed", "ended.json"):          task("ended", tx("8")),
	} {
		must(t, put(path, text))
	}
	for digit, stands := range map[string]bool{"1": true, "2": false, "3": false, "4": false, "5": true, "6": false, "7": true, "8": true, "9": false} {
		got, err := b.evidence.Standing([]string{tx("0"), tx(digit)})
		if err != nil || (got == tx(digit)) != stands || !stands && got != "" {
			t.Errorf("%s stands: %q (%v), want %v", digit, got, err, stands)
		}
	}
}

// A home of format 1 has a folder with files that were to be used again. Nobody
// minds them, and a full recovery removes them.
func TestRecoverDropsSpares(t *testing.T) {
	for name, spare := range map[string]func(dir string) error{
		"files": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), put(filepath.Join(dir, "task-0a-3"), "{}"))
		},
		"a link": func(dir string) error { return os.Symlink("tmp", dir) },
		"none":   func(string) error { return nil },
	} {
		b := homes{}.open(t, Options{})
		sent(t, b, "x")
		dir := home.Private(b.home, "spare")
		must(t, spare(dir))
		if name != "a link" {
			whole(t, b.home)
		}
		for range 2 {
			_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
			must(t, err)
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: still there (%v)", name, err)
			}
			if _, err := os.Stat(home.Private(b.home, "tmp")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		whole(t, b.home)
	}
}

// A ledger that is damaged, not cut, makes recovery change nothing.
func TestRule21_RecoverNeedsALedger(t *testing.T) {
	clk := newClock()
	clk.at.Store(time.Date(2026, 2, 16, 10, 0, 0, 0, time.UTC).UnixNano())
	b := homes{}.open(t, clk.options())
	sent(t, b, "x")
	older := onlyLedger(t, b.home)
	clk.turn(24 * time.Hour)
	sent(t, b, "y")
	must(t, b.Close())
	data, err := os.ReadFile(older)
	must(t, err)
	data[10] ^= 1
	must(t, os.WriteFile(older, data, 0o600))
	must(t, os.Remove(b.pending("x.json")))
	must(t, put(home.Private(b.home, "tmp", "t9~"+strings.Repeat("0", 32)), "{}"))
	anotherBoot(t, b.home)
	before := liveFiles(t, b.home)
	for range 2 {
		if _, err := Recover(t.Context(), b.home, b.o, RecoverOptions{}); !errors.Is(err, audit.ErrDamaged) && !errors.Is(err, ErrReadOnly) {
			t.Errorf("recover: %v", err)
		}
	}
	if staged, _ := home.StagedNames(b.home); len(staged) != 1 || len(liveFiles(t, b.home)) != len(before) {
		t.Errorf("it has changed something: %q", staged)
	}
	if now, err := os.ReadFile(older); err != nil || !bytes.Equal(now, data) {
		t.Error("it has changed the ledger")
	}
}

// The boot record says that a recovery is at work before anything is changed,
// and that it is done after everything else.
func TestRule20_OrderOfRecovery(t *testing.T) {
	const boot = "replace .mbox/boot"
	recovers := func(home string) []string {
		return steps(t, home, func() {
			_, err := Recover(t.Context(), home, Options{Sync: durable.None}, RecoverOptions{})
			must(t, err)
		})
	}
	got := recovers(unwell(t))
	inOrder(t, "within a boot", got, boot, "remove .mbox/index", "remove .mbox/tmp/t9~TX", "remove .mbox/leases/t1.TX", boot)
	if i := slices.Index(got, boot); got[len(got)-1] != boot || slices.Contains(got[:i], "remove .mbox/index") {
		t.Errorf("%q", got)
	}
	home := unwell(t)
	anotherBoot(t, home)
	got = recovers(home)
	if i := slices.Index(got, boot); i != len(got)-1 {
		t.Errorf("after a restart: %q", got)
	}
}

// There is one recovery at a time, and who waited for another looks whether
// anything is left to do.
func TestRule20_OneRecovery(t *testing.T) {
	dir := unwell(t)
	b, err := open(t.Context(), dir, Options{Sync: durable.None, LockWait: time.Millisecond})
	must(t, err)
	defer b.Close()
	if got := steps(t, dir, func() { must(t, b.recoverAll(t.Context(), false)) }); len(got) > 0 {
		t.Errorf("nothing was left to do: %q", got)
	}
	lock, err := durable.TryLock(home.Private(dir, "locks", "recovery"))
	must(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.recoverAll(ended, true); !errors.Is(err, ErrBusy) {
		t.Errorf("beside another: %v", err)
	}
	if _, err := Recover(t.Context(), dir, b.o, RecoverOptions{}); !errors.Is(err, ErrBusy) {
		t.Errorf("beside another, asked for: %v", err)
	}
	must(t, lock.Unlock())
	s, err := b.holdShard(t.Context(), home.Shard("t9"))
	must(t, err)
	if _, err := Recover(t.Context(), dir, b.o, RecoverOptions{}); !errors.Is(err, ErrBusy) {
		t.Errorf("with the shard of a staged file held: %v", err)
	}
	s.unlock()
	_, err = Recover(t.Context(), dir, b.o, RecoverOptions{})
	must(t, err)
}

// Another boot, device or inode than the record's means that everything is
// recovered; the last two, and no record, that the home was moved or copied. The
// name of the host means nothing.
func TestRule22_HomeMoved(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *home.Boot)
		moved  bool
	}{
		"the same":       {func(*home.Boot) {}, false},
		"another boot":   {func(r *home.Boot) { r.Boot = "another" }, false},
		"another host":   {func(r *home.Boot) { r.Host = "another" }, false},
		"another device": {func(r *home.Boot) { r.Dev++ }, true},
		"another inode":  {func(r *home.Boot) { r.Inode++ }, true},
		"no record":      {func(r *home.Boot) { *r = home.Boot{} }, true},
	} {
		b := newBox(t, Options{})
		sent(t, b, "x")
		must(t, put(home.Private(b.home, "tmp", "t9~"+strings.Repeat("0", 32)), "{}"))
		now, err := home.CurrentBoot(b.home)
		must(t, err)
		was := now
		c.change(&was)
		must(t, home.WriteBoot(b.home, was, durable.None))
		again := opened(t, b.home, b.o)
		all := lines(t, again, "")
		if moved := strings.Contains(all[len(all)-1].Action, "home moved or copied"); moved != c.moved {
			t.Errorf("%s: %q", name, all[len(all)-1].Action)
		}
		staged, err := home.StagedNames(b.home)
		if recovered := len(staged) == 0; err != nil || recovered != (was != now && was.Host == "") {
			t.Errorf("%s: recovered: %v (%v)", name, recovered, err)
		}
		if is, err := home.ReadBoot(b.home); err != nil || is != now {
			t.Errorf("%s: the record is %+v (%v)", name, is, err)
		}
		must(t, durable.RemoveIfThere(home.Private(b.home, "tmp", "t9~"+strings.Repeat("0", 32))))
	}
}

// A task is archived in the month of its line, whenever that is finished; and the
// right bytes are found in any month.
func TestRule21_MonthOfTheLine(t *testing.T) {
	clk := newClock()
	clk.at.Store(time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC).UnixNano())
	b := newBox(t, clk.options())
	sent(t, b, "x")
	must(t, b.Cancel(t.Context(), "x", "human", "no"))
	killedAtMove(t, 2, func() error { _, err := b.Archive(t.Context(), 0, "human"); return err })
	clk.turn(40 * 24 * time.Hour)
	mustScan(t, b)
	in := func(month string) string { return b.path("tasks", "archive", month, "x.json") }
	data, err := os.ReadFile(in("2026-01"))
	must(t, err)
	must(t, os.Mkdir(filepath.Dir(in("2026-03")), 0o700))
	must(t, os.Rename(in("2026-01"), in("2026-03")))
	_, err = Recover(t.Context(), b.home, b.o, RecoverOptions{})
	must(t, err)
	if now, err := os.ReadFile(in("2026-01")); err != nil || !bytes.Equal(now, data) {
		t.Errorf("it is not in the month of its line (%v)", err)
	}
	if names, err := durable.Names(filepath.Dir(in("2026-03"))); err != nil || len(names) > 0 {
		t.Errorf("%q %v", names, err)
	}
}

// A backup is cut with every task's lock and then the ledger's held, takes what
// changed until then, and leaves out what is this machine's alone.
func TestRule23_BackupIsOfOneMoment(t *testing.T) {
	b := realBox(t, durable.Standard)
	b.o.LockWait = time.Millisecond
	sent(t, b, "x")
	other := opened(t, b.home, b.o)
	for _, n := range []int{0, home.Shards - 1} {
		s, err := other.holdShard(t.Context(), n)
		must(t, err)
		if _, err := b.Backup(t.Context(), io.Discard, nil, nil); !errors.Is(err, ErrBusy) {
			t.Errorf("with %s held: %v", home.ShardName(n), err)
		}
		s.unlock()
	}
	held := false
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpSync && strings.HasSuffix(path, "journal") {
			s, err := other.tryShard(context.Background(), home.Shard("x"))
			if held = errors.Is(err, ErrBusy); err == nil {
				s.unlock()
			}
			must(t, put(b.path("memory", "context", "shared_context.md"), "the last word"))
		}
		return true, nil
	})
	var packed bytes.Buffer
	r, err := b.Backup(t.Context(), &packed, nil, nil)
	remove()
	must(t, err)
	if end := b.ledger.End(); r.Seq != end.Seq || !held {
		t.Errorf("seq %d of %d; locks held: %v", r.Seq, end.Seq, held)
	}
	dir := filepath.Join(t.TempDir(), "restored")
	_, err = backup.Restore(t.Context(), &packed, dir, durable.None)
	must(t, err)
	for name, want := range map[string]string{
		"memory/context/shared_context.md": "the last word", ".mbox/boot": "", ".mbox/journal": "", ".mbox/index": "", ".mbox/readonly": "",
	} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); string(data) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q %v", name, data, err)
		}
	}
	if at := said(t, opened(t, dir, unhurried), "x"); at != Pending {
		t.Errorf("x is %s", at)
	}
	whole(t, dir)
}

// A kept index counts in its boot and mailbox only, and as long as the ledger
// goes on where it ends.
func TestRule18_KeptIndex(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	saved(t, b)
	usable := func(with *Box) bool {
		q := another(with, b.home)
		defer q.Forget()
		must(t, q.Update())
		return hasBase(q)
	}
	if !usable(b) {
		t.Fatal("it is of no use here")
	}
	path := queue.File(b.home)
	one, err := os.Lstat(path)
	must(t, err)
	saved(t, b)
	if two, err := os.Lstat(path); err != nil || !os.SameFile(one, two) {
		t.Errorf("one that is new is written again: %v", err)
	}
	if usable(&Box{books: &books{id: b.id, boot: "another", ledger: b.ledger, o: b.o}}) {
		t.Error("in another boot")
	}
	if usable(&Box{books: &books{id: strings.Repeat("0", 32), boot: b.boot, ledger: b.ledger, o: b.o}}) {
		t.Error("in another mailbox")
	}
	data, err := os.ReadFile(path)
	must(t, err)
	end := b.ledger.End().Checksum
	if bytes.Count(data, []byte(end)) != 1 {
		t.Fatalf("it does not say %s once", end)
	}
	other := bytes.Replace(data, []byte(end), []byte("sha256:"+strings.Repeat("0", 64)), 1)
	must(t, os.WriteFile(path, resealed(other), 0o600))
	if usable(b) {
		t.Error("where the ledger has another line")
	}
}
