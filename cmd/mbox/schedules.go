package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"mbox/cmd/mbox/check"
	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/timetable"
	"mbox/mailbox"
)

// byEdit is why a record lists the schedules that no command has changed.
const byEdit = "Somebody who may write mbox.toml or mbox.d has changed it. mbox up records it when it takes it over."

// keepSchedules sends what the schedules have due, until the context ends.
func (v *service) keepSchedules(ctx context.Context) {
	t, err := v.timetable(ctx)
	if err != nil && ctx.Err() == nil {
		v.warnf("schedules: %v; nothing is sent until mbox.toml is read again", err)
	}
	for err == nil && len(v.config.Schedules) > 0 && ctx.Err() == nil {
		now := time.Now()
		wait := time.Duration(v.config.PollInterval) // the clock may be set, and what is waited for may end
		if next := t.Turn(ctx, now); !next.IsZero() {
			wait = min(wait, max(next.Sub(now), time.Millisecond))
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// timetable makes the service's table of schedules, and records it where it has changed.
func (v *service) timetable(ctx context.Context) (*timetable.Table, error) {
	now := time.Now()
	if _, err := timetable.Record(ctx, v.box, v.config, now, config.Name+" says otherwise than before.", byEdit); err != nil && ctx.Err() == nil {
		v.warnf("the schedules are not those of the last record in changes, and no new one could be written: %v", err)
	}
	t, err := timetable.New(ctx, v.box, v.config)
	if err != nil {
		return nil, err
	}
	t.InForce(now)
	t.Info, t.Warn, t.Refused = v.infof, v.warnf, refusedForGood
	return t, nil
}

// refusedForGood tells whether the same task sent again is refused again.
func refusedForGood(err error) bool {
	code, _ := judge(err)
	return code == exitPolicy || code == exitData || code == exitConflict
}

// health tells what is wrong with schedules, and which agents are not there.
func health(v *service) func(context.Context) ([]string, error) {
	schedules := scheduleHealth(v.box, v.config, time.Duration(v.config.PollInterval))
	return func(ctx context.Context) ([]string, error) {
		problems, err := schedules(ctx)
		absent, failed := check.Absent(v.config, v.box)
		problems = slices.Clone(problems)
		for _, f := range absent {
			problems = append(problems, f.Text)
		}
		return problems, errors.Join(err, failed)
	}
}

// scheduleHealth makes what tells which schedules somebody has to look at, without the
// tasks: who asks may not see these. It looks at most once in so long, however often it
// is asked, for it reads the ledger.
func scheduleHealth(box *mailbox.Box, c *config.File, often time.Duration) func(context.Context) ([]string, error) {
	var mu sync.Mutex
	var looked time.Time
	var problems []string
	return func(ctx context.Context) ([]string, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(c.Schedules) == 0 || !looked.IsZero() && time.Since(looked) < often {
			return problems, nil
		}
		t, err := timetable.New(ctx, box, c)
		if err != nil {
			return nil, err
		}
		all, err := t.Standings(ctx, time.Now())
		if err != nil {
			return nil, err
		}
		looked, problems = time.Now(), nil
		for _, one := range all {
			if one.Alarm {
				problems = append(problems, "schedule "+one.Name+" needs somebody to look: mbox schedule list")
			}
		}
		return problems, nil
	}
}
