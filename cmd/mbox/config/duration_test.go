package config

import (
	"cmp"
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	const day = 24 * time.Hour
	tests := map[string]time.Duration{
		"90s": 90 * time.Second, "15m": 15 * time.Minute, "1h30m": 90 * time.Minute, "7d": 7 * day,
		"1d12h": 36 * time.Hour, "2w": 14 * day, "1w1d1s": 8*day + time.Second, "0s": 0, "250ms": 250 * time.Millisecond,
	}
	for text, want := range tests {
		var d Duration
		if err := d.Set(text); err != nil || time.Duration(d) != want {
			t.Errorf("%s: %v, %v", text, time.Duration(d), err)
		}
	}
	for _, text := range []string{"", "d", "7", "-1h", "+1h", "1d-1h", "1.5d", "soon", "7 d", "99999999999h", "99999d"} {
		var d Duration
		if d.Set(text) == nil {
			t.Errorf("%q is taken as %v", text, time.Duration(d))
		}
	}
	for want, d := range tests {
		var again Duration
		if err := again.Set(cmp.Or(Span(d), "0s")); err != nil || time.Duration(again) != d {
			t.Errorf("%s is written %s", want, Span(d))
		}
	}
}
