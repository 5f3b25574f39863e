package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mbox/mailbox"
	"mbox/schemas"
)

// selection is what a verb of many tasks is about: ids, or all tasks that fit.
type selection struct {
	states   []mailbox.State // in which the verb is of use
	to, from string
	since    moment
	labels   labels
	but      func(*mailbox.Task) bool // no such ones, where it is not nil
	all, yes bool
}

// choosing is a selection among tasks of these states; all names the flag for all of
// them.
func choosing(states ...mailbox.State) selection {
	return selection{states: states, since: moment{past: true}}
}

// flags are those that choose. Where --to is not the verb's own it is --for, as in mbox ls.
func (c *selection) flags(all, usage string, also ...string) []cli.Flag {
	return []cli.Flag{
		boolFlag(all, usage, &c.all),
		filledFlag("for", "of those: meant for `AGENT`", &c.to, also...),
		filledFlag("from", "of those: sent by `AGENT`", &c.from),
		valueFlag("since", "of those: changed since `WHEN`: a time, or a duration ago", &c.since),
		boolFlag("yes", "do not ask", &c.yes),
	}
}

// byLabel is one more that chooses, of a verb whose --label it is.
func (c *selection) byLabel() cli.Flag {
	return valueFlag("label", "of those: with the label `KEY=VALUE`; may be repeated", &c.labels)
}

// filtered tells whether a flag chooses.
func (c *selection) filtered() bool {
	return c.to != "" || c.from != "" || !c.since.at.IsZero() || len(c.labels) > 0
}

// check refuses a line that names no tasks, or names them twice. all is the flag for
// all tasks.
func (c *selection) check(verb, all string, ids []string) error {
	switch {
	case len(ids) == 0 && !c.all:
		return usagef("mbox "+verb+" ID, or mbox "+verb+" --"+all, "%s needs the id of a task, or --%s", verb, all)
	case len(ids) > 0 && (c.all || c.filtered() || c.yes):
		return usagef("mbox "+verb+" "+ids[0], "tasks are named by their ids, or by --%s with --for and its like, not by both", all)
	}
	return nil
}

// ids are the tasks that are meant. What is chosen by a filter is told, and asked for.
func (c *selection) ids(ctx context.Context, s *session, box *mailbox.Box, verb string, named []string) (ids []mailbox.ID, err error) {
	for _, id := range named {
		if !slices.Contains(ids, mailbox.ID(id)) {
			ids = append(ids, mailbox.ID(id))
		}
	}
	if len(named) > 0 {
		return ids, nil
	}
	if ids, err = c.fitting(ctx, box); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		s.warnf("no task fits")
		return nil, nil
	}
	return ids, c.agree(ctx, s, fmt.Sprintf("%s %s", verb, tasksOf(len(ids))))
}

// fitting are the tasks that the flags choose.
func (c *selection) fitting(ctx context.Context, box *mailbox.Box) (ids []mailbox.ID, err error) {
	for item, err := range box.List(ctx, mailbox.Filter{States: c.states, Target: c.to, Source: c.from}) {
		if err != nil {
			return nil, err
		}
		if t := item.Task; t != nil && !t.Updated.Before(c.since.at) && labelled(t, c.labels) && (c.but == nil || !c.but(t)) {
			ids = append(ids, t.ID)
		}
	}
	return ids, nil
}

// agree asks a person; without a terminal --yes has to be there.
func (c *selection) agree(ctx context.Context, s *session, what string) error {
	if c.yes {
		s.infof("this is to %s", what)
		return nil
	}
	if !s.people || !term.IsTerminal(int(s.in.Fd())) {
		return usagef("the same with --yes", "this would %s, and nobody is there to be asked", what)
	}
	fmt.Fprintf(s.err, "%s? [y/N] ", what)
	line, err := bufio.NewReader(io.LimitReader(patient{ctx, s.in}, 1<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}

func tasksOf(n int) string { return schemas.Count(n, "task", "tasks") }

// each does the verb to one task after another and tells what came of each. It goes on
// behind a task for which that fails; the exit code is then that of the worst.
func each(ctx context.Context, s *session, ids []mailbox.ID, inJSON bool, do func(mailbox.ID) error) error {
	if len(ids) == 1 {
		return do(ids[0])
	}
	var worst error
	failed, code := 0, exitOK
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := do(id)
		if err == nil {
			continue
		}
		failed++
		if n, _ := judge(err); n > code {
			code, worst = n, err
		}
		if inJSON {
			if err := s.printLine(map[string]any{"id": id, "error": err.Error()}); err != nil {
				return err
			}
			continue
		}
		s.warnf("%s: %s", id, strings.TrimPrefix(err.Error(), "task "+string(id)+": "))
	}
	if worst != nil {
		return fmt.Errorf("%d of %s failed, at worst: %w", failed, tasksOf(len(ids)), worst)
	}
	return nil
}
