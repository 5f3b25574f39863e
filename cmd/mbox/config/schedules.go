package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"mbox/audit"
	"mbox/cmd/mbox/schedule"
	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Schedule is a table [schedules.NAME]: a task that mbox up sends again and again, or
// once.
type Schedule struct {
	Enabled bool     `toml:"enabled" json:"enabled,omitzero" jsonschema:"default=true,description=false: nothing is sent"`
	Cron    string   `toml:"cron" json:"cron,omitzero" jsonschema:"description=minute\\, hour\\, day of the month\\, month and day of the week; or @daily and the like"`
	Every   Duration `toml:"every" json:"every,omitzero" jsonschema:"description=an interval\\, 1s to 366d"`
	At      string   `toml:"at" json:"at,omitzero" jsonschema:"description=one time\\, such as 2026-02-16T10:30; beside every: when the interval begins"`
	Zone    string   `toml:"zone" json:"zone,omitzero" jsonschema:"description=in which cron and at are\\, such as Europe/Berlin; the machine's where none is named"`
	CatchUp string   `toml:"catch_up" json:"catch_up,omitzero" jsonschema:"enum=skip,enum=one,enum=all,default=skip,description=which of the times that were missed are made up for"`
	Overlap bool     `toml:"overlap" json:"overlap,omitzero" jsonschema:"default=false,description=a task is sent although the one before has not ended"`

	Title       string            `toml:"title" json:"title,omitzero" jsonschema:"description=of the task"`
	Description string            `toml:"description" json:"description,omitzero" jsonschema:"description=of the task"`
	To          string            `toml:"to" json:"to,omitzero" jsonschema:"default=any,description=the agent that is to do it"`
	Type        string            `toml:"type" json:"type,omitzero" jsonschema:"enum=research,enum=action,enum=analysis,enum=other,default=other,description=of the task"`
	Priority    string            `toml:"priority" json:"priority,omitzero" jsonschema:"enum=low,enum=normal,enum=high,enum=urgent,default=normal,description=of the task"`
	Labels      map[string]string `toml:"labels" json:"labels,omitzero" jsonschema:"description=of the task"`
	Action      ScheduleAction    `toml:"action" json:"action,omitzero" jsonschema:"description=what is done without thinking"`

	rule *schedule.Rule
}

// ScheduleAction is an action that a schedule's tasks carry.
type ScheduleAction struct {
	Name   string         `toml:"name" json:"name,omitzero" jsonschema:"description=which one; mbox help actions lists them"`
	Params map[string]any `toml:"params" json:"params,omitzero" jsonschema:"description=its parameters"`
}

// defaultSchedule is what holds where a table says nothing.
func defaultSchedule() Schedule { return Schedule{Enabled: true, CatchUp: string(schedule.Skip)} }

func fillSchedules(c *File) {
	def := defaultSchedule()
	for name, s := range c.Schedules {
		for _, field := range []struct {
			key  string
			fill func()
		}{{"enabled", func() { s.Enabled = def.Enabled }}, {"catch_up", func() { s.CatchUp = def.CatchUp }}} {
			if !c.has("schedules." + name + "." + field.key) {
				field.fill()
			}
		}
	}
}

// checkSchedules refuses what makes no sense, and reads when each is due.
func checkSchedules(c *File) error {
	return checkTables(c, "schedules", "schedule", c.Schedules, func(key string, s *Schedule) error {
		if c.has(key + ".every") {
			if err := c.checkSpan(key+".every", s.Every, time.Second, 366*24*time.Hour); err != nil {
				return err
			}
		}
		words := make([]string, len(schedule.CatchUps))
		for i, w := range schedule.CatchUps {
			words[i] = string(w)
		}
		if err := c.checkWord(key+".catch_up", s.CatchUp, words); err != nil {
			return err
		}
		var err error
		s.rule, err = schedule.Parse(schedule.Spec{Cron: s.Cron, Every: time.Duration(s.Every), At: s.At, Zone: s.Zone})
		var bad *schedule.Error
		if errors.As(err, &bad) {
			return c.wrong(key+"."+bad.Key, "%s", bad.Problem)
		}
		return checkScheduled(c, key, s)
	})
}

// checkScheduled holds the task of a schedule against what holds for every task.
func checkScheduled(f *File, key string, s *Schedule) error {
	if s.Action.Name == "" && len(s.Action.Params) > 0 {
		return f.wrong(key+".action", "there are parameters, and no action: want a name")
	}
	t, err := s.Task()
	if err == nil {
		t.Complete(time.Unix(0, 0), time.Unix(0, 0), "human", 1)
		err = t.Validate()
	}
	var bad *schemas.Error
	if !errors.As(err, &bad) {
		return err
	}
	at := map[string]string{"assignment.target_agent": "to", "mbox.labels": "labels", "mbox.action.name": "action.name"}
	field, known := at[bad.Path]
	if !known {
		field = strings.TrimPrefix(bad.Path, "task.")
	}
	return advise(f.wrong(key+"."+field, "%s", bad.Problem), "want %s", bad.Want)
}

