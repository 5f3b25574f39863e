package schedule

import "time"

// A wall time is what the clock of a zone shows, written as if it were UTC: so that
// all of them exist, and each once.

// wallOf is what the clock of a zone shows at a time.
func wallOf(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// Instant is when the clock of a zone shows a wall time first; where it skips that,
// when it goes on. A later wall time is never earlier.
func Instant(wall time.Time, zone *time.Location) time.Time {
	const widest = 26 * time.Hour // no offset is as large
	for at := wall.Add(-widest).In(zone); ; {
		from, until := at.ZoneBounds()
		_, offset := at.Zone()
		t := wall.Add(-time.Duration(offset) * time.Second)
		switch {
		case !until.IsZero() && !t.Before(until):
			at = until
		case t.Before(from):
			return from.UTC()
		default:
			return t
		}
	}
}

// reached is the last wall time that has come by a time: what the clock shows, or
// showed before it was last set back. Where it was, it has shown the hour behind
// that already, and shows it again.
func reached(now time.Time, zone *time.Location) time.Time {
	wall := wallOf(now, zone)
	from, _ := now.In(zone).ZoneBounds()
	if from.IsZero() {
		return wall
	}
	if before := wallOf(from.Add(-1), zone); before.After(wall) {
		return before
	}
	return wall
}
