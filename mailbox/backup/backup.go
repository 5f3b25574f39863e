// Package backup copies a mailbox into an archive while everything runs, and makes a
// mailbox of one.
package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// Report says what a backup holds.
type Report struct {
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`
	Rounds   int       `json:"rounds,omitzero"` // how often the home was walked for files that had changed
	Seq      int64     `json:"seq"`             // the ledger's last line in it
	Checksum string    `json:"checksum"`
	Skipped  []Skipped `json:"skipped,omitzero"` // by path
}

// Skipped is a path of the home that a backup does not hold.
type Skipped struct {
	Path string `json:"path"`
	Why  string `json:"why"`
	// Unread: it could not be read, as opposed to what is no file or nearly all hole.
	Unread bool `json:"unread,omitzero"`
}

// Source is the mailbox that is copied.
type Source struct {
	Home     string
	ID       string // the mailbox's
	Now      func() time.Time
	Progress func(what string, done, total int64)
	// Still calls do while nobody changes a task or appends a line: with all task
	// locks held, and then the ledger's, which is flushed and ends at end.
	Still func(ctx context.Context, do func(end audit.Position) error) error
}

// Write writes the mailbox as a zstd-compressed tar while everything runs, and
// what it holds is the mailbox as it was at one moment: the files are written
// first, then again those that changed meanwhile, until few are left. The last
// round and the cut of the ledger are made with all task locks held and then
// the ledger's. Nothing is in it that a power cut could still take back.
//
// The archive is one stream: a file that changed stands in it again, further
// back, so that tar alone ends with the newest bytes; one that went away stays
// in it. Its last entry, .mbox/manifest, says what counts (see manifestLine).
// What cannot be read, is no regular file or is sparse is named there and stops
// nothing.
//
// A plain copy of a running home is no backup.
func Write(ctx context.Context, w io.Writer, from Source) (Report, error) {
	z, err := zstd.NewWriter(w)
	if err != nil {
		return Report{}, err
	}
	c := &copying{from: from, t: tar.NewWriter(z), have: map[string]copied{}}
	defer c.drop()
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

// stamp tells whether a file is still the one that was copied.
type stamp struct {
	ino   uint64
	size  int64
	mtime time.Time
}

func stampOf(info fs.FileInfo) stamp { return stamp{home.Inode(info), info.Size(), info.ModTime()} }

// copied is a path that has been dealt with.
type copied struct {
	stamp stamp
	sum   string // SHA-256 of the bytes that were written, in hex; "" for a folder and what was skipped
	round int    // in which it was last seen
	Skipped
}

// copying is a home that is being written into an archive, round by round.
type copying struct {
	from   Source
	t      *tar.Writer
	target fs.FileInfo       // of the archive, which may lie in the home; nil if it is no file
	have   map[string]copied // by path; that of a folder ends in /
	held   []heldFile
	later  []changed
	report Report
}

// changed is a file whose bytes are not in the archive yet.
type changed struct {
	name string
	now  stamp
}

// heldFile is a file that was opened in the last round. Its bytes are not changed in
// place by any transition, only added to, so they can be read without a lock.
type heldFile struct {
	name string
	f    *os.File
	info fs.FileInfo
}

const (
	few     = 200  // changed files that the last round, which stops the world, may have
	maxHeld = 1000 // descriptors
)

func (c *copying) rounds(ctx context.Context) error {
	write := func(it changed) error {
		h, err := c.open(it)
		if err != nil || h.f == nil {
			return err
		}
		return c.write(ctx, h)
	}
	for range 8 {
		n, err := c.round(ctx, write)
		if err != nil {
			return err
		}
		if n <= few {
			break
		}
	}
	if err := c.lastRound(ctx); err != nil {
		return err
	}
	if err := c.writeHeld(ctx); err != nil {
		return err
	}
	for _, it := range c.later {
		if err := write(it); err != nil {
			return err
		}
	}
	return nil
}

// open opens a file; there is none where it is gone, or was skipped.
func (c *copying) open(it changed) (heldFile, error) {
	f, info, err := durable.OpenRegular(filepath.Join(c.from.Home, it.name))
	if err != nil {
		return heldFile{}, c.unread(it, err)
	}
	return heldFile{it.name, f, info}, nil
}

// lastRound stops every transition for a moment. Nothing is written meanwhile:
// whoever reads the archive at the other end of a pipe holds nobody up.
func (c *copying) lastRound(ctx context.Context) error {
	return c.from.Still(ctx, func(end audit.Position) error {
		c.report.Seq, c.report.Checksum = end.Seq, end.Checksum
		_, err := c.round(ctx, func(it changed) error { return c.hold(ctx, it) })
		return err
	})
}

// hold opens a file to be written when the locks are free. What agents keep in
// their own folders no lock protects: that is read later altogether.
func (c *copying) hold(ctx context.Context, it changed) error {
	if strings.HasPrefix(it.name, "agents/") {
		c.later = append(c.later, it)
		return nil
	}
	h, err := c.open(it)
	if err != nil || h.f == nil {
		return err
	}
	c.held = append(c.held, h)
	if len(c.held) < maxHeld {
		return nil
	}
	return c.writeHeld(ctx)
}

func (c *copying) writeHeld(ctx context.Context) error {
	defer c.drop()
	for len(c.held) > 0 {
		h := c.held[0]
		c.held = c.held[1:]
		if err := c.write(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

func (c *copying) drop() {
	for _, h := range c.held {
		h.f.Close()
	}
	c.held = nil
}

// round calls do for every file that is new or has changed, and forgets what is
// gone. It returns how many those were.
func (c *copying) round(ctx context.Context, do func(changed) error) (int, error) {
	c.report.Rounds++
	n := 0
	err := filepath.WalkDir(c.from.Home, func(path string, e fs.DirEntry, err error) error {
		name, failed := filepath.Rel(c.from.Home, path)
		if failed != nil || name == "." {
			return errors.Join(failed, err)
		}
		if !inBackup(name) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if err != nil {
			return c.unread(changed{name: name + "/"}, err) // a folder: its names
		}
		it, err := c.see(name, e)
		if it.name != "" {
			n++
			err = do(it)
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
	top, rest, _ := strings.Cut(name, string(filepath.Separator))
	return top != ".mbox" || rest == "" || rest == "VERSION" || rest == "keys" || strings.HasPrefix(rest, "keys"+string(filepath.Separator))
}

// see looks at a path. It names the file if its bytes are not in the archive yet.
func (c *copying) see(name string, e fs.DirEntry) (changed, error) {
	info, err := e.Info()
	if err != nil {
		return changed{}, c.unread(changed{name: name}, err)
	}
	it := changed{name, stampOf(info)}
	switch {
	case c.target != nil && os.SameFile(info, c.target):
		return changed{}, nil
	case !utf8.ValidString(name):
		c.skip(it, "its name is not UTF-8", false)
		return changed{}, nil
	case info.IsDir():
		return changed{}, c.folder(name+"/", info)
	case !info.Mode().IsRegular():
		c.skip(it, "it is a "+durable.KindOf(info.Mode()), false)
		return changed{}, nil
	}
	was, ok := c.have[name]
	if !ok {
		return it, nil
	}
	was.round = c.report.Rounds
	c.have[name] = was
	if was.stamp != it.now {
		return it, nil
	}
	return changed{}, nil
}

func (c *copying) folder(name string, info fs.FileInfo) error {
	_, ok := c.have[name]
	c.have[name] = copied{round: c.report.Rounds}
	if ok {
		return nil
	}
	return c.header(name, info)
}

// unread notes a path that cannot be read. What is gone is no fault, and what
// this process lacks (descriptors, memory) is one of its own.
func (c *copying) unread(it changed, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case durable.Lacking(err):
		return err
	}
	var cause unix.Errno
	if errors.As(err, &cause) {
		err = cause // the path is said already
	}
	odd := errors.Is(err, durable.ErrNotRegular)
	if errors.Is(err, durable.ErrSparse) {
		err = durable.ErrSparse
	}
	c.skip(it, err.Error(), !odd)
	return nil
}

func (c *copying) skip(it changed, why string, unread bool) {
	path := strings.ToValidUTF8(it.name, "\ufffd")
	c.have[it.name] = copied{stamp: it.now, round: c.report.Rounds, Skipped: Skipped{path, why, unread}}
}

// write writes a file as long as it was when it was opened, and closes it. What
// is missing when it was cut meanwhile, or cannot be read, is made up by zeros.
func (c *copying) write(ctx context.Context, h heldFile) error {
	defer h.f.Close()
	size, it := h.info.Size(), changed{h.name, stampOf(h.info)}
	if err := c.header(h.name, h.info); err != nil {
		return err
	}
	from, sum := &source{ctx: ctx, from: io.LimitReader(h.f, size)}, sha256.New()
	n, err := io.Copy(io.MultiWriter(c.t, sum), from)
	if err != nil && err != from.err {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := io.CopyN(io.MultiWriter(c.t, sum), zeros{}, size-n); err != nil {
		return err
	}
	if from.err != nil {
		return c.unread(it, from.err)
	}
	c.have[h.name] = copied{stamp: it.now, sum: hex.EncodeToString(sum.Sum(nil)), round: c.report.Rounds}
	c.from.Progress("packing", int64(len(c.have)), 0)
	return nil
}

// source is a reader that ends with its context, and keeps its error apart from
// that of whoever takes its bytes.
type source struct {
	ctx  context.Context
	from io.Reader
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	if s.err = s.ctx.Err(); s.err != nil {
		return 0, s.err
	}
	n, err := s.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func (c *copying) header(name string, info fs.FileInfo) error {
	h, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	return c.t.WriteHeader(&tar.Header{
		Typeflag: h.Typeflag, Name: filepath.ToSlash(name), Size: h.Size, Mode: int64(info.Mode().Perm()), ModTime: h.ModTime, Format: tar.FormatPAX,
	})
}
