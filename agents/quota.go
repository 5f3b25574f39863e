package agents

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mbox/mailbox"
)

// spend has the agents of the account claim nothing for so long, in all processes: the
// ledger tells them. A pause that somebody made for longer stays.
func (s *shift) spend(ctx context.Context, d time.Duration) {
	// To the next second, so that attempts that end together say the same.
	until := time.Now().Add(d).Truncate(time.Second).Add(time.Second)
	for _, name := range append([]string{s.Agent}, s.Fellows...) {
		_, err := mailbox.PauseAgent(ctx, s.Box, mailbox.Pause{
			Agent: name, By: s.Agent, Until: until, Reason: "the quota of " + s.Account + " is used up", Longer: true,
		})
		if err != nil {
			s.Log.Warn().Err(err).Str("agent", name).Msg("not paused, though its quota is used up")
		}
	}
}

// How long an account is left alone: between these, whatever a message says, and
// quotaUnknown where it names no time that can be read.
const (
	quotaLeast   = time.Minute
	quotaMost    = 24 * time.Hour
	quotaUnknown = 15 * time.Minute
)

// quota looks in a failure's words for one that says that the account has nothing
// left. It returns for how long; 0 if there is none.
func (s *shift) quota(now time.Time, words ...string) time.Duration {
	for _, text := range words {
		for _, p := range s.Quota {
			m := p.FindStringSubmatch(text)
			if m == nil {
				continue
			}
			at := slices.Index(p.SubexpNames(), "reset")
			if at < 0 && len(m) > 1 {
				at = 1
			}
			if at > 0 {
				if reset := resetTime(m[at], now); !reset.IsZero() {
					return within(reset.Sub(now))
				}
			}
			return quotaUnknown
		}
	}
	return 0
}

func within(d time.Duration) time.Duration { return max(quotaLeast, min(d, quotaMost)) }

var resetForms = sync.OnceValue(func() (f struct{ span, clock, zone, ordinal *regexp.Regexp }) {
	f.span = regexp.MustCompile(`(?i)(\d{1,6}(?:\.\d{1,9})?) ?(d|h|m|s)[a-z]*`)
	f.clock = regexp.MustCompile(`(?i)^(\d{1,2})(?::(\d{2}))? ?(am|pm)?$`)
	f.zone = regexp.MustCompile(`^(.*?) *\(([A-Za-z][A-Za-z0-9_+/-]{1,40})\)$`)
	f.ordinal = regexp.MustCompile(`(?i)\b(\d{1,2})(st|nd|rd|th)\b`)
	return f
})

// resetTime reads when a quota begins anew: RFC 3339; seconds or milliseconds since
// 1970; a date as "Apr 28th, 2026 10:03 PM"; a time of day as "3pm", "8:20 PM" or
// "15:04", all with or without a zone as "(Europe/Berlin)"; a time from now as
// "2h 15m" or "3 hours 4 minutes". The zero time is for all else.
func resetTime(text string, now time.Time) time.Time {
	text = strings.TrimSpace(text)
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		switch {
		case len(text) == 10:
			return time.Unix(n, 0)
		case len(text) == 13:
			return time.UnixMilli(n)
		}
	}
	forms, zone := resetForms(), now.Location()
	if m := forms.zone.FindStringSubmatch(text); m != nil {
		loaded, err := time.LoadLocation(m[2])
		if err != nil {
			return time.Time{}
		}
		text, zone = m[1], loaded
	}
	plain := forms.ordinal.ReplaceAllString(text, "$1")
	for _, layout := range []string{"Jan 2, 2006 3:04 PM", "Jan 2, 2006 3:04 pm", "Jan 2, 2006, 3:04 PM", time.DateTime} {
		if t, err := time.ParseInLocation(layout, plain, zone); err == nil {
			return t
		}
	}
	if m := forms.clock.FindStringSubmatch(text); m != nil {
		return nextClock(m[1], m[2], strings.ToLower(m[3]), now.In(zone))
	}
	if d := spanOf(text, forms.span); d > 0 {
		return now.Add(d)
	}
	return time.Time{}
}

// spanOf reads a time from now; 0 for what is none.
func spanOf(text string, form *regexp.Regexp) (d time.Duration) {
	rest := strings.Trim(form.ReplaceAllString(text, ""), " ,.")
	if rest = strings.TrimPrefix(rest, "in"); strings.Trim(strings.ReplaceAll(rest, "and", ""), " ,") != "" {
		return 0
	}
	units := map[string]time.Duration{"d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second}
	for _, m := range form.FindAllStringSubmatch(text, 8) {
		n, _ := strconv.ParseFloat(m[1], 64)
		d += min(time.Duration(min(n, 1e6)*float64(units[strings.ToLower(m[2])])), 365*24*time.Hour)
	}
	return d
}

// nextClock is when it is that time of day next. One of the last quarter of an hour
// is now: services tell it a little longer than it holds.
func nextClock(hour, minute, half string, now time.Time) time.Time {
	h, _ := strconv.Atoi(hour)
	m, _ := strconv.Atoi(minute)
	switch {
	case half == "" && minute == "", h > 23, m > 59, half != "" && (h < 1 || h > 12):
		return time.Time{}
	case half == "pm" && h < 12:
		h += 12
	case half == "am" && h == 12:
		h = 0
	}
	at := time.Date(now.Year(), now.Month(), now.Day(), h, m, 0, 0, now.Location())
	if at.Before(now.Add(-15 * time.Minute)) {
		at = time.Date(now.Year(), now.Month(), now.Day()+1, h, m, 0, 0, now.Location())
	}
	return at
}

func quotaWords(account string, d time.Duration) string {
	return fmt.Sprintf("the quota of %s is used up for %s", account, d.Round(time.Second))
}
