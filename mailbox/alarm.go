package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"mbox/audit"
	"mbox/mailbox/home"
	"mbox/mailbox/queue"
	"mbox/mailbox/tree"
)

// alarmOf is the line of an alarm, an error about a task: kind is not_started,
// edited, missing, unreadable or lost. The reason stands in its details, what is
// to be done in its action.
func alarmOf(id ID, kind, reason, action string) audit.Entry {
	return audit.Entry{
		Agent: audit.MboxAgent, Event: audit.ErrorEvent, TaskID: new(string(id)), Action: fmt.Sprintf("mbox: %s: %s", id, action),
		Details: audit.Details(map[string]string{"alarm": kind, "reason": reason}),
	}
}

// alarm writes an alarm about a live task, and only one until it moves.
func (b *books) alarm(ctx context.Context, s *shard, id ID, kind, why string) error {
	r, err := b.lookup(id)
	if err != nil || r == nil || r.Alarmed {
		return err
	}
	return b.note(ctx, s, alarmOf(id, kind, why, why))
}

// sayLost writes an alarm, one until it moves, about a task whose content a
// stranger destroyed while it was moved. It runs inside the transition.
func (b *books) sayLost(ctx context.Context, s *shard, id ID) error {
	if known, err := b.ledger.KnownGone(id); err != nil || known {
		return err
	}
	action := fmt.Sprintf("its content was destroyed while it was moved; mbox recover --adopt %s takes what there is", id)
	return b.sayAlone(ctx, s.locks, alarmOf(id, "lost", "destroyed while it was moved", action))
}

// maxAlarms bounds the alarms of one scan, for the commands that scan wait for their
// flushes, and maxOverdue the tasks that are looked into for them. The others follow with
// the next.
const (
	maxAlarms  = 4
	maxOverdue = 50
)

// alarms writes an error line about each ready task that nobody has taken
// within StartWithin, and about each task that waits for an id nobody has heard
// of: a task that was acknowledged and never starts is not silent. It does so once
// among all processes, under the task's shard, side by side, so that they share flushes.
// It tells how many it wrote.
func (b *explainer) alarms(ctx context.Context) (int, error) {
	ids, whys, failed := b.notStarted(ctx)
	var said atomic.Int64
	err := home.OnAllCores(ctx, len(ids), func(i int) error {
		_, err := b.ifFree(ctx, ids[i], func(s *shard) error {
			if now, err := b.lookup(ids[i]); err != nil || now == nil || now.State != Pending || now.Alarmed {
				return err
			}
			err := b.note(ctx, s, alarmOf(ids[i], "not_started", whys[i], whys[i]))
			if err == nil {
				said.Add(1)
			}
			return err
		})
		return err
	})
	return int(said.Load()), errors.Join(failed, err)
}

// notStarted lists tasks that have not started in time, with the reasons. One that cannot
// be looked into does not hide the others; the error is that of the first.
func (b *explainer) notStarted(ctx context.Context) (ids []ID, whys []string, err error) {
	limit := b.now().Add(-b.o.StartWithin).UnixMilli()
	for _, r := range b.queue.Overdue(limit, maxOverdue) {
		switch why, failed := b.whyNotStarted(ctx, r); {
		case failed != nil:
			err = cmp.Or(err, failed)
		case why != "":
			ids, whys = append(ids, r.ID), append(whys, why)
		}
		if len(ids) == maxAlarms {
			break
		}
	}
	return ids, whys, err
}

// whyNotStarted says why nobody has taken a pending task; "" if it waits for
// something that is on its way.
func (b *explainer) whyNotStarted(ctx context.Context, r *queue.Entry) (string, error) {
	if r.Blocked {
		return b.whyBlocked(ctx, r)
	}
	if b.queue.InTheWay(r.ID) != nil {
		return "", nil // it is told when who has its paths does not end
	}
	able, kept := b.whoCan(r.Class)
	switch {
	case r.Held:
		return fmt.Sprintf("it waits for an approval: mbox approve %s", r.ID), nil
	case len(able) > 0 && r.Class.Action == "" && b.o.Unable != nil && b.o.Unable(able[0]) != "":
		return fmt.Sprintf("%s could take it, but cannot work now: %s", able[0], b.o.Unable(able[0])), nil
	case len(able) > 0:
		return fmt.Sprintf("%s could take it and did not", joinNames(able)), nil
	case len(kept) > 0:
		return fmt.Sprintf("%s could take it and %s", kept[0].name, kept[0].why), nil
	case r.Class.Target != "any":
		return fmt.Sprintf("it is for %s, which is not registered and has not asked for it", r.Class.Target), nil
	case r.Class.Action != "":
		return fmt.Sprintf("no registered agent has the action %s", r.Class.Action), nil
	}
	return fmt.Sprintf("no registered agent takes tasks of type %s", r.Class.Type), nil
}

// whyBlocked names what a blocked task waits for in vain: a task that nobody has
// heard of, one that has ended and whose file a stranger took away, moved back or
// damaged, or itself. "" if all that it waits for is on its way.
func (b *explainer) whyBlocked(ctx context.Context, r *queue.Entry) (string, error) {
	for _, d := range r.Awaits() {
		why, err := b.whyNever(ctx, d)
		if err != nil || why != "" {
			return why, err
		}
	}
	isIt := func(id ID) bool { return id.Fold() == r.ID.Fold() }
	if circle := b.queue.Waiters(r.ID, isIt); circle != nil {
		return "it waits for itself: " + tree.Join(circle), nil
	}
	return "", nil
}

// whyNever says why a task that is waited for does not end; "" if it has ended,
// or may.
func (b *explainer) whyNever(ctx context.Context, id ID) (string, error) {
	known, err := b.known(id)
	if err != nil {
		return "", err
	}
	if !known {
		return fmt.Sprintf("it depends on %s, which nobody has heard of", id), nil
	}
	if r, err := b.lookup(id); err != nil || r != nil {
		return "", err // it has alarms of its own
	}
	why := ""
	_, err = b.ifFree(ctx, id, func(*shard) error { // else it may just be moved
		state, settled, err := b.dependencies.dependencyState(id)
		if err != nil || state != None || settled {
			return err
		}
		why = fmt.Sprintf("it waits for %s, whose file is not where and as it ended; mbox recover --adopt %s takes what there is", id, id)
		return nil
	})
	return why, err
}

// keptFrom is an agent that could take a task, and why it may not.
type keptFrom struct {
	name, why string
	paused    bool // by the ledger, and not by its table
}

// whoCan lists the registered agents that may take tasks of the class, by name, and those
// that are kept from it. One that is not registered is among these if the task names it.
func (b *explainer) whoCan(c queue.Class) (able []string, kept []keptFrom) {
	names := slices.Sorted(maps.Keys(b.o.Agents))
	if _, registered := b.o.Agents[c.Target]; !registered && !b.queue.Agent(c.Target).Claims() {
		names = append(names, c.Target)
	}
	for _, name := range names {
		own := b.o.Agents[name]
		if c.Target != name && (c.Target != "any" || !takesAny(own, true, c)) {
			continue
		}
		switch now := b.queue.Agent(name); {
		case own.Disabled:
			kept = append(kept, keptFrom{name, "is not enabled in mbox.toml", false})
		case !now.Claims():
			kept = append(kept, keptFrom{name, "is " + now.String(), true})
		default:
			able = append(able, name)
		}
	}
	return able, kept
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
