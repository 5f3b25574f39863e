package mailbox

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/backup"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/verify"
)

// asFormat1 makes a home that nobody has open one of format 1, as the mbox before
// left it.
func asFormat1(t testing.TB, dir string) {
	t.Helper()
	records := make([]string, home.Shards)
	f := home.NewIntents(dir, os.O_RDONLY)
	all, err := f.Filled()
	must(t, err)
	f.Close()
	for _, s := range all {
		records[s.Number] = summed(fmt.Sprintf("dirty %s %q %s %s %d %d %s %d", s.Kind, s.Name, s.TX, s.At.File, s.At.Offset, s.At.Seq, s.At.Checksum, s.PID))
	}
	head, err := os.ReadFile(audit.ChainPath(dir))
	must(t, err)
	if h := strings.Fields(string(head)); len(h) > 11 {
		head = []byte(summed(strings.Join(append([]string{"head"}, h[2:11]...), " ")))
	}
	v, err := home.ReadVersion(dir)
	must(t, err)
	must(t, os.RemoveAll(home.Private(dir, "locks")))
	must(t, os.Remove(home.IntentsPath(dir)))
	must(t, os.MkdirAll(home.Private(dir, "locks"), 0o700))
	must(t, os.MkdirAll(home.Private(dir, "spare"), 0o700))
	must(t, put(home.Private(dir, "spare", "task-00-0"), "{}"))
	for _, name := range home.OldNames() {
		content := ""
		if n := slices.Index(home.OldNames(), "shard-00"); strings.HasPrefix(name, "shard-") {
			content = records[slices.Index(home.OldNames(), name)-n]
		}
		must(t, put(home.LockPath(dir, name), fmt.Sprintf("%-2047s\n", content)))
	}
	must(t, os.WriteFile(home.LockPath(dir, home.OldLedger), fmt.Appendf(nil, "%-512s", head), 0o600))
	must(t, put(home.Private(dir, "VERSION"), fmt.Sprintf(`{"format": 1, "mailbox_id": %q}`, v.MailboxID)))
}

func summed(text string) string {
	return fmt.Sprintf("%s %08x\n", text, crc32.ChecksumIEEE([]byte(text)))
}

// formerly is a home of format 1 in which a transition was killed.
func formerly(t *testing.T) string {
	t.Helper()
	b := homes{}.open(t, Options{}) // nobody looks at it as at one of this format
	sent(t, b, "done")
	must(t, claimAs(t, b, "coder").Complete(t.Context(), Result{Output: []byte(`"yes"`)}))
	killedAtMove(t, 1, sendX(t, b))
	must(t, b.Close())
	asFormat1(t, b.home)
	return b.home
}

func copied1(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "home")
	if out, err := exec.Command("cp", "-a", dir, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	was, err := home.CurrentBoot(to)
	must(t, err)
	must(t, home.WriteBoot(to, was, durable.None)) // it lies where it always lay
	return to
}

var unhurried = Options{Sync: durable.None, LockWait: time.Minute}

