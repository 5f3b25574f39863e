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
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// childEnv makes this program a child. It says "ready" when it has opened the
// queue, begins with the first line of its standard input, and prints its score.
const childEnv = "PEERS_CHILD"

// The roles of a child.
const (
	sends   = "sends"   // until its time is over
	works   = "works"   // until its standard input has ended and it finds nothing any more
	empties = "empties" // the same, or until its time is over
	picks   = "picks"   // so many tasks, when they come, and prints when it held each
)

// order is what a child is told.
type order struct {
	Peer    string
	Dir     string
	Worker  int
	Workers int // how many there are
	Role    string
	Time    time.Duration
	Tasks   int64
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
	q, err := p.open(ctx, o.Dir, o.Workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	w, err := q.worker(ctx, o.Worker)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	r := &runner{lap: &lap{tasks: o.Tasks, first: o.Worker}, deadline: time.Now().Add(o.Time)}
	s := &score{Apart: usage()}
	switch o.Role {
	case sends:
		err = r.produce(ctx, w, o.Worker, s)
	case works:
		err = errors.Join(consume(ctx, w, s, in, time.Time{}), q.drain(ctx))
	case empties:
		err = consume(ctx, w, s, in, r.deadline)
	case picks:
		err = pick(ctx, w, o.Tasks)
	}
	if err = errors.Join(err, w.close()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(s)
}

// produce sends as worker number i.
func (r *runner) produce(ctx context.Context, w worker, i int, s *score) error {
	for n := 0; r.more(); n++ {
		body := newBody(i, n)
		if err := w.submit(ctx, body); err != nil {
			return fmt.Errorf("submit: %w", err)
		}
		s.Sent = append(s.Sent, serialOf(body))
	}
	return nil
}

// consume works until nothing more will come, which the end of in says, and
// nothing is left, or until a deadline.
func consume(ctx context.Context, w worker, s *score, in io.Reader, deadline time.Time) error {
	begun := time.Now()
	var sent atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, in)
		sent.Store(true)
	}()
	for deadline.IsZero() || time.Now().Before(deadline) {
		last := sent.Load()
		j, err := w.claim(ctx)
		if errors.Is(err, errEmpty) {
			if last {
				return nil
			}
			s.Empties++
			time.Sleep(pause)
			continue
		}
		if err == nil {
			err = w.complete(ctx, j)
		}
		if err != nil {
			return err
		}
		s.Done = append(s.Done, serialOf(j.body))
		s.Took = time.Since(begun)
	}
	return nil
}

// children is the lap with so many processes that send and as many that work.
func (l *lap) children(ctx context.Context) (*score, tally, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if l.peer.serve != nil {
		stop, err := l.peer.serve(ctx, l.dir, l.workers)
		if err != nil {
			return nil, tally{}, err
		}
		defer stop()
	}
	var producers, workers []*childProcess
	for i := range l.workers {
		role := empties
		if l.filled == nil {
			role = works
			c, err := l.begin(ctx, i, sends)
			if err != nil {
				return nil, tally{}, err
			}
			defer c.kill()
			producers = append(producers, c)
		}
		c, err := l.begin(ctx, i, role)
		if err != nil {
			return nil, tally{}, err
		}
		defer c.kill()
		workers = append(workers, c)
	}
	for _, c := range slices.Concat(producers, workers) {
		if err := c.ready(); err != nil {
			return nil, tally{}, err
		}
	}
	s := &score{Sent: l.filled}
	for _, c := range slices.Concat(workers, producers) {
		if err := c.start(); err != nil {
			return nil, tally{}, err
		}
	}
	if err := s.end(producers); err != nil {
		return nil, tally{}, err
	}
	for _, c := range workers {
		c.in.Close()
	}
	if err := s.end(workers); err != nil {
		return nil, tally{}, err
	}
	var t tally
	return s, t, s.apart(func() error {
		q, err := l.peer.open(ctx, l.dir, 1)
		if err != nil {
			return err
		}
		t, err = q.tally(ctx)
		return errors.Join(err, q.close())
	})
}

type childProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (l *lap) begin(ctx context.Context, i int, role string) (*childProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o := order{Peer: l.peer.name, Dir: l.dir, Worker: i, Workers: l.workers, Role: role, Time: l.time, Tasks: share(l.tasks, l.workers, i)}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	argv := []string{self}
	if l.trace != "" {
		argv = slices.Concat(strace, []string{"-o", fmt.Sprintf("%s-%s-%d", l.trace, role, i), self})
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
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

func (c *childProcess) start() error {
	_, err := io.WriteString(c.in, "go\n")
	return err
}

// end waits for the children and adds what they did.
func (s *score) end(children []*childProcess) error {
	for _, c := range children {
		var one score
		if err := json.NewDecoder(c.out).Decode(&one); err != nil {
			return fmt.Errorf("a process has failed: %w", err)
		}
		if err := c.cmd.Wait(); err != nil {
			return err
		}
		s.add(&one)
	}
	return nil
}

// kill ends a child that is still there; after end it does nothing.
func (c *childProcess) kill() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}
