package queue

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"slices"
	"sort"

	"github.com/go-json-experiment/json"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/task"
)

// snapshot is the queue as it was at one place of the ledger, in the file
// .mbox/index. It is derived: made anew whenever it is missing, of another
// boot, or far behind, and never believed against the ledger. It is never
// changed in place, so a reader may keep it open while another is renamed over
// it.
//
// The file: the ready entries, in runs of one class and priority ordered by
// created and id; the others; for each entry its offset, and the end (8 bytes
// each, little-endian); for each ready entry the hash of its id and its number (8
// and 4 bytes), in the order of the hashes; the special hashes, sorted (8 bytes
// each); the head as JSON (snapshotHead); the head's length (4 bytes). Behind that a
// CRC-32C for each 32 KiB of all this, and one of those (4 bytes each): a block that is
// not what was written is found when it is read, and the whole file counts for nothing.
//
// The entries that are not ready were taken into memory with it, so what it has of
// them counts for nothing any more.
type snapshot struct {
	file *os.File
	size int64 // without the sums
	sums []byte
	head snapshotHead
	next []uint32        // per run: the first entry that may still be there
	gone map[uint32]bool // entries that have been taken over into memory

	blocks map[int64][]byte // what was read of the file, by block number
	err    error            // why something of it could not be read: it has to be made anew
}

type snapshotHead struct {
	V        int            `json:"v"`
	Mailbox  string         `json:"mailbox"`
	Boot     string         `json:"boot"`
	At       audit.Position `json:"at"`
	Entries  uint32         `json:"entries"`
	Ready    uint32         `json:"ready"` // the first so many are in runs
	Runs     []run          `json:"runs"`
	Sets     [4]Set         `json:"sets"`
	Offsets  int64          `json:"offsets"` // where the tables begin
	Order    int64          `json:"order"`
	Special  int64          `json:"special"`
	Specials int64          `json:"specials"`

	Agents map[string]lifecycle.Agent `json:"agents"`
	Lost   []task.ID                  `json:"lost,omitempty"`
	Owed   map[uint64]string          `json:"owed,omitempty"`
}

// run is the entries [First, End) of one class and priority.
type run struct {
	Class
	Priority int    `json:"priority"`
	First    uint32 `json:"first"`
	End      uint32 `json:"end"`
	Told     uint32 `json:"told"` // those before it have an alarm
}

// File is the path of a home's snapshot.
func File(dir string) string { return home.Private(dir, "index") }

var errNoSnapshot = errors.New("no usable snapshot")

// Saved is the place of the ledger at which a mailbox's queue was last written
// down; zero where that is not known.
func Saved(dir, mailbox string) audit.Position {
	s, err := readSnapshot(dir)
	if err != nil {
		return audit.Position{}
	}
	defer s.file.Close()
	if s.head.Mailbox != mailbox {
		return audit.Position{}
	}
	return s.head.At
}

// open opens the snapshot if it is of this mailbox and boot, and if the ledger
// continues it.
func (o *Options) open() (*snapshot, error) {
	s, err := readSnapshot(o.Home)
	if err != nil {
		return nil, err
	}
	if s.head.V != home.SnapshotVersion || s.head.Mailbox != o.Mailbox || s.head.Boot != o.Boot || o.Ledger.Check(s.head.At) != nil {
		s.file.Close()
		return nil, errNoSnapshot
	}
	return s, nil
}

