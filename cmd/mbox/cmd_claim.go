package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

type claimOptions struct {
	id    mailbox.ID
	agent string
	kind  choice
	wait  config.Duration
	json  bool
}

func claimVerb() *verb {
	o := claimOptions{kind: oneOf(task.Types...)}
	return &verb{
		name: "claim", args: "[ID]", most: 1,
		brief: "take the next task, or this one",
		about: `Takes the task that is most urgent among those that the agent may take, or the one
that is named, if the agent may take it now, and prints its JSON. Its mbox.lease.token is needed for progress, complete, fail and
release. The claim lasts until mbox.lease.deadline; mbox progress makes it last
longer. When it is over, the task goes back to pending. An agent that is paused
(mbox agent pause) gets nothing, with exit code 5. Ctrl-C ends a --wait with 130,
SIGTERM with 143.`,
		shows: []string{
			"task=$(mbox claim --agent coder --wait 10m) || exit",
			`id=$(jq -r .id <<<"$task")`,
			`export MBOX_TOKEN=$(jq -r .mbox.lease.token <<<"$task")`,
		},
		exits: []int{exitNotFound, exitConflict, exitData, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			textFlag("agent", "who takes it: `AGENT`, needed", &o.agent),
			valueFlag("type", "only a task of `TYPE`", &o.kind),
			valueFlag("wait", "wait up to `DURATION` for a task", &o.wait),
			boolFlag("json", "print the JSON on one line", &o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			if len(args) == 1 {
				o.id = mailbox.ID(args[0])
			}
			return o.run(ctx, s)
		},
		words: tasksThatAre(mailbox.Pending),
	}
}

// needAgent refuses a line without a proper agent. args are what else it names.
func needAgent(verb, name string, args ...string) error {
	if name == "" {
		words := slices.Concat([]string{"mbox"}, strings.Fields(verb), args, []string{"--agent", "NAME"})
		return usagef(shell(words), "%s needs --agent", verb)
	}
	if problem := config.AgentProblem(name); problem != "" {
		return usagef("mbox "+verb+" --help", "--agent: %s", problem)
	}
	return nil
}

func (o *claimOptions) run(ctx context.Context, s *session) error {
	if err := needAgent("claim", o.agent, strings.Fields(string(o.id))...); err != nil {
		return err
	}
	if o.id != "" && (o.kind.value != "" || o.wait != 0) {
		return usagef("mbox claim "+schemas.ShellWord(string(o.id))+" --agent "+o.agent, "--type and --wait are for the next task, not for one that is named")
	}
	return s.tidied(ctx, func(box *mailbox.Box) error {
		claim, err := o.claim(ctx, box)
		if errors.Is(err, mailbox.ErrConflict) {
			return hint(err, "mbox why %s", schemas.ShellWord(string(o.id)))
		}
		if err != nil {
			return err
		}
		if err := o.print(s, claim.Task); err != nil {
			return errors.Join(err, claim.Release(ctx, "its claimant could not be told", 0))
		}
		return claim.Close()
	})
}

// print tells the claimant. Who does not get the token cannot work, so the
// claim is given back where this fails.
func (o *claimOptions) print(s *session, t *mailbox.Task) error {
	print := s.printJSON
	if o.json {
		print = s.printLine
	}
	if err := print(t); err != nil {
		return err
	}
	return s.out.Flush()
}

func (o *claimOptions) claim(ctx context.Context, box *mailbox.Box) (*mailbox.Claim, error) {
	want := mailbox.ClaimRequest{Agent: o.agent, ID: o.id, Type: o.kind.value}
	if o.wait == 0 {
		return box.Claim(ctx, want)
	}
	limited, cancel := context.WithTimeout(ctx, time.Duration(o.wait))
	defer cancel()
	claim, err := box.Wait(limited, want)
	if err != nil && ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) && errors.Is(err, context.DeadlineExceeded) {
		return nil, firstError(mailbox.MayClaim(box, o.agent), mailbox.ErrEmpty)
	}
	return claim, bySignal(ctx, err)
}
