package timetable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // whatever this machine has

	"mbox/audit"
	"mbox/audit/record"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/mailboxtest"
)

// world is a mailbox with schedules, a clock, and what was said.
type world struct {
	*testing.T
	home    string
	box     *mailbox.Box
	config  *config.File
	table   *Table
	said    []string
	refuses error
}

func begin(t *testing.T, text string) *world {
	t.Helper()
	w := &world{T: t, home: filepath.Join(t.TempDir(), "home")}
	w.box = mailboxtest.In(t, w.home, mailbox.Options{Review: func(*mailbox.Task) ([]audit.Entry, error) { return nil, w.refuses }})
	w.write(text)
	return w
}

// write puts the schedules into mbox.toml.
func (w *world) write(text string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.home, config.Name), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	var err error
	if w.config, err = config.Load(w.home); err != nil {
		w.Fatal(err)
	}
}

// up begins anew, as a mbox up does that takes the configuration over at this time.
func (w *world) up(now string) {
	w.Helper()
	if _, err := Record(w.Context(), w.box, w.config, w.time(now), "changed.", "A test."); err != nil {
		w.Fatal(err)
	}
	w.look()
	w.table.InForce(w.time(now))
}

// look begins anew, as a command does.
func (w *world) look() {
	w.Helper()
	var err error
	if w.table, err = New(w.Context(), w.box, w.config); err != nil {
		w.Fatal(err)
	}
	w.table.Warn = func(format string, a ...any) { w.said = append(w.said, fmt.Sprintf(format, a...)) }
	w.table.Refused = func(err error) bool { return errors.Is(err, errNotAllowed) }
}

func (w *world) time(text string) time.Time {
	w.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		w.Fatal(err)
	}
	return at
}

// turn is a turn at this time; it wants the ticks that have a task afterwards.
func (w *world) turn(now string, want ...string) (next time.Time) {
	w.Helper()
	next = w.table.Turn(w.Context(), w.time(now))
	if got := w.ticks(); !slices.Equal(got, want) {
		w.Errorf("at %s: %v were sent, want %v", now, got, want)
	}
	return next
}

// ticks are those of all tasks, in order.
func (w *world) ticks() (ticks []string) {
	for item, err := range w.box.List(w.Context(), mailbox.Filter{}) {
		if err != nil || item.Err != nil {
			w.Fatal(err, item.Err)
		}
		tick, ok := strings.CutPrefix(item.Task.Mbox.Trigger, "schedule:x:")
		if !ok || item.Task.Mbox.IdempotencyKey != item.Task.Mbox.Trigger {
			w.Errorf("%s has the trigger %q and the key %q", item.Task.ID, item.Task.Mbox.Trigger, item.Task.Mbox.IdempotencyKey)
		}
		ticks = append(ticks, tick)
	}
	slices.Sort(ticks)
	return ticks
}

// end ends every task that waits.
func (w *world) end(well bool) {
	w.Helper()
	for {
		c, err := w.box.Claim(w.Context(), mailbox.ClaimRequest{Agent: "worker"})
		if errors.Is(err, mailbox.ErrEmpty) {
			return
		}
		if err == nil && well {
			err = c.Complete(w.Context(), mailbox.Result{})
		} else if err == nil {
			err = c.Fail(w.Context(), mailbox.Failure{TaskError: mailbox.TaskError{Code: "broken"}, Final: true})
		}
		if err != nil {
			w.Fatal(err)
		}
	}
}

// alarms are those in the ledger.
func (w *world) alarms() (reasons []string) {
	w.Helper()
	for line, err := range w.box.Ledger().Backward() {
		if err != nil {
			w.Fatal(err)
		}
		if line.Text("alarm") == "schedule" {
			reasons = append(reasons, line.Text("reason"))
		}
	}
	slices.Reverse(reasons)
	return reasons
}

