package agents

import (
	"context"
	"errors"
	"strings"

	"mbox/audit"
	"mbox/mailbox"
)

// TakenAway is why a task was given back that was taken from its agent, by a release with
// the token of its claim: an attempt at it ends then.
const TakenAway = "taken_away"

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
// epoch of the claim that it ends, so it is told from those of other attempts at
// the same task: the next one may run before this one has seen its end.
func (s *shift) read(e *audit.Entry) {
	if e.TaskID == nil {
		return
	}
	for _, a := range s.attemptsAt(mailbox.ID(e.Task())) {
		var move struct {
			To     *mailbox.State `json:"to"`
			Epoch  int64          `json:"epoch"`
			Reason string         `json:"reason"`
		}
		if err := e.Detail(&move); err != nil || move.To == nil {
			return
		}
		if *move.To == mailbox.InProgress || move.Epoch != a.claim.Task.Mbox.Epoch {
			continue
		}
		if e.Agent == s.Agent && e.Event != audit.TaskCancelled && !strings.HasSuffix(move.Reason, " "+TakenAway) {
			return // ended with its token: by the attempt, or by its command
		}
		a.cut(lapse(string(e.Event) + " by " + e.Agent))
	}
}

// attemptsAt returns the running attempts at a task; all, if id is "".
func (s *shift) attemptsAt(id mailbox.ID) (at []*attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.running {
		if id == "" || a.claim.ID() == id {
			at = append(at, a)
		}
	}
	return at
}

// checkAll asks for every attempt what the lines would have told.
func (s *shift) checkAll(ctx context.Context) {
	for _, a := range s.attemptsAt("") {
		if errors.Is(a.claim.Valid(ctx), mailbox.ErrStale) && !a.completed(ctx) {
			a.cut(lapse("found to be over"))
		}
	}
}