// upgraded opens a home that was of format 1, and sees that all is well.
func upgraded(t *testing.T, dir, when string) {
	t.Helper()
	b, err := Open(t.Context(), dir, unhurried)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	defer b.Close()
	for id, want := range map[ID]State{"done": Completed, "x": Pending} {
		if at := said(t, b, id); at != want {
			t.Errorf("%s: %s is %s", when, id, at)
		}
	}
	told := 0
	for _, e := range lines(t, b, "") {
		if strings.Contains(e.Action, "from format 1 to 2") {
			told++
		}
	}
	if told == 0 {
		t.Errorf("%s: no line says that it was upgraded", when)
	}
	for _, name := range append(home.OldNames(), "../spare") {
		if _, err := os.Lstat(home.LockPath(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %s is there still (%v)", when, name, err)
		}
	}
	r, err := verify.Home(t.Context(), dir, verify.Options{})
	if err != nil || len(r.Findings)+len(r.Notes) > 0 {
		t.Errorf("%s: %v %+v %q", when, err, r.Findings, r.Notes)
	}
	sent(t, b, "more")
}

var alike = regexp.MustCompile(`[0-9a-f]{32}|-[0-9a-f]{2}$|\d+`)

// An upgrade that is killed at any step is gone on with. Before VERSION the home is
// one of format 1 as before, with all its locks.
func TestRule39_UpgradeIsGoneOnWith(t *testing.T) {
	dir := formerly(t)
	first := copied1(t, dir)
	var steps []string
	labels := map[string][]int{}
	record := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		label := fmt.Sprint(op, " ", alike.ReplaceAllString(strings.TrimPrefix(path, first), "#"))
		labels[label] = append(labels[label], len(steps))
		steps = append(steps, label)
		return true, nil
	})
	b, err := Open(t.Context(), first, unhurried)
	record()
	must(t, err)
	must(t, b.Close())
	upgraded(t, first, "not killed")
	var points []int
	for _, at := range labels {
		points = append(points, at[0], at[len(at)/2], at[len(at)-1])
	}
	slices.Sort(points)
	points = slices.Compact(points)
	if os.Getenv("MBOX_TORTURE") == "" {
		points = sample(points, 24)
	}
	for _, n := range points {
		for _, applied := range []bool{false, true} {
			if n%2 == 0 == applied && os.Getenv("MBOX_TORTURE") == "" {
				continue
			}
			when := fmt.Sprintf("killed at step %d, %s, applied %v", n, steps[n], applied)
			h := copied1(t, dir)
			i, dead := 0, false
			remove := durable.SetFault(func(durable.Op, string) (bool, error) {
				if dead {
					return false, errInjected
				}
				dead = i == n
				i++
				if dead {
					return applied, errInjected
				}
				return true, nil
			})
			b, err := Open(t.Context(), h, unhurried)
			remove()
			if err == nil {
				b.Close()
			}
			v, err := home.ReadVersion(h)
			must(t, err)
			for _, name := range home.OldNames() {
				if _, err := os.Lstat(home.LockPath(h, name)); v.Format == home.OldFormat && err != nil {
					t.Errorf("%s: format 1 without %s", when, name)
				}
			}
			upgraded(t, h, when)
		}
	}
}

// sample is n of the points, among them the first and the last.
func sample(points []int, n int) []int {
	if n >= len(points) {
		return points
	}
	var out []int
	for i := range n {
		out = append(out, points[i*(len(points)-1)/(n-1)])
	}
	return out
}

// namedHolder is what the message says of who is in the way, where the system tells.
var namedHolder = map[bool]string{true: fmt.Sprintf("process %d of an older mbox", os.Getpid()), false: "a process of an older mbox"}[runtime.GOOS == "linux"]

// Where somebody of the older mbox is at work, nothing is done, and he is named: who
// has any of its locks, a router, a worker with a lease.
func TestRule38_OldProcessesAreLeftAlone(t *testing.T) {
	dir := formerly(t)
	must(t, put(home.Private(dir, "leases", "done.0123456789abcdef0123456789abcdef"), "{}"))
	before := treeOf(t, filepath.Join(dir, "audit"))
	for _, path := range []string{
		"locks/recover", "locks/shard-00", "locks/shard-ff", "locks/delegate", "locks/ledger", "locks/router",
		"leases/done.0123456789abcdef0123456789abcdef",
	} {
		held, err := durable.TryLock(home.Private(dir, filepath.FromSlash(path)))
		must(t, err)
		for what, open := range map[string]func() error{
			"Open": func() error {
				_, err := Open(t.Context(), dir, Options{Sync: durable.None, LockWait: time.Millisecond})
				return err
			},
			"Recover": func() error {
				_, err := Recover(t.Context(), dir, Options{Sync: durable.None, LockWait: time.Millisecond}, RecoverOptions{})
				return err
			},
		} {
			err := open()
			if !errors.Is(err, ErrBusy) || !strings.Contains(fmt.Sprint(err), namedHolder) {
				t.Errorf("%s with %s held: %v", what, path, err)
			}
		}
		if v, err := home.ReadVersion(dir); err != nil || v.Format != home.OldFormat {
			t.Errorf("with %s held it is of format %d (%v)", path, v.Format, err)
		}
		must(t, held.Unlock())
	}
	if treeOf(t, filepath.Join(dir, "audit")) != before {
		t.Error("something was written")
	}
	upgraded(t, dir, "when all are gone")
}

