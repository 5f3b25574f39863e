package queue

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/go-json-experiment/json"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// draft is what a snapshot is written from: a copy, so that the queue can go on
// changing while the file is written.
type draft struct {
	head    snapshotHead
	entries []*Entry // copies of those in memory
	special []uint64
	base    *snapshot // a reader of its own
	anew    bool      // the one that there is counts for nothing
}

func (x *state) draft() *draft {
	d := &draft{special: slices.Collect(maps.Keys(x.special))}
	d.head = snapshotHead{At: x.at, Sets: x.sets, Agents: maps.Clone(x.agents), Lost: slices.Sorted(maps.Keys(x.lost)), Owed: maps.Clone(x.owed)}
	for _, e := range x.live {
		d.entries = append(d.entries, e.copy())
	}
	if b := x.base; b != nil {
		d.base = &snapshot{file: b.file, size: b.size, sums: b.sums, head: b.head, gone: maps.Clone(b.gone), blocks: map[int64][]byte{}}
	}
	return d
}

// takeBase adds what is as the last snapshot had it.
func (d *draft) takeBase() error {
	s := d.base
	if s == nil {
		return nil
	}
	err := s.each(0, s.head.Ready, func(e *Entry) { d.entries = append(d.entries, e.copy()) })
	if err != nil {
		return err
	}
	d.base = nil
	for i := range s.head.Specials {
		d.special = append(d.special, s.number(s.head.Special+specialWidth*i, 8))
	}
	return s.err
}

// save writes a snapshot to .mbox/index. It is not flushed: after a power cut the
// boot id differs, and the file counts for nothing. One process at a time writes;
// the others go without, and so does who finds one that is new.
func (d *draft) save(o *Options) error {
	lock, err := durable.TryLock(home.LockPath(o.Home, "snapshot"))
	if errors.Is(err, durable.ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if s, err := o.open(); err == nil {
		s.file.Close()
		if !d.anew && d.head.At.Seq-s.head.At.Seq < int64(SnapshotLines/8) {
			return nil
		}
	}
	if err := d.takeBase(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return errors.Join(errNoSnapshot, err)
	} else if err != nil {
		return err
	}
	if err := d.put(o, File(o.Home)); err != nil {
		return fmt.Errorf("%w: %w", errUnwritten, err)
	}
	return nil
}

// errUnwritten is a snapshot that could not be written, of a queue that is whole.
var errUnwritten = errors.New("writing the index")

// put writes the file, and leaves nothing of one that does not get to its place.
func (d *draft) put(o *Options, path string) error {
	temp := path + ".new"
	if err := durable.RemoveIfThere(temp); err != nil {
		return err
	}
	f, err := durable.Create(temp)
	if err != nil {
		return err
	}
	defer f.Close()
	if err = d.write(f, o); err == nil {
		err = durable.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, durable.RemoveIfThere(temp))
	}
	return nil
}

func (d *draft) write(f *os.File, o *Options) error {
	now := o.Now().UnixMilli()
	slices.SortFunc(d.entries, func(e, o *Entry) int {
		if ready := e.inRun(now); ready != o.inRun(now) {
			if ready {
				return -1
			}
			return 1
		}
		return e.runs(o)
	})
	head := &d.head
	head.V, head.Mailbox, head.Boot, head.Entries = home.SnapshotVersion, o.Mailbox, o.Boot, uint32(len(d.entries))
	w := summing{Writer: bufio.NewWriterSize(f, 1<<20)} // an error of a Write is one of Flush
	at := int64(0)
	put := func(data []byte) {
		w.Write(data)
		at += int64(len(data))
	}
	offsets := make([]byte, 0, offsetWidth*(len(d.entries)+1))
	var data []byte
	for i, e := range d.entries {
		offsets = binary.LittleEndian.AppendUint64(offsets, uint64(at))
		if e.inRun(now) {
			head.addToRun(e, uint32(i))
			e = e.copy()
			e.Class = Class{} // the run has it
		}
		data = e.encode(data[:0])
		put(data)
	}
	offsets = binary.LittleEndian.AppendUint64(offsets, uint64(at))
	head.Offsets = at
	put(offsets)
	head.Order = at
	put(order(d.entries[:head.Ready]))
	head.Special = at
	slices.Sort(d.special)
	d.special = slices.Compact(d.special)
	head.Specials = int64(len(d.special))
	for _, hash := range d.special {
		put(binary.LittleEndian.AppendUint64(data[:0], hash))
	}
	text, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("snapshot head: %w", err)
	}
	put(text)
	put(binary.LittleEndian.AppendUint32(nil, uint32(len(text))))
	w.end()
	return w.Flush()
}

// summing writes a file with the sum of each block behind it.
type summing struct {
	*bufio.Writer
	sums []byte
	sum  uint32
	n    int // bytes of the block that is being written
}

func (w *summing) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		part := rest[:min(len(rest), blockSize-w.n)]
		w.sum, w.n, rest = crc32.Update(w.sum, castagnoli, part), w.n+len(part), rest[len(part):]
		if w.n == blockSize {
			w.next()
		}
	}
	return w.Writer.Write(data)
}

func (w *summing) next() {
	w.sums, w.sum, w.n = binary.LittleEndian.AppendUint32(w.sums, w.sum), 0, 0
}

func (w *summing) end() {
	if w.n > 0 {
		w.next()
	}
	w.Writer.Write(binary.LittleEndian.AppendUint32(w.sums, sumOf(w.sums)))
}

func (h *snapshotHead) addToRun(e *Entry, n uint32) {
	h.Ready = n + 1
	last := len(h.Runs) - 1
	if last < 0 || h.Runs[last].Class != e.Class || h.Runs[last].Priority != e.Priority {
		h.Runs, last = append(h.Runs, run{e.Class, e.Priority, n, n, n}), last+1
	}
	r := &h.Runs[last]
	r.End = n + 1
	if e.Alarmed && r.Told == n {
		r.Told = n + 1
	}
}

// order is the table of entries by the hash of their id.
func order(entries []*Entry) []byte {
	type line struct {
		hash   uint64
		number uint32
	}
	lines := make([]line, len(entries))
	for i, e := range entries {
		lines[i] = line{hash64(string(e.ID)), uint32(i)}
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.hash, b.hash) })
	out := make([]byte, 0, orderWidth*len(lines))
	for _, l := range lines {
		out = binary.LittleEndian.AppendUint64(out, l.hash)
		out = binary.LittleEndian.AppendUint32(out, l.number)
	}
	return out
}
