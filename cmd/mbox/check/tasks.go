package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mbox/agents/chat"
	"mbox/agents/life"
	"mbox/audit"
	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/timetable"
	"mbox/mailbox"
	"mbox/mailbox/home"
	"mbox/mailbox/lifecycle"
	"mbox/schemas"
)

func (e *Exam) readOnly() {
	if err := audit.CheckWritable(e.Home); err != nil {
		way := "when the disk is well again: mbox recover --after-io-error"
		if errors.Is(err, audit.ErrDamaged) {
			way = WayOut
		}
		e.add("writable", Wrong, way, "%v", err)
		return
	}
	e.add("writable", Fine, "", "the mailbox is not read-only")
}

// leftovers looks at what a crash may have left, before anything is opened:
// the next command that opens the mailbox settles it.
func (e *Exam) leftovers() {
	stale, err := e.staleLeases()
	e.left("leases", stale, err, "mbox recover removes them", "%d without a task in progress: %s", "each belongs to a task in progress")
	begun, err := twice(func() ([]string, error) { return home.Interrupted(e.Home) })
	e.left("intents", begun, err, "the next command settles them", "%d were left in the middle of a transition: %s", "nothing was left in the middle of a transition")
}

// left adds a finding about what a crash has left of a kind, or that it left none.
func (e *Exam) left(check string, names []string, err error, hint, some, none string) {
	switch {
	case !e.check(check, err):
	case len(names) > 0:
		e.add(check, Doubt, hint, some, len(names), few(names))
	default:
		e.add(check, Fine, "", "%s", none)
	}
}

