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

// CopiesPath is the copies' lock file.
func CopiesPath(home string) string { return filepath.Join(home, ".mbox", "locks", copiesLock) }

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
		more, err = l.copyMore(ctx, wait, false)
	}
	if err != nil {
		l.mu.Lock()
		l.owed += owed
		l.mu.Unlock()
	}
	return err
}

// copyMore copies the next lines, at most copyBytes, and tells whether there are
// more; or it compares and mends everything.
func (l *Ledger) copyMore(ctx context.Context, wait time.Duration, mend bool) (more bool, err error) {
	f, err := l.copies.Acquire(ctx, wait)
	if err != nil {
		return false, fmt.Errorf("agents' copies: %w", err)
	}
	defer l.copies.Unlock()
	e, most := readEnds(f, l.boot), copyBytes
	if mend {
		l.takeOwed()
		most = math.MaxInt
	}
	if mend || l.Check(e[shared]) != nil {
		e = ends{} // where they are of another ledger: what the copies have is compared with this one
	}
	c := l.copier(ctx, e)
	more, err = c.run(l.Read(e[shared]), math.MaxInt64, most)
	if err == nil && mend {
		err = c.compare()
	}
	if err == nil {
		err = c.anew()
	}
	if err == nil {
		err = c.ends.write(f, l.boot)
	}
	return more, err
}

// MendCopies makes every agent's copy hold its lines, all of them and nothing
// else. What stands in the place of one or lies among them is given to aside first.
func (l *Ledger) MendCopies(ctx context.Context, aside func(path string) error) error {
	_, strange, err := listCopies(l.home)
	if err != nil {
		return err
	}
	for _, name := range strange {
		if err := aside(filepath.Join(l.home, name)); err != nil {
			return err
		}
	}
	for {
		_, err := l.copyMore(ctx, l.wait, true)
		path, ok := durable.Obstacle(err)
		if !ok || !strings.HasPrefix(path, filepath.Join(l.home, "audit")+"/") || strings.HasPrefix(path, sharedDir(l.home)) {
			return err
		}
		if err := aside(path); err != nil {
			return err
		}
	}
}

// Copies brings lines to the copies that they belong into, or compares them with
// what is there, and keeps count of what the copies should hold.
type Copies struct {
	l       *Ledger
	ctx     context.Context
	looks   bool                  // writes nothing
	suffix  string                // of the files that are written
	only    map[string]*CopyFault // these folders, all if nil
	ends    ends
	folders map[string]string     // by agent
	waiting map[string]*copyChunk // by folder
	size    int                   // bytes that wait
	days    sizes                 // what files should have
	there   sizes                 // what they have, once listed
	differ  map[string]*CopyFault // folders that have something else
	lacks   map[string]int64      // bytes at the ends of the others, once compared
	noted   ends                  // where they were noted to end
	strange []string              // paths from the home of what is no file of a copy
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

func (l *Ledger) copier(ctx context.Context, e ends) *Copies {
	return &Copies{
		l: l, ctx: ctx, ends: e, folders: map[string]string{}, waiting: map[string]*copyChunk{},
		days: sizes{}, differ: map[string]*CopyFault{},
	}
}

// run takes the reader's lines up to that seq, or so many bytes, and closes it.
func (c *Copies) run(r *Reader, to int64, most int) (more bool, err error) {
	defer r.Close()
	for size := 0; r.Position().Seq < to && !more; {
		line, err := r.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = c.Add(&line)
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

// Add takes the next line of the ledger.
func (c *Copies) Add(line *Line) error {
	folder, known := c.folders[string(line.AgentBytes())]
	if !known {
		folder = folderOf(line.Agent())
		c.folders[line.Agent()] = folder
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
func (c *Copies) flush() error {
	for _, folder := range slices.Sorted(maps.Keys(c.waiting)) {
		k := c.waiting[folder]
		if err := c.place(folder, k); err != nil {
			return err
		}
		c.ends[folder] = k.end
		c.days.set(folder, k.end.File, k.end.Offset)
	}
	clear(c.waiting)
	c.size = 0
	return c.ctx.Err()
}

// place compares a chunk with what is in its place, and writes what is not there
// yet: a killed process may have begun. Who only looks takes that for a copy that
// is behind.
func (c *Copies) place(folder string, k *copyChunk) error {
	path := c.path(folder, k.end.File)
	f, err := c.openCopy(path+c.suffix, k.at() == 0)
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.looks:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		c.fault(folder, k.end.File, 0, "is missing")
		return nil
	case err != nil && c.looks:
		c.fault(folder, k.end.File, 0, "cannot be read: "+reason(err))
		return nil
	case err != nil:
		return err
	}
	defer f.Close()
	have, err := io.ReadAll(io.NewSectionReader(f, k.at(), int64(len(k.data))))
	if err != nil {
		return err
	}
	before := c.ends[folder]
	if !bytes.HasPrefix(k.data, have) || !c.looks && before.File == k.end.File && !holds(f, before) {
		c.differs(folder, k, have)
		return nil
	}
	if c.looks || len(have) == len(k.data) {
		return nil
	}
	return durable.WriteAt(f, k.data[len(have):], k.at()+int64(len(have)))
}

func (c *Copies) path(folder, file string) string {
	return filepath.Join(copyDir(c.l.home, folder), file)
}

// openCopy opens a file of a copy. For who writes, one that begins is made where it
// is missing, or a fresh one is wanted.
func (c *Copies) openCopy(path string, begins bool) (f *os.File, err error) {
	dir, flags := filepath.Dir(path), os.O_RDWR
	if c.looks {
		flags = os.O_RDONLY
	}
	err = isFolder(dir)
	if err == nil && begins && c.suffix != "" {
		err = durable.Remove(path)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		f, err = durable.OpenFile(path, flags)
	}
	if c.looks || !begins || !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := durable.MkdirAll(dir, c.l.mode); err != nil {
		return nil, err
	}
	if err := durable.Stage(path, nil, durable.None); err != nil {
		return nil, err
	}
	if err := durable.SyncDir(dir, c.l.mode); err != nil {
		return nil, err
	}
	return durable.OpenFile(path, os.O_RDWR)
}

// anew writes the copies that differ whole, as far as the others are: each day's
// file beside the old one, then renamed into its place.
func (c *Copies) anew() error {
	if len(c.differ) == 0 {
		return nil
	}
	w := c.l.copier(c.ctx, ends{})
	w.only, w.suffix = c.differ, newSuffix
	if _, err := w.run(c.l.Read(Position{}), c.ends[shared].Seq, math.MaxInt); err != nil {
		return err
	}
	for _, folder := range slices.Sorted(maps.Keys(c.differ)) {
		days := w.days[folder]
		for _, file := range slices.Sorted(maps.Keys(days)) {
			if err := durable.Rename(c.path(folder, file+newSuffix), c.path(folder, file)); err != nil {
				return err
			}
		}
		files, err := dayFiles(copyDir(c.l.home, folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, file := range files {
			if _, ok := days[file]; ok {
				continue
			}
			if err := durable.Remove(c.path(folder, file)); err != nil {
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
