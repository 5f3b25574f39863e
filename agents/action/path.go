package action

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"mbox/agents/policy"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

const maxPath = 200 // characters

// checkPath checks a path that an action names, without looking at the disk.
func checkPath(path string) error {
	switch {
	case path == "":
		return fault("path", schemas.CodeMissingField, "is missing", "a path")
	case utf8.RuneCountInString(path) > maxPath:
		return fault("path", schemas.CodeTooLong, fmt.Sprintf("has %d characters", utf8.RuneCountInString(path)), fmt.Sprintf("at most %d", maxPath))
	case strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fault("path", schemas.CodeBadValue, schemas.Quote(path)+" has a control character", "a path without")
	case slices.Contains(strings.Split(path, "/"), ".."):
		return fault("path", schemas.CodeBadValue, schemas.Quote(path)+" goes up by ..", "a path without ..")
	case strings.Contains(path, `\`):
		return fault("path", schemas.CodeBadValue, schemas.Quote(path)+" has a backslash", "folders divided by /")
	}
	return nil
}

// checkLocal is checkPath for paths that must lie in the workspace.
func checkLocal(path string) error {
	if err := checkPath(path); err != nil {
		return err
	}
	if !filepath.IsLocal(path) {
		return fault("path", schemas.CodeBadValue, schemas.Quote(path)+" is not relative", "a path below the workspace")
	}
	return nil
}

// enter opens the folder of a place, step by step from its root, and returns the
// name in it. No step follows a symlink, not even to another folder of the same root: what
// is opened is compared with what was looked at, so nobody can put a link there
// in between.
func enter(place policy.Place) (*os.Root, string, error) {
	dir, err := openRoot(place.Root)
	if err != nil {
		return nil, "", err
	}
	steps := strings.Split(filepath.ToSlash(filepath.Clean(place.Rel)), "/")
	for _, step := range steps[:len(steps)-1] {
		next, err := stepInto(dir, step)
		dir.Close()
		if err != nil {
			return nil, "", err
		}
		dir = next
	}
	return dir, steps[len(steps)-1], nil
}

// openRoot opens a root as the decision named it: no symlink has come there since.
func openRoot(path string) (*os.Root, error) {
	seen, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	dir, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	opened, err := dir.Stat(".")
	if err == nil && !os.SameFile(seen, opened) {
		err = throughLink(path)
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

func stepInto(dir *os.Root, name string) (*os.Root, error) {
	seen, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if seen.Mode()&fs.ModeSymlink != 0 {
		return nil, throughLink(filepath.Join(dir.Name(), name))
	}
	if !seen.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(dir.Name(), name), Err: unix.ENOTDIR}
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := next.Stat(".")
	if err == nil && !os.SameFile(seen, opened) {
		err = throughLink(filepath.Join(dir.Name(), name))
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

func throughLink(path string) error {
	return &policy.Denied{
		Rule: "path_symlink", What: schemas.Sentence(path, 2*maxPath),
		Why: "the path goes through a symlink", Hint: "name the place itself",
	}
}

// missing tells whether an error says that there is nothing of that name.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// Open opens the regular file at a place for reading. Whatever else is there, and
// what lies behind a symlink, is a *policy.Denied.
func Open(place policy.Place) (*os.File, error) {
	dir, name, err := enter(place)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, info, err := openRegular(dir, name)
	if err == nil && f == nil {
		err = notRegular(place.Rel, kindName(info.Mode()))
	}
	return f, err
}

// openRegular opens a regular file for reading, and nothing else: a FIFO does
// not hang it, a symlink and a device are refused.
func openRegular(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, info, err := durable.OpenIn(dir, name, os.O_RDONLY)
	switch {
	case !errors.Is(err, durable.ErrNotRegular):
		return f, info, err
	case info.Mode().IsRegular(): // when it was looked at
		return nil, nil, throughLink(filepath.Join(dir.Name(), name))
	}
	return nil, info, nil
}

// kindName is what people call a kind of file.
func kindName(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeSymlink != 0:
		return "symlink"
	case mode&fs.ModeNamedPipe != 0:
		return "fifo"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "other"
}

// output is what an action found, as the JSON of its result.
func output(v any) ([]byte, error) { return schemas.Encode(v) }
