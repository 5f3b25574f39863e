package durable

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inFlock counts the threads of this process that wait in flock(2).
func inFlock(t *testing.T) int {
	t.Helper()
	n := 0
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		call, err := os.ReadFile("/proc/self/task/" + task.Name() + "/syscall")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			t.Skip(err)
		}
		if number, _, _ := strings.Cut(string(call), " "); number == strconv.Itoa(unix.SYS_FLOCK) {
			n++
		}
	}
	return n
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// However often somebody gives up, one thread of a process waits for a lock. Who
// asks next takes it over; and when nobody does, the lock is free after the grant.
func TestRule35_AbandonedWaiter(t *testing.T) {
	path := lockFileAt(t)
	holder, l := newLockFile(t, path), newLockFile(t, path)
	lock(t, holder)
	giveUp := func() {
		for range 20 {
			if _, err := l.Acquire(t.Context(), time.Millisecond); !errors.Is(err, ErrBusy) {
				t.Fatal(err)
			}
		}
	}
	giveUp()
	until(t, "nobody waits", func() bool { return inFlock(t) > 0 })
	if n := inFlock(t); n != 1 {
		t.Errorf("%d threads wait for one lock", n)
	}
	got := make(chan error)
	go func() {
		_, err := l.Acquire(t.Context(), time.Minute)
		got <- err
	}()
	for range 200 { // a signal ends no waiting
		if err := unix.Kill(unix.Getpid(), unix.SIGURG); err != nil {
			t.Fatal(err)
		}
	}
	if err := holder.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatalf("the waiter that was taken over: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	lock(t, holder)
	giveUp()
	if err := holder.Unlock(); err != nil {
		t.Fatal(err)
	}
	until(t, "a thread still waits", func() bool { return l.waits.state.Load() == granted })
	lock(t, holder)
	if err := holder.Unlock(); err != nil {
		t.Fatal(err)
	}
	lock(t, l)
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func lock(t *testing.T, l *LockFile) {
	t.Helper()
	if _, err := l.Acquire(t.Context(), 20*time.Second); err != nil {
		t.Fatal(err)
	}
}

// A waiter that gets the lock of a file that has lost its name waits for the one
// that bears it; and one that was left behind by such a file is not taken over.
func TestRule35_GrantOfAReplacedFile(t *testing.T) {
	path := lockFileAt(t)
	before, l := newLockFile(t, path), newLockFile(t, path)
	lock(t, before)
	got := make(chan error)
	go func() {
		_, err := l.Acquire(t.Context(), time.Minute)
		got <- err
	}()
	until(t, "nobody waits", func() bool { return inFlock(t) == 1 })
	replace := func() {
		if err := errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, FileMode)); err != nil {
			t.Fatal(err)
		}
	}
	replace()
	after := newLockFile(t, path)
	lock(t, after)
	if err := before.Unlock(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-got:
		t.Fatalf("the lock of the new file is taken: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	if err := after.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-got, l.Unlock()); err != nil {
		t.Fatal(err)
	}
	lock(t, after)
	if _, err := l.Acquire(t.Context(), time.Millisecond); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	replace()
	lock(t, l) // though after still has the old file
	if err := errors.Join(l.Unlock(), after.Unlock()); err != nil {
		t.Fatal(err)
	}
}

// Sixty-four processes' worth of lock files, with two goroutines each: everybody
// gets it, and never two at once.
func TestRule35_SixtyFourWait(t *testing.T) {
	path := lockFileAt(t)
	var inside atomic.Int64 // the race detector does not see flock's order
	var wg sync.WaitGroup
	for range 64 {
		l := newLockFile(t, path)
		for range 2 {
			wg.Go(func() {
				for range 10 {
					if _, err := l.Acquire(context.Background(), time.Minute); err != nil {
						t.Error(err)
						return
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d inside", n)
					}
					inside.Add(-1)
					if err := l.Unlock(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
}

// A holder that is stopped costs who waits his deadline, no more.
func TestRule35_StoppedHolder(t *testing.T) {
	if held := os.Getenv("MBOX_TEST_HOLD"); held != "" {
		if _, err := NewLockFile(held).Try(); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("held\n")
		select {}
	}
	path := lockFileAt(t)
	holder := exec.Command(os.Args[0], "-test.run=^TestRule35_StoppedHolder$")
	holder.Env = append(os.Environ(), "MBOX_TEST_HOLD="+path)
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Process.Kill()
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "held\n" {
		t.Fatal(said, err)
	}
	if err := holder.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l := newLockFile(t, path)
	begun := time.Now()
	var held *HeldError
	if _, err := l.Acquire(t.Context(), 30*time.Millisecond); !errors.Is(err, ErrBusy) || !errors.As(err, &held) || *held != (HeldError{path, holder.Process.Pid, true}) {
		t.Errorf("the holder is stopped: %v", err)
	}
	if _, err := AcquireLock(t.Context(), path, time.Millisecond); !errors.As(err, &held) || held.PID != holder.Process.Pid {
		t.Errorf("who has it is not named: %v", err)
	}
	if took := time.Since(begun); took < 30*time.Millisecond {
		t.Errorf("it gave up after %v", took)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	lock(t, l)
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
}
