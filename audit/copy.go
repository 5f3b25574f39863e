package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"mbox/mailbox/durable"
)

// The agents' copies, audit/<agent>/<date>.jsonl, are written behind the ledger:
// lines that wait are copied together after Options.CopyDelay, when copyLines of
// this process wait, and by Close. A process does that for the lines of all. Each
// line is written to the place that it has in its copy, so a copy is at any moment
// a byte prefix of its agent's lines, wherever a kill stops it, and doing it again
// changes nothing. Nothing is flushed, for a copy is never evidence.
//
// The lock file "copies" holds how far they are (ends). Whoever finds a copy that
// does not end as noted there writes it anew.
const (
	copiesLock = "copies"
	copyLines  = 256         // of this process that wait: more are copied at once
	copyBytes  = 1 << 20     // of lines that are written together, and under one lock
	newSuffix  = ".new"      // of files that are not in their places yet
	copyWait   = time.Second // how long Close waits for others and works
)

// Folder is the name of an agent's folder: a ":" in the name becomes "_".
func Folder(agent string) string { return strings.ReplaceAll(agent, ":", "_") }

const shared = "shared" // the ledger's own folder, and no agent's

// folderOf is the folder of the copy that a line belongs into; "" if into none:
// the chain holds such a line of a stranger, and Verify names it.
func folderOf(agent string) string {
	if folder := Folder(agent); AgentForm().MatchString(agent) && folder != shared {
		return folder
	}
	return ""
}

// ends tells by folder where the copies end, and under "shared" up to where the
// ledger has been copied.
type ends map[string]Position

// endsRecord is how ends stand in the lock file: believed in one boot only, because
// nothing is flushed, and with a CRC, because a kill may tear it.
type endsRecord struct {
	Boot string `json:"boot"`
	Ends ends   `json:"ends"`
}

func readEnds(f io.ReaderAt, boot string) ends {
	line, _ := bufio.NewReaderSize(io.NewSectionReader(f, 0, math.MaxInt64), 16<<10).ReadBytes('\n') // what cannot be read says nothing
	sum, text, _ := bytes.Cut(bytes.TrimSuffix(line, []byte{'\n'}), []byte{' '})
	var r endsRecord
	if string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(text)) || json.Unmarshal(text, &r) != nil || r.Boot != boot || r.Ends == nil {
		return ends{}
	}
	return r.Ends
}

func (e ends) write(f *os.File, boot string) error {
	text, err := json.Marshal(endsRecord{boot, e}, json.Deterministic(true))
	if err != nil {
		return err
	}
	return durable.WriteAt(f, fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(text), text), 0)
}

// owe notes that a line of this process waits to be copied.
func (l *Ledger) owe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owed++
	switch {
	case l.behind == nil:
	case l.owed == 1:
		l.behind.Reset(l.copyDelay)
	case l.owed%copyLines == 0:
		l.behind.Reset(0)
	}
}

// beginBehind makes the timer that copies.
func (l *Ledger) beginBehind() {
	l.endBehind = func() {}
	if l.copyDelay == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.behind = time.AfterFunc(time.Hour, func() {
		// Verify tells of an error that lasts. The next lines try again, and Close.
		if err := l.Copy(ctx, 0); errors.Is(err, durable.ErrBusy) {
			l.behind.Reset(l.copyDelay)
		}
	})
	l.behind.Stop()
	l.endBehind = func() { l.behind.Stop(); cancel() }
}

func (l *Ledger) takeOwed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	owed := l.owed
	l.owed = 0
	return owed
}

// endCopies copies what waits, once a batch that is at work has ended.
func (l *Ledger) endCopies() {
	l.endBehind()
	ctx, cancel := context.WithTimeout(context.Background(), copyWait)
	defer cancel()
	_ = l.Copy(ctx, copyWait) // never the answer of who closes: a copy that is behind is as good
	l.copies.Close()
}

// Copy brings the agents' copies up to the end of the ledger, if lines of this
// process wait for that. It waits so long for the lock.
func (l *Ledger) Copy(ctx context.Context, wait time.Duration) error {
	l.copying.Lock()
	defer l.copying.Unlock()
	owed := l.takeOwed()
	err := ctx.Err()
	for more := owed > 0; more && err == nil; {
		more, err = l.copyMore(ctx, wait)
	}
	if err != nil {
		l.mu.Lock()
		l.owed += owed
		l.mu.Unlock()
	}
	return err
}

