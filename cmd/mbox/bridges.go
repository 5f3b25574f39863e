package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/bluebubbles"
	"mbox/agents/chat/email"
	"mbox/agents/chat/imsg"
	"mbox/agents/chat/irc"
	"mbox/agents/chat/matrix"
	"mbox/agents/chat/openclaw"
	"mbox/agents/chat/slack"
	"mbox/agents/chat/stdio"
	"mbox/agents/chat/telegram"
	"mbox/agents/chat/webhook"
	"mbox/agents/policy"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
)

// chatKinds are the chat systems that this mbox knows.
func chatKinds() []chat.Kind {
	return append([]chat.Kind{
		telegram.Kind, matrix.Kind, slack.Kind, irc.Kind, email.Kind, bluebubbles.Kind, imsg.Kind, webhook.Kind, openclaw.Kind, stdio.Kind,
	}, testKinds...)
}

var testKinds []chat.Kind // none but in tests

// bridge makes a bridge as its table says. Its secrets are read now.
func bridgeOf(s *session, box *mailbox.Box, name string) (chat.Bridge, error) {
	b, err := s.config.Bridges.Named(name)
	if err != nil {
		return chat.Bridge{}, err
	}
	if err := unreadable(s.config, "bridges."+name, b); err != nil {
		return chat.Bridge{}, err
	}
	settings, err := b.Settings()
	if err != nil {
		return chat.Bridge{}, fmt.Errorf("bridge %s: %w", name, err)
	}
	made := chat.Bridge{
		Box: box, Name: name, To: b.To, Settings: settings, Rules: b.Rules(),
		Log: func(format string, a ...any) { s.warnf("bridge %s: %s", name, fmt.Sprintf(format, a...)) },
	}
	made.Kind = channelKind(chatKinds(), b.Kind)
	return made, nil
}

func channelKind(kinds []chat.Kind, name string) *chat.Kind {
	for i := range kinds {
		if kinds[i].Name == name {
			return &kinds[i]
		}
	}
	return nil
}

// unreadable refuses a secret that an agent gets to see. What lies in .mbox none does,
// unless its commands run without a sandbox: those can read what the user can.
func unreadable(c *config.File, table string, b *config.Bridge) error {
	for _, agent := range c.AgentNames() {
		p, err := policy.ForAgent(c.Policy(), agent)
		if err != nil || !c.Agents[agent].Enabled {
			continue
		}
		for _, file := range b.SecretFiles() {
			if _, err := p.Read(file); err == nil {
				return &config.Error{
					File: config.Name, Problem: fmt.Sprintf("%s: the agent %s may read %s", table, agent, file),
					Hint: "a secret lies well in .mbox/keys, which no agent's actions reach",
				}
			}
		}
		for _, variable := range p.EnvPassthrough {
			if variable == b.TokenEnv || variable == b.PasswordEnv {
				return &config.Error{
					File: config.Name, Problem: fmt.Sprintf("%s: the commands of the agent %s get %s", table, agent, variable),
					Hint: "take it out of shell_env_passthrough of its risk profile, or keep it in a file that only you can read",
				}
			}
		}
	}
	return nil
}

// startBridges runs the bridges of a service. One that cannot go on does not end the
// others.
func (c *crew) startBridges(ctx context.Context, v *service) {
	for _, name := range v.config.Bridges.Names() {
		c.alongside(ctx, v, "bridge "+name, func(ctx context.Context) {
			if err := v.keepBridge(ctx, name); err != nil {
				v.warnf("bridge %s: %v; mbox bridge %s --check tells more. Everything else goes on", name, err, name)
			}
		})
	}
}

// alongside runs what belongs to a service, until that is retired, when what the
// service before had by the same key has ended. No agent has the key's name.
func (c *crew) alongside(ctx context.Context, v *service, key string, run func(context.Context)) {
	before, ended := c.ended[key], make(chan struct{})
	c.ended[key] = ended
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer stop()
		select {
		case <-v.retired:
		case <-ended:
		}
	}()
	v.working.Add(1)
	c.running.Go(func() {
		defer v.working.Done()
		defer close(ended)
		if before != nil {
			<-before
		}
		run(ctx)
	})
}

// Pauses before mbox up begins again what has ended.
const (
	firstPause = 5 * time.Second
	mostPause  = 5 * time.Minute
)

func (v *service) keepBridge(ctx context.Context, name string) error {
	b, err := bridgeOf(v.session, v.box, name)
	if err != nil || b.Kind.Stdio {
		return err
	}
	return v.keepOn(ctx, "bridge "+name, firstPause, func() error { return b.Run(ctx) })
}

// keepOn runs what only one process may, as soon as no other one does, and again where
// it has ended for a reason that may pass: a full disk, or a mailbox that is read-only
// until somebody recovers it. It returns what a person has to mend in the settings.
func (v *service) keepOn(ctx context.Context, what string, pause time.Duration, run func() error) error {
	waits := false
	for next := pause; ; next = min(2*next, mostPause) {
		began := time.Now()
		err := run()
		busy := errors.Is(err, mailbox.ErrBusy)
		if busy || time.Since(began) > mostPause {
			next = pause
		}
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, chat.ErrSetup):
			return err
		case !busy:
			v.warnf("%s: %v; it begins again in %s", what, err, next)
		case !waits:
			v.warnf("%s: another process runs it; it is taken over when that ends", what)
			waits = true
		}
		if !chat.Sleep(ctx, next) {
			return nil
		}
	}
}

// linesInJSON makes the lines of a bridge JSON.
func linesInJSON(b *chat.Bridge, wanted bool) error {
	if !wanted {
		return nil
	}
	if !b.Kind.Stdio {
		return usagef("mbox bridge "+b.Name, "--json is for a bridge of kind stdio: this one is of kind %s", b.Kind.Name)
	}
	b.Settings.Format = "json"
	return nil
}
