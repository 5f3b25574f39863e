package main

import (
	"context"
	"errors"
	"maps"
	"slices"

	"mbox/agents"
	"mbox/agents/brain"
)

// thinkers are the enabled agents that have a brain, by name.
func (s *session) thinkers() map[string]agents.Brain {
	out := map[string]agents.Brain{}
	for name, m := range s.team.Members {
		if m.Enabled && m.Brain != nil {
			out[name] = m.Brain
		}
	}
	return out
}

// pull fetches the models that agents ask Ollama for and that it does not have,
// with a bar on a terminal: those of [ollama] pull, and with all those of every
// enabled agent. Without a server it waits for none. What could not be had is told
// and is no reason to stop: tasks that carry an action need no model.
func (s *session) pull(ctx context.Context, all bool) error {
	var failed error
	seen := map[string]bool{}
	thinkers := s.thinkers()
	for _, name := range slices.Sorted(maps.Keys(thinkers)) {
		o, ok := thinkers[name].(*brain.Ollama)
		if !ok {
			continue
		}
		wanted := slices.Clone(s.config.Ollama.Pull)
		if all {
			missing, err := o.Missing(ctx)
			if err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			wanted = append(wanted, missing...)
		}
		for _, model := range wanted {
			if key := o.URL() + " " + model; !seen[key] {
				seen[key] = true
				failed = errors.Join(failed, s.pullOne(ctx, o, model))
			}
		}
	}
	return failed
}

func (s *session) pullOne(ctx context.Context, o *brain.Ollama, model string) error {
	has, err := o.Has(ctx, model)
	if err != nil || has {
		return err
	}
	s.infof("pulling %s from %s", clean(model, 80), o.URL())
	defer s.endProgress()
	return o.Pull(ctx, model, func(done, total int64, _ string) { s.progress("pulling "+model, done, total) })
}
