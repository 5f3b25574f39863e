package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mbox/mailbox/durable"
)

// copyLocks is the number of lock files that agents' copies are hashed to. They
// are made with the home, because a lock file that is made on demand could be
// made twice.
const copyLocks = 32

func copyLockName(i int) string { return fmt.Sprintf("copy-%02x", i) }

// Folder is the name of an agent's folder: a ":" in the name becomes "_".
func Folder(agent string) string { return strings.ReplaceAll(agent, ":", "_") }

func copyDir(home, agent string) string { return filepath.Join(home, "audit", Folder(agent)) }

func copySlot(agent string) int {
	h := fnv.New32a()
	h.Write([]byte(Folder(agent)))
	return int(h.Sum32() % copyLocks)
}

func copyLock(home, agent string) string {
	return filepath.Join(home, ".mbox", "locks", copyLockName(copySlot(agent)))
}

// copied is what a process knows of an agent's copy, under its lock: the newest
// file, held open, and how far the ledger was read for it.
type copied struct {
	name    string // of the day's file; "" while there is none
	file    *os.File
	ino     uint64
	size    int64
	through Position
	reader  *Reader // stands at through
}

func (c *copied) close() {
	if c.file != nil {
		c.file.Close()
	}
	if c.reader != nil {
		c.reader.Close()
	}
}

// Copy brings the copy of an agent's lines, audit/<agent>/, up to the end of
// the ledger as this process knows it: every line of the agent behind the copy's
// last one is appended in seq order to the file of the same date. It flushes
// nothing, for a copy is never evidence: one that is torn, or that does not fit,
// is written anew.
//
// Whoever waits for his turn in the same process finds, most of the time, that
// the one before has copied his line as well.
//
// What stands in the place of a copy or of its folder is no error: the line counts
// without it, Verify names it, and Recover clears the place.
func (l *Ledger) Copy(ctx context.Context, agent string) error {
	err := l.copy(ctx, agent)
	if _, ok := l.inPlaceOf(agent, err); ok {
		return nil
	}
	return err
}

// inPlaceOf names what stands in the place of the agent's copy, or of a file of
// it, where the error comes of that.
func (l *Ledger) inPlaceOf(agent string, err error) (path string, ok bool) {
	path, ok = durable.Obstacle(err)
	dir := copyDir(l.home, agent)
	return path, ok && (path == dir || strings.HasPrefix(path, dir+"/"))
}

func (l *Ledger) copy(ctx context.Context, agent string) error {
	end, folder := l.End(), Folder(agent)
	gate := l.copyGates[copySlot(agent)]
	if _, err := gate.Acquire(ctx, l.wait); err != nil {
		return fmt.Errorf("copy of %s: %w", agent, err)
	}
	defer gate.Unlock()
	l.mu.Lock()
	c := l.known[folder]
	l.mu.Unlock()
	known := c != nil && c.name == end.File && c.unchanged(l.home, agent)
	if known && c.through.Offset >= end.Offset && end.File != "" {
		return nil
	}
	if !known {
		// It is not known, or another process has written to it since, or put it
		// aside with a ledger that was given up.
		l.forget(folder)
		from, ok, err := l.copiedThrough(agent)
		if err != nil {
			return err
		}
		if !ok {
			return l.recopy(ctx, agent)
		}
		c = &copied{through: from}
	}
	if err := l.copyTo(c, agent, l.End()); err != nil {
		l.forget(folder)
		c.close()
		if errors.Is(err, ErrMoved) { // it has lines that the ledger has no more
			return l.recopy(ctx, agent)
		}
		return err
	}
	l.mu.Lock()
	l.known[folder] = c
	l.mu.Unlock()
	return nil
}

// forget drops what is known of a copy.
func (l *Ledger) forget(folder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.known[folder]; c != nil {
		c.close()
		delete(l.known, folder)
	}
}

// unchanged tells whether the file is still as this process left it.
func (c *copied) unchanged(home, agent string) bool {
	st, err := durable.Lstat(filepath.Join(copyDir(home, agent), c.name))
	return err == nil && st.Ino == c.ino && st.Size == c.size
}

