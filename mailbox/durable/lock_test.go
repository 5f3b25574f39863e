package durable

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Sixteen goroutines count under one lock file, half of them by one Lock, as in one
// process: a lock object that was shared would let two of them in.
func TestLockExcludesGoroutines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var inside, count atomic.Int64 // the race detector does not see flock's order
	var wg sync.WaitGroup
	one := NewLock(path)
	for i := range 16 {
		l := one
		if i%2 == 0 {
			l = NewLock(path)
		}
		wg.Go(func() {
			for range 50 {
				if err := l.Acquire(context.Background(), 30*time.Second); err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d inside", n)
				}
				count.Add(1)
				inside.Add(-1)
				if err := l.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := count.Load(); n != 16*50 {
		t.Errorf("counted %d", n)
	}
}

func TestRule03_LockIsNeverMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := TryLock(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("lock on a missing file: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock file was made: %v", err)
	}
}

func TestRule03_BusyLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); !errors.Is(err, ErrBusy) {
		t.Errorf("second lock: %v", err)
	}
	if _, err := AcquireLock(context.Background(), path, time.Millisecond); !errors.Is(err, ErrBusy) {
		t.Errorf("waiting lock: %v", err)
	}
	if err := held.Unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	again.Unlock()
}

func TestRule08_MoveNeverReplaces(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, p := range []string{a, b} {
		if err := Stage(p, []byte(p), None); err != nil {
			t.Fatal(err)
		}
	}
	if err := Move(a, b); !errors.Is(err, os.ErrExist) {
		t.Errorf("move onto a file: %v", err)
	}
	if err := Exchange(a, b); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(a); err != nil || string(data) != b {
		t.Errorf("after the exchange a holds %q (%v)", data, err)
	}
	if err := Exchange(a, filepath.Join(dir, "c")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("exchange with nothing: %v", err)
	}
	if err := Move(filepath.Join(dir, "c"), a); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("move of nothing: %v", err)
	}
	if _, err := Create(a); !errors.Is(err, os.ErrExist) {
		t.Errorf("create over a file: %v", err)
	}
	if err := Stage(a, nil, None); !errors.Is(err, os.ErrExist) {
		t.Errorf("stage over a file: %v", err)
	}
}

// Read neither follows links nor waits for a FIFO's writer.
func TestRule09_ReadWantsRegularFiles(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := mkfifo(fifo); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{link, fifo, dir} {
		if _, err := Read(p, 10); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if _, err := Read(target, 0); !errors.Is(err, ErrTooLarge) {
		t.Errorf("read of too much: %v", err)
	}
}

// A file that somebody holds open for writing is not idle.
func TestIdle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	w, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := OpenRegular(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	idle, known := Idle(f)
	if !known {
		t.Log("this system does not tell who writes a file")
		return
	}
	if idle {
		t.Error("idle while a writer holds it")
	}
	w.Close()
	if idle, _ := Idle(f); !idle {
		t.Error("not idle after the writer has closed it")
	}
}
