package durable

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A spare is a file of mbox's own that has served its purpose. Its inode is used
// again instead of being freed and another one being made, which costs several
// times as much (on an ext4 without a journal a hundred times: there a new inode
// is searched for past all that were freed in the last minutes). It is used
// only if nobody else can reach it, so what is written is as private as in a
// fresh one; where that cannot be asked (macOS) there are no spares.
//
// A power cut may leave the bytes of its earlier life in it, so only content
// that recovery has from elsewhere is put there.

// Spare puts a file away for use again in the first of the places that is free,
// or removes it if none is.
func Spare(path string, places ...string) error {
	for _, spare := range places {
		err := Move(path, spare)
		if errors.Is(err, fs.ErrNotExist) && missing(spare) {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return Remove(path)
}

// missing tells whether the folder of the path does not exist: a home of an
// earlier mbox has none for spares.
func missing(path string) bool {
	var st unix.Stat_t
	return errors.Is(unix.Lstat(filepath.Dir(path), &st), unix.ENOENT)
}

// StageSpare is Stage in mode None, in the inode of a spare if one of those is
// there that nobody else can reach. Only one process at a time may take from them.
func StageSpare(path string, data []byte, spares ...string) error {
	reused := false
	err := step(OpCreate, path, func() (err error) {
		for _, spare := range spares {
			if reused, err = refill(spare, path, data); reused || err != nil {
				break
			}
		}
		return err
	})
	if err != nil || reused {
		return err
	}
	return Stage(path, data, None)
}

func refill(spare, path string, data []byte) (bool, error) {
	fd, err := open(spare, unix.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false, nil
	}
	defer unix.Close(fd)
	if !alone(fd) {
		return false, nil
	}
	if n, err := unix.Pwrite(fd, data, 0); err != nil || n != len(data) {
		return false, nil // a full disk, say: Stage will tell
	}
	if err := again(func() error { return unix.Ftruncate(fd, int64(len(data))) }); err != nil {
		return false, nil
	}
	err = again(func() error { return renameNoReplace(spare, path) })
	return err == nil, linkError("rename", spare, path, err)
}