// copiedThrough tells up to where the ledger is in the copy on disk, or that the
// copy has to be written anew.
func (l *Ledger) copiedThrough(agent string) (Position, bool, error) {
	files, err := dayFiles(copyDir(l.home, agent))
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(files) == 0) {
		return Position{}, true, nil
	}
	if err != nil {
		return Position{}, false, err
	}
	return l.locate(agent, files[len(files)-1])
}

// locate finds the copy's last line in the ledger's file of the same date.
func (l *Ledger) locate(agent, name string) (Position, bool, error) {
	path := filepath.Join(copyDir(l.home, agent), name)
	last, err := lastLine(path)
	if errors.Is(err, durable.ErrNotRegular) {
		err = nil
	}
	if err != nil || last == nil {
		return Position{}, false, err
	}
	f, info, err := durable.OpenRegular(path)
	if err != nil {
		return Position{}, false, nil
	}
	defer f.Close()
	end := make([]byte, 1)
	if _, err := f.ReadAt(end, info.Size()-1); err != nil || end[0] != '\n' {
		return Position{}, false, err
	}
	seq, _, sum, err := skim(last)
	if err != nil || Folder(agentOf(last)) != Folder(agent) {
		return Position{}, false, nil
	}
	return l.find(name, seq, sum, last)
}

// find returns the position behind the line with these bytes in a day file. It
// halves the file by seq; where torn bytes mislead that, it gives up.
func (l *Ledger) find(name string, seq int64, sum string, raw []byte) (Position, bool, error) {
	f, info, err := durable.OpenRegular(filepath.Join(sharedDir(l.home), name))
	if err != nil {
		return Position{}, false, nil
	}
	defer f.Close()
	lo, hi := int64(0), info.Size()
	for lo < hi {
		start, line, err := lineFrom(f, (lo+hi)/2, lo)
		if err != nil {
			return Position{}, false, err
		}
		got, _, _, err := skim(line)
		switch {
		case len(line) == 0 || start >= hi:
			hi = (lo + hi) / 2
		case err != nil:
			return Position{}, false, nil
		case got == seq && bytes.Equal(line, raw):
			return Position{File: name, Offset: start + int64(len(line)) + 1, Seq: seq, Checksum: sum}, true, nil
		case got < seq:
			lo = start + int64(len(line)) + 1
		default:
			hi = (lo + hi) / 2
		}
	}
	return Position{}, false, nil
}

// lineFrom returns the first whole line that begins at or behind at; lo is a
// known line start.
func lineFrom(f *os.File, at, lo int64) (int64, []byte, error) {
	from := at
	if at > lo {
		from = at - 1
	}
	for _, size := range []int{8 << 10, 2*MaxLine + 4} {
		buf := make([]byte, size)
		n, err := f.ReadAt(buf, from)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, nil, err
		}
		start, rest := from, buf[:n]
		if at > lo {
			_, after, ok := bytes.Cut(rest, []byte{'\n'})
			if !ok {
				continue
			}
			start, rest = from+int64(n-len(after)), after
		}
		if line, _, ok := bytes.Cut(rest, []byte{'\n'}); ok {
			return start, line, nil
		}
	}
	return at, nil, nil
}

// copyTo appends the agent's lines up to end to its copy.
func (l *Ledger) copyTo(c *copied, agent string, end Position) error {
	if c.reader == nil {
		c.reader = l.Read(c.through)
	}
	w := copyWriter{home: l.home, agent: agent, mode: l.mode, file: c.file, name: c.name}
	c.file = nil
	for c.reader.Position().Before(end) {
		line, err := c.reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			w.close()
			return err
		}
		if Folder(line.Agent()) == Folder(agent) {
			w.add(line)
		}
	}
	if err := w.flush(); err != nil {
		w.close()
		return err
	}
	c.file, c.name, c.through = w.file, w.name, c.reader.Position()
	if c.file == nil {
		return nil
	}
	st, err := durable.Fstat(c.file)
	if err != nil {
		return err
	}
	c.ino, c.size = st.Ino, st.Size
	return nil
}

// copyWriter appends lines to an agent's day files, one write a file. A fresh
// one writes new files beside the old and renames them into place.
type copyWriter struct {
	home, agent string
	mode        durable.Mode
	fresh       bool
	name        string   // of the open file
	written     []string // all names, with that one
	file        *os.File
	pending     []byte
	failed      error
}

