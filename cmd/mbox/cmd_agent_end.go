package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"mbox/agents"
	"mbox/agents/life"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
	"mbox/schemas"
)

type endOptions struct {
	reason string
	now    bool
	json   bool
}

func agentDrainVerb() *verb {
	var o endOptions
	return &verb{
		name: "drain", args: "NAME", least: 1, most: 1,
		brief: "let an agent finish, and put it away",
		about: `Keeps an agent that was born from claiming, for good. When it has finished what it has,
its home and its entry are put away in agents/_archive/NAME-TIME, with a manifest of the
home's hashes, and it is dead: at once where it has nothing, else by mbox up. Its name
stays taken. What waits for it stays pending, until somebody moves or cancels it.

A change record tells of it. It is for people, as births are.`,
		shows: []string{`mbox agent drain ada --reason "the project is over"`},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{textFlag("reason", "why: `TEXT`", &o.reason), jsonFlag(&o.json)},
		run: func(ctx context.Context, s *session, args []string) error {
			return rearing.byName(ctx, s, args[0], func(box *mailbox.Box, name string) error { return o.end(ctx, s, box, name, "mbox agent drain") })
		},
		words: agentWords,
	}
}

func agentKillVerb() *verb {
	var o endOptions
	return &verb{
		name: "kill", args: "NAME", least: 1, most: 1,
		brief: "put an agent away now",
		about: `Does what drain does, to an agent that has nothing to do. One that has a task is
refused, unless --now says that its tasks go back to pending: what it is doing then
counts no more. mbox agent restore brings it back.`,
		shows: []string{"mbox agent kill ada --now"},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			boolFlag("now", "take its tasks away from it", &o.now),
			textFlag("reason", "why: `TEXT`", &o.reason), jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			return rearing.byName(ctx, s, args[0], func(box *mailbox.Box, name string) error {
				held, err := life.Holds(box, name)
				if err != nil {
					return err
				}
				if len(held) > 0 && !o.now {
					err := fmt.Errorf("agent %s works at %s: %w", name, joinIDs(held), mailbox.ErrConflict)
					return hint(err, "mbox agent drain %s lets it finish, mbox agent kill %[1]s --now takes its tasks away", name)
				}
				return o.end(ctx, s, box, name, "mbox agent kill")
			})
		},
		words: agentWords,
	}
}

func (o *endOptions) end(ctx context.Context, s *session, box *mailbox.Box, name, command string) error {
	a, err := knownAgent(s.config, box, name)
	if err != nil {
		return err
	}
	if a.Lifecycle.State == lifecycle.Dead {
		dropUnits(s, box.Home(), name) // which a command may have left that was cut off
	}
	without, err := config.With(box.Home(), life.EntryName(name), nil)
	if err != nil {
		return hint(fmt.Errorf("without %s the settings make no sense: %w", life.EntryName(name), err), "move what else stands in that file to one of its own; mbox up notices")
	}
	var free func() error
	if o.now {
		free = func() error { return takeBack(ctx, box, name) }
	}
	archive, err := life.Drain(ctx, box, name, "human", o.reason, free, following(s, box))
	err = halfway(err)
	if errors.Is(err, mailbox.ErrConflict) {
		if a, failed := mailbox.AgentOf(box, name); failed == nil && a.State == lifecycle.Dead {
			return hint(err, "mbox agent restore %s brings it back", schemas.ShellWord(name))
		}
		return hint(err, "mbox agent pause %s keeps it from claiming; enabled = false in its table switches it off", schemas.ShellWord(name))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return hint(err, "mkdir -m 700 %s, or bring it back from a backup; then the same command again", schemas.ShellWord(box.AgentDir(name)))
	}
	if err != nil {
		return err
	}
	if a, err = agentStatusOf(s.config, box, name); err != nil {
		return err
	}
	if archive != "" {
		next, err := config.Load(box.Home())
		if err != nil {
			return err
		}
		if _, err = recordSettings(ctx, box, next, "agent "+name+" is put away in "+archive, "Somebody has said "+command+", from "+door()+"."); err != nil && !errors.Is(err, mailbox.ErrCommitted) {
			return fmt.Errorf("agent %s is put away, and no record tells of it: %w", name, err)
		}
	}
	if o.json {
		return s.printLine(a)
	}
	switch {
	case archive != "":
		s.printf("%s\n", archive)
		s.done("%s is dead; mbox agent restore %[1]s brings it back", name)
	case len(a.Holds) > 0:
		s.done("%s is draining: it finishes %s, and mbox up puts it away then", name, joinIDs(a.Holds))
	default:
		s.done("%s is %s", name, a.Lifecycle)
	}
	for _, naming := range config.NamingDead(without) {
		if !slices.Contains(config.NamingDead(s.config), naming) {
			s.warnf("%s: that leads to nobody, until it is back", naming)
		}
	}
	if a.Waiting > 0 {
		s.warnf("%s for it; mbox move gives them to others: mbox move --pending --for %s AGENT", schemas.Count(a.Waiting, "task waits", "tasks wait"), name)
	}
	return nil
}

