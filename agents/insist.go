package agents

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"mbox/mailbox"
	"mbox/schemas"
)

// say carries out a verb that ends the claim, and tells the log. It does not give
// up while the mailbox is busy, read-only or full, for the result is nowhere
// else: only when the claim is over, when the content is refused, or when the
// worker has to stop.
func (a *attempt) say(hard context.Context, what string, verb func() error) error {
	err := a.insist(hard, verb)
	switch {
	case err == nil:
		a.tell(zerolog.InfoLevel, nil, what)
	case errors.Is(err, mailbox.ErrCommitted):
		a.tell(zerolog.WarnLevel, err, what)
		return nil
	case settled(err):
		a.tell(zerolog.WarnLevel, err, "not "+what)
	default:
		a.tell(zerolog.ErrorLevel, err, "not "+what+": the worker stops")
	}
	return err
}

// settled tells whether an error is an answer: saying it again changes nothing.
func settled(err error) bool {
	var refused *schemas.Error
	var denied *mailbox.Refusal
	var unaccepted *mailbox.NotAcceptedError
	return err == nil || errors.As(err, &unaccepted) || errors.Is(err, mailbox.ErrCommitted) || errors.Is(err, mailbox.ErrStale) ||
		errors.As(err, &refused) || errors.As(err, &denied)
}

// insist says something to the mailbox until it has an answer, or the worker has
// to stop.
func (a *attempt) insist(hard context.Context, verb func() error) error {
	pause := patience{}
	for {
		err := verb()
		if settled(err) {
			return err
		}
		a.log.Warn().Err(err).Msg("the mailbox does not take it yet; will try again")
		_ = a.claim.Renew() // a result is at hand: this worker lives
		if !pause.wait(hard) {
			return err
		}
	}
}

// completed tells whether the task has been completed with this claim's token.
func (a *attempt) completed(ctx context.Context) bool {
	t, state, err := a.Box.Task(ctx, a.claim.ID())
	return err == nil && state == mailbox.Completed && t.Mbox.Lease != nil && t.Mbox.Lease.Token == a.claim.Token()
}
