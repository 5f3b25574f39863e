package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// needRedis says why there is no redis here.
func needRedis() error {
	if _, err := redisBinary(); err != nil {
		return errors.New("no redis-server or valkey-server on the PATH (apt-get install redis-server)")
	}
	return nil
}

func redisBinary() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		path, err = exec.LookPath("valkey-server")
	}
	return path, err
}

// redisServer is a redis of our own in dir, on a unix socket, that flushes its
// log before it answers. What arrives together shares a flush.
type redisServer struct {
	socket string
	client *redis.Client
	child  *exec.Cmd
}

func startRedis(ctx context.Context, dir string, workers int) (*redisServer, error) {
	binary, err := redisBinary()
	if err != nil {
		return nil, err
	}
	s := dialRedis(dir, workers)
	s.child = exec.Command(binary, "--port", "0", "--unixsocket", "redis.sock", "--dir", dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always", "--logfile", "redis.log", "--daemonize", "no")
	s.child.Dir = dir
	// A benchmark that is killed leaves no server behind.
	s.child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.child.Start(); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// dialRedis is a client of the redis in dir, which connects when it is used.
func dialRedis(dir string, workers int) *redisServer {
	socket := filepath.Join(dir, "redis.sock")
	return &redisServer{
		socket: socket,
		client: redis.NewClient(&redis.Options{Network: "unix", Addr: socket, PoolSize: workers + 4}),
	}
}

// ready waits until the server answers and has made its log.
func (s *redisServer) ready(ctx context.Context) error {
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = s.client.Ping(ctx).Err(); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("redis-server does not get ready: %w", err)
	}
	is, err := s.client.ConfigGet(ctx, "append*").Result()
	if err == nil && (is["appendonly"] != "yes" || is["appendfsync"] != "always") {
		err = fmt.Errorf("redis does not flush: %v", is)
	}
	return err
}

func (s *redisServer) stop() error {
	err := s.client.Close()
	if s.child == nil {
		return err // somebody else's
	}
	_ = s.child.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	return errors.Join(err, s.child.Wait())
}

// redisPeer is the reliable queue of two lists that the manual of LMOVE tells
// of: LPUSH; LMOVE to a list of what is being worked on; LREM from there. No
// result is kept.
func redisPeer() *peer {
	return &peer{
		name: "redis", base: "mbox", missing: needRedis,
		what:   "redis, appendfsync always, LPUSH, LMOVE, LREM; completed items are deleted",
		create: func(string) error { return nil },
		open: func(ctx context.Context, dir string, workers int) (queue, error) {
			s, err := startRedis(ctx, dir, workers)
			return &redisQueue{s}, err
		},
	}
}

type redisQueue struct{ *redisServer }

func (q *redisQueue) worker(_ context.Context, n int) (worker, error) {
	return &redisWorker{client: q.client, busy: fmt.Sprintf("busy:%d", n)}, nil
}

func (q *redisQueue) drain(context.Context) error { return nil }
func (q *redisQueue) close() error                { return q.stop() }

func (q *redisQueue) tally(ctx context.Context) (tally, error) {
	keys, err := q.client.Keys(ctx, "*").Result() // a list that is empty has no key
	return tally{left: int64(len(keys)), done: -1}, err
}

// A redisWorker has a list of its own for what it works on, so that LREM finds
// its item at once.
type redisWorker struct {
	client *redis.Client
	busy   string
}

func (w *redisWorker) submit(ctx context.Context, body []byte) error {
	return w.client.LPush(ctx, subject, body).Err()
}

func (w *redisWorker) claim(ctx context.Context) (job, error) {
	body, err := w.client.LMove(ctx, subject, w.busy, "RIGHT", "LEFT").Bytes()
	if errors.Is(err, redis.Nil) {
		return job{}, errEmpty
	}
	return job{body: body}, err
}

func (w *redisWorker) complete(ctx context.Context, j job) error {
	n, err := w.client.LRem(ctx, w.busy, 1, j.body).Result()
	if err == nil && n != 1 {
		err = fmt.Errorf("%d items were removed, not one", n)
	}
	return err
}

func (w *redisWorker) close() error { return nil }
