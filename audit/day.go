package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"slices"

	"mbox/mailbox/durable"
)

// dayReader reads one file piece by piece, in bounded memory whatever stands in
// it, and knows the number of each line.
type dayReader struct {
	file   *os.File
	name   string
	offset int64 // of the piece at hand
	line   int   // its number, from 1
	buf    []byte
	from   int  // where the piece at hand begins in buf
	ask    int  // how much the last fill asked for
	short  bool // it got less, so that the file ended there

	repairs   []repairLine // the audit_repaired lines behind the first piece that is no line
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

// fill reads more of the file behind the buffer. Who reads a few lines stays
// small, who reads many does it in large steps, and a follower at the end in small
// ones again; the memory is used again.
func (d *dayReader) fill() (bool, error) {
	d.ask = min(max(4<<10, 2*d.ask), 512<<10)
	kept := copy(d.buf[:cap(d.buf)], d.buf[d.from:])
	if cap(d.buf) < kept+d.ask {
		grown := make([]byte, kept+d.ask)
		copy(grown, d.buf[:kept])
		d.buf = grown
	}
	d.from = 0
	n, err := durable.ReadOnce(d.file, d.buf[kept:kept+d.ask], d.offset+int64(kept))
	d.buf, d.short = d.buf[:kept+n], n < d.ask
	if n < d.ask/4 {
		d.ask /= 4
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

// lineAt is the line that the piece at hand is, behind p in the chain.
func (d *dayReader) lineAt(at piece, p Position, parts *parsed, sum string) Line {
	p.File, p.Offset = d.name, d.offset
	end := Position{File: d.name, Offset: d.offset + at.size, Seq: parts.seq, Checksum: sum}
	return Line{Raw: at.raw, At: p, End: end, Seq: parts.seq, Checksum: sum, parts: parts}
}

func (d *dayReader) seek(offset int64, line int) {
	d.offset, d.line = offset, line
	d.forget()
}

// forget drops the buffer: the next peek reads the file.
func (d *dayReader) forget() { d.buf, d.from = d.buf[:0], 0 }

// Repair is what an audit_repaired line says: these bytes count for nothing.
type Repair struct {
	File   string `json:"file"`   // path from the home
	Offset int64  `json:"offset"` // of the first byte
	Length int64  `json:"length"`
	SHA256 string `json:"sha256"` // of the bytes
}

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
	var l parsed
	for {
		p, err := ahead.peek()
		if err != nil {
			return err
		}
		if !p.whole {
			d.scanned, d.scannedAt = ahead.offset, ahead.line
			return nil
		}
		if r, ok := repairOf(&l, p.raw); ok && p.size <= MaxLine+1 {
			r.at, r.line = ahead.offset, ahead.line
			d.repairs = append(d.repairs, r)
		}
		ahead.step(p)
	}
}

// repairOf reads the line as an audit_repaired line, if it is one.
func repairOf(l *parsed, raw []byte) (r repairLine, ok bool) {
	if l.parse(raw) != nil {
		return r, false
	}
	line := Line{Raw: raw, parts: l}
	if line.Event() != AuditRepaired || line.Sound() != nil {
		return r, false
	}
	e, _ := line.Decode()
	r.seq, r.prev = l.seq, string(l.prev)
	return r, e.Detail(&r.Repair) == nil
}

// findRepair finds the line that names the bytes from the piece at hand to itself
// and continues the chain at p. If there are several, the last counts: it was
// written by somebody who had seen the others and found them inside the damage.
func (d *dayReader) findRepair(p Position) (*repairLine, error) {
	if err := d.scanRepairs(); err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(d.repairs) {
		if r.File != d.path() || r.Offset != d.offset || r.Offset+r.Length != r.at || r.seq != p.Seq+1 || r.prev != p.Checksum {
			continue
		}
		sum := sha256.New()
		n, err := io.Copy(sum, io.NewSectionReader(d.file, r.Offset, r.Length))
		if err != nil {
			return nil, err
		}
		if n == r.Length && r.SHA256 == "sha256:"+hex.EncodeToString(sum.Sum(nil)) {
			return &r, nil
		}
	}
	return nil, nil
}
