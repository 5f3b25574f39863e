package action

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mbox/agents/policy"
)

// What an approval binds beside the file: the folders that images are built from,
// and those that services mount read-only. It names the SHA-256 of all that lies in
// each, and what is deployed is a copy of them with that SHA-256, which no agent can
// write: neither what happens between approval and deployment nor what is written
// later changes it. A folder that a service may write is not bound. It can only be
// named.

// Folder is a folder of the workspace that a deployment uses.
type Folder struct {
	Path   string
	SHA256 string // of all that lies in it; "" where it is not bound
}

// Folders lists the folders that the file uses, by their names, with what lies in
// them now.
func (d *DeployCompose) Folders(ctx context.Context, p *policy.Policy) ([]Folder, error) {
	project, err := d.load()
	if err != nil {
		return nil, err
	}
	var all []Folder
	s := newSeal(ctx)
	for _, used := range hostPaths(project) {
		f := Folder{Path: used.path}
		if used.readOnly {
			from, err := used.open(p)
			if err != nil {
				return nil, err
			}
			if f.SHA256, err = s.folder(from, used.path, nil); err != nil {
				return nil, err
			}
		}
		all = append(all, f)
	}
	return all, nil
}

// What may lie in the folders of one deployment.
const (
	maxEntries     = 10_000 // files, folders and symlinks
	maxFolderBytes = 256 << 20
	maxFolders     = 64 // one in another
)

// A seal makes SHA-256s of folders, within one bound for all of them, and copies
// what it reads. A folder's is that of a text with a line for each name in it, in
// their order: what it is, its rights, its path as Go quotes it, and for a file the
// SHA-256 of its bytes, for a symlink where it leads. No symlink is followed.
type seal struct {
	ctx     context.Context
	entries int
	bytes   int64
	text    hash.Hash
	name    string // of the folder
}

func newSeal(ctx context.Context) *seal {
	return &seal{ctx: ctx, entries: maxEntries, bytes: maxFolderBytes}
}

// folder is the SHA-256 of an open folder, which it closes, copied into to unless
// that is nil. The name is for what it refuses.
func (s *seal) folder(from *os.Root, name string, to *os.Root) (string, error) {
	defer from.Close()
	s.text, s.name = sha256.New(), name
	if err := s.below(from, to, "."); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(s.text.Sum(nil)), nil
}

func (s *seal) line(kind string, mode fs.FileMode, at, what string) {
	fmt.Fprintf(s.text, "%s %04o %s %s\n", kind, mode, strconv.Quote(at), strconv.Quote(what))
}

// refuse names what cannot be bound.
func (s *seal) refuse(at, why string) error {
	return denied("compose_folder", path.Join(s.name, at), why)
}

// below seals what lies in a folder. Its owner may always write it: else the copy
// could not be removed.
func (s *seal) below(from, to *os.Root, at string) error {
	info, err := from.Stat(".")
	if err != nil {
		return err
	}
	mode := info.Mode().Perm() | 0o700
	s.line("folder", mode, at, "")
	d, err := from.Open(".")
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(s.entries + 1)
	d.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := s.entry(from, to, name, path.Join(at, name)); err != nil {
			return err
		}
	}
	if to == nil {
		return nil
	}
	return to.Chmod(".", mode)
}

func (s *seal) entry(from, to *os.Root, name, at string) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if s.entries--; s.entries < 0 {
		return s.refuse(at, fmt.Sprintf("with it there are more than %d files and folders", maxEntries))
	}
	info, err := from.Lstat(name)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return s.enter(from, to, name, at)
	case info.Mode().IsRegular():
		return s.file(from, to, name, at)
	case info.Mode()&fs.ModeSymlink == 0:
		return s.refuse(at, "it is a "+kindName(info.Mode()))
	}
	target, err := from.Readlink(name)
	if err != nil {
		return err
	}
	s.line("symlink", 0, at, target)
	if to == nil {
		return nil
	}
	return to.Symlink(target, name)
}

func (s *seal) enter(from, to *os.Root, name, at string) error {
	if strings.Count(at, "/")+1 >= maxFolders {
		return s.refuse(at, fmt.Sprintf("it lies more than %d folders deep", maxFolders))
	}
	next, err := stepInto(from, name)
	if err != nil {
		return err
	}
	defer next.Close()
	if to == nil {
		return s.below(next, nil, at)
	}
	if err := to.Mkdir(name, 0o700); err != nil {
		return err
	}
	into, err := to.OpenRoot(name)
	if err != nil {
		return err
	}
	defer into.Close()
	return s.below(next, into, at)
}

func (s *seal) file(from, to *os.Root, name, at string) error {
	f, info, err := openRegular(from, name)
	if err == nil && f == nil {
		err = s.refuse(at, "it is a "+kindName(info.Mode()))
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		return s.refuse(at, "who runs it gets the rights of its owner")
	}
	sum := sha256.New()
	into := io.Writer(sum)
	if to != nil {
		out, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		defer out.Close()
		if err := out.Chmod(info.Mode().Perm()); err != nil {
			return err
		}
		into = io.MultiWriter(sum, out)
	}
	n, err := io.Copy(into, io.LimitReader(f, s.bytes+1))
	if err != nil {
		return err
	}
	if s.bytes -= n; s.bytes < 0 {
		return s.refuse(at, fmt.Sprintf("with it there are more than %d MiB", maxFolderBytes>>20))
	}
	s.line("file", info.Mode().Perm(), at, hex.EncodeToString(sum.Sum(nil)))
	return nil
}
