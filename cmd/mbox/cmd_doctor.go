package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"mbox/cmd/mbox/config"
	"mbox/mailbox"
)

type doctorOptions struct{ fix, pull, json bool }

func doctorVerb() *verb {
	var o doctorOptions
	return &verb{
		name:  "doctor",
		brief: "look for what is wrong with the mailbox or the machine",
		about: `Looks at folders, modes and owner, the file system and its renames, disk and
memory, docker, clock, limits, the sandbox, the brains of the agents, what crashes left, the
configuration and where each value comes from, and tasks that nobody can take or has
taken. Something wrong is exit code 1; warnings are 0.

--fix mends what is safe to mend: modes and missing folders, and where space is low
it removes logs that were put aside. --pull fetches models.`,
		shows: []string{"mbox doctor", "mbox doctor --json | jq '.findings[] | select(.level != \"ok\")'"},
		exits: []int{exitNotFound, exitIO, exitBusy},
		flags: []cli.Flag{
			boolFlag("fix", "mend modes and missing folders, and make room", &o.fix),
			boolFlag("pull", "fetch the models that enabled agents ask Ollama for and that it does not have", &o.pull),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, _ []string) error { return o.run(ctx, s) },
	}
}

// level is how bad a finding is.
type level string

const (
	fine  level = "ok"
	fixed level = "fixed"
	doubt level = "warn"
	wrong level = "wrong"
)

// finding is the result of one check.
type finding struct {
	Check string `json:"check"`
	Level level  `json:"level"`
	Text  string `json:"text"`
	Hint  string `json:"hint,omitzero"`
}

// exam is one examination of a home.
type exam struct {
	s        *session
	home     string
	fix      bool
	options  mailbox.Options
	findings []finding
}

func (e *exam) add(check string, l level, hint, format string, a ...any) {
	e.findings = append(e.findings, finding{check, l, fmt.Sprintf(format, a...), hint})
}

// check adds a finding, or tells that the check itself did not work.
func (e *exam) check(name string, err error) bool {
	if err != nil {
		e.add(name, wrong, "", "%v", err)
	}
	return err == nil
}

func (o *doctorOptions) run(ctx context.Context, s *session) error {
	home, err := s.homeDir()
	if err != nil {
		return err
	}
	e := &exam{s: s, home: home, fix: o.fix}
	if err := mailbox.CheckOwner(home); err != nil {
		return err
	}
	if err := e.isMailbox(); err != nil {
		return err
	}
	e.config()
	e.environment()
	e.folders()
	e.modes()
	e.fileSystem()
	e.renames()
	e.space()
	e.memory()
	e.budget()
	e.docker(ctx)
	e.limits()
	e.sandbox(e.confined())
	e.rights()
	e.minds(ctx, o.pull)
	e.readOnly()
	e.seals()
	e.leftovers()
	e.tasks(ctx)
	return o.answer(s, e)
}

// confined are the agents whose commands are to be confined.
func (e *exam) confined() []string {
	if e.s.config == nil {
		return nil
	}
	return e.s.config.Confined()
}

func (o *doctorOptions) answer(s *session, e *exam) error {
	s.endProgress()
	bad := 0
	for _, f := range e.findings {
		if f.Level == wrong {
			bad++
		}
	}
	if o.json {
		if err := s.printJSON(map[string]any{"home": e.home, "ok": bad == 0, "findings": e.findings, "config": e.values()}); err != nil {
			return err
		}
	} else {
		s.printFindings(e)
	}
	switch bad {
	case 0:
		return nil
	case 1:
		return &unwell{"one thing is wrong"}
	}
	return &unwell{fmt.Sprintf("%d things are wrong", bad)}
}

func (s *session) printFindings(e *exam) {
	paints := map[level]paint{fine: s.paint.green, fixed: s.paint.cyan, doubt: s.paint.yellow, wrong: s.paint.red}
	for _, f := range e.findings {
		s.printf("%s  %-12s %s\n", paints[f.Level](fmt.Sprintf("%-5s", f.Level)), f.Check, clean(f.Text, maxLine))
		if f.Hint != "" {
			s.printf("       %-12s %s\n", "", s.paint.dim(clean(f.Hint, maxLine)))
		}
	}
	t := table{head: []string{"SETTING", "VALUE", "FROM"}}
	for _, v := range e.values() {
		if v.Plain {
			t.add(text(v.Key), text(v.Value), text(v.From))
		}
	}
	if len(t.rows) > 0 {
		s.printf("\n")
		t.print(s)
	}
}

func (e *exam) values() []config.Value {
	from := "--home"
	switch e.s.home {
	case "":
		from = "default"
	case os.Getenv("MBOX_HOME"):
		from = "MBOX_HOME"
	}
	out := []config.Value{{Key: "home", Value: e.home, From: from, Plain: true}}
	if e.s.config == nil {
		return out
	}
	return slices.Concat(out, e.s.config.Values())
}
