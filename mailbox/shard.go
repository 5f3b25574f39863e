package mailbox

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// shards is the number of task locks. A task's lock is chosen by the hash of
// its case-folded id, a record's by its file name.
const shards = 256

// delegating is the lock behind those. It is held from the check of a delegation
// until its children stand in the ledger, and comes before any shard.
const delegating = shards

func shardName(i int) string {
	if i == delegating {
		return "delegate"
	}
	return fmt.Sprintf("shard-%02x", i)
}

func shardOf(name string) int {
	h := fnv.New32a()
	io.WriteString(h, strings.ToLower(name))
	return int(h.Sum32() % shards)
}

// recordSize is the space that init allocates for a dirty record.
const recordSize = 2048

// dirty is a shard's dirty record: what its holder is about to do. While it
// stands, a line with TX may be in the ledger from At on; whoever finds it with
// the lock free settles it.
//
// On disk it is one line of text, padded to recordSize:
//
//	dirty KIND NAME TX FILE OFFSET SEQ CHECKSUM PID CRC32
//
// NAME is quoted. A blank record is clean. Anything else is damaged, and means
// full recovery; so does the one of a lock file that recovery has made anew.
type dirty struct {
	kind string // "task", "record", "drop" or "note"
	name string // task id, record file name, name in a folder, or agent
	tx   string
	at   audit.Position // a place before the line
	pid  int
}

var blankRecord = []byte(strings.Repeat(" ", recordSize-1) + "\n")

// remadeRecord is in a shard's lock file that recovery has made anew, until a line
// of the ledger says so: a damaged record, so nobody takes the lock before. Who
// stood still with the old file's lock then finds that line in his way.
var remadeRecord = []byte("made anew" + strings.Repeat(" ", recordSize-10) + "\n")

var errDamagedRecord = errors.New("damaged dirty record")

func (d dirty) encode() []byte {
	file := d.at.File
	if file == "" {
		file = "-"
	}
	text := fmt.Sprintf("dirty %s %q %s %s %d %d %s %d", d.kind, d.name, d.tx, file, d.at.Offset, d.at.Seq, d.at.Checksum, d.pid)
	text += fmt.Sprintf(" %08x\n", crc32.ChecksumIEEE([]byte(text)))
	return []byte(text + strings.Repeat(" ", max(0, recordSize-1-len(text))) + "\n")
}

func decodeDirty(record []byte) (d dirty, set bool, err error) {
	text, _, _ := strings.Cut(string(record), "\n")
	text = strings.TrimRight(text, " ")
	if text == "" {
		return d, false, nil
	}
	i := strings.LastIndexByte(text, ' ')
	if i < 0 || fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(text[:i]))) != text[i+1:] {
		return d, true, errDamagedRecord
	}
	name, rest, err := unquote(strings.TrimPrefix(text[:i], "dirty "))
	if err != nil {
		return d, true, errDamagedRecord
	}
	f := strings.Fields(rest)
	if len(f) != 7 {
		return d, true, errDamagedRecord
	}
	d = dirty{kind: f[0], name: name, tx: f[1], at: audit.Position{File: f[2], Checksum: f[5]}}
	var errs [3]error
	d.at.Offset, errs[0] = strconv.ParseInt(f[3], 10, 64)
	d.at.Seq, errs[1] = strconv.ParseInt(f[4], 10, 64)
	d.pid, errs[2] = strconv.Atoi(f[6])
	if errors.Join(errs[:]...) != nil {
		return d, true, errDamagedRecord
	}
	if d.at.File == "-" {
		d.at.File = ""
	}
	return d, true, nil
}

// unquote takes the quoted NAME out of "KIND NAME REST".
func unquote(text string) (name, rest string, err error) {
	kind, text, _ := strings.Cut(text, " ")
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", err
	}
	name, err = strconv.Unquote(quoted)
	return name, kind + " " + text[len(quoted):], err
}

// shard is a held task lock.
type shard struct {
	number int
	pid    int
	lock   *durable.LockFile // its file holds the dirty record
	dirty  bool              // a record stands in it: what is put aside now needs none of its own

	locks []*durable.LockFile // what a line rests on: this one, and others that were taken with it
}

func (b *Box) shard(number int) *shard {
	lock := b.shards[number]
	return &shard{number: number, lock: lock, pid: b.writer.PID, locks: []*durable.LockFile{lock}}
}

