package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A replay is a home as a machine has it that is about to lose its power: what
// every file and name is now, and what of that is on the disk. It is built from
// the system calls of the real binary.
//
// Names change in order, as in the journal of a file system: a power cut leaves
// a first part of the changes. A flush of a file brings its bytes to the disk,
// and the changes of names up to the last that concerns the file (lazy), or all
// (as ext4 does). Writes that no flush has covered are on the disk or not, each
// for itself; what lies before one that is there and was not written is zeros.
type replay struct {
	home    string
	lazy    bool
	ignore  *regexp.Regexp // flushes of these files are not done; nil: all are
	now     map[string]*node
	disk    map[string]*node
	pending []nameChange
}

// node is a file; the node of a folder has dir set.
type node struct {
	dir     bool
	now     []byte
	flushed []byte
	writes  []replayWrite // since the last flush
}

type replayWrite struct {
	at   int
	data []byte
	ends bool // nothing stands behind it: a truncation
}

// nameChange makes (node set), renames, exchanges or removes (to empty) a name.
type nameChange struct {
	from, to string
	made     *node
	exchange bool
}

func (c nameChange) apply(names map[string]*node) {
	switch {
	case c.made != nil:
		names[c.to] = c.made
	case c.exchange:
		names[c.from], names[c.to] = names[c.to], names[c.from]
	case c.to == "":
		delete(names, c.from)
	default:
		names[c.to] = names[c.from]
		delete(names, c.from)
	}
}

// newReplay begins with a home whose every byte is on the disk.
func newReplay(t *testing.T, home string) *replay {
	t.Helper()
	r := &replay{home: home, now: map[string]*node{}, disk: map[string]*node{}}
	err := filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == home {
			return err
		}
		n := &node{dir: e.IsDir()}
		if !n.dir {
			n.now, err = os.ReadFile(path)
			n.flushed = n.now
		}
		rel, _ := filepath.Rel(home, path)
		r.now[rel], r.disk[rel] = n, n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *replay) change(c nameChange) {
	c.apply(r.now)
	r.pending = append(r.pending, c)
}

func (r *replay) write(path string, at int, data []byte, ends bool) error {
	n := r.now[path]
	if n == nil {
		return fmt.Errorf("a write to %s, which nobody has made", path)
	}
	if at < 0 {
		at = len(n.now) // write(2): mbox appends, or writes a new file once
	}
	w := replayWrite{at, data, ends}
	n.now = w.apply(n.now)
	n.writes = append(n.writes, w)
	return nil
}

func (w replayWrite) apply(data []byte) []byte {
	if w.ends {
		data = data[:min(len(data), w.at)]
	}
	out := make([]byte, max(len(data), w.at+len(w.data)))
	copy(out, data)
	copy(out[w.at:], w.data)
	return out
}

// flushAll is a flush of the file system.
func (r *replay) flushAll() {
	for _, n := range r.now {
		n.flushed, n.writes = n.now, nil
	}
	for _, c := range r.pending {
		c.apply(r.disk)
	}
	r.pending = nil
}

func (r *replay) flush(path string) {
	if r.ignore != nil && r.ignore.MatchString(path) {
		return
	}
	n := r.now[path]
	if n == nil {
		return
	}
	n.flushed, n.writes = n.now, nil
	through := len(r.pending)
	if r.lazy {
		through = 0
		for i, c := range r.pending {
			if c.made == n || c.from == path || c.to == path || n.dir && (filepath.Dir(c.from) == path || filepath.Dir(c.to) == path) {
				through = i + 1
			}
		}
	}
	for _, c := range r.pending[:through] {
		c.apply(r.disk)
	}
	r.pending = slices.Clone(r.pending[through:])
}

