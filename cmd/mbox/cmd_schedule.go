package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/schedule"
	"mbox/cmd/mbox/timetable"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/task"
	"mbox/schemas"
)

func scheduleVerb() *verb {
	return &verb{
		name:  "schedule",
		brief: "send tasks at their times, again and again",
		about: `A schedule has mbox up send a task again and again, by a cron line or an interval,
or once (mbox help schedules). Each is a table [schedules.NAME] in mbox.toml or in a
file of mbox.d, which a running mbox up reads again at once.`,
		verbs: []*verb{scheduleAddVerb(), scheduleListVerb(), scheduleRmVerb(), scheduleRunVerb(), scheduleSwitchVerb("pause", false), scheduleSwitchVerb("resume", true)},
	}
}

type scheduleOptions struct {
	cron, at, zone, to, description, action, params string
	every                                           config.Duration
	kind, priority, catchUp                         choice
	labels                                          labels
	overlap, json                                   bool
}

func scheduleAddVerb() *verb {
	words := make([]string, len(schedule.CatchUps))
	for i, w := range schedule.CatchUps {
		words[i] = string(w)
	}
	o := scheduleOptions{kind: oneOf(task.Types...), priority: oneOf(task.Priorities...), catchUp: oneOf(words...)}
	return &verb{
		name: "add", args: "NAME TITLE", least: 2, most: 2,
		brief: "add a schedule",
		about: `Writes a schedule into mbox.d/schedule.NAME.toml, and says when it is due first. It
says when by --cron (minute, hour, day of the month, month, day of the week), --every,
or --at for one time. Beside --every --at is when the interval begins.

A change record tells of it. It is for people: an agent's process is refused, as mbox
approve refuses it.`,
		shows: []string{
			`mbox schedule add nightly "Nightly report" --cron "30 2 * * 1-5" --zone Europe/Berlin --to coder`,
			`mbox schedule add pulse "Is the site up?" --every 15m --priority low --catch-up one`,
			`mbox schedule add launch "Announce it" --at 2030-02-16T10:30`,
		},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			textFlag("cron", "a cron `LINE`, or @daily and the like", &o.cron),
			valueFlag("every", "an interval: `DURATION`", &o.every),
			textFlag("at", "one `TIME`, such as 2030-02-16T10:30", &o.at),
			textFlag("zone", "in which `ZONE` cron and at are (that of this machine)", &o.zone),
			valueFlag("catch-up", "what of the times that were missed is made up for: `RULE` is skip, one or all (skip)", &o.catchUp),
			boolFlag("overlap", "send a task although the one before has not ended", &o.overlap),
			filledFlag("to", "the `AGENT` that is to do it, or any (any)", &o.to),
			textFlag("description", "all that there is to say about it: `TEXT`", &o.description),
			valueFlag("type", "`TYPE` is research, action, analysis or other (other)", &o.kind),
			valueFlag("priority", "`P` is low, normal, high or urgent (normal)", &o.priority),
			valueFlag("label", "`KEY=VALUE`; may be repeated", &o.labels),
			textFlag("action", "the `ACTION` that is done without thinking", &o.action),
			textFlag("params", "its parameters: a `JSON` object", &o.params),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			return planning.with(ctx, s, func(box *mailbox.Box) error { return o.add(ctx, s, box, args[0], args[1]) })
		},
	}
}

