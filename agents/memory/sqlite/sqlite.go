// Package sqlite keeps what all agents of a mailbox remember in one SQLite database.
//
// # The database
//
//	agents    uuid, alias                           an agent keeps its uuid when its name changes
//	memories  id, agent_id, category, key, content, at (Unix milliseconds), author, task
//	words     an FTS5 index of key and content
//	vectors   id, agent_id, model, dim, vector: of entries that were embedded, a byte a dimension
//	signs     agent_id, block, data: the signs of the vectors, 128 ids a row
//
// A Store stamps what it adds with its agent's uuid, and sees nothing that has another.
// Ids are never used again.
//
// Journals are rollback journals (not WAL), every commit is flushed, and what is deleted
// is written over (secure_delete, in the index too): what is forgotten is in no file of
// the database. The database's file is opened by SQLite alone: closing any other
// descriptor of it would drop SQLite's locks.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/google/uuid"
	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"mbox/agents/memory"
	"mbox/mailbox/durable"
)

// Store is one agent's part of a database.
type Store struct {
	UUID  string // of the agent, from its first entry on; "" has one made
	db    *sql.DB
	path  string
	alias string

	meaning memory.Meaning
}

var _ memory.Store = (*Store)(nil)

// version is that of the tables: PRAGMA user_version.
var version = len(tables)

// tables make each version out of the one before it.
var tables = [][]string{{
	`CREATE TABLE agents (uuid TEXT PRIMARY KEY, alias TEXT NOT NULL UNIQUE) STRICT`,
	`CREATE TABLE memories (
		id INTEGER PRIMARY KEY AUTOINCREMENT, agent_id TEXT NOT NULL REFERENCES agents(uuid),
		category TEXT NOT NULL, key TEXT NOT NULL, content TEXT NOT NULL, at INTEGER, author TEXT NOT NULL, task TEXT NOT NULL) STRICT`,
	`CREATE INDEX memories_of ON memories (agent_id, at)`,
	`CREATE VIRTUAL TABLE words USING fts5(key, content, content='memories', content_rowid='id', prefix='1 2 3 4', tokenize='unicode61 remove_diacritics 0')`,
	`INSERT INTO words(words, rank) VALUES ('secure-delete', 1)`,
	`PRAGMA user_version = 1`,
}, {
	`CREATE TABLE vectors (
		id INTEGER PRIMARY KEY REFERENCES memories(id), agent_id TEXT NOT NULL REFERENCES agents(uuid),
		model TEXT NOT NULL, dim INTEGER NOT NULL, vector BLOB NOT NULL) STRICT`,
	`CREATE INDEX vectors_of ON vectors (agent_id)`,
	`CREATE TABLE signs (
		agent_id TEXT NOT NULL REFERENCES agents(uuid), block INTEGER NOT NULL, data BLOB NOT NULL,
		PRIMARY KEY (agent_id, block)) STRICT`,
	`PRAGMA user_version = 2`,
}}

// Open opens the part of an agent. The database is made when something is added first.
// wait is how long it waits for others who write.
func Open(path, agent string, wait time.Duration) (*Store, error) {
	pragmas := url.Values{"_txlock": {"immediate"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", wait.Milliseconds()), "journal_mode(DELETE)", "synchronous(EXTRA)", "secure_delete(ON)", "foreign_keys(ON)",
	}}
	name := url.URL{Scheme: "file", Path: path, RawQuery: pragmas.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &Store{db: db, path: path, alias: agent}, nil
}

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// there tells whether there is a database with these tables. A newer one is an error.
func (s *Store) there(ctx context.Context) (bool, error) {
	v, err := s.made(ctx)
	return v > 0, err
}

// made is the version of the tables; 0: there are none.
func (s *Store) made(ctx context.Context) (v int, err error) {
	switch st, err := durable.Lstat(s.path); {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return 0, fmt.Errorf("%s: %w", s.path, durable.ErrNotRegular)
	case st.Size == 0:
		return 0, nil
	}
	err = s.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&v)
	if err == nil && v > version {
		err = fmt.Errorf("it has version %d, and this mbox reads %d", v, version)
	}
	return v, s.about(err)
}

func (s *Store) about(err error) error {
	var e *driver.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && (e.Code()&0xff == lib.SQLITE_BUSY || e.Code()&0xff == lib.SQLITE_LOCKED):
		return fmt.Errorf("%s: %w: %w", s.path, durable.ErrBusy, err)
	case errors.As(err, &e) && e.Code()&0xff == lib.SQLITE_FULL:
		return fmt.Errorf("%s: %w: %w", s.path, syscall.ENOSPC, err)
	case errors.As(err, &e) && (e.Code()&0xff == lib.SQLITE_IOERR || e.Code()&0xff == lib.SQLITE_READONLY):
		return fmt.Errorf("%s: %w: %w", s.path, syscall.EIO, err)
	}
	return fmt.Errorf("%s: %w", s.path, err)
}

