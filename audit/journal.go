package audit

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"mbox/mailbox/durable"
)

// The journal, .mbox/journal, is what makes one flush of one file a commit. In
// mode Standard a line and the staged content that it commits to are written to
// their files, and are not flushed there; both are written to the journal as
// well, and the journal is flushed, by one process for all (flush.go). A killed
// process loses nothing by that, since what was written is in the kernel's memory.
// After a power cut Replay brings the lines back, and package mailbox the contents.
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
// A checkpoint does not learn of an error of which the system has told another program,
// or a process that was stopped before it marked the mailbox read-only, before this one
// opened the journal, or the day's file where audit/ is on another file system.
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
func (l *chain) Journals(size int) bool { return l.journaled() && size <= MaxPayload }

func (l *chain) journaled() bool { return l.mode == durable.Standard && durable.CanSyncFS }

// JournalPath is the journal of a home.
func JournalPath(home string) string { return filepath.Join(home, ".mbox", "journal") }

// journal is the open journal file.
type journal struct {
	*flusher
	size int64 // at least so much of the file is allocated; 0 until grow has looked
}

// journalAt is the part of the head record that is about the journal: where the
// next record goes. Offset 0 means that the ledger has lines that are not in it.
// Ino 0 means that a power cut brings no journal back: there is none, and its
// removal is on the disk.
//
// Generation is drawn at random whenever the records begin anew, for no position
// of theirs names them: a sequence number recurs after a recovery in one boot. 0 is
// none. A generation whose lines count ends only after a checkpoint.
type journalAt struct {
	Ino        uint64
	Offset     int64
	Generation uint64
}

// room makes sure that the next record of n bytes can be written, with a
// checkpoint if it must. Under the lock.
func (l *chain) room(n int64) error {
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
	if at := l.head.Journal; at.Ino != l.journal.ino || at.Offset == 0 || at.Generation == 0 || at.Offset+n > journalLimit {
		if err := l.beginJournal(); err != nil {
			return err
		}
	}
	return l.journal.grow(l.head.Journal.Offset + n)
}

// uncover says in the head record that the journal lacks lines.
func (l *chain) uncover(ino uint64) error {
	head := l.head
	head.Journal = journalAt{Ino: ino}
	return l.writeHead(head)
}

// beginJournal makes a checkpoint and begins the records anew. The head record
// says that there are none as long as the base is not on disk: a crash here
// leaves it to the next appender to do it again.
func (l *chain) beginJournal() error {
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
	if err := l.flushNow(l.journal.flusher); err != nil {
		return err
	}
	head.Journal = journalAt{l.journal.ino, journalBlock, newGeneration()}
	return l.writeHead(head)
}

func newGeneration() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return max(1, binary.NativeEndian.Uint64(b[:]))
}

// leaveJournal ends the use of a journal by a process that has none: what only
// the journal has on disk is brought to its place first. The journal goes,
// because it does not cover the lines that come now. The head record keeps its
// number until the removal is on the disk: after a crash here the next appender
// goes on with it.
func (l *chain) leaveJournal() error {
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
// ledger's lines, the staged files that they commit to, and the renames. A write
// error is told once to each descriptor that was open when it happened, so the
// journal's, which stays open, is the one to ask.
func (l *chain) checkpoint() error {
	var on *os.File
	if l.journal != nil {
		on = l.journal.file
	} else {
		dir, err := durable.OpenDir(filepath.Join(l.home, ".mbox"))
		if err != nil {
			return err
		}
		defer dir.Close()
		on = dir
	}
	if err := durable.SyncFS(on); err != nil {
		return errors.Join(err, l.setReadOnly("a checkpoint failed: "+err.Error()))
	}
	// audit/ may be on another file system. And where ext4 has no journal, syncfs
	// leaves names in the disk's cache: what comes after may reach the disk first.
	if l.open == nil {
		return nil
	}
	l.open.mu.Lock()
	defer l.open.mu.Unlock()
	return l.flushHeld(l.open)
}

// dropJournal removes the journal, once all that it is needed for is on disk. A
// process of mode None flushes here too: others have answered for those lines.
func (l *chain) dropJournal() error {
	if durable.CanSyncFS {
		if err := l.checkpoint(); err != nil {
			return err
		}
	}
	if err := durable.RemoveIfThere(JournalPath(l.home)); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Join(l.home, ".mbox"), durable.Standard)
}

// openJournal opens the journal, and makes it if it is missing.
func (l *chain) openJournal() error {
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
	fresh, err := newFlusher(f, ".mbox/journal")
	if err != nil {
		return err
	}
	fresh.opened = l.head.Journal
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.journal != nil {
		l.journal.release()
	}
	l.journal = &journal{flusher: fresh}
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
