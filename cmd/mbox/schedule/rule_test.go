package schedule

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // whatever this machine has

	"pgregory.net/rapid"
)

func rule(t interface{ Fatalf(string, ...any) }, s Spec) *Rule {
	r, err := Parse(s)
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	return r
}

func at(t interface{ Fatalf(string, ...any) }, text string) time.Time {
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return when
}

// The ticks after a time, with the time at which each is due.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		what  string
		spec  Spec
		after string
		want  string // names and times, UTC
	}{
		{"every night", Spec{Cron: "30 2 * * *", Zone: "UTC"}, "2026-11-23T05:00:00Z", "2026-11-24T02:30 11-24T02:30, 2026-11-25T02:30 11-25T02:30"},
		{"on weekdays", Spec{Cron: "0 9 * * MON-FRI", Zone: "UTC"}, "2026-11-26T09:00:00Z", "2026-11-27T09:00 11-27T09:00, 2026-11-30T09:00 11-30T09:00"},
		{"by names", Spec{Cron: "0 9 * MAR THU", Zone: "UTC"}, "2026-11-26T09:00:00Z", "2027-03-04T09:00 03-04T09:00, 2027-03-11T09:00 03-11T09:00"},
		{"the 13th and Fridays", Spec{Cron: "0 0 13 * 5", Zone: "UTC"}, "2026-11-12T00:00:00Z", "2026-11-13T00:00 11-13T00:00, 2026-11-20T00:00 11-20T00:00"},
		{"@daily", Spec{Cron: "@Daily", Zone: "Asia/Tokyo"}, "2026-11-23T05:00:00Z", "2026-11-24T00:00 11-23T15:00, 2026-11-25T00:00 11-24T15:00"},
		{"leap days", Spec{Cron: "0 0 29 2 *", Zone: "UTC"}, "2026-11-23T05:00:00Z", "2028-02-29T00:00 02-29T00:00, 2032-02-29T00:00 02-29T00:00"},

		{"Berlin, spring: at once after the gap", Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-03-28T02:00:00Z", "2026-03-29T02:30 03-29T01:00, 2026-03-30T02:30 03-30T00:30"},
		{"Berlin, autumn: once, the first time", Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-10-24T22:00:00Z", "2026-10-25T02:30 10-25T00:30, 2026-10-26T02:30 10-26T01:30"},
		{"Berlin, autumn: between the two", Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-10-25T01:00:00Z", "2026-10-26T02:30 10-26T01:30, 2026-10-27T02:30 10-27T01:30"},
		{"Berlin, autumn: a minute line rests for the second hour", Spec{Cron: "59 * * * *", Zone: "Europe/Berlin"}, "2026-10-25T00:30:00Z", "2026-10-25T02:59 10-25T00:59, 2026-10-25T03:59 10-25T02:59"},
		{"New York, spring", Spec{Cron: "15 2 * * *", Zone: "America/New_York"}, "2026-03-08T05:00:00Z", "2026-03-08T02:15 03-08T07:00, 2026-03-09T02:15 03-09T06:15"},
		{"New York, autumn", Spec{Cron: "15 1 * * *", Zone: "America/New_York"}, "2026-11-01T04:00:00Z", "2026-11-01T01:15 11-01T05:15, 2026-11-02T01:15 11-02T06:15"},
		{"Lord Howe: half an hour is skipped", Spec{Cron: "10 2 * * *", Zone: "Australia/Lord_Howe"}, "2026-10-03T14:00:00Z", "2026-10-04T02:10 10-03T15:30, 2026-10-05T02:10 10-04T15:10"},
		{"Sao Paulo: midnight is skipped", Spec{Cron: "0 0 * * *", Zone: "America/Sao_Paulo"}, "2018-11-03T12:00:00Z", "2018-11-04T00:00 11-04T03:00, 2018-11-05T00:00 11-05T02:00"},
		{"Apia: a day is skipped", Spec{Cron: "0 12 * * *", Zone: "Pacific/Apia"}, "2011-12-29T23:00:00Z", "2011-12-30T12:00 12-30T10:00, 2011-12-31T12:00 12-30T22:00"},

		{"an interval", Spec{Every: 90 * time.Minute}, "2026-11-23T05:00:00Z", "2026-11-23T06:00:00Z 11-23T06:00, 2026-11-23T07:30:00Z 11-23T07:30"},
		{"an interval that begins", Spec{Every: 14 * 24 * time.Hour, At: "2026-11-23T09:00", Zone: "Europe/Berlin"}, "2026-11-01T00:00:00Z", "2026-11-23T08:00:00Z 11-23T08:00, 2026-12-07T08:00:00Z 12-07T08:00"},
		{"an interval over a change", Spec{Every: time.Hour, At: "2026-10-25T00:00", Zone: "Europe/Berlin"}, "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z 10-25T01:00, 2026-10-25T02:00:00Z 10-25T02:00"},
		{"once", Spec{At: "2026-11-24T09:00", Zone: "Europe/Berlin"}, "2026-11-23T05:00:00Z", "2026-11-24T09:00 11-24T08:00"},
		{"once, with seconds", Spec{At: "2026-11-24 09:00:05", Zone: "UTC"}, "2026-11-23T05:00:00Z", "2026-11-24T09:00:05 11-24T09:00"},
		{"once, with an offset", Spec{At: "2026-11-24T09:00:00+02:00"}, "2026-11-23T05:00:00Z", "2026-11-24T07:00 11-24T07:00"},
		{"once, in a gap", Spec{At: "2026-03-29T02:30", Zone: "Europe/Berlin"}, "2026-03-01T05:00:00Z", "2026-03-29T02:30 03-29T01:00"},
		{"once, and over", Spec{At: "2026-11-24T09:00", Zone: "UTC"}, "2026-11-24T09:00:00Z", ""},
	} {
		r, when := rule(t, c.spec), at(t, c.after)
		var got []string
		for range 2 {
			next, ok := r.Next(when)
			if !ok {
				break
			}
			got, when = append(got, next.Name+" "+next.At.UTC().Format("01-02T15:04")), next.At
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", c.what, text, c.want)
		}
	}
}

// What cannot be is refused, with the key.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{}, "cron: it does not say when"},
		{Spec{Cron: "* * * * *", Every: time.Hour}, "every: cron says when already"},
		{Spec{Cron: "* * * * *", At: "2026-11-24T09:00"}, "at: cron says when already"},
		{Spec{Every: time.Hour, Zone: "UTC"}, "zone: an interval is the same"},
		{Spec{Every: 1500 * time.Millisecond}, "every: want whole seconds"},
		{Spec{Every: -time.Hour}, "every: want whole seconds"},
		{Spec{Cron: "* * * * *", Zone: "Mars/Olympus"}, "zone: this machine knows no zone"},
		{Spec{Cron: "* * * * *", Zone: "../../etc/canary"}, "zone: this machine knows no zone"},
		{Spec{Cron: "* * * * *", Zone: "Local"}, "zone: this machine knows no zone"},
		{Spec{Cron: "TZ=UTC * * * * *"}, "cron: the zone has a key of its own"},
		{Spec{Cron: "CRON_TZ=UTC * * * * *"}, "cron: the zone has a key of its own"},
		{Spec{Cron: "@every 5m"}, "cron: an interval has a key of its own"},
		{Spec{Cron: "@reboot"}, "cron: "},
		{Spec{Cron: "* * * *"}, "cron: .*want minute"},
		{Spec{Cron: "0 * * * * *"}, "cron: .*want minute"},
		{Spec{Cron: "60 * * * *"}, "cron: .*want minute"},
		{Spec{Cron: "* * * MARCH *"}, "cron: .*want minute"},
		{Spec{Cron: strings.Repeat("1,", 2000) + "1 * * * *"}, "cron: "},
		{Spec{Cron: "0 0 30 2 *"}, "cron: it never comes"},
		{Spec{At: "tomorrow"}, "at: want a time such as"},
		{Spec{At: "2026-11-24T09:00:00Z", Zone: "UTC"}, "at: the time has an offset"},
	} {
		_, err := Parse(c.spec)
		var e *Error
		key, problem, _ := strings.Cut(c.want, ": ")
		first, second, _ := strings.Cut(problem, ".*")
		if !errors.As(err, &e) || e.Key != key || !strings.HasPrefix(e.Problem, first) || !strings.Contains(e.Problem, second) {
			t.Errorf("%+v: %v, want %s", c.spec, err, c.want)
		}
	}
}

