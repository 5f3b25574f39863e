package mailbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// TestAsNobody drops, as a user whom permissions bind, what root would get past.
func TestAsNobody(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: the other tests have run as such a user")
	}
	dir, err := os.MkdirTemp("/tmp", "mbox-nobody-") // /dev/shm may be noexec
	must(t, err)
	defer os.RemoveAll(dir)
	must(t, os.Chmod(dir, 0o755))
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip("SKIPPED: no /proc/self/exe")
	}
	bin := filepath.Join(dir, "mailbox.test")
	must(t, os.WriteFile(bin, data, 0o755))
	cmd := exec.Command(bin, "-test.run", "^TestDroppedFiles$/^(smallest|mode|folder|hard)", "-test.v")
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestDroppedFiles/mode_0000") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAgentsOfOneFolder: bridge:x and bridge_x are two agents whose copies share
// a folder's name. Both are good names, so the copies must hold.
func TestAgentsOfOneFolder(t *testing.T) {
	b := newBox(t, Options{})
	for _, agent := range []string{"bridge:x", "bridge_x", "bridge:x", "bridge_x"} {
		task := request("x")
		task.Source.Agent = agent
		_, err := b.Submit(t.Context(), task)
		must(t, err)
	}
	mustScan(t, b)
}

// TestBusyShard: what a scan could not look into, because somebody held the
// lock, it looks into the next time.
func TestBusyShard(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "t1")
	must(t, put(b.path("tasks/in-progress/stray.json"), "junk"))
	mv(t, b, "t1", Pending, InProgress)
	var locks []*durable.Lock
	for _, name := range []string{"t1", "stray"} {
		l, err := durable.TryLock(home.Private(b.Home(), "locks", home.ShardName(home.Shard(name))))
		must(t, err)
		locks = append(locks, l)
	}
	past := time.Now().Add(-time.Minute) // the folders have been quiet for long
	for _, s := range []State{Pending, InProgress} {
		must(t, os.Chtimes(b.path("tasks", string(s)), past, past))
	}
	mustScan(t, b)
	for _, l := range locks {
		must(t, l.Unlock())
	}
	b.paces.mu.Lock()
	for folder, p := range b.paces.last { // the pause that keeps listings in proportion is over
		p.took = 0
		b.paces.last[folder] = p
	}
	b.paces.mu.Unlock()
	_, err := b.Scan(t.Context())
	must(t, err)
	if n := movesOf(t, b, "t1"); n != 2 {
		t.Error("the move by hand was not adopted once the lock was free")
	}
	if n := len(quarantine(t, b)); n != 1 {
		t.Error("the stray was not put away once the lock was free")
	}
}