const hourly = "[schedules.x]\ncron = '0 * * * *'\nzone = 'UTC'\ntitle = 'Hourly'\n"

// Each tick is sent when it comes, and once: also by another router, also after a start.
func TestEachTickOnce(t *testing.T) {
	w := begin(t, hourly+"overlap = true\n")
	w.up("2026-11-23T05:10:00Z")
	if next := w.turn("2026-11-23T05:10:00Z"); !next.Equal(w.time("2026-11-23T06:00:00Z")) {
		t.Errorf("the next is due at %s", next)
	}
	w.turn("2026-11-23T06:00:00Z", "2026-11-23T06:00")
	w.turn("2026-11-23T06:00:10Z", "2026-11-23T06:00")
	w.up("2026-11-23T06:00:30Z")
	w.turn("2026-11-23T06:00:30Z", "2026-11-23T06:00")
	w.turn("2026-11-23T07:00:59Z", "2026-11-23T06:00", "2026-11-23T07:00")
	w.turn("2026-11-23T08:01:01Z", "2026-11-23T06:00", "2026-11-23T07:00") // missed
}

// An agent records changes, too; it cannot tell since when a schedule counts.
func TestListOfAnAgent(t *testing.T) {
	w := begin(t, hourly+"overlap = true\ncatch_up = 'all'\n")
	if _, err := w.box.Change(t.Context(), record.Change{
		Agent: "coder", Type: "config", Description: listing + "mine", Rationale: "x", Before: "x", Rollback: "x", Verification: "x",
		After: "x " + w.config.Schedules["x"].Mark() + " since 2026-11-23T01:00:00Z",
	}); err != nil {
		t.Fatal(err)
	}
	w.up("2026-11-23T05:10:00Z")
	w.turn("2026-11-23T06:00:00Z", "2026-11-23T06:00")
}

// The clock of the machine may be set. What was sent while it was wrong holds nothing up,
// and what comes again is not sent again.
func TestClockIsSet(t *testing.T) {
	w := begin(t, hourly+"overlap = true\ncatch_up = 'all'\n")
	w.up("2030-01-01T05:30:00Z")
	w.turn("2030-01-01T06:00:00Z", "2030-01-01T06:00")
	w.turn("2026-11-23T05:30:00Z", "2030-01-01T06:00")
	w.turn("2026-11-23T06:00:00Z", "2026-11-23T06:00", "2030-01-01T06:00")
	w.turn("2026-11-23T05:59:00Z", "2026-11-23T06:00", "2030-01-01T06:00")
	w.turn("2026-11-23T07:00:00Z", "2026-11-23T06:00", "2026-11-23T07:00", "2030-01-01T06:00")
	w.up("2026-11-23T07:30:00Z")
	w.turn("2026-11-23T08:00:00Z", "2026-11-23T06:00", "2026-11-23T07:00", "2026-11-23T08:00", "2030-01-01T06:00")
}

// After a time in which nothing ran, what is made up for is what catch_up says: since
// the schedule is in force, and not what passed while it was paused or said otherwise.
func TestCatchUp(t *testing.T) {
	for rule, want := range map[string][]string{
		"skip": nil, "one": {"2026-11-23T08:00"}, "all": {"2026-11-23T06:00", "2026-11-23T07:00", "2026-11-23T08:00"},
	} {
		w := begin(t, hourly+"overlap = true\ncatch_up = '"+rule+"'\n")
		w.up("2026-11-23T05:10:00Z")
		w.up("2026-11-23T08:30:00Z")
		w.turn("2026-11-23T08:30:00Z", want...)
		w.write(hourly + "overlap = true\nenabled = false\ncatch_up = '" + rule + "'\n")
		w.up("2026-11-23T08:40:00Z")
		w.turn("2026-11-23T09:00:00Z", want...)
		w.write(hourly + "overlap = true\ncatch_up = '" + rule + "'\n")
		w.up("2026-11-23T09:30:00Z")
		w.turn("2026-11-23T09:30:00Z", want...)
		w.write(hourly + "overlap = true\ncatch_up = 'all'\n# or so\n")
		w.up("2026-11-23T10:30:00Z")
		if rule == "all" {
			want = append(want, "2026-11-23T10:00")
		}
		w.turn("2026-11-23T10:30:00Z", want...)
	}
}

