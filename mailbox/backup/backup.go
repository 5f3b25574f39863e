// Package backup copies a mailbox into an archive while everything runs, and makes a
// mailbox of one.
//
// The archive is one stream, a zstd-compressed tar. A file that changed while it was
// made stands in it again, further back, so that tar alone ends with the newest bytes;
// one that went away stays in it. The last entry, .mbox/manifest, says what counts, and
// what is not in it and why (see manifest.go).
package backup

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// Source is the mailbox that is copied.
type Source struct {
	Home     string
	ID       string // the mailbox's
	Now      func() time.Time
	Progress func(what string, done, total int64)
	// Still calls do while nobody changes a task or appends a line: with all task
	// locks held, and then the ledger's, which is flushed and ends at end.
	Still func(ctx context.Context, do func(end audit.Position) error) error
	// Instead has, by paths from the home, the files whose bytes go into the archive in
	// the place of those that lie there: copies of what cannot be copied while it is in
	// use. "" leaves the file out.
	Instead map[string]string
	// Texts has, by paths from the home, what goes into the archive in the place of the
	// bytes of files that lie there, and shall lie in no other file.
	Texts map[string][]byte
}

// open opens what has the bytes of a file of the home.
func (s *Source) open(name string) (*os.File, fs.FileInfo, error) {
	if other := s.Instead[name]; other != "" {
		return durable.OpenRegular(other)
	}
	return durable.OpenRegularBelow(s.Home, name)
}

// tree is the folders below a home. An agent may put a link in the place of any that it
// can write to while they are read: none is followed. Those above the last one stay open,
// so that it is found from there, however deep it lies.
type tree struct {
	home string
	open []folder
}

type folder struct {
	*os.File
	path string
}

// Close leaves it to the tree.
func (folder) Close() error { return nil }

func (f folder) above(path string) bool {
	return f.path == "." && path != "." || strings.HasPrefix(path, f.path+"/")
}

const mostOpen = 64 // folders

func (t *tree) Open(path string) (fs.File, error) {
	n := len(t.open)
	for ; n > 0 && !t.open[n-1].above(path); n-- {
		t.open[n-1].File.Close()
	}
	if t.open = t.open[:n]; n == mostOpen {
		t.open[0].File.Close()
		t.open = t.open[1:]
	}
	f, err := t.find(path)
	if err != nil {
		return nil, err
	}
	t.open = append(t.open, folder{f, path})
	return t.open[len(t.open)-1], nil
}

func (t *tree) find(path string) (f *os.File, err error) {
	n := len(t.open)
	if n == 0 {
		f, _, err = durable.OpenBelow(t.home, path)
		return f, err
	}
	last := t.open[n-1]
	f, _, err = durable.OpenFrom(last.File, strings.TrimPrefix(path, last.path+"/"))
	return f, err
}

func (t *tree) close() {
	for _, f := range t.open {
		f.File.Close()
	}
}

// leavesOut tells whether a path is in no backup.
func (s *Source) leavesOut(name string) bool {
	other, instead := s.Instead[name]
	return !inBackup(name) || instead && other == ""
}

// Write writes the mailbox while everything runs, and what it writes is the mailbox as
// it was at one moment: the files come first, then again those that changed meanwhile,
// until few are left. The last round and the cut of the ledger are made while all
// stands still. Nothing is in it that a power cut could still take back.
//
// What cannot be read, is no regular file or is sparse is named and stops nothing.
//
// A plain copy of a running home is no backup.
func Write(ctx context.Context, w io.Writer, from Source) (Report, error) {
	z, err := zstd.NewWriter(w)
	if err != nil {
		return Report{}, err
	}
	c := &copying{from: from, t: tar.NewWriter(z), have: map[string]copied{}}
	if f, ok := w.(*os.File); ok {
		c.target, _ = f.Stat()
	}
	err = c.rounds(ctx)
	if err == nil {
		err = c.manifest()
	}
	if err != nil {
		_ = z.Close() // without a manifest it is no backup
		return c.report, err
	}
	return c.report, errors.Join(c.t.Close(), z.Close())
}