// TestDependencies: a task waits for those it depends on, fails with them, and
// waits for nothing without an alarm.
func TestDependencies(t *testing.T) {
	ctx := t.Context()
	open := func(t *testing.T) (*Box, *clock) {
		c := newClock()
		b := newBox(t, c.options())
		return b, c
	}
	claimable := func(t *testing.T, b *Box) (ids []ID) {
		t.Helper()
		for {
			c, err := b.Claim(ctx, ClaimRequest{Agent: "coder"})
			if errors.Is(err, ErrEmpty) {
				return ids
			}
			must(t, err)
			ids = append(ids, c.ID())
		}
	}
	end := func(t *testing.T, b *Box, how func(*Claim) error) {
		t.Helper()
		c, err := b.Claim(ctx, ClaimRequest{Agent: "coder"})
		must(t, err)
		must(t, how(c))
	}
	needs := func(ids string) string { return meta(`"depends_on":[` + ids + `]`) }
	t.Run("unknown, then known", func(t *testing.T) {
		b, clk := open(t)
		b.drop(t, "t1.json", needs(`"later"`))
		mustScan(t, b)
		if ids := claimable(t, b); len(ids) > 0 {
			t.Errorf("claimed %v", ids)
		}
		clk.turn(b.o.StartWithin + time.Second)
		for range 3 {
			mustScan(t, b)
		}
		if n := alarmsOf(t, b, "t1"); n != 1 {
			t.Errorf("%d alarms", n)
		}
		b.drop(t, "later.json", titled(""))
		mustScan(t, b)
		end(t, b, func(c *Claim) error { return c.Complete(ctx, Result{}) })
		if ids := claimable(t, b); len(ids) != 1 || ids[0] != "t1" {
			t.Errorf("after its dependency: %v", ids)
		}
	})
	t.Run("failed before", func(t *testing.T) {
		b, _ := open(t)
		b.drop(t, "bad.json", `{"task":{}}`)
		mustScan(t, b)
		b.drop(t, "t1.json", needs(`"bad"`))
		mustScan(t, b)
		task, state, err := b.Task(ctx, "t1")
		if err != nil || state != Failed || task.Result.Error.Code != "dependency_failed" {
			t.Errorf("%s %v", state, err)
		}
	})
	t.Run("fails later, and those behind it", func(t *testing.T) {
		b, _ := open(t)
		b.drop(t, "a.json", titled(""))
		b.drop(t, "b.json", needs(`"a"`))
		b.drop(t, "c.json", needs(`"b"`))
		mustScan(t, b)
		end(t, b, func(c *Claim) error { return c.Fail(ctx, Failure{Final: true}) })
		for range 3 {
			mustScan(t, b)
		}
		if !stateIs("b", Failed)(t, b, nil) || !stateIs("c", Failed)(t, b, nil) {
			t.Error("a task whose dependency failed still waits")
		}
	})
	t.Run("archived meanwhile", func(t *testing.T) {
		b, _ := open(t)
		b.drop(t, "a.json", titled(""))
		mustScan(t, b)
		end(t, b, func(c *Claim) error { return c.Complete(ctx, Result{}) })
		_, err := b.Archive(ctx, 0, "human")
		must(t, err)
		b.drop(t, "b.json", needs(`"a"`))
		mustScan(t, b)
		if ids := claimable(t, b); len(ids) != 1 {
			t.Errorf("claimed %v", ids)
		}
	})
	t.Run("named in another case", func(t *testing.T) {
		b, _ := open(t)
		b.drop(t, "t1.json", needs(`"A"`))
		b.drop(t, "a.json", titled(""))
		mustScan(t, b)
		end(t, b, func(c *Claim) error { return c.Complete(ctx, Result{}) })
		if ids := claimable(t, b); len(ids) != 1 {
			t.Errorf("its dependency is completed, claimed were %v", ids)
		}
	})
	t.Run("in a circle", func(t *testing.T) {
		b, clk := open(t)
		b.drop(t, "a.json", needs(`"b"`))
		b.drop(t, "b.json", needs(`"a"`))
		mustScan(t, b)
		clk.turn(24 * time.Hour)
		for range 3 {
			mustScan(t, b)
		}
		if ids := claimable(t, b); len(ids) > 0 {
			t.Errorf("claimed %v", ids)
		}
		failed := stateIs("a", Failed)(t, b, nil) || stateIs("b", Failed)(t, b, nil)
		if !failed && alarmsOf(t, b, "a")+alarmsOf(t, b, "b") == 0 {
			t.Error("two tasks wait for one another for ever, and nobody is told")
		}
		for id, way := range map[ID]string{"a": "a → b → a", "b": "b → a → b"} {
			for _, e := range lines(t, b, id) {
				if e.Event == audit.ErrorEvent && !strings.Contains(e.Action, "it waits for itself: "+way) {
					t.Errorf("%s", e.Action)
				}
			}
		}
	})
}

// claimerHome makes this test binary a worker: it claims in that home, prints
// id and token, and lives until it is killed. It is done in init because
// TestMain would leave the folder of a killed process behind.
const claimerHome = "MBOX_TEST_CLAIMER"

