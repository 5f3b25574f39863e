package agents

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// command is what is to be run, and where its streams go.
type command struct {
	line           string
	dir            string
	env            []string
	stdin, lease   *os.File
	stdout, stderr io.Writer
	started        func(group int) error // records the process group
	confine        func(*exec.Cmd) error // puts it into a sandbox; nil: none
}

// gate is the shell that becomes the command once a line has come through
// descriptor 4. If the worker dies before its group stands in the lease file,
// or cannot write it there, the gate ends and the command has never run.
const gate = `umask 077; read -r _ <&4 && exec /bin/sh -c "$0" 4<&-`

// child is a running command: a process group, whose number is its leader's pid.
type child struct {
	group   int
	done    chan struct{}    // closed when the leader has ended
	state   *os.ProcessState // of the leader, once it has
	pipes   []*os.File       // our ends of gate, stdout, stderr
	readers sync.WaitGroup
	held    atomic.Bool // a pipe was still held open when the group had ended
}

// spawn starts the command.
func spawn(r command) (*child, error) {
	c := &child{done: make(chan struct{})}
	theirs, err := c.pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", gate, r.line)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = r.dir, r.env, r.stdin, theirs[1], theirs[2]
	cmd.ExtraFiles = []*os.File{r.lease, theirs[0]}
	cmd.SysProcAttr = processAttr()
	if r.confine != nil {
		err = r.confine(cmd)
	}
	if err == nil {
		err = c.start(cmd)
	}
	closeAll(theirs) // else the pipes would not end with the command
	if err != nil {
		closeAll(c.pipes)
		return nil, err
	}
	c.read(c.pipes[1], r.stdout)
	c.read(c.pipes[2], r.stderr)
	if err := c.open(r.started); err != nil {
		c.signal(syscall.SIGKILL)
		<-c.done
		c.drain()
		return nil, err
	}
	return c, nil
}

// pipe makes the pipes for the gate, stdout and stderr, and returns the
// command's ends.
func (c *child) pipe() (theirs []*os.File, err error) {
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(theirs, c.pipes...))
			return nil, err
		}
		if theirs == nil { // the gate is the one that the command reads
			r, w = w, r
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

// start starts the process on a thread that stays until it has ended: on Linux
// a child gets its parent-death signal when the thread that made it ends.
func (c *child) start(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // the state tells
		c.state = cmd.ProcessState
		close(c.done)
	}()
	err := <-started
	if err == nil {
		c.group = cmd.Process.Pid
	}
	return err
}

// open records the group and lets the command begin.
func (c *child) open(started func(group int) error) error {
	if err := started(c.group); err != nil {
		return err
	}
	gate := c.pipes[0]
	_, err := gate.WriteString("\n")
	return errors.Join(err, gate.Close())
}

func (c *child) read(from *os.File, to io.Writer) {
	c.readers.Go(func() {
		// It ends with the last writer's end, or by drain's deadline.
		if _, err := io.Copy(to, from); errors.Is(err, os.ErrDeadlineExceeded) {
			c.held.Store(true)
		}
	})
}

// end ends what lives of the group: SIGTERM, and SIGKILL after the grace or when
// the context ends. It returns when nothing is left that can be killed.
func (c *child) end(ctx context.Context, grace time.Duration) {
	c.signal(syscall.SIGTERM)
	if c.gone(ctx, grace) {
		return
	}
	c.signal(syscall.SIGKILL)
	<-c.done
	// What is in the kernel's hands dies when the kernel lets go of it.
	c.gone(context.WithoutCancel(ctx), time.Second)
}

// gone waits for the group to be empty.
func (c *child) gone(ctx context.Context, limit time.Duration) bool {
	end := time.NewTimer(limit)
	defer end.Stop()
	done := c.done
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if !c.lives() {
			return true
		}
		look := time.NewTimer(pause)
		select {
		case <-done:
			done = nil // from now on only looking tells
		case <-look.C:
		case <-end.C:
			return false
		case <-ctx.Done():
			return false
		}
		look.Stop()
	}
}

// ended tells whether the leader has ended.
func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// lives tells whether the leader or anything else in the group lives. A number
// that is free is not given out again before the system has gone through all
// the others, so between two looks it stays what it was.
func (c *child) lives() bool { return !c.ended() || groupLives(c.group) }

func (c *child) signal(s syscall.Signal) {
	if c.lives() {
		_ = syscall.Kill(-c.group, s) // it may just have ended
	}
}

// killed tells whether SIGKILL ended the leader.
func (c *child) killed() bool {
	if !c.ended() || c.state == nil {
		return false
	}
	status, ok := c.state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// drain waits until everything that was written has been read. It returns false
// where somebody still holds the pipes open: a process that left the group.
func (c *child) drain() bool {
	deadline := time.Now().Add(2 * time.Second)
	for _, p := range c.pipes[1:] {
		_ = p.SetReadDeadline(deadline)
	}
	c.readers.Wait()
	closeAll(c.pipes)
	return !c.held.Load()
}
