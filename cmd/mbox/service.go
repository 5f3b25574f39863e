package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"mbox/agents"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
)

// service is what mbox up does by one reading of mbox.toml: a router, and the
// workers of its agents. When the file says something else, the next service
// takes over: its router follows on this one's, and each of its agents begins
// when this one's has finished what it has. Nothing of a service changes while
// it runs, so no task is worked at by two readings.
type service struct {
	*session // of this reading alone
	box      *mailbox.Box
	was      *config.File  // of the service before; nil for the first
	retired  chan struct{} // closed when the next has taken over
	working  sync.WaitGroup
	crew     []*agents.Worker // that it will run
	fault    string           // of the last scan, which has been told
}

// prepare makes a service that could start now. An error leaves nothing behind.
func prepare(ctx context.Context, s *session) (*service, error) {
	v, err := prepareDoor(ctx, s)
	if err != nil {
		return nil, err
	}
	if s.team != nil {
		v.team.Actions = s.team.Actions // an hour's budget does not begin anew
	}
	names := v.config.AgentNames()
	err = mayStart(v.config, names...)
	if err == nil {
		err = v.recordLifted(ctx, v.box, names...)
	}
	if err == nil {
		v.crew, err = v.workers(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, v.box.Close())
	}
	return v, nil
}

// prepareDoor makes a service that runs nothing, for a door alone.
func prepareDoor(ctx context.Context, s *session) (v *service, err error) {
	own := *s
	v = &service{session: &own, was: s.config, retired: make(chan struct{})}
	if v.box, err = own.open(ctx); err != nil {
		return nil, err
	}
	return v, nil
}

// workers are those of the enabled agents that have a command or a role.
func (v *service) workers(ctx context.Context) (out []*agents.Worker, err error) {
	for _, name := range v.config.AgentNames() {
		a := v.config.Agents[name]
		recopy(ctx, v.session, v.box, name)
		if a.Enabled && a.HasWorker() {
			w := v.worker(v.box, name, a)
			if err := keepHome(v.session, v.box, w); err != nil {
				return nil, err
			}
			w.Retired = v.retired
			if !v.logs("debug") {
				w.Log = w.Log.Level(max(w.Log.GetLevel(), zerolog.WarnLevel)) // the rest the ledger tells
			}
			out = append(out, w)
		}
	}
	return out, nil
}

// crew are the workers of all services. One that cannot go on ends all: whoever
// supervises mbox up shall see it.
type crew struct {
	manager *manager // nil where nobody waits to hear that it lives
	prepare func(context.Context, *session) (*service, error)
	stop    func()
	grace   time.Duration
	hup     chan os.Signal
	ended   map[string]chan struct{} // by agent: closed when its last worker has ended
	running sync.WaitGroup
	serves  bool     // a door is opened without a table [serve], too
	doorway *doorway // nil while there is none
	behind  *service // its door
	mu      sync.Mutex
	failed  error
}

// serve runs a service until the context ends, or until the next one is to take
// over, which it returns.
func (c *crew) serve(ctx context.Context, v *service, ready func()) (next *service, err error) {
	routing, end := context.WithCancel(ctx)
	defer end()
	var looking sync.WaitGroup
	err = v.box.Route(routing, mailbox.RouterOptions{
		Ready: func() {
			if err := v.recordEdit(ctx, v.was); err != nil && ctx.Err() == nil {
				v.warnf("the settings are not those of the last record in changes, and no new one could be written: %v", err)
			}
			if c.opened(ctx, v); c.gaveUp() {
				return
			}
			for _, w := range v.crew {
				c.start(ctx, v, w)
			}
			c.startBridges(ctx, v)
			c.startNotifiers(ctx, v)
			c.startTelemetry(ctx, v)
			ready()
			looking.Go(func() { tellWorkers(v.session, workersOf(routing, v.session, v.box.Home())) })
			looking.Go(func() { v.prepull(routing) })
			looking.Go(func() { v.keepViews(routing) })
			looking.Go(func() { v.archiveDelivered(routing) })
			looking.Go(func() { v.keepSchedules(routing) })
			looking.Go(func() { c.keepLives(routing, v) })
			looking.Go(func() { v.keepDreams(routing) })
			looking.Go(func() {
				if next = c.look(routing, v); next != nil {
					end()
				}
			})
		},
		Scanned: func(r mailbox.ScanReport, err error) { v.scanned(r, err); c.manager.alive() },
	})
	end()
	looking.Wait()
	c.retire(v)
	if next != nil && (err != nil || ctx.Err() != nil) {
		err = firstError(err, next.box.Close())
		next = nil
	}
	close(v.retired)
	return next, err
}

// start runs a worker when that of the service before has ended, so that no agent
// works at more than its table allows.
func (c *crew) start(ctx context.Context, v *service, w *agents.Worker) {
	w.Grace = c.grace
	before, ended := c.ended[w.Agent], make(chan struct{})
	c.ended[w.Agent] = ended
	v.working.Add(1)
	c.running.Go(func() {
		defer v.working.Done()
		defer close(ended)
		if before != nil {
			<-before
		}
		if err := w.Run(ctx); err != nil {
			c.note(err)
			c.stop()
		}
	})
}

// runs tells whether an agent has a worker that has not ended.
func (c *crew) runs(agent string) bool {
	ended := c.ended[agent]
	select {
	case <-ended:
		return false
	default:
		return ended != nil
	}
}

func (c *crew) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = firstError(c.failed, err)
}

func (c *crew) gaveUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed != nil
}

func (c *crew) wait() error {
	c.shut()
	c.running.Wait()
	return c.failed
}

// retire closes the service's mailbox when nobody uses it any more.
func (c *crew) retire(v *service) {
	c.running.Go(func() {
		v.working.Wait()
		c.note(v.box.Close())
	})
}

// look waits until mbox.toml has changed, or SIGHUP asks to read it again, and
// makes the next service of it. What cannot be taken over is told once, and what
// runs goes on.
func (c *crew) look(ctx context.Context, v *service) *service {
	file := v.config.Watch()
	tick := time.NewTicker(time.Duration(v.config.PollInterval))
	defer tick.Stop()
	for {
		asked := false
		select {
		case <-ctx.Done():
			return nil
		case <-c.hup:
			asked = true
		case <-tick.C:
		}
		changed, err := file.Changed()
		if err == nil && !changed && !asked {
			continue
		}
		next, err := c.reread(ctx, v, err)
		if next != nil {
			v.infof("%s is read again: %s", config.Name, v.config.Changes(next.config))
			return next
		}
		if ctx.Err() == nil && (asked || changed) {
			v.warnf("%v; what runs goes on as it was", err)
		}
	}
}

func (c *crew) reread(ctx context.Context, v *service, err error) (*service, error) {
	if err != nil {
		return nil, err
	}
	return c.prepare(ctx, v.session)
}
