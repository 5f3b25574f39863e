package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

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

// Broken describes the bytes at which a reader has ended.
type Broken struct {
	File   string // path from the home
	Line   int    // from 1, for a reader that has begun with the file
	Offset int64  // of the first bad byte
	Seq    int64  // of the last good line before it
	Err    error  // why it does not continue the chain; nil where only its newline is missing
	Here   int64  // seq of the line with the right checksum that stands there, 0 if there is none
	Size   int64  // of the piece, with its newline
	Left   int64  // bytes from there to the end of the file
	Whole  bool   // a newline ends the piece
	Behind bool   // the bytes before it were passed over by Skip
	Final  bool   // so it stays: Whole, or a younger file exists
}

func (b *Broken) Error() string {
	why := b.Err
	if !b.Whole {
		why = errUnfinished
	}
	return fmt.Sprintf("%s:%d: offset %d, after seq %d: %v", b.File, b.Line, b.Offset, b.Seq, why)
}

var errUnfinished = errors.New("the last line has no newline, and a younger file exists")

var dayFile = schemas.Pattern(`^\d{4}-\d\d-\d\d\.jsonl$`)

// IsDay tells whether a file of the ledger, or of a copy, may have this name.
func IsDay(name string) bool { return dayFile().MatchString(name) }

func sharedDir(home string) string { return filepath.Join(home, "audit", "shared") }

// dayFiles lists the ledger's files in order.
func dayFiles(dir string) ([]string, error) {
	names, err := durable.Names(dir)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !IsDay(n) })
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
	day    *dayReader // the file at hand; nil before the first, and between two
	parts  parsed     // of the line at hand
	left   int64      // bytes behind the last line, at the last look
	stuck  *Broken    // where the last step ended before the end of the bytes
	ledger *Ledger    // whose head record tells of the end; nil if nothing does
	ended  bool       // the last step read the file to its end, which is behind its line

	lost bool // Skip has passed bytes over: the next line may have any later seq
	open bool // Skip takes the line at hand without its newline
}

// NewReader returns a reader of a home's whole ledger that asks no head record: it
// ends where the chain does, and with Skip goes on behind that.
func NewReader(home, mailboxID string) *Reader {
	return newReader(home, Genesis(mailboxID), Position{})
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
	if broken := r.Broken(); broken != nil {
		why = broken
	}
	return fmt.Errorf("%w: seq %d was written, and cannot be read: %w", ErrDamaged, known.Seq, why)
}

// Check tells whether the ledger still holds the line that p ends with. If not,
// or if the place cannot be read, the error matches ErrMoved.
func (l *chain) Check(p Position) error {
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
	if r.day == nil {
		return nil
	}
	err := r.day.file.Close()
	r.day = nil
	return err
}

// Position is where the next line will be looked for.
func (r *Reader) Position() Position { return r.at }

// Reached tells that nothing stands behind end in the ledger: the reader is there,
// and so is the end of the file. If not, Next tells more. stepped means that the
// reader has made its last step since end was asked for.
func (r *Reader) Reached(end Position, stepped bool) bool {
	if r.at != end || r.day == nil || r.day.name != end.File {
		return false
	}
	if stepped && r.ended {
		return true
	}
	st, err := durable.Fstat(r.day.file)
	return err == nil && st.Size == end.Offset
}