func (o *scheduleOptions) add(ctx context.Context, s *session, box *mailbox.Box, name, title string) error {
	if s.config.Schedules[name] != nil {
		file, line := config.StandsIn(s.config, name)
		return hint(fmt.Errorf("schedule %s: %w: it stands in %s:%d", name, mailbox.ErrConflict, file, line), "mbox schedule rm %s, or another name", name)
	}
	one := &config.Schedule{
		Cron: o.cron, Every: o.every, At: o.at, Zone: o.zone, CatchUp: o.catchUp.value, Overlap: o.overlap,
		Title: title, Description: o.description, To: o.to, Type: o.kind.value, Priority: o.priority.value, Labels: o.labels,
	}
	one.Action.Name = o.action
	if o.params != "" && o.action == "" {
		return usagef("mbox schedule add NAME TITLE --action http_check --params …", "--params are those of an action, and there is no --action")
	}
	if o.params != "" {
		if err := schemas.Decode([]byte(o.params), &one.Action.Params); err != nil {
			return usagef(`--params '{"url":"http://127.0.0.1:8080/"}'`, "--params: %v", err)
		}
	}
	text, err := config.ScheduleText(name, one)
	if err != nil {
		return err
	}
	file := config.ScheduleFile(name)
	next, err := config.With(box.Home(), file, text)
	if err != nil {
		return ofFlags(err, name, filepath.Join(box.Home(), file))
	}
	first, comes := next.Schedules[name].Rule().Next(time.Now())
	if !comes {
		return usagef("a time that lies ahead", "--at %s has passed", clean(o.at, 60))
	}
	if err := addFile(filepath.Join(box.Home(), file), text, box.Options().Sync); err != nil {
		return err
	}
	id, err := recordSchedules(ctx, box, next, name, "is added", "mbox schedule add")
	if err != nil && !errors.Is(err, mailbox.ErrCommitted) {
		return fmt.Errorf("schedule %s is added, and no record tells of it: %w", name, err)
	}
	err = errors.Join(err, doubtCalled(s, box, one.To))
	if o.json {
		return errors.Join(s.printLine(map[string]any{"name": name, "file": file, "next": first.At, "record": id}), err)
	}
	s.printf("%s\n", file)
	s.done("schedule %s is added; it is due first at %s; %s", name, schemas.LocalTime(first.At), id)
	doubtRouter(s, box)
	return err
}

// doubtRouter tells that nothing is sent while no mbox up runs.
func doubtRouter(s *session, box *mailbox.Box) {
	if !box.Routed() {
		s.warnf("mbox up does not run for this mailbox: nothing is sent until it does")
	}
}

// ofFlags makes of an error about the table that flags would be the error about these.
func ofFlags(err error, name, path string) error {
	var bad *config.Error
	if !errors.As(err, &bad) || bad.File != path {
		return err
	}
	problem := strings.TrimPrefix(bad.Problem, "schedules."+name)
	if problem == bad.Problem {
		return usagef("mbox schedule add --help", "%s", problem)
	}
	key, what, _ := strings.Cut(strings.TrimPrefix(problem, "."), ": ")
	advice := cmp.Or(bad.Hint, "mbox schedule add --help")
	switch key {
	case "":
		return usagef("a name such as nightly", "NAME: %s", what)
	case "title":
		return usagef(advice, "TITLE: %s", what)
	case "labels":
		key = "label"
	case "action.name":
		key = "action"
	}
	return usagef(advice, "--%s: %s", strings.ReplaceAll(key, "_", "-"), what)
}

// addFile makes a file of the configuration, whole or not at all. One of its name stays.
func addFile(path string, text []byte, mode durable.Mode) error {
	if err := durable.MkdirAll(filepath.Dir(path), mode); err != nil {
		return err
	}
	staged := path + ".new"
	if err := durable.RemoveIfThere(staged); err != nil {
		return err
	}
	err := durable.Stage(staged, text, mode)
	if err == nil {
		err = durable.Move(staged, path)
	}
	if errors.Is(err, fs.ErrExist) {
		return errors.Join(fmt.Errorf("%s: %w: somebody has made it meanwhile", path, mailbox.ErrConflict), durable.RemoveIfThere(staged))
	}
	if err != nil {
		return errors.Join(err, durable.RemoveIfThere(staged))
	}
	return durable.SyncDir(filepath.Dir(path), mode)
}

// recordSchedules records what a command has changed. What a crash cuts off mbox up
// records when it takes the file over.
func recordSchedules(ctx context.Context, box *mailbox.Box, c *config.File, name, what, command string) (string, error) {
	return timetable.Record(ctx, box, c, time.Now(), name+" "+what+".", "Somebody has said "+command+", from "+door()+".")
}

