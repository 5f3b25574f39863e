// Package postgres keeps what all agents of a mailbox remember in a Postgres database, of
// version 14 or newer.
//
// # The tables
//
// They are made with the first entry, in the first schema of the search path:
//
//	mbox_memory  version of these tables
//	agents       uuid, alias                           an agent keeps its uuid when its name changes
//	memories     id, agent_id, category, key, content, at (Unix milliseconds), author, task, words
//	vectors      id, agent_id, model, dim, vector, small: of entries that were embedded
//
// A Store stamps what it adds with its agent's uuid, and sees nothing that has another.
// Ids are never used again. words is a tsvector of the words as [memory.Tokens] has them;
// small is the vector as [memory.Quantised] has it.
//
// # Secrets and time
//
// What connects is a secret. No error says anything of it, nor what Postgres says when it
// refuses a connection, which names the user or the database. A server that does not
// answer is given up after Options.Timeout.
//
// # What is forgotten
//
// Its row is deleted, and with it its vector. Postgres itself keeps the bytes of deleted
// rows in its files, in its log and at its replicas until they are written over: that is
// the affair of who keeps the server.
//
// # Pgconn
//
// It is spoken to by pgx's lower half, pgconn, with texts for all values: the other half
// maps types of Go, of which there are none here, and makes each start of mbox slower.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"mbox/agents/memory"
)

// Options say which database it is, and whose memory.
type Options struct {
	URL     string // what connects, of one of the two forms that Postgres knows: a secret
	Agent   string
	UUID    string        // of the agent, from its first entry on; "" has one made
	Wait    time.Duration // for others who write
	Timeout time.Duration // for an answer of the server; 0: 30 s
}

const maxTime = 30 * time.Second

// Store is one agent's part of a database. It implements [memory.Store].
type Store struct {
	o       Options
	config  *pgconn.Config
	meaning memory.Meaning

	mu   sync.Mutex // one statement, or transaction, at a time
	conn *pgconn.PgConn
	made int // the version of the tables; 0: not known, or there are none
}

var _ memory.Store = (*Store)(nil)

// version is that of the tables.
const version = 1

const tables = `
	CREATE TABLE mbox_memory (version int NOT NULL);
	INSERT INTO mbox_memory VALUES (1);
	CREATE TABLE agents (uuid uuid PRIMARY KEY, alias text NOT NULL UNIQUE);
	CREATE TABLE memories (
		id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, agent_id uuid NOT NULL REFERENCES agents (uuid),
		category text NOT NULL, key text NOT NULL, content text NOT NULL, at bigint, author text NOT NULL, task text NOT NULL,
		words tsvector NOT NULL);
	CREATE INDEX memories_of ON memories (agent_id, at DESC NULLS LAST, id DESC);
	CREATE INDEX memories_words ON memories USING gin (words);
	CREATE TABLE vectors (
		id bigint PRIMARY KEY REFERENCES memories (id) ON DELETE CASCADE, agent_id uuid NOT NULL REFERENCES agents (uuid),
		model text NOT NULL, dim int NOT NULL, vector real[] NOT NULL, small bytea NOT NULL);
	ALTER TABLE vectors ALTER vector SET STORAGE EXTERNAL;
	CREATE INDEX vectors_of ON vectors (agent_id)`

// Open prepares the part of an agent. The server is asked when something is wanted of it.
func Open(o Options) (*Store, error) {
	o.Timeout = cmp.Or(o.Timeout, maxTime)
	config, err := configOf(o)
	return &Store{o: o, config: config}, err
}

// Close ends the connection.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
	defer cancel()
	_ = s.conn.Close(ctx) // what was said is done, whether it hears this or not
	s.conn = nil
	return nil
}

// with does something on the connection, which is made where there is none, within the
// time for it.
func (s *Store) with(ctx context.Context, do func(ctx context.Context) error) error {
	return s.within(ctx, s.o.Timeout, do)
}

