package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mbox/mailbox/durable"
)

// The journal, .mbox/journal, is what makes one flush of one file a commit. In
// mode Standard a line and the staged content that it commits to are written to
// their files, and are not flushed there; both are written to the journal as
// well, and the journal is flushed. A killed process loses nothing by that,
// since what was written is in the kernel's memory. After a power cut Replay
// brings the lines back, and package mailbox the contents.
//
// # The format
//
// A record begins at a multiple of 4096 bytes and is padded with NULs to the
// next one, so that no block that was flushed is ever written again before it
// is of no use any more. The first is the base, one line of text:
//
//	base FILE OFFSET SEQ CHECKSUM CRC32C
//
// Up to that position the ledger is on disk, with all that it commits to. Each
// of the others is one line of text, the ledger's bytes, and the content:
//
//	journal FILE OFFSET LENGTH NAME SIZE CRC32C
//
// The LENGTH bytes belong to audit/shared/FILE at OFFSET; the SIZE bytes are
// the staged file .mbox/tmp/NAME ("-" where the line commits to none). The sum
// is over all but itself. Records are chained as their lines are, from the base
// on: where a record's prev is not the checksum of the line before, the journal
// ends.
//
// # When it is full
//
// A checkpoint, syncfs(2), brings everything that was written until then to the
// disk; a new base is written and flushed, and the records begin anew. The same
// is done wherever the ledger has lines that the journal has not: after a
// repair, when the journal is missing, and after a start of the machine.
//
// # What it does not cover
//
// The ledger's own bytes may reach the disk before the journal's. A line behind
// the last record was never flushed, so never acknowledged, and its content may
// be lost: Replay blanks it, as if the power cut had taken it, and it is set
// aside like any hole.
//
// Where syncfs is missing (macOS), and in mode Strict, there is no journal: the
// staged file is flushed, then the ledger.

const (
	journalBlock = 4 << 10
	journalChunk = 256 << 10 // the file grows by so much, ahead of the records
	journalLimit = 8 << 20
	// MaxPayload is up to what size a staged content goes into the journal. A
	// larger one is flushed by itself.
	MaxPayload = 64 << 10
)

// Payload is staged content that a line commits to: the name in .mbox/tmp and
// the bytes.
type Payload struct {
	Name string
	Data []byte
}

// Journals tells whether staged content of so many bytes is to be handed to
// Append, which then answers for its being on disk. If not, it has to be
// flushed before the line.
func (l *Ledger) Journals(size int) bool { return l.journaled() && size <= MaxPayload }

func (l *Ledger) journaled() bool { return l.mode == durable.Standard && durable.CanSyncFS }

// JournalPath is the journal of a home.
func JournalPath(home string) string { return filepath.Join(home, ".mbox", "journal") }

// journal is the open journal file.
type journal struct {
	*flusher
	size int64 // at least so much of the file is allocated
}

// journalAt is the part of the head record that is about the journal: where the
// next record goes. Offset 0 means that the ledger has lines that are not in it.
// Ino 0 means that a power cut brings no journal back: there is none, and its
// removal is on the disk.
type journalAt struct {
	Ino    uint64
	Offset int64
}

// room makes sure that the next record of n bytes can be written, with a
// checkpoint if it must. Under the lock.
func (l *Ledger) room(n int64) error {
	if !l.journaled() {
		return l.leaveJournal()
	}
	st, err := durable.Lstat(JournalPath(l.home))
	if errors.Is(err, fs.ErrNotExist) {
		err = l.uncover(l.head.Journal.Ino) // the new one may get this number again
	}
	if err != nil {
		return err
	}
	if l.journal == nil || l.journal.ino != st.Ino {
		if err := l.openJournal(); err != nil {
			return err
		}
	}
	if at := l.head.Journal; at.Ino != l.journal.ino || at.Offset == 0 || at.Offset+n > journalLimit {
		if err := l.beginJournal(); err != nil {
			return err
		}
	}
	return l.journal.grow(l.head.Journal.Offset + n)
}

// uncover says in the head record that the journal lacks lines.
func (l *Ledger) uncover(ino uint64) error {
	head := l.head
	head.Journal = journalAt{Ino: ino}
	return l.writeHead(head)
}

