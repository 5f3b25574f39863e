package main

import (
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/agents/dream"
	"mbox/agents/life"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
	"mbox/schemas"
)

type dreamOptions struct{ undo, json bool }

func dreamVerb() *verb {
	var o dreamOptions
	return &verb{
		name: "dream", args: "NAME", least: 1, most: 1,
		brief: "have an agent tidy what it has written down",
		about: `Makes memory/memory.md in the home of an agent that was born shorter: of entries that
say the same the last stays, and of the others the newest, as many as max_memory_lines
of its table has room for. What leaves it is kept, word for word, in memory/dreams; an
agent that thinks with a model says there what it was about, and on which tasks that
rests. A change record tells of it. A memory that is as the last dream has left it is
left alone. An agent at work is waited for, for ten seconds.

mbox up has its agents dream every dream_every. This is for people and timers: an
agent's process is refused, as mbox approve refuses it.`,
		shows: []string{"mbox dream ada", "mbox dream ada --undo"},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			boolFlag("undo", "put the memory back as it was before the last dream, with what was added since", &o.undo),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			return dreaming.byName(ctx, s, args[0], func(box *mailbox.Box, name string) error { return o.run(ctx, s, box, name) })
		},
		words: agentWords,
	}
}

func (o *dreamOptions) run(ctx context.Context, s *session, box *mailbox.Box, name string) error {
	a, err := knownAgent(s.config, box, name)
	if err != nil {
		return err
	}
	if a.Lifecycle.State == lifecycle.Dead {
		return &mailbox.EndedError{Name: name, Agent: a.Lifecycle}
	}
	d := dreamer(s, box, name, "human")
	do := d.Dream
	if o.undo {
		do = d.Undo
	}
	dreamed, err := do(ctx)
	switch {
	case errors.Is(err, dream.ErrNoHome):
		return hint(err, "only an agent that was born dreams: mbox help colony")
	case errors.Is(err, mailbox.ErrBusy):
		return hint(err, "say it again when it has finished: mbox agent show %s", schemas.ShellWord(name))
	case err != nil:
		return hintConflict(err, name)
	case o.json:
		return s.printLine(dreamed)
	}
	if dreamed.File == "" {
		s.done("there is nothing new to dream of")
		return nil
	}
	s.printf("%s\n", clean(dreamed.File, maxLine))
	if dreamed.Note != "" {
		s.warnf("by rule alone: %s", clean(dreamed.Note, maxLine))
	}
	s.done("memory.md has %s, of %d; %s", schemas.Count(dreamed.After, "line", "lines"), dreamed.Before, dreamed.Record)
	return nil
}

// dreamer dreams for an agent, as its table says.
func dreamer(s *session, box *mailbox.Box, name, by string) *dream.Dreamer {
	d := &dream.Dreamer{Box: box, Agent: name, By: by, Most: config.DefaultMemoryLines}
	if a := s.config.Agents[name]; a != nil {
		d.Most = a.MaxMemoryLines
	}
	if s.team != nil {
		d.Brain, d.Context = s.team.Members[name].Brain, s.team.Members[name].Context
	}
	return d
}

// dreamPause is how often it is looked for agents that should dream: at first more often,
// for those whose worker is about to begin.
const dreamPause = time.Minute

// keepDreams has the agents dream that were born, each as often as its table says, until
// ctx ends. When one has dreamed last it says itself; it may say what it likes, and dreams
// no more often for it.
func (v *service) keepDreams(ctx context.Context) {
	last := map[string]time.Time{} // that this process has looked after, too
	for pause := time.Second; ; pause = min(2*pause, dreamPause) {
		for _, name := range v.config.AgentNames() {
			if err := v.dreams(ctx, name, last); err != nil && ctx.Err() == nil && !errors.Is(err, mailbox.ErrBusy) {
				v.warnf("%s cannot dream: %v", name, err)
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

func (v *service) dreams(ctx context.Context, name string, last map[string]time.Time) error {
	a := v.config.Agents[name]
	every := time.Duration(a.DreamEvery)
	if every == 0 || !a.Enabled || time.Since(last[name]) < every {
		return nil
	}
	state := life.Seen(v.box, name)
	if state == nil {
		return nil
	}
	if state.LastDreamAt != nil && time.Since(*state.LastDreamAt) < every && last[name].IsZero() {
		last[name] = *state.LastDreamAt
		return nil
	}
	if now, err := mailbox.AgentOf(v.box, name); err != nil || now.State != lifecycle.Healthy {
		return err
	}
	dreamed, err := dreamer(v.session, v.box, name, name).Dream(ctx)
	if errors.Is(err, mailbox.ErrBusy) {
		return nil // it works: in a minute again
	}
	last[name] = time.Now()
	if err == nil && dreamed.File != "" {
		v.infof("%s has dreamed: %s", name, dreamed.File)
	}
	return err
}
