package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// drained is how fast one worker process empties a queue of many tasks.
type drained struct {
	Peer  string  `json:"peer"`
	Rate  float64 `json:"rate"`
	CPU   float64 `json:"cpu_us"`
	Ratio float64 `json:"mbox_by_peer"`
}

// fillers are the goroutines that fill a queue.
const fillers = 16

// fill puts l.tasks tasks into a new queue, without flushes.
func (l *lap) fill(ctx context.Context) (err error) {
	if err := l.peer.create(l.dir); err != nil {
		return err
	}
	q, err := l.peer.lazy(ctx, l.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	r := &runner{lap: l, scores: make([]score, fillers)}
	ws, err := r.hire(ctx, q, fillers)
	if err != nil {
		return err
	}
	errs := make([]error, fillers)
	var wg sync.WaitGroup
	for i, w := range ws {
		wg.Go(func() { errs[i] = errors.Join(r.produce(ctx, w, i, &r.scores[i]), w.close()) })
	}
	wg.Wait()
	l.filled = r.sum().Sent
	return errors.Join(errs...)
}

// drain lets one worker process of each peer that can be filled empty its queue for
// so long, one after the other, and verifies mbox's then.
func drain(ctx context.Context, root string, chosen []*peer, tasks int64, span time.Duration) ([]drained, []verified, error) {
	var (
		out    []drained
		proved []verified
	)
	for _, p := range chosen {
		if !p.processes || p.lazy == nil {
			continue
		}
		dir, err := emptyDir(root)
		if err != nil {
			return nil, nil, err
		}
		l := &lap{peer: p, dir: dir, workers: 1, tasks: tasks, time: span}
		if err := errors.Join(l.fill(ctx), settleDisk(root)); err != nil {
			return nil, nil, fmt.Errorf("%s, fill: %w", p.name, err)
		}
		s, err := l.run(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("%s, drain: %w", p.name, err)
		}
		d := drained{Peer: p.name, Rate: s.rate(), CPU: s.cpu()}
		if p.name == p.base {
			if proved, err = verifies(ctx, dir); err != nil {
				return nil, nil, err
			}
		}
		out = append(out, d)
	}
	for i := range out {
		if len(proved) > 0 {
			out[i].Ratio = out[0].Rate / out[i].Rate // mbox is the first
		}
	}
	return out, proved, nil
}
