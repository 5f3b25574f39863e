// Package timetable sends the tasks of schedules when they are due, and tells how the
// schedules stand.
//
// What was sent is found in the ledger: a tick's task has the tick as its idempotency
// key. Since when a schedule is in force stands in the last change record that lists
// the schedules: ticks from before are nobody's. Nothing else is kept.
package timetable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"mbox/audit"
	"mbox/audit/record"
	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/schedule"
	"mbox/mailbox"
	"mbox/schemas"
)

// Table are the schedules of a mailbox by one reading of its configuration. It is for
// one goroutine.
type Table struct {
	Box    *mailbox.Box
	Config *config.File
	Info   func(format string, a ...any)
	Warn   func(format string, a ...any)
	// Refused tells whether an error says that a task is not to be, however often it
	// is sent.
	Refused func(error) bool

	of map[string]*known
}

// known is what a table knows of an enabled schedule.
type known struct {
	since   time.Time  // in force; zero: not yet
	sent    Sent       // at the last of its times
	runs    int        // by hand
	run     Sent       // the last of those
	watched mailbox.ID // the last that was sent, until it has ended
	waits   mailbox.ID // for whose end, and this was said
	refused string     // the tick whose task was
	warned  string     // what was said last
}

// Sent is a tick that has a task.
type Sent struct {
	Tick string     `json:"tick"`
	Task mailbox.ID `json:"task"`
}

// New is a table that knows from when on each schedule is in force.
func New(ctx context.Context, box *mailbox.Box, c *config.File) (*Table, error) {
	silent := func(string, ...any) {}
	t := &Table{Box: box, Config: c, Info: silent, Warn: silent, Refused: func(error) bool { return false }, of: map[string]*known{}}
	if len(c.Schedules) == 0 {
		return t, nil
	}
	changes, err := box.Changes(ctx)
	if err != nil {
		return nil, err
	}
	listed, _ := lastList(changes)
	for name, s := range c.Schedules {
		t.of[name] = &known{}
		if e := listed[name]; e.mark == s.Mark() && s.Enabled {
			t.of[name].since = e.since
		}
	}
	return t, nil
}

// entry is a schedule in force, as a record lists it.
type entry struct {
	mark  string // config.Schedule.Mark
	since time.Time
}

// listing is how the description of a record begins that lists the schedules.
const listing = "Schedules: "

// lastList reads the last record that lists the schedules. An agent may record changes,
// but none of its own tells since when a schedule counts.
func lastList(changes []record.Change) (listed map[string]entry, text string) {
	for _, c := range changes {
		if c.Agent == "human" && strings.HasPrefix(c.Description, listing) {
			text = c.After
		}
	}
	listed = map[string]entry{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 4 || words[2] != "since" {
			continue
		}
		if since, err := time.Parse(time.RFC3339, words[3]); err == nil {
			listed[words[0]] = entry{words[1], since}
		}
	}
	return listed, text
}

// none is the list where there is no schedule.
const none = "There is none."

// Record writes a change record with the schedules that there are, unless the last one lists
// the same, and returns its id; "" for none. A schedule that is new in it is in force from
// now on.
func Record(ctx context.Context, box *mailbox.Box, c *config.File, now time.Time, what, why string) (string, error) {
	changes, err := box.Changes(ctx)
	if err != nil {
		return "", err
	}
	listed, before := lastList(changes)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(c.Schedules)) {
		s := c.Schedules[name]
		if !s.Enabled {
			lines = append(lines, name+" is paused")
			continue
		}
		e := listed[name]
		if e.mark != s.Mark() || e.since.After(now) { // or the clock was set back
			e = entry{s.Mark(), now}
		}
		lines = append(lines, fmt.Sprintf("%s %s since %s", name, e.mark, e.since.UTC().Format(time.RFC3339)))
	}
	after := strings.Join(lines, "\n\n")
	if after == "" {
		after = none
	}
	if before == "" {
		before = none
	}
	if after == before {
		return "", nil
	}
	return box.Change(ctx, record.Change{
		Agent: "human", Type: "config", Description: listing + what, Rationale: why, Before: before, After: after,
		Rollback:     "Put back what stood in mbox.toml or mbox.d; mbox up reads it again.",
		Verification: "mbox schedule list shows when each is due next.",
	})
}

// InForce notes that the schedules which no record says that of are in force from now on.
func (t *Table) InForce(now time.Time) {
	for name, s := range t.Config.Schedules {
		if k := t.of[name]; s.Enabled && k.since.IsZero() {
			k.since = now
		}
	}
}

