package mailbox

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"sort"

	"github.com/go-json-experiment/json"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// snapshot is the index as it was at one place of the ledger, in the file
// .mbox/index. It is derived: made anew whenever it is missing, of another
// boot, or far behind, and never believed against the ledger. It is never
// changed in place, so a reader may keep it open while another is renamed over
// it.
//
// The file: the ready records, in runs of one class and priority ordered by
// created and id; the others; for each record its offset, and the end (8 bytes
// each, little-endian); the record numbers in the order of their ids (4 bytes
// each); the special hashes, sorted (8 bytes each); the head as JSON
// (snapshotHead); the head's length (4 bytes).
type snapshot struct {
	file *os.File
	size int64
	head snapshotHead
	next []uint32 // per run: the first record that may still be there

	blocks map[int64][]byte // what was read of the file, by block number
}

const blockSize = 32 << 10

// ReadAt reads through the blocks, so that looking many records up reads each
// part of the file once. With Box.mu held, like everything of an index.
func (s *snapshot) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		number, within := (off+int64(n))/blockSize, (off+int64(n))%blockSize
		block, ok := s.blocks[number]
		if !ok {
			block = make([]byte, min(blockSize, max(0, s.size-number*blockSize)))
			if _, err := s.file.ReadAt(block, number*blockSize); err != nil {
				return n, err
			}
			s.blocks[number] = block
		}
		if within >= int64(len(block)) {
			return n, io.EOF
		}
		n += copy(p[n:], block[within:])
	}
	return n, nil
}

type snapshotHead struct {
	V        int            `json:"v"`
	Mailbox  string         `json:"mailbox"`
	Boot     string         `json:"boot"`
	At       audit.Position `json:"at"`
	Records  uint32         `json:"records"`
	Ready    uint32         `json:"ready"` // the first so many are in runs
	Runs     []run          `json:"runs"`
	Sets     [4][2]uint64   `json:"sets"`
	Offsets  int64          `json:"offsets"` // where the tables begin
	Order    int64          `json:"order"`
	Special  int64          `json:"special"`
	Specials int64          `json:"specials"`
}

// run is the records [First, End) of one class and priority.
type run struct {
	Target   string `json:"target"`
	Type     string `json:"type"`
	Action   string `json:"action"`
	Priority int    `json:"priority"`
	First    uint32 `json:"first"`
	End      uint32 `json:"end"`
}

func (r run) class() class { return class{r.Target, r.Type, r.Action} }

func (b *Box) snapshotPath() string { return home.Private(b.home, "index") }

var errNoSnapshot = errors.New("no usable snapshot")

// openSnapshot opens the snapshot if it is of this mailbox and boot, and if the
// ledger continues it.
func (b *Box) openSnapshot() (*snapshot, error) {
	f, err := durable.OpenFile(b.snapshotPath(), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoSnapshot
	}
	if err != nil {
		return nil, err
	}
	s := &snapshot{file: f, blocks: map[int64][]byte{}}
	if err := s.readHead(); err != nil || s.head.V != home.SnapshotVersion || s.head.Mailbox != b.id || s.head.Boot != b.boot || b.ledger.Check(s.head.At) != nil {
		f.Close()
		return nil, errNoSnapshot
	}
	s.next = make([]uint32, len(s.head.Runs))
	for i, r := range s.head.Runs {
		s.next[i] = r.First
	}
	return s, nil
}

func (s *snapshot) readHead() error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	s.size = info.Size()
	var length [4]byte
	if _, err := s.file.ReadAt(length[:], s.size-4); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(length[:]))
	if n <= 0 || n > s.size-4 {
		return errNoSnapshot
	}
	text := make([]byte, n)
	if _, err := s.file.ReadAt(text, s.size-4-n); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &s.head); err != nil {
		return err
	}
	return s.head.check(s.size - 4 - n)
}

// check holds the head against the length of what stands before it.
func (h *snapshotHead) check(length int64) error {
	n := int64(h.Records)
	fits := h.Offsets >= 0 && h.Order == h.Offsets+8*(n+1) && h.Special == h.Order+4*n &&
		h.Specials >= 0 && h.Specials <= length/8 && length == h.Special+8*h.Specials
	at := uint32(0)
	for _, r := range h.Runs {
		fits = fits && r.First == at && r.End > r.First && r.End <= h.Ready && r.Priority >= 0 && r.Priority < len(task.Priorities)
		at = r.End
	}
	if !fits || at != h.Ready || h.Ready > h.Records {
		return errNoSnapshot
	}
	return nil
}

func (s *snapshot) close() { s.file.Close() }

// at reads record number n; nil if it cannot be read.
func (s *snapshot) at(n uint32) *record {
	var offsets [16]byte
	if _, err := s.ReadAt(offsets[:], s.head.Offsets+8*int64(n)); err != nil {
		return nil
	}
	from, to := binary.LittleEndian.Uint64(offsets[:8]), binary.LittleEndian.Uint64(offsets[8:])
	if to < from || to-from > 1<<16 {
		return nil
	}
	data := make([]byte, to-from)
	if _, err := s.ReadAt(data, int64(from)); err != nil {
		return nil
	}
	r, err := decodeRecord(data)
	if err != nil {
		return nil
	}
	if n < s.head.Ready {
		i := sort.Search(len(s.head.Runs), func(i int) bool { return s.head.Runs[i].End > n })
		r.class, r.priority = s.head.Runs[i].class(), s.head.Runs[i].Priority
	}
	return r
}

