package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"mbox/mailbox/durable"
	"mbox/schemas"
)

// Position is a place in the ledger between two lines: a file of audit/shared,
// an offset in it, and the chain up to there. Its zero value is the beginning.
// A position that is kept (a cursor, an index) is checked by seq and checksum
// when it is used again: where the ledger has another line there, the reader
// answers ErrMoved and the holder starts over.
type Position struct {
	File     string `json:"file"`     // name in audit/shared
	Offset   int64  `json:"offset"`   // bytes
	Seq      int64  `json:"seq"`      // of the last line before this place
	Checksum string `json:"checksum"` // of that line; the genesis hash at the beginning
}

// Before tells whether p lies before q.
func (p Position) Before(q Position) bool {
	if p.File != q.File {
		return p.File < q.File
	}
	return p.Offset < q.Offset
}

// ErrMoved says that the ledger no longer holds what a kept position names.
var ErrMoved = errors.New("the ledger does not continue this position")

// Broken says where the ledger stops being a chain.
type Broken struct {
	File   string // path from the home
	Line   int    // from 1; 0 where only the offset is known
	Offset int64  // of the first bad byte
	Seq    int64  // of the last good line before it
	Why    string
}

func (b *Broken) Error() string {
	where := fmt.Sprintf("%s: offset %d", b.File, b.Offset)
	if b.Line > 0 {
		where = fmt.Sprintf("%s:%d: offset %d", b.File, b.Line, b.Offset)
	}
	return fmt.Sprintf("%s, after seq %d: %s", where, b.Seq, b.Why)
}

var dayFile = schemas.Pattern(`^\d{4}-\d\d-\d\d\.jsonl$`)

func sharedDir(home string) string { return filepath.Join(home, "audit", "shared") }

// dayFiles lists the ledger's files in order.
func dayFiles(dir string) ([]string, error) {
	d, err := durable.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !dayFile().MatchString(n) })
	slices.Sort(names)
	return names, nil
}

// Reader walks the chain from a position. It returns only lines that continue
// the chain: what an audit_repaired line names is passed over, and bytes that
// nobody has repaired yet end the walk with io.EOF, as does an unfinished last
// line. After io.EOF the same reader can be asked again when the ledger has
// grown. Where the walk ends before a line that the head record tells of, lines
// were lost or changed, and the error matches ErrDamaged: nobody may take that
// end for the ledger's. A Reader is not for concurrent use.
type Reader struct {
	dir    string
	at     Position
	file   *os.File
	name   string // of file
	buf    []byte // bytes of file from bufAt on
	bufAt  int64
	step   int     // how much the last fill asked for
	line   int     // lines seen in this file, for messages
	broken *Broken // why the last step ended before the end of the bytes
	ledger *Ledger // whose head record tells of the end; nil if nothing does
	tail   bool    // the last step ended at a whole line without its newline
}

// Read returns a reader that begins at p. It owns a descriptor until Close.
func (l *Ledger) Read(p Position) *Reader {
	r := newReader(l.home, l.genesis, p)
	r.ledger = l
	return r
}

// reaches refuses an end that lies before the one that the head record told of
// before the reader came there.
func (l *Ledger) reaches(known Head, r *Reader) error {
	if known.Boot != l.boot || known.Seq <= r.at.Seq {
		return nil
	}
	why := fmt.Errorf("audit/shared ends after seq %d", r.at.Seq)
	if r.broken != nil {
		why = r.broken
	}
	return fmt.Errorf("%w: seq %d was written, and cannot be read: %w", ErrDamaged, known.Seq, why)
}

// newest is the newest day file according to the head record, which saves a
// reader the listing of the folder each time it reaches the end.
func (l *Ledger) newest() string {
	head, err := l.seeHead()
	if err != nil || head.Boot != l.boot {
		return ""
	}
	return head.File
}

// Check tells whether the ledger still holds the line that p ends with. If not,
// or if the place cannot be read, the error matches ErrMoved.
func (l *Ledger) Check(p Position) error {
	if p.Offset == 0 {
		return nil
	}
	moved := fmt.Errorf("audit/shared/%s, offset %d: %w", p.File, p.Offset, ErrMoved)
	f, err := durable.OpenFile(filepath.Join(sharedDir(l.home), p.File), os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("%w: %w", moved, err)
	}
	defer f.Close()
	if !holds(f, p) {
		return moved
	}
	return nil
}

