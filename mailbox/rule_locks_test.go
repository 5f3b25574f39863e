package mailbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// Tests of single rules of the protocol: locks, names and leases.

// One task has one lock, however its id is written.
func TestRule01_ShardFoldsCase(t *testing.T) {
	for n := range 50 {
		id := fmt.Sprintf("Task-%dX", n)
		if home.Shard(id) != home.Shard(strings.ToLower(id)) || home.Shard(id) != home.Shard(strings.ToUpper(id)) {
			t.Errorf("%s has several locks", id)
		}
	}
}

// keyAndID returns an idempotency key and an id of which the key's shard is the
// lower one.
func keyAndID() (key string, id ID) {
	for n := 0; ; n++ {
		key, id = fmt.Sprintf("key-%d", n), ID(fmt.Sprintf("t%d", n))
		if home.Shard("key:"+key) < home.Shard(string(id)) {
			return key, id
		}
	}
}

// A send with an idempotency key holds the key's shard and the id's, the lower
// number first, and who cannot have one is told which and who has it.
func TestRule01_SendHoldsItsShards(t *testing.T) {
	b := newBox(t, Options{LockWait: time.Millisecond})
	other := opened(t, b.home, b.o)
	key, id := keyAndID()
	task := request("with a key")
	task.ID, task.Mbox.IdempotencyKey = id, key
	low, high := home.Shard("key:"+key), home.Shard(string(id))
	for _, held := range [][]int{{low}, {high}, {low, high}} {
		var locks []*shard
		for _, n := range held {
			s, err := other.holdShard(t.Context(), n)
			must(t, err)
			must(t, s.mark(home.Intent{Kind: "note", Name: "somebody", TX: strings.Repeat("0", 32), At: other.ledger.End()}))
			locks = append(locks, s)
		}
		_, err := b.Submit(t.Context(), task)
		if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), home.ShardName(held[0])) {
			t.Errorf("with %v of %d and %d held: %v", held, low, high, err)
		}
		if want := fmt.Sprintf("held by process %d for somebody", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		for _, s := range locks {
			must(t, s.clean())
			s.unlock()
		}
	}
	if all := lines(t, b, ""); len(all) > 0 {
		t.Errorf("%d lines", len(all))
	}
	if _, err := b.Submit(t.Context(), task); err != nil {
		t.Error(err)
	}
}

// A line tells of a key by a hash that nobody can make who has not the home.
func TestRule01_KeyInTheLedger(t *testing.T) {
	b := newBox(t, Options{})
	parsed := request("with a key")
	parsed.Mbox.IdempotencyKey = "an open secret"
	first, err := b.Submit(t.Context(), parsed)
	must(t, err)
	if again, err := b.Submit(t.Context(), parsed); err != nil || again != first {
		t.Errorf("sent again: %s (%v), want %s", again, err, first)
	}
	e := lines(t, b, first)
	if len(e) != 1 {
		t.Fatalf("%d lines", len(e))
	}
	m, _ := task.MoveOf(&e[0])
	for _, plain := range []string{"an open secret", audit.Hash([]byte("an open secret")), audit.Hash([]byte("key\nan open secret"))} {
		if m.Key == "" || strings.Contains(string(e[0].Details), plain) {
			t.Errorf("the line has %q", plain)
		}
	}
}

// An id that is sent again is fine with the same content, writes nothing, and is
// refused with another one.
func TestRule07_SendAgain(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	task := request("another")
	task.ID = "X"
	if _, err := b.Submit(t.Context(), task); !errors.Is(err, ErrConflict) {
		t.Errorf("other content: %v", err)
	}
	same := lines(t, b, "x")
	sent(t, b, "x")
	if now := lines(t, b, ""); len(now) != len(same) {
		t.Errorf("%d lines, there were %d", len(now), len(same))
	}
}