// change does something in one transaction.
func (s *Store) change(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return s.about(err)
	}
	if err := do(tx); err != nil {
		return errors.Join(s.about(err), tx.Rollback())
	}
	return s.about(tx.Commit())
}

// create makes the file, with the mode of all that mbox makes.
func (s *Store) create() error {
	if err := durable.MkdirAll(filepath.Dir(s.path), durable.Strict); err != nil {
		return err
	}
	f, err := durable.Create(s.path)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), durable.SyncDir(filepath.Dir(s.path), durable.Strict))
}

// uuidOf is the agent's uuid, which it gets here. The tables are made where there are none.
func (s *Store) uuidOf(ctx context.Context, tx *sql.Tx) (id string, err error) {
	v := 0
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&v); err != nil {
		return "", err
	}
	for _, table := range slices.Concat(tables[min(v, version):]...) {
		if _, err := tx.ExecContext(ctx, table); err != nil {
			return "", err
		}
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO agents (uuid, alias) VALUES (?, ?) ON CONFLICT (alias) DO NOTHING", cmp.Or(s.UUID, uuid.NewString()), s.alias)
	if err == nil {
		err = tx.QueryRowContext(ctx, "SELECT uuid FROM agents WHERE alias = ?", s.alias).Scan(&id)
	}
	return id, err
}

// Add stores an entry.
func (s *Store) Add(ctx context.Context, e memory.Entry) (id string, err error) {
	if err := e.Check(); err != nil {
		return "", err
	}
	if _, err := s.there(ctx); err != nil {
		return "", err
	}
	if err := s.create(); err != nil {
		return "", err
	}
	vector := s.meaning.OfEntry(ctx, e)
	at := sql.NullInt64{Int64: e.At.UnixMilli(), Valid: !e.At.IsZero()}
	err = s.change(ctx, func(tx *sql.Tx) error {
		agent, err := s.uuidOf(ctx, tx)
		if err != nil {
			return err
		}
		var n int64
		err = tx.QueryRowContext(ctx, `INSERT INTO memories (agent_id, category, key, content, at, author, task)
			VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id`, agent, e.Category, e.Key, e.Content, at, e.By, e.Task).Scan(&n)
		if err == nil {
			_, err = tx.ExecContext(ctx, "INSERT INTO words (rowid, key, content) VALUES (?, ?, ?)", n, e.Key, e.Content)
		}
		if err == nil && vector != nil {
			err = s.addVector(ctx, tx, agent, n, vector)
		}
		id = strconv.FormatInt(n, 10)
		return err
	})
	return id, err
}

// Forget removes entries, and what the index has of them.
func (s *Store) Forget(ctx context.Context, ids ...string) error {
	there, err := s.there(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if n, err := strconv.ParseInt(id, 10, 64); !there || err != nil || strconv.FormatInt(n, 10) != id {
			return memory.Unknown(id)
		}
	}
	if !there {
		return nil
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		if _, err := s.uuidOf(ctx, tx); err != nil { // makes the tables of this version
			return err
		}
		for _, id := range ids {
			if err := s.forget(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return dropSnapshot(s.path)
}

func (s *Store) forget(ctx context.Context, tx *sql.Tx, id string) error {
	n, err := strconv.ParseInt(id, 10, 64)
	if err == nil {
		err = s.dropVector(ctx, tx, n)
	}
	if err != nil {
		return err
	}
	var key, content string
	err = tx.QueryRowContext(ctx, `DELETE FROM memories WHERE id = ? AND agent_id = (SELECT uuid FROM agents WHERE alias = ?)
		RETURNING key, content`, id, s.alias).Scan(&key, &content)
	if errors.Is(err, sql.ErrNoRows) {
		return memory.Unknown(id)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "INSERT INTO words (words, rowid, key, content) VALUES ('delete', ?, ?, ?)", id, key, content)
	}
	return err
}

const columns = "m.id, m.category, m.key, m.content, m.at, m.author, m.task"

const ofAgent = "m.agent_id = (SELECT uuid FROM agents WHERE alias = ?)"

// All yields the agent's entries, oldest first.
func (s *Store) All(ctx context.Context) iter.Seq2[memory.Entry, error] {
	return func(yield func(memory.Entry, error) bool) {
		all, err := s.query(ctx, "SELECT "+columns+" FROM memories m WHERE "+ofAgent+" ORDER BY m.at, m.id", s.alias)
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

func (s *Store) query(ctx context.Context, query string, args ...any) (all []memory.Entry, err error) {
	if there, err := s.there(ctx); err != nil || !there {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, s.about(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e memory.Entry
		var at sql.NullInt64
		if err := rows.Scan(&e.ID, &e.Category, &e.Key, &e.Content, &at, &e.By, &e.Task); err != nil {
			return nil, s.about(err)
		}
		if at.Valid {
			e.At = time.UnixMilli(at.Int64).UTC()
		}
		e.Agent = s.alias
		all = append(all, e)
	}
	return all, s.about(rows.Err())
}
