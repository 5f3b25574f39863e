package brain

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/agents"
	"mbox/agents/sandbox"
)

// What needs /proc, setsid(1) or a sandbox.

// scene is where a command thinks, and a pipe that ends with the last of what
// comes from it.
type scene struct {
	dir        string
	held, ends *os.File // ours and theirs
	confined   bool
}

func newScene(t *testing.T, confined bool) *scene {
	t.Helper()
	if err := sandbox.Probe().Err(); confined && err != nil {
		t.Skipf("Landlock with user namespaces is missing: %v", err)
	}
	home := t.TempDir()
	s := &scene{dir: filepath.Join(home, "agents/me/workspace"), confined: confined}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.held, s.ends, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.held.Close(); s.ends.Close() })
	return s
}

func (s *scene) brain(t *testing.T, line string, grace time.Duration) *Exec {
	t.Helper()
	return command(t, Options{Command: line, Dir: s.dir, Grace: grace, Wrap: func(cmd *exec.Cmd) error {
		cmd.ExtraFiles = []*os.File{s.ends}
		if !s.confined {
			return nil
		}
		return sandbox.Confine(cmd, sandbox.Rules{Mailbox: filepath.Dir(filepath.Dir(filepath.Dir(s.dir))), Workspace: s.dir})
	}})
}

// endsWith is a context that ends when the file has so many lines.
func (s *scene) endsWith(t *testing.T, name string, lines int) context.Context {
	ctx, cancel := context.WithCancel(within(t))
	go func() {
		defer cancel()
		for strings.Count(read(s.dir, name), "\n") < lines && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	return ctx
}

// nothingLives checks that nothing holds the pipe: what was to be killed is dead.
func (s *scene) nothingLives(t *testing.T) {
	t.Helper()
	s.ends.Close()
	_ = s.held.SetReadDeadline(time.Now().Add(time.Second))
	if _, err := io.Copy(io.Discard, s.held); err != nil {
		t.Errorf("something outlives the thought: %v", err)
	}
}

// away goes every way out of a command, with something that no SIGTERM ends.
var away = strings.ReplaceAll(`sh -c 'STAY' & setsid sh -c 'STAY' & ( (setsid sh -c 'STAY' &) & )
	setsid sh -c 'exec <&- >&- 2>&-; STAY' & until [ "$(wc -l <ready)" -eq 4 ]; do sleep 0.01; done; `,
	"STAY", `trap "" TERM; echo >>ready; while :; do sleep 1; done`)

func TestExecLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		ctx  func(*testing.T, *scene) context.Context
		want error
	}{
		"ended":     {`echo fine`, func(t *testing.T, _ *scene) context.Context { return within(t) }, nil},
		"given up":  {`echo >>here; trap "" TERM; while :; do sleep 1; done`, func(t *testing.T, s *scene) context.Context { return s.endsWith(t, "here", 1) }, context.Canceled},
		"timed out": {`exec sleep 1000`, timeout, context.DeadlineExceeded},
	} {
		for _, confined := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " in a sandbox"}[confined], func(t *testing.T) {
				t.Parallel()
				s := newScene(t, confined)
				r, err := s.brain(t, away+c.line, 100*time.Millisecond).Think(c.ctx(t, s), question("hi"))
				if !errors.Is(err, c.want) || err == nil && r.Text != "fine\n" {
					t.Errorf("%+v %v, want %v", r, err, c.want)
				}
				s.nothingLives(t)
			})
		}
	}
}

func timeout(t *testing.T, _ *scene) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

// A command that is given up can put its things in order, in a sandbox too.
func TestExecGrace(t *testing.T) {
	for _, confined := range []bool{false, true} {
		t.Run(map[bool]string{true: "sandbox", false: "free"}[confined], func(t *testing.T) {
			t.Parallel()
			s := newScene(t, confined)
			b := s.brain(t, `trap 'sleep 0.1; echo bye >gone; exit 0' TERM; echo >here; while :; do sleep 0.01; done`, 20*time.Second)
			if _, err := b.Think(s.endsWith(t, "here", 1), question("hi")); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if read(s.dir, "gone") != "bye\n" {
				t.Error("SIGTERM has not come first, or no grace after it")
			}
		})
	}
}

// Somebody who cannot be killed holds the output: the reply may go on. Here it is
// the test.
func TestExecOutputHeld(t *testing.T) {
	t.Parallel()
	s := newScene(t, false)
	held := make(chan *os.File, 1)
	go func() {
		<-s.endsWith(t, "pid", 1).Done()
		f, err := os.OpenFile(filepath.Join("/proc", strings.TrimSpace(read(s.dir, "pid")), "fd/1"), os.O_WRONLY, 0)
		if err == nil {
			err = os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
		held <- f
	}()
	r, err := s.brain(t, `(echo $$ >pid); until [ -e go ]; do sleep 0.01; done; echo part`, 0).Think(within(t), question("hi"))
	faultOf(t, agents.ReplyCut, r, err)
	(<-held).Close()
}
