package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"mbox/mailbox/durable"
)

// What is asked most of the ledger is what it has of one task. Of a day that is over
// .mbox/lines/DAY keeps where each task's lines stand. It is derived, made by whoever
// reads such a day first, and bound to the day's length and last checksum. A line that
// it leads to is checked as any other; where it does not lead to the task's line, or is
// damaged, the day is read.
//
// The file: a record of 512 bytes with the day's end and the number of lines (see
// lockRecord), then pages. A page has up to pageRows rows, ordered by hash, then by
// offset, and in its last four bytes the CRC32 of the record and of what stands before in
// the page. A row is the hash of the task's id, the line's offset (8 bytes each,
// little-endian) and its length (4 bytes).
const (
	rowWidth  = 20
	pageWidth = 4096
	pageRows  = (pageWidth - 4) / rowWidth
)

// place is where a line about a task stands in its day.
type place struct {
	hash   uint64
	offset int64
	length uint32
}

func hashOf(task string) uint64 {
	sum := sha256.Sum256([]byte(task))
	return binary.LittleEndian.Uint64(sum[:])
}

func placesPath(home, name string) string {
	return filepath.Join(home, ".mbox", "lines", strings.TrimSuffix(name, ".jsonl"))
}

// errNoPlaces says that a day has to be read.
var errNoPlaces = errors.New("no usable table of lines")

// places is the open table of a day.
type places struct {
	file *os.File
	rows int
	sum  uint32 // of the record
}

// openPlaces opens the table of a day that is over; errNoPlaces if there is none of it.
func (l *Ledger) openPlaces(name string) (*places, error) {
	f, err := durable.OpenFile(placesPath(l.home, name), os.O_RDONLY)
	if err != nil {
		return nil, errNoPlaces
	}
	p, record := &places{file: f}, make([]byte, headSize)
	end := l.endOf(name)
	if _, err = f.ReadAt(record, 0); err == nil {
		text := parseLockRecord(record)
		if _, err = fmt.Sscanf(text, placesHead(end)+" %d", &p.rows); err == nil && end.Seq > 0 && p.rows >= 0 {
			p.sum = crc32.ChecksumIEEE(record)
			return p, nil
		}
	}
	f.Close()
	return nil, errNoPlaces
}

func placesHead(end Position) string {
	return fmt.Sprintf("lines 1 %s %d %d %s", end.File, end.Offset, end.Seq, end.Checksum)
}

// page reads a page's rows.
func (p *places) page(n int) ([]byte, error) {
	page := make([]byte, pageWidth)
	if _, err := p.file.ReadAt(page, headSize+int64(n)*pageWidth); err != nil {
		return nil, errNoPlaces
	}
	body, sum := page[:pageWidth-4], page[pageWidth-4:]
	if crc32.Update(p.sum, crc32.IEEETable, body) != binary.LittleEndian.Uint32(sum) {
		return nil, errNoPlaces
	}
	return body[:rowWidth*min(pageRows, p.rows-n*pageRows)], nil
}

func rowAt(page []byte, i int) place {
	row := page[i*rowWidth:]
	return place{binary.LittleEndian.Uint64(row), int64(binary.LittleEndian.Uint64(row[8:])), binary.LittleEndian.Uint32(row[16:])}
}

// of are the places of a task's lines, the first of the day first.
func (p *places) of(task string) (found []place, err error) {
	hash, pages := hashOf(task), (p.rows+pageRows-1)/pageRows
	at := func(n int) (page []byte) {
		if err == nil {
			page, err = p.page(n)
		}
		return page
	}
	n := sort.Search(pages, func(n int) bool {
		page := at(n)
		return page == nil || rowAt(page, len(page)/rowWidth-1).hash >= hash
	})
	for ; n < pages && err == nil; n++ {
		page := at(n)
		for i := range len(page) / rowWidth {
			if row := rowAt(page, i); row.hash == hash {
				found = append(found, row)
			} else if row.hash > hash {
				return found, err
			}
		}
	}
	return found, err
}

// tablesTime is how long who looks for one task goes on to make tables: with those of
// months missing, a command or two make them all, and none takes much longer for it.
const tablesTime = time.Second

// placed is linesAt, of a day that has a table or gets one now, unless so much time was
// spent on others.
func (l *Ledger) placed(name, task string, over bool, spent *time.Duration) (lines []Line, err error) {
	if !over {
		return nil, errNoPlaces
	}
	lines, err = l.linesAt(name, task)
	if errors.Is(err, errNoPlaces) && *spent < tablesTime {
		begun := time.Now()
		kept := l.keepPlaces(name)
		if *spent += time.Since(begun); kept == nil {
			lines, err = l.linesAt(name, task)
		}
	}
	return lines, err
}

// linesAt are the lines of a task in a day that is over, the last first, by its table;
// among them may be those of a task with the same hash.
func (l *Ledger) linesAt(name, task string) (lines []Line, err error) {
	p, err := l.openPlaces(name)
	if err != nil {
		return nil, err
	}
	defer p.file.Close()
	found, err := p.of(task)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	f, err := durable.OpenFile(filepath.Join(sharedDir(l.home), name), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	day := &dayReader{file: f, name: name}
	for _, at := range slices.Backward(found) {
		line, err := day.lineOf(at)
		if err != nil || line.Sound() != nil {
			return nil, errNoPlaces
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// lineOf reads the line at a place.
func (d *dayReader) lineOf(at place) (Line, error) {
	if at.length > MaxLine {
		return Line{}, errNoPlaces
	}
	raw := make([]byte, at.length)
	if _, err := d.file.ReadAt(raw, at.offset); err != nil {
		return Line{}, err
	}
	parts := new(parsed)
	if err := parts.parse(raw); err != nil {
		return Line{}, err
	}
	return d.alone(raw, at.offset, parts), nil
}

// keepPlaces makes the table of a day that is over. A day with a line that nobody can
// decode has none: that line may be about any task.
func (l *Ledger) keepPlaces(name string) error {
	path, end := placesPath(l.home, name), l.endOf(name)
	if end.Seq == 0 {
		return errNoPlaces
	}
	if err := durable.MkdirAll(filepath.Dir(path), durable.None); err != nil {
		return err
	}
	var rows []place
	var bad error
	_, err := l.backwardIn(name, anything, func(line Line, err error) bool {
		if bad = cmp.Or(err, line.Sound()); bad != nil {
			return false
		}
		if task := line.Task(); task != "" {
			rows = append(rows, place{hashOf(task), line.At.Offset, uint32(len(line.Raw))})
		}
		return true
	})
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b place) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.offset, b.offset)) })
	table := lockRecord(fmt.Appendf(make([]byte, 0, headSize+len(rows)*(rowWidth+1)), "%s %d", placesHead(end), len(rows)))
	record := crc32.ChecksumIEEE(table)
	for part := range slices.Chunk(rows, pageRows) {
		from := len(table)
		for _, row := range part {
			table = binary.LittleEndian.AppendUint64(table, row.hash)
			table = binary.LittleEndian.AppendUint64(table, uint64(row.offset))
			table = binary.LittleEndian.AppendUint32(table, row.length)
		}
		table = append(table, bytes.Repeat([]byte{0}, pageWidth-4-(len(table)-from))...)
		table = binary.LittleEndian.AppendUint32(table, crc32.Update(record, crc32.IEEETable, table[from:]))
	}
	return durable.Replace(path, table, durable.None)
}