func readSnapshot(dir string) (*snapshot, error) {
	f, info, err := durable.OpenRegular(File(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoSnapshot
	}
	if err != nil {
		return nil, err
	}
	s := &snapshot{file: f, gone: map[uint32]bool{}, blocks: map[int64][]byte{}}
	if s.readSums(info.Size()) != nil || s.readHead() != nil {
		f.Close()
		return nil, errNoSnapshot
	}
	for _, r := range s.head.Runs {
		s.next = append(s.next, r.First)
	}
	return s, nil
}

// readSums takes the sums off the end of a file of that size.
func (s *snapshot) readSums(size int64) error {
	blocks := (size - sumWidth + blockSize + sumWidth - 1) / (blockSize + sumWidth)
	sums := make([]byte, sumWidth*(max(blocks, 0)+1))
	s.size = size - int64(len(sums))
	if _, err := s.file.ReadAt(sums, s.size); err != nil {
		return err
	}
	s.sums = sums[:len(sums)-sumWidth]
	if sumOf(s.sums) != binary.LittleEndian.Uint32(sums[len(s.sums):]) {
		return errNoSnapshot
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumOf(data []byte) uint32 { return crc32.Checksum(data, castagnoli) }

// load reads whole blocks from a place on, the last of the file to its end.
func (s *snapshot) load(data []byte, off int64) error {
	if _, err := s.file.ReadAt(data, off); err != nil {
		return err
	}
	want := s.sums[sumWidth*(off/blockSize):]
	for block := range slices.Chunk(data, blockSize) {
		if sumOf(block) != binary.LittleEndian.Uint32(want) {
			return errNoSnapshot
		}
		want = want[sumWidth:]
	}
	return nil
}

func (s *snapshot) readHead() error {
	n := int64(s.number(s.size-4, 4))
	text := s.bytes(s.size-4-n, n)
	if text == nil {
		return errNoSnapshot
	}
	if err := json.Unmarshal(text, &s.head); err != nil {
		return err
	}
	return s.head.check(s.size - 4 - n)
}

// Width of a line of each table.
const (
	offsetWidth  = 8
	orderWidth   = 12
	specialWidth = 8
	sumWidth     = 4
)

// check holds the head against the length of what stands before it.
func (h *snapshotHead) check(length int64) error {
	fits := h.Offsets >= 0 && h.Order == h.Offsets+offsetWidth*(int64(h.Entries)+1) && h.Special == h.Order+orderWidth*int64(h.Ready) &&
		h.Specials >= 0 && h.Specials <= length/specialWidth && length == h.Special+specialWidth*h.Specials
	at := uint32(0)
	for _, r := range h.Runs {
		fits = fits && r.First == at && r.End > r.First && r.End <= h.Ready && r.Told <= r.End && r.Priority >= 0 && r.Priority < len(task.Priorities)
		at = r.End
	}
	if !fits || at != h.Ready || h.Ready > h.Entries {
		return errNoSnapshot
	}
	return nil
}

const blockSize = 32 << 10

// block is a block of the file. Each is read once.
func (s *snapshot) block(number int64) []byte {
	block, ok := s.blocks[number]
	if !ok {
		block = make([]byte, min(blockSize, max(0, s.size-number*blockSize)))
		if err := s.load(block, number*blockSize); err != nil {
			s.err = err
			return nil
		}
		s.blocks[number] = block
	}
	return block
}

// bytes are n bytes of the file; nil if they cannot be read.
func (s *snapshot) bytes(off, n int64) []byte {
	if off < 0 || n <= 0 || off > s.size-n {
		return nil
	}
	var joined []byte
	for n > 0 {
		block, from := s.block(off/blockSize), off%blockSize
		if block == nil {
			return nil
		}
		part := block[from:min(from+n, int64(len(block)))]
		if joined == nil && int64(len(part)) == n {
			return part
		}
		joined = append(joined, part...)
		off, n = off+int64(len(part)), n-int64(len(part))
	}
	return joined
}

// number is the integer of so many bytes there; 0 if it cannot be read.
func (s *snapshot) number(off, width int64) uint64 {
	var whole [8]byte
	copy(whole[:], s.bytes(off, width))
	return binary.LittleEndian.Uint64(whole[:])
}

// at reads an entry; nil if it cannot be read.
func (s *snapshot) at(n uint32) *Entry {
	e := new(Entry)
	if !s.read(n, e) {
		return nil
	}
	return e
}

func (s *snapshot) read(n uint32, e *Entry) bool {
	offset := s.head.Offsets + offsetWidth*int64(n)
	from, to := int64(s.number(offset, offsetWidth)), int64(s.number(offset+offsetWidth, offsetWidth))
	return to >= from && to-from <= mostEntry && s.decode(n, s.bytes(from, to-from), e)
}

// mostEntry is how many bytes an entry has at most.
const mostEntry = 1 << 16

// decode reads entry n from its bytes.
func (s *snapshot) decode(n uint32, data []byte, e *Entry) bool {
	if e.decode(data) != nil {
		return false
	}
	if n < s.head.Ready {
		i := sort.Search(len(s.head.Runs), func(i int) bool { return s.head.Runs[i].End > n })
		e.Class, e.Priority = s.head.Runs[i].Class, s.head.Runs[i].Priority
	}
	return true
}

// search is the first line of a table of sorted hashes that has the hash, or a
// higher one.
func (s *snapshot) search(table, width, lines int64, hash uint64) (line int64) {
	return int64(sort.Search(int(lines), func(i int) bool { return s.number(table+width*int64(i), 8) >= hash }))
}

// has tells whether a hash is among the special ones.
func (s *snapshot) has(hash uint64) bool {
	i := s.search(s.head.Special, specialWidth, s.head.Specials, hash)
	return i < s.head.Specials && s.number(s.head.Special+specialWidth*i, 8) == hash
}

// find looks an entry up by its id, with its number.
func (s *snapshot) find(id task.ID) (uint32, *Entry) {
	hash := hash64(string(id))
	for i := s.search(s.head.Order, orderWidth, int64(s.head.Ready), hash); i < int64(s.head.Ready); i++ {
		line := s.head.Order + orderWidth*i
		if s.number(line, 8) != hash {
			break
		}
		n := uint32(s.number(line+8, 4))
		if n >= s.head.Ready || s.gone[n] {
			continue
		}
		if e := s.at(n); e != nil && e.ID == id {
			return n, e
		}
	}
	return 0, nil
}

// first is the first entry of a run that is not gone, with its number; nil if there is
// none, or it cannot be read.
func (s *snapshot) first(run int) (uint32, *Entry) {
	n, end := &s.next[run], s.head.Runs[run].End
	for ; *n < end; *n++ {
		if !s.gone[*n] {
			return *n, s.at(*n)
		}
	}
	return end, nil
}

// atOnce is how many entries each decodes while as many are looked at.
const atOnce = 256

// each reads the entries [n, end) that are not gone. Who keeps one copies it. No block
// is kept for that: there may be very many, and each is wanted once.
func (s *snapshot) each(n, end uint32, look func(*Entry)) (err error) {
	all := func(batch []Entry) []Entry {
		for i := range batch {
			look(&batch[i])
		}
		return batch[:0]
	}
	if n >= end {
		return nil
	}
	if end-n <= atOnce {
		return s.pass(n, end, make([]Entry, 0, end-n), all)
	}
	free, full := make(chan []Entry, 1), make(chan []Entry)
	free <- make([]Entry, 0, atOnce)
	go func() {
		defer close(full)
		err = s.pass(n, end, make([]Entry, 0, atOnce), func(batch []Entry) []Entry {
			full <- batch
			return <-free
		})
	}()
	defer func() { // look may panic
		for batch := range full {
			free <- batch[:0]
		}
	}()
	for batch := range full {
		free <- all(batch)
	}
	return err
}

// pass decodes the entries [n, end) that are not gone into a batch, and hands it on when
// it is full, for an empty one.
func (s *snapshot) pass(n, end uint32, batch []Entry, hand func([]Entry) []Entry) error {
	offsets, entries := pass{s: s}, pass{s: s}
	offset := func(n uint32) int64 {
		var whole [offsetWidth]byte
		copy(whole[:], offsets.bytes(s.head.Offsets+offsetWidth*int64(n), offsetWidth))
		return int64(binary.LittleEndian.Uint64(whole[:]))
	}
	for from := offset(n); n < end; n++ {
		to := offset(n + 1)
		if !s.gone[n] {
			batch = batch[:len(batch)+1] // decode overwrites what is there
			if to < from || to-from > mostEntry || !s.decode(n, entries.bytes(from, to-from), &batch[len(batch)-1]) {
				s.err = cmp.Or(s.err, errNoSnapshot)
				return s.err
			}
		}
		if from = to; len(batch) == cap(batch) {
			batch = hand(batch)
		}
	}
	hand(batch)
	return nil
}

// pass reads a file once from one place on.
type pass struct {
	s    *snapshot
	at   int64
	held []byte
}

// bytes are n bytes of the file, until it is called again; nil if they cannot be read.
func (p *pass) bytes(off, n int64) []byte {
	if off < 0 || n <= 0 || off > p.s.size-n {
		return nil
	}
	if off < p.at || off+n > p.at+int64(len(p.held)) {
		if p.held == nil {
			p.held = make([]byte, blockSize+mostEntry+blockSize)
		}
		p.at = off - off%blockSize
		p.held = p.held[:min(int64(cap(p.held)), p.s.size-p.at)]
		if err := p.s.load(p.held, p.at); err != nil {
			p.s.err, p.held = err, p.held[:0]
			return nil
		}
	}
	return p.held[off-p.at:][:n]
}
