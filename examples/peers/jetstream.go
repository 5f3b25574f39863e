package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// jetstreamPeer is a nats-server with a work-queue stream in files, in this
// process, or on a loopback port for the processes of a lap. Every message is flushed
// before it is acknowledged (sync always; the default is every two minutes). Each worker has a connection of its own within
// the process, publishes and waits, fetches one, and acknowledges with
// DoubleAck, which waits for the server. To complete is to delete the message;
// no result is kept.
func jetstreamPeer(name, base string, processes bool) *peer {
	p := &peer{
		name: name, base: base, processes: processes,
		what:   "nats-server " + server.VERSION + " in process, file stream, work queue, sync always; acknowledged messages are deleted",
		create: func(string) error { return nil },
		open: func(ctx context.Context, dir string, workers int) (queue, error) {
			return startJetstream(ctx, dir, workers, server.Options{DontListen: true, SyncAlways: true})
		},
		lazy: func(ctx context.Context, dir string) (queue, error) {
			return startJetstream(ctx, dir, 1, server.Options{DontListen: true})
		},
	}
	if processes {
		p.what = "the same as one server, with a connection from each process"
		p.serve = func(ctx context.Context, dir string, workers int) (func() error, error) {
			q, err := startJetstream(ctx, dir, workers, server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, SyncAlways: true})
			if err != nil {
				return nil, err
			}
			return q.close, os.WriteFile(filepath.Join(dir, addressFile), []byte(q.server.ClientURL()), 0o600)
		}
		p.open = func(_ context.Context, dir string, _ int) (queue, error) {
			url, err := os.ReadFile(filepath.Join(dir, addressFile))
			if err != nil {
				return nil, err
			}
			q := &jetstreamQueue{url: string(url)}
			q.conn, q.js, err = q.connect()
			return q, err
		}
	}
	return p
}

// addressFile is where a server says how it is reached.
const addressFile = "address"

const (
	streamName   = "JOBS"
	subject      = "jobs"
	consumerName = "workers"
)

type jetstreamQueue struct {
	server *server.Server // nil in a process that is but a client
	url    string         // of the server then
	conn   *nats.Conn
	js     jetstream.JetStream
}

func startJetstream(ctx context.Context, dir string, workers int, o server.Options) (*jetstreamQueue, error) {
	q := &jetstreamQueue{}
	o.NoLog, o.NoSigs, o.JetStream, o.StoreDir = true, true, true, dir
	if err := q.start(ctx, workers, &o); err != nil {
		return nil, errors.Join(err, q.close())
	}
	return q, nil
}

func (q *jetstreamQueue) start(ctx context.Context, workers int, o *server.Options) (err error) {
	if q.server, err = server.NewServer(o); err != nil {
		return err
	}
	q.server.Start()
	if !q.server.ReadyForConnections(20 * time.Second) {
		return errors.New("nats-server does not get ready")
	}
	if q.conn, q.js, err = q.connect(); err != nil {
		return err
	}
	stream, err := q.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{subject}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
	})
	if err != nil {
		return err
	}
	_, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: consumerName, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour, MaxAckPending: 10 * workers,
	})
	return err
}

func (q *jetstreamQueue) connect() (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect(q.url, func(o *nats.Options) error {
		if q.server != nil {
			return nats.InProcessServer(q.server)(o)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn)
	return conn, js, err
}

func (q *jetstreamQueue) worker(ctx context.Context, _ int) (worker, error) {
	conn, js, err := q.connect()
	if err != nil {
		return nil, err
	}
	c, err := js.Consumer(ctx, streamName, consumerName)
	return &jetstreamWorker{conn, js, c}, err
}

func (q *jetstreamQueue) drain(context.Context) error { return nil }

func (q *jetstreamQueue) tally(ctx context.Context) (tally, error) {
	stream, err := q.js.Stream(ctx, streamName)
	if err != nil {
		return tally{}, err
	}
	c, err := stream.Consumer(ctx, consumerName)
	if err != nil {
		return tally{}, err
	}
	s, i := stream.CachedInfo().State, c.CachedInfo()
	if i.NumRedelivered > 0 {
		return tally{}, fmt.Errorf("%d messages were delivered again", i.NumRedelivered)
	}
	return tally{left: int64(s.Msgs) + int64(i.NumAckPending), done: int64(s.LastSeq - s.Msgs)}, nil
}

func (q *jetstreamQueue) close() error {
	if q.conn != nil {
		q.conn.Close()
	}
	if q.server != nil {
		q.server.Shutdown()
		q.server.WaitForShutdown()
	}
	return nil
}

type jetstreamWorker struct {
	conn     *nats.Conn
	js       jetstream.JetStream
	consumer jetstream.Consumer
}

func (w *jetstreamWorker) submit(ctx context.Context, body []byte) error {
	_, err := w.js.Publish(ctx, subject, body)
	return err
}

func (w *jetstreamWorker) claim(context.Context) (job, error) {
	m, err := w.consumer.Next(jetstream.FetchMaxWait(time.Second))
	if errors.Is(err, nats.ErrTimeout) {
		return job{}, errEmpty
	}
	if err != nil {
		return job{}, err
	}
	return job{body: m.Data(), handle: m}, nil
}

func (w *jetstreamWorker) complete(ctx context.Context, j job) error {
	return j.handle.(jetstream.Msg).DoubleAck(ctx)
}

func (w *jetstreamWorker) close() error {
	w.conn.Close()
	return nil
}
