package agents

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mbox/agents/sandbox"
)

// command is what is to be run, and where its streams go.
type command struct {
	line           string
	dir            string
	env            []string
	stdin          *os.File
	hold           func() (*os.File, error) // what holds the task for the command
	stdout, stderr io.Writer
	started        func(pid int) error   // records what ends it
	confine        func(*exec.Cmd) error // puts it into a sandbox; nil: none
}

// child is a running command: a process group and all that leaves it.
type child struct {
	*sandbox.Process
	pipes   []*os.File // our ends of stdout, stderr
	readers sync.WaitGroup
	held    atomic.Bool // a pipe was still held open when all had ended
}

// spawn starts the command. It begins only when the lease file says what ends it:
// else it has never run.
func spawn(r command) (*child, error) {
	c := &child{}
	theirs, err := c.pipe()
	if err != nil {
		return nil, err
	}
	err = c.start(r, theirs)
	closeAll(theirs) // else the pipes would not end with the command
	if err != nil {
		closeAll(c.pipes)
		return nil, err
	}
	c.read(c.pipes[0], r.stdout)
	c.read(c.pipes[1], r.stderr)
	err = r.started(c.Pid)
	if err == nil {
		err = c.Begin()
	}
	if err != nil {
		c.End(context.Background(), 0)
		c.drain()
		return nil, err
	}
	return c, nil
}

func (c *child) start(r command, theirs []*os.File) error {
	cmd := exec.Command("/bin/sh", "-c", r.line)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = r.dir, r.env, r.stdin, theirs[0], theirs[1]
	held, err := r.hold()
	if err != nil {
		return err
	}
	if held != nil {
		defer held.Close() // the command holds it from now on
		cmd.ExtraFiles = []*os.File{held}
	}
	if r.confine != nil {
		if err := r.confine(cmd); err != nil {
			return err
		}
	}
	c.Process, err = sandbox.Start(cmd)
	return err
}

// pipe makes the pipes for stdout and stderr, and returns the command's ends.
func (c *child) pipe() (theirs []*os.File, err error) {
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(theirs, c.pipes...))
			return nil, err
		}
		c.pipes, theirs = append(c.pipes, r), append(theirs, w)
	}
	return theirs, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

func (c *child) read(from *os.File, to io.Writer) {
	c.readers.Go(func() {
		// It ends with the last writer's end, or by drain's deadline.
		if _, err := io.Copy(to, from); errors.Is(err, os.ErrDeadlineExceeded) {
			c.held.Store(true)
		}
	})
}

// over tells whether the command has ended.
func (c *child) over() bool {
	select {
	case <-c.Ended():
		return true
	default:
		return false
	}
}

// killed tells whether SIGKILL ended the command.
func (c *child) killed() bool {
	if !c.over() {
		return false
	}
	status, err := c.Status()
	return err == nil && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// drain waits until everything that was written has been read. It returns false
// where somebody still holds the pipes open: a process that could not be killed.
func (c *child) drain() bool {
	deadline := time.Now().Add(2 * time.Second)
	for _, p := range c.pipes {
		_ = p.SetReadDeadline(deadline)
	}
	c.readers.Wait()
	closeAll(c.pipes)
	return !c.held.Load()
}