// zones whose clocks were changed in many ways, and a time of such a change.
var zones = []struct{ name, change string }{
	{"Europe/Berlin", "2026-03-29T01:00:00Z"},
	{"Europe/Berlin", "2026-10-25T01:00:00Z"},
	{"America/New_York", "2026-11-01T06:00:00Z"},
	{"Australia/Lord_Howe", "2026-04-04T15:00:00Z"},
	{"Australia/Lord_Howe", "2026-10-03T15:30:00Z"},
	{"America/Sao_Paulo", "2018-11-04T03:00:00Z"},
	{"America/Sao_Paulo", "2019-02-17T02:00:00Z"},
	{"Pacific/Apia", "2011-12-30T10:00:00Z"},
	{"Africa/Casablanca", "2026-02-15T02:00:00Z"},
	{"Asia/Kathmandu", "1985-12-31T18:30:00Z"},
	{"Antarctica/Troll", "2026-03-29T01:00:00Z"},
	{"UTC", "2026-01-01T00:00:00Z"},
}

var lines = []string{"* * * * *", "*/7 * * * *", "30 2 * * *", "0 0 * * *", "59 23 * * *", "0,15 1-3 * * *", "5 */2 * * *", "30 1 * * 0", "0 12 30,31 * *", "@hourly"}

