package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// access is how a grant may be used.
type access int

const (
	read   access = 1 << iota // open to read, list, run
	write                     // make, open to write
	remove                    // remove, rename, link
	device                    // a device file: neither run nor replaced
)

const both = read | write | remove

// grant opens a path with all below it. The path has no symlinks in it.
type grant struct {
	Path   string
	Access access
}

// scratch is the folder in a workspace that TMPDIR names.
const scratch = ".tmp"

// grants checks the rules and lists all that they open, with what programs need.
func (r Rules) grants() ([]grant, error) {
	own, err := r.own()
	if err != nil {
		return nil, err
	}
	all := slices.Concat(own, needs())
	if err := r.keepClosed(all, r.Protected); err != nil {
		return nil, err
	}
	if err := keepApart(own, all); err != nil {
		return nil, err
	}
	self, err := r.self()
	if err != nil {
		return nil, err
	}
	return slices.Concat(all, self), r.keepClosed(self, nil)
}

// self are the grants for what is of the agent itself. What stands there it may have
// put there when nothing confined it: so no symlink opens anything, and what it may
// write is one file, in a folder where it makes none.
func (r Rules) self() (all []grant, err error) {
	home, err := filepath.EvalSymlinks(r.Mailbox)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	for _, path := range r.Self {
		if at, mode := unlinked(home, r.Mailbox, path); mode.IsRegular() || mode.IsDir() {
			all = append(all, grant{at, read})
		}
	}
	if at, mode := unlinked(home, r.Mailbox, r.Memory); mode.IsRegular() {
		all = append(all, grant{at, read | write})
	}
	return all, nil
}

// unlinked is where a path in the mailbox is, and what stands there: nothing that can be
// used if it is not there, or if a symlink below home leads to it.
func unlinked(home, mailbox, path string) (at string, mode fs.FileMode) {
	rel, err := filepath.Rel(mailbox, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fs.ModeIrregular
	}
	at = filepath.Join(home, rel)
	if resolved(at) != at {
		return "", fs.ModeIrregular
	}
	info, err := os.Lstat(at)
	if err != nil {
		return "", fs.ModeIrregular
	}
	return at, info.Mode()
}

// own are the grants that the rules name.
func (r Rules) own() (all []grant, err error) {
	if !filepath.IsAbs(r.Mailbox) || !filepath.IsAbs(r.Workspace) {
		return nil, fmt.Errorf("sandbox: mailbox %q and workspace %q have to be absolute", r.Mailbox, r.Workspace)
	}
	for _, list := range []struct {
		paths  []string
		access access
	}{
		{[]string{r.Workspace}, both},
		{r.ReadWrite, both},
		{r.ReadOnly, read},
		{r.WriteOnly, write},
	} {
		for _, path := range list.paths {
			g, err := granted(path, list.access)
			switch {
			case err == nil:
				all = append(all, g)
			case !errors.Is(err, fs.ErrNotExist) || path == r.Workspace:
				return nil, err
			}
		}
	}
	return all, nil
}

func granted(path string, a access) (grant, error) {
	if !filepath.IsAbs(path) {
		return grant{}, fmt.Errorf("sandbox: %q is not absolute", path)
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return grant{}, fmt.Errorf("sandbox: %w", err)
	}
	return grant{path, a}, nil
}

// keepClosed refuses grants that lie in what is protected, or above it.
func (r Rules) keepClosed(all []grant, protected []string) error {
	var never []string
	for _, name := range []string{".mbox", "audit", "tasks/artifacts", "tasks/archive"} {
		never = append(never, filepath.Join(r.Mailbox, name))
	}
	for _, g := range all {
		closed := never
		if g.Access&(write|remove) != 0 && g.Access&device == 0 {
			closed = slices.Concat(never, protected)
		}
		for _, path := range closed {
			path = resolved(path)
			if within(path, g.Path) || within(g.Path, path) {
				return fmt.Errorf("sandbox: %s: %s %w", g.Path, path, ErrProtected)
			}
		}
	}
	return nil
}

// keepApart refuses what Landlock cannot do: it adds up the rights of a path and
// of all folders above it, so that nothing in a granted folder can be narrowed.
func keepApart(own, all []grant) error {
	for _, g := range own {
		for _, above := range all {
			if above.Access&^g.Access != 0 && within(g.Path, above.Path) {
				return fmt.Errorf("sandbox: %s (%v) and %s (%v) around it %w", g.Path, g.Access, above.Path, above.Access, ErrOverlap)
			}
		}
	}
	return nil
}

func (a access) String() string {
	switch a &^ device {
	case read:
		return "read only"
	case write:
		return "write only"
	}
	return "read and write"
}

// resolved follows the symlinks of a path of which the end may be missing.
func resolved(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return path
}

// within tells whether a path is a folder or lies in it, by name, or because
// the folder has one more name by a bind mount.
func within(path, folder string) bool {
	if path == folder || folder == "/" || strings.HasPrefix(path, folder+"/") {
		return true
	}
	info, err := os.Stat(folder)
	if err != nil || !info.IsDir() {
		return false
	}
	for ; path != "/" && path != "."; path = filepath.Dir(path) {
		if above, err := os.Stat(path); err == nil && os.SameFile(above, info) {
			return true
		}
	}
	return false
}
