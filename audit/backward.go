package audit

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"mbox/mailbox/durable"
)

// Backward yields the ledger's lines from the last to the first. What an
// audit_repaired line names is passed over. Unlike a Reader it checks each line
// by itself only, not the chain; it is for looking up what happened last.
func (l *Ledger) Backward() iter.Seq2[Line, error] { return l.BackwardFrom(math.MaxInt64) }

// BackwardFrom is Backward from the line with this number on. Days behind that are not
// read.
func (l *Ledger) BackwardFrom(seq int64) iter.Seq2[Line, error] { return l.backward(seq, anything) }

// anything may be in bytes of the ledger.
func anything([]byte) bool { return true }

// backward is BackwardFrom without lines that are not wanted. The bytes of one line or of
// many are asked for: who wants a line wants them.
func (l *Ledger) backward(seq int64, wanted func([]byte) bool) iter.Seq2[Line, error] {
	return l.daysBackward(seq, func(name string, _ bool, yield func(Line, error) bool) (bool, error) {
		return l.backwardIn(name, wanted, func(line Line, err error) bool {
			return err == nil && line.Seq > seq || yield(line, err)
		})
	})
}

// daysBackward yields what in yields of each day up to that of the line with this number,
// the last day first. Over is said of all days but the newest: their files stay as they are.
func (l *Ledger) daysBackward(seq int64, in func(name string, over bool, yield func(Line, error) bool) (more bool, err error)) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		files, err := dayFiles(sharedDir(l.home))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield(Line{}, err)
			return
		}
		for i, name := range slices.Backward(files) {
			if seq < math.MaxInt64 && i > 0 && l.endOf(files[i-1]).Seq >= seq {
				continue
			}
			more, err := in(name, i < len(files)-1, yield)
			if err != nil {
				yield(Line{}, err)
				return
			}
			if !more {
				return
			}
		}
	}
}

// Before is the end of the last whole day of which no line comes behind the one with
// this number, so that a reader soon comes from there to what does; the ledger's
// beginning where there is no such day. It is found by the days' last lines alone.
func (l *Ledger) Before(seq int64) (Position, error) {
	files, err := dayFiles(sharedDir(l.home))
	if err != nil || len(files) == 0 {
		return Position{}, err
	}
	whole := files[:len(files)-1]
	n := sort.Search(len(whole), func(i int) bool { return l.endOf(whole[i]).Seq > seq })
	for _, name := range slices.Backward(whole[:n]) {
		if end := l.endOf(name); end.Seq > 0 && end.Seq <= seq {
			return end, nil
		}
	}
	return Position{}, nil
}

// endOf is the end of a day that is over, zero where its last line is none: it was
// flushed before the next day began, so it counts.
func (l *Ledger) endOf(name string) Position {
	path := filepath.Join(sharedDir(l.home), name)
	last, err := lastLine(path)
	if err != nil || last == nil {
		return Position{}
	}
	seq, _, sum, err := skim(last)
	st, gone := durable.Lstat(path)
	end := Position{File: name, Offset: st.Size, Seq: seq, Checksum: sum}
	if err != nil || gone != nil || l.Check(end) != nil {
		return Position{}
	}
	return end
}

// Newest is where the ledger ends now, by its last line; the beginning where it has none.
func (l *Ledger) Newest() (Position, error) {
	for line, err := range l.Backward() {
		return line.End, err
	}
	return Position{}, nil
}

func (l *Ledger) backwardIn(name string, wanted func([]byte) bool, yield func(Line, error) bool) (more bool, err error) {
	f, info, err := durable.OpenRegular(filepath.Join(sharedDir(l.home), name))
	if err != nil {
		return false, err
	}
	defer f.Close()
	day := &dayReader{file: f, name: name}
	var parts parsed
	cut := info.Size() // bytes from here on are done, or set aside by a repair
	for raw, offset := range linesBackward(f, info.Size(), wanted, &err) {
		if offset+int64(len(raw)) > cut || !wanted(raw) || parts.parse(raw) != nil {
			continue
		}
		if r, ok := repairOf(&parts, raw); ok && r.File == day.path() && r.Offset < cut {
			cut = r.Offset
		}
		if !yield(day.alone(raw, offset, &parts), nil) {
			return false, nil
		}
	}
	return true, err
}