// copyMore copies the next lines, at most copyBytes, and tells whether there are more.
func (l *Ledger) copyMore(ctx context.Context, wait time.Duration) (more bool, err error) {
	f, err := l.copies.Acquire(ctx, wait)
	if err != nil {
		return false, fmt.Errorf("agents' copies: %w", err)
	}
	defer l.copies.Unlock()
	e := readEnds(f, l.boot)
	if l.Check(e[shared]) != nil {
		e = ends{} // of another ledger: what the copies have is compared with this one
	}
	c := l.copier(ctx, e, nil, "")
	more, err = c.run(l.Read(e[shared]), math.MaxInt64, copyBytes)
	if err == nil {
		err = l.anew(c)
	}
	if err == nil {
		err = c.ends.write(f, l.boot)
	}
	return more, err
}

// MendCopies makes every agent's copy hold its lines, all of them and nothing
// else. What stands in the place of one or lies among them is given to aside first.
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
	for {
		err := l.mendCopies(ctx)
		path, ok := durable.Obstacle(err)
		if !ok || !strings.HasPrefix(path, filepath.Join(l.home, "audit")+"/") || strings.HasPrefix(path, sharedDir(l.home)) {
			return err
		}
		if err := aside(path); err != nil {
			return err
		}
	}
}

func (l *Ledger) mendCopies(ctx context.Context) error {
	f, err := l.copies.Acquire(ctx, l.wait)
	if err != nil {
		return fmt.Errorf("agents' copies: %w", err)
	}
	defer l.copies.Unlock()
	l.takeOwed()
	c := l.copier(ctx, ends{}, nil, "")
	if _, err := c.run(l.Read(Position{}), math.MaxInt64, math.MaxInt); err != nil {
		return err
	}
	there, err := copySizes(l.home)
	if err != nil {
		return err
	}
	c.compare(l.home, there)
	if err := l.anew(c); err != nil {
		return err
	}
	return c.ends.write(f, l.boot)
}

// copier gathers lines for the copies that they belong into, and keeps count of
// what those should hold.
type copier struct {
	ctx     context.Context
	ends    ends
	only    map[string]*Fault                       // these folders, all if nil
	put     func(folder string, k *copyChunk) error // brings a chunk to its place, or looks there
	folders map[string]string                       // by agent
	waiting map[string]*copyChunk                   // by folder
	size    int                                     // bytes that wait
	days    sizes                                   // what files should have
	differ  map[string]*Fault                       // folders that have something else
}

// sizes are bytes by folder and file.
type sizes map[string]map[string]int64

func (s sizes) set(folder, file string, size int64) {
	if s[folder] == nil {
		s[folder] = map[string]int64{}
	}
	s[folder][file] = size
}

// copyChunk is what goes into one file of a copy.
type copyChunk struct {
	data []byte
	end  Position // of the copy, behind it
}

func (k *copyChunk) at() int64 { return k.end.Offset - int64(len(k.data)) }

func newCopier(ctx context.Context, e ends) *copier {
	return &copier{ctx: ctx, ends: e, folders: map[string]string{}, waiting: map[string]*copyChunk{}, days: sizes{}, differ: map[string]*Fault{}}
}

// copier writes the copies of some folders, or all, to files whose names end so.
func (l *Ledger) copier(ctx context.Context, e ends, only map[string]*Fault, suffix string) *copier {
	c := newCopier(ctx, e)
	c.only = only
	c.put = func(folder string, k *copyChunk) error { return l.place(c, folder, k, suffix) }
	return c
}

// run takes the reader's lines up to that seq, or so many bytes, and closes it.
func (c *copier) run(r *Reader, to int64, most int) (more bool, err error) {
	defer r.Close()
	for size := 0; r.Position().Seq < to && !more; {
		line, err := r.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = c.add(&line, line.Agent())
		}
		if err != nil {
			return false, err
		}
		size += len(line.Raw)
		more = size > most
	}
	c.ends[shared] = r.Position()
	return more, c.flush()
}

