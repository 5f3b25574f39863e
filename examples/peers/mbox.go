package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/verify"
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
	open := func(ctx context.Context, dir string, o mailbox.Options) (queue, error) {
		box, err := mailbox.Open(ctx, mboxHome(dir), o)
		return mboxQueue{box}, err
	}
	return &peer{
		name: name, what: what, base: base, processes: processes,
		create: func(dir string) error {
			return mailbox.Create(mboxHome(dir), mailbox.Options{Sync: durable.None})
		},
		open: func(ctx context.Context, dir string, _ int) (queue, error) {
			return open(ctx, dir, mailbox.Options{})
		},
		lazy: func(ctx context.Context, dir string) (queue, error) {
			return open(ctx, dir, mailbox.Options{Sync: durable.None})
		},
		drop: func(dir string, n int) (part, to string) {
			to = filepath.Join(mboxHome(dir), "tasks", "pending", fmt.Sprintf("drop-%d.json", n))
			return to + ".part", to
		},
	}
}

func mboxHome(dir string) string { return filepath.Join(dir, "home") }

// verified is how long mbox verify took.
type verified struct {
	What  string        `json:"what"`
	Lines int64         `json:"lines"`
	Took  time.Duration `json:"took_ns"`
}

// verifies times mbox verify, whole and of the ledger alone, on the mailbox in dir.
func verifies(ctx context.Context, dir string) ([]verified, error) {
	var out []verified
	for _, ledgerOnly := range []bool{false, true} {
		begun := time.Now()
		r, err := verify.Home(ctx, mboxHome(dir), verify.Options{LedgerOnly: ledgerOnly})
		if err != nil {
			return nil, err
		}
		v := verified{"mbox verify", r.Lines, time.Since(begun)}
		if ledgerOnly {
			v.What += " --ledger-only"
		}
		out = append(out, v)
	}
	return out, nil
}

type mboxQueue struct{ box *mailbox.Box }

func (q mboxQueue) worker(context.Context, int) (worker, error) { return mboxWorker{q.box}, nil }
func (q mboxQueue) drain(context.Context) error                 { return nil }

// tally trusts mbox verify, and counts what lies where.
func (q mboxQueue) tally(ctx context.Context) (tally, error) {
	var t tally
	r, err := verify.Home(ctx, q.box.Home(), verify.Options{})
	if err != nil {
		return t, err
	}
	if len(r.Findings) > 0 {
		return t, errors.New("mbox verify: " + r.Findings[0].String())
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
	what := mailbox.ClaimRequest{Agent: agent, Process: true}
	c, err := w.box.Wait(soon, what)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		c, err = w.box.Claim(ctx, what) // a second may be short on a busy disk
	}
	if errors.Is(err, mailbox.ErrEmpty) {
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