// holds tells whether p's line ends there in its file.
func holds(f *os.File, p Position) bool {
	if p.Offset == 0 {
		return true
	}
	want := suffixKey + p.Checksum + "\"}\n"
	have := make([]byte, len(want))
	_, err := f.ReadAt(have, p.Offset-int64(len(want)))
	return err == nil && string(have) == want
}

func newReader(home, genesis string, p Position) *Reader {
	if p.Seq == 0 && p.Checksum == "" {
		p.Checksum = genesis
	}
	return &Reader{dir: sharedDir(home), at: p}
}

// Close releases the reader's file.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// Position is where the next line will be looked for.
func (r *Reader) Position() Position { return r.at }

// Reached tells that nothing stands behind end in the ledger: the reader is there,
// and so is the end of the file. If not, Next tells more.
func (r *Reader) Reached(end Position) bool {
	if r.at != end || r.file == nil || r.name != end.File {
		return false
	}
	st, err := durable.Fstat(r.file)
	return err == nil && st.Size == end.Offset
}

// Broken is the reason why the last Next answered io.EOF before the end of the
// bytes; nil when it was the end, or an unfinished last line.
func (r *Reader) Broken() *Broken { return r.broken }

// Next returns the next line of the chain, or io.EOF.
func (r *Reader) Next() (Line, error) {
	line, err := r.next()
	if err != io.EOF || r.ledger == nil || r.ledger.looks {
		return line, err
	}
	known, err := r.ledger.seeHead()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Line{}, err
	}
	if known.Boot == r.ledger.boot && known.Checksum != r.at.Checksum { // more was written, or another ledger was begun
		if err := r.ledger.Check(r.at); err != nil {
			return Line{}, err
		}
	}
	if known.Seq > r.at.Seq { // it may have been written since, or into another file of this name
		r.Close()
		if line, err = r.next(); err != io.EOF {
			return line, err
		}
		if err := r.ledger.reaches(known, r); err != nil {
			return Line{}, err
		}
	}
	return Line{}, io.EOF
}

func (r *Reader) next() (Line, error) {
	for {
		if err := r.openFile(); err != nil {
			return Line{}, err
		}
		line, err := r.nextHere()
		if err == nil {
			return line, nil
		}
		if !errors.Is(err, io.EOF) || r.broken != nil {
			return Line{}, err
		}
		moved, err := r.nextFile()
		if err != nil {
			return Line{}, err
		}
		if !moved {
			return Line{}, io.EOF
		}
	}
}

