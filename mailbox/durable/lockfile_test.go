package durable

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func lockFileAt(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, nil, FileMode); err != nil {
		t.Fatal(err)
	}
	return path
}

func newLockFile(t *testing.T, path string) *LockFile {
	t.Helper()
	l := NewLockFile(path)
	t.Cleanup(func() {
		if !t.Failed() { // then somebody may have it still, and Close would wait
			l.Close()
		}
	})
	return l
}

// Sixteen goroutines count under one file: half of them share a LockFile, as in
// one process, the others have one each, as other processes do.
func TestLockFileExcludes(t *testing.T) {
	path := lockFileAt(t)
	shared := newLockFile(t, path)
	var inside, count atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		l := shared
		if i%2 == 0 {
			l = newLockFile(t, path)
		}
		wg.Go(func() {
			for n := range 50 {
				if n%5 == 0 {
					if _, err := l.Try(); errors.Is(err, ErrBusy) {
						count.Add(1)
						continue
					} else if err != nil {
						t.Error(err)
						return
					}
				} else if _, err := l.Acquire(context.Background(), 30*time.Second); err != nil {
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

// While one has it, nobody else gets it: neither who shares the LockFile nor who
// has another one. Who waits gives up at the deadline and when told to.
func TestRule02_BusyLockFile(t *testing.T) {
	path := lockFileAt(t)
	l, other := newLockFile(t, path), newLockFile(t, path)
	if _, err := l.Acquire(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, waits := range map[string]*LockFile{"the same": l, "another": other} {
		if _, err := waits.Try(); !errors.Is(err, ErrBusy) {
			t.Errorf("%s, not waiting: %v", name, err)
		}
		if _, err := waits.Acquire(t.Context(), time.Millisecond); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s, waiting: %v", name, err)
		}
		if _, err := waits.Acquire(ctx, time.Hour); !errors.Is(err, ErrBusy) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s, told to give up: %v", name, err)
		}
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	for _, free := range []*LockFile{other, l} {
		// Who has given up above may get the lock first, and gives it back at once.
		if _, err := free.Acquire(t.Context(), 10*time.Second); err != nil {
			t.Errorf("free again: %v", err)
		} else if err := free.Unlock(); err != nil {
			t.Error(err)
		}
	}
}

// A lock file is never made, and a lock on one that has lost its name is none:
// who has the file of that name has the lock.
func TestRule03_LockFileIsTheOneOfThatName(t *testing.T) {
	path := lockFileAt(t)
	l, before := newLockFile(t, path), newLockFile(t, path)
	for _, opened := range []*LockFile{l, before} {
		if _, err := opened.Try(); err != nil {
			t.Fatal(err)
		}
		if err := opened.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := before.Try(); err != nil { // it goes on holding the old file
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, FileMode)); err != nil {
		t.Fatal(err)
	}
	after := newLockFile(t, path)
	f, err := after.Try()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Try(); !errors.Is(err, ErrBusy) {
		t.Errorf("the lock of the new file is taken: %v", err)
	}
	if err := errors.Join(before.Unlock(), after.Unlock()); err != nil {
		t.Fatal(err)
	}
	got, err := l.Try()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := fileInfo(t, f), fileInfo(t, got); !os.SameFile(a, b) {
		t.Error("it has locked the old file")
	}
	if err := errors.Join(l.Unlock(), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	for name, gone := range map[string]*LockFile{"open": l, "not open yet": newLockFile(t, path)} {
		if _, err := gone.Try(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s, and the file gone: %v", name, err)
		}
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock file was made: %v", err)
	}
	if err := os.Symlink(path+".old", path); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Try(); err == nil {
		t.Error("a symlink was followed")
	}
}

func fileInfo(t *testing.T, f *os.File) fs.FileInfo {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// A Lock, too, is taken on no file that has lost its name, nor kept: that is told
// by ErrReplaced. What is no regular file is no lock file.
func TestRule03_LockOfAReplacedFile(t *testing.T) {
	path := lockFileAt(t)
	l, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := StillHeld(l); err != nil {
		t.Error(err)
	}
	if err := errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, FileMode)); err != nil {
		t.Fatal(err)
	}
	if err := StillHeld(l); !errors.Is(err, ErrReplaced) {
		t.Errorf("the old file: %v", err)
	}
	fresh, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(fresh.Unlock(), l.Unlock(), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path+".old", path); err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a symlink: %v", err)
	}
	if err := errors.Join(os.Remove(path), mkfifo(path)); err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a FIFO: %v", err)
	}
}