// Progress that is said again once the claim is over is stale: by it a loop of signs of
// life learns that it is to stop.
func TestRule07_ProgressAgain(t *testing.T) {
	clk := newClock()
	b := newBox(t, clk.options())
	for id, end := range map[ID]func(*Claim) error{
		"cancelled": func(c *Claim) error { return b.Cancel(t.Context(), c.ID(), "human", "not wanted") },
		"completed": func(c *Claim) error { return c.Complete(t.Context(), Result{Output: []byte(`"done"`)}) },
		"reclaimed": func(*Claim) error { clk.turn(2 * b.o.Lease); _, err := b.Scan(t.Context()); return err },
	} {
		sent(t, b, id)
		c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", ID: id})
		must(t, err)
		working := Progress{Message: "working"}
		must(t, c.Progress(t.Context(), working))
		must(t, end(c))
		if err := c.Progress(t.Context(), working); !errors.Is(err, ErrStale) {
			t.Errorf("%s: %v, want %v", id, err, ErrStale)
		}
	}
}

// The drawn number of an id is a hint: one that is taken is not used again.
func TestRule01_SerialIsTried(t *testing.T) {
	b := newBox(t, Options{})
	now := b.now()
	sent(t, b, serialID(now.UTC().Format(time.DateOnly), 1))
	b.slot(t, home.SerialSlot, home.SlotOf(now.UTC().Format(time.DateOnly)+" 0"))
	id, err := b.Submit(t.Context(), request("the next"))
	if err != nil || id != serialID(now.UTC().Format(time.DateOnly), 2) {
		t.Errorf("%s (%v)", id, err)
	}
}

// A lock file that is gone is made by recovery alone.
func TestRule03_LockFileGone(t *testing.T) {
	b := newBox(t, Options{})
	path := home.Private(b.home, "locks", home.ShardName(home.Shard("x")))
	must(t, os.Remove(path))
	task := request("x")
	task.ID = "x"
	if _, err := b.Submit(t.Context(), task); !errors.Is(err, ErrIntegrity) {
		t.Errorf("without its lock: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock file was made: %v", err)
	}
	r, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
	if err != nil || r.Locks != 1 {
		t.Errorf("%+v %v", r, err)
	}
	sent(t, b, "x")
}

// Only where a rename can be told not to replace a file is a mailbox made.
func TestRule08_RenamesAreProbed(t *testing.T) {
	for name, hook := range map[string]durable.Fault{
		"no flags": func(op durable.Op, _ string) (bool, error) { return op != durable.OpMove, unlessOp(op, durable.OpMove) },
		"no exchange": func(op durable.Op, _ string) (bool, error) {
			return op != durable.OpExchange, unlessOp(op, durable.OpExchange)
		},
		"it clobbers":  func(op durable.Op, _ string) (bool, error) { return op != durable.OpMove, nil },
		"all are fine": func(durable.Op, string) (bool, error) { return true, nil },
	} {
		dir := filepath.Join(t.TempDir(), "home")
		remove := durable.SetFault(hook)
		err := Create(dir, Options{Sync: durable.None})
		remove()
		if refused := errors.Is(err, ErrFileSystem); refused != (name != "all are fine") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func unlessOp(op, bad durable.Op) error {
	if op == bad {
		return unix.EINVAL
	}
	return nil
}

// claimedWith is a claim with a lease file whose note is what change makes of it.
func claimedWith(t *testing.T, b *Box, change func(n *home.Note)) *Claim {
	t.Helper()
	sent(t, b, "x")
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: true})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	n := b.leases.NoteOf(c.Task)
	change(n)
	must(t, home.AddNote(c.lease.Path(), *n))
	return c
}

func leaseScanned(t *testing.T, b *Box, want State, when string) {
	t.Helper()
	mustScan(t, b)
	_, err := b.reclaimer.reclaimDead(t.Context(), new(leaseNotes))
	must(t, err)
	if at := said(t, b, "x"); at != want {
		t.Errorf("%s it is %s", when, at)
	}
}

