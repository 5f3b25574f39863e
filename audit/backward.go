package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"mbox/mailbox/durable"
)

// Backward yields the ledger's lines from the last to the first. What an
// audit_repaired line names is passed over. Unlike a Reader it checks each line
// by itself only, not the chain; it is for looking up what happened last.
func (l *Ledger) Backward() iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		files, err := dayFiles(sharedDir(l.home))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield(Line{}, err)
			return
		}
		for _, name := range slices.Backward(files) {
			more, err := l.backwardIn(name, yield)
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

// Newest is where the ledger ends now, by its last line; the beginning where it has none.
func (l *Ledger) Newest() (Position, error) {
	for line, err := range l.Backward() {
		return line.End, err
	}
	return Position{}, nil
}

func (l *Ledger) backwardIn(name string, yield func(Line, error) bool) (more bool, err error) {
	f, err := durable.OpenFile(filepath.Join(sharedDir(l.home), name), os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	day := &dayReader{file: f, name: name}
	var parts parsed
	cut := info.Size() // bytes from here on are done, or set aside by a repair
	for raw, offset := range linesBackward(f, info.Size(), &err) {
		if offset+int64(len(raw)) > cut || parts.parse(raw) != nil {
			continue
		}
		if r, ok := repairOf(&parts, raw); ok && r.File == day.path() && r.Offset < cut {
			cut = r.Offset
		}
		day.offset = offset
		before := Position{Seq: parts.seq - 1, Checksum: string(parts.prev)}
		if !yield(day.lineAt(piece{raw, int64(len(raw)) + 1, true}, before, &parts, string(parts.sum)), nil) {
			return false, nil
		}
	}
	return true, err
}

// LinesOf yields the lines about a task from the last to the first. One that
// nobody can decode is ErrDamaged: it may be the task's.
func (l *Ledger) LinesOf(id string) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		for line, err := range l.Backward() {
			if bad := line.Sound(); err == nil && bad != nil {
				err = fmt.Errorf("%w: ledger seq %d: %w", ErrDamaged, line.Seq, bad)
			}
			if (err != nil || line.Of(id)) && (!yield(line, err) || err != nil) {
				return
			}
		}
	}
}

// linesBackward yields the whole lines of f from the last to the first, but for
// pieces that are too long to be lines. Each slice is valid until the next step.
func linesBackward(f *os.File, size int64, failed *error) iter.Seq2[[]byte, int64] {
	return func(yield func([]byte, int64) bool) {
		const chunk = 64 << 10
		var buf []byte // bytes [start, start+len(buf)) not yet yielded
		start := size
		skip := true // what stands behind the last newline is no whole line
		for start > 0 {
			n := min(chunk, start)
			start -= n
			grown := make([]byte, n, int(n)+len(buf))
			if _, err := f.ReadAt(grown, start); err != nil && err != io.EOF {
				*failed = err
				return
			}
			buf = append(grown, buf...)
			for {
				i := bytes.LastIndexByte(buf, '\n')
				if i < 0 {
					break
				}
				if !skip && !yield(buf[i+1:], start+int64(i)+1) {
					return
				}
				skip, buf = false, buf[:i]
			}
			if len(buf) > MaxLine {
				skip, buf = true, nil // no line is so long: its other bytes are passed over too
			}
		}
		if !skip {
			yield(buf, 0)
		}
	}
}
