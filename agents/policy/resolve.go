package policy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// foldCase is whether names that differ only in case are one name, as on the
// disks that macOS makes. (On a Mac's disk that tells them apart, a list then
// opens the other spelling too.)
var foldCase = runtime.GOOS == "darwin"

// within tells whether a path is a folder or lies below it, by whole components.
// Both are absolute and clean.
func within(path, folder string) bool {
	_, ok := below(path, folder)
	return ok
}

// below gives the way from a folder to a path in it; "." for the folder itself.
func below(path, folder string) (rel string, ok bool) {
	if folder == "" || path == "" {
		return "", false
	}
	if sameName(path, folder) {
		return ".", true
	}
	if !strings.HasSuffix(folder, "/") {
		folder += "/"
	}
	// Cut where as many components end, not as many bytes: two spellings of a
	// name need not be equally long.
	end := 0
	for range strings.Count(folder, "/") {
		next := strings.IndexByte(path[end:], '/')
		if next < 0 {
			return "", false
		}
		end += next + 1
	}
	return path[end:], end < len(path) && sameName(path[:end], folder)
}

func sameName(a, b string) bool {
	return a == b || foldCase && strings.EqualFold(a, b)
}

// maxLinks is how many symlinks one path may lead through, as in Linux.
const maxLinks = 40

var (
	errTooManyLinks = errors.New("too many symlinks")
	errNotAbsolute  = errors.New("not absolute")
)

// resolve follows every symlink in an absolute path, the last component's too,
// and gives where it leads. What does not exist is kept as it is written: unlike
// filepath.EvalSymlinks it sees where a link to something missing would create
// it. An error means that nobody can tell, and so that nothing may be allowed.
func resolve(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", errNotAbsolute
	}
	todo := parts(path)
	done, links, missing := "/", 0, false
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if name == ".." { // only from a link; done has none left
			done, missing = filepath.Dir(done), false
			continue
		}
		next := filepath.Join(done, name)
		if missing {
			done = next
			continue
		}
		target, err := leads(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
			done, missing = next, true
		case err != nil:
			return "", err
		case target == "":
			done = next
		case links == maxLinks:
			return "", errTooManyLinks
		default:
			links++
			if filepath.IsAbs(target) {
				done = "/"
			}
			todo = append(parts(target), todo...)
		}
	}
	return done, nil
}

// leads gives a symlink's target, and "" for anything else.
func leads(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return "", err
	}
	return os.Readlink(path)
}

// parts keeps "..", which in a link's target means the parent of what the
// components before it resolve to.
func parts(path string) []string {
	var out []string
	for part := range strings.SplitSeq(path, "/") {
		if part != "" && part != "." {
			out = append(out, part)
		}
	}
	return out
}