// While the worker holds its lock it lives, whatever is said about it: seen from
// another PID namespace, or after another process got its number.
func TestRule13_HeldLockIsTheTruth(t *testing.T) {
	for name, change := range map[string]func(n *home.Note){
		"nothing":             func(*home.Note) {},
		"another namespace":   func(n *home.Note) { n.Namespace, n.PID, n.Start = "pid:[1]", 1<<22+1, "1" },
		"no such process":     func(n *home.Note) { n.PID, n.Start = 1<<22+1, "1" },
		"another start":       func(n *home.Note) { n.Start = "1" },
		"another host's name": func(n *home.Note) { n.Host = "another" },
		"another boot":        func(n *home.Note) { n.Boot = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, Options{})
			c := claimedWith(t, b, change)
			leaseScanned(t, b, InProgress, "while its worker lives")
			must(t, c.Close())
			leaseScanned(t, b, Pending, "when its worker has died")
		})
	}
}

// A worker is not dead because the host got another name, for recovery neither.
func TestRule13_HostRenamed(t *testing.T) {
	b := newBox(t, Options{})
	claimedWith(t, b, func(n *home.Note) { n.Host = "another" })
	was, err := home.CurrentBoot(b.home)
	must(t, err)
	was.Host = "another"
	must(t, home.WriteBoot(b.home, was, durable.None))
	again := opened(t, b.home, b.o)
	_, err = Recover(t.Context(), b.home, b.o, RecoverOptions{})
	must(t, err)
	if at := said(t, again, "x"); at != InProgress {
		t.Errorf("it is %s", at)
	}
}

// What still works on a dead worker's task holds it, until it has been ended or
// the deadline comes.
func TestRule34_LeaseOfTheChild(t *testing.T) {
	clk := newClock()
	b := newBox(t, clk.options())
	c := claimedWith(t, b, func(*home.Note) {})
	child, err := c.Hold()
	must(t, err)
	defer child.Close()
	if _, err := child.Write([]byte("{}")); err == nil || child.Truncate(1<<40) == nil {
		t.Fatal("the child can write what mbox reads")
	}
	must(t, c.Close())
	leaseScanned(t, b, InProgress, "while the child lives")
	clk.turn(b.o.Lease + time.Minute)
	leaseScanned(t, b, Pending, "after the deadline")

	clk.turn(time.Minute)
	c, err = b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: true})
	must(t, err)
	child, err = c.Hold()
	must(t, err)
	must(t, c.Close())
	leaseScanned(t, b, InProgress, "while the second child lives")
	must(t, child.Close())
	leaseScanned(t, b, Pending, "after its death")
	for _, folder := range []string{"leases", "children"} {
		if left, err := durable.Names(home.Private(b.home, folder)); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %q (%v)", folder, left, err)
		}
	}
}

// Once the process that ends them all has gone, what it did not take with it is
// waited for a moment, and holds the task until the deadline.
func TestRule34_ChildOutlivesItsEnd(t *testing.T) {
	for _, outlives := range []bool{true, false} {
		t.Run(fmt.Sprint(outlives), func(t *testing.T) {
			clk := newClock()
			b := newBox(t, clk.options())
			c := claimedWith(t, b, func(*home.Note) {})
			child, err := c.Hold()
			must(t, err)
			defer child.Close()
			cmd := exec.Command("/bin/sh", "-c", "read -r _")
			in, err := cmd.StdinPipe()
			must(t, err)
			defer in.Close()
			must(t, cmd.Start())
			must(t, c.Started(cmd.Process.Pid))
			must(t, c.Close())
			go func() {
				_ = cmd.Wait()
				if !outlives {
					time.Sleep(100 * time.Millisecond) // as the kernel may take to end a process
					child.Close()
				}
			}()
			if !outlives {
				leaseScanned(t, b, Pending, "when all have ended")
				return
			}
			leaseScanned(t, b, InProgress, "while one lives on")
			leaseScanned(t, b, InProgress, "while it still does")
			clk.turn(b.o.Lease + time.Minute)
			leaseScanned(t, b, Pending, "after the deadline")
		})
	}
}