// add takes the next line of the ledger.
func (c *copier) add(line *Line, agent string) error {
	folder, known := c.folders[agent]
	if !known {
		folder = folderOf(agent)
		c.folders[agent] = folder
	}
	_, wanted := c.only[folder]
	if folder == "" || c.differ[folder] != nil || c.only != nil && !wanted {
		return nil
	}
	if k := c.waiting[folder]; k != nil && k.end.File != line.At.File || c.size > copyBytes {
		if err := c.flush(); err != nil {
			return err
		}
	}
	k := c.waiting[folder]
	if k == nil {
		k = &copyChunk{end: Position{File: line.At.File}}
		if end := c.ends[folder]; end.File == line.At.File {
			k.end = end
		}
		c.waiting[folder] = k
	}
	k.data = append(append(k.data, line.Raw...), '\n')
	k.end.Offset, k.end.Seq, k.end.Checksum = k.end.Offset+int64(len(line.Raw))+1, line.Seq, line.Checksum
	c.size += len(line.Raw) + 1
	return nil
}

// flush brings what waits to its places, always in the same order.
func (c *copier) flush() error {
	for _, folder := range slices.Sorted(maps.Keys(c.waiting)) {
		k := c.waiting[folder]
		if err := c.put(folder, k); err != nil {
			return err
		}
		c.ends[folder] = k.end
		c.days.set(folder, k.end.File, k.end.Offset)
	}
	clear(c.waiting)
	c.size = 0
	return c.ctx.Err()
}

// place writes what is not there yet of a chunk: a killed process may have begun.
func (l *Ledger) place(c *copier, folder string, k *copyChunk, suffix string) error {
	f, err := l.openCopy(filepath.Join(copyDir(l.home, folder), k.end.File+suffix), k.at() == 0, suffix != "")
	if errors.Is(err, fs.ErrNotExist) {
		c.differ[folder] = &Fault{}
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	have, err := io.ReadAll(io.NewSectionReader(f, k.at(), int64(len(k.data))))
	if err != nil {
		return err
	}
	if before := c.ends[folder]; !bytes.HasPrefix(k.data, have) || before.File == k.end.File && !holds(f, before) {
		c.differ[folder] = &Fault{}
		return nil
	}
	if len(have) == len(k.data) {
		return nil
	}
	return durable.WriteAt(f, k.data[len(have):], k.at()+int64(len(have)))
}

// openCopy opens a file of a copy. One that begins is made, where it is missing
// or a fresh one is wanted.
func (l *Ledger) openCopy(path string, begins, fresh bool) (*os.File, error) {
	if err := isFolder(filepath.Dir(path)); err != nil && (!begins || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	if begins && fresh {
		if err := durable.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	f, err := durable.OpenFile(path, os.O_RDWR)
	if !begins || !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := durable.MkdirAll(filepath.Dir(path), l.mode); err != nil {
		return nil, err
	}
	if err := durable.Stage(path, nil, durable.None); err != nil {
		return nil, err
	}
	if err := durable.SyncDir(filepath.Dir(path), l.mode); err != nil {
		return nil, err
	}
	return durable.OpenFile(path, os.O_RDWR)
}

// anew writes the copies that differ whole, as far as the others are: each day's
// file beside the old one, then renamed into its place.
func (l *Ledger) anew(c *copier) error {
	if len(c.differ) == 0 {
		return nil
	}
	w := l.copier(c.ctx, ends{}, c.differ, newSuffix)
	if _, err := w.run(l.Read(Position{}), c.ends[shared].Seq, math.MaxInt); err != nil {
		return err
	}
	for _, folder := range slices.Sorted(maps.Keys(c.differ)) {
		dir, days := copyDir(l.home, folder), w.days[folder]
		for _, file := range slices.Sorted(maps.Keys(days)) {
			if err := durable.Rename(filepath.Join(dir, file+newSuffix), filepath.Join(dir, file)); err != nil {
				return err
			}
		}
		files, err := dayFiles(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, file := range files {
			if _, ok := days[file]; ok {
				continue
			}
			if err := durable.Remove(filepath.Join(dir, file)); err != nil {
				return err
			}
		}
		c.ends[folder] = w.ends[folder]
	}
	return nil
}

// isFolder refuses what is no folder, as a link to one.
func isFolder(dir string) error {
	st, err := durable.Lstat(dir)
	if err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		err = &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	return err
}

func copyDir(home, folder string) string { return filepath.Join(home, "audit", folder) }
