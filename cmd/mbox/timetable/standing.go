package timetable

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"mbox/cmd/mbox/config"
	"mbox/mailbox"
)

// Standing tells how a schedule stands.
type Standing struct {
	Name    string     `json:"name"`
	When    string     `json:"when"`
	Enabled bool       `json:"enabled"`
	To      string     `json:"to"`
	Title   string     `json:"title"`
	File    string     `json:"file"` // where its table stands, from the home
	Line    int        `json:"line"`
	Next    *time.Time `json:"next,omitzero"` // when it is due next
	Last    *Outcome   `json:"last,omitzero"` // what was sent last
	Problem string     `json:"problem,omitzero"`
	Alarm   bool       `json:"alarm,omitzero"` // the problem does not pass by itself
}

// Outcome is what came of what was sent.
type Outcome struct {
	Sent
	State mailbox.State `json:"state,omitzero"` // none: it is archived
	At    *time.Time    `json:"at,omitzero"`    // when it was sent
}

// late is how long after its time a tick without a task is a problem.
const late = 5 * time.Minute

// Standings tells how each schedule stands, by name.
func (t *Table) Standings(ctx context.Context, now time.Time) (all []Standing, err error) {
	for _, name := range slices.Sorted(maps.Keys(t.Config.Schedules)) {
		s := t.Config.Schedules[name]
		one := Standing{Name: name, When: s.When(), Enabled: s.Enabled, To: s.To, Title: s.Title}
		one.File, one.Line = config.StandsIn(t.Config, name)
		if tick, ok := s.Rule().Next(now); ok && s.Enabled {
			one.Next = &tick.At
		}
		if one.Last, err = t.outcome(ctx, name, s, now); err == nil && s.Enabled {
			one.Problem, one.Alarm, err = t.problem(ctx, name, s, now)
		}
		if err != nil {
			return all, fmt.Errorf("schedule %s: %w", name, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// outcome is what came of what was sent last, at a time of the schedule or by hand; nil
// if nothing was.
func (t *Table) outcome(ctx context.Context, name string, s *config.Schedule, now time.Time) (*Outcome, error) {
	last, err := t.last(name, s, now)
	if err != nil {
		return nil, err
	}
	run, err := t.lastRun(name)
	if err != nil {
		return nil, err
	}
	var newest *Outcome
	for _, sent := range []Sent{last, run} {
		if sent.Task == "" {
			continue
		}
		o := &Outcome{Sent: sent}
		task, state, err := t.Box.Task(ctx, sent.Task)
		if err == nil {
			o.State, o.At = state, &task.Created.Time
		}
		if newest == nil || o.At != nil && (newest.At == nil || o.At.After(*newest.At)) {
			newest = o
		}
	}
	return newest, ctx.Err()
}

// problem tells what is wrong with a schedule; "" for nothing.
func (t *Table) problem(ctx context.Context, name string, s *config.Schedule, now time.Time) (text string, alarm bool, err error) {
	failed, _, err := t.failures(ctx, name, s, now)
	if err != nil {
		return "", false, err
	}
	if len(failed) == tooMany {
		return failing(failed), true, nil
	}
	k := t.of[name]
	tick, came := s.Rule().Last(now)
	_, comes := s.Rule().Next(now)
	if !came || tick.Name == k.sent.Tick {
		return "", false, nil
	}
	if !comes && k.sent.Task == "" && !tick.At.After(k.since) {
		return "its time had passed when it was added: it never comes", true, nil
	}
	if !tick.At.After(k.since) || k.since.IsZero() {
		return "", false, nil
	}
	busy, err := t.unfinished(ctx, name, s, now)
	if err != nil {
		return "", false, err
	}
	if busy != "" && !s.Overlap {
		return fmt.Sprintf("nothing was sent for %s: %s has not ended", tick.Name, busy), true, nil
	}
	for first := tick; now.Sub(tick.At) < late; tick = first { // of those that were missed one after another
		if first, came = s.Rule().Before(tick); !came || first.Name == k.sent.Tick || !first.At.After(k.since) {
			return "", false, nil
		}
	}
	return fmt.Sprintf("nothing was sent for %s: no mbox up was there in time, or what it sent was refused", tick.Name), !comes, nil
}