// alone is the line that stands at offset, which was taken apart by itself: nobody has read
// what stands before.
func (d *dayReader) alone(raw []byte, offset int64, parts *parsed) Line {
	d.offset = offset
	before := Position{Seq: parts.seq - 1, Checksum: string(parts.prev)}
	return d.lineAt(piece{raw, int64(len(raw)) + 1, true}, before, parts, string(parts.sum))
}

// LinesOf yields the lines about a task from the last to the first. One that
// nobody can decode is ErrDamaged: it may be the task's.
func (l *Ledger) LinesOf(id string) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		var spent time.Duration
		for line, err := range l.daysBackward(math.MaxInt64, func(name string, over bool, yield func(Line, error) bool) (bool, error) {
			lines, err := l.placed(name, id, over, &spent)
			if err != nil {
				return l.backwardIn(name, naming(id), yield)
			}
			for _, line := range lines {
				if !yield(line, nil) {
					return false, nil
				}
			}
			return true, nil
		}) {
			err = cmp.Or(err, line.Damaged())
			if (err != nil || line.Of(id)) && (!yield(line, err) || err != nil) {
				return
			}
		}
	}
}

// Naming yields the lines that have the text as a string, and some others, from the last
// to the first.
func (l *Ledger) Naming(text string) iter.Seq2[Line, error] {
	return l.backward(math.MaxInt64, naming(text))
}

// naming tells of bytes of the ledger whether they may have a line for Naming.
func naming(text string) func([]byte) bool {
	// A string stands in quotes as it is, or has some backslash. What a repair names
	// counts for all lines.
	named, repairs := []byte(`"`+text+`"`), []byte(`"`+string(AuditRepaired)+`"`)
	return func(b []byte) bool {
		return bytes.Contains(b, named) || bytes.IndexByte(b, '\\') >= 0 || bytes.Contains(b, repairs)
	}
}

// How much of a file is read at once, backwards: little first, for what is looked for
// mostly stands near the end.
const (
	leastBlock = 64 << 10
	mostBlock  = 512 << 10
)

// linesBackward yields the whole lines of f from the last to the first, but for
// pieces that are too long to be lines, and for blocks of lines that are not wanted.
// Each slice is valid until the next step.
func linesBackward(f *os.File, size int64, wanted func([]byte) bool, failed *error) iter.Seq2[[]byte, int64] {
	return func(yield func([]byte, int64) bool) {
		room := int64(leastBlock)
		buf := make([]byte, room)
		var ends []int // of the lines of a block
		behind := true // what stands behind the last newline is no whole line
		for end := size; end > 0; {
			n := min(room, end)
			if int64(len(buf)) < n {
				buf = make([]byte, n)
			}
			block, start := buf[:n], end-n
			if _, err := f.ReadAt(block, start); err != nil && err != io.EOF {
				*failed = err
				return
			}
			if behind {
				block = block[:bytes.LastIndexByte(block, '\n')+1]
				if behind, end = len(block) == 0, start+int64(len(block)); behind {
					continue
				}
			}
			first := 0 // where the first whole line begins
			if start > 0 {
				first = bytes.IndexByte(block[:len(block)-1], '\n') + 1
			}
			if start > 0 && first == 0 { // the block is the end of one line
				if room > 2*MaxLine { // no line is so long: its other bytes are passed over too
					end, behind = start, true
				}
				room = min(2*room, mostBlock)
				continue
			}
			lines := block[first:]
			room, end = min(2*room, mostBlock), start+int64(first)
			if !wanted(lines) {
				continue
			}
			ends = ends[:0]
			for at := 0; at < len(lines); {
				at += bytes.IndexByte(lines[at:], '\n') + 1
				ends = append(ends, at)
			}
			for i, to := range slices.Backward(ends) {
				from := 0
				if i > 0 {
					from = ends[i-1]
				}
				if !yield(lines[from:to-1:to-1], end+int64(from)) {
					return
				}
			}
		}
	}
}