// takeBack gives the tasks of an agent back to pending, by the tokens that stand in them.
func takeBack(ctx context.Context, box *mailbox.Box, name string) error {
	held, err := life.Holds(box, name)
	if err != nil {
		return err
	}
	for _, id := range held {
		t, state, err := box.Task(ctx, id)
		if err != nil {
			return err
		}
		if state != mailbox.InProgress || t.Mbox.Lease == nil || t.Claimant() != name {
			continue // it has ended meanwhile
		}
		claim, err := box.Held(ctx, id, t.Mbox.Lease.Token)
		if err == nil {
			err = claim.Release(ctx, agents.TakenAway, 0)
		}
		if err != nil && !errors.Is(err, mailbox.ErrStale) {
			return err
		}
	}
	return nil
}

func agentRestoreVerb() *verb {
	var o endOptions
	return &verb{
		name: "restore", args: "NAME", least: 1, most: 1,
		brief: "bring a dead agent back",
		about: `Brings an agent back from its newest archive: its home, compared with the manifest and
the ledger, its entry in the registry, and the units that its birth has written. Then it
goes on as after a birth. An archive that was changed is refused: what is in it can be
copied by hand.`,
		shows: []string{"mbox agent restore ada"},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{textFlag("reason", "why: `TEXT`", &o.reason), jsonFlag(&o.json)},
		run: func(ctx context.Context, s *session, args []string) error {
			return rearing.byName(ctx, s, args[0], func(box *mailbox.Box, name string) error { return o.restore(ctx, s, box, name) })
		},
		words: agentWords,
	}
}

func (o *endOptions) restore(ctx context.Context, s *session, box *mailbox.Box, name string) error {
	a, err := knownAgent(s.config, box, name)
	if err != nil {
		return err
	}
	if a.Lifecycle.State == lifecycle.Provisioning {
		_, err = life.Finish(ctx, box, following(s, box))
		err = halfway(err)
	} else {
		err = o.fetch(ctx, s, box, name)
	}
	if err != nil {
		return err
	}
	return halfway(arrived(ctx, s, box, name, o.json, "is back", "mbox agent restore"))
}

func (o *endOptions) fetch(ctx context.Context, s *session, box *mailbox.Box, name string) error {
	archive, entry, err := life.Archived(box, name)
	if errors.Is(err, mailbox.ErrNotFound) {
		return hint(err, "bring that folder back from a backup, or take another name for a new agent")
	}
	if err != nil {
		return hintConflict(err, name)
	}
	if _, err := config.With(box.Home(), life.EntryName(name), entry); err != nil {
		return hint(fmt.Errorf("%s/agent.toml: %w", archive, err), "mend it there, or write a table of your own")
	}
	err = halfway(life.Restore(ctx, box, name, "human", o.reason, following(s, box)))
	var changed *life.ChangedError
	if errors.As(err, &changed) {
		return hint(err, "look into %s: what was changed, and by whom", filepath.Join(box.Home(), archive))
	}
	return err
}