// A sign of life from the future, of a clock that was put back or of who can set
// the time of the lease file, is one from now: it puts the deadline off by a lease.
func TestRule13_LeaseFromTheFuture(t *testing.T) {
	for _, ahead := range []time.Duration{time.Minute, 24 * 365 * time.Hour} {
		clk := newClock()
		b := newBox(t, clk.options())
		c := claimedWith(t, b, func(*home.Note) {})
		clk.turn(b.o.Lease - time.Minute)
		later := clk.now().Add(ahead)
		must(t, os.Chtimes(c.lease.Path(), later, later))
		leaseScanned(t, b, InProgress, "with a sign of life")
		clk.turn(b.o.Lease - time.Second)
		leaseScanned(t, b, InProgress, "a lease later")
		clk.turn(2 * time.Second)
		leaseScanned(t, b, Pending, "after the deadline")
	}
}

// Whatever a command makes of its own claim's files, no other task waits for it.
func TestRule34_LeaseThatIsNone(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"sparse":  func(path string) error { return os.Truncate(path, 1<<40) },
		"closed":  func(path string) error { return os.Chmod(path, 0) },
		"removed": os.Remove,
		"a symlink": func(path string) error {
			return errors.Join(os.Remove(path), os.Symlink(t.TempDir(), path))
		},
	} {
		for _, folder := range []string{"leases", "children"} {
			t.Run(name+" in "+folder, func(t *testing.T) {
				clk := newClock()
				b := newBox(t, clk.options())
				c := claimedWith(t, b, func(*home.Note) {})
				child, err := c.Hold()
				must(t, err)
				defer child.Close()
				must(t, harm(home.Private(b.home, folder, home.LeaseName(c.ID(), c.token))))
				must(t, c.Close())
				clk.turn(b.o.Lease + time.Minute)
				leaseScanned(t, b, Pending, "after the deadline")
			})
		}
	}
}

// The name of a lease file tells the token to nobody.
func TestLeaseNamesHoldNoToken(t *testing.T) {
	b := newBox(t, Options{})
	c := claimedWith(t, b, func(*home.Note) {})
	names, err := home.LeaseNames(b.home)
	must(t, err)
	sum := sha256.Sum256([]byte(c.token))
	if want := []string{"x." + hex.EncodeToString(sum[:])[:32]}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// A lease is judged only by who has the task's shard: a claim that is being made
// has a lease file before it has a line.
func TestRule13_LeaseIsJudgedUnderTheShard(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: true})
	must(t, err)
	must(t, c.Close())
	other := opened(t, b.home, b.o)
	s, err := other.lockShard(t.Context(), "x")
	must(t, err)
	before := treeOf(t, b.home)
	mustScan(t, b)
	if treeOf(t, b.home) != before {
		t.Error("it was judged all the same")
	}
	s.unlock()
	mustScan(t, b)
	if at := said(t, b, "x"); at != Pending {
		t.Errorf("it is %s", at)
	}
}

// After a restart of the machine every lease is over, those too that are a
// deadline alone; within one boot none is that its holder keeps.
func TestRule13_LeasesEndWithTheBoot(t *testing.T) {
	for _, restart := range []bool{false, true} {
		b := newBox(t, Options{})
		sent(t, b, "a")
		sent(t, b, "b")
		for _, process := range []bool{false, true} {
			c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: process})
			must(t, err)
			defer c.Close()
		}
		want := InProgress
		if restart {
			anotherBoot(t, b.home)
			want = Pending
		}
		_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
		must(t, err)
		for _, id := range []ID{"a", "b"} {
			if at := said(t, b, id); at != want {
				t.Errorf("restart %v: %s is %s", restart, id, at)
			}
		}
	}
}
