package audit

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/go-json-experiment/json"
)

// dayReader reads one file piece by piece, in bounded memory whatever stands in
// it, and knows the number of each line.
type dayReader struct {
	file   *os.File
	name   string
	offset int64 // of the piece at hand
	line   int   // its number, from 1
	buf    []byte
	from   int // where the piece at hand begins in buf

	damaged   bool         // a piece was found to be no line with nobody at it
	repairs   []repairLine // the audit_repaired lines behind the first such piece
	scanned   int64        // offset up to which they were looked for
	scannedAt int          // number of the line there
	size      int64        // of the file at that time
}

// piece is what stands before a newline or the file's end.
type piece struct {
	raw   []byte // without the newline; its beginning only if size is over MaxLine+1
	size  int64  // with the newline; 0 at the end
	whole bool   // there is a newline
}

func (d *dayReader) path() string { return "audit/shared/" + d.name }

// left is how many bytes stand from the piece at hand to the end.
func (d *dayReader) left() int64 {
	info, err := d.file.Stat()
	if err != nil {
		return 0
	}
	return info.Size() - d.offset
}

// peek returns the piece at hand. It is valid until the next call.
func (d *dayReader) peek() (piece, error) {
	for searched := 0; ; {
		rest := d.buf[d.from:]
		if i := bytes.IndexByte(rest[searched:], '\n'); i >= 0 {
			return piece{rest[:searched+i], int64(searched+i) + 1, true}, nil
		}
		if searched = len(rest); searched > MaxLine {
			return d.measure(rest[:MaxLine+1])
		}
		more, err := d.fill()
		if err != nil {
			return piece{}, err
		}
		if !more {
			return piece{d.buf[d.from:], int64(searched), false}, nil
		}
	}
}

// skipHole goes on behind the NULs at hand.
func (d *dayReader) skipHole() error {
	for {
		rest := d.buf[d.from:]
		hole := len(rest) - len(bytes.TrimLeft(rest, "\x00"))
		d.from, d.offset = d.from+hole, d.offset+int64(hole)
		if d.from < len(d.buf) {
			return nil
		}
		if more, err := d.fill(); err != nil || !more {
			return err
		}
	}
}

// fill reads more of the file behind the buffer.
func (d *dayReader) fill() (bool, error) {
	const chunk = 512 << 10
	kept := copy(d.buf[:cap(d.buf)], d.buf[d.from:])
	if cap(d.buf) < kept+chunk {
		grown := make([]byte, kept+chunk)
		copy(grown, d.buf[:kept])
		d.buf = grown
	}
	d.from = 0
	n, err := d.file.ReadAt(d.buf[kept:kept+chunk], d.offset+int64(kept))
	d.buf = d.buf[:kept+n]
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n > 0, err
}

// measure finds out how long a piece is that is too long to be a line.
func (d *dayReader) measure(raw []byte) (piece, error) {
	p := piece{raw: raw, size: int64(len(raw))}
	chunk := make([]byte, 256<<10)
	for {
		n, err := d.file.ReadAt(chunk, d.offset+p.size)
		if i := bytes.IndexByte(chunk[:n], '\n'); i >= 0 {
			p.size, p.whole = p.size+int64(i)+1, true
			return p, nil
		}
		p.size += int64(n)
		if errors.Is(err, io.EOF) {
			return p, nil
		}
		if err != nil {
			return p, err
		}
	}
}

// step goes on behind the piece at hand.
func (d *dayReader) step(p piece) {
	d.offset += p.size
	d.line++
	if p.size > int64(len(d.buf)-d.from) {
		d.forget()
		return
	}
	d.from += int(p.size)
}

func (d *dayReader) seek(offset int64, line int) {
	d.offset, d.line = offset, line
	d.forget()
}

// forget drops the buffer: the next peek reads the file.
func (d *dayReader) forget() { d.buf, d.from = d.buf[:0], 0 }

// repairLine is an audit_repaired line ahead.
type repairLine struct {
	Repair
	at   int64 // where it stands
	line int
	seq  int64
	prev string
}

// scanRepairs looks for audit_repaired lines from the piece at hand to the end,
// or from where the last scan ended.
func (d *dayReader) scanRepairs() error {
	info, err := d.file.Stat()
	if err != nil || d.scannedAt > 0 && info.Size() == d.size {
		return err
	}
	if d.size = info.Size(); d.scannedAt == 0 {
		d.scanned, d.scannedAt = d.offset, d.line
	}
	ahead := &dayReader{file: d.file, name: d.name, offset: d.scanned, line: d.scannedAt}
	for {
		p, err := ahead.peek()
		if err != nil {
			return err
		}
		if !p.whole {
			d.scanned, d.scannedAt = ahead.offset, ahead.line
			return nil
		}
		if p.size <= MaxLine+1 && bytes.Contains(p.raw, []byte(`"event":"audit_repaired"`)) {
			if r, ok := repairOf(p.raw); ok {
				r.at, r.line = ahead.offset, ahead.line
				d.repairs = append(d.repairs, r)
			}
		}
		ahead.step(p)
	}
}

func repairOf(raw []byte) (r repairLine, ok bool) {
	seq, prev, _, err := skim(raw)
	if err != nil {
		return r, false
	}
	e, err := Line{Raw: raw}.Decode()
	if err != nil || json.Unmarshal(e.Details, &r.Repair) != nil {
		return r, false
	}
	r.seq, r.prev = seq, prev
	return r, true
}
