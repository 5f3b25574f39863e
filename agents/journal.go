package agents

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/rs/zerolog"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// journal is an agent's log file, agents/<agent>/logs/<agent>.log: one JSON
// object a line, with agent_alias, task_id, attempt, session_key and
// risk_profile. Any number of workers append to it, each line with one write. A
// file that has grown to maxLog is put aside as <agent>.log.1, whose like are kept
// up to .3.
type journal struct {
	path string
	mu   sync.Mutex
	file *os.File // guarded by mu
}

const keptLogs = 3

// maxLog is how long a log file may grow. Tests make it small.
var maxLog int64 = 10 << 20

func openJournal(dir, agent string) (*journal, error) {
	j := &journal{path: filepath.Join(dir, audit.Folder(agent)+".log")}
	var err error
	j.file, err = openLog(j.path)
	return j, err
}

func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, durable.FileMode)
}

func (j *journal) close() { j.file.Close() }

// log writes into the file.
func (j *journal) log() zerolog.Logger { return zerolog.New(j).With().Timestamp().Logger() }

// Write appends a line.
func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if info, err := j.file.Stat(); err == nil && info.Size() >= maxLog {
		if err := j.turn(info); err != nil {
			return 0, err
		}
	}
	return j.file.Write(line)
}

// turn begins a new file. The first who has the lock of the full one puts it aside;
// for anybody else it has another name by then.
func (j *journal) turn(full fs.FileInfo) error {
	old := j.file
	if err := syscall.Flock(int(old.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	err := j.putAside(full)
	if err == nil {
		j.file, err = openLog(j.path)
	}
	if err != nil {
		j.file = old
		return errors.Join(err, syscall.Flock(int(old.Fd()), syscall.LOCK_UN))
	}
	return old.Close() // and with it goes the lock
}

func (j *journal) putAside(full fs.FileInfo) error {
	if there, err := os.Lstat(j.path); err != nil || !os.SameFile(there, full) {
		return nil
	}
	for n := keptLogs; n > 0; n-- {
		from := j.path
		if n > 1 {
			from += "." + strconv.Itoa(n-1)
		}
		if err := durable.Rename(from, j.path+"."+strconv.Itoa(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