// What is due when is what somebody would find who looked at the clock each minute: a
// tick comes when the clock shows it or a later time first.
func TestTicksAreThoseOfTheClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := rapid.SampledFrom(zones).Draw(t, "zone")
		line := rapid.SampledFrom(lines).Draw(t, "line")
		r := rule(t, Spec{Cron: line, Zone: z.name})
		from := at(t, z.change).Add(-time.Duration(rapid.IntRange(0, 2000).Draw(t, "before")) * time.Minute)
		var want []string
		highest := wallOf(from, r.zone)
		for now := from.Add(time.Minute); now.Before(from.Add(72 * time.Hour)); now = now.Add(time.Minute) {
			shown := wallOf(now, r.zone)
			for w := highest.Add(time.Minute); !w.After(shown); w = w.Add(time.Minute) {
				if r.cron.Next(w.Add(-time.Second)).Equal(w) {
					want = append(want, w.Format("2006-01-02T15:04")+" at "+now.UTC().Format(time.RFC3339))
				}
				highest = w
			}
		}
		var got []string
		end := from.Add(72 * time.Hour)
		for tick, ok := r.following(reached(from, r.zone)); ok && tick.At.Before(end); tick, ok = r.following(tick.wall) {
			got = append(got, tick.Name+" at "+tick.At.Format(time.RFC3339))
		}
		if first := wallOf(from, r.zone); reached(from, r.zone).After(first) {
			t.Skip("the hour that comes twice was half over")
		}
		if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
			t.Fatalf("%s in %s from %s:\n%s\nwant\n%s", line, z.name, from, g, w)
		}
	})
}

// Next and Last fit together, at every time, and Before walks back over what Next
// walked over: no tick is left out, none comes twice.
func TestNextAndLastFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z := rapid.SampledFrom(zones).Draw(t, "zone")
		spec := rapid.SampledFrom([]Spec{
			{Cron: rapid.SampledFrom(lines).Draw(t, "line"), Zone: z.name},
			{Every: time.Duration(rapid.IntRange(1, 200_000).Draw(t, "every")) * time.Second},
			{At: at(t, z.change).Format("2006-01-02T15:04:05"), Zone: z.name},
		}).Draw(t, "spec")
		r := rule(t, spec)
		now := at(t, z.change).Add(time.Duration(rapid.Int64Range(-int64(48*time.Hour), int64(48*time.Hour)).Draw(t, "now")))
		next, comes := r.Next(now)
		last, came := r.Last(now)
		if comes && !next.At.After(now) || came && last.At.After(now) {
			t.Fatalf("at %s: last %+v, next %+v", now, last, next)
		}
		if comes {
			if between, ok := r.Last(next.At.Add(-1)); ok && (!came || between != last) {
				t.Fatalf("before %+v there is %+v, and the last at %s was %+v", next, between, now, last)
			}
		}
		seen := map[string]bool{}
		for range 50 {
			if !came {
				break
			}
			if seen[last.Name] {
				t.Fatalf("%s comes twice", last.Name)
			}
			seen[last.Name] = true
			before, ok := r.Before(last)
			if ok {
				if again, _ := r.following(before.wall); again != last || before.At.After(last.At) {
					t.Fatalf("before %+v is %+v, and behind that is %+v", last, before, again)
				}
			}
			last, came = before, ok
		}
	})
}