// Turn sends what is due, and tells when something will be next; zero for never. What
// fails is told, and tried again at the next turn.
func (t *Table) Turn(ctx context.Context, now time.Time) (next time.Time) {
	for _, name := range slices.Sorted(maps.Keys(t.Config.Schedules)) {
		s, k := t.Config.Schedules[name], t.of[name]
		if !s.Enabled || ctx.Err() != nil {
			continue
		}
		// What is sent now takes the place of what has ended since the last turn.
		err := errors.Join(t.judge(ctx, name, s, now), t.send(ctx, name, s, now))
		switch {
		case err == nil:
			k.warned = ""
		case ctx.Err() == nil && k.warned != err.Error():
			k.warned = err.Error()
			t.Warn("schedule %s: %v", name, err)
		}
		if tick, ok := s.Rule().Next(now); ok && (next.IsZero() || tick.At.Before(next)) {
			next = tick.At
		}
	}
	return next
}

// send sends what is due of one schedule.
func (t *Table) send(ctx context.Context, name string, s *config.Schedule, now time.Time) error {
	k := t.of[name]
	if k.since.IsZero() || k.since.After(now) { // new, or the clock was set back: what comes from now on is due
		k.since = now
	}
	due, err := s.Rule().Due(schedule.CatchUp(s.CatchUp), k.since, now, func(tick schedule.Tick) (bool, error) {
		if tick.Name == k.sent.Tick || tick.Name == k.refused {
			return true, nil
		}
		id, err := mailbox.Fired(t.Box, name, tick.Name)
		if id != "" {
			k.sent = Sent{tick.Name, id}
		}
		return id != "", err
	})
	if err != nil {
		return err
	}
	for _, tick := range due {
		if !s.Overlap {
			busy, err := t.unfinished(ctx, name, s, now)
			if err != nil || busy != "" {
				return errors.Join(err, t.waits(ctx, name, tick, busy))
			}
		}
		if err := t.fire(ctx, name, s, tick.Name); err != nil {
			return err
		}
	}
	return nil
}

// fire sends the task of a tick. One that is refused is an alarm, and is not sent again.
func (t *Table) fire(ctx context.Context, name string, s *config.Schedule, tick string) error {
	task, err := s.Task()
	if err != nil {
		return err
	}
	k := t.of[name]
	id, made, err := mailbox.Fire(ctx, t.Box, task, name, tick)
	switch {
	case id != "":
		k.sent, k.watched = Sent{tick, id}, id
	case err != nil && t.Refused(err):
		k.refused = tick
		return t.alarm(ctx, name, fmt.Sprintf("the task for %s is refused: %v", tick, err))
	}
	if made {
		t.Info("schedule %s: sent %s for %s", name, id, tick)
	}
	return err
}

// waits tells once that a schedule's task has not ended when the next one is due; for
// the ledger that is an alarm, for it may never end.
func (t *Table) waits(ctx context.Context, name string, tick schedule.Tick, busy mailbox.ID) error {
	k := t.of[name]
	if busy == "" || k.waits == busy {
		return nil
	}
	k.waits = busy
	return t.alarm(ctx, name, fmt.Sprintf("nothing is sent for %s: %s has not ended", tick.Name, busy))
}

// judge raises an alarm when the last tasks of a schedule have all failed.
func (t *Table) judge(ctx context.Context, name string, s *config.Schedule, now time.Time) error {
	k := t.of[name]
	if k.watched == "" {
		return nil
	}
	if state, err := stateOf(ctx, t.Box, k.watched); err != nil || live(state) {
		return err
	}
	k.watched = ""
	failed, more, err := t.failures(ctx, name, s, now)
	if err != nil || len(failed) < tooMany || more {
		return err
	}
	return t.alarm(ctx, name, failing(failed))
}

// tooMany is how many failures one behind the other are an alarm.
const tooMany = 3

func failing(failed []mailbox.ID) string {
	return fmt.Sprintf("its last %s failed: %s", schemas.Count(len(failed), "task has", "tasks have"), joined(failed))
}

func joined(ids []mailbox.ID) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = string(id)
	}
	return strings.Join(words, ", ")
}

// failures are the last tasks that failed, the newest first, at most tooMany; more tells
// that the one before these has failed, too.
func (t *Table) failures(ctx context.Context, name string, s *config.Schedule, now time.Time) (failed []mailbox.ID, more bool, err error) {
	err = t.back(name, s, now, func(sent Sent) (bool, error) {
		state, err := stateOf(ctx, t.Box, sent.Task)
		if err != nil || state != mailbox.Failed {
			return false, err
		}
		if more = len(failed) == tooMany; !more {
			failed = append(failed, sent.Task)
		}
		return !more, nil
	})
	return failed, more, err
}

