package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mbox/agents"
	"mbox/cmd/mbox/check"
	"mbox/mailbox"
	"mbox/schemas"
)

// runAgent is who does what mbox run runs.
const runAgent = check.RunAgent

type runOptions struct {
	priority choice
	labels   labels
	paths    texts
}

func runVerb() *verb {
	var o runOptions
	o.priority = oneOf("low", "normal", "high", "urgent")
	return &verb{
		name: "run", args: "TITLE -- COMMAND…", least: 2, most: -1, split: true,
		brief: "send a task and do it here, by a command",
		about: `Sends a task, takes it as agent shell and runs the command at once, here: in this
folder, with this terminal. Its id is told on stderr; the ledger tells how it ended, and when.
What the command writes on stdout is the task's result as well, the end of its stderr
why it failed, and mbox logs has all of it; exit code 0 completes the task, any other fails it for good. The command
finds MBOX_TASK_ID and MBOX_TOKEN in its environment, for mbox progress.

The exit code is the command's, or 128 and the signal that ended it. One that cannot be
run, or is not there, is 126 or 127, and no task is sent. Ctrl-C is for the command, and
so is SIGTERM; mbox cancel ends it as well. Where mbox itself is killed the command is
ended, and the task fails: nobody runs it a second time.`,
		shows: []string{`mbox run "Nightly build" -- make all`, `mbox run "Move the photos" --label disk=2 -- rsync -a ~/photos /mnt/b/`},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			valueFlag("priority", "`P` is low, normal, high or urgent (normal)", &o.priority),
			valueFlag("label", "`KEY=VALUE`; may be repeated", &o.labels),
			valueFlag("path", "it works on `PATH`: never beside another task that does; may be repeated", &o.paths),
		},
		run: func(ctx context.Context, s *session, args []string) error { return o.run(ctx, s, args[0], args[1:]) },
	}
}

// exited is the exit code of a command, which has said itself what is to be said.
type exited int

func (e exited) Error() string { return "exit status " + strconv.Itoa(int(e)) }

// The exit codes of a command that could not be run, as a shell has them.
const (
	exitNotRun   = 126
	exitNoSuch   = 127
	exitBySignal = 128
)

func (o *runOptions) run(ctx context.Context, s *session, title string, argv []string) error {
	path, err := exec.LookPath(argv[0])
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		s.warnf("%s: there is no such command", schemas.Quote(argv[0]))
		return exited(exitNoSuch)
	case err != nil:
		s.warnf("%s: it cannot be run: %v", schemas.Quote(argv[0]), err)
		return exited(exitNotRun)
	}
	send := sendOptions{to: runAgent, priority: o.priority, labels: o.labels, paths: o.paths}
	t, err := send.compose(title)
	if err != nil {
		return err
	}
	t.Mbox.MaxAttempts = 1 // nobody else has its command
	t.Task.Description = "$ " + shell(argv)
	return s.tidied(ctx, func(box *mailbox.Box) error {
		if _, taken := box.Options().Agents[runAgent]; taken {
			return usagef("mbox send TITLE --to "+runAgent, "[agents.%s] is in mbox.toml: that agent's tasks are its own", runAgent)
		}
		id, err := box.Submit(ctx, t)
		if err != nil {
			return hintData(err, "mbox run --help")
		}
		s.infof("sent %s", id)
		claim, err := box.Claim(ctx, mailbox.ClaimRequest{Agent: runAgent, ID: id, Process: true})
		if err != nil {
			err = errors.Join(err, box.Cancel(context.WithoutCancel(ctx), id, "human", "it could not be done at once"))
			return hint(err, "mbox why %s", id)
		}
		r := running{session: s, box: box, claim: claim, out: tailOf{most: mailbox.MaxOutput}, said: tailOf{most: 2000}, kept: io.Discard}
		w := agents.Worker{Box: box, Agent: runAgent, Log: s.logger(), Logs: s.config.Logs.Bounds()}
		kept, stop, err := w.Listen(claim)
		if err == nil {
			r.kept = kept
			defer stop(context.WithoutCancel(ctx))
		} else {
			s.warnf("what it says is not kept: %v", err)
		}
		return errors.Join(r.do(ctx, path, argv), claim.Close())
	})
}