func init() {
	home := os.Getenv(claimerHome)
	if home == "" {
		return
	}
	b, err := Open(context.Background(), home, Options{Sync: durable.None})
	if err == nil {
		var c *Claim
		if c, err = b.Claim(context.Background(), ClaimRequest{Agent: "coder", Process: true}); err == nil {
			err = work(c)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// work holds the claim, and with MBOX_TEST_CHILD starts a child that holds the
// task too, as a worker's command does.
func work(c *Claim) error {
	if os.Getenv("MBOX_TEST_CHILD") != "" {
		child := exec.Command("/bin/sh", "-c", "read -r line")
		held, err := c.Hold()
		if err != nil {
			return err
		}
		defer held.Close()
		child.Stdin, child.Stdout, child.ExtraFiles = os.Stdin, os.Stdout, []*os.File{held}
		child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := child.Start(); err != nil {
			return err
		}
		if err := c.Started(child.Process.Pid); err != nil {
			return err
		}
	}
	fmt.Println(c.ID(), c.Token())
	r, w, err := os.Pipe()
	if err == nil {
		_, err = r.Read(make([]byte, 1)) // nobody writes: until it is killed
	}
	return errors.Join(err, w.Close())
}

// claimer is a worker in a process of its own.
type claimer struct {
	cmd   *exec.Cmd
	out   *bufio.Reader
	id    ID
	token string
}

func startClaimer(t *testing.T, b *Box, env ...string) *claimer {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	w := &claimer{cmd: exec.Command(exe)}
	w.cmd.Env = append(append(os.Environ(), claimerHome+"="+b.Home()), env...)
	w.cmd.Stderr = os.Stderr
	stdin, err := w.cmd.StdinPipe() // held open, so that a child of it waits
	must(t, err)
	out, err := w.cmd.StdoutPipe()
	must(t, err)
	must(t, w.cmd.Start())
	t.Cleanup(func() { w.kill(t); stdin.Close() })
	w.out = bufio.NewReader(out)
	line, err := w.out.ReadString('\n')
	must(t, err)
	_, err = fmt.Sscan(line, &w.id, &w.token)
	must(t, err)
	return w
}

func (w *claimer) kill(t *testing.T) {
	t.Helper()
	if w.cmd.ProcessState == nil {
		must(t, w.cmd.Process.Kill())
		_, _ = w.cmd.Process.Wait()
		w.cmd.ProcessState = new(os.ProcessState)
	}
}

// TestKilledWorker: the kernel frees a dead worker's lease, the next scan hands
// the task out again, and the third time it has failed.
func TestKilledWorker(t *testing.T) {
	b := newBox(t, Options{RetryBase: time.Nanosecond})
	ctx := t.Context()
	sent(t, b, "t1")
	for attempt := int64(1); attempt <= 3; attempt++ {
		w := startClaimer(t, b)
		mustScan(t, b)
		task, state, err := b.Task(ctx, "t1")
		if err != nil || state != InProgress || task.Mbox.Lease.Token != w.token {
			t.Fatalf("attempt %d: while it lives: %s %v", attempt, state, err)
		}
		w.kill(t)
		mustScan(t, b)
		task, state, err = b.Task(ctx, "t1")
		must(t, err)
		want := Pending
		if attempt == 3 {
			want = Failed
		}
		if state != want || task.Mbox.Attempt != attempt || task.Mbox.Epoch != attempt {
			t.Fatalf("attempt %d: %s, %+v", attempt, state, task.Mbox)
		}
		late(t, b, w, attempt)
	}
	task, _, err := b.Task(ctx, "t1")
	must(t, err)
	if task.Result.Error.Code != "worker_lost" {
		t.Errorf("%+v", task.Result.Error)
	}
	must(t, b.Retry(ctx, "t1", "human", "again"))
	must(t, b.Retry(ctx, "t1", "human", "again"))
	c, err := b.Claim(ctx, ClaimRequest{Agent: "coder"})
	must(t, err)
	if m := c.Task.Mbox; m.Attempt != 1 || m.Epoch != 4 {
		t.Errorf("after a retry: %+v", m)
	}
	must(t, c.Complete(ctx, Result{}))
}

// late hands in the result of a worker that has lost its task: it is refused,
// and kept as evidence.
func late(t *testing.T, b *Box, w *claimer, times int64) {
	t.Helper()
	c, err := b.Held(t.Context(), w.id, w.token)
	must(t, err)
	text := fmt.Sprintf(`"late result %d"`, times)
	if err := c.Complete(t.Context(), Result{Output: jsontext.Value(text)}); !errors.Is(err, ErrStale) {
		t.Errorf("a late result: %v", err)
	}
	found := false
	for _, r := range quarantine(t, b) {
		data, err := os.ReadFile(b.path("tasks", "quarantine", r.Entry))
		found = found || err == nil && r.Code == "late_result" && strings.Contains(string(data), text)
	}
	if !found {
		t.Error("the late result was not kept")
	}
	n := int64(0)
	for _, e := range lines(t, b, w.id) {
		if e.Event == audit.TaskLateResult {
			n++
		}
	}
	if n != times {
		t.Errorf("%d lines about late results, want %d", n, times)
	}
	if err := c.Progress(t.Context(), Progress{}); !errors.Is(err, ErrStale) {
		t.Errorf("late progress: %v", err)
	}
	if err := c.Release(t.Context(), "", 0); !errors.Is(err, ErrStale) {
		t.Errorf("late release: %v", err)
	}
}

// TestRule13_KilledWorkersChild: the child that does the work goes before the task is
// handed out again, though it holds the task.
func TestRule13_KilledWorkersChild(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "t1")
	w := startClaimer(t, b, "MBOX_TEST_CHILD=1")
	w.kill(t)
	mustScan(t, b)
	if !stateIs("t1", Pending)(t, b, nil) {
		t.Error("the task was not taken back")
	}
	gone := make(chan struct{})
	go func() {
		_, _ = w.out.ReadString(0) // the end of the child's stdout
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the child lives on")
	}
}

// TestDeadline: without a sign of life the lease is over at its deadline.
func TestDeadline(t *testing.T) {
	ctx := t.Context()
	const lease = 10 * time.Minute
	for _, process := range []bool{false, true} {
		t.Run(fmt.Sprintf("process %v", process), func(t *testing.T) {
			clk := newClock()
			o := clk.options()
			o.Lease = lease
			b := newBox(t, o)
			sent(t, b, "t1")
			c, err := b.Claim(ctx, ClaimRequest{Agent: "coder", Process: process})
			must(t, err)
			defer c.Close()
			clk.turn(lease - time.Minute)
			mustScan(t, b)
			if !stateIs("t1", InProgress)(t, b, nil) {
				t.Fatal("it was taken back before its deadline")
			}
			must(t, c.Progress(ctx, Progress{Message: "still here"}))
			clk.turn(lease - time.Minute)
			mustScan(t, b)
			if !stateIs("t1", InProgress)(t, b, nil) {
				t.Fatal("progress did not renew the lease")
			}
			must(t, c.Valid(ctx))
			clk.turn(2*time.Minute + time.Second)
			mustScan(t, b)
			task, state, err := b.Task(ctx, "t1")
			must(t, err)
			if state != Pending || task.Mbox.Attempt != 1 || task.Mbox.Epoch != 1 {
				t.Fatalf("after the deadline: %s %+v", state, task.Mbox)
			}
			if err := c.Valid(ctx); !errors.Is(err, ErrStale) {
				t.Errorf("the old claim: %v", err)
			}
			if err := c.Progress(ctx, Progress{Message: "late"}); !errors.Is(err, ErrStale) {
				t.Errorf("progress of the old claim: %v", err)
			}
			again, err := b.Claim(ctx, ClaimRequest{Agent: "coder"})
			must(t, err)
			if again.Task.Mbox.Epoch != 2 || again.Token() == c.Token() {
				t.Errorf("the next claim: %+v", again.Task.Mbox)
			}
			if err := c.Complete(ctx, Result{Output: jsontext.Value(`"late"`)}); !errors.Is(err, ErrStale) {
				t.Errorf("late: %v", err)
			}
			must(t, again.Complete(ctx, Result{}))
			if err := again.Fail(ctx, Failure{}); !errors.Is(err, ErrStale) {
				t.Errorf("failing what is completed: %v", err)
			}
		})
	}
	t.Run("renewed", func(t *testing.T) {
		clk := newClock()
		b := newBox(t, clk.options())
		sent(t, b, "t1")
		c, err := b.Claim(ctx, ClaimRequest{Agent: "coder", Process: true})
		must(t, err)
		defer c.Close()
		for range 3 {
			clk.turn(b.o.Lease - time.Minute)
			must(t, c.Renew())
			mustScan(t, b)
		}
		if !stateIs("t1", InProgress)(t, b, nil) {
			t.Error("renewing did not move the lease's end")
		}
		must(t, c.Release(ctx, "test over", 0))
	})
	t.Run("released", func(t *testing.T) {
		clk := newClock()
		b := newBox(t, clk.options())
		sent(t, b, "t1")
		c, err := b.Claim(ctx, ClaimRequest{Agent: "coder"})
		must(t, err)
		must(t, c.Release(ctx, "not now", time.Hour))
		must(t, c.Release(ctx, "not now", time.Hour)) // said again
		if _, err := b.Claim(ctx, ClaimRequest{Agent: "coder"}); !errors.Is(err, ErrEmpty) {
			t.Errorf("before its time: %v", err)
		}
		clk.turn(time.Hour)
		c, err = b.Claim(ctx, ClaimRequest{Agent: "coder"})
		must(t, err)
		if c.Task.Mbox.Attempt != 1 || c.Task.Mbox.Epoch != 2 {
			t.Errorf("a release burnt an attempt: %+v", c.Task.Mbox)
		}
	})
}