// beginJournal makes a checkpoint and begins the records anew. The head record
// says that there are none as long as the base is not on disk: a crash here
// leaves it to the next appender to do it again.
func (l *Ledger) beginJournal() error {
	if err := l.checkpoint(); err != nil {
		return err
	}
	if err := l.uncover(l.journal.ino); err != nil {
		return err
	}
	head := l.head
	if err := l.journal.grow(journalBlock); err != nil {
		return err
	}
	if err := durable.WriteAt(l.journal.file, baseRecord(head.position(l.genesis)), 0); err != nil {
		return err
	}
	if err := l.journal.syncNow(); err != nil {
		return errors.Join(err, l.setReadOnly("flushing .mbox/journal failed: "+err.Error()))
	}
	head.Journal = journalAt{Ino: l.journal.ino, Offset: journalBlock}
	return l.writeHead(head)
}

// leaveJournal ends the use of a journal by a process that has none: what only
// the journal has on disk is brought to its place first. The journal goes,
// because it does not cover the lines that come now. The head record keeps its
// number until the removal is on the disk: after a crash here the next appender
// goes on with it.
func (l *Ledger) leaveJournal() error {
	st, err := durable.Lstat(JournalPath(l.home))
	if errors.Is(err, fs.ErrNotExist) {
		if l.head.Journal.Ino == 0 {
			return nil
		}
		err = nil
	} else if err == nil && st.Ino != l.head.Journal.Ino {
		err = l.uncover(st.Ino)
	}
	if err != nil {
		return err
	}
	if err := l.dropJournal(); err != nil {
		return err
	}
	return l.uncover(0)
}

// checkpoint brings everything that was written until now to the disk: the
// ledger's lines, the staged files that they commit to, and the renames.
func (l *Ledger) checkpoint() error {
	dir, err := os.Open(filepath.Join(l.home, ".mbox"))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := durable.SyncFS(dir); err != nil {
		return errors.Join(err, l.setReadOnly("a checkpoint failed: "+err.Error()))
	}
	// audit/ may be on another file system. And where ext4 has no journal, syncfs
	// leaves names in the disk's cache: what comes after may reach the disk first.
	return l.syncOpen()
}