// running is a command that does a task.
type running struct {
	*session
	box   *mailbox.Box
	claim *mailbox.Claim
	out   tailOf
	said  tailOf
	kept  io.Writer // what it says, for mbox logs
}

func (r *running) do(ctx context.Context, path string, argv []string) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM) // from here on they are the command's
	defer signal.Stop(signals)
	cmd := &exec.Cmd{Path: path, Args: argv, Stdin: r.in, Stdout: io.MultiWriter(os.Stdout, &r.out), Stderr: io.MultiWriter(os.Stderr, &r.said, r.kept)}
	cmd.Env = append(os.Environ(), "MBOX_TASK_ID="+string(r.claim.ID()), "MBOX_TOKEN="+r.claim.Token(), "MBOX_HOME="+r.box.Home())
	held, err := r.claim.Hold()
	if err != nil {
		return err
	}
	if held != nil {
		defer held.Close()
		cmd.ExtraFiles = []*os.File{held} // while somebody has it open the task is being done
	}
	late := context.WithoutCancel(ctx)
	if err := cmd.Start(); err != nil {
		r.warnf("%v", err)
		return errors.Join(r.fail(late, "start", err.Error()), exited(exitNotRun))
	}
	if err := r.claim.Started(cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return errors.Join(err, r.fail(late, "start", err.Error()))
	}
	return r.settle(late, r.watch(cmd, signals))
}

// beat is how often the lease is renewed.
const beat = 2 * time.Second

// watch waits for the command, and passes signals on. Who ends its claim ends it.
func (r *running) watch(cmd *exec.Cmd, signals <-chan os.Signal) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case got := <-signals:
			if got == os.Interrupt && term.IsTerminal(int(r.in.Fd())) {
				continue // the terminal has told the command as well
			}
			_ = cmd.Process.Signal(got)
		case <-tick.C:
			_ = r.claim.Renew()
		}
	}
}

// settle ends the task as its command has ended.
func (r *running) settle(ctx context.Context, err error) error {
	var bad *exec.ExitError
	if err != nil && !errors.As(err, &bad) {
		return errors.Join(err, r.fail(ctx, "start", err.Error()))
	}
	if bad == nil {
		output, err := asJSON([]byte(strings.TrimSuffix(r.out.text(), "\n")), true)
		if err == nil {
			err = r.claim.Complete(ctx, mailbox.Result{Output: output})
		}
		return err
	}
	status := bad.Sys().(syscall.WaitStatus)
	code, why, n := "exit", "exit status "+strconv.Itoa(status.ExitStatus()), status.ExitStatus()
	if status.Signaled() {
		code, why, n = "signal", "killed by signal: "+status.Signal().String(), exitBySignal+int(status.Signal())
	}
	if said := strings.TrimSpace(r.said.text()); said != "" {
		why += ": " + said
	}
	return firstError(r.fail(ctx, code, why), exited(n))
}

func (r *running) fail(ctx context.Context, code, why string) error {
	err := r.claim.Fail(ctx, mailbox.Failure{TaskError: mailbox.TaskError{Code: code, Message: why}, Final: true})
	if errors.Is(err, mailbox.ErrStale) {
		return nil // it was cancelled, and its command ended
	}
	return err
}

// tailOf keeps the end of what is written to it.
type tailOf struct {
	most int
	data []byte
	cut  bool
}

func (t *tailOf) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if len(t.data) > 2*t.most {
		t.data, t.cut = append(t.data[:0], t.data[len(t.data)-t.most:]...), true
	}
	return len(p), nil
}

// text is the end, of at most so many bytes, beginning with a whole line.
func (t *tailOf) text() string {
	data, cut := t.data, t.cut
	if len(data) > t.most {
		data, cut = data[len(data)-t.most:], true
	}
	text := strings.ToValidUTF8(string(data), "\uFFFD")
	if !cut {
		return text
	}
	if _, rest, ok := strings.Cut(text, "\n"); ok {
		text = rest
	}
	return fmt.Sprintf("[only the end was kept]\n%s", text)
}