// What is due after a time in which nothing ran.
func TestDue(t *testing.T) {
	hourly := rule(t, Spec{Cron: "0 * * * *", Zone: "UTC"})
	berlin := rule(t, Spec{Cron: "*/30 * * * *", Zone: "Europe/Berlin"})
	for _, c := range []struct {
		what       string
		rule       *Rule
		catchUp    CatchUp
		since, now string
		done       string
		want       string
	}{
		{"nothing yet", hourly, All, "2026-11-23T04:00:00Z", "2026-11-23T04:59:59Z", "", ""},
		{"one is", hourly, Skip, "2026-11-23T04:00:00Z", "2026-11-23T05:00:00Z", "", "2026-11-23T05:00"},
		{"one was", hourly, Skip, "2026-11-23T04:00:00Z", "2026-11-23T05:00:00Z", "2026-11-23T05:00", ""},
		{"late, and not missed", hourly, Skip, "2026-11-22T00:00:00Z", "2026-11-23T05:01:00Z", "", "2026-11-23T05:00"},
		{"skip: missed", hourly, Skip, "2026-11-22T00:00:00Z", "2026-11-23T05:01:01Z", "", ""},
		{"one: the last", hourly, One, "2026-11-22T00:00:00Z", "2026-11-23T05:59:59Z", "2026-11-23T02:00", "2026-11-23T05:00"},
		{"one: done", hourly, One, "2026-11-22T00:00:00Z", "2026-11-23T05:59:59Z", "2026-11-23T05:00", ""},
		{"all: since the last that was done", hourly, All, "2026-11-22T00:00:00Z", "2026-11-23T05:30:00Z", "2026-11-23T03:00", "2026-11-23T04:00 2026-11-23T05:00"},
		{"all: since it was made", hourly, All, "2026-11-23T03:00:00Z", "2026-11-23T05:30:00Z", "", "2026-11-23T04:00 2026-11-23T05:00"},
		{"a clock that was wrong holds nothing up", hourly, All, "2026-11-23T04:00:00Z", "2026-11-23T05:30:00Z", "2030-01-01T00:00", "2026-11-23T05:00"},
		{"skipped times: the last of them", berlin, One, "2026-03-28T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30", "2026-03-29T03:00"},
		{"skipped times: each of them", berlin, All, "2026-03-28T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30", "2026-03-29T02:00 2026-03-29T02:30 2026-03-29T03:00"},
		{"the second of two hours", berlin, All, "2026-10-24T00:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00", "2026-10-25T02:30"},
		{"the second of two hours, all done", berlin, All, "2026-10-24T00:00:00Z", "2026-10-25T01:59:59Z", "2026-10-25T02:30", ""},
	} {
		due, err := c.rule.Due(c.catchUp, at(t, c.since), at(t, c.now), func(tick Tick) (bool, error) { return tick.Name == c.done, nil })
		var names []string
		for _, tick := range due {
			names = append(names, tick.Name)
		}
		if got := strings.Join(names, " "); got != c.want || err != nil {
			t.Errorf("%s: %s (%v), want %s", c.what, got, err, c.want)
		}
	}
}

// However long nothing ran, there is an end of what is caught up on: the newest.
func TestDueIsBounded(t *testing.T) {
	r := rule(t, Spec{Every: time.Second})
	now := at(t, "2026-11-23T05:00:00Z")
	due, err := r.Due(All, time.Time{}, now, func(Tick) (bool, error) { return false, nil })
	if err != nil || len(due) != MaxMissed || !due[len(due)-1].At.Equal(now) {
		t.Errorf("%d are due (%v), want the last %d", len(due), err, MaxMissed)
	}
	broken := fmt.Errorf("no ledger")
	if due, err := r.Due(All, time.Time{}, now, func(Tick) (bool, error) { return false, broken }); !errors.Is(err, broken) || due != nil {
		t.Errorf("what cannot be known is due: %v, %v", due, err)
	}
}
