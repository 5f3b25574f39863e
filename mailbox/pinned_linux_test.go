package mailbox

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mbox/mailbox/durable"
)

// immutable sets, or takes away, the flag of chattr +i.
func immutable(path string, on bool) error {
	const flag = 0x10 // FS_IMMUTABLE_FL of linux/fs.h
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	if flags &^= flag; on {
		flags |= flag
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags))
}

// TestRule11_PinnedDrops: what cannot be moved is left where it is, without a line, and
// keeps nothing else out. When it can be moved the next scan sees to it.
func TestRule11_PinnedDrops(t *testing.T) {
	for name, pin := range map[string]struct {
		pin, free func(path string) error
		why       durable.Pin
	}{
		"immutable":   {func(path string) error { return immutable(path, true) }, func(path string) error { return immutable(path, false) }, durable.Immutable},
		"mount point": {func(path string) error { return unix.Mount(path, path, "", unix.MS_BIND, "") }, func(path string) error { return unix.Unmount(path, 0) }, durable.Mounted},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, Options{})
			task, junk := b.pending("task.json"), b.pending("junk")
			b.drop(t, "task.json", titled(""))
			b.drop(t, "junk", "junk")
			for _, path := range []string{task, junk} {
				if err := pin.pin(path); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
					t.Skip("SKIPPED: root is missing, or its right to pin a file here:", err)
				} else if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = pin.free(path) })
			}
			b.drop(t, "good.json", titled(""))
			mustScan(t, b)
			past := time.Now().Add(-time.Minute)
			must(t, os.Chtimes(b.pending("."), past, past)) // pending has been quiet for long
			b.unpaced()
			mustScan(t, b)
			if n := len(lines(t, b, "")); n != 1 || len(lines(t, b, "good")) != 1 {
				t.Errorf("%d ledger lines", n)
			}
			names, err := Unexpected(b, Pending)
			if len(names) != 2 || err != nil {
				t.Errorf("not expected there: %q, %v", names, err)
			}
			if why, err := durable.Pinned(task); why != pin.why || err != nil {
				t.Errorf("it is left because %s, %v", why, err)
			}
			must(t, errors.Join(pin.free(task), pin.free(junk)))
			b.unpaced()
			mustScan(t, b)
			if !stateIs("task", Pending)(t, b, nil) || len(quarantine(t, b)) != 1 {
				t.Error("it was not taken in when it could be moved")
			}
		})
	}
}

// unpaced ends the pause that keeps listings in proportion.
func (b *Box) unpaced() {
	b.paces.mu.Lock()
	defer b.paces.mu.Unlock()
	p := b.paces.last[Pending]
	p.took = 0
	b.paces.last[Pending] = p
}