// A home of this format in which an old lock stands is not opened while that is held.
func TestRule39_FinishedUnderTheOldLocks(t *testing.T) {
	dir := formerly(t)
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpRemove && path == home.LockPath(dir, home.OldLedger) {
			return false, errInjected
		}
		return true, nil
	})
	_, err := Open(t.Context(), dir, unhurried)
	remove()
	if v, failed := home.ReadVersion(dir); !errors.Is(err, errInjected) || failed != nil || v.Format != home.Format {
		t.Fatalf("%v, format %d (%v)", err, v.Format, failed)
	}
	held, err := durable.TryLock(home.LockPath(dir, "shard-07"))
	must(t, err)
	if _, err := Open(t.Context(), dir, Options{Sync: durable.None, LockWait: time.Millisecond}); !errors.Is(err, ErrBusy) {
		t.Errorf("with an old lock held: %v", err)
	}
	must(t, held.Unlock())
	upgraded(t, dir, "afterwards")
}

// The order: everything under its new name, VERSION, and then the ledger's old lock
// first, so that no line of the older mbox stands behind that.
func TestRule39_Order(t *testing.T) {
	dir := formerly(t)
	var steps []string
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if name, in := strings.CutPrefix(path, home.Private(dir)+"/"); in {
			steps = append(steps, fmt.Sprint(op, " ", name))
		}
		return true, nil
	})
	b, err := Open(t.Context(), dir, Options{Sync: durable.Strict, LockWait: time.Minute})
	remove()
	must(t, err)
	must(t, b.Close())
	last := -1
	for _, want := range []string{
		"sync locks/chain", "sync intents", "create locks/task-00", "create locks/task-ff", "create locks/numbers", "syncdir locks", "replace VERSION",
		"remove locks/ledger", "remove locks/shard-ff", "remove locks/recover", "syncdir locks",
	} {
		at := slices.Index(steps[last+1:], want)
		if at < 0 {
			t.Fatalf("no %q behind step %d: %q", want, last, steps)
		}
		last += at + 1
	}
}

// Who only looks refuses a home of an earlier format, and a later one is refused by
// all, with nothing changed.
func TestOtherFormats(t *testing.T) {
	dir := formerly(t)
	before := treeOf(t, dir)
	if _, err := Look(dir, unhurried); !errors.Is(err, ErrOldFormat) {
		t.Errorf("Look: %v", err)
	}
	if _, err := verify.Home(t.Context(), dir, verify.Options{}); !errors.Is(err, ErrOldFormat) {
		t.Errorf("Verify: %v", err)
	}
	v, err := home.ReadVersion(dir)
	must(t, err)
	must(t, put(home.Private(dir, "VERSION"), fmt.Sprintf(`{"format": %d, "mailbox_id": %q}`, home.Format+1, v.MailboxID)))
	later := treeOf(t, dir)
	_, opened := Open(t.Context(), dir, unhurried)
	_, recovered := Recover(t.Context(), dir, unhurried, RecoverOptions{})
	for _, err := range []error{opened, recovered} {
		if !errors.Is(err, ErrFormat) || errors.Is(err, ErrOldFormat) {
			t.Errorf("of a later format: %v", err)
		}
	}
	if now := treeOf(t, dir); now != later || before == later {
		t.Error("something was changed")
	}
}

// A backup that an older mbox made becomes a home of this format.
func TestRestoreOfFormat1(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	v, err := home.ReadVersion(b.home)
	must(t, err)
	must(t, put(home.Private(b.home, "VERSION"), fmt.Sprintf(`{"format": 1, "mailbox_id": %q}`, v.MailboxID)))
	archive := filepath.Join(t.TempDir(), "backup")
	f, err := os.Create(archive)
	must(t, err)
	_, err = b.Backup(t.Context(), f, nil, nil)
	must(t, errors.Join(err, f.Close()))
	must(t, home.WriteVersion(b.home, v.MailboxID, durable.None))
	f, err = os.Open(archive)
	must(t, err)
	defer f.Close()
	if _, err := backup.Check(context.Background(), f); err != nil {
		t.Error(err)
	}
	_, err = f.Seek(0, 0)
	must(t, err)
	to := filepath.Join(t.TempDir(), "home")
	_, err = backup.Restore(t.Context(), f, to, durable.None)
	must(t, err)
	if v, err := home.ReadVersion(to); err != nil || v.Format != home.Format || home.OldLocksStand(to) {
		t.Errorf("format %d (%v)", v.Format, err)
	}
	again := opened(t, to, unhurried)
	if at := said(t, again, "x"); at != Pending {
		t.Errorf("it is %s", at)
	}
	whole(t, to)
}
