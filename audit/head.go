package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"mbox/mailbox/durable"
)

// headSize is the space for the head record.
const headSize = 512

// HomeFormat is the format of a home in which this package may append. Whoever
// finds that of a later one in the head record appends no more, though he had
// the home open before it was brought there.
const HomeFormat = 2

// ErrFormat says that a home has a format that this mbox does not know.
var ErrFormat = errors.New("unknown mailbox format")

// Head is the record of the ledger's end, kept in the ledger's lock file as one
// line of text: "head FORMAT FILE DEV INODE LENGTH SEQ CHECKSUM BOOT JOURNAL OFFSET
// GENERATION CRC32". It is written after every append, by one pwrite, and valid in
// its boot only. (In homes of format 1 it had neither FORMAT nor GENERATION.)
type Head struct {
	Format   int
	File     string // name in audit/shared; "" while there is none
	Dev, Ino uint64
	Length   int64 // bytes of File
	Seq      int64
	Checksum string
	Boot     string
	Journal  journalAt // where the journal's next record goes
}

func (h Head) position(genesis string) Position {
	if h.Checksum == "" {
		return Position{Checksum: genesis}
	}
	return Position{File: h.File, Offset: h.Length, Seq: h.Seq, Checksum: h.Checksum}
}

func (h Head) encode() []byte {
	return lockRecord(fmt.Appendf(make([]byte, 0, headSize), "head %d %s %d %d %d %d %s %s %d %d %d", h.Format, cmp.Or(h.File, "-"), h.Dev, h.Ino, h.Length, h.Seq, h.Checksum, h.Boot, h.Journal.Ino, h.Journal.Offset, h.Journal.Generation))
}

// lockRecord is a line of text with its CRC32, as a lock file holds it.
func lockRecord(text []byte) []byte {
	record := fmt.Appendf(text, " %08x\n", crc32.ChecksumIEEE(text))
	return append(record, bytes.Repeat([]byte{' '}, headSize-len(record))...)
}

// parseLockRecord is the text of a record, "" where none stands.
func parseLockRecord(record []byte) string {
	line, _, ok := bytes.Cut(record, []byte{'\n'})
	line = bytes.TrimRight(line, " ")
	i := bytes.LastIndexByte(line, ' ')
	sum, err := strconv.ParseUint(string(line[i+1:]), 16, 32)
	if !ok || i < 0 || err != nil || len(line)-i != 9 || crc32.ChecksumIEEE(line[:i]) != uint32(sum) {
		return ""
	}
	return string(line[:i])
}

func decodeHead(record []byte) (Head, bool) {
	f := strings.Fields(parseLockRecord(record))
	if len(f) == 10 {
		f = append(append([]string{f[0], "1"}, f[1:]...), "0")
	}
	if len(f) < 12 || f[0] != "head" {
		return Head{}, false
	}
	h := Head{File: f[2], Checksum: f[7], Boot: f[8]}
	var errs [8]error
	h.Format, errs[0] = strconv.Atoi(f[1])
	h.Dev, errs[1] = strconv.ParseUint(f[3], 10, 64)
	h.Ino, errs[2] = strconv.ParseUint(f[4], 10, 64)
	h.Length, errs[3] = strconv.ParseInt(f[5], 10, 64)
	h.Seq, errs[4] = strconv.ParseInt(f[6], 10, 64)
	h.Journal.Ino, errs[5] = strconv.ParseUint(f[9], 10, 64)
	h.Journal.Offset, errs[6] = strconv.ParseInt(f[10], 10, 64)
	h.Journal.Generation, errs[7] = strconv.ParseUint(f[11], 10, 64)
	if h.Format > HomeFormat {
		return Head{Format: h.Format}, true // the rest may mean anything
	}
	if h.File == "-" {
		h.File = ""
	}
	if errors.Join(errs[:]...) != nil {
		return Head{}, false
	}
	return h, true
}