func (r *Reader) openFile() error {
	if r.file != nil {
		return nil
	}
	if r.at.File == "" {
		files, err := dayFiles(r.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if len(files) == 0 {
			return io.EOF
		}
		r.at.File = files[0]
	}
	f, err := durable.OpenFile(filepath.Join(r.dir, r.at.File), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("audit/shared/%s: %w", r.at.File, ErrMoved)
	}
	if err != nil {
		return err
	}
	r.file, r.name, r.buf, r.bufAt, r.line = f, r.at.File, nil, r.at.Offset, 0
	return nil
}

// nextFile goes on to the day after, once the file at hand is read to its end
// for good: a younger file exists and this one has not grown since.
func (r *Reader) nextFile() (bool, error) {
	if r.ledger != nil && r.ledger.newest() == r.name {
		return false, nil
	}
	files, err := dayFiles(r.dir)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(files, func(n string) bool { return n > r.name })
	if i < 0 {
		return false, nil
	}
	if len(r.buf) <= MaxLine {
		if grown, err := r.fill(); err != nil || grown {
			return grown, err
		}
	}
	if len(r.buf) > 0 { // bytes without a newline, and nobody will write behind them any more
		r.broken = r.fault("the last line has no newline, and a younger file exists")
		return false, nil
	}
	r.Close()
	r.at.File, r.at.Offset = files[i], 0
	return true, nil
}

// fill reads more of the file behind the buffer.
func (r *Reader) fill() (bool, error) {
	// A reader of a few lines stays small, one of many reads in large steps.
	r.step = min(max(4<<10, 2*r.step), 256<<10)
	r.buf = slices.Grow(r.buf, r.step)
	n, err := r.file.ReadAt(r.buf[len(r.buf):cap(r.buf)], r.bufAt+int64(len(r.buf)))
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	r.buf = r.buf[:len(r.buf)+n]
	return n > 0, nil
}

// rawLine returns the bytes up to the next newline from r.at on. Of a piece that
// is too long to be a line it returns the beginning.
func (r *Reader) rawLine() (raw []byte, whole bool, err error) {
	for searched := int64(0); ; {
		if i := bytes.IndexByte(r.buf[searched:], '\n'); i >= 0 {
			return r.buf[:searched+int64(i)], true, nil
		}
		if searched = int64(len(r.buf)); searched > MaxLine {
			return r.buf, false, nil
		}
		more, err := r.fill()
		if err != nil {
			return nil, false, err
		}
		if !more {
			return r.buf, false, nil
		}
	}
}

func (r *Reader) nextHere() (Line, error) {
	r.broken, r.tail = nil, false
	r.drop()
	raw, whole, err := r.rawLine()
	if err != nil {
		return Line{}, err
	}
	if len(raw) == 0 && !whole {
		return Line{}, io.EOF
	}
	line, why := r.accept(raw, r.at.Offset)
	if why == "" && whole {
		r.pass(line)
		return line, nil
	}
	if why == "" {
		r.tail = true
		return Line{}, io.EOF // a whole line, but for its newline
	}
	line, found, whole, err := r.behindRepair()
	if err != nil {
		return Line{}, err
	}
	if found {
		r.pass(line)
		return line, nil
	}
	if whole {
		r.broken = r.fault(why)
	}
	return Line{}, io.EOF
}

// drop forgets the bytes before r.at.
func (r *Reader) drop() {
	if n := r.at.Offset - r.bufAt; n <= int64(len(r.buf)) {
		r.buf = r.buf[n:]
	} else {
		r.buf = r.buf[:0] // behind a repair
	}
	r.bufAt = r.at.Offset
}

func (r *Reader) pass(line Line) {
	r.at = line.End
	r.line++
}

func (r *Reader) fault(why string) *Broken {
	return &Broken{File: "audit/shared/" + r.name, Line: r.line + 1, Offset: r.at.Offset, Seq: r.at.Seq, Why: why}
}

// accept checks that raw, found at offset, continues the chain at r.at.
func (r *Reader) accept(raw []byte, offset int64) (Line, string) {
	seq, prev, sum, err := skim(raw)
	switch {
	case err != nil:
		return Line{}, err.Error()
	case prev != r.at.Checksum:
		return Line{}, fmt.Sprintf("prev of seq %d is not the checksum of the line before", seq)
	case seq != r.at.Seq+1:
		return Line{}, fmt.Sprintf("seq %d after %d", seq, r.at.Seq)
	}
	at := Position{File: r.name, Offset: offset, Seq: r.at.Seq, Checksum: r.at.Checksum}
	end := Position{File: r.name, Offset: offset + int64(len(raw)) + 1, Seq: seq, Checksum: sum}
	return Line{Raw: raw, At: at, End: end, Seq: seq, Checksum: sum}, ""
}

// Repair is what an audit_repaired line says: these bytes count for nothing.
type Repair struct {
	File   string `json:"file"`   // path from the home
	Offset int64  `json:"offset"` // of the first byte
	Length int64  `json:"length"`
	SHA256 string `json:"sha256"` // of the bytes
}

// behindRepair looks for the audit_repaired line that names the bytes from r.at
// on and continues the chain. If there are several, the last counts: it was
// written by somebody who had seen the others and found them inside the damage.
// whole tells whether a newline stands behind r.at. Whatever stands there, no
// more of it than a few lines is held in memory.
func (r *Reader) behindRepair() (found Line, ok, whole bool, err error) {
	ahead := &dayReader{file: r.file, name: r.name, offset: r.at.Offset}
	for {
		p, err := ahead.peek()
		if err != nil || !p.whole {
			return found, ok, whole, err
		}
		whole = true
		if p.size <= MaxLine+1 && bytes.Contains(p.raw, []byte(`"event":"audit_repaired"`)) {
			if line, why := r.accept(p.raw, ahead.offset); why == "" && r.names(line) {
				line.Raw = bytes.Clone(p.raw)
				found, ok = line, true
			}
		}
		ahead.step(p)
	}
}

// names tells whether the repair line covers exactly the bytes from r.at to itself.
func (r *Reader) names(line Line) bool {
	e, err := line.Decode()
	if err != nil {
		return false
	}
	var d Repair
	if json.Unmarshal(e.Details, &d) != nil {
		return false
	}
	if strings.TrimPrefix(d.File, "audit/shared/") != r.name || d.Offset != r.at.Offset || d.Offset+d.Length != line.At.Offset {
		return false
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.NewSectionReader(r.file, d.Offset, d.Length))
	return err == nil && n == d.Length && "sha256:"+hex.EncodeToString(sum.Sum(nil)) == d.SHA256
}
