package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// unable says that the machine lacks something.
type unable struct{ what string }

func (u *unable) Error() string { return u.what }

// attach puts a loop device before the file, with direct I/O, that detaches
// itself when nobody uses it any more: with the process that holds it, or with
// what is mounted from it.
func attach(path string) (*os.File, error) {
	backing, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer backing.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, &unable{"no loop device: " + err.Error()}
	}
	defer control.Close()
	for range 100 {
		device, err := attachFree(control, backing)
		if !errors.Is(err, unix.EBUSY) {
			return device, err
		}
	}
	return nil, errors.New("every free loop device is taken by somebody else first")
}

func attachFree(control, backing *os.File) (*os.File, error) {
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, &unable{"no free loop device: " + err.Error()}
	}
	device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
	if err != nil {
		return nil, &unable{"no loop device: " + err.Error()}
	}
	config := unix.LoopConfig{Fd: uint32(backing.Fd()), Size: blockSize}
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
	if err := unix.IoctlLoopConfigure(int(device.Fd()), &config); err != nil {
		device.Close()
		return nil, fmt.Errorf("loop device %d: %w", number, err)
	}
	return device, nil
}

// fileSystem is one that mbox is tested on.
type fileSystem struct {
	name    string
	size    int64
	mkfs    []string
	options string
}

// The journals' own timers are left as they are. nodiscard: what is freed goes
// through no other path than a write.
var fileSystems = []fileSystem{
	{"ext4", 96 << 20, []string{"mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"}, ""},
	{"xfs", 320 << 20, []string{"mkfs.xfs", "-q", "-f", "-K", "-s", "size=4096"}, "nouuid"},
	{"btrfs", 256 << 20, []string{"mkfs.btrfs", "-q", "-f", "-K"}, ""},
}

// mount mounts the disk at dir. The loop device lives as long as the mount.
func (f fileSystem) mount(path, dir string) error {
	device, err := attach(path)
	if err != nil {
		return err
	}
	defer device.Close()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount(device.Name(), dir, f.name, unix.MS_NOATIME, f.options); err != nil {
		if errors.Is(err, unix.ENODEV) {
			return &unable{"the kernel has no " + f.name}
		}
		return fmt.Errorf("mount %s: %w", f.name, err)
	}
	return nil
}

// unmount detaches dir from the tree. What still runs in there is an error, so
// it is tried until it has ended.
func unmount(dir string) error {
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if err = unix.Unmount(dir, 0); !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", filepath.Base(dir), err)
	}
	return nil
}