func (w *copyWriter) add(line Line) {
	if w.failed == nil && line.At.File != w.name {
		w.failed = w.begin(line.At.File)
	}
	w.pending = append(append(w.pending, line.Raw...), '\n')
	if len(w.pending) > 1<<20 {
		w.failed = w.flush()
	}
}

func (w *copyWriter) begin(name string) error {
	if err := w.finish(); err != nil {
		return err
	}
	dir := copyDir(w.home, w.agent)
	if err := durable.MkdirAll(dir, w.mode); err != nil {
		return err
	}
	path := filepath.Join(dir, name)
	f, err := w.openDay(path)
	if err != nil {
		return err
	}
	w.file, w.name, w.written = f, name, append(w.written, name)
	return nil
}

func (w *copyWriter) openDay(path string) (*os.File, error) {
	if w.fresh {
		path += ".new"
		if err := durable.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return durable.Create(path)
	}
	f, err := durable.OpenFile(path, os.O_RDWR|os.O_APPEND)
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = durable.Create(path); err == nil {
			err = durable.SyncDir(filepath.Dir(path), w.mode)
		}
	}
	return f, err
}

func (w *copyWriter) flush() error {
	if w.failed != nil || len(w.pending) == 0 {
		return w.failed
	}
	err := durable.Append(w.file, w.pending)
	w.pending = w.pending[:0]
	return err
}

// finish writes what is pending and, for a fresh file, puts it into place.
func (w *copyWriter) finish() error {
	if err := w.flush(); err != nil || w.file == nil {
		return err
	}
	w.close()
	if !w.fresh {
		return nil
	}
	path := filepath.Join(copyDir(w.home, w.agent), w.name)
	return durable.Rename(path+".new", path)
}

func (w *copyWriter) close() {
	if w.file != nil {
		w.file.Close()
		w.file = nil
	}
}

// recopy writes an agent's whole copy anew from the ledger: each day's file
// beside the old one, then renamed into its place. Under the copy's lock.
func (l *Ledger) recopy(ctx context.Context, agent string) error {
	l.forget(Folder(agent))
	dir := copyDir(l.home, agent)
	old, err := dayFiles(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	w := copyWriter{home: l.home, agent: agent, mode: l.mode, fresh: true}
	defer w.close()
	r := l.Read(Position{})
	defer r.Close()
	for {
		line, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if Folder(line.Agent()) == Folder(agent) {
			w.add(line)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if err := w.finish(); err != nil {
		return err
	}
	for _, name := range old {
		if !slices.Contains(w.written, name) {
			if err := durable.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// MendCopies compares every agent's copy with the ledger and writes anew those
// that differ: torn, short, or with lines that a power cut took from the ledger.
// What stands in the place of one or lies among them is given to aside first.
func (l *Ledger) MendCopies(ctx context.Context, aside func(path string) error) error {
	strange, err := strangers(l.home)
	if err != nil {
		return err
	}
	for _, name := range strange {
		if err := aside(filepath.Join(l.home, name)); err != nil {
			return err
		}
	}
	check := newCopyCheck(l.home)
	defer check.close()
	r := l.Read(Position{})
	defer r.Close()
	for {
		line, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		check.line(line)
	}
	differing, err := check.finish()
	if err != nil {
		return err
	}
	for _, d := range differing {
		if err := l.mendCopy(ctx, d.Agent, aside); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) mendCopy(ctx context.Context, agent string, aside func(path string) error) error {
	for {
		err := l.recopyAlone(ctx, agent)
		path, ok := l.inPlaceOf(agent, err)
		if !ok {
			return err
		}
		if err := aside(path); err != nil {
			return err
		}
	}
}

func (l *Ledger) recopyAlone(ctx context.Context, agent string) error {
	gate := l.copyGates[copySlot(agent)]
	if _, err := gate.Acquire(ctx, l.wait); err != nil {
		return fmt.Errorf("copy of %s: %w", agent, err)
	}
	defer gate.Unlock()
	return l.recopy(ctx, agent)
}