func few(names []string) string {
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// staleLeases are lease files whose task is not in progress, twice in a row.
func (e *Exam) staleLeases() ([]string, error) {
	look := func() ([]string, error) {
		entries, err := os.ReadDir(filepath.Join(e.Home, ".mbox", "leases"))
		if err != nil {
			return nil, err
		}
		var stale []string
		for _, f := range entries {
			id := strings.TrimSuffix(f.Name(), filepath.Ext(f.Name()))
			if _, err := os.Lstat(filepath.Join(e.Home, "tasks", "in-progress", id+".json")); errors.Is(err, os.ErrNotExist) {
				stale = append(stale, f.Name())
			}
		}
		return stale, nil
	}
	return twice(look)
}

// twice keeps what was seen at two looks a moment apart.
func twice(look func() ([]string, error)) ([]string, error) {
	first, err := look()
	if err != nil || len(first) == 0 {
		return nil, err
	}
	time.Sleep(200 * time.Millisecond)
	second, err := look()
	return slices.DeleteFunc(second, func(s string) bool { return !slices.Contains(first, s) }), err
}

// tasks opens the mailbox and looks at the clock and at what waits.
func (e *Exam) tasks(ctx context.Context) {
	box, err := mailbox.Open(ctx, e.Home, e.options)
	if err != nil {
		e.fault(Mailbox, "it cannot be opened: ", err)
		return
	}
	defer box.Close()
	if gone := box.InPlace(); gone != nil {
		e.fault("tasks", "", gone)
	}
	switch {
	case box.Routed():
		e.add("router", Fine, "", "mbox up serves this mailbox")
	case mailbox.Halted(box):
		e.add("router", Doubt, "kill -CONT its process, or end it", "an mbox up has given no sign of life for a while: every command does its work in its place")
	default:
		e.add("router", Fine, "", "none: every command does its work when it is called")
	}
	for _, err := range mailbox.Unsettled(box) {
		e.fault("intents", "", err)
	}
	e.drops(box)
	e.clock(box)
	e.agents(box)
	e.waiting(ctx, box)
	e.delivery(box)
	e.schedules(ctx, box)
}

// drops names what lies in pending, is no task, and cannot be put away.
func (e *Exam) drops(box *mailbox.Box) {
	names, err := mailbox.Unexpected(box, mailbox.Pending)
	if !e.check("drops", err) {
		return
	}
	slices.Sort(names)
	found := 0
	for _, name := range names {
		text, hint := Pinned(e.Home, name)
		if text == "" {
			continue
		}
		if found++; found <= 10 {
			e.add("drops", Doubt, hint, "%s", text)
		}
	}
	switch {
	case found == 0:
		e.add("drops", Fine, "", "all that is dropped can be taken in or put away")
	case found > 10:
		e.add("drops", Doubt, "", "and %d more", found-10)
	}
}

// schedules looks at what schedules sent, and at when nothing was sent.
func (e *Exam) schedules(ctx context.Context, box *mailbox.Box) {
	if e.Config == nil || len(e.Config.Schedules) == 0 {
		return
	}
	found, err := Schedules(ctx, e.Config, box)
	if !e.check("schedules", err) {
		return
	}
	wrong := len(found)
	e.Findings = append(e.Findings, found...)
	if !box.Routed() {
		wrong++
		e.add("schedules", Doubt, "mbox up, which has to run all the time", "no mbox up runs: nothing is sent")
	}
	if wrong == 0 {
		e.add("schedules", Fine, "", "%d: mbox schedule list", len(e.Config.Schedules))
	}
}

// Schedules tells what is wrong with schedules: Wrong is what does not pass by itself.
func Schedules(ctx context.Context, c *config.File, box *mailbox.Box) (found []Finding, err error) {
	if len(c.Schedules) == 0 {
		return nil, nil
	}
	t, err := timetable.New(ctx, box, c)
	if err != nil {
		return nil, err
	}
	all, err := t.Standings(ctx, time.Now())
	for _, one := range all {
		level := Doubt
		if one.Alarm {
			level = Wrong
		}
		if one.Problem != "" {
			found = append(found, Finding{Check: "schedules", Level: level, Text: one.Name + ": " + one.Problem, Hint: "mbox schedule list"})
		}
	}
	return found, err
}

// lateAfter is how long a result may wait to be delivered.
const lateAfter = time.Hour

// delivery looks for results that were given up, and for such that wait long, where
// there is or was a bridge.
func (e *Exam) delivery(box *mailbox.Box) {
	_, ran := os.Lstat(home.Private(e.Home, "bridges"))
	if ran != nil && (e.Config == nil || len(e.Config.Bridges) == 0) {
		return
	}
	left, err := chat.Undelivered(box)
	if !e.check("delivery", err) {
		return
	}
	dead := slices.DeleteFunc(slices.Clone(left), func(r *chat.Result) bool { return r.Dead == "" })
	late := slices.DeleteFunc(slices.Clone(left), func(r *chat.Result) bool { return r.Dead != "" || time.Since(r.At.Time) < lateAfter })
	if len(dead) > 0 {
		e.add("delivery", Doubt, "mbox deliver --list names them; mbox deliver --retry "+string(dead[0].ID)+" sends one again", "%d results were given up: %s: %s", len(dead), dead[0].ID, dead[0].Dead)
	}
	if len(late) > 0 {
		e.add("delivery", Doubt, "mbox deliver --list names them; mbox bridge "+late[0].Bridge+" --check tells whether it works", "%d results wait to be delivered, the first since %s: %s", len(late), late[0].At, late[0].ID)
	}
	if len(dead)+len(late) == 0 {
		e.add("delivery", Fine, "", "no result was given up, and none has waited for more than %s", config.Span(lateAfter))
	}
}

// clock compares the ledger's last time with the clock.
func (e *Exam) clock(box *mailbox.Box) {
	for line, err := range box.Ledger().Backward() {
		if !e.check("clock", err) {
			return
		}
		if !e.check("clock", line.Sound()) {
			return
		}
		if ahead := time.Until(line.Time()); ahead > time.Second {
			e.add("clock", Doubt, "set the clock; the ledger's order is that of its numbers, whatever the time", "the ledger's last line, %d, lies %s in the future", line.Seq, config.Span(ahead.Round(time.Second)))
			return
		}
		break
	}
	e.add("clock", Fine, "", "not behind the ledger")
}

// agents looks for such that may not claim.
func (e *Exam) agents(box *mailbox.Box) {
	x, err := box.Index()
	if !e.check("agents", err) {
		return
	}
	if e.Config != nil {
		absent, err := Absent(e.Config, box)
		e.check("agents", err)
		e.Findings = append(e.Findings, absent...)
	}
	kept := 0
	for _, name := range slices.Sorted(maps.Keys(x.Agents)) {
		a := x.Agents[name]
		e.claude(box, name)
		if a.Claims() {
			continue
		}
		kept++
		hint := ""
		switch a.State {
		case lifecycle.Paused:
			hint = "mbox agent resume " + schemas.ShellWord(name)
		case lifecycle.Provisioning:
			hint = "mbox up, or mbox worker --agent " + schemas.ShellWord(name) + ", has it begin"
		}
		e.add("agents", Doubt, hint, "%s is %s; tasks that wait for it: %d", name, a, waitingFor(x, name))
	}
	if kept == 0 {
		e.add("agents", Fine, "", "none is paused")
	}
}

// claude tells of an agent whose CLAUDE.md is another than at its birth.
func (e *Exam) claude(box *mailbox.Box, name string) {
	c, err := life.ClaudeOf(box, name)
	if _, gone := os.Lstat(box.AgentDir(name)); c != nil && errors.Is(gone, os.ErrNotExist) {
		e.add("agents", Wrong, "bring it back from a backup; mbox agent show "+schemas.ShellWord(name)+" tells how to make it anew",
			"%s is gone, the home of %s", filepath.Dir(c.File), name)
		return
	}
	if e.check("agents", err) && c.Changed() {
		e.add("agents", Doubt, "mbox agent show "+schemas.ShellWord(name)+" tells how to put it back; if you have changed it, copy it over "+c.Kept,
			"%s is not the one that %s was born with", c.File, name)
	}
}

// waitingFor counts the pending tasks that name an agent.
func waitingFor(x *mailbox.Index, agent string) (n int) {
	for i := range x.Live {
		if l := &x.Live[i]; l.State == mailbox.Pending && l.Target == agent {
			n++
		}
	}
	return n
}

// waiting looks for pending tasks that nobody can take, and for ready ones that
// nobody has taken in time.
func (e *Exam) waiting(ctx context.Context, box *mailbox.Box) {
	const shown = 10
	found, newer := 0, 0
	for item, err := range box.List(ctx, mailbox.Filter{States: []mailbox.State{mailbox.Pending}}) {
		if !e.check("tasks", err) {
			return
		}
		if item.Err != nil {
			id := mailbox.ID(strings.TrimSuffix(filepath.Base(item.Path), ".json"))
			if _, err := mailbox.Stands(ctx, box, id); err != nil {
				continue // it is a drop
			}
			if path, _ := mailbox.Unfit(box.Home(), id); path == "" {
				if newer++; newer <= shown {
					e.add("tasks", Doubt, "", "task %s: a newer mbox wrote it, and only such a one can do it: %v", id, item.Err)
				}
				continue
			}
			if found++; found <= shown {
				e.add("tasks", Wrong, "mbox why "+string(id), "task %s: %v", id, item.Err)
			}
			continue
		}
		byHand := mailbox.ByHand(ctx, box, item)
		if byHand == nil && !e.suspect(item.Task, time.Now()) {
			continue
		}
		if found++; found > shown {
			continue
		}
		if byHand != nil {
			e.fault("tasks", "", byHand)
		} else if !e.stuck(ctx, box, item.Task) {
			found--
		}
	}
	switch {
	case found == 0 && newer == 0:
		e.add("tasks", Fine, "", "every waiting task can be taken, and none has waited for more than %s", config.Span(e.options.StartWithin))
	case found > shown:
		e.add("tasks", Doubt, "mbox ls --state pending", "and perhaps %d more", found-shown)
	}
}

// suspect tells whether a waiting task deserves a closer look.
func (e *Exam) suspect(t *mailbox.Task, now time.Time) bool {
	ready := t.Updated.Time
	if t.Mbox.NotBefore != nil && t.Mbox.NotBefore.After(ready) {
		ready = t.Mbox.NotBefore.Time
	}
	return Nobody(t.Assignment.TargetAgent, actionOf(t), e.options.Agents) != "" || now.Sub(ready) > e.options.StartWithin || len(t.Mbox.DependsOn) > 0
}

// stuck adds a finding where a waiting task is not going to be taken.
func (e *Exam) stuck(ctx context.Context, box *mailbox.Box, t *mailbox.Task) bool {
	reason := Nobody(t.Assignment.TargetAgent, actionOf(t), e.options.Agents)
	if reason == "" {
		why, err := box.Why(ctx, t.ID)
		if errors.Is(err, mailbox.ErrNotFound) || err == nil && len(why.Alarms) == 0 {
			return false
		}
		if !e.check("tasks", err) {
			return true
		}
		reason = why.Alarms[len(why.Alarms)-1]
	}
	e.add("tasks", Doubt, "mbox why "+string(t.ID), "%s: %s", t.ID, reason)
	return true
}

// actionOf is the name of the action that a task carries; "" if it has to be thought
// about.
func actionOf(t *mailbox.Task) string {
	if t.Mbox.Action == nil {
		return ""
	}
	return t.Mbox.Action.Name
}

// Anew is how a drop that was rejected is sent anew, mended; "" where the bytes that were
// dropped are not among the entries of the quarantine.
func Anew(in string, entries []string, id mailbox.ID) string {
	if at := Dropped(in, entries, id); at != "" {
		return MendAnew(at, fmt.Sprintf(" (mbox why %s tells what is wrong)", schemas.ShellWord(string(id))))
	}
	return ""
}

// MendAnew is how what lies in quarantine is sent anew, mended. note is what helps there.
func MendAnew(at, note string) string {
	return fmt.Sprintf("cp %s again.json, mend it there without an id%s, and mbox send again.json", schemas.ShellWord(at), note)
}

// Dropped is where the bytes lie that were dropped as a task which was rejected; "" where
// they are not among the entries of the quarantine.
func Dropped(in string, entries []string, id mailbox.ID) string {
	for _, entry := range entries {
		if !strings.HasPrefix(entry, id.File()+"~") {
			continue
		}
		at := filepath.Join(in, "tasks", "quarantine", entry)
		if why, err := home.ReadReason(at + home.ReasonSuffix); err == nil && why.Task == id && why.Code != home.LateResult {
			return at
		}
	}
	return ""
}

// RunAgent is who does what mbox run runs.
const RunAgent = "shell"

// OnlyHere tells whether mbox run made a task: nobody else has its command.
func OnlyHere(t *mailbox.Task) bool {
	return t.Assignment.TargetAgent == RunAgent && t.Mbox.MaxAttempts == 1 && strings.HasPrefix(t.Task.Description, "$ ")
}

// Nobody tells why no registered agent may take a task that is for target and carries
// an action, or none. An agent that is not registered may take what names it, and what
// names nobody and needs no action.
func Nobody(target, action string, agents map[string]mailbox.Capabilities) string {
	if target != "any" {
		if a, known := agents[target]; known && a.Disabled {
			return fmt.Sprintf("%s is not enabled in mbox.toml", target)
		}
		return ""
	}
	if action == "" {
		return ""
	}
	for _, a := range agents {
		if !a.Disabled && !a.OnlyNamed && slices.Contains(a.Actions, action) {
			return ""
		}
	}
	return fmt.Sprintf("no enabled agent has the action %s", action)
}
