package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

// asynqPeer is hibiken/asynq on a redis of our own. Its server hands tasks to a
// handler and marks them done when the handler has returned. Here a handler
// passes the task to a worker and waits until the worker has completed it; what
// asynq writes then overlaps with the worker's next task, and drain waits for
// the last of it. That favours asynq.
func asynqPeer(name, base string, processes bool) *peer {
	p := &peer{
		name: name, base: base, missing: needRedis, processes: processes,
		what:   "hibiken/asynq v0.26 on redis, appendfsync always; done tasks are deleted",
		create: func(string) error { return nil },
		open: func(ctx context.Context, dir string, workers int) (queue, error) {
			s, err := startRedis(ctx, dir, workers)
			if err != nil {
				return nil, err
			}
			return newAsynq(s, workers), nil
		},
	}
	if processes {
		p.what = "the same on one redis, with a client or a server of asynq in each process"
		p.serve = func(ctx context.Context, dir string, workers int) (func() error, error) {
			s, err := startRedis(ctx, dir, workers)
			if err != nil {
				return nil, err
			}
			return s.stop, nil
		}
		p.open = func(_ context.Context, dir string, workers int) (queue, error) {
			return newAsynq(dialRedis(dir, workers), workers), nil
		}
	}
	return p
}

type asynqQueue struct {
	redis  *redisServer
	client *asynq.Client
	server *asynq.Server
	start  func() error // starts the server, with the first claim: who only sends needs none
	look   *asynq.Inspector
	jobs   chan *asynqJob
}

// asynqJob is a task that a handler holds until done is closed.
type asynqJob struct {
	body []byte
	done chan struct{}
}

func newAsynq(s *redisServer, workers int) *asynqQueue {
	at := asynq.RedisClientOpt{Network: "unix", Addr: s.socket, PoolSize: workers + 4}
	q := &asynqQueue{redis: s, client: asynq.NewClient(at), look: asynq.NewInspector(at), jobs: make(chan *asynqJob)}
	q.server = asynq.NewServer(at, asynq.Config{
		Concurrency: workers, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: pause, // the pause of every other peer's worker that finds nothing
	})
	q.start = sync.OnceValue(func() error { return q.server.Start(asynq.HandlerFunc(q.handle)) })
	return q
}

func (q *asynqQueue) handle(ctx context.Context, t *asynq.Task) error {
	j := &asynqJob{t.Payload(), make(chan struct{})}
	select {
	case q.jobs <- j:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *asynqQueue) worker(context.Context, int) (worker, error) { return asynqWorker{q}, nil }

func (q *asynqQueue) drain(ctx context.Context) error {
	for {
		i, err := q.look.GetQueueInfo("default")
		if err != nil || i.Size == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("asynq still holds %d tasks: %w", i.Size, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

func (q *asynqQueue) tally(context.Context) (tally, error) {
	i, err := q.look.GetQueueInfo("default")
	if err != nil {
		return tally{}, err
	}
	if i.FailedTotal > 0 {
		return tally{}, fmt.Errorf("%d tasks failed", i.FailedTotal)
	}
	return tally{left: int64(i.Size), done: int64(i.ProcessedTotal)}, nil
}

func (q *asynqQueue) close() error {
	q.server.Shutdown()
	return errors.Join(q.client.Close(), q.look.Close(), q.redis.stop())
}

type asynqWorker struct{ q *asynqQueue }

func (w asynqWorker) submit(ctx context.Context, body []byte) error {
	_, err := w.q.client.EnqueueContext(ctx, asynq.NewTask("job", body), asynq.MaxRetry(0), asynq.Timeout(time.Hour))
	return err
}

func (w asynqWorker) claim(ctx context.Context) (job, error) {
	if err := w.q.start(); err != nil {
		return job{}, err
	}
	select {
	case <-time.After(time.Second):
		return job{}, errEmpty
	case j := <-w.q.jobs:
		return job{body: j.body, handle: j}, nil
	case <-ctx.Done():
		return job{}, context.Cause(ctx)
	}
}

func (w asynqWorker) complete(_ context.Context, j job) error {
	close(j.handle.(*asynqJob).done)
	return nil
}

func (w asynqWorker) close() error { return nil }
