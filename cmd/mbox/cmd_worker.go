package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/agents"
	"mbox/agents/life"
	"mbox/agents/secret"
	"mbox/cmd/mbox/check"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/task"
)

type workerOptions struct {
	agent, exec    string
	concurrency    number
	timeout, grace length
	kind           choice
	once, named    bool
}

func workerVerb() *verb {
	o := workerOptions{concurrency: number{min: 1, max: 64}, kind: oneOf(task.Types...)}
	return &verb{
		name:  "worker",
		brief: "do an agent's tasks, by its role or by a command",
		about: `Takes the tasks that the agent may take, one after another. An agent with a role
in mbox.toml does them by its actions: those that a task carries, or those that
its brain replies with. For any other agent, and with --exec for any, a command is
run for each: by /bin/sh, in agents/NAME/workspace, in a process group of its own.

The command gets the task's JSON on stdin, and MBOX_TASK_ID, MBOX_TASK_FILE,
MBOX_ATTEMPT, MBOX_TOKEN, MBOX_ARTIFACTS (a folder for files), MBOX_INPUTS (what
the task may read), MBOX_AGENT and MBOX_HOME. What it writes on stdout is the
result: JSON if it parses, else text. Exit code 0 completes the task, 75 gives it
back for later, any other ends the attempt. Lines on stderr are for mbox logs;
"mbox:progress 40% reading" tells how far it is. With silence in its table a
command that writes nothing for that long is ended. While the command cannot run
nothing is taken, and with --once the exit code is 1.

Flags that are not given come from [agents.NAME] in mbox.toml. On SIGTERM or
Ctrl-C no more tasks are taken; after --grace what still runs is given back.`,
		shows: []string{
			`mbox worker --agent echo --exec 'jq -r .task.title'`,
			`mbox worker --agent coder --exec ./coder.sh --concurrency 2 --timeout 20m`,
		},
		exits: []int{exitError, exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			textFlag("agent", "who works: `NAME`, needed", &o.agent),
			textFlag("exec", "the command: `CMD`, for /bin/sh -c", &o.exec),
			valueFlag("concurrency", "`N` tasks at once (1)", &o.concurrency),
			valueFlag("timeout", "the longest run of the command: `DURATION`; 0s: any (1h)", &o.timeout),
			valueFlag("grace", "how long the command may finish when it has to end: `DURATION` (10s)", &o.grace),
			valueFlag("type", "only tasks of `TYPE`", &o.kind),
			boolFlag("only-named", "only tasks that are for it by name, and none for any", &o.named),
			boolFlag("once", "end when there is nothing to take", &o.once),
		},
		run: func(ctx context.Context, s *session, _ []string) error { return o.run(ctx, s) },
	}
}

func (o *workerOptions) run(ctx context.Context, s *session) error {
	if err := needAgent("worker", o.agent); err != nil {
		return err
	}
	return s.with(ctx, func(box *mailbox.Box) (err error) {
		if o.agent, err = mailbox.AgentCalled(box, o.agent); err != nil {
			return err
		}
		recopy(ctx, s, box, o.agent)
		w := s.worker(box, o.agent, s.config.Agents[o.agent])
		if err := keepHome(s, box, w); err != nil {
			return err
		}
		o.override(w)
		if o.exec != "" {
			w.Lacks = func() string {
				f := check.Line(o.agent, o.exec, workspace(s.config, box, o.agent))
				return f.Lack()
			}
		}
		if w.Home != nil && w.Concurrency > 1 {
			return usagef("leave --concurrency out", "--concurrency %d: %s was born, and does one task at a time", w.Concurrency, o.agent)
		}
		if w.Exec == "" && w.Runtime == nil && s.team.Members[o.agent].Role == "" {
			return usagef("mbox worker --agent "+o.agent+" --exec CMD", "%s has neither a command (--exec, or exec or acp in mbox.toml) nor a role", o.agent)
		}
		if a := s.config.Agents[o.agent]; a != nil && !a.Enabled {
			s.warnf("%s is not enabled in mbox.toml: it takes nothing", o.agent)
		}
		var paused *mailbox.PausedError
		if errors.As(mailbox.MayClaim(box, o.agent), &paused) && paused.State != lifecycle.Provisioning { // which this ends
			s.warnf("it takes nothing for now: %v", paused)
		}
		s.warnUnsynced(box.Options().Sync)
		if err := mayStart(s.config, o.agent); err != nil {
			return err
		}
		if err := s.recordLifted(ctx, box, o.agent); err != nil {
			return err
		}
		if o.exec != "" {
			tellWorkers(s, []check.Finding{check.Line(o.agent, o.exec, workspace(s.config, box, o.agent))})
		} else {
			tellWorkers(s, slices.DeleteFunc(workersOf(ctx, s, box.Home()), func(f check.Finding) bool { return f.Agent != o.agent }))
		}
		m := startedBy(s)
		defer context.AfterFunc(ctx, m.stopping)()
		m.ready()
		w.Alive = m.alive
		return w.Run(ctx)
	})
}

