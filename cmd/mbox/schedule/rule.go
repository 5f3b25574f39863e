// Package schedule tells when something is due that comes again and again: at the
// times of a cron line, at an interval, or once. It reads no clock and keeps nothing.
//
// A time that a rule names is a [Tick]. The ticks of a cron line, and a time without an
// offset, are times of the clock on the wall in the rule's zone, and each of them comes
// once: where the clock skips it, at once when the clock goes on; where the clock shows
// it twice, the first time. The ticks of an interval are that far apart whatever the
// clock on the wall does.
package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// Spec is a rule as people write it: Cron, Every or At, or Every that begins at At.
type Spec struct {
	Cron  string        // minute, hour, day of the month, month, day of the week; or @daily and the like
	Every time.Duration // whole seconds; 0 is none
	At    string        // as Clock reads it
	Zone  string        // a name of the time zone database; "" is the machine's zone
}

// Error is something wrong with a field of a [Spec].
type Error struct {
	Key     string // cron, every, at or zone
	Problem string
}

func (e *Error) Error() string { return e.Key + ": " + e.Problem }

// Rule is a spec that has been read. It is for use by many goroutines.
type Rule struct {
	cron  cron.ScheduleWithPrev // nil for an interval or one time; asked in UTC, which skips nothing
	every time.Duration         // 0 for one time
	first time.Time             // of an interval or one time, as the clock shows it
	zone  *time.Location
}

// Tick is a time that a rule names.
type Tick struct {
	Name string    // the same for the same tick, wherever and whenever it is asked for
	At   time.Time // when it is due

	wall time.Time // what the clock shows then, or would, as if it were UTC
}

// searchYears is how far a cron line is looked for its next time: the 29th of
// February falls on the same weekday after 40 years at most.
const searchYears = 41

// Parse reads a spec. An error is an *Error.
func Parse(s Spec) (*Rule, error) {
	switch {
	case s.Cron == "" && s.Every == 0 && s.At == "":
		return nil, &Error{"cron", "it does not say when: want cron, every or at"}
	case s.Cron != "" && s.Every != 0:
		return nil, &Error{"every", "cron says when already: want the one or the other"}
	case s.Cron != "" && s.At != "":
		return nil, &Error{"at", "cron says when already: want the one or the other"}
	case s.Zone != "" && s.Cron == "" && s.At == "":
		return nil, &Error{"zone", "an interval is the same in every zone: leave it out, or say at which time it begins (at)"}
	case s.Every < 0 || s.Every%time.Second != 0:
		return nil, &Error{"every", "want whole seconds, such as 90s, 15m or 7d"}
	}
	r := &Rule{every: s.Every, first: time.Unix(0, 0).UTC(), zone: time.Local}
	if s.Zone != "" {
		zone, err := time.LoadLocation(s.Zone)
		if err != nil || s.Zone == "Local" {
			return nil, &Error{"zone", "this machine knows no zone of this name: want one such as Europe/Berlin or UTC (package tzdata has them)"}
		}
		r.zone = zone
	}
	if s.At != "" {
		if err := r.begin(s.At, s.Zone != ""); err != nil {
			return nil, err
		}
	}
	if r.every != 0 { // the time from one to the next is no matter of zones
		r.first, r.zone = Instant(r.first, r.zone).UTC(), time.UTC
	}
	if s.Cron != "" {
		return r, r.parseCron(s.Cron)
	}
	return r, nil
}

// begin reads a time, and notes what the clock shows then.
func (r *Rule) begin(at string, zoned bool) error {
	t, fixed, err := Clock(at)
	switch {
	case err != nil:
		return &Error{"at", err.Error()}
	case fixed && zoned:
		return &Error{"at", "the time has an offset: leave that out, or zone"}
	case fixed:
		r.zone = time.UTC
	}
	r.first = t
	return nil
}

// Clock reads a time as people write it. One with an offset is fixed, and comes in UTC;
// of any other, a date or a date and a time, it is what the clock on the wall shows.
func Clock(text string) (t time.Time, fixed bool, err error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UTC(), true, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateTime, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, false, nil
		}
	}
	return time.Time{}, false, errors.New(`want a time such as "2026-02-16 10:30", a date, or "2026-02-16T10:30:00Z"`)
}

// parseCron reads a cron line. Days of the month and of the week that are both given
// are both days, as in every cron.
func (r *Rule) parseCron(line string) error {
	text := strings.ToLower(strings.TrimSpace(line)) // the parser takes the H of THU for something else
	if strings.HasPrefix(text, "tz=") || strings.HasPrefix(text, "cron_tz=") {
		return &Error{"cron", "the zone has a key of its own: zone"}
	}
	if strings.HasPrefix(text, "@every") {
		return &Error{"cron", "an interval has a key of its own: every"}
	}
	p, err := cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)
	if err != nil {
		return &Error{"cron", err.Error()}
	}
	parsed, err := p.WithMaxSearchYears(searchYears).Parse(text)
	if err != nil {
		return &Error{"cron", fmt.Sprintf("%v; want minute, hour, day of the month, month and day of the week, such as 30 2 * * 1-5", err)}
	}
	both, ok := parsed.(cron.ScheduleWithPrev)
	if !ok {
		return &Error{"cron", "want minute, hour, day of the month, month and day of the week"}
	}
	if r.cron = both; both.Next(r.first).IsZero() {
		return &Error{"cron", "it never comes"}
	}
	return nil
}

// Next is the first tick that is due after a time; false if there is none.
func (r *Rule) Next(after time.Time) (Tick, bool) {
	for t, ok := r.following(wallOf(after, r.zone)); ok; t, ok = r.following(t.wall) {
		if t.At.After(after) {
			return t, true
		}
	}
	return Tick{}, false
}

// Last is the last tick that is due at a time, or was; false if there is none.
func (r *Rule) Last(now time.Time) (Tick, bool) {
	return r.preceding(reached(now, r.zone).Add(1))
}

// Before is the tick before another one; false if there is none.
func (r *Rule) Before(t Tick) (Tick, bool) { return r.preceding(t.wall) }

// following is the first tick after what the clock shows.
func (r *Rule) following(wall time.Time) (Tick, bool) {
	var next time.Time
	switch {
	case r.cron != nil:
		next = r.cron.Next(wall)
	case wall.Before(r.first):
		next = r.first
	case r.every != 0:
		next = r.first.Add(steps(wall.Sub(r.first), r.every) + r.every)
	}
	return r.tick(next)
}

// preceding is the last tick before what the clock shows.
func (r *Rule) preceding(wall time.Time) (Tick, bool) {
	var last time.Time
	switch {
	case r.cron != nil:
		last = r.cron.Prev(wall.Add(time.Second - 1).Truncate(time.Second)) // it knows whole seconds
	case !wall.After(r.first):
	case r.every == 0:
		last = r.first
	default:
		last = r.first.Add(steps(wall.Sub(r.first)-1, r.every))
	}
	return r.tick(last)
}

// steps is as much of a length as whole steps make.
func steps(length, step time.Duration) time.Duration { return length / step * step }

// tick is the tick at which the clock shows this; false for the zero time.
func (r *Rule) tick(wall time.Time) (Tick, bool) {
	if wall.IsZero() {
		return Tick{}, false
	}
	layout := "2006-01-02T15:04"
	if wall.Second() != 0 {
		layout = "2006-01-02T15:04:05"
	}
	if r.every != 0 { // of a day when the clock shows other times, too
		layout = time.RFC3339
	}
	return Tick{Name: wall.Format(layout), At: Instant(wall, r.zone), wall: wall}, true
}