func (s *Store) within(ctx context.Context, limit time.Duration, do func(ctx context.Context) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.ready(ctx)
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err = do(limited)
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return s.about(err)
}

// ready connects, and looks which tables there are.
func (s *Store) ready(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	if s.conn == nil || s.conn.IsClosed() {
		if err := s.connect(ctx); err != nil {
			return err
		}
	}
	if s.made == 0 {
		s.made, err = s.look(ctx)
	}
	return err
}

// read is with for what there is nothing of without tables.
func (s *Store) read(ctx context.Context, do func(ctx context.Context) error) error {
	return s.with(ctx, func(ctx context.Context) error {
		if s.made == 0 {
			return nil
		}
		return do(ctx)
	})
}

// change does something in one transaction, in which the tables are those of this version
// and nobody else changes what the agent has. agent is its uuid.
func (s *Store) change(ctx context.Context, do func(ctx context.Context, agent string) error) error {
	return s.with(ctx, func(ctx context.Context) error {
		return s.transact(ctx, func() error {
			agent, err := s.uuidOf(ctx)
			if err != nil {
				return err
			}
			return do(ctx, agent)
		})
	})
}

func (s *Store) transact(ctx context.Context, do func() error) error {
	end, _ := ctx.Deadline()
	begin := fmt.Sprintf("BEGIN; SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = %d; SET LOCAL idle_in_transaction_session_timeout = %[2]d",
		max(s.o.Wait.Milliseconds(), 1), max(time.Until(end).Milliseconds(), 1))
	err := s.run(ctx, begin)
	if err == nil {
		err = do()
	}
	if err == nil {
		return s.run(ctx, "COMMIT")
	}
	if !s.conn.IsClosed() && s.run(ctx, "ROLLBACK") != nil {
		_ = s.conn.Close(ctx)
	}
	return err
}

// run runs statements without values.
func (s *Store) run(ctx context.Context, statements string) error {
	_, err := s.conn.Exec(ctx, statements).ReadAll()
	return err
}

// ask runs one statement. Its values are texts, numbers, or nil for NULL; so are the
// columns of its rows, all of them texts.
func (s *Store) ask(ctx context.Context, statement string, values ...any) (*pgconn.Result, error) {
	r := s.conn.ExecParams(ctx, statement, texts(values), nil, nil, nil).Read()
	return r, r.Err
}

func texts(values []any) [][]byte {
	out := make([][]byte, len(values))
	for i, v := range values {
		if v != nil {
			out[i] = fmt.Append([]byte{}, v) // never nil
		}
	}
	return out
}

// look tells the version of the tables; 0: there are none. Others are an error.
func (s *Store) look(ctx context.Context) (v int, err error) {
	r, err := s.ask(ctx, "SELECT version FROM mbox_memory")
	switch {
	case codeOf(err) == undefinedTable:
		return 0, nil
	case err != nil:
		return 0, err
	case len(r.Rows) == 1:
		v, err = strconv.Atoi(string(r.Rows[0][0]))
	default:
		v = -1
	}
	if err == nil && v != version {
		err = fault(fmt.Errorf("its tables have the version %d, and this mbox reads %d", v, version), "a newer mbox has made them: use that one, or another database")
	}
	return v, err
}

// makers is what those wait for who make tables and indexes: an advisory lock.
const makers = "SELECT pg_advisory_xact_lock(7090463211534246508)"

// make makes the tables, in a transaction.
func (s *Store) make(ctx context.Context) error {
	if err := s.run(ctx, makers); err != nil {
		return err
	}
	r, err := s.ask(ctx, "SELECT to_regclass('mbox_memory')")
	if err == nil && r.Rows[0][0] == nil {
		err = s.run(ctx, tables)
	}
	return err
}

