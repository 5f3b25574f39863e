package main

import (
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/schemas"
)

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
	for text, local := range map[string]string{
		"2026-11-25 23:30": "2026-11-25 23:30:00", "2026-11-25 23:30:05": "2026-11-25 23:30:05", "2026-11-25T23:30": "2026-11-25 23:30:00",
		"2026-11-25T23:30:05": "2026-11-25 23:30:05", "2026-11-25": "2026-11-25 00:00:00",
	} {
		if err := behind.Set(text); err != nil || schemas.LocalTime(behind.at) != local {
			t.Errorf("%s: %v %v", text, behind.at, err)
		}
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

// An empty word is refused where a filter without it means all, or where somebody or
// something is named: nobody writes one but a script whose variable is not set.
func TestEmptyWordsAreRefused(t *testing.T) {
	var walk func(v *verb)
	walk = func(v *verb) {
		for _, f := range v.flags {
			switch f.Names()[0] {
			case "for", "from", "by", "key", "attach", "label", "since", "grep", "thread":
				g, ok := f.(*cli.GenericFlag)
				if !ok || g.Value.Set("") == nil {
					t.Errorf(`mbox %s takes --%s ""`, v.name, f.Names()[0])
				}
			}
		}
		for _, sub := range v.verbs {
			walk(sub)
		}
	}
	walk(tree())
}