// copying is a home that is being written into an archive, round by round.
type copying struct {
	from   Source
	t      *tar.Writer
	target fs.FileInfo       // of the archive, which may lie in the home; nil if it is no file
	have   map[string]copied // by path; that of a folder ends in /
	still  bool              // all stands still: this is the last round
	held   []file            // open: they are to be written when the locks are free
	later  []file            // to be read only then
	report Report
}

// copied is a path that has been dealt with.
type copied struct {
	line  manifestLine
	stamp stamp
	round int // in which it was last seen
}

// stamp tells whether a file is still the one that was copied.
type stamp struct{ inode, size, changed int64 }

func stampOf(info fs.FileInfo) stamp {
	return stamp{int64(durable.StatOf(info).Ino), info.Size(), info.ModTime().UnixNano()}
}

// file is one whose bytes are not in the archive yet.
type file struct {
	name string
	info fs.FileInfo
	size int64 // of the bytes
	io.ReadCloser
}

const (
	few     = 200  // changed files that the last round, which stops the world, may have
	maxHeld = 1000 // descriptors
)

func (c *copying) rounds(ctx context.Context) error {
	for range 8 {
		if n, err := c.round(ctx); err != nil {
			return err
		} else if n <= few {
			break
		}
	}
	err := c.release(ctx, c.from.Still(ctx, func(end audit.Position) error {
		c.report.Seq, c.report.Checksum = end.Seq, end.Checksum
		c.still = true
		_, err := c.round(ctx)
		return err
	}))
	c.still = false
	for _, it := range c.later {
		if err == nil {
			err = c.put(ctx, it)
		}
	}
	return err
}

// round puts every file into the archive that is new or has changed, and forgets what
// is gone. It returns how many those were.
func (c *copying) round(ctx context.Context) (n int, err error) {
	c.report.Rounds++
	folders := &tree{home: c.from.Home}
	defer folders.close()
	err = fs.WalkDir(folders, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case name == ".":
			return err
		case c.from.leavesOut(name) && e.IsDir():
			return fs.SkipDir
		case c.from.leavesOut(name):
			return nil
		case err != nil:
			return c.unread(file{name: name + "/"}, err) // a folder: its names
		}
		info, err := e.Info()
		if other := c.from.Instead[name]; err == nil && other != "" {
			info, err = os.Lstat(other)
		}
		if err != nil && e.IsDir() {
			return cmp.Or(c.unread(file{name: name + "/"}, err), fs.SkipDir) // such as one too deep
		}
		if err != nil {
			return c.unread(file{name: name}, err)
		}
		changed, err := c.see(name, info)
		if changed {
			n++
			err = c.put(ctx, file{name: name, info: info})
		}
		return errors.Join(err, ctx.Err())
	})
	for name, was := range c.have {
		if was.round != c.report.Rounds {
			delete(c.have, name)
		}
	}
	return n, err
}

// inBackup leaves out what of .mbox means nothing elsewhere, which is all but
// the mailbox's identity and its keys. (Without the boot record a restored home
// is recovered in full; what the journal has stands in the files.)
func inBackup(name string) bool {
	top, rest, _ := strings.Cut(name, "/")
	return top != ".mbox" || rest == "" || rest == "VERSION" || rest == "keys" || strings.HasPrefix(rest, "keys/")
}

// see looks at a path. It tells whether that is a file whose bytes are not in the
// archive yet.
func (c *copying) see(name string, info fs.FileInfo) (changed bool, err error) {
	switch {
	case c.target != nil && os.SameFile(info, c.target):
		return false, nil
	case !utf8.ValidString(name):
		c.skip(file{name: name}, "its name is not UTF-8", false)
		return false, nil
	case info.IsDir():
		name += "/"
		_, there := c.have[name]
		c.have[name] = copied{line: manifestLine{Path: name}, round: c.report.Rounds}
		if there {
			return false, nil
		}
		return false, c.header(name, 0, info)
	case !info.Mode().IsRegular():
		c.skip(file{name: name}, "it is a "+durable.KindOf(info.Mode()), false)
		return false, nil
	}
	was, there := c.have[name]
	if !there || was.stamp != stampOf(info) {
		return true, nil
	}
	was.round = c.report.Rounds
	c.have[name] = was
	return false, nil
}

