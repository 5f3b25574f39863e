package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/home"
	"mbox/schemas"
)

// Bridge joins a channel to a mailbox.
type Bridge struct {
	Box      *mailbox.Box
	Name     string
	To       string // whose tasks the messages become
	Kind     *Kind
	Settings Settings
	Rules    Rules
	Log      func(format string, a ...any) // for whoever runs it

	// For tests; what is nil or 0 is as it should be.
	now     func() time.Time
	first   time.Duration // pause after the first error
	deliver func(Channel, func(Conversation) bool) deliverer
}

// run is a bridge at work.
type run struct {
	Bridge
	agent    string // its name in tasks and ledger
	cursor   cursor
	secrets  secrets
	channel  Channel
	answers  *answers
	delivery deliverer
}

// deliverer brings results back. Whatever is said goes through it.
type deliverer interface {
	Run(context.Context) error
	Say(context.Context, Notice) (id string, err error)
	Seen(ctx context.Context, id string) error
	Settled(context.Context, map[mailbox.ID]bool) error // waits until the results of these tasks are sent, or given up
}

const (
	firstPause = time.Second
	mostPause  = 5 * time.Minute
	steady     = time.Minute // a connection that lasts so long was a good one
)

// Run serves until the context ends or the channel has nothing more to come; then all
// that was asked through it since it began is answered first. An error that wraps
// ErrSetup says that a person has to mend something; mailbox.ErrBusy that another
// process is at this bridge.
func (b Bridge) Run(ctx context.Context) error {
	lock, err := hold(b.Box.Home(), b.Name, b.Box.Options().Sync)
	if err != nil {
		return err
	}
	r, err := b.open()
	if err == nil {
		err = r.serve(ctx)
	}
	if err = r.secrets.scrubbed(err); errors.Is(err, ErrSetup) {
		err = errors.Join(err, r.alarm(ctx, err))
	}
	return errors.Join(err, lock.Unlock())
}

// Check tells in a line who the server says we are. It changes nothing.
func (b Bridge) Check(ctx context.Context) (says string, err error) {
	r, err := b.open()
	if err == nil {
		says, err = r.channel.Check(ctx)
	}
	return line(Plain(says)), r.secrets.scrubbed(err)
}

// open makes the channel. It returns a run in any case.
func (b Bridge) open() (r *run, err error) {
	if b.now == nil {
		b.now = time.Now
	}
	b.first = cmp.Or(b.first, firstPause)
	r = &run{Bridge: b, agent: "bridge:" + b.Name, cursor: cursorOf(b.Name, b.Kind, &b.Settings), secrets: secretsOf(&b.Settings)}
	r.Log = func(format string, a ...any) { b.Log("%s", r.secrets.scrub(fmt.Sprintf(format, a...))) }
	r.Settings.Name, r.Settings.Log = b.Name, r.Log
	if len(b.Rules.Allow)+len(b.Rules.Operators) == 0 && !b.Kind.Sends {
		return r, fmt.Errorf("%w: allow names nobody", ErrSetup)
	}
	err = caught(func() error {
		c, err := b.Kind.Open(r.Settings)
		if err == nil {
			r.channel = newCareful(c, r.secrets)
		}
		return err
	})
	return r, err
}

// serve receives and sends until one of both cannot go on.
func (r *run) serve(ctx context.Context) error {
	salt, err := home.Salt(r.Box.Home())
	if err != nil {
		return err
	}
	g := newGuard(r.Rules, r.Settings.Rooms)
	r.delivery = r.deliverer(g)
	r.answers = &answers{send: r.delivery.Say, queue: make(chan Notice, mostAnswers), log: r.Log}
	in := &inbox{run: r, guard: g, refused: hourly{}, secret: salt, asked: map[mailbox.ID]bool{}}

	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var saying, delivering sync.WaitGroup
	saying.Go(func() { r.answers.run(within) })
	delivering.Go(func() {
		if err := caught(func() error { return r.delivery.Run(within) }); err != nil {
			stop(err)
		}
	})
	err = r.receive(within, in)
	if close(r.answers.queue); err == nil && within.Err() == nil {
		err = r.delivery.Settled(within, in.asked)
		saying.Wait()
	}
	stop(nil)
	saying.Wait()
	delivering.Wait()
	if ctx.Err() != nil {
		return nil
	}
	if failed := context.Cause(within); !errors.Is(failed, context.Canceled) {
		return failed
	}
	return err
}

