package audit

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"mbox/mailbox/durable"

	"github.com/go-json-experiment/json"
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
		for i := len(files) - 1; i >= 0; i-- {
			more, err := l.backwardIn(files[i], yield)
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
	cut := info.Size() // bytes from here on are done, or set aside by a repair
	for line, offset := range linesBackward(f, info.Size(), &err) {
		if offset+int64(len(line)) > cut {
			continue
		}
		seq, prev, sum, bad := skim(line)
		if bad != nil {
			continue
		}
		if from, ok := setAside(line, name); ok && from < cut {
			cut = from
		}
		got := Line{
			Raw: line, Seq: seq, Checksum: sum,
			At:  Position{File: name, Offset: offset, Seq: seq - 1, Checksum: prev},
			End: Position{File: name, Offset: offset + int64(len(line)) + 1, Seq: seq, Checksum: sum},
		}
		if !yield(got, nil) {
			return false, nil
		}
	}
	return true, err
}

// setAside returns the offset from which a repair line sets bytes of its own
// file aside.
func setAside(line []byte, name string) (int64, bool) {
	if !bytes.Contains(line, []byte(`"event":"audit_repaired"`)) {
		return 0, false
	}
	e, err := Line{Raw: line}.Decode()
	var d Repair
	if err != nil || json.Unmarshal(e.Details, &d) != nil || strings.TrimPrefix(d.File, "audit/shared/") != name {
		return 0, false
	}
	return d.Offset, true
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
