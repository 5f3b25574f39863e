package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"mbox/mailbox/home"
)

// packed is what an archive holds at a path: a file, or a folder. Whether anything
// is unpacked or not, the tree of these is what lies on the disk then.
type packed struct {
	below  map[string]*packed // of a folder; nil for a file
	size   int64
	sum    string // SHA-256 in hex; "" for a folder
	end    string // the last bytes of VERSION and of a file of the ledger
	listed bool   // the manifest names it
}

func newFolder() *packed { return &packed{below: map[string]*packed{}} }

func (p *packed) isFolder() bool { return p.below != nil }

// fits tells whether a file can be called so, and whether a backup has such files.
func fits(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > 255 {
			return false
		}
	}
	return fs.ValidPath(name) && name != "." && len(name) <= 1<<12 && !strings.Contains(name, "\x00") && inBackup(filepath.FromSlash(name))
}

// at is what lies at a path; nil for nothing.
func (p *packed) at(name string) *packed {
	for part := range strings.SplitSeq(name, "/") {
		if p = p.below[part]; p == nil {
			return nil
		}
	}
	return p
}

// put makes place for a newer entry: the path may have been a file, or a folder,
// before. The folders that it lies in need no entries of their own.
func (u *unpacking) put(name string, it *packed) error {
	in := u.tree
	dir, last := path.Split(name)
	for part := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
		if part == "" {
			break // it is in none
		}
		if in.below[part] == nil {
			in.below[part] = newFolder()
		}
		if in = in.below[part]; !in.isFolder() {
			return errors.New("it lies in a file")
		}
	}
	was := in.below[last]
	if was != nil && was.isFolder() && it.isFolder() {
		return nil
	}
	in.below[last] = it
	if was == nil || u.root == nil {
		return nil
	}
	return u.root.RemoveAll(name)
}

// isHome tells what is missing for a mailbox: what it is, and that its folders
// are folders.
func (p *packed) isHome() error {
	v := p.at(home.VersionName)
	if v == nil || !v.listed {
		return errors.New("it is of no mailbox")
	}
	if _, err := home.DecodeVersion(home.VersionName, []byte(v.end)); err != nil {
		return fmt.Errorf("it is of no mailbox: %w", err)
	}
	for _, name := range home.Folders {
		for ; name != "."; name = path.Dir(name) {
			if f := p.at(name); f != nil && f.listed && !f.isFolder() {
				return fmt.Errorf("%s is no folder", name)
			}
		}
	}
	return nil
}

// dropSuperseded removes what was moved or removed while the backup was made, and
// tells whether anything is left.
func (u *unpacking) dropSuperseded(p *packed, name string) (left bool, err error) {
	left = p.listed
	for part, it := range p.below {
		stays, err := u.dropSuperseded(it, path.Join(name, part))
		if err != nil {
			return false, err
		}
		left = left || stays
	}
	if left || name == "" {
		return left, nil
	}
	return false, u.root.RemoveAll(name)
}
