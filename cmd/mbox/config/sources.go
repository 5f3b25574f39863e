package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"mbox/mailbox/durable"
	"mbox/schemas"
)

// Dir is the folder in the home whose files that end in .toml are read like mbox.toml,
// and after it. A key, or a table with all that is in it, stands in one of these files;
// of a table of names, such as [agents], that goes for each name.
const Dir = "mbox.d"

// maxSize is how long a file of the configuration may be, in bytes; maxFiles is how
// many there may be in mbox.d.
const (
	maxSize  = 1 << 20
	maxFiles = 1000
)

// source is a file of the configuration and its text.
type source struct {
	path string // as errors name it
	name string // from the home
	data []byte
	gone bool // it is as good as put away: it tells who is dead, and sets nothing
}

// place is a line of a file of the configuration; line 0 is none of its lines.
type place struct {
	*source
	line int
}

func (p place) String() string { return fmt.Sprintf("%s:%d", p.name, p.line) }

// sources reads the files of a home's configuration; nothing where there is none.
func sources(home string) ([]source, error) {
	names, _, err := filesIn(home)
	if err != nil {
		return nil, err
	}
	var files []source
	for _, name := range append([]string{Name}, names...) {
		path := filepath.Join(home, name)
		data, err := durable.ReadLinked(path, maxSize)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		if err == nil {
			err = checkWriters(path)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, source{path: path, name: name, data: data})
	}
	return files, nil
}

// filesIn lists what is read of a home's mbox.d and what is not, from the home and
// sorted. What begins with a dot is an editor's, and is passed over.
func filesIn(home string) (read, ignored []string, err error) {
	dir := filepath.Join(home, Dir)
	entries, err := os.ReadDir(dir)
	switch info, there := os.Stat(dir); {
	case there == nil && !info.IsDir():
		return nil, nil, &Error{File: dir, Problem: "it is no folder", Hint: "its place is for files that are read like " + Name + ": call it otherwise"}
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return nil, nil, nil
	case err == nil:
		err = checkWriters(dir)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		switch name := Dir + "/" + e.Name(); {
		case strings.HasPrefix(e.Name(), "."), strings.HasSuffix(name, ".CLAUDE.md"): // of births
		case strings.HasSuffix(name, ".toml"):
			read = append(read, name)
		default:
			ignored = append(ignored, name)
		}
	}
	if len(read) > maxFiles {
		return nil, nil, &Error{File: dir, Problem: fmt.Sprintf("%d files end in .toml, at most %d may", len(read), maxFiles), Hint: "put several tables into one file"}
	}
	return read, ignored, nil
}

// Files are those that were read, from the home.
func Files(f *File) (names []string) {
	for _, s := range f.files {
		if !s.gone {
			names = append(names, s.name)
		}
	}
	return names
}

// Ignored are the entries of mbox.d that are not read now, from the home.
func Ignored(c *File) []string {
	_, ignored, _ := filesIn(c.Home()) // that it can be listed is known
	return ignored
}

// note notes on which lines the keys of a file stand, and refuses what another one has.
func note(f *origins, from *source, lines map[string]int) error {
	for _, key := range slices.SortedFunc(maps.Keys(lines), func(a, b string) int { return lines[a] - lines[b] }) {
		f.where[key] = place{from, lines[key]}
		unit := unitOf(key)
		switch at, taken := f.owners[unit]; {
		case unit == "":
		case !taken:
			f.owners[unit] = f.where[key]
		case at.source != from:
			return &Error{
				File: from.path, Line: lines[key], Problem: fmt.Sprintf("%s stands in %s, too", schemas.Sentence(unit, 100), at),
				Hint: "a key, or a table with all that is in it, stands in one file: take it out of the one or the other",
			}
		}
	}
	return nil
}

// unitOf is the part of a key that stands in one file: a table, or a key that is in
// none. Of a table of names it is each name; "" is such a table itself.
func unitOf(key string) string {
	top, rest, below := strings.Cut(key, ".")
	if field, _ := fieldOf(reflect.TypeFor[File](), top); field == nil || field.Kind() != reflect.Map {
		return top
	}
	if !below {
		return ""
	}
	name, _, _ := strings.Cut(rest, ".")
	return top + "." + name
}
