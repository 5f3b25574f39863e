package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Whatever stands in the place of a file or folder is named, wherever on the way
// to it; what is merely missing, there already or closed is no obstacle.
func TestObstacle(t *testing.T) {
	read := func(path string) error { _, err := Read(path, 10); return err }
	write := func(path string) error { _, err := OpenFile(path, os.O_RDWR); return err }
	list := func(path string) error { _, err := OpenDir(path); return err }
	create := func(path string) error { return Stage(path, nil, None) }
	replace := func(path string) error { return Replace(path, nil, None) }
	mkdir := func(path string) error { return MkdirAll(path, None) }
	none := func(string) error { return nil }
	fifo := func(path string) error { return unix.Mkfifo(path, 0o600) }
	link := func(path string) error { return os.Symlink("nowhere", path) }
	folder := func(path string) error { return os.MkdirAll(filepath.Join(path, "full"), 0o700) }
	file := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	sparse := func(path string) error { return errors.Join(file(path), os.Truncate(path, 1<<40)) }
	for name, c := range map[string]struct {
		stands func(path string) error // at dir/x
		do     func(path string) error
		path   string // what is done with, below dir
		is     bool   // x is in the way
	}{
		"a FIFO for a file":          {fifo, read, "x", true},
		"a FIFO for one to write":    {fifo, write, "x", true},
		"a FIFO on the way":          {fifo, read, "x/y/z", true},
		"a FIFO for a folder":        {fifo, mkdir, "x", true},
		"a FIFO for a folder's":      {fifo, mkdir, "x/y", true},
		"a FIFO for a new file":      {fifo, create, "x", true},
		"a symlink to nothing":       {link, read, "x", true},
		"a symlink on the way":       {link, list, "x/y", true},
		"a folder for a file":        {folder, read, "x", true},
		"a folder to write":          {folder, write, "x", true},
		"a folder to replace":        {folder, replace, "x", true},
		"a folder for a new file":    {folder, create, "x", true},
		"a file for a folder":        {file, list, "x", true},
		"a file on the way":          {file, read, "x/y", true},
		"a sparse file":              {sparse, write, "x", true},
		"a file that is too large":   {sparse, read, "x", false},
		"a file that is there":       {file, create, "x", false},
		"nothing":                    {none, read, "x", false},
		"nothing in a folder":        {folder, read, "x/y", false},
		"what is there, as expected": {file, read, "x", false},
	} {
		dir := t.TempDir()
		x := filepath.Join(dir, "x")
		if err := c.stands(x); err != nil {
			t.Fatal(err)
		}
		err := c.do(filepath.Join(dir, c.path))
		path, is := Obstacle(err)
		if is != c.is || is && path != x {
			t.Errorf("%s: %v: %s, %v", name, err, path, is)
		}
	}
}
