package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
)

// ErrGone: more tasks are gone from a folder than a person deletes by hand: the
// folder was replaced, removed, emptied, or is on a disk that is not mounted.
// Nothing is written until they are back, or until an operator says that they are
// deleted (RecoverOptions.AdoptDeleted).
var ErrGone = fmt.Errorf("%w: tasks are gone", audit.ErrReadOnly)

// ReplacedError says that another folder lies in the place of a home than the one that
// this process has opened. What it knows is of that one.
type ReplacedError struct{ Home string }

func (e *ReplacedError) Error() string {
	return e.Home + ": this is another folder than the one that was opened"
}

// Places compares the folders of tasks with the boot record.
type Places struct {
	home   string
	folder *os.File // the home's: while it is open no other one has its inode
	now    func() time.Time
	other  func() // the boot record is another one than at the last look

	mu    sync.Mutex // guards what follows
	file  fs.FileInfo
	boot  Boot // that was in the file
	tasks tasksFolder
}

// tasksFolder is the folder tasks/ at a look at what is in it, and the record that
// those agreed with.
type tasksFolder struct {
	dev, inode uint64
	changed    int64 // in nanoseconds
	record     Boot
}

// NewPlaces returns those of a home. other is called whenever the boot record is
// another one than at the last look: there may have been a recovery.
func NewPlaces(home string, now func() time.Time, other func()) (*Places, error) {
	folder, err := os.Open(home)
	return &Places{home: home, folder: folder, now: now, other: other}, err
}

// Close releases the home's folder. A second one does nothing.
func (p *Places) Close() { p.folder.Close() }

// Same returns a [ReplacedError] where another folder lies in the place of the home. One
// that is away is not replaced, and after Close there is no telling.
func (p *Places) Same() error {
	was, err := p.folder.Stat()
	now, away := os.Stat(p.home)
	if err == nil && away == nil && !os.SameFile(was, now) {
		return &ReplacedError{p.home}
	}
	return nil
}

// coarseTime is the coarsest step in which a file system counts ctimes.
const coarseTime = 2 * time.Second

// Check returns ErrGone where a folder of tasks is not the one that it was at
// the last recovery, or one has found that tasks are gone, and a [ReplacedError] like
// Same, if the boot record is another one than before. It is asked whenever
// a shard is taken, by every process, so as a rule it makes two system calls: a
// folder that is made, renamed or removed in tasks/ changes the ctime of that,
// which nobody can set. What is mounted over a folder does not, but no rename
// leads there; Look sees it, before it is said that a file is gone.
func (p *Places) Check() error {
	was, err := p.record()
	if err != nil {
		return err
	}
	if was.Stopped != "" {
		return fmt.Errorf("%w: %s", ErrGone, was.Stopped)
	}
	if was.Folders == (Inodes{}) {
		return nil // no record: the next Open recovers everything
	}
	st, err := durable.Lstat(filepath.Join(p.home, "tasks"))
	now := tasksFolder{uint64(st.Dev), st.Ino, st.Ctim.Nano(), was}
	p.mu.Lock()
	same := err == nil && now == p.tasks
	p.mu.Unlock()
	if same {
		return nil
	}
	if err := p.compare(was); err != nil {
		return err
	}
	if p.now().UnixNano()-now.changed > int64(coarseTime) && p.ownFolders() { // else the next change may have the same ctime
		p.mu.Lock()
		p.tasks = now
		p.mu.Unlock()
	}
	return nil
}

// Look compares each folder, whatever tasks/ says.
func (p *Places) Look() error {
	was, err := p.record()
	if err != nil || was.Folders == (Inodes{}) {
		return err
	}
	return p.compare(was)
}

func (p *Places) compare(was Boot) error {
	now, err := TaskInodes(p.home)
	if err != nil {
		return err
	}
	if why := was.Replaced(now); why != "" {
		return fmt.Errorf("%w: %s", ErrGone, why)
	}
	return nil
}

// ownFolders tells whether the folders of tasks are folders: what a symlink leads
// to may be replaced without a trace in tasks/.
func (p *Places) ownFolders() bool {
	return !slices.ContainsFunc(TaskPlaces[:], func(s task.State) bool {
		info, err := os.Lstat(filepath.Join(p.home, "tasks", string(s)))
		return err != nil || !info.IsDir()
	})
}

// record is the boot record, read again where its file is another one.
func (p *Places) record() (Boot, error) {
	info, err := os.Lstat(Private(p.home, "boot"))
	if errors.Is(err, fs.ErrNotExist) {
		p.other()
		return Boot{}, p.Same()
	}
	if err != nil {
		return Boot{}, err
	}
	p.mu.Lock()
	file, boot := p.file, p.boot
	p.mu.Unlock()
	if file != nil && os.SameFile(file, info) && file.ModTime().Equal(info.ModTime()) {
		return boot, nil
	}
	r, err := ReadBoot(p.home)
	if err == nil {
		err = p.Same()
	}
	if err == nil {
		p.other()
		p.mu.Lock()
		p.file, p.boot = info, r
		p.mu.Unlock()
	}
	return r, err
}
