package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mbox/mailbox/task"

	"mbox/mailbox/durable"
	"mbox/schemas"
)

// TaskPlaces are the folders whose inodes the boot record holds.
var TaskPlaces = [...]task.State{task.Pending, task.InProgress, task.Completed, task.Failed, task.Archived}

// Inodes are those of [TaskPlaces].
type Inodes [len(TaskPlaces)]uint64

// TaskInodes are the inodes of the folders of tasks; 0 for one that is missing.
func TaskInodes(home string) (n Inodes, err error) {
	for i, s := range TaskPlaces {
		info, err := os.Stat(filepath.Join(home, "tasks", string(s)))
		if err == nil {
			n[i] = durable.StatOf(info).Ino
		} else if !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
	}
	return n, nil
}

// Replaced names a folder of tasks that is not the one of the record; "" if there
// is none.
func (r Boot) Replaced(now Inodes) string {
	for i, s := range TaskPlaces {
		if now[i] != r.Folders[i] {
			return NotTheSame(s, now[i])
		}
	}
	return ""
}

// NotTheSame says what became of a folder of tasks.
func NotTheSame(s task.State, inode uint64) string {
	if inode == 0 {
		return fmt.Sprintf("tasks/%s is missing", s)
	}
	return fmt.Sprintf("tasks/%s is another folder than before", s)
}

// Boot says in which boot of a machine and on which inode the mailbox was
// last recovered. Any difference means that unflushed renames may be lost, or
// that the home was moved or copied, or a folder of tasks replaced. The boot
// tells the machine too: the name of a host changes, and containers share it or
// have one each. Recovering stands while a recovery within one boot is at work:
// if it dies, the next Open goes on with it. Stopped says which tasks a recovery
// found gone (ErrGone).
type Boot struct {
	Boot       string `json:"boot"`
	Host       string `json:"host,omitzero"` // in records of earlier mboxes; it tells nothing
	Dev        uint64 `json:"dev"`
	Inode      uint64 `json:"inode"`
	Folders    Inodes `json:"folders"` // of taskPlaces
	Recovering bool   `json:"recovering,omitzero"`
	Stopped    string `json:"stopped,omitzero"`
}

// CurrentBoot is the boot record as it would be written now.
func CurrentBoot(dir string) (Boot, error) {
	boot, err := durable.BootID()
	if err != nil {
		return Boot{}, err
	}
	info, err := os.Stat(Private(dir))
	if err != nil {
		return Boot{}, err
	}
	st := durable.StatOf(info)
	folders, err := TaskInodes(dir)
	return Boot{Boot: boot, Dev: uint64(st.Dev), Inode: st.Ino, Folders: folders}, err
}

// ReadBoot returns the boot record; an empty one, which no machine has, where
// there is none or it is damaged.
func ReadBoot(dir string) (Boot, error) {
	path := Private(dir, "boot")
	data, err := durable.Read(path, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return Boot{}, nil
	}
	if err != nil {
		return Boot{}, err
	}
	var was Boot
	if schemas.Decode(data, &was) != nil {
		return Boot{}, nil
	}
	was.Host = ""
	return was, nil
}

// WriteBoot replaces the boot record.
func WriteBoot(dir string, r Boot, m durable.Mode) error {
	data, err := schemas.Encode(r)
	if err != nil {
		return err
	}
	return durable.Replace(Private(dir, "boot"), data, m)
}

// SameAs tells whether the records differ in nothing but a recovery at work.
func (r Boot) SameAs(now Boot) bool {
	r.Recovering, now.Recovering = false, false
	return r == now
}