// Task is what the schedule sends.
func (s *Schedule) Task() (*mailbox.Task, error) {
	t := &mailbox.Task{Task: mailbox.Request{Type: s.Type, Priority: s.Priority, Title: s.Title, Description: s.Description}}
	t.Source.Agent, t.Assignment.TargetAgent = "human", s.To
	if len(s.Labels) > 0 {
		data, err := schemas.Encode(s.Labels)
		if err != nil {
			return nil, err
		}
		t.Mbox.Labels = data
	}
	if s.Action.Name == "" {
		return t, nil
	}
	t.Mbox.Action = &task.Action{Name: s.Action.Name}
	if s.Action.Params != nil {
		data, err := schemas.Encode(s.Action.Params)
		if err != nil {
			return nil, err
		}
		t.Mbox.Action.Params = data
	}
	return t, nil
}

// Rule tells when the schedule is due.
func (s *Schedule) Rule() *schedule.Rule { return s.rule }

// When says in words for people when it is due.
func (s *Schedule) When() string {
	var words []string
	if s.Cron != "" {
		words = append(words, s.Cron)
	}
	if s.Every != 0 {
		words = append(words, "every "+s.Every.String())
	}
	if s.At != "" && s.Every != 0 {
		words = append(words, "from "+s.At)
	} else if s.At != "" {
		words = append(words, "at "+s.At)
	}
	return strings.TrimSpace(strings.Join(append(words, s.Zone), " "))
}

// Mark is a hash of when the schedule is due and what it does about times that were
// missed: with another one it begins anew.
func (s *Schedule) Mark() string {
	text := fmt.Sprintf("%q %d %q %q %q", s.Cron, s.Every, s.At, s.Zone, s.CatchUp)
	return audit.Hash([]byte(text))[:len("sha256:")+16]
}

// ScheduleFile is the file, from the home, in which mbox keeps a schedule that it was
// told to add.
func ScheduleFile(name string) string { return Dir + "/schedule." + name + ".toml" }

// ScheduleText is the text of such a file.
func ScheduleText(name string, s *Schedule) ([]byte, error) {
	written := map[string]any{}
	for _, f := range []struct {
		key   string
		value any
		set   bool
	}{
		{"cron", s.Cron, s.Cron != ""},
		{"every", Span(time.Duration(s.Every)), s.Every != 0},
		{"at", s.At, s.At != ""},
		{"zone", s.Zone, s.Zone != ""},
		{"catch_up", s.CatchUp, s.CatchUp != ""},
		{"overlap", true, s.Overlap},
		{"title", s.Title, true},
		{"description", s.Description, s.Description != ""},
		{"to", s.To, s.To != ""},
		{"type", s.Type, s.Type != ""},
		{"priority", s.Priority, s.Priority != ""},
		{"labels", s.Labels, len(s.Labels) > 0},
	} {
		if f.set {
			written[f.key] = f.value
		}
	}
	if s.Action.Name != "" {
		written["action"] = map[string]any{"name": s.Action.Name, "params": s.Action.Params}
	}
	return toml.Marshal(map[string]any{"schedules": map[string]any{name: written}})
}

// StandsIn is the place of a schedule's table: the file, from the home, and its line.
func StandsIn(c *File, name string) (file string, line int) {
	at := c.at("schedules." + name)
	return at.name, at.line
}

// With is the configuration of a home as it would be with a file of this text in it;
// nil is a file that is gone. Nothing is written.
func With(home, name string, text []byte) (*File, error) {
	files, err := sources(home)
	if err != nil {
		return nil, err
	}
	return parse(filepath.Join(home, Name), instead(files, home, name, text), os.Getenv)
}

// instead are sources with another text of a file; nil is a file that is gone.
func instead(files []source, home, name string, text []byte) []source {
	files = slices.Clone(files)
	i := slices.IndexFunc(files, func(s source) bool { return s.name == name })
	switch with := (source{path: filepath.Join(home, name), name: name, data: text}); {
	case text == nil && i >= 0:
		files[i].gone = true
	case i >= 0:
		files[i] = with
	case text != nil:
		files = append(files, with)
	}
	return files
}

// Switched is the text of the file that mbox keeps a schedule in, with enabled set.
// What else stands there stays. An error says that the table stands elsewhere, or not
// as mbox writes it.
func Switched(c *File, name string, on bool) ([]byte, error) {
	key := "schedules." + name
	head := c.where[key]
	if head.source == nil || head.name != ScheduleFile(name) {
		at := c.at(key)
		return nil, &Error{File: at.path, Line: at.line, Problem: fmt.Sprintf("[%s] was not written by mbox schedule add", key), Hint: fmt.Sprintf("set enabled = %t there by hand", on)}
	}
	text, err := setKey(c, head.data, key, "enabled", on)
	if err != nil {
		return nil, &Error{File: head.path, Line: head.line, Problem: "the table is not written as mbox schedule add writes it", Hint: fmt.Sprintf("set enabled = %t there by hand", on)}
	}
	return text, nil
}
