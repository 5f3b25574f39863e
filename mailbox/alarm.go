package mailbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxAlarms bounds the alarms of one scan; the others follow with the next.
const maxAlarms = 50

// alarms writes an error line about each ready task that nobody has taken
// within StartWithin, and about each task that waits for an id nobody has heard
// of: a task that was acknowledged and never starts is not silent.
func (b *Box) alarms(ctx context.Context) (int, error) {
	limit := b.now().Add(-b.o.StartWithin).UnixMilli()
	b.mu.Lock()
	late := b.index.overdue(limit, maxAlarms)
	b.mu.Unlock()
	said := 0
	for _, r := range late {
		why, err := b.whyNotStarted(r)
		if err != nil {
			return said, err
		}
		if why == "" {
			continue
		}
		if err := b.alarmOverdue(ctx, r, why); err != nil {
			return said, err
		}
		said++
	}
	return said, nil
}

// alarmOverdue says it once among all processes: under the task's shard, with
// the ledger read to its end.
func (b *Box) alarmOverdue(ctx context.Context, r *record, why string) error {
	s, err := b.tryShard(ctx, shardOf(string(r.id)))
	if err != nil {
		return ignoreBusy(err)
	}
	defer s.unlock()
	now, err := b.lookup(r.id)
	if err != nil || now == nil || now.alarmed || now.state != Pending {
		return err
	}
	return b.sayAlarm(ctx, s, r.id, "not_started", why)
}

// overdue returns copies of pending records that have been there since before
// limit without an alarm.
func (x *index) overdue(limit int64, most int) []*record {
	var out []*record
	add := func(r *record) bool {
		if r.state == Pending && !r.alarmed && max(r.since, r.notBefore) < limit {
			c := *r
			out = append(out, &c)
		}
		return len(out) < most
	}
	for _, r := range x.live {
		if !add(r) {
			return out
		}
	}
	if x.base == nil {
		return out
	}
	for i, run := range x.base.head.Runs {
		for n := x.base.next[i]; n < run.End; n++ {
			if x.gone[n] {
				continue
			}
			r := x.base.at(n)
			if r == nil || r.created >= limit && r.since >= limit {
				break
			}
			if !add(r) {
				return out
			}
		}
	}
	return out
}

// whyNotStarted says why nobody has taken a pending task; "" if it waits for
// something that is on its way.
func (b *Box) whyNotStarted(r *record) (string, error) {
	if r.blocked {
		for _, d := range r.dependsOn {
			if state, _, err := b.dependencyState(d); err != nil || state != None {
				if err != nil {
					return "", err
				}
				continue
			}
			known, err := b.known(d)
			if err != nil {
				return "", err
			}
			if !known {
				return fmt.Sprintf("it depends on %s, which nobody has heard of", d), nil
			}
		}
		if circle := b.circle(r.id); circle != "" {
			return "it waits for itself: " + circle, nil
		}
		return "", nil
	}
	able, paused := b.whoCan(r.class)
	switch {
	case r.held:
		return fmt.Sprintf("it waits for an approval: mbox approve %s", r.id), nil
	case len(able) > 0 && r.class.action == "" && b.o.Unable != nil && b.o.Unable(able[0]) != "":
		return fmt.Sprintf("%s could take it, but cannot think now: %s", able[0], b.o.Unable(able[0])), nil
	case len(able) > 0:
		return fmt.Sprintf("%s could take it and did not", joinNames(able)), nil
	case len(paused) > 0:
		return fmt.Sprintf("%s could take it and is paused", joinNames(paused)), nil
	case r.class.target != "any":
		return fmt.Sprintf("it is for %s, which is not registered and has not asked for it", r.class.target), nil
	case r.class.action != "":
		return fmt.Sprintf("no registered agent has the action %s", r.class.action), nil
	}
	return fmt.Sprintf("no registered agent takes tasks of type %s", r.class.typ), nil
}

// circle finds the way on which a blocked task waits for itself; "" if it does
// not.
func (b *Box) circle(id ID) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	spelled := map[string]*record{}
	for _, r := range b.index.live {
		if r.blocked {
			spelled[r.id.Fold()] = r
		}
	}
	seen := map[string]bool{}
	var walk func(at string, way []string) string
	walk = func(at string, way []string) string {
		r := spelled[at]
		if r == nil {
			return ""
		}
		way = append(way, string(r.id))
		if at == id.Fold() && len(way) > 1 {
			return strings.Join(way, " → ")
		}
		if seen[at] {
			return ""
		}
		seen[at] = true
		for d := range r.awaits() {
			if found := walk(d.Fold(), way); found != "" {
				return found
			}
		}
		return ""
	}
	return walk(id.Fold(), nil)
}

// whoCan lists the registered agents that may take tasks of the class.
func (b *Box) whoCan(c class) (able, paused []string) {
	for name, own := range b.o.Agents {
		if c.target != name && (c.target != "any" || !takesAny(own, true, c)) {
			continue
		}
		if own.Paused {
			paused = append(paused, name)
		} else {
			able = append(able, name)
		}
	}
	slices.Sort(able)
	slices.Sort(paused)
	return able, paused
}

func joinNames(names []string) string {
	switch len(names) {
	case 1:
		return names[0]
	case 2:
		return names[0] + " and " + names[1]
	}
	return fmt.Sprintf("%s, %s and %d more", names[0], names[1], len(names)-2)
}

func unixMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