// Lines yields the lines from where the reader is to the end that Next tells, and
// closes the reader's file. Position and Broken still tell of that end.
func (r *Reader) Lines() iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		defer r.Close()
		for {
			line, err := r.Next()
			if err == io.EOF || !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// Broken is the reason why the last Next answered io.EOF before the end of the
// bytes; nil when it was the end, or an unfinished last line.
func (r *Reader) Broken() *Broken {
	if r.stuck == nil || !r.stuck.Final {
		return nil
	}
	return r.stuck
}

// Stuck is Broken, and also tells of an unfinished last line.
func (r *Reader) Stuck() *Broken { return r.stuck }

// Number is that of the last line in its file, from 1, for a reader that has begun
// with the file.
func (r *Reader) Number() int { return r.day.line - 1 }

// Again is Next, but reads the bytes at hand anew.
func (r *Reader) Again() (Line, error) {
	if r.day != nil {
		r.day.forget()
	}
	return r.Next()
}

// Skip goes on behind what ended the last Next, for who looks for all that is
// wrong: a line with the right checksum counts, whatever stands before it, and so
// does one that lacks its newline; other bytes are passed over, and the next line
// may have any later seq. A file that could not be opened is passed over too; false
// if none is behind it.
func (r *Reader) Skip() (more bool, err error) {
	switch b := r.stuck; {
	case r.day == nil:
		name, err := r.Younger()
		if name != "" {
			r.at.File, r.at.Offset = name, 0
		}
		return name != "", err
	case b.Err == nil:
		r.open = true
	case b.Here > 0:
		r.at.Seq, r.at.Checksum = b.Here-1, string(r.parts.prev)
	default:
		r.lost = true
		r.at.Offset += b.Size
		r.day.step(piece{size: b.Size})
	}
	return true, nil
}

// Younger is the file behind the one at hand, "" if there is none.
func (r *Reader) Younger() (string, error) {
	files, err := dayFiles(r.dir)
	i := slices.IndexFunc(files, func(n string) bool { return n > r.at.File })
	if i < 0 {
		return "", err
	}
	return files[i], nil
}

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
		if err != io.EOF || r.Broken() != nil {
			return line, err
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
	if r.day != nil {
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
	r.day = &dayReader{file: f, name: r.at.File, offset: r.at.Offset, line: 1}
	return nil
}

// nextFile goes on to the day after, once the file at hand is read to its end
// for good: a younger file exists and this one has not grown since.
func (r *Reader) nextFile() (bool, error) {
	if r.ledger != nil { // the head record saves a listing of the folder each time
		if end, seen := r.ledger.Seen(); seen && end.File == r.day.name {
			return false, nil
		}
	}
	younger, err := r.Younger()
	if err != nil || younger == "" {
		return false, err
	}
	p, err := r.day.peek()
	if err != nil || p.size != r.left {
		return true, err // it has grown
	}
	if p.size > 0 { // bytes without a newline, and nobody will write behind them any more
		r.stuck.Final = true
		return false, nil
	}
	err = r.Close()
	r.at.File, r.at.Offset = younger, 0
	return true, err
}

func (r *Reader) nextHere() (Line, error) {
	r.stuck, r.day.short = nil, false
	p, err := r.day.peek()
	if err != nil {
		return Line{}, err
	}
	if r.left = p.size; p.size == 0 {
		return Line{}, io.EOF
	}
	bad := r.accept(p)
	if bad == nil && (p.whole || r.open) {
		return r.pass(p), nil
	}
	if bad != nil {
		repair, err := r.day.findRepair(r.at)
		if err != nil {
			return Line{}, err
		}
		if repair != nil {
			return r.jump(repair)
		}
	}
	r.stop(p.size, p.whole, bad)
	if r.parts.sum != nil {
		r.stuck.Here = r.parts.seq
	}
	return Line{}, io.EOF
}

// stop notes why a step ends at the piece at hand.
func (r *Reader) stop(size int64, whole bool, why error) {
	r.stuck = &Broken{
		File: r.day.path(), Line: r.day.line, Offset: r.at.Offset, Seq: r.at.Seq, Err: why,
		Size: size, Left: r.day.left(), Whole: whole, Behind: r.lost, Final: whole,
	}
}

// jump goes on with the line that names the bytes at hand.
func (r *Reader) jump(repair *repairLine) (Line, error) {
	line := r.day.line
	r.day.seek(repair.at, repair.line)
	p, err := r.day.peek()
	if err == nil && p.whole && r.accept(p) == nil {
		return r.pass(p), nil
	}
	r.day.seek(r.at.Offset, line)
	r.stop(repair.at-r.at.Offset, true, errors.New("what named these bytes has changed since"))
	return Line{}, cmp.Or(err, io.EOF)
}

// accept says why a piece is no line that continues the chain; nil if it is.
func (r *Reader) accept(p piece) error {
	if err := r.parts.parse(p.raw); err != nil || r.lost && r.parts.seq > r.at.Seq {
		return err
	}
	return r.parts.continues(r.at)
}

// pass takes the piece at hand, which is the next line.
func (r *Reader) pass(p piece) Line {
	if !p.whole {
		p.size++ // its newline may be missing yet
	}
	line := r.day.lineAt(p, r.at, &r.parts, string(r.parts.sum))
	r.at, r.lost, r.open = line.End, false, false
	r.day.step(p)
	r.ended = r.day.short && r.day.from == len(r.day.buf)
	return line
}