// say appends a line. Every line of the mailbox is appended here, and names the
// locks under which it is true, so that nobody speaks whose lock files are not
// those any more that he holds:
//
//   - a task's line, an alarm, and what is put aside on the way: the task's shard;
//     a drop's and a key's, where it comes of one; that of delegations for a child
//   - a record's, a note's: the shard of its file's or agent's name
//   - recovery's: that of recoveries as well, and where it is about no task, alone
//
// Serial numbers are hints, so no line rests on their lock.
func (b *Box) say(ctx context.Context, locks []*durable.LockFile, e audit.Entry, p audit.Payload) (audit.Line, error) {
	line, err := b.ledger.AppendWith(ctx, e, p, locks...)
	return line, lockError(err)
}

// lockShard takes the lock of the task id or file name and settles what a dead
// holder left, so that what the caller then reads is consistent.
func (b *Box) lockShard(ctx context.Context, name string) (*shard, error) {
	return b.lockShardNumber(ctx, shardOf(name))
}

func (b *Box) lockShardNumber(ctx context.Context, number int) (*shard, error) {
	s, err := b.holdShard(ctx, number)
	if err != nil {
		return nil, err
	}
	return b.settled(ctx, s)
}

// holdShard takes the lock alone: for recovery, which settles by itself.
func (b *Box) holdShard(ctx context.Context, number int) (*shard, error) {
	s := b.shard(number)
	_, err := s.lock.Acquire(ctx, b.o.LockWait)
	if errors.Is(err, durable.ErrBusy) {
		return nil, fmt.Errorf("%w%s", err, b.holderOf(s.lock.Path()))
	}
	if err != nil {
		return nil, lockError(err)
	}
	return s, nil
}

// tryShard is lockShard without waiting: ErrBusy if somebody holds the lock.
func (b *Box) tryShard(ctx context.Context, number int) (*shard, error) {
	s := b.shard(number)
	if _, err := s.lock.Try(); err != nil {
		return nil, lockError(err)
	}
	return b.settled(ctx, s)
}

func lockError(err error) error {
	if errors.Is(err, os.ErrNotExist) && !errors.Is(err, audit.ErrUnwritten) || errors.Is(err, durable.ErrReplaced) {
		return fmt.Errorf("%w: %w (mbox recover makes missing lock files anew)", ErrIntegrity, err)
	}
	return err
}

// holderOf names the process in a busy lock's dirty record, for the message.
func (b *Box) holderOf(path string) string {
	d, set, err := readDirty(path)
	if err != nil || !set {
		return ""
	}
	return fmt.Sprintf(", held by process %d for %s", d.pid, d.name)
}

// readDirty reads a shard's record without its lock. It is called for every
// shard at every start, so it makes three system calls and no more.
func readDirty(path string) (dirty, bool, error) {
	var fd, n int
	err := again(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return dirty{}, false, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	record := make([]byte, recordSize)
	err = again(func() (err error) { n, err = unix.Pread(fd, record, 0); return err })
	if err != nil {
		return dirty{}, false, &os.PathError{Op: "read", Path: path, Err: err}
	}
	return decodeDirty(record[:n])
}

func (b *Box) settled(ctx context.Context, s *shard) (*shard, error) {
	if err := b.InPlace(); err != nil {
		s.unlock()
		return nil, err
	}
	record := make([]byte, recordSize)
	n, err := s.lock.File().ReadAt(record, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		s.unlock()
		return nil, err
	}
	d, set, err := decodeDirty(record[:n])
	if err == nil && set {
		s.dirty = true
		if err = b.settle(ctx, s, d); err == nil {
			err = s.clean()
		}
	}
	if err != nil {
		s.unlock()
		return nil, fmt.Errorf("settling what a process left in %s: %w", shardName(s.number), err)
	}
	return s, nil
}

// mark writes the dirty record: from here on a crash is settled.
func (s *shard) mark(d dirty) error {
	d.pid = s.pid
	if len(d.name) > 256 {
		d.name = d.name[:256]
	}
	s.dirty = true
	return durable.WriteAt(s.lock.File(), d.encode(), 0)
}

// clean blanks the dirty record: what it announced is done, or never happened.
func (s *shard) clean() error {
	err := durable.WriteAt(s.lock.File(), blankRecord, 0)
	if err == nil {
		s.dirty = false
	}
	return err
}

// stillHeld tells whether the lock files are still those that are held. say asks
// that as well, at the right moment for a line.
func (s *shard) stillHeld() error {
	return lockError(durable.StillHeld(s.locks...))
}

func (s *shard) unlock() { s.lock.Unlock() }