func scheduleListVerb() *verb {
	var inJSON bool
	return &verb{
		name:  "list",
		brief: "list the schedules, and how they stand",
		about: `Lists the schedules by name: when each is due next, what it sent last and what came of
that. What is wrong is told on stderr. With --json each line is one schedule.`,
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{jsonFlag(&inJSON)},
		run: func(ctx context.Context, s *session, _ []string) error {
			return s.looking(ctx, func(box *mailbox.Box) error {
				t, err := timetable.New(ctx, box, s.config)
				if err != nil {
					return err
				}
				all, err := t.Standings(ctx, time.Now())
				if err != nil {
					return err
				}
				if inJSON {
					return s.printLines(len(all), func(i int) any { return all[i] })
				}
				printStandings(s, all)
				if len(all) > 0 {
					doubtRouter(s, box)
				}
				return nil
			})
		},
	}
}

func printStandings(s *session, all []timetable.Standing) {
	t := table{head: []string{"NAME", "WHEN", "NEXT", "LAST", "TASK", "CAME OUT", "TITLE"}}
	for _, one := range all {
		next, last, id, state := "-", "-", "-", "-"
		switch {
		case !one.Enabled:
			next = "paused"
		case one.Next != nil:
			next = schemas.LocalTime(*one.Next)
		}
		if one.Last != nil {
			id, state = string(one.Last.Task), cmp.Or(string(one.Last.State), "archived")
			if one.Last.At != nil {
				last = schemas.LocalTime(*one.Last.At)
			}
		}
		t.add(text(one.Name), text(one.When), text(next), text(last), text(id), text(state), text(one.Title))
	}
	t.printIfAny(s, "there is no schedule; mbox schedule add makes one")
	for _, one := range all {
		if one.Problem != "" {
			s.warnf("schedule %s: %s", one.Name, clean(one.Problem, maxLine))
		}
	}
}

// scheduleNamed is a schedule of the configuration.
func scheduleNamed(s *session, name string) (*config.Schedule, error) {
	if one := s.config.Schedules[name]; one != nil {
		return one, nil
	}
	err := fmt.Errorf("there is no schedule %s: %w", schemas.Quote(name), mailbox.ErrNotFound)
	if near := schemas.Suggest(name, slices.Sorted(maps.Keys(s.config.Schedules))); near != "" {
		return nil, hint(err, "did you mean %s?", near)
	}
	return nil, hint(err, "mbox schedule list shows those there are")
}