// No second is sent while the first has not ended; that is an alarm once, and who looks
// is told. A task sent by hand counts, too.
func TestNoOverlap(t *testing.T) {
	w := begin(t, hourly)
	w.up("2026-11-23T05:10:00Z")
	w.turn("2026-11-23T06:00:00Z", "2026-11-23T06:00")
	w.turn("2026-11-23T07:00:00Z", "2026-11-23T06:00")
	w.turn("2026-11-23T07:00:05Z", "2026-11-23T06:00")
	w.up("2026-11-23T07:30:00Z")
	w.turn("2026-11-23T08:00:00Z", "2026-11-23T06:00")
	if got := w.alarms(); len(got) != 2 || !strings.Contains(got[0], "nothing is sent for 2026-11-23T07:00: task-") {
		t.Errorf("the alarms are %q, want one of each run", got)
	}
	w.standing("2026-11-23T07:59:59Z", "nothing was sent for 2026-11-23T07:00: task-.* has not ended!")
	w.standing("2026-11-23T08:00:01Z", "nothing was sent for 2026-11-23T08:00: task-.* has not ended!")
	w.end(true)
	w.turn("2026-11-23T08:00:30Z", "2026-11-23T06:00", "2026-11-23T08:00") // it ends within the minute
	w.end(true)
	if _, err := w.table.Run(t.Context(), "x", w.time("2026-11-23T08:30:00Z")); err != nil {
		t.Fatal(err)
	}
	w.turn("2026-11-23T09:00:00Z", "2026-11-23T06:00", "2026-11-23T08:00", "run-1")
	if _, err := w.table.Run(t.Context(), "x", w.time("2026-11-23T09:10:00Z")); !errors.Is(err, ErrUnfinished) {
		t.Errorf("run beside another task: %v", err)
	}
	w.end(true)
	for n := range 6 {
		w.look()
		if _, err := w.table.Run(t.Context(), "x", w.time("2026-11-23T09:10:00Z")); err != nil {
			t.Fatal(n, err)
		}
		w.end(true)
	}
	w.look()
	w.turn("2026-11-23T09:20:00Z", "2026-11-23T06:00", "2026-11-23T08:00", "run-1", "run-2", "run-3", "run-4", "run-5", "run-6", "run-7")
}

// However often its times come, a schedule is told of that has sent nothing for a while.
func TestFrequentMisses(t *testing.T) {
	w := begin(t, strings.Replace(hourly, "0 * * * *", "* * * * *", 1))
	w.up("2026-11-23T05:10:00Z")
	w.turn("2026-11-23T05:11:00Z", "2026-11-23T05:11")
	w.standing("2026-11-23T05:12:30Z", "nothing was sent for 2026-11-23T05:12: task-.* has not ended!")
	w.end(true)
	w.standing("2026-11-23T05:12:30Z", "")
	w.standing("2026-11-23T05:16:59Z", "")
	w.standing("2026-11-23T05:17:00Z", "nothing was sent for 2026-11-23T05:12: no mbox up was there in time, or what it sent was refused")
	w.standing("2026-11-23T07:30:00Z", "nothing was sent for 2026-11-23T07:25: no mbox up was there in time, or what it sent was refused")
}

