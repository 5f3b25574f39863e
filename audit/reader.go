package audit

import (
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
	day    *dayReader // the file at hand; nil before the first, and between two
	parts  parsed     // of the line at hand
	left   int64      // bytes behind the last line, at the last look
	broken *Broken    // why the last step ended before the end of the bytes
	ledger *Ledger    // whose head record tells of the end; nil if nothing does
	tail   bool       // the last step ended at a whole line without its newline
	ended  bool       // the last step read the file to its end, which is behind its line
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
		if err != io.EOF || r.broken != nil {
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
	if r.ledger != nil && r.ledger.newest() == r.day.name {
		return false, nil
	}
	files, err := dayFiles(r.dir)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(files, func(n string) bool { return n > r.day.name })
	if i < 0 {
		return false, nil
	}
	p, err := r.day.peek()
	if err != nil || p.size != r.left {
		return true, err // it has grown
	}
	if p.size > 0 { // bytes without a newline, and nobody will write behind them any more
		r.broken = r.fault("the last line has no newline, and a younger file exists")
		return false, nil
	}
	err = r.Close()
	r.at.File, r.at.Offset = files[i], 0
	return true, err
}

func (r *Reader) nextHere() (Line, error) {
	r.broken, r.tail, r.day.short = nil, false, false
	p, err := r.day.peek()
	if err != nil {
		return Line{}, err
	}
	if r.left = p.size; p.size == 0 {
		return Line{}, io.EOF
	}
	why := r.accept(p)
	if why != "" {
		repair, err := r.day.findRepair(r.at)
		if err != nil {
			return Line{}, err
		}
		if repair != nil {
			return r.jump(repair)
		}
	}
	switch {
	case why == "" && p.whole:
		return r.pass(p), nil
	case why == "":
		r.tail = true // a whole line, but for its newline
	case p.whole:
		r.broken = r.fault(why)
	}
	return Line{}, io.EOF
}

// jump goes on with the line that names the bytes at hand.
func (r *Reader) jump(repair *repairLine) (Line, error) {
	line := r.day.line
	r.day.seek(repair.at, repair.line)
	p, err := r.day.peek()
	if err == nil && p.whole && r.accept(p) == "" {
		return r.pass(p), nil
	}
	r.day.seek(r.at.Offset, line) // it has changed since it was found
	return Line{}, errors.Join(err, io.EOF)
}

// accept says why a piece is no line that continues the chain; "" if it is.
func (r *Reader) accept(p piece) string {
	if err := r.parts.parse(p.raw); err != nil {
		return err.Error()
	}
	return r.parts.continues(r.at)
}

// pass takes the piece at hand, which is the next line.
func (r *Reader) pass(p piece) Line {
	line := r.day.lineAt(p, r.at, &r.parts, string(r.parts.sum))
	r.at = line.End
	r.day.step(p)
	r.ended = r.day.short && r.day.from == len(r.day.buf)
	return line
}

func (r *Reader) fault(why string) *Broken {
	return &Broken{File: r.day.path(), Line: r.day.line, Offset: r.at.Offset, Seq: r.at.Seq, Why: why}
}
