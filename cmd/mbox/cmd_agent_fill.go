package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mbox/agents/sandbox"
	"mbox/mailbox"
	"mbox/schemas"
)

// checkFill refuses what a birth could not fetch, before anything is made.
func (o *birthOptions) checkFill() error {
	if o.repo == "" {
		return nil
	}
	if u, err := url.Parse(o.repo); err == nil && u.User != nil {
		if _, secret := u.User.Password(); secret || u.Scheme != "ssh" { // whose user is no secret
			return usagef("the address without it; git credential, or a key of ssh, has it", "--repo has a name or a password in it, which everybody reads who sees the command")
		}
	}
	if strings.HasPrefix(o.repo, "-") || strings.ContainsFunc(o.repo, func(r rune) bool { return r < ' ' }) {
		return usagef("--repo https://example.org/site.git", "--repo %s is no address", schemas.Quote(o.repo))
	}
	if _, err := exec.LookPath("git"); err != nil {
		return usagef("install git, or leave --repo out and copy the files into the workspace", "--repo: git is not there")
	}
	return nil
}

// fill puts into a new home what it does not have from mbox: a clone of the repository,
// and what the provisioner makes of it.
func (o *birthOptions) fill(s *session, box *mailbox.Box, name, uuid string) func(ctx context.Context, home string) error {
	if o.repo == "" && o.provisioner == "" {
		return nil
	}
	return func(ctx context.Context, home string) error {
		if o.repo != "" {
			cmd := exec.Command("git", "clone", "--quiet", "--", o.repo)
			cmd.Dir = filepath.Join(home, "workspace")
			// It asks nobody, and no other program to fetch.
			cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=file:git:http:https:ssh")
			if err := toEnd(ctx, cmd); err != nil {
				return hint(fmt.Errorf("--repo: git clone: %w", err), "git has told why above; nothing was made")
			}
		}
		if o.provisioner == "" {
			return nil
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		cmd := exec.Command("/bin/sh", "-c", o.provisioner)
		cmd.Dir = home
		cmd.Env = append(os.Environ(), "MBOX_HOME="+box.Home(), "MBOX_BIN="+self, "MBOX_NEWBORN="+name,
			"MBOX_NEWBORN_UUID="+uuid, "MBOX_NEWBORN_ROLE="+cmp.Or(o.role, "agent"), "MBOX_NEWBORN_HOME="+home)
		if err := toEnd(ctx, cmd); err != nil {
			return hint(fmt.Errorf("--provisioner: %w", err), "it has told why above; nothing was made here")
		}
		return nil
	}
}

// fillGrace is how long a command may take to end that was told to.
const fillGrace = 5 * time.Second

// repeat tells people what a command says, line by line: others may have chosen the words.
func repeat(from io.Reader) {
	r := bufio.NewReader(from)
	for {
		line, _, err := r.ReadLine() // what is longer comes as several
		if err != nil {
			return
		}
		fmt.Fprintln(os.Stderr, clean(string(line), maxLine))
	}
}

// toEnd runs a command whose output is for people. When it returns, nothing of it is left.
func toEnd(ctx context.Context, cmd *exec.Cmd) error {
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer nothing.Close()
	said, says, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nothing, says, says
	p, err := sandbox.Start(cmd)
	if err = errors.Join(err, says.Close()); err != nil {
		return err
	}
	var telling sync.WaitGroup
	telling.Go(func() { repeat(said) })
	err = p.Begin()
	select {
	case <-p.Ended():
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	p.End(context.WithoutCancel(ctx), fillGrace)
	_ = said.SetReadDeadline(time.Now().Add(time.Second)) // what could not be killed holds it open
	telling.Wait()
	if err != nil {
		return err
	}
	status, err := p.Status()
	switch {
	case err != nil:
		return err
	case status.Signaled():
		return fmt.Errorf("killed by signal: %s", status.Signal())
	case status.ExitStatus() != 0:
		return fmt.Errorf("exit status %d", status.ExitStatus())
	}
	return nil
}
