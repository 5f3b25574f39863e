// Package command is a way out alone: each notice is the standard input of a program
// that is run for it. Exit code 0 says that it was taken; after any other it is run
// again.
package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"mbox/agents/chat"
)

// Kind is the command.
var Kind = chat.Kind{
	Name: "command", About: "a program that is run for each notice",
	Needs:  []string{"command"},
	Limits: chat.Limits{Text: 64 << 10, Parts: 1},
	Once:   chat.AtLeastOnce,
	Sends:  true,
	Open:   open,
}

// allowed is how long a program may run.
const allowed = 30 * time.Second

type channel struct{ argv []string }

func open(s chat.Settings) (chat.Channel, error) {
	if len(s.Command) == 0 || !filepath.IsAbs(s.Command[0]) {
		return nil, fmt.Errorf("%w: command begins with the absolute path of a program", chat.ErrSetup)
	}
	return &channel{s.Command}, nil
}

func (c *channel) Receive(ctx context.Context, _ string, _ chat.Inbox) error {
	<-ctx.Done()
	return ctx.Err()
}

func (c *channel) Check(context.Context) (string, error) {
	if _, err := exec.LookPath(c.argv[0]); err != nil {
		return "", fmt.Errorf("%w: %w", chat.ErrSetup, err)
	}
	return c.argv[0] + " is a program", nil
}

// Send runs the program with the notice.
func (c *channel) Send(ctx context.Context, n chat.Notice) (string, error) {
	_, err := Program{Argv: c.argv, Stdin: n.Text + "\n", Key: n.Key, For: allowed}.Run(ctx)
	return "", err
}

// Program is one that is run for a notice.
type Program struct {
	Argv  []string
	Stdin string
	Key   string        // MBOX_KEY in its environment, the same for each try
	Text  string        // what an error does not repeat; "" for nothing
	For   time.Duration // longer it may not run
	Says  bool          // its standard output is wanted
}

// maxSaid is how much of what a program says is looked at, in bytes.
const maxSaid = 16 << 10

// Run runs the program, and returns how what it says begins. It has nothing
// of our environment that may be secret, and what it leaves running is ended with it.
func (p Program) Run(ctx context.Context) (said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.For)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Argv[0], p.Argv[1:]...)
	cmd.Stdin = strings.NewReader(p.Stdin)
	cmd.Env = append(environment(), "MBOX_KEY="+p.Key)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	problem, err := scratch()
	if err != nil {
		return "", err
	}
	defer problem.Close()
	out := problem
	if cmd.Stderr = problem; p.Says {
		if out, err = scratch(); err != nil {
			return "", err
		}
		defer out.Close()
		cmd.Stdout = out
	}
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whoever is left
	}
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success():
		return beginning(out, maxSaid), nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("%w: %w", chat.ErrSetup, err)
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: it was ended after %s", p.Argv[0], p.For)
	}
	return "", &chat.WordsError{Err: fmt.Errorf("%s: %w", p.Argv[0], err), Words: p.brief(beginning(problem, maxSaid))}
}

// brief is how an error of the program begins, without the text that it was given.
func (p Program) brief(problem string) string {
	if p.Text != "" {
		problem = strings.ReplaceAll(problem, p.Text, "…")
	}
	return strings.ToValidUTF8(problem[:min(len(problem), 200)], "")
}

// scratch is a file without a name: not a pipe, which whoever is left would keep open.
func scratch() (*os.File, error) {
	f, err := os.CreateTemp("", "mbox-command-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func beginning(f *os.File, most int) string {
	text := make([]byte, most)
	size, _ := f.ReadAt(text, 0)
	return strings.TrimSpace(string(text[:size]))
}

// environment is what every program needs.
func environment() (env []string) {
	for _, name := range []string{"PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}
