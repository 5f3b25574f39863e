package main

import (
	"context"

	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/telemetry"
	"mbox/mailbox"
)

// exporter makes what sends traces; nil where none are wanted. Its headers are read now.
// Without a mailbox it can only ask the server.
func exporter(c *config.File, box *mailbox.Box, log func(string, ...any)) (*telemetry.Exporter, error) {
	t := &c.Telemetry
	if t.Endpoint == "" {
		return nil, nil
	}
	if err := unreadable(c, "telemetry", t.Table()); err != nil {
		return nil, err
	}
	settings, err := t.Settings()
	if err != nil {
		return nil, err
	}
	return telemetry.New(telemetry.Options{Box: box, Endpoint: t.Endpoint, Settings: settings, Version: thisVersion().Version, Log: log})
}

// startTelemetry sends the traces of a service, when that of the service before has
// ended. If it cannot go on, everything else does.
func (c *crew) startTelemetry(ctx context.Context, v *service) {
	if v.config.Telemetry.Endpoint == "" {
		return
	}
	c.alongside(ctx, v, "telemetry.", func(ctx context.Context) {
		e, err := exporter(v.config, v.box, v.warnf)
		if err == nil {
			err = v.keepOn(ctx, "telemetry", firstPause, func() error { return e.Run(ctx) })
		}
		if err != nil {
			v.warnf("telemetry: %v. Everything else goes on, and what is not sent is kept; mbox doctor tells more", err)
		}
	})
}
