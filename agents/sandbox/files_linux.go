//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"
)

// opened is a grant held by a descriptor, so that nobody can put something else
// in its path's place any more.
type opened struct {
	grant
	fd   int
	tree int // a mount of its own, not attached yet; -1 where it needs none
}

// mounts makes the file systems of this mount namespace read-only, but for what
// is granted for writing, and opens the grants.
func mounts(grants []grant) ([]opened, error) {
	dir, err := syscall.Getwd()
	if err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("mount namespace: %w", err)
	}
	all, err := openAll(grants)
	if err != nil {
		return nil, err
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &readOnly); err != nil {
		return nil, fmt.Errorf("read-only mounts: %w", err)
	}
	for _, o := range all {
		if o.tree < 0 {
			continue
		}
		if err := unix.MoveMount(o.tree, "", o.fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
			return nil, fmt.Errorf("mount %s: %w", o.Path, err)
		}
	}
	// The working directory still lies in the mount below.
	if err := unix.Chdir(dir); err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	return all, nil
}

// openAll opens the grants. What is granted for writing is mounted once more,
// unless it lies in another such grant: within one mount files can be renamed
// and linked from folder to folder.
func openAll(grants []grant) (all []opened, err error) {
	for _, g := range grants {
		o := opened{grant: g, tree: -1}
		o.fd, err = unix.Openat2(unix.AT_FDCWD, g.Path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if errors.Is(err, fs.ErrNotExist) && g.Access == read {
			continue // it was there a moment ago; now there is nothing to read
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.Path, err)
		}
		if g.writable() && !slices.ContainsFunc(grants, g.inside) {
			o.tree, err = unix.OpenTree(o.fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
			if err != nil {
				return nil, fmt.Errorf("mount %s: %w", g.Path, err)
			}
		}
		all = append(all, o)
	}
	return all, nil
}

// writable tells whether a grant needs a mount that can be written; devices do
// not, what is written to them goes into no file system.
func (g grant) writable() bool { return g.Access&write != 0 && g.Access&device == 0 }

func (g grant) inside(other grant) bool {
	return other.writable() && other.Path != g.Path && within(g.Path, other.Path)
}

// Landlock's rights. Never granted: device files, sockets with a path.
const (
	readFile  landlock.AccessFSSet = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	readDir   landlock.AccessFSSet = unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeFile landlock.AccessFSSet = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	makeIn    landlock.AccessFSSet = unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR
	removeIn  landlock.AccessFSSet = unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO
	ioctl landlock.AccessFSSet = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// rights translates: whether a grant is a folder decides which rights it can have.
func (o opened) rights() (landlock.AccessFSSet, error) {
	var s unix.Stat_t
	if err := unix.Fstat(o.fd, &s); err != nil {
		return 0, err
	}
	var rights landlock.AccessFSSet
	folder := s.Mode&unix.S_IFMT == unix.S_IFDIR
	for _, r := range []struct {
		access         access
		always, folder landlock.AccessFSSet
	}{
		{read, readFile, readDir},
		{write, writeFile, makeIn},
		{remove, 0, removeIn},
	} {
		if o.Access&r.access == 0 {
			continue
		}
		rights |= r.always
		if folder {
			rights |= r.folder
		}
	}
	if o.Access&device != 0 {
		rights = rights&^unix.LANDLOCK_ACCESS_FS_EXECUTE | ioctl
	}
	return rights, nil
}

// landlocked confines this process, for good. The set of rights is that of ABI
// 6, on newer kernels too: what came later binds sockets with a path and UDP,
// which seccomp and the namespace refuse anyway.
func landlocked(open []opened, network bool) error {
	c := landlock.V6
	if network {
		c.HandledAccessNet = 0
	}
	var rules []landlock.Rule
	for _, o := range open {
		rights, err := o.rights()
		if err != nil {
			return fmt.Errorf("%s: %w", o.Path, err)
		}
		fd := o.fd
		if o.tree >= 0 {
			fd = o.tree // it is in the path now, and covers fd
		}
		rules = append(rules, landlock.PathAccess(rights, "/proc/self/fd/"+strconv.Itoa(fd)))
	}
	if err := c.Restrict(rules...); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}
