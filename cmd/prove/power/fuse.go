package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// shelf is the FUSE file system: one folder, in it each disk as a file, disk-0
// and so on. Nothing of it is cached by the kernel, so that what the loop device
// writes arrives here at once and a flush as FSYNC.
type shelf struct {
	fuse.RawFileSystem

	mu    sync.Mutex
	disks map[uint64]*disk // by inode
	open  map[uint64]int   // how often
	next  uint64
	begun time.Time
}

func newShelf() *shelf {
	return &shelf{
		RawFileSystem: fuse.NewDefaultRawFileSystem(), disks: map[uint64]*disk{}, open: map[uint64]int{},
		next: fuse.FUSE_ROOT_ID + 1, begun: time.Now(),
	}
}

// mountShelf serves the shelf at dir until the process ends.
func mountShelf(s *shelf, dir string) error {
	server, err := fuse.NewServer(s, dir, &fuse.MountOptions{
		DirectMountStrict: true, FsName: "mbox-power", Name: "mbox-power",
		MaxWrite: 1 << 20, DisableXAttrs: true, DisableSplice: true,
	})
	if err != nil {
		return err
	}
	// The kernel ends a FUSE connection when the last descriptor of it is closed.
	// A child that had inherited one would keep the disks of a dead server
	// waiting for it, and wait for them itself: forever.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	go server.Serve()
	return server.WaitMount()
}

func (s *shelf) put(d *disk) (name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disks[s.next] = d
	s.next++
	return diskName(s.next - 1)
}

func diskName(inode uint64) string { return fmt.Sprintf("disk-%d", inode) }

func inodeOf(name string) uint64 {
	digits, _ := strings.CutPrefix(name, "disk-")
	n, _ := strconv.ParseUint(digits, 10, 64)
	return n
}

func (s *shelf) disk(inode uint64) *disk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disks[inode]
}

// drop forgets a disk. A disk that is still open is an error: its loop device
// has not been detached.
func (s *shelf) drop(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.open[inodeOf(name)]; n > 0 {
		return fmt.Errorf("%s is still open %d times", name, n)
	}
	delete(s.disks, inodeOf(name))
	return nil
}

func (s *shelf) attributes(inode uint64, a *fuse.Attr) fuse.Status {
	if inode == fuse.FUSE_ROOT_ID {
		*a = fuse.Attr{Ino: inode, Mode: unix.S_IFDIR | 0o700, Nlink: 2}
		return fuse.OK
	}
	d := s.disk(inode)
	if d == nil {
		return fuse.ENOENT
	}
	*a = fuse.Attr{Ino: inode, Mode: unix.S_IFREG | 0o600, Nlink: 1, Size: uint64(d.size), Blksize: blockSize}
	return fuse.OK
}

// The requests of the kernel.

func (s *shelf) Lookup(_ <-chan struct{}, _ *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	out.NodeId = inodeOf(name)
	return s.attributes(out.NodeId, &out.Attr)
}

func (s *shelf) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return s.attributes(in.NodeId, &out.Attr)
}

func (s *shelf) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	return s.attributes(in.NodeId, &out.Attr) // mkfs sets the size that it has already
}

func (s *shelf) Access(<-chan struct{}, *fuse.AccessIn) fuse.Status { return fuse.OK }

func (s *shelf) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	out.Bsize = blockSize
	return fuse.OK
}

func (s *shelf) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disks[in.NodeId] == nil {
		return fuse.ENOENT
	}
	s.open[in.NodeId]++
	out.OpenFlags = fuse.FOPEN_DIRECT_IO
	return fuse.OK
}

func (s *shelf) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[in.NodeId]--
}

func (s *shelf) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK } // of close(2)

func (s *shelf) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	d := s.disk(in.NodeId)
	if d == nil {
		return nil, fuse.ENOENT
	}
	return fuse.ReadResultData(buf[:d.read(buf[:in.Size], int64(in.Offset))]), fuse.OK
}

func (s *shelf) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	d := s.disk(in.NodeId)
	if d == nil || int64(in.Offset)+int64(len(data)) > d.size {
		return 0, fuse.Status(unix.ENOSPC)
	}
	d.write(data, int64(in.Offset))
	return uint32(len(data)), fuse.OK
}

func (s *shelf) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	d := s.disk(in.NodeId)
	if d == nil {
		return fuse.ENOENT
	}
	d.flush()
	return fuse.OK
}

// Fallocate is how a loop device discards and zeroes: both are a write of zeros,
// which a power cut may lose like any other.
func (s *shelf) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	d := s.disk(in.NodeId)
	const zeroes = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_ZERO_RANGE
	if d == nil || in.Mode&zeroes == 0 || int64(in.Offset+in.Length) > d.size {
		return fuse.Status(unix.EOPNOTSUPP)
	}
	d.write(make([]byte, in.Length), int64(in.Offset))
	return fuse.OK
}
