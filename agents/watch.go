package agents

import (
	"context"
	"errors"

	"mbox/audit"
	"mbox/mailbox"
)

// watch follows the ledger and tells the running attempts when their claims end.
// It serves all attempts of a shift, so that a worker needs one watch of the
// folders, whatever runs.
func (s *shift) watch(ctx context.Context, from audit.Position) {
	pause := patience{}
	for {
		for e, err := range s.Box.Follow(ctx, from) {
			if err != nil {
				s.Log.Warn().Err(err).Msg("cannot follow the ledger; will try again")
				break
			}
			s.read(&e)
		}
		if !pause.wait(ctx) {
			return
		}
		from = s.Box.Ledger().End()
		s.checkAll(ctx)
	}
}

// read passes a line that ends a claim on to its attempt. The line carries the
// epoch of the claim that it ends, so an older line of the same task is known
// as such.
func (s *shift) read(e *audit.Entry) {
	s.mu.Lock()
	a := s.running[mailbox.ID(e.Task())]
	s.mu.Unlock()
	if a == nil {
		return
	}
	var move struct {
		To    *mailbox.State `json:"to"`
		Epoch int64          `json:"epoch"`
	}
	if err := e.Detail(&move); err != nil || move.To == nil {
		return
	}
	if *move.To == mailbox.InProgress || move.Epoch != a.claim.Task.Mbox.Epoch {
		return
	}
	if e.Agent == s.Agent && e.Event != audit.TaskCancelled {
		return // ended with its token: by the attempt, or by its command
	}
	a.cut(lapse(string(e.Event) + " by " + e.Agent))
}

// checkAll asks for every attempt what the lines would have told.
func (s *shift) checkAll(ctx context.Context) {
	s.mu.Lock()
	var all []*attempt
	for _, a := range s.running {
		all = append(all, a)
	}
	s.mu.Unlock()
	for _, a := range all {
		if errors.Is(a.claim.Valid(ctx), mailbox.ErrStale) && !a.completed(ctx) {
			a.cut(lapse("found to be over"))
		}
	}
}
