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

// Send runs the program. It has nothing of our environment that may be secret, its
// output is nobody's, and what it leaves running is ended with it.
func (c *channel) Send(ctx context.Context, n chat.Notice) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, allowed)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Stdin = strings.NewReader(n.Text + "\n")
	cmd.Env = append(environment(), "MBOX_KEY="+n.Key)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	said, err := os.CreateTemp("", "mbox-command-") // not a pipe, which whoever is left would keep open
	if err != nil {
		return "", err
	}
	defer said.Close()
	if err := os.Remove(said.Name()); err != nil {
		return "", err
	}
	cmd.Stderr = said
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whoever is left
	}
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success():
		return "", nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("%w: %w", chat.ErrSetup, err)
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: it was ended after %s", c.argv[0], allowed)
	}
	text := make([]byte, 200)
	size, _ := said.ReadAt(text, 0)
	return "", fmt.Errorf("%s: %w: %s", c.argv[0], err, strings.TrimSpace(string(text[:size])))
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