// cut writes the home as a power cut at this moment leaves it to dir. keep is
// the share of what was not flushed that is on the disk. No file remembers the
// boot that it was written in.
func (r *replay) cut(dir string, keep float64, random *rand.Rand, boot string) error {
	names := map[string]*node{}
	for path, n := range r.disk {
		names[path] = n
	}
	survive := 0
	switch keep {
	case 0:
	case 1:
		survive = len(r.pending)
	default:
		survive = random.IntN(len(r.pending) + 1)
	}
	for _, c := range r.pending[:survive] {
		c.apply(names)
	}
	for path, n := range names {
		full := filepath.Join(dir, path)
		if n.dir {
			if err := os.MkdirAll(full, 0o700); err != nil {
				return err
			}
			continue
		}
		data := n.flushed
		for _, w := range n.writes {
			if random.Float64() < keep {
				data = w.apply(data)
			}
		}
		if strings.HasPrefix(path, ".mbox/") {
			data = bytes.ReplaceAll(data, []byte(boot), []byte("another-boot-"+boot[13:]))
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(full, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Reading the trace.

// replayedCalls is every call that could change a file. One of them that the
// replay does not know, on a file of the home, fails the test.
const replayedCalls = "openat,open,creat,write,writev,pwrite64,pwritev,pwritev2,rename,renameat,renameat2,link,linkat,symlink,symlinkat," +
	"unlink,unlinkat,rmdir,mkdir,mkdirat,truncate,ftruncate,fallocate,copy_file_range,sendfile,splice,fsync,fdatasync,sync_file_range,syncfs,sync"

var (
	replayedLine   = regexp.MustCompile(`^\d+ +(\w+)\((.*)\) += (\d+)`)
	replayedString = regexp.MustCompile(`"((?:\\x[0-9a-f]{2})*)"`)
	replayedFile   = regexp.MustCompile(`^\d+<((?:\\x[0-9a-f]{2})*)>(\(deleted\))?`)
	replayedOffset = regexp.MustCompile(`, (\d+)$`)
)

func unhex(text string) string {
	raw, _ := hex.DecodeString(strings.ReplaceAll(text, `\x`, ""))
	return string(raw)
}

// replayed returns the name and arguments of the calls that changed something.
func replayed(t *testing.T, file string) (calls [][]string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	halves := map[string]string{}
	for line := range strings.Lines(string(data)) {
		pid, _, _ := strings.Cut(line, " ")
		if first, ok := strings.CutSuffix(strings.TrimSpace(line), " <unfinished ...>"); ok {
			halves[pid] = first
			continue
		}
		if _, rest, ok := strings.Cut(line, " resumed>"); ok {
			line = halves[pid] + rest
		}
		m := replayedLine.FindStringSubmatch(line)
		if m == nil || m[1] == "openat" && !strings.Contains(m[2], "O_CREAT") && !strings.Contains(m[2], "O_TRUNC") {
			continue // it failed, or only opens
		}
		calls = append(calls, m[1:])
	}
	return calls
}

// step does what one call did.
func (r *replay) step(name, args string) error {
	var inHome []string
	for _, m := range replayedString.FindAllStringSubmatch(args, 2) {
		if rel, ok := strings.CutPrefix(unhex(m[1]), r.home+"/"); ok {
			inHome = append(inHome, rel)
		}
	}
	if f := replayedFile.FindStringSubmatch(args); f != nil {
		rel, ok := strings.CutPrefix(unhex(f[1]), r.home+"/")
		if !ok || f[2] != "" {
			return nil
		}
		return r.onFile(name, rel, args)
	}
	if len(inHome) == 0 {
		return nil
	}
	switch path := inHome[0]; {
	case name == "openat":
		if strings.Contains(args, "O_TRUNC") && r.now[path] != nil {
			return fmt.Errorf("%s is truncated", path)
		}
		if strings.Contains(args, "O_CREAT") && r.now[path] == nil {
			r.change(nameChange{to: path, made: &node{}})
		}
	case name == "mkdirat":
		r.change(nameChange{to: path, made: &node{dir: true}})
	case name == "unlinkat":
		r.change(nameChange{from: path})
	case strings.HasPrefix(name, "rename") && len(inHome) == 2:
		r.change(nameChange{from: path, to: inHome[1], exchange: strings.Contains(args, "RENAME_EXCHANGE")})
	default:
		return fmt.Errorf("%s of %v is not known here", name, inHome)
	}
	return nil
}

func (r *replay) onFile(name, path, args string) error {
	switch name {
	case "fsync", "fdatasync":
		r.flush(path)
		return nil
	case "syncfs":
		r.flushAll()
		return nil
	case "ftruncate":
		size, err := strconv.Atoi(replayedOffset.FindStringSubmatch(args)[1])
		if err != nil {
			return err
		}
		return r.write(path, size, nil, true)
	case "openat":
		return fmt.Errorf("a file is opened below %s, which is a descriptor", path)
	case "write", "pwrite64":
		data := replayedString.FindStringSubmatch(args)
		if data == nil {
			return fmt.Errorf("no data in a write to %s", path)
		}
		at := -1
		if name == "pwrite64" {
			at, _ = strconv.Atoi(replayedOffset.FindStringSubmatch(args)[1])
		}
		return r.write(path, at, []byte(unhex(data[1])), false)
	}
	return fmt.Errorf("%s on %s is not known here", name, path)
}