// headFile is the lock file, for reading without the lock.
func (l *chain) headFile() (*durable.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heads != nil && l.heads.Check() == nil {
		return l.heads, nil
	}
	f, err := durable.OpenNamed(l.gate.Path(), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if l.heads != nil {
		l.heads.Close()
	}
	l.heads = f
	return f, nil
}

// Seen is the end of the ledger according to the head record, read without the
// lock: an appender who is just at work, or who has died at it, may be behind
// it. False where there is no record of this boot.
func (l *chain) Seen() (Position, bool) {
	head, err := l.seeHead()
	if err != nil || head.Boot != l.boot {
		return Position{}, false
	}
	return head.position(l.genesis), true
}

// lastHead is seeHead without a look at the name. In a file that has lost its name
// the record tells of what was true once.
func (l *chain) lastHead() (Head, error) {
	l.mu.Lock()
	f := l.heads
	l.mu.Unlock()
	if f == nil {
		return l.seeHead()
	}
	return readHead(f.File)
}

// seeHead returns the head record as it is just now, without the lock.
func (l *chain) seeHead() (Head, error) {
	f, err := l.headFile()
	if err != nil {
		return Head{}, err
	}
	return readHead(f.File)
}

// readHead reads the head record. One that cannot be read, or none yet, has an
// empty Boot, which no machine has.
func readHead(f *os.File) (Head, error) {
	record := make([]byte, headSize)
	if _, err := f.ReadAt(record, 0); err != nil && !errors.Is(err, io.EOF) {
		return Head{}, err
	}
	h, _ := decodeHead(record)
	if h.Format > HomeFormat {
		return Head{}, fmt.Errorf("%s: %w: format %d, this mbox knows %d", f.Name(), ErrFormat, h.Format, HomeFormat)
	}
	return h, nil
}

// writeHead records h as the end, with the open file's identity and this boot.
// Under the lock.
func (l *chain) writeHead(h Head) error {
	h.Format, h.Boot = HomeFormat, l.boot
	l.mu.Lock()
	file := l.open
	l.mu.Unlock()
	if file != nil {
		h.Dev, h.Ino = file.dev, file.ino
	}
	if err := durable.WriteAt(l.gate.File(), h.encode(), 0); err != nil {
		return err
	}
	l.mu.Lock()
	l.head = h
	l.mu.Unlock()
	return nil
}

// LockNames are the lock files of this package in .mbox/locks, made with the home
// and never removed: the ledger's, that of the flush which processes share, and
// that of the agents' copies.
func LockNames() []string { return []string{"chain", "sync", copiesLock} }

// ChainPath is the ledger's lock file.
func ChainPath(home string) string { return filepath.Join(home, ".mbox", "locks", "chain") }

// rebuildHead reads the newest file to its end when the head record is of no
// use: there is none yet, it is damaged, or it is of another boot. Under the lock.
func (l *chain) rebuildHead() error {
	files, err := dayFiles(sharedDir(l.home))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return l.writeHead(Head{Checksum: l.genesis})
	}
	newest := files[len(files)-1]
	at, err := l.startOf(files)
	if err != nil {
		return err
	}
	size, err := l.follow(Head{File: newest, Seq: at.Seq, Checksum: at.Checksum})
	if err != nil {
		return err
	}
	return l.mend(size)
}

// startOf is the position at the beginning of the newest file. The files before
// it were flushed before it was begun, so their last line counts.
func (l *chain) startOf(files []string) (Position, error) {
	at := Position{File: files[len(files)-1], Checksum: l.genesis}
	for i := len(files) - 2; i >= 0; i-- {
		last, err := lastLine(filepath.Join(sharedDir(l.home), files[i]))
		if err != nil {
			return at, err
		}
		if last == nil {
			continue
		}
		seq, _, sum, err := skim(last)
		if err != nil {
			return at, l.damaged(fmt.Sprintf("audit/shared/%s: its last line: %v", files[i], err))
		}
		at.Seq, at.Checksum = seq, sum
		return at, nil
	}
	return at, nil
}

// lastLine returns the last line of a file without its newline, nil if the file
// is empty. Bytes without a newline count as a line.
func lastLine(path string) ([]byte, error) {
	f, info, err := durable.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() == 0 {
		return nil, nil
	}
	size := min(info.Size(), MaxLine+2)
	tail := make([]byte, size)
	if _, err := f.ReadAt(tail, info.Size()-size); err != nil {
		return nil, err
	}
	tail = bytes.TrimSuffix(tail, []byte{'\n'})
	return tail[bytes.LastIndexByte(tail, '\n')+1:], nil
}