func scheduleRmVerb() *verb {
	var inJSON bool
	return &verb{
		name: "rm", args: "NAME", least: 1, most: 1,
		brief: "take a schedule away",
		about: `Removes the file that mbox schedule add has written. Tasks that were sent stay. A
schedule that stands elsewhere is not removed: the error names the place. A change
record tells of it. Like adding one it is for people.`,
		shows: []string{"mbox schedule rm nightly"},
		exits: []int{exitNotFound, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{jsonFlag(&inJSON)},
		words: scheduleWords,
		run: func(ctx context.Context, s *session, args []string) error {
			return planning.with(ctx, s, func(box *mailbox.Box) error {
				name := args[0]
				if _, err := scheduleNamed(s, name); err != nil {
					return err
				}
				file := config.ScheduleFile(name)
				if at, line := config.StandsIn(s.config, name); at != file {
					return &config.Error{
						File: filepath.Join(box.Home(), at), Line: line, Hint: "take it out there by hand, or mbox schedule pause in its place: enabled = false",
						Problem: fmt.Sprintf("[schedules.%s] was not written by mbox schedule add", name),
					}
				}
				next, err := config.With(box.Home(), file, nil)
				if err != nil {
					return err
				}
				path := filepath.Join(box.Home(), file)
				if err := errors.Join(durable.Remove(path), durable.SyncDir(filepath.Dir(path), box.Options().Sync)); err != nil {
					return err
				}
				return changed(ctx, s, box, next, name, inJSON, "is removed", "mbox schedule rm")
			})
		},
	}
}

// changed records and tells what a command has done to a schedule.
func changed(ctx context.Context, s *session, box *mailbox.Box, next *config.File, name string, inJSON bool, what, command string) error {
	id, err := recordSchedules(ctx, box, next, name, what, command)
	if err != nil && !errors.Is(err, mailbox.ErrCommitted) {
		return fmt.Errorf("schedule %s %s, and no record tells of it: %w", name, what, err)
	}
	return errors.Join(s.told(inJSON, scheduleLine{name, id}, "schedule %s %s; %s", name, what, cmp.Or(id, "no record was needed")), err)
}

// scheduleLine is what --json prints of a schedule that a command has changed.
type scheduleLine struct {
	Name   string `json:"name"`
	Record string `json:"record,omitzero"` // "" where none was needed
}

func scheduleRunVerb() *verb {
	var inJSON bool
	return &verb{
		name: "run", args: "NAME", least: 1, most: 1,
		brief: "send the task of a schedule now",
		about: `Sends what the schedule sends, now, and prints the task's id; its times stay. While a
task of it has not ended that is refused with exit code 5, unless the schedule may
overlap. Like adding a schedule it is for people.`,
		shows: []string{"mbox schedule run nightly"},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{jsonFlag(&inJSON)},
		words: scheduleWords,
		run: func(ctx context.Context, s *session, args []string) error {
			return planning.with(ctx, s, func(box *mailbox.Box) error {
				if _, err := scheduleNamed(s, args[0]); err != nil {
					return err
				}
				t, err := timetable.New(ctx, box, s.config)
				if err != nil {
					return err
				}
				id, err := t.Run(ctx, args[0], time.Now())
				if errors.Is(err, timetable.ErrUnfinished) {
					return hint(fmt.Errorf("%w: %w", mailbox.ErrConflict, err), "mbox why %s, or mbox cancel %s", id, id)
				}
				if err != nil && !errors.Is(err, mailbox.ErrCommitted) {
					return err
				}
				to := s.config.Schedules[args[0]].To
				if a, failed := mailbox.AgentOf(box, to); failed == nil && a.State == lifecycle.Dead {
					s.warnf("%s waits for %s, which is dead; mbox agent restore %[2]s brings it back", id, to)
				}
				if inJSON {
					return errors.Join(s.printLine(map[string]any{"id": id}), err)
				}
				s.printf("%s\n", id)
				return err
			})
		},
	}
}

func scheduleSwitchVerb(verbName string, on bool) *verb {
	var inJSON bool
	v := &verb{
		name: verbName, args: "NAME", least: 1, most: 1,
		brief: "have a schedule send nothing for a while",
		about: `Sets enabled = false in the file that mbox schedule add has written. A time that comes
while the schedule is paused is not made up for. A change record tells of it. Like
adding one it is for people.`,
		shows: []string{"mbox schedule pause nightly"},
		exits: []int{exitNotFound, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{jsonFlag(&inJSON)},
		words: scheduleWords,
	}
	what := "is paused"
	if on {
		v.brief = "have a paused schedule send again"
		v.about = `Sets enabled = true in the file that mbox schedule add has written: what comes from
now on is sent. A change record tells of it. Like adding one it is for people.`
		v.shows, what = []string{"mbox schedule resume nightly"}, "is resumed"
	}
	v.run = func(ctx context.Context, s *session, args []string) error {
		return planning.with(ctx, s, func(box *mailbox.Box) error {
			return switchSchedule(ctx, s, box, args[0], on, inJSON, what, "mbox schedule "+verbName)
		})
	}
	return v
}

func switchSchedule(ctx context.Context, s *session, box *mailbox.Box, name string, on, inJSON bool, what, command string) error {
	one, err := scheduleNamed(s, name)
	if err != nil {
		return err
	}
	if one.Enabled == on {
		return s.told(inJSON, scheduleLine{Name: name}, "schedule %s %s already", name, what)
	}
	text, err := config.Switched(s.config, name, on)
	if err != nil {
		return err
	}
	file := config.ScheduleFile(name)
	next, err := config.With(box.Home(), file, text)
	if err != nil {
		return err
	}
	if err := durable.Replace(filepath.Join(box.Home(), file), text, box.Options().Sync); err != nil {
		return err
	}
	return changed(ctx, s, box, next, name, inJSON, what, command)
}

// scheduleWords completes the names of schedules.
func scheduleWords(s *session) []string {
	c := configOf(s)
	if c == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(c.Schedules))
}