// standing wants one problem; one that ends in ! is an alarm.
func (w *world) standing(now, want string) {
	w.Helper()
	w.look()
	all, err := w.table.Standings(w.Context(), w.time(now))
	if err != nil || len(all) != 1 {
		w.Fatalf("%v, %v", all, err)
	}
	got := all[0].Problem
	if all[0].Alarm {
		got += "!"
	}
	first, last, _ := strings.Cut(want, ".*")
	if !strings.HasPrefix(got, first) || !strings.HasSuffix(got, last) || want == "" && got != "" {
		w.Errorf("at %s it stands: %q, want %q", now, got, want)
	}
}

// A schedule of which the last three tasks failed is an alarm, once; so is one whose
// task is refused, which is not tried again.
func TestAlwaysFails(t *testing.T) {
	w := begin(t, hourly)
	w.up("2026-11-23T05:10:00Z")
	var sent []string
	for hour := 6; hour < 11; hour++ {
		tick := fmt.Sprintf("2026-11-23T%02d:00", hour)
		sent = append(sent, tick)
		w.turn(tick+":00Z", sent...)
		w.end(hour == 6)
		w.turn(tick+":05Z", sent...)
		if got := len(w.alarms()); got != min(1, max(0, hour-8)) {
			t.Errorf("after %s there are %d alarms: %q", tick, got, w.alarms())
		}
	}
	if got := w.alarms(); !strings.Contains(got[0], "schedule x: its last 3 tasks have failed: task-") {
		t.Errorf("the alarm is %q", got)
	}
	w.standing("2026-11-23T10:10:00Z", "its last 3 tasks have failed: task-.*!")
	w.look()
	w.turn("2026-11-23T11:00:00Z", append(sent, "2026-11-23T11:00")...)
	w.end(true)
	w.standing("2026-11-23T11:10:00Z", "")

	w.refuses = errNotAllowed
	before := len(w.ticks())
	for range 3 {
		w.table.Turn(t.Context(), w.time("2026-11-23T12:00:01Z"))
	}
	if got := w.alarms(); len(w.ticks()) != before || len(got) != 2 || !strings.Contains(got[1], "the task for 2026-11-23T12:00 is refused: not allowed") {
		t.Errorf("the alarms are %q", got)
	}
	w.refuses = nil
	w.standing("2026-11-23T12:10:00Z", "nothing was sent for 2026-11-23T12:00: .*")
}

var errNotAllowed = errors.New("not allowed")

// What cannot be sent now is tried again, and told once.
func TestTriedAgain(t *testing.T) {
	w := begin(t, hourly+"catch_up = 'one'\n")
	w.up("2026-11-23T05:10:00Z")
	w.refuses = context.DeadlineExceeded
	w.turn("2026-11-23T06:00:00Z")
	w.turn("2026-11-23T06:00:05Z")
	if len(w.said) != 1 || len(w.alarms()) != 0 {
		t.Errorf("said %q, alarms %q", w.said, w.alarms())
	}
	w.refuses = nil
	w.turn("2026-11-23T06:00:10Z", "2026-11-23T06:00")
}

// One time that had passed when it was added never comes, and that is told.
func TestNeverComes(t *testing.T) {
	w := begin(t, "[schedules.x]\nat = '2026-11-23T05:00'\nzone = 'UTC'\ntitle = 'Once'\ncatch_up = 'all'\n")
	w.up("2026-11-23T05:10:00Z")
	w.turn("2026-11-23T05:10:00Z")
	w.standing("2026-11-23T05:20:00Z", "its time had passed when it was added: it never comes!")
	w = begin(t, "[schedules.x]\nat = '2026-11-23T05:00'\nzone = 'UTC'\ntitle = 'Once'\ncatch_up = 'all'\n")
	w.up("2026-11-23T04:10:00Z")
	w.standing("2026-11-23T05:10:00Z", "nothing was sent for 2026-11-23T05:00: no mbox up.*!")
	w.up("2026-11-23T05:10:00Z")
	w.turn("2026-11-23T05:10:00Z", "2026-11-23T05:00")
	w.end(true)
	w.standing("2026-11-24T05:10:00Z", "")
}
