package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"mbox/agents"
	"mbox/agents/sandbox"
	"mbox/cmd/mbox/config"
	"mbox/schemas"
)

// versionForm is a version as programs print it.
var versionForm = schemas.Pattern(`[0-9]+(?:\.[0-9]+)+[0-9A-Za-z.+-]*`)

// versionTime is how long a program may take to tell its version, versionText how much it
// may say, in bytes.
const (
	versionTime = 20 * time.Second
	versionText = 4 << 10
)

// Pin is what tells whether the program of an agent has the version that its table wants;
// nil if it wants none. The program is asked, in the agent's sandbox, when it is not the
// file any more that was asked before.
func Pin(c *config.File, home, name string, team *agents.Team) func(context.Context) error {
	a := c.Agents[name]
	if a == nil || a.Version == "" {
		return nil
	}
	var asked, said string
	return func(ctx context.Context) error {
		workspace := a.Workspace.Path
		if !filepath.IsAbs(workspace) {
			workspace = filepath.Join(home, workspace)
		}
		path := lookFor(programOf(a.Command()), workspace)
		if path == "" {
			return fmt.Errorf("the program of %s is not there: its version cannot be told", name)
		}
		now, err := identity(path)
		if err != nil {
			return err
		}
		if now != asked {
			cmd := exec.Command(path, "--version")
			cmd.Dir, cmd.Env = workspace, team.Env(name)
			if confine := team.Confine(name); confine != nil {
				err = confine(cmd)
			}
			if err == nil {
				said, err = versionOf(ctx, cmd)
			}
			if err != nil {
				return fmt.Errorf("%s --version: %w", path, err)
			}
			asked = now
		}
		if said != a.Version && !strings.HasPrefix(said, a.Version+".") {
			return fmt.Errorf("%s is version %s, and [agents.%s] wants %s", path, said, name, a.Version)
		}
		return nil
	}
}

// identity changes when the file that a path leads to is another one, or has changed.
func identity(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	number := uint64(0)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		number = st.Ino
	}
	return fmt.Sprintf("%s %d %d %d", real, number, info.Size(), info.ModTime().UnixNano()), nil
}

// versionOf runs a program and returns the version that it prints.
func versionOf(ctx context.Context, cmd *exec.Cmd) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	cmd.Stdout = w
	p, err := sandbox.Start(cmd)
	if err == nil {
		err = p.Begin()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Now()) }) // who stops waits for nobody
	defer stop()
	_ = r.SetReadDeadline(time.Now().Add(versionTime))
	text, err := io.ReadAll(io.LimitReader(r, versionText))
	p.End(ctx, 0)
	version := versionForm().FindString(string(text))
	if version == "" && err == nil {
		err = fmt.Errorf("it prints no version: %s", schemas.Quote(schemas.Sentence(strings.TrimSpace(string(text)), 80)))
	}
	return version, err
}
