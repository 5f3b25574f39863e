package agents

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"mbox/mailbox/durable"
)

// What the units of a worker and of a dream tell goes into files of these names in the
// agent's logs, which are no attempt's and no agent's. The supervisor keeps them open to
// append to.
const (
	WorkerOutput = "worker.out.log"
	DreamOutput  = "dream.out.log"
)

// trimOutputs bounds what units have told.
func (s *shift) trimOutputs() {
	most := cmp.Or(s.Logs.File, DefaultLogs.File)
	for _, name := range []string{WorkerOutput, DreamOutput} {
		if err := trimOutput(s.Box.AgentDir(s.Agent), name, most); err != nil {
			s.Log.Warn().Err(err).Msg("what a unit tells is not bounded")
		}
	}
}

// trimOutput empties a file of an agent's logs that has more than most bytes. The lines in
// the last half of most are kept as NAME.1, in the place of what was kept before. It is
// truncated, not renamed, for whoever writes has it open; what is written between the
// copy and that is lost. A file with another name besides is an error; what is no
// regular file is left alone.
func trimOutput(home, name string, most int64) error {
	root, err := os.OpenRoot(home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is put away
	}
	if err != nil {
		return err
	}
	defer root.Close()
	if info, err := root.Lstat("logs"); err != nil || !info.IsDir() {
		return nil
	}
	f, err := openOutput(root, filepath.Join("logs", name), most)
	if f == nil {
		return err
	}
	defer f.Close()
	// Of several workers one does it. What it did the others see in the size.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil
		}
		return &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
	info, err := f.Stat()
	if err != nil || info.Size() <= most {
		return err
	}
	if err := keepLast(root, filepath.Join("logs", name+".1"), f, info.Size()-most/2, most); err != nil {
		return err
	}
	return f.Truncate(0)
}

// openOutput opens a file that has more than most bytes; nil if there is none.
func openOutput(root *os.Root, path string, most int64) (*os.File, error) {
	f, info, err := durable.OpenIn(root, path, os.O_RDWR)
	if errors.Is(err, durable.ErrNotRegular) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch st, known := info.Sys().(*syscall.Stat_t); {
	case info.Size() <= most:
	case !known || st.Nlink > 1:
		err = fmt.Errorf("%s has another name besides: it is left as it is", f.Name())
	default:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// keepLast copies the lines of a file that begin at an offset or behind it, most bytes of
// them, into a new file.
func keepLast(root *os.Root, path string, f *os.File, from, most int64) error {
	if err := root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	to, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, durable.FileMode)
	if err != nil {
		return err
	}
	in := bufio.NewReader(io.NewSectionReader(f, from-1, most))
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		_, err = in.ReadSlice('\n')
	}
	if err == nil {
		_, err = io.Copy(to, in)
	}
	if errors.Is(err, io.EOF) {
		err = nil // no line begins there
	}
	return errors.Join(err, to.Close())
}
