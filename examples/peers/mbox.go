package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// sharing says how the workers of one process open the mailbox.
type sharing bool

const (
	shared  sharing = false // one Box for all of them
	boxEach sharing = true
)

func mboxPeer(name string, s sharing, processes bool) *peer {
	what := "package mailbox, sync standard, one Box"
	switch {
	case processes:
		what = "package mailbox, sync standard, a process for each worker"
	case s == boxEach:
		what = "package mailbox, sync standard, a Box for each worker"
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
			q := &mboxQueue{home: filepath.Join(dir, "home"), each: s == boxEach}
			var err error
			q.box, err = mailbox.Open(ctx, q.home, mailbox.Options{})
			return q, err
		},
	}
}

type mboxQueue struct {
	home string
	each bool
	box  *mailbox.Box
}

func (q *mboxQueue) worker(ctx context.Context, _ int) (worker, error) {
	if !q.each {
		return &mboxWorker{box: q.box}, nil
	}
	b, err := mailbox.Open(ctx, q.home, mailbox.Options{})
	return &mboxWorker{box: b, own: true}, err
}

func (q *mboxQueue) drain(context.Context) error { return nil }

// tally trusts mbox verify, and counts what lies where.
func (q *mboxQueue) tally(ctx context.Context) (tally, error) {
	var t tally
	r, err := mailbox.Verify(ctx, q.home, mailbox.Options{}, mailbox.VerifyOptions{})
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

func (q *mboxQueue) close() error { return q.box.Close() }

type mboxWorker struct {
	box *mailbox.Box
	own bool
}

const agent = "coder"

// submit makes of the body a task whose file has about the body's size: the
// serial is the title, and the description leaves room for the other fields.
func (w *mboxWorker) submit(ctx context.Context, body []byte) error {
	_, err := w.box.Submit(ctx, &mailbox.Task{
		Task:       mailbox.Request{Title: serialOf(body), Description: string(body[serialSize : len(body)-mboxFields])},
		Assignment: mailbox.Assignment{TargetAgent: agent},
	})
	return err
}

// mboxFields is what the other fields of a new task file take.
const mboxFields = 600

func (w *mboxWorker) claim(ctx context.Context) (job, error) {
	c, err := w.box.Claim(ctx, mailbox.ClaimRequest{Agent: agent, Process: true})
	if errors.Is(err, mailbox.ErrEmpty) {
		return job{}, errEmpty
	}
	if err != nil {
		return job{}, err
	}
	return job{body: []byte(c.Task.Task.Title + strings.Repeat("x", bodySize-serialSize)), handle: c}, nil
}

func (w *mboxWorker) complete(ctx context.Context, j job) error {
	c := j.handle.(*mailbox.Claim)
	return errors.Join(c.Complete(ctx, mailbox.Result{Output: jsontext.Value(`"done"`)}), c.Close())
}

func (w *mboxWorker) close() error {
	if w.own {
		return w.box.Close()
	}
	return nil
}