// put writes a file. In the last round it is only opened: no transition changes its
// bytes in place, they are only added to, so they can be read when the locks are free,
// and whoever takes the archive at the other end of a pipe holds nobody up. What agents
// keep in their own folders no lock protects: that is not even opened before.
func (c *copying) put(ctx context.Context, it file) (err error) {
	if c.still && strings.HasPrefix(it.name, "agents/") {
		c.later = append(c.later, it)
		return nil
	}
	if text, given := c.from.Texts[it.name]; given {
		it.size, it.ReadCloser = int64(len(text)), io.NopCloser(bytes.NewReader(text))
	} else if f, info, err := c.from.open(it.name); err != nil {
		return c.unread(it, err)
	} else {
		it.info, it.size, it.ReadCloser = info, info.Size(), f
	}
	c.held = append(c.held, it)
	if c.still && len(c.held) < maxHeld {
		return nil
	}
	return c.release(ctx, nil)
}

// release writes the files that are held, unless something has failed, and closes them.
func (c *copying) release(ctx context.Context, err error) error {
	for _, it := range c.held {
		if err == nil {
			err = c.write(ctx, it)
		}
		it.Close()
	}
	c.held = nil
	return err
}

// write writes a file as long as it was when it was opened. What is missing when it
// was cut meanwhile, or cannot be read, is made up by zeros.
func (c *copying) write(ctx context.Context, it file) error {
	sum, piece := sha256.New(), make([]byte, 256<<10)
	if err := c.header(it.name, it.size, it.info); err != nil {
		return err
	}
	var failed error
	for left := it.size; left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := 0
		piece = piece[:min(left, int64(len(piece)))]
		if failed == nil {
			n, failed = io.ReadFull(it, piece)
		}
		clear(piece[n:])
		sum.Write(piece)
		if _, err := c.t.Write(piece); err != nil {
			return err
		}
		left -= int64(len(piece))
	}
	if failed != nil && !errors.Is(failed, io.EOF) && !errors.Is(failed, io.ErrUnexpectedEOF) {
		return c.unread(it, failed)
	}
	line := manifestLine{Path: it.name, Size: it.size, SHA256: hex.EncodeToString(sum.Sum(nil))}
	c.have[it.name] = copied{line, stampOf(it.info), c.report.Rounds}
	c.from.Progress("packing", int64(len(c.have)), 0)
	return nil
}

// unread notes a path that cannot be read. What is gone is no fault, and what
// this process lacks (descriptors, memory) is one of its own.
func (c *copying) unread(it file, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case durable.Lacking(err):
		return err
	}
	if of, is := errors.AsType[*fs.PathError](err); is {
		err = of.Err // the path is said already
	}
	c.skip(it, err.Error(), !errors.Is(err, durable.ErrNotRegular))
	return nil
}

func (c *copying) skip(it file, why string, unread bool) {
	s := copied{line: manifestLine{Path: strings.ToValidUTF8(it.name, "\ufffd"), Skipped: why, Unread: unread}, round: c.report.Rounds}
	if it.info != nil {
		s.stamp = stampOf(it.info)
	}
	c.have[it.name] = s
}

// header begins an entry; a folder's name ends in /.
func (c *copying) header(name string, size int64, info fs.FileInfo) error {
	h := tar.Header{Name: name, Size: size, Mode: int64(durable.FileMode), ModTime: c.from.Now(), Format: tar.FormatPAX}
	if info != nil {
		h.Mode, h.ModTime = int64(info.Mode().Perm()), info.ModTime()
	}
	return c.t.WriteHeader(&h)
}