// deliverer makes what brings results back.
func (r *run) deliverer(g *guard) deliverer {
	if r.deliver != nil {
		return r.deliver(r.channel, g.Answers)
	}
	return NewDelivery(r.deliveryOptions(g))
}

func (r *run) deliveryOptions(g *guard) DeliveryOptions {
	return DeliveryOptions{Box: r.Box, Name: r.Name, Kind: *r.Kind, Channel: r.channel, Allowed: g.Answers, Log: r.Log, OneWay: r.oneWay()}
}

// oneWay tells whether what is asked for by the bridge has no way back.
func (r *run) oneWay() bool { return r.Kind.OneWay != nil && r.Kind.OneWay(r.Settings) }

// Deliver tries each result that waits once, without receiving anything.
// mailbox.ErrBusy says that another process is at this bridge.
func (b Bridge) Deliver(ctx context.Context) (report Report, err error) {
	lock, err := hold(b.Box.Home(), b.Name, b.Box.Options().Sync)
	if err != nil {
		return report, err
	}
	r, err := b.open()
	if err == nil {
		report, err = NewDelivery(r.deliveryOptions(newGuard(r.Rules, r.Settings.Rooms))).Once(ctx)
	}
	return report, errors.Join(r.secrets.scrubbed(err), lock.Unlock())
}

// receive lets the channel receive, again and again. It returns nil when the context
// ends or there is nothing more to come.
func (r *run) receive(ctx context.Context, in *inbox) error {
	if r.Kind.Sends {
		<-ctx.Done()
		return nil
	}
	other, err := r.cursor.read(r.Box.Home())
	if err != nil {
		return err
	}
	if other {
		r.Log("the place that was kept is of another account: what is said from now on is heard")
	}
	for wait := r.first; ; wait = min(2*wait, mostPause) {
		in.took, in.failed = false, nil
		began := r.now()
		err := r.channel.Receive(ctx, r.cursor.Place, in)
		switch {
		case err == nil || ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrSetup):
			return err
		case errors.Is(in.failed, mailbox.ErrReadOnly), errors.Is(in.failed, mailbox.ErrIntegrity):
			return in.failed // nothing here mends the mailbox
		}
		if in.took || r.now().Sub(began) > steady {
			wait = r.first
		}
		next := wait/2 + rand.N(wait)
		var asked *WaitError
		if errors.As(err, &asked) {
			next = max(next, min(asked.For, time.Hour))
		}
		r.Log("the connection has ended: %v; again in %s", err, next.Round(time.Millisecond))
		if !Sleep(ctx, next) {
			return nil
		}
	}
}

// alarm writes into the ledger that the bridge has stopped.
func (r *run) alarm(ctx context.Context, why error) error {
	return r.Box.Note(context.WithoutCancel(ctx), audit.Entry{
		Agent: r.agent, Event: audit.ErrorEvent,
		Action:  fmt.Sprintf("%s has stopped: mbox bridge %s --check tells what is wrong", r.agent, r.Name),
		Details: audit.Details(map[string]string{"bridge": r.Name, "reason": schemas.Sentence(why.Error(), 200)}),
	})
}

// secrets are what may not stand in a text that is kept or shown.
type secrets []string

func secretsOf(s *Settings) secrets { return secrets{s.Token, s.Password} }

// scrub takes the secrets out of a text.
func (s secrets) scrub(text string) string {
	for _, secret := range s {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "<redacted>")
		}
	}
	return text
}

// scrubbed is an error without secrets, which matches what it matched before.
func (s secrets) scrubbed(err error) error {
	if err == nil || s.scrub(err.Error()) == err.Error() {
		return err
	}
	return &clean{err, s.scrub(err.Error())}
}

type clean struct {
	error
	text string
}

func (c *clean) Error() string { return c.text }
func (c *clean) Unwrap() error { return c.error }
