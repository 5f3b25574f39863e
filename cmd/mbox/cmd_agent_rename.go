package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"mbox/agents/life"
	"mbox/agents/memory/adapter"
	"mbox/agents/memory/postgres"
	"mbox/agents/memory/sqlite"
	"mbox/agents/secret"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
	"mbox/schemas"
)

type renameOptions struct {
	reason string
	json   bool
}

func agentRenameVerb() *verb {
	var o renameOptions
	return &verb{
		name: "rename", args: "OLD NEW", least: 2, most: 2,
		brief: "give an agent another name",
		about: `Gives an agent that was born another name: its home, its entry in the registry, its
memory, its secrets, its tokens, its units and the tasks that wait for it follow. It keeps its UUID
and its state. IDENTITY.md and CLAUDE.md tell the new name where a birth wrote the old one; a
CLAUDE.md that was changed since stays. OLD stays taken, and means the agent from then on: in tasks that are sent
to it, in messages, in the tables of mbox.toml, and here. What the ledger has told of OLD it goes on telling.
Folders that are named whole, as in allowed_roots, are not changed.

One that works at something is refused (exit code 5). A change of names that was cut off
is finished by mbox up, or by the same command. A change record tells of it. It is for
people, as births are.`,
		shows: []string{"mbox agent rename ada countess"},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{textFlag("reason", "why: `TEXT`", &o.reason), jsonFlag(&o.json)},
		run: func(ctx context.Context, s *session, args []string) error {
			return rearing.byName(ctx, s, args[0], func(box *mailbox.Box, name string) error { return o.run(ctx, s, box, name, args[1]) })
		},
		words: agentWords,
	}
}

func (o *renameOptions) run(ctx context.Context, s *session, box *mailbox.Box, from, to string) error {
	if problem := cmp.Or(takenName(to), config.AgentProblem(to)); problem != "" {
		return usagef("mbox agent rename "+schemas.ShellWord(from)+" NEW", "NEW: %s", problem)
	}
	a, err := knownAgent(s.config, box, from)
	if err != nil {
		return err
	}
	if a.Lifecycle.State == lifecycle.Dead {
		return &mailbox.EndedError{Name: from, Agent: a.Lifecycle}
	}
	// What was cut off comes first. Said again, that is all.
	if _, err := life.Finish(ctx, box, following(s, box)); err != nil {
		return halfway(err)
	}
	if from != to {
		if err := o.rename(ctx, s, box, from, to); err != nil {
			return err
		}
	}
	return o.told(ctx, s, box, to)
}

func (o *renameOptions) rename(ctx context.Context, s *session, box *mailbox.Box, from, to string) error {
	c, err := config.Load(box.Home()) // as it is behind what was finished
	if err != nil {
		return err
	}
	if err := life.MayRename(box, from, to); err != nil {
		return hint(err, "mbox agent show %s tells what it is at; mbox agent list shows which names are taken", from)
	}
	if c.Agents[to] != nil {
		return hint(fmt.Errorf("agent %s: %w: it is in the registry already", to, mailbox.ErrConflict), "another name")
	}
	entry, _, err := config.Rename(c, from, to)
	if err != nil {
		return err
	}
	if err := unused(ctx, c, box, from, to); err != nil {
		return err
	}
	return halfway(life.Rename(ctx, box, life.Renaming{From: from, To: to, Entry: entry, By: "human", Reason: o.reason, Follow: following(s, box)}))
}