// dropJournal removes the journal, once all that it is needed for is on disk. A
// process of mode None flushes here too: others have answered for those lines.
func (l *Ledger) dropJournal() error {
	if durable.CanSyncFS {
		if err := l.checkpoint(); err != nil {
			return err
		}
	}
	if err := durable.Remove(JournalPath(l.home)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.SyncDir(filepath.Join(l.home, ".mbox"), durable.Standard)
}

// openJournal opens the journal, and makes it if it is missing.
func (l *Ledger) openJournal() error {
	path := JournalPath(l.home)
	f, err := durable.OpenFile(path, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		if err = durable.Stage(path, nil, l.mode); err == nil || errors.Is(err, fs.ErrExist) {
			err = durable.SyncDir(filepath.Dir(path), l.mode)
		}
		if err == nil {
			f, err = durable.OpenFile(path, os.O_RDWR)
		}
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, durable.ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return err
	}
	fresh, err := newFlusher(f, ".mbox/journal")
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.journal != nil {
		l.journal.retire()
	}
	l.journal = &journal{flusher: fresh, size: info.Size()}
	return nil
}

// grow allocates the file ahead of the records, so that a flush has to write
// nothing but them.
func (j *journal) grow(need int64) error {
	if need <= j.size {
		return nil
	}
	info, err := j.file.Stat()
	if err != nil {
		return err
	}
	for j.size = info.Size(); j.size < need; {
		n := journalChunk - j.size%journalChunk
		if err := durable.WriteAt(j.file, make([]byte, n), j.size); err != nil {
			return err
		}
		j.size += n
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Journaled is one record of the journal.
type Journaled struct {
	Seq     int64
	At      Position // where its line begins
	Payload Payload  // Name "" if it has none
	bytes   []byte   // of the ledger, at At
	prev    string
	sum     string
}

// Entry is the entry of the record's line.
func (j Journaled) Entry() (Entry, error) { return Line{Raw: bytes.Trim(j.bytes, "\n")}.Decode() }

// journalRecord renders a record.
func journalRecord(at Position, line []byte, p Payload) []byte {
	name := p.Name
	if name == "" {
		name = "-"
	}
	head := fmt.Sprintf("journal %s %d %d %s %d ", at.File, at.Offset, len(line), name, len(p.Data))
	sum := crc32.Update(0, castagnoli, []byte(head))
	sum = crc32.Update(sum, castagnoli, line)
	sum = crc32.Update(sum, castagnoli, p.Data)
	n := len(head) + 9 + len(line) + len(p.Data)
	record := make([]byte, 0, (n+journalBlock-1)/journalBlock*journalBlock)
	record = fmt.Appendf(append(record, head...), "%08x\n", sum)
	record = append(append(record, line...), p.Data...)
	return record[:cap(record)]
}

// baseRecord renders the base: the position up to which all is on disk.
func baseRecord(at Position) []byte {
	file := at.File
	if file == "" {
		file = "-"
	}
	text := fmt.Sprintf("base %s %d %d %s ", file, at.Offset, at.Seq, at.Checksum)
	record := make([]byte, journalBlock)
	copy(record, fmt.Sprintf("%s%08x\n", text, crc32.Checksum([]byte(text), castagnoli)))
	return record
}

// parseBase takes the base at the beginning of data.
func parseBase(data []byte) (at Position, ok bool) {
	first, _, found := bytes.Cut(data[:min(len(data), journalBlock)], []byte{'\n'})
	f := strings.Split(string(first), " ")
	if !found || len(f) != 6 || f[0] != "base" || len(f[5]) != 8 {
		return at, false
	}
	if fmt.Sprintf("%08x", crc32.Checksum(first[:len(first)-8], castagnoli)) != f[5] {
		return at, false
	}
	at = Position{File: f[1], Checksum: f[4]}
	if at.File == "-" {
		at.File = ""
	}
	_, err := fmt.Sscanf(f[2]+" "+f[3], "%d %d", &at.Offset, &at.Seq)
	return at, err == nil && at.Offset >= 0 && at.Seq >= 0
}

// parseJournaled takes the record at the beginning of data; ok is false where
// none stands. n is how many bytes it takes.
func parseJournaled(data []byte) (rec Journaled, n int, ok bool) {
	first, _, found := bytes.Cut(data[:min(len(data), journalBlock)], []byte{'\n'})
	f := strings.Split(string(first), " ")
	if !found || len(f) != 7 || f[0] != "journal" {
		return rec, 0, false
	}
	var offset int64
	var length, size int
	var sum uint32
	if _, err := fmt.Sscanf(f[2]+" "+f[3]+" "+f[5]+" "+f[6], "%d %d %d %08x", &offset, &length, &size, &sum); err != nil {
		return rec, 0, false
	}
	rest := data[len(first)+1:]
	if offset < 0 || length < 1 || length > 2*MaxLine || size < 0 || size > MaxPayload || length+size > len(rest) {
		return rec, 0, false
	}
	line, content := rest[:length], rest[length:length+size]
	have := crc32.Update(0, castagnoli, first[:len(first)-8])
	have = crc32.Update(crc32.Update(have, castagnoli, line), castagnoli, content)
	if have != sum {
		return rec, 0, false
	}
	seq, prev, checksum, err := skim(bytes.Trim(line, "\n"))
	if err != nil {
		return rec, 0, false
	}
	rec = Journaled{
		Seq: seq, At: Position{File: f[1], Offset: offset, Seq: seq - 1, Checksum: prev},
		bytes: line, prev: prev, sum: checksum,
	}
	if f[4] != "-" {
		rec.Payload = Payload{f[4], content}
	}
	n = len(first) + 1 + length + size
	return rec, (n + journalBlock - 1) / journalBlock * journalBlock, true
}

// parseJournal takes the records that stand in a journal, up to where the chain
// breaks: what stands behind was of an earlier use of the file, or was never
// flushed. covered is the position up to which base and records reach; false
// where there is no base.
func parseJournal(data []byte) (records []Journaled, covered Position, ok bool) {
	if covered, ok = parseBase(data); !ok {
		return nil, covered, false
	}
	data = data[min(len(data), journalBlock):]
	for len(data) > 0 {
		rec, n, ok := parseJournaled(data)
		if !ok || rec.prev != covered.Checksum || rec.Seq != covered.Seq+1 {
			break
		}
		records = append(records, rec)
		covered = Position{File: rec.At.File, Offset: rec.At.Offset + int64(len(rec.bytes)), Seq: rec.Seq, Checksum: rec.sum}
		data = data[min(n, len(data)):]
	}
	return records, covered, true
}

// Replay puts the journal's lines back where a power cut took them from the
// ledger, flushes them, and returns the records, oldest first, for their
// contents. It writes only where the file has nothing, or the NULs that a file
// system leaves; a ledger that differs otherwise is damaged, not cut, and stays
// as it is. Running it again changes no byte.
func (l *Ledger) Replay(ctx context.Context) ([]Journaled, error) {
	unlock, err := l.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	data, err := l.readJournal()
	if err != nil {
		return nil, err
	}
	records, covered, ok := parseJournal(data)
	if !ok {
		return nil, nil
	}
	r := replay{dir: sharedDir(l.home), sync: l.syncFile}
	defer r.close()
	for i, rec := range records {
		if there, err := r.bring(rec); err != nil || !there {
			return records[:i], err
		}
	}
	if err := r.flush(); err != nil {
		return nil, err
	}
	return records, l.blankUncovered(covered)
}

// readJournal reads the journal, and flushes it before that: what is acted on
// must be on disk. nil where there is none.
func (l *Ledger) readJournal() ([]byte, error) {
	f, _, err := durable.OpenRegular(JournalPath(l.home))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := l.syncFile(f); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, journalLimit+journalChunk))
}

// syncFile flushes a file that recovery reads or has written. An error makes the
// mailbox read-only: the next flush would say that all is well.
func (l *Ledger) syncFile(f *os.File) error {
	if l.mode == durable.None {
		return nil
	}
	if err := durable.Flush(f); err != nil {
		return errors.Join(err, l.setReadOnly("flushing "+f.Name()+" failed: "+err.Error()))
	}
	return nil
}

// blankUncovered overwrites with NULs what stands in the newest file behind what
// the journal covers, if there is a whole line in it, with its newline or without,
// in the chain or behind a hole: those lines were never flushed, and what they
// commit to may be lost. A line whose transaction stands in a file
// was not one of them; then the journal is not this ledger's, and that is
// damage. Under the lock.
func (l *Ledger) blankUncovered(covered Position) error {
	files, err := dayFiles(sharedDir(l.home))
	if err != nil || len(files) == 0 {
		return err
	}
	begins, err := l.startOf(files)
	if err != nil {
		return err
	}
	if covered.File < begins.File && covered.Seq == begins.Seq {
		covered = begins // a day was begun, and its first line not covered
	}
	size, err := l.follow(Head{File: begins.File, Seq: begins.Seq, Checksum: begins.Checksum})
	if err != nil || covered.File != begins.File || covered.Offset >= size {
		return err
	}
	if there, err := l.holdsLine(covered.Offset, size); err != nil || !there {
		return err
	}
	if err := l.checkCut(covered, size); err != nil {
		return err
	}
	f, err := durable.OpenFile(filepath.Join(sharedDir(l.home), begins.File), os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := durable.WriteAt(f, make([]byte, size-covered.Offset), covered.Offset); err != nil {
		return err
	}
	return l.syncFile(f)
}

// holdsLine tells whether a whole line stands in the open file between from and
// to.
func (l *Ledger) holdsLine(from, to int64) (bool, error) {
	in := l.pieces(from, to)
	for in.Scan() {
		if _, _, _, err := skim(in.Bytes()); err == nil {
			return true, nil
		}
	}
	return false, in.Err()
}

// replay writes lines into the day files that lack them.
type replay struct {
	dir     string
	sync    func(*os.File) error
	file    *os.File // the open day file, for reading and writing
	name    string
	changed bool
}

// bring makes sure that a record's line stands in its place; false if other
// bytes stand there.
func (r *replay) bring(rec Journaled) (bool, error) {
	if rec.At.File != r.name {
		if err := r.open(rec.At.File); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	info, err := r.file.Stat()
	if err != nil || info.Size() < rec.At.Offset {
		return false, err
	}
	have := make([]byte, len(rec.bytes))
	n, err := r.file.ReadAt(have, rec.At.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if bytes.Equal(have[:n], rec.bytes) {
		return true, nil
	}
	if !Torn(have[:n], rec.bytes) {
		return false, nil
	}
	r.changed = true
	return true, durable.WriteAt(r.file, rec.bytes, rec.At.Offset)
}

// Torn tells whether a power cut can have made have of whole: nothing is there
// but what belongs there, cut off or with NULs in it.
func Torn(have, whole []byte) bool {
	if len(have) > len(whole) {
		return false
	}
	for i, c := range have {
		if c != 0 && c != whole[i] {
			return false
		}
	}
	return true
}

func (r *replay) open(name string) error {
	if err := r.flush(); err != nil {
		return err
	}
	r.close()
	if !dayFile.MatchString(name) {
		return fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	f, err := durable.OpenFile(filepath.Join(r.dir, name), os.O_RDWR)
	if err != nil {
		return err
	}
	r.file, r.name = f, name
	return nil
}

func (r *replay) flush() error {
	if !r.changed {
		return nil
	}
	r.changed = false
	return r.sync(r.file)
}

func (r *replay) close() {
	if r.file != nil {
		r.file.Close()
		r.file, r.name = nil, ""
	}
}
