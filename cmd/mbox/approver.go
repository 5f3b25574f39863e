package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"mbox/agents"
	"mbox/mailbox"
)

// deed is what people do, and agents' processes may not.
type deed struct{ step, does, do string }

var (
	approving = deed{"approval", "approves", "approve"}
	keeping   = deed{"token", "makes and revokes tokens", "do that"}
	pausing   = deed{"agent", "pauses and resumes agents", "do that"}
	bridging  = deed{"bridge", "runs bridges", "do that"}
	rearing   = deed{"agent", "brings agents in and out", "do that"}
	planning  = deed{"schedule", "changes schedules", "do that"}
	speaking  = deed{"bridge", "sends as a bridge", "do that"}
	posting   = deed{"channels", "speaks without a task", "do that"}
	dreaming  = deed{"dream", "tidies an agent's memory", "do that"}
	sealing   = deed{"secret", "sets and removes secrets", "do that"}
	remembers = deed{"memory", "uses any agent's memory", "do that"}
	editing   = deed{"edit", "changes what others have sent", "do that"}
)

// byPerson refuses the deed to a process whose own environment is an agent's.
func (d deed) byPerson() error {
	if name := ofAgent(os.LookupEnv); name != "" {
		return d.refused("this is an agent's command: its environment has " + name)
	}
	return nil
}

// byNoWorker refuses the deed to a process that works for an agent.
func (d deed) byNoWorker(ctx context.Context, box *mailbox.Box) error {
	why, err := worksForAgent(ctx, box)
	if err != nil || why == "" {
		return err
	}
	return d.refused(why)
}

// with opens the mailbox for the deed of a person.
func (d deed) with(ctx context.Context, s *session, do func(*mailbox.Box) error) error {
	if err := d.byPerson(); err != nil {
		return err
	}
	return s.with(ctx, func(box *mailbox.Box) error {
		if err := d.byNoWorker(ctx, box); err != nil {
			return err
		}
		return do(box)
	})
}

func (d deed) refused(why string) error {
	return hint(&agents.RefusedError{Step: d.step, Reason: why + "; a person " + d.does},
		"%s from a shell that no agent has started, without MBOX_AGENT and MBOX_TASK_ID", d.do)
}

// ofAgent names the variable that mbox gives to agents' commands and that an
// environment has; "" if it has none. MBOX_TOKEN is not among them: people who
// claim by hand have it.
func ofAgent(lookup func(name string) (string, bool)) string {
	for _, name := range []string{"MBOX_AGENT", "MBOX_TASK_ID"} {
		if value, set := lookup(name); set && value != "" {
			return name
		}
	}
	return ""
}

// worksForAgent tells why this process is an agent's: one above it, or the leader
// of its or of their session or group, works for one. "" if none does, as far as
// can be seen.
func worksForAgent(ctx context.Context, box *mailbox.Box) (string, error) {
	working, err := box.Working(ctx)
	if err != nil {
		return "", err
	}
	seen := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !seen[pid]; pid, _ = parentOf(pid) {
		seen[pid] = true
		session, _ := unix.Getsid(pid) // of another user's process it may not be told
		group, _ := unix.Getpgid(pid)
		for _, kin := range []int{pid, session, group} {
			if agent := working[kin]; agent != "" {
				return fmt.Sprintf("this command belongs to process %d, which works for %s", kin, clean(agent, 128)), nil
			}
			if name := ofAgent(environment(kin)); name != "" {
				return fmt.Sprintf("this command belongs to process %d, whose environment has %s", kin, name), nil
			}
		}
	}
	return "", nil
}

// door tells from where this command came: its terminal, and who started it.
func door() string {
	from := "no terminal"
	for _, f := range []*os.File{os.Stdin, os.Stderr, os.Stdout} {
		if term.IsTerminal(int(f.Fd())) {
			from = "terminal " + terminalName(f)
			break
		}
	}
	parent := os.Getppid()
	if _, name := parentOf(parent); name != "" {
		from += fmt.Sprintf(", from %s (process %d)", name, parent)
	}
	return from
}

// terminalName finds the name of a terminal by its device.
func terminalName(f *os.File) string {
	for _, pattern := range []string{"/dev/pts/*", "/dev/tty*"} {
		names, _ := filepath.Glob(pattern) // the pattern is right
		for _, name := range names {
			if device, ok := deviceOf(os.Stat(name)); ok {
				if own, ok := deviceOf(f.Stat()); ok && own == device {
					return name
				}
			}
		}
	}
	return "without a name"
}

func deviceOf(info os.FileInfo, err error) (uint64, bool) {
	if err != nil {
		return 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&os.ModeCharDevice == 0 {
		return 0, false
	}
	return uint64(stat.Rdev), true
}