// find looks a record up by its id.
func (s *snapshot) find(id ID) (uint32, *record) {
	var found *record
	var number uint32
	sort.Search(int(s.head.Records), func(i int) bool {
		n, ok := s.ordered(uint32(i))
		if !ok {
			return true
		}
		r := s.at(n)
		if r == nil {
			return true
		}
		if r.id == id {
			found, number = r, n
		}
		return r.id >= id
	})
	return number, found
}

func (s *snapshot) ordered(i uint32) (uint32, bool) {
	var n [4]byte
	if _, err := s.ReadAt(n[:], s.head.Order+4*int64(i)); err != nil {
		return 0, false
	}
	return binary.LittleEndian.Uint32(n[:]), true
}

// has tells whether a hash is among the special ones.
func (s *snapshot) has(hash uint64) bool {
	i := sort.Search(int(s.head.Specials), func(i int) bool { return s.special(i) >= hash })
	return int64(i) < s.head.Specials && s.special(i) == hash
}

func (s *snapshot) special(i int) uint64 {
	var v [8]byte
	if _, err := s.ReadAt(v[:], s.head.Special+8*int64(i)); err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(v[:])
}

// heads offers the first record of each fitting run that is not gone, with its
// number.
func (s *snapshot) heads(fits func(class) bool, gone map[uint32]bool, offer func(uint32, *record)) {
	for i, r := range s.head.Runs {
		if s.next[i] == r.End || !fits(r.class()) {
			continue
		}
		for s.next[i] < r.End && gone[s.next[i]] {
			s.next[i]++
		}
		if s.next[i] < r.End {
			if head := s.at(s.next[i]); head != nil {
				offer(s.next[i], head)
			}
		}
	}
}

// others loads the records that are in no run: waiting, blocked, in progress.
func (s *snapshot) others() ([]*record, error) {
	var out []*record
	for n := s.head.Ready; n < s.head.Records; n++ {
		r := s.at(n)
		if r == nil {
			return nil, errNoSnapshot
		}
		out = append(out, r)
	}
	return out, nil
}

// recordReader takes a record's binary form apart.
type recordReader struct {
	data []byte
	bad  bool
}

func (d *recordReader) num() int64 {
	v, n := binary.Varint(d.data)
	if n <= 0 {
		d.bad, d.data = true, nil
		return 0
	}
	d.data = d.data[n:]
	return v
}

func (d *recordReader) str() string {
	size, n := binary.Uvarint(d.data)
	if n <= 0 || uint64(len(d.data)-n) < size {
		d.bad, d.data = true, nil
		return ""
	}
	s := string(d.data[n : n+int(size)])
	d.data = d.data[n+int(size):]
	return s
}

func (d *recordReader) ids(most int64) (ids []ID) {
	for range min(d.num(), most) {
		ids = append(ids, ID(d.str()))
	}
	return ids
}

func decodeRecord(data []byte) (*record, error) {
	d := &recordReader{data: data}
	r := &record{place: -1, rest: -1}
	r.id, r.state = ID(d.str()), State(d.str())
	r.class = class{d.str(), d.str(), d.str()}
	r.claimant = d.str()
	r.priority = int(d.num())
	for _, v := range []*int64{&r.created, &r.notBefore, &r.deadline, &r.until, &r.since, &r.revision, &r.epoch, &r.attempt, &r.max} {
		*v = d.num()
	}
	if len(d.data) < len(r.after)+len(r.asked)+len(r.claim) {
		return nil, errNoSnapshot
	}
	d.data = d.data[copy(r.after[:], d.data):]
	d.data = d.data[copy(r.asked[:], d.data):]
	d.data = d.data[copy(r.claim[:], d.data):]
	flags := d.num()
	r.blocked, r.check, r.alarmed = flags&1 != 0, flags&2 != 0, flags&4 != 0
	r.dependsOn = d.ids(MaxDependsOn)
	r.parent, r.born, r.join, r.waitsFor = ID(d.str()), d.num(), d.str(), d.ids(MaxChildren)
	if d.bad || r.priority < 0 || r.priority >= len(task.Priorities) {
		return nil, errNoSnapshot
	}
	return r, nil
}

// ready reads all records of the runs that are not gone, in the order of their
// runs, and the special hashes, the file being read once from end to end. It
// touches nothing that changes.
func (s *snapshot) ready(gone map[uint32]bool) ([]*record, []uint64, error) {
	data, err := io.ReadAll(io.NewSectionReader(s.file, 0, s.size))
	if err != nil {
		return nil, nil, err
	}
	out := make([]*record, 0, s.head.Ready)
	for _, run := range s.head.Runs {
		for n := run.First; n < run.End; n++ {
			if gone[n] {
				continue
			}
			from := binary.LittleEndian.Uint64(data[s.head.Offsets+8*int64(n):])
			if from > uint64(s.head.Offsets) {
				return nil, nil, errNoSnapshot
			}
			r, err := decodeRecord(data[from:s.head.Offsets])
			if err != nil {
				return nil, nil, err
			}
			r.class, r.priority = run.class(), run.Priority
			out = append(out, r)
		}
	}
	special := make([]uint64, s.head.Specials)
	for i := range special {
		special[i] = binary.LittleEndian.Uint64(data[s.head.Special+8*int64(i):])
	}
	return out, special, nil
}