// told tells what became of it.
func (o *renameOptions) told(ctx context.Context, s *session, box *mailbox.Box, name string) error {
	all, err := mailbox.AgentsOf(box)
	if err != nil {
		return err
	}
	for old := range all {
		if lifecycle.Called(all, old) != name || old == name {
			continue
		}
		if _, err := os.Lstat(filepath.Join(box.Home(), life.EntryName(old))); err == nil {
			return hint(fmt.Errorf("agent %s is %s, and works at something as %s: %w", name, all[name], old, mailbox.ErrBusy), "its home follows when that has ended, by mbox up, or say it again")
		}
	}
	next, err := config.Load(box.Home())
	if err != nil {
		return err
	}
	id, err := recordSettings(ctx, box, next, "agent "+name+" has this name", "Somebody has said mbox agent rename, from "+door()+".")
	if err != nil {
		return fmt.Errorf("agent %s has this name, and no record tells of it: %w", name, err)
	}
	if c, err := life.ClaudeOf(box, name); err == nil && c.Changed() {
		s.warnf("CLAUDE.md of %s was changed since its birth, and stays as it is, whatever name it tells", name)
	}
	return toldAgent(s, next, box, name, o.json, "has this name", id)
}

// following has what an agent has outside of its home follow it: its memory, its secrets
// and its units, of which no agent is kept from arriving.
func following(s *session, box *mailbox.Box) life.Follow {
	wait := box.Options().LockWait
	return func(ctx context.Context, from, to string) error {
		switch {
		case from == "":
			writeUnits(s, box, to)
			return nil
		case to == "":
			dropUnits(s, box.Home(), from)
			return nil
		}
		moveUnits(s, box, from, to)
		err := sqlite.Rename(ctx, memoryDatabase(box.Home()), from, to, wait)
		err = errors.Join(err, secret.Rename(ctx, box.Home(), from, to, wait))
		c, failed := config.Load(box.Home())
		if failed != nil {
			return errors.Join(err, failed)
		}
		return errors.Join(err, followInPostgres(ctx, c, box, from, to), followInQdrant(ctx, c, box, from, to))
	}
}

func followInPostgres(ctx context.Context, c *config.File, box *mailbox.Box, from, to string) error {
	if !remembersIn(c, config.MemoryPostgres, from, to) {
		return nil
	}
	at, failed := postgresOf(c, box.Options(), from)
	if failed == nil {
		failed = postgres.Rename(ctx, at, to)
	}
	return failed
}

func followInQdrant(ctx context.Context, c *config.File, box *mailbox.Box, from, to string) error {
	if !remembersIn(c, config.MemoryQdrant, from, to) {
		return nil
	}
	s, err := qdrantOf(c, box.Home(), from, nil)
	if err != nil {
		return err
	}
	return errors.Join(s.Rename(ctx, to), s.Close())
}

// remembersIn tells whether an agent that has one of these names has a backend.
func remembersIn(c *config.File, backend string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return c.Agents[name] != nil && c.Agents[name].Memory.Backend == backend
	})
}

// unused refuses a name under which somebody else remembers, or has secrets.
func unused(ctx context.Context, c *config.File, box *mailbox.Box, from, to string) error {
	known, err := sqlite.Knows(ctx, memoryDatabase(box.Home()), to, box.Options().LockWait)
	if err == nil && !known && remembersIn(c, config.MemoryPostgres, from) {
		var at postgres.Options
		if at, err = postgresOf(c, box.Options(), to); err == nil {
			known, err = postgres.Knows(ctx, at)
		}
	}
	if err == nil && !known && remembersIn(c, config.MemoryQdrant, from) {
		var s *adapter.Store
		if s, err = qdrantOf(c, box.Home(), to, nil); err == nil {
			known, err = s.Knows(ctx)
			err = errors.Join(err, s.Close())
		}
	}
	if err != nil {
		return err
	}
	if known {
		return hint(fmt.Errorf("agent %s: %w: there are memories of another agent of that name", to, mailbox.ErrConflict), "another name")
	}
	secrets, err := secret.List(ctx, box.Home(), to)
	if len(secrets) > 0 {
		return hint(fmt.Errorf("agent %s: %w: there are secrets of another agent of that name", to, mailbox.ErrConflict), "another name; mbox secret list tells which they are")
	}
	return err
}