// workspace is where an agent's command runs.
func workspace(c *config.File, box *mailbox.Box, agent string) string {
	if a := c.Agents[agent]; a != nil {
		return filepath.Join(box.Home(), a.Workspace.Path)
	}
	return filepath.Join(box.AgentDir(agent), "workspace")
}

// tellWorkers says on stderr who can work, and who cannot and why.
func tellWorkers(s *session, found []check.Finding) {
	for _, f := range found {
		text := f.Text
		if f.Hint != "" {
			text += "; " + f.Hint
		}
		if f.Level != check.Fine && f.Check == "command" { // what has no brain does what carries an action
			s.warnf("%s", text)
		} else {
			s.infof("%s", text)
		}
	}
}

// override puts the flags that were given over what mbox.toml says.
func (o *workerOptions) override(w *agents.Worker) {
	if o.exec != "" {
		w.Exec, w.Runtime = o.exec, nil
	}
	w.Type, w.Once, w.Named = o.kind.value, o.once, o.named
	if o.concurrency.value != nil {
		w.Concurrency = *o.concurrency.value
	}
	if o.timeout.given {
		w.Timeout = time.Duration(o.timeout.Duration)
	}
	if o.grace.given {
		w.Grace = time.Duration(o.grace.Duration)
	}
}

// recopy has the copy of its entry that lies in an agent's home be that of the registry
// which is taken over. It decides nothing.
func recopy(ctx context.Context, s *session, box *mailbox.Box, agent string) {
	if err := life.Recopy(ctx, box, agent); err != nil && ctx.Err() == nil {
		s.warnf("agent.toml in the home of %s is not that of its entry: %v", agent, err)
	}
}

// keepHome gives the worker of an agent that was born its home.
func keepHome(s *session, box *mailbox.Box, w *agents.Worker) error {
	k, err := life.Keep(box, w.Agent, thisVersion().Version)
	if err != nil || k == nil {
		return err
	}
	w.Home = k
	return config.OneAtATime(s.config, w.Agent)
}

// worker makes an agent's worker as its table in mbox.toml says, if it has one.
func (s *session) worker(box *mailbox.Box, name string, a *config.Agent) *agents.Worker {
	w := &agents.Worker{Box: box, Agent: name, Team: s.team, Env: s.team.Env(name), Confine: s.team.Confine(name), Timeout: time.Duration(config.DefaultTimeout), Log: s.logger(), Logs: s.config.Logs.Bounds(), Measure: s.config.Telemetry.Endpoint != "", Secrets: passedSecrets(s.config, name)}
	w.Unlock = func(ctx context.Context) (secret.Values, error) { return secret.Open(ctx, box.Home(), name) }
	if a != nil {
		w.Runtime = runtimeOf(s.config, a)
		w.Exec, w.Concurrency, w.Timeout = a.Exec, a.Concurrency, time.Duration(a.Timeout)
		w.Idle, w.Cycle = time.Duration(a.IdleInterval), a.PerCycle()
		w.Silence = time.Duration(a.Silence)
		w.Format, w.Exit, w.Quota, w.Account = agents.Format(a.ExecFormat), a.Meanings(), a.Quotas(), a.Account
		w.Fellows = config.Fellows(s.config, name)
		w.Lacks = func() string { return check.Unable(s.config, box.Home(), name) }
		w.Fit = check.Pin(s.config, box.Home(), name, s.team)
	}
	return w
}
