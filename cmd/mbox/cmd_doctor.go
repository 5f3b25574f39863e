package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"mbox/agents"
	"mbox/cmd/mbox/check"
	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/telemetry"
	"mbox/schemas"
)

type doctorOptions struct{ fix, pull, settings, json bool }

func doctorVerb() *verb {
	var o doctorOptions
	return &verb{
		name:  "doctor",
		brief: "look for what is wrong with the mailbox or the machine",
		about: `Looks at folders, modes and owner, the file system and its renames, disk and
memory, docker, clock, limits, the sandbox, the brains of the agents, what crashes left, the
configuration, and tasks that nobody can take or has taken. What is wrong stands
first, then what may be. Something wrong is exit code 1; warnings are 0. --settings
also prints each value of the configuration and where it comes from.

--fix mends what is safe to mend: modes and missing folders, and where space is low
it removes logs that were put aside. --pull fetches models.`,
		shows: []string{"mbox doctor", "mbox doctor --json | jq '.findings[] | select(.level != \"ok\")'"},
		exits: []int{exitNotFound, exitIO, exitBusy},
		flags: []cli.Flag{
			boolFlag("fix", "mend modes and missing folders, and make room", &o.fix),
			boolFlag("pull", "fetch the models that enabled agents ask Ollama for and that it does not have", &o.pull),
			boolFlag("settings", "print what is set, too, and where", &o.settings),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, _ []string) error { return o.run(ctx, s) },
	}
}

func (o *doctorOptions) run(ctx context.Context, s *session) error {
	home, err := s.homeDir()
	if err != nil {
		return err
	}
	e := &check.Exam{Home: home, Fix: o.fix, Progress: s.progress, Kinds: chatKinds()}
	e.Team = func(c *config.File) (_ *agents.Team, err error) {
		s.config = c
		s.team, err = assemble(c, home)
		return s.team, err
	}
	e.Traces = func(c *config.File) (*telemetry.Exporter, error) { return exporter(c, nil, nil) }
	e.Embeds = func(ctx context.Context, agent string) error {
		o, err := embedderOf(s.config, agent)
		if o == nil {
			return err
		}
		return o.Ready(ctx)
	}
	if o.pull {
		e.Pull = func(ctx context.Context) error { return s.pull(ctx, true) }
	}
	if err := e.Run(ctx); err != nil {
		return err
	}
	return o.answer(s, e)
}

func (o *doctorOptions) answer(s *session, e *check.Exam) error {
	s.endProgress()
	bad := 0
	for i, f := range e.Findings {
		if f.Level == check.Wrong {
			bad++
		}
		if f.Err != nil {
			_, e.Findings[i].Hint = s.judged(f.Err)
		} else {
			e.Findings[i].Hint = s.proposes.named(f.Hint)
		}
	}
	if o.json {
		if err := s.printJSON(map[string]any{"home": e.Home, "ok": bad == 0, "findings": e.Findings, "config": s.settings(e)}); err != nil {
			return err
		}
	} else {
		s.printFindings(e, o.settings)
	}
	if bad > 0 {
		return &unwell{schemas.Count(bad, "thing is", "things are") + " wrong"}
	}
	return nil
}

// worst is the order in which findings are printed.
var worst = []check.Level{check.Wrong, check.Doubt, check.Fixed, check.Fine}

func (s *session) printFindings(e *check.Exam, settings bool) {
	slices.SortStableFunc(e.Findings, func(a, b check.Finding) int { return slices.Index(worst, a.Level) - slices.Index(worst, b.Level) })
	paints := map[check.Level]paint{check.Fine: s.paint.green, check.Fixed: s.paint.cyan, check.Doubt: s.paint.yellow, check.Wrong: s.paint.red}
	for _, f := range e.Findings {
		s.printf("%s  %-12s %s\n", paints[f.Level](fmt.Sprintf("%-5s", f.Level)), f.Check, clean(schemas.LocalTimes(f.Text), maxLine))
		if f.Hint != "" {
			s.printf("       %-12s %s\n", "", s.paint.dim(clean(f.Hint, maxLine)))
		}
	}
	if !settings {
		return
	}
	t := table{head: []string{"SETTING", "VALUE", "FROM"}}
	for _, v := range s.settings(e) {
		if v.Plain {
			t.add(text(v.Key), text(v.Value), text(v.From))
		}
	}
	if len(t.rows) > 0 {
		s.printf("\n")
		t.print(s)
	}
}

// settings are the home and what the configuration says.
func (s *session) settings(e *check.Exam) []config.Value {
	from := "--home"
	switch s.home {
	case "":
		from = "default"
	case os.Getenv("MBOX_HOME"):
		from = "MBOX_HOME"
	}
	out := []config.Value{{Key: "home", Value: e.Home, From: from, Plain: true}}
	if e.Config == nil {
		return out
	}
	return slices.Concat(out, e.Config.Values())
}