// uuidOf is the agent's uuid, which it gets here. Its row is locked until the end of the
// transaction.
func (s *Store) uuidOf(ctx context.Context) (string, error) {
	if s.made == 0 {
		if err := s.make(ctx); err != nil {
			return "", err
		}
	}
	for {
		r, err := s.ask(ctx, "SELECT uuid FROM agents WHERE alias = $1 FOR NO KEY UPDATE", s.o.Agent)
		if err != nil {
			return "", err
		}
		if len(r.Rows) == 1 {
			return string(r.Rows[0][0]), nil
		}
		if _, err := s.ask(ctx, "INSERT INTO agents (uuid, alias) VALUES ($1, $2) ON CONFLICT (alias) DO NOTHING", cmp.Or(s.o.UUID, uuid.NewString()), s.o.Agent); err != nil {
			return "", err
		}
	}
}

// Add stores an entry.
func (s *Store) Add(ctx context.Context, e memory.Entry) (id string, err error) {
	if err := e.Check(); err != nil {
		return "", err
	}
	vector := s.meaning.OfEntry(ctx, e)
	var at any
	if !e.At.IsZero() {
		at = e.At.UnixMilli()
	}
	var kept error
	err = s.change(ctx, func(ctx context.Context, agent string) error {
		r, err := s.ask(ctx, `INSERT INTO memories (agent_id, category, key, content, at, author, task, words)
			VALUES ($1, $2, $3, $4, $5, $6, $7, array_to_tsvector($8)) RETURNING id`,
			agent, e.Category, e.Key, e.Content, at, e.By, e.Task, list(words(e.Key+" "+e.Content)))
		if err != nil {
			return err
		}
		id = string(r.Rows[0][0])
		if vector == nil {
			return nil
		}
		if err = s.addVector(ctx, agent, id, vector); errors.Is(err, memory.ErrModel) {
			kept, err = err, nil
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if kept != nil {
		s.meaning.TellKept(kept)
	}
	return id, nil
}

// list is the words as an array's text.
func list(words []string) string {
	if len(words) == 0 {
		return "{}"
	}
	return `{"` + strings.Join(words, `","`) + `"}`
}

const ofAgent = "agent_id = (SELECT uuid FROM agents WHERE alias = $1)"

// Forget removes entries, and their vectors.
func (s *Store) Forget(ctx context.Context, ids ...string) error {
	for _, id := range ids {
		if n, err := strconv.ParseInt(id, 10, 64); err != nil || strconv.FormatInt(n, 10) != id {
			return memory.Unknown(id)
		}
	}
	return s.with(ctx, func(ctx context.Context) error {
		if s.made == 0 && len(ids) > 0 {
			return memory.Unknown(ids[0])
		}
		return s.transact(ctx, func() error {
			for _, id := range ids {
				r, err := s.ask(ctx, "DELETE FROM memories WHERE "+ofAgent+" AND id = $2", s.o.Agent, id)
				if err == nil && r.CommandTag.RowsAffected() == 0 {
					err = memory.Unknown(id)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// All yields the agent's entries, oldest first.
func (s *Store) All(ctx context.Context) iter.Seq2[memory.Entry, error] {
	return func(yield func(memory.Entry, error) bool) {
		all, err := s.entries(ctx, "WHERE "+ofAgent+" ORDER BY at NULLS FIRST, id", s.o.Agent)
		if err != nil {
			yield(memory.Entry{}, err)
			return
		}
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// entries are those that the end of a statement tells.
func (s *Store) entries(ctx context.Context, which string, values ...any) (all []memory.Entry, err error) {
	err = s.read(ctx, func(ctx context.Context) error {
		r, err := s.ask(ctx, "SELECT id, category, key, content, author, task, at FROM memories "+which, values...)
		if err != nil {
			return err
		}
		for _, row := range r.Rows {
			e := memory.Entry{
				ID: string(row[0]), Agent: s.o.Agent, Category: string(row[1]), Key: string(row[2]), Content: string(row[3]),
				By: string(row[4]), Task: string(row[5]),
			}
			if row[6] != nil {
				ms, err := strconv.ParseInt(string(row[6]), 10, 64)
				if err != nil {
					return err
				}
				e.At = time.UnixMilli(ms).UTC()
			}
			all = append(all, e)
		}
		return nil
	})
	return all, err
}
