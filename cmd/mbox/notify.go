package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"mbox/agents/chat"
	"mbox/agents/chat/command"
	"mbox/agents/chat/ntfy"
	"mbox/agents/chat/webhook"
)

// notifyKinds are the channels that a target of notifications may have.
func notifyKinds() []chat.Kind {
	return append(testKinds, webhook.Kind, ntfy.Kind, command.Kind)
}

// notifier makes what tells a target. Its secret is read now.
func (v *service) notifier(name string) (*chat.Notifier, error) {
	n := v.config.Notify[name]
	if err := unreadable(v.config, "notify."+name, n.Table()); err != nil {
		return nil, err
	}
	settings, err := n.Table().Settings()
	if err != nil {
		return nil, err
	}
	kind := channelKind(notifyKinds(), n.Kind())
	if kind == nil {
		return nil, fmt.Errorf("%w: this mbox knows no %s", chat.ErrSetup, n.Kind())
	}
	settings.Name, settings.Log = name, func(format string, a ...any) { v.warnf("notify %s: %s", name, fmt.Sprintf(format, a...)) }
	channel, err := kind.Open(settings)
	if err != nil {
		return nil, err
	}
	return chat.NewNotifier(chat.NotifierOptions{
		Box: v.box, Name: name, Kind: *kind, Channel: channel, Settings: settings,
		On: n.On, Agent: n.Agent, JSON: kind.Name != "ntfy", Log: v.warnf,
	}), nil
}

// startNotifiers tells the targets of a service what happens, each when that of the
// service before has ended. One that cannot go on does not end the others.
func (c *crew) startNotifiers(ctx context.Context, v *service) {
	for _, name := range slices.Sorted(maps.Keys(v.config.Notify)) {
		c.alongside(ctx, v, "notify "+name, func(ctx context.Context) {
			n, err := v.notifier(name)
			if err == nil {
				err = v.keepOn(ctx, "notify "+name, firstPause, func() error { return n.Run(ctx) })
			}
			if err != nil {
				v.warnf("notify %s: %v. Everything else goes on", name, err)
			}
		})
	}
}
