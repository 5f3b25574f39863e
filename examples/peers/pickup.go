package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// pickup is the time from the rename that delivers a task to the claim that an
// idle worker process holds.
type pickup struct {
	Disk string  `json:"disk"`
	Peer string  `json:"peer"`
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
}

const (
	pickups = 200                   // of each peer
	idle    = 20 * time.Millisecond // before each
)

// pick claims and completes as many tasks as come, and prints when it held each.
// A worker that does not wait in its claim has a way to wait.
func pick(ctx context.Context, w worker, tasks int64) error {
	for n := int64(0); n < tasks; {
		j, err := w.claim(ctx)
		held := time.Now()
		if errors.Is(err, errEmpty) {
			if w, may := w.(interface{ wait() error }); may {
				if err := w.wait(); err != nil {
					return err
				}
			}
			continue
		}
		if err == nil {
			err = w.complete(ctx, j)
		}
		if err != nil {
			return err
		}
		fmt.Println(held.UnixNano())
		n++
	}
	return nil
}

// pickUp lets the peers that take drops do so in turns.
func pickUp(ctx context.Context, root string, chosen []*peer, tasks int) ([]pickup, error) {
	var (
		laps     []*lap
		children []*childProcess
	)
	for _, p := range chosen {
		if !p.processes || p.drop == nil {
			continue
		}
		dir, err := emptyDir(root)
		if err == nil {
			err = p.create(dir)
		}
		if err != nil {
			return nil, err
		}
		l := &lap{peer: p, dir: dir, workers: 1, tasks: int64(tasks)}
		c, err := l.begin(ctx, 0, picks)
		if err != nil {
			return nil, err
		}
		defer c.kill()
		if err := errors.Join(c.ready(), c.start()); err != nil {
			return nil, err
		}
		laps, children = append(laps, l), append(children, c)
	}
	took := make([][]time.Duration, len(laps))
	for n := range tasks {
		for i, l := range laps {
			time.Sleep(idle)
			t, err := children[i].dropped(l.peer.drop(l.dir, n))
			if err != nil {
				return nil, fmt.Errorf("%s, drop: %w", l.peer.name, err)
			}
			took[i] = append(took[i], t)
		}
	}
	var out []pickup
	for i, l := range laps {
		p := pickup{Peer: l.peer.name}
		p.P50, p.P99 = spread(took[i])
		out = append(out, p)
	}
	return out, new(score).end(children)
}

// dropped delivers a task and returns how long it took the worker to hold it.
func (c *childProcess) dropped(part, to string) (time.Duration, error) {
	if err := os.WriteFile(part, []byte(`{"task":{"title":"dropped"}}`), 0o600); err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := os.Rename(part, to); err != nil {
		return 0, err
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	held, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return time.Unix(0, held).Sub(begun), err
}
