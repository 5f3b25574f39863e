package main

import (
	"context"
	"database/sql"
	"path/filepath"
	"time"

	"maragu.dev/goqite"
	_ "modernc.org/sqlite"
)

// goqiteSchema is goqite v0.4.0's schema_sqlite.sql.
const goqiteSchema = `
create table goqite (
  id text primary key default ('m_' || lower(hex(randomblob(16)))),
  created text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  updated text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  queue text not null,
  body blob not null,
  timeout text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  received integer not null default 0,
  priority integer not null default 0
) strict;

create trigger goqite_updated_timestamp after update on goqite begin
  update goqite set updated = strftime('%Y-%m-%dT%H:%M:%fZ') where id = old.id;
end;

create index goqite_queue_priority_created_idx on goqite (queue, priority desc, created);
`

// goqitePeer is maragu.dev/goqite on modernc.org/sqlite. A process has one
// connection, which its workers take in turn: SQLite has one writer at a time,
// and waiting for a connection is cheaper than for busy_timeout. To complete is
// to delete the row; no result is kept.
func goqitePeer(name, base string, processes bool) *peer {
	return &peer{
		name: name, base: base, processes: processes,
		what: "goqite v0.4.0, modernc sqlite, WAL, synchronous=FULL; completed rows are deleted",
		create: func(dir string) error {
			db, err := openSQLite(dir, "FULL")
			if err != nil {
				return err
			}
			defer db.Close()
			_, err = db.Exec(goqiteSchema)
			return err
		},
		open: func(_ context.Context, dir string, _ int) (queue, error) { return openGoqite(dir, "FULL") },
		lazy: func(_ context.Context, dir string) (queue, error) { return openGoqite(dir, "OFF") },
	}
}

func openGoqite(dir, synchronous string) (queue, error) {
	db, err := openSQLite(dir, synchronous)
	if err != nil {
		return nil, err
	}
	q := goqite.New(goqite.NewOpts{DB: db, Name: "jobs", Timeout: time.Hour})
	return &goqiteQueue{db: db, queue: q}, nil
}

func openSQLite(dir, synchronous string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "queue.db")+
		"?_txlock=immediate&_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_pragma=synchronous("+synchronous+")")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

type goqiteQueue struct {
	db    *sql.DB
	queue *goqite.Queue
}

// A goqiteQueue is its own worker: everything is in the connection.
func (q *goqiteQueue) worker(context.Context, int) (worker, error) { return goqiteWorker{q.queue}, nil }
func (q *goqiteQueue) drain(context.Context) error                 { return nil }
func (q *goqiteQueue) close() error                                { return q.db.Close() }

func (q *goqiteQueue) tally(ctx context.Context) (tally, error) {
	t := tally{done: -1}
	return t, q.db.QueryRowContext(ctx, "select count(*) from goqite").Scan(&t.left)
}

type goqiteWorker struct{ queue *goqite.Queue }

func (w goqiteWorker) submit(ctx context.Context, body []byte) error {
	return w.queue.Send(ctx, goqite.Message{Body: body})
}

func (w goqiteWorker) claim(ctx context.Context) (job, error) {
	m, err := w.queue.Receive(ctx)
	if err != nil {
		return job{}, err
	}
	if m == nil {
		return job{}, errEmpty
	}
	return job{body: m.Body, handle: m.ID}, nil
}

func (w goqiteWorker) complete(ctx context.Context, j job) error {
	return w.queue.Delete(ctx, j.handle.(goqite.ID))
}

func (w goqiteWorker) close() error { return nil }
