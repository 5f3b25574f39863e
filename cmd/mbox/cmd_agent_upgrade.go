package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/agents/life"
	"mbox/cmd/mbox/check"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/lifecycle"
	"mbox/schemas"
)

type upgradeOptions struct {
	exec, acp, pin string
	wait           length
	json           bool
}

// upgradeReason is the reason of the pause while an agent is upgraded.
const upgradeReason = "it is being upgraded"

func agentUpgradeVerb() *verb {
	o := upgradeOptions{wait: length{Duration: config.Duration(10 * time.Minute)}}
	return &verb{
		name: "upgrade", args: "NAME", least: 1, most: 1,
		brief: "give an agent another program",
		about: `Has an agent that was born work by another program, or by another version of it: it is
paused, finishes what it has, gets a new entry in the registry, and goes on with its
first pulse. Where that does not come, or the program is not there or has another
version, the entry that it had is put back.

--pin wants a version, or how one begins: with any other, such as one that has updated
itself, the agent does nothing, burns no attempt, and mbox doctor tells why.

An upgrade that was cut off leaves a pause that ends by itself; the same command goes on
with it. A change record tells of it. It is for people, as births are.`,
		shows: []string{
			"mbox agent upgrade ada --pin 2.1",
			`mbox agent upgrade ada --exec "/opt/claude-2.2/claude -p" --pin 2.2`,
		},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			textFlag("exec", "the `COMMAND` that does its tasks from now on", &o.exec),
			textFlag("acp", "the `PROGRAM` that does so by the Agent Client Protocol", &o.acp),
			textFlag("pin", "the `VERSION` that the program has to print", &o.pin),
			valueFlag("wait", "how long it may take to finish what it has: `DURATION`", &o.wait),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			return rearing.byName(ctx, s, args[0], func(box *mailbox.Box, name string) error { return o.run(ctx, s, box, name) })
		},
		words: agentWords,
	}
}

func (o *upgradeOptions) run(ctx context.Context, s *session, box *mailbox.Box, name string) error {
	values := map[string]string{}
	for key, value := range map[string]string{"exec": o.exec, "acp": o.acp, "version": o.pin} {
		if value != "" {
			values[key] = value
		}
	}
	if len(values) == 0 {
		return usagef("mbox agent upgrade "+schemas.ShellWord(clean(name, 80))+" --pin VERSION", "neither --exec nor --acp nor --pin says what is new")
	}
	a, err := knownAgent(s.config, box, name)
	if err != nil {
		return err
	}
	if state := a.Lifecycle.State; state != lifecycle.Healthy && state != lifecycle.Paused && state != lifecycle.Provisioning {
		return hintConflict(fmt.Errorf("agent %s is %s: %w", name, a.Lifecycle, mailbox.ErrConflict), name)
	}
	if err := life.Born(box, name); err != nil {
		return hint(err, "another one's table is changed by hand: mbox up notices")
	}
	text, next, err := config.Upgrade(s.config, name, values)
	var bad *config.Error
	if errors.As(err, &bad) && bad.File == filepath.Join(box.Home(), life.EntryName(name)) {
		return usagef(cmp.Or(bad.Hint, "mbox agent upgrade --help"), "%s", bad.Problem)
	}
	if err != nil {
		return err
	}
	if f := check.Command(next, box.Home(), name); f.Level != check.Fine {
		return usagef(cmp.Or(f.Hint, "mbox agent upgrade --help"), "%s", f.Text)
	}
	resume, err := o.still(ctx, box, name)
	if err == nil {
		err = o.swap(ctx, s, box, next, name, text)
	}
	if err = errors.Join(err, resume(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	id, err := recordSettings(ctx, box, next, "agent "+name+" has another program", "Somebody has said mbox agent upgrade, from "+door()+".")
	if err != nil {
		return fmt.Errorf("agent %s is upgraded, and no record tells of it: %w", name, err)
	}
	return toldAgent(s, next, box, name, o.json, "is upgraded", id)
}

// still pauses an agent until it has nothing left. A pause that a person has made stays
// behind it.
func (o *upgradeOptions) still(ctx context.Context, box *mailbox.Box, name string) (resume func(context.Context) error, err error) {
	resume = func(context.Context) error { return nil }
	wait := time.Duration(o.wait.Duration)
	a, err := mailbox.AgentOf(box, name)
	if err != nil {
		return resume, err
	}
	if a.State == lifecycle.Healthy {
		until := time.Now().Add(wait + 2*pulseWait)
		if _, err := mailbox.PauseAgent(ctx, box, mailbox.Pause{Agent: name, By: "human", Until: until, Reason: upgradeReason}); err != nil {
			return resume, err
		}
	}
	if a.State == lifecycle.Healthy || a.Reason == upgradeReason {
		resume = func(ctx context.Context) error {
			_, err := mailbox.ResumeAgent(ctx, box, name, "human", "")
			return err
		}
	}
	ctx, stop := context.WithTimeout(ctx, wait)
	defer stop()
	var held []mailbox.ID
	err = watchUntil(ctx, box, func() (done bool, err error) {
		held, err = life.Holds(box, name)
		return len(held) == 0, err
	})
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = hint(fmt.Errorf("agent %s works at %s: %w", name, joinIDs(held), mailbox.ErrBusy), "--wait 1h waits longer; nothing was changed")
	}
	return resume, err
}

// swap puts the new entry in the place of the old one, and that back where the agent has
// no pulse by it.
func (o *upgradeOptions) swap(ctx context.Context, s *session, box *mailbox.Box, next *config.File, name string, text []byte) error {
	team, err := assemble(next, box.Home())
	if err != nil {
		return err
	}
	if fit := check.Pin(next, box.Home(), name, team); fit != nil {
		if err := fit(ctx); err != nil {
			return hint(fmt.Errorf("%w: %w", mailbox.ErrConflict, err), "nothing was changed; --pin wants the version that the program prints")
		}
	}
	old, err := durable.Read(filepath.Join(box.Home(), life.EntryName(name)), mostSoul)
	if err != nil || bytes.Equal(old, text) {
		return err
	}
	was, err := life.Stateful(box, name)
	if err != nil || was == nil {
		return errors.Join(err, life.Reenter(ctx, box, name, text))
	}
	if err := life.Reenter(ctx, box, name, text); err != nil {
		return err
	}
	if a := next.Agents[name]; !box.Routed() || !a.Enabled || !a.HasWorker() {
		return nil
	}
	if err := beats(ctx, box, name, was.BootCount); err != nil {
		err = errors.Join(err, life.Reenter(context.WithoutCancel(ctx), box, name, old))
		return hint(err, "what it had is put back; mbox status tells what mbox up does")
	}
	return nil
}

// beats waits for the first pulse of an agent that has begun so often.
func beats(ctx context.Context, box *mailbox.Box, name string, boots int64) error {
	ctx, stop := context.WithTimeout(ctx, pulseWait)
	defer stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := life.Stateful(box, name)
		if err != nil || now != nil && now.BootCount > boots {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("agent %s has no pulse with the new entry: %w", name, mailbox.ErrBusy)
		}
	}
}
