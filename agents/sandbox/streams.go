package sandbox

import (
	"os"
	"os/exec"
)

// Streams are the pipes of a command's standard input, output and error.
type Streams struct {
	Ours   [3]*os.File // what is written to its input, and read of the others
	theirs [3]*os.File
}

// Pipe gives a command that is not started yet pipes for its three streams.
func Pipe(cmd *exec.Cmd) (*Streams, error) {
	s := &Streams{}
	for i := range s.Ours {
		r, w, err := os.Pipe()
		if err != nil {
			s.Close()
			return nil, err
		}
		if s.Ours[i], s.theirs[i] = r, w; i == 0 {
			s.Ours[0], s.theirs[0] = w, r
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.theirs[0], s.theirs[1], s.theirs[2]
	return s, nil
}

// Started closes the command's ends, when it has its own of them or could not be
// started: else ours would not end with it.
func (s *Streams) Started() { closeAll(s.theirs) }

// Close closes all of them.
func (s *Streams) Close() {
	closeAll(s.theirs)
	closeAll(s.Ours)
}

func closeAll(files [3]*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
