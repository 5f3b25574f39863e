package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// childEnv makes this program a child: one worker of a lap. It says "ready" when
// it has opened the queue, begins when its standard input ends, and prints its
// score.
const childEnv = "PEERS_CHILD"

// order is what a child is told.
type order struct {
	Peer   string
	Dir    string
	Worker int
	Time   time.Duration
	Tasks  int64
}

// child runs this process as a child if it is one.
func child() (is bool, err error) {
	text, is := os.LookupEnv(childEnv)
	if !is {
		return false, nil
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return true, err
	}
	for _, p := range peers() {
		if p.name == o.Peer {
			return true, o.obey(p)
		}
	}
	return true, fmt.Errorf("no peer %q", o.Peer)
}

func (o *order) obey(p *peer) (err error) {
	ctx := context.Background()
	q, err := p.open(ctx, o.Dir, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	l := &lap{peer: p, dir: o.Dir, workers: 1, first: o.Worker, time: o.Time, tasks: o.Tasks}
	s, err := l.race(ctx, q, 1)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(s)
}

// children is the lap with a process for each worker.
func (l *lap) children(ctx context.Context) (*score, tally, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []*childProcess
	for i := range l.workers {
		c, err := l.begin(ctx, i)
		if err != nil {
			return nil, tally{}, err
		}
		defer c.kill()
		all = append(all, c)
	}
	for _, c := range all {
		if err := c.ready(); err != nil {
			return nil, tally{}, err
		}
	}
	for _, c := range all {
		c.in.Close()
	}
	s := new(score)
	for _, c := range all {
		one, err := c.end()
		if err != nil {
			return nil, tally{}, err
		}
		s.add(one)
	}
	q, err := l.peer.open(ctx, l.dir, 1)
	if err != nil {
		return nil, tally{}, err
	}
	t, err := q.tally(ctx)
	return s, t, errors.Join(err, q.close())
}

type childProcess struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

func (l *lap) begin(ctx context.Context, i int) (*childProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o := order{Peer: l.peer.name, Dir: l.dir, Worker: i, Time: l.time, Tasks: share(l.tasks, l.workers, i)}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &childProcess{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

// share is how many of the tasks worker i sends.
func share(tasks int64, workers, i int) int64 {
	n := tasks / int64(workers)
	if int64(i) < tasks%int64(workers) {
		n++
	}
	return n
}

func (c *childProcess) ready() error {
	line, err := c.out.ReadString('\n')
	if err != nil || line != "ready\n" {
		return fmt.Errorf("a worker process did not get ready (%q, %w)", line, err)
	}
	return nil
}

func (c *childProcess) end() (*score, error) {
	s := new(score)
	if err := json.NewDecoder(c.out).Decode(s); err != nil {
		return nil, fmt.Errorf("a worker process has failed: %w", err)
	}
	return s, c.cmd.Wait()
}

// kill ends a child that is still there; after end it does nothing.
func (c *childProcess) kill() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}
