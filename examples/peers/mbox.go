package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

func mboxPeer(name string, processes bool) *peer {
	what := "package mailbox, sync standard, one Box"
	if processes {
		what = "package mailbox, sync standard, a Box in each process"
	}
	base := "mbox"
	if processes {
		base = "mbox/processes"
	}
	return &peer{
		name: name, what: what, base: base, processes: processes,
		create: func(dir string) error {
			return mailbox.Create(filepath.Join(dir, "home"), mailbox.Options{Sync: durable.None})
		},
		open: func(ctx context.Context, dir string, _ int) (queue, error) {
			box, err := mailbox.Open(ctx, filepath.Join(dir, "home"), mailbox.Options{})
			return mboxQueue{box}, err
		},
	}
}

type mboxQueue struct{ box *mailbox.Box }

func (q mboxQueue) worker(context.Context, int) (worker, error) { return mboxWorker{q.box}, nil }
func (q mboxQueue) drain(context.Context) error                 { return nil }

// tally trusts mbox verify, and counts what lies where.
func (q mboxQueue) tally(ctx context.Context) (tally, error) {
	var t tally
	r, err := mailbox.Verify(ctx, q.box.Home(), mailbox.Options{}, mailbox.VerifyOptions{})
	if err != nil {
		return t, err
	}
	if len(r.Faults) > 0 {
		return t, errors.New("mbox verify: " + r.Faults[0].String())
	}
	for item, err := range q.box.List(ctx, mailbox.Filter{}) {
		if err != nil {
			return t, err
		}
		if item.State == mailbox.Completed {
			t.done++
		} else {
			t.left++
		}
	}
	return t, nil
}

func (q mboxQueue) close() error { return q.box.Close() }

type mboxWorker struct{ box *mailbox.Box }

const agent = "coder"

// submit makes of the body a task whose file has about the body's size: the
// serial is the title, and the description leaves room for the other fields.
func (w mboxWorker) submit(ctx context.Context, body []byte) error {
	_, err := w.box.Submit(ctx, &mailbox.Task{
		Task:       mailbox.Request{Title: serialOf(body), Description: string(body[serialSize : len(body)-mboxFields])},
		Assignment: mailbox.Assignment{TargetAgent: agent},
	})
	return err
}

// mboxFields is what the other fields of a new task file take.
const mboxFields = 600

func (w mboxWorker) claim(ctx context.Context) (job, error) {
	soon, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := w.box.Wait(soon, mailbox.ClaimRequest{Agent: agent, Process: true})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return job{}, errEmpty
	}
	if err != nil {
		return job{}, err
	}
	return job{body: []byte(c.Task.Task.Title + strings.Repeat("x", bodySize-serialSize)), handle: c}, nil
}

func (w mboxWorker) complete(ctx context.Context, j job) error {
	c := j.handle.(*mailbox.Claim)
	return errors.Join(c.Complete(ctx, mailbox.Result{Output: jsontext.Value(`"done"`)}), c.Close())
}

func (w mboxWorker) close() error { return nil }
