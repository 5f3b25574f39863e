package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/schemas"
)

func waitVerb() *verb {
	var any, inJSON bool
	var limit length
	c := choosing()
	return &verb{
		name: "wait", args: "[ID…]", most: -1,
		brief: "wait until tasks have ended",
		about: `Waits until all these tasks have ended, and prints each as it ends. It ends well if
all are completed. Ctrl-C ends the waiting and leaves the tasks as they are; the exit
code is then 130, and 143 for SIGTERM.

Without ids it is about the tasks that --label, --for, --from and --since choose when it
begins, also those that have ended by then; --live leaves these out. If there is none
the exit code is 4.`,
		shows: []string{
			"mbox wait task-2026-02-16-001 --timeout 10m",
			"mbox wait --label batch=7 --any",
		},
		exits: []int{exitError, exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			boolFlag("any", "until the first of them has ended", &any),
			valueFlag("timeout", "wait no longer than `DURATION`; then the exit code is 75", &limit),
			boolFlag("live", "instead of ids: all that have not ended", &c.all),
			filledFlag("for", "instead of ids: meant for `AGENT`", &c.to),
			filledFlag("from", "instead of ids: sent by `AGENT`", &c.from),
			valueFlag("since", "instead of ids: changed since `WHEN`: a time, or a duration ago", &c.since),
			valueFlag("label", "instead of ids: with the label `KEY=VALUE`; may be repeated", &c.labels),
			jsonFlag(&inJSON),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			chosen := c.all || c.filtered()
			if chosen == (len(args) > 0) {
				return usagef("mbox wait ID, or mbox wait --label batch=7", "mbox wait needs the ids of tasks, or flags that choose some, and not both")
			}
			if c.all {
				c.states = []mailbox.State{mailbox.Pending, mailbox.InProgress}
			}
			return s.tidied(ctx, func(box *mailbox.Box) error {
				w := waiting{box: box, any: any, limit: limit, print: s.printEnd}
				if inJSON {
					w.print = func(t *mailbox.Task) error { return s.printLine(t) }
				}
				tasks := ids(args)
				if chosen {
					var err error
					if tasks, err = c.fitting(ctx, box); err == nil && len(tasks) == 0 {
						err = fmt.Errorf("no task fits: %w", mailbox.ErrNotFound)
					}
					if err != nil {
						return err
					}
				}
				return w.wait(ctx, tasks)
			})
		},
		words: tasksThatAre(mailbox.Pending, mailbox.InProgress),
	}
}

func (s *printer) printEnd(t *mailbox.Task) error {
	state := t.Result.Status
	s.printf("%s  %s%s\n", s.paint.bold(clean(string(t.ID), 128)), s.stateColour(state)(t.Called(state)), clean(strings.TrimPrefix(because(t), ": "+t.Called(state)), maxLine))
	return s.out.Flush()
}

// because is why a task has failed, behind a colon; "" for one that is completed.
func because(t *mailbox.Task) string {
	fault := t.Result.Error
	if t.Result.Status != mailbox.Failed || fault == nil {
		return ""
	}
	return ": " + schemas.Sentence(schemas.LocalTimes(fault.Text()), maxLine)
}

// waiting waits for tasks to end.
type waiting struct {
	box   *mailbox.Box
	any   bool                      // the first is enough
	limit length                    // not given: for ever
	print func(*mailbox.Task) error // each, as it ends

	open          []mailbox.ID // that have not ended
	ended, failed int
}

// errTimeOver says that a wait has lasted as long as it may.
var errTimeOver = errors.New("the time is over")

// wait fails with unwell where one of the tasks has failed, with errTimeOver, and with the
// signal that has ended it: that is no failure of a task.
func (w *waiting) wait(ctx context.Context, tasks []mailbox.ID) error {
	return bySignal(ctx, w.until(ctx, tasks))
}

// bySignal is the signal that has ended what a command waited for, or any other error of it.
func bySignal(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil && !errors.Is(err, mailbox.ErrCommitted) {
		return context.Cause(ctx)
	}
	return err
}

// until is wait, where a signal is any cancellation.
func (w *waiting) until(ctx context.Context, tasks []mailbox.ID) error {
	limited := ctx
	if w.limit.given {
		var stop context.CancelFunc
		limited, stop = context.WithTimeout(ctx, time.Duration(w.limit.Duration))
		defer stop()
	}
	seldom := w.box.Options().ScanInterval // what was done by hand stands in no line before somebody has tidied
	pause := seldom
	for w.open = tasks; ; pause = min(2*pause, seldom) {
		at, err := w.box.Ledger().Newest()
		if err != nil {
			return err
		}
		if err := w.box.Tidy(limited); err != nil && limited.Err() == nil {
			return err
		}
		if err := w.look(ctx); err != nil {
			return err
		}
		switch {
		case (len(w.open) == 0 || w.any && w.ended > 0) && w.failed > 0:
			return &unwell{fmt.Sprintf("%d of %d failed", w.failed, w.ended)}
		case len(w.open) == 0 || w.any && w.ended > 0:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case limited.Err() != nil:
			err := fmt.Errorf("%w, and %s has not ended", errTimeOver, w.open[0])
			return hint(err, "the task goes on; mbox why %s tells what it waits for", schemas.ShellWord(string(w.open[0])))
		}
		happened, err := w.happens(limited, pause, at)
		if err != nil {
			return err
		}
		if happened {
			pause = time.Millisecond // the file follows its line
		}
	}
}

func (w *waiting) happens(ctx context.Context, most time.Duration, at audit.Position) (bool, error) {
	ctx, stop := context.WithTimeout(ctx, most)
	defer stop()
	return mailbox.Happens(ctx, w.box, at, w.open...)
}

// look prints what has ended.
func (w *waiting) look(ctx context.Context) error {
	var open []mailbox.ID
	for _, id := range w.open {
		t, _, err := w.box.Task(ctx, id)
		if err != nil {
			return err
		}
		if !t.Result.Status.Terminal() {
			open = append(open, id)
			continue
		}
		if err := w.print(t); err != nil {
			return err
		}
		if w.ended++; t.Result.Status == mailbox.Failed {
			w.failed++
		}
	}
	w.open = open
	return nil
}

// ids are the ids of a command line, each once.
func ids(names []string) (ids []mailbox.ID) {
	for _, name := range names {
		if id := mailbox.ID(name); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
