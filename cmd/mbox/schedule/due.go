package schedule

import (
	"slices"
	"time"
)

// CatchUp says what is done about ticks that have passed and were not carried out:
// because nothing ran, or because the one before was not finished.
type CatchUp string

// What is done about ticks that were missed.
const (
	Skip CatchUp = "skip" // nothing: only the last tick counts, and only for [Grace]
	One  CatchUp = "one"  // the last of them is carried out
	All  CatchUp = "all"  // each of them is, of the last [MaxMissed]
)

// CatchUps are all values.
var CatchUps = []CatchUp{Skip, One, All}

const (
	Grace     = time.Minute // how late a tick may be carried out and not be missed
	MaxMissed = 100         // ticks that are caught up on at once
)

// Due lists the ticks that are to be carried out now, in their order. Nothing of since
// or before is due, and nothing before a tick that done knows. It looks back from now,
// so that ticks which were carried out while the clock was wrong hold nothing up.
func (r *Rule) Due(c CatchUp, since, now time.Time, done func(Tick) (bool, error)) (due []Tick, err error) {
	most := 1
	if c == All {
		most = MaxMissed
	}
	for t, ok := r.Last(now); ok && t.At.After(since) && len(due) < most; t, ok = r.Before(t) {
		if c == Skip && now.Sub(t.At) > Grace {
			break
		}
		is, err := done(t)
		if err != nil {
			return nil, err
		}
		if is {
			break
		}
		due = append(due, t)
	}
	slices.Reverse(due)
	return due, nil
}
