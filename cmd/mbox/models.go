package main

import (
	"context"
	"fmt"
	"strings"

	"mbox/agents"
	"mbox/agents/brain"
	"mbox/cmd/mbox/config"
)

// pull fetches the models that are wanted of Ollama and that it does not have, with a
// bar on a terminal. A server that does not answer is not waited for, and is asked for no
// other model. What could not be had is told and is no reason to stop: tasks that carry an
// action need no model.
func (s *session) pull(ctx context.Context, all bool) error {
	minds, failed := mindsOf(s.config, s.team, all)
	down, tried := map[string]bool{}, map[string]bool{}
	for _, o := range minds {
		if down[o.URL()] {
			continue
		}
		missing, err := o.Missing(ctx)
		down[o.URL()], failed = err != nil, also(failed, err)
		for _, model := range missing {
			if key := o.URL() + " " + model; !tried[key] {
				tried[key] = true
				failed = also(failed, s.pullOne(ctx, o, model))
			}
		}
	}
	return failed
}

// mindsOf are what is wanted of Ollama: the models of [ollama] pull, and with all those
// that enabled agents think with and find by. The error tells of those that cannot be
// asked for.
func mindsOf(c *config.File, team *agents.Team, all bool) (minds []*brain.Ollama, failed error) {
	add := func(o *brain.Ollama, err error) {
		if failed = also(failed, err); o != nil {
			minds = append(minds, o)
		}
	}
	for _, model := range c.Ollama.Pull {
		add(ollamaOf(c, model))
	}
	if !all {
		return minds, failed
	}
	for _, name := range c.AgentNames() {
		if !c.Agents[name].Enabled {
			continue
		}
		if o, ok := team.Members[name].Brain.(*brain.Ollama); ok {
			add(o, nil)
		}
		add(embedderOf(c, name))
	}
	return minds, failed
}

// ollamaOf is a model of the server of [ollama].
func ollamaOf(c *config.File, model string) (*brain.Ollama, error) {
	if err := c.BrainRefused(&config.Agent{Brain: config.Brain{Kind: "ollama", URL: c.Ollama.URL}}); err != nil {
		return nil, err
	}
	return brain.NewOllama(brain.Options{URL: c.Ollama.URL, Model: model, KeepAlive: c.Ollama.Keep(), AllowRemoteLLM: c.Ollama.AllowRemote})
}

// embedderOf is the model by which an agent's memory finds by meaning; nil where it has none.
func embedderOf(c *config.File, agent string) (*brain.Ollama, error) {
	model := c.Agents[agent].Memory.EmbedModel
	if model == "" {
		return nil, nil
	}
	return ollamaOf(c, model)
}

// also is both errors in one line, or one of them where it says what the other does.
func also(err, more error) error {
	switch {
	case err == nil:
		return more
	case more == nil || strings.Contains(err.Error(), more.Error()):
		return err
	}
	return fmt.Errorf("%w; %w", err, more)
}

func (s *session) pullOne(ctx context.Context, o *brain.Ollama, model string) error {
	s.infof("pulling %s from %s", clean(model, 80), o.URL())
	defer s.endProgress()
	return o.Pull(ctx, model, func(done, total int64, _ string) { s.progress("pulling "+model, done, total) })
}
