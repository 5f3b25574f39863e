package pages

import "time"

// Step is a stretch of a task's way: it waited, or somebody worked at it.
type Step struct {
	Of    string // a child of the task; "" for the task itself
	Name  string // what it is
	Who   string
	From  time.Time
	To    time.Time // zero: it lasts
	Works bool      // somebody works; else it waits
	Bad   bool      // it ended badly
	End   string    // how it ended

	X, Width int // where it is drawn, of 1000
}

// least is how wide a step is drawn that takes no time.
const least = 4

// Lay finds the places of steps on one scale of time.
func Lay(steps []Step, now time.Time) []Step {
	var first, last time.Time
	for i := range steps {
		end := steps[i].ends(now)
		if first.IsZero() || steps[i].From.Before(first) {
			first = steps[i].From
		}
		if end.After(last) {
			last = end
		}
	}
	total := float64(max(last.Sub(first), 1))
	for i := range steps {
		s := &steps[i]
		s.X = min(1000-least, int(1000*float64(s.From.Sub(first))/total))
		s.Width = min(1000-s.X, max(least, int(1000*float64(s.ends(now).Sub(s.From))/total)))
	}
	return steps
}

func (s *Step) ends(now time.Time) time.Time {
	if s.To.IsZero() {
		return now
	}
	return s.To
}

// Lasts is how long a step took, or has taken.
func (s Step) Lasts(now time.Time) string { return Duration(max(0, s.ends(now).Sub(s.From))) }
