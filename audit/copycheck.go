package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mbox/mailbox/durable"
)

// copyLook compares what the agents' copies hold when it begins with the ledger's
// lines. A copy may end before its agent's lines do, even inside one, but not
// before the place where it was noted to end.
type copyLook struct {
	*copier
	home  string
	noted ends
	there sizes
}

func lookAtCopies(ctx context.Context, home, boot string) (*copyLook, error) {
	c := &copyLook{copier: newCopier(ctx, ends{}), home: home}
	c.put = c.look
	if f, _, err := durable.OpenRegular(filepath.Join(home, ".mbox", "locks", copiesLock)); err == nil {
		c.noted = readEnds(f, boot) // before the sizes, which grow
		f.Close()
	}
	var err error
	if c.there, err = copySizes(home); errors.Is(err, fs.ErrNotExist) {
		err = nil // that the ledger is missing is told elsewhere
	}
	return c, err
}

// look compares a chunk with what is in its place.
func (c *copyLook) look(folder string, k *copyChunk) error {
	path := filepath.Join(copyDir(c.home, folder), k.end.File)
	err := isFolder(filepath.Dir(path))
	var f *os.File
	if err == nil {
		f, _, err = durable.OpenRegular(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		c.fault(folder, k.end.File, 0, "cannot be read: "+reason(err))
		return nil
	}
	defer f.Close()
	have, err := io.ReadAll(io.NewSectionReader(f, k.at(), min(int64(len(k.data)), c.there[folder][k.end.File]-k.at())))
	if err != nil || bytes.HasPrefix(k.data, have) {
		return err
	}
	same := 0
	for same < len(have) && have[same] == k.data[same] {
		same++
	}
	start := bytes.LastIndexByte(k.data[:same], '\n') + 1
	line, _, _ := bytes.Cut(k.data[start:], []byte{'\n'})
	seq, _, _, _ := skim(line) // the ledger's line: it was skimmed before
	c.fault(folder, k.end.File, lineAt(path, k.at()+int64(start)), fmt.Sprintf("is not the agent's line with seq %d", seq))
	return nil
}

// lineAt is the number of the line that begins there in a file, 0 without a file.
func lineAt(path string, offset int64) int {
	data, err := durable.Read(path, 1<<40)
	if err != nil {
		return 0
	}
	return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte{'\n'})
}

func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}

func (c *copier) fault(folder, file string, line int, what string) {
	c.differ[folder] = &Fault{Invariant: 11, File: filepath.Join("audit", folder, file), Line: line, What: what}
}

// compare finds, once all lines were gathered, the copies that hold more than those
// or lack some before others. It returns how many bytes each lacks at its end.
func (c *copier) compare(home string, there sizes) (behind map[string]int64) {
	behind = map[string]int64{}
	for _, folder := range keys(c.days, there) {
		short := ""
		for _, file := range keys(c.days[folder], there[folder]) {
			want, ours := c.days[folder][file]
			size := there[folder][file]
			line := func(file string) int { return lineAt(filepath.Join(copyDir(home, folder), file), c.days[folder][file]) }
			switch {
			case c.differ[folder] != nil:
			case !ours:
				c.fault(folder, file, 0, "the agent has no line of that day in the ledger")
			case size > want:
				c.fault(folder, file, line(file), "is a line that the ledger does not have")
			case size > 0 && short != "":
				c.fault(folder, short, line(short), fmt.Sprintf("lacks %d bytes, and %s does not", behind[folder], file))
			case size < want:
				short = cmp.Or(short, file)
				behind[folder] += want - size
			}
		}
	}
	return behind
}

// keys are those of both maps, in order.
func keys[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

// finish is compare, and finds the copies that were cut.
func (c *copyLook) finish() (behind map[string]int64, err error) {
	if err := c.flush(); err != nil {
		return nil, err
	}
	behind = c.compare(c.home, c.there)
	for folder, end := range c.noted {
		if size := c.there[folder][end.File]; folder != shared && c.differ[folder] == nil && size < end.Offset {
			c.fault(folder, end.File, lineAt(filepath.Join(copyDir(c.home, folder), end.File), size), fmt.Sprintf("has lost %d bytes that were there, up to seq %d", end.Offset-size, end.Seq))
		}
	}
	return behind, nil
}

// checkCopies gives the verdict on copies. One that looked different is compared
// again with nobody at it; where the ledger cannot be read to its end, the first
// verdict stays.
func (v *verification) checkCopies() error {
	if _, err := v.copies.finish(); err != nil {
		return err
	}
	differ := v.copies.differ
	if len(differ) > 0 {
		unlock, err := v.hold(filepath.Join(v.home, ".mbox", "locks", copiesLock))
		if err != nil {
			return err
		}
		defer unlock()
		again, err := lookAtCopies(v.ctx, v.home, v.boot)
		if err != nil {
			return err
		}
		lines := newReader(v.home, v.genesis, Position{})
		if _, err := again.run(lines, math.MaxInt64, math.MaxInt); err == nil && lines.Broken() == nil {
			if _, err := again.finish(); err != nil {
				return err
			}
			differ = again.differ
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(differ)) {
		v.fault(*differ[folder])
	}
	found, err := strangers(v.home)
	for _, name := range found {
		v.fault(Fault{Invariant: 11, File: name, What: NoDay + ", and only those belong to a copy"})
	}
	return err
}

// copyFolders lists what lies in the folders of the copies.
func copyFolders(home string) (map[string][]fs.DirEntry, error) {
	entries, err := os.ReadDir(filepath.Join(home, "audit"))
	found := map[string][]fs.DirEntry{}
	for _, e := range entries {
		if err == nil && e.IsDir() && e.Name() != shared && !strings.HasPrefix(e.Name(), ".") {
			found[e.Name()], err = os.ReadDir(copyDir(home, e.Name()))
		}
	}
	return found, err
}

// copySizes are those of the files of the copies.
func copySizes(home string) (sizes, error) {
	folders, err := copyFolders(home)
	there := sizes{}
	for _, folder := range slices.Sorted(maps.Keys(folders)) { // always the same calls in the same order
		for _, f := range folders[folder] {
			if !dayFile().MatchString(f.Name()) {
				continue
			}
			info, err := f.Info()
			if err != nil {
				return nil, err
			}
			there.set(folder, f.Name(), info.Size())
		}
	}
	return there, err
}

// strangers lists, from the home, what is named like no file of a copy in the
// folders of the copies.
func strangers(home string) (found []string, err error) {
	folders, err := copyFolders(home)
	for folder, files := range folders {
		for _, f := range files {
			if n := f.Name(); !dayFile().MatchString(strings.TrimSuffix(n, newSuffix)) && !strings.HasPrefix(n, ".") {
				found = append(found, filepath.Join("audit", folder, n))
			}
		}
	}
	slices.Sort(found)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return found, err
}
