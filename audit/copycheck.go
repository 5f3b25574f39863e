package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mbox/mailbox/durable"
)

// CopyFault is where a copy holds something else than its agent's lines.
type CopyFault struct {
	File string // path from the home
	Line int    // from 1; 0 if the file as a whole is meant
	What string
}

// CheckCopies begins to compare what the agents' copies hold now with the ledger's
// lines; it takes no lock and writes nothing. A copy may end before its agent's
// lines do, even inside one, but not before the place where it was noted to end.
func (l *Ledger) CheckCopies(ctx context.Context) (c *Copies, err error) {
	c = l.copier(ctx, ends{})
	c.looks = true
	if f, err := durable.OpenFile(CopiesPath(l.home), os.O_RDONLY); err == nil {
		c.noted = readEnds(f, l.boot) // before the sizes, which grow
		f.Close()
	}
	c.there, c.strange, err = listCopies(l.home)
	return c, err
}

// Finish tells, once all lines were added, of the copies that hold something else,
// or were cut. strange are the paths from the home of what is no file of a copy.
func (c *Copies) Finish() (differ []*CopyFault, strange []string, err error) {
	if err := errors.Join(c.flush(), c.compare()); err != nil {
		return nil, nil, err
	}
	for folder, end := range c.noted {
		if size := c.there[folder][end.File]; folder != shared && c.differ[folder] == nil && size < end.Offset {
			c.fault(folder, end.File, c.lineAt(folder, end.File, size), fmt.Sprintf("has lost %d bytes that were there, up to seq %d", end.Offset-size, end.Seq))
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(c.differ)) {
		differ = append(differ, c.differ[folder])
	}
	return differ, c.strange, nil
}

// compare finds, once all lines were taken, the copies that hold more than those
// or lack some before others.
func (c *Copies) compare() (err error) {
	if c.there == nil {
		c.there, _, err = listCopies(c.l.home)
	}
	c.lacks = map[string]int64{}
	for _, folder := range keys(c.days, c.there) {
		short := ""
		for _, file := range keys(c.days[folder], c.there[folder]) {
			want, ours := c.days[folder][file]
			size := c.there[folder][file]
			line := func(file string) int { return c.lineAt(folder, file, c.days[folder][file]) }
			switch {
			case c.differ[folder] != nil:
			case !ours:
				c.fault(folder, file, 0, "the agent has no line of that day in the ledger")
			case size > want:
				c.fault(folder, file, line(file), "is a line that the ledger does not have")
			case size > 0 && short != "":
				c.fault(folder, short, line(short), fmt.Sprintf("lacks %d bytes, and %s does not", c.lacks[folder], file))
			case size < want:
				short = cmp.Or(short, file)
				c.lacks[folder] += want - size
			}
		}
	}
	return err
}

// keys are those of both maps, in order.
func keys[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

// differs notes the line of a chunk that is not what the copy has there.
func (c *Copies) differs(folder string, k *copyChunk, have []byte) {
	same := 0
	for same < len(have) && have[same] == k.data[same] {
		same++
	}
	start := bytes.LastIndexByte(k.data[:same], '\n') + 1
	line, _, _ := bytes.Cut(k.data[start:], []byte{'\n'})
	seq, _, _, _ := skim(line) // the ledger's line: it was skimmed before
	c.fault(folder, k.end.File, c.lineAt(folder, k.end.File, k.at()+int64(start)), fmt.Sprintf("is not the agent's line with seq %d", seq))
}

func (c *Copies) fault(folder, file string, line int, what string) {
	c.differ[folder] = &CopyFault{File: filepath.Join("audit", folder, file), Line: line, What: what}
}

// lineAt is the number of the line that begins there in a file, 0 without a file.
func (c *Copies) lineAt(folder, file string, offset int64) int {
	data, err := durable.Read(c.path(folder, file), 1<<40)
	if err != nil {
		return 0
	}
	return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte{'\n'})
}

func reason(err error) string {
	if at, is := errors.AsType[*fs.PathError](err); is {
		return at.Err.Error()
	}
	return err.Error()
}

// listCopies are the sizes of the files of the copies, and the paths from the home
// of what is named like none in their folders.
func listCopies(home string) (there sizes, strange []string, err error) {
	there = sizes{}
	folders, err := os.ReadDir(filepath.Join(home, "audit"))
	if errors.Is(err, fs.ErrNotExist) {
		return there, nil, nil // that the ledger is missing is told elsewhere
	}
	for _, e := range folders {
		if err != nil || !e.IsDir() || e.Name() == shared || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		var files []fs.DirEntry
		files, err = os.ReadDir(copyDir(home, e.Name()))
		for _, f := range files {
			switch n := f.Name(); {
			case IsDay(n):
				info, failed := f.Info()
				if failed != nil {
					return nil, nil, failed
				}
				there.set(e.Name(), n, info.Size())
			case !IsDay(strings.TrimSuffix(n, newSuffix)) && !strings.HasPrefix(n, "."):
				strange = append(strange, filepath.Join("audit", e.Name(), n))
			}
		}
	}
	return there, strange, err
}