func (t *Table) alarm(ctx context.Context, name, reason string) error {
	t.Warn("schedule %s: %s", name, reason)
	return t.Box.Note(ctx, audit.Entry{
		Agent: audit.MboxAgent, Event: audit.ErrorEvent, Action: "mbox: schedule " + name + " needs somebody to look: mbox schedule list",
		Details: audit.Details(map[string]string{"alarm": "schedule", "schedule": name, "reason": "schedule " + name + ": " + reason}),
	})
}

// longest is how many ticks are looked back for such as have a task.
const longest = 10_000

// back visits the ticks that have a task, the newest first, until visit has enough.
func (t *Table) back(name string, s *config.Schedule, now time.Time, visit func(Sent) (more bool, err error)) error {
	looked := 0
	for tick, ok := s.Rule().Last(now); ok && looked < longest; tick, ok = s.Rule().Before(tick) {
		looked++
		id, err := mailbox.Fired(t.Box, name, tick.Name)
		if err != nil {
			return err
		}
		if id == "" {
			continue
		}
		looked = 0
		if more, err := visit(Sent{tick.Name, id}); err != nil || !more {
			return err
		}
	}
	return nil
}

// last is what was sent last at a time of the schedule; nothing if that was long ago.
func (t *Table) last(name string, s *config.Schedule, now time.Time) (Sent, error) {
	k := t.of[name]
	if k.sent.Task != "" {
		return k.sent, nil
	}
	err := t.back(name, s, now, func(sent Sent) (bool, error) {
		k.sent = sent
		return false, nil
	})
	return k.sent, err
}

// lastRun is what was sent last by mbox schedule run. Its ticks are counted, so that
// the last one can be found.
func (t *Table) lastRun(name string) (Sent, error) {
	k := t.of[name]
	has := func(n int) (bool, error) {
		id, err := mailbox.Fired(t.Box, name, runTick(n))
		if id != "" && n > k.runs {
			k.runs, k.run = n, Sent{runTick(n), id}
		}
		return id != "", err
	}
	step := 1
	for { // further and further, until there is none
		is, err := has(k.runs + step)
		if err != nil {
			return Sent{}, err
		}
		if !is {
			break
		}
		step *= 2
	}
	for step /= 2; step > 0; step /= 2 { // and back to the last
		if _, err := has(k.runs + step); err != nil {
			return Sent{}, err
		}
	}
	return k.run, nil
}

func runTick(n int) string { return "run-" + strconv.Itoa(n) }

// unfinished is a task of the schedule that has not ended; "" if all have.
func (t *Table) unfinished(ctx context.Context, name string, s *config.Schedule, now time.Time) (mailbox.ID, error) {
	last, err := t.last(name, s, now)
	if err != nil {
		return "", err
	}
	run, err := t.lastRun(name)
	if err != nil {
		return "", err
	}
	for _, sent := range []Sent{last, run} {
		if sent.Task == "" {
			continue
		}
		if state, err := stateOf(ctx, t.Box, sent.Task); err != nil || live(state) {
			return sent.Task, err
		}
	}
	return "", nil
}

func live(s mailbox.State) bool { return s == mailbox.Pending || s == mailbox.InProgress }

// stateOf is the state of a task; none for one that is archived, or gone.
func stateOf(ctx context.Context, box *mailbox.Box, id mailbox.ID) (mailbox.State, error) {
	_, state, err := box.Task(ctx, id)
	if errors.Is(err, mailbox.ErrNotFound) {
		return mailbox.None, nil
	}
	return state, err
}

// ErrUnfinished says that a task of the schedule has not ended.
var ErrUnfinished = errors.New("has not ended")

// Run sends the task of a schedule now, by a tick of its own. Unless it may overlap, no
// other task of it may be on its way: ErrUnfinished.
func (t *Table) Run(ctx context.Context, name string, now time.Time) (mailbox.ID, error) {
	s := t.Config.Schedules[name]
	if !s.Overlap {
		if busy, err := t.unfinished(ctx, name, s, now); err != nil || busy != "" {
			return busy, errors.Join(err, fmt.Errorf("schedule %s: %s %w", name, busy, ErrUnfinished))
		}
	}
	task, err := s.Task()
	if err != nil {
		return "", err
	}
	if _, err := t.lastRun(name); err != nil {
		return "", err
	}
	for n := t.of[name].runs + 1; ; n++ {
		id, made, err := mailbox.Fire(ctx, t.Box, task, name, runTick(n))
		if made || err != nil {
			return id, err
		}
	}
}
