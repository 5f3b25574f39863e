package main

import (
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
		if err := again.Set(or(span(d), "0s")); err != nil || time.Duration(again) != d {
			t.Errorf("%s is written %s", want, span(d))
		}
	}
}

func TestMoments(t *testing.T) {
	ahead, behind := moment{}, moment{past: true}
	for _, m := range []*moment{&ahead, &behind} {
		if err := m.Set("2h"); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Until(ahead.at); d < 119*time.Minute || d > 2*time.Hour {
		t.Errorf("2h ahead is %v", d)
	}
	if d := time.Since(behind.at); d < 2*time.Hour || d > 121*time.Minute {
		t.Errorf("2h ago is %v", d)
	}
	if err := ahead.Set("2026-02-16T10:30:00Z"); err != nil || ahead.at.Unix() != 1771237800 {
		t.Errorf("%v %v", ahead.at, err)
	}
	if err := ahead.Set("2026-02-16"); err != nil || ahead.at.Hour() != 0 {
		t.Errorf("%v %v", ahead.at, err)
	}
	if ahead.Set("tomorrow") == nil {
		t.Error("tomorrow is taken")
	}
}

func TestLabels(t *testing.T) {
	var l labels
	for text, ok := range map[string]bool{"a=1": true, "b=x=y": true, "c=": true, "=x": false, "d": false} {
		if err := l.Set(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
	if l.Set("a=2") == nil || l["a"] != "1" || l["b"] != "x=y" {
		t.Errorf("%v", l)
	}
}
