package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"mbox/agents/memory"
	"mbox/agents/memory/memorytest"
	"mbox/agents/memory/postgres/postgrestest"
	"mbox/mailbox/durable"
)

func TestMain(m *testing.M) {
	code := m.Run()
	postgrestest.Stop()
	os.Exit(code)
}

func open(t testing.TB, url, agent string) *Store {
	t.Helper()
	s, err := Open(Options{URL: url, Agent: agent, Wait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// own is what connects to the test's own database.
func own(t testing.TB) string { return postgrestest.Database(t, t.Name()) }

func TestPostgres(t *testing.T) {
	memorytest.Suite(t, func(dir string) memorytest.Open {
		return func(t testing.TB, agent string) memory.Store { return open(t, postgrestest.Database(t, dir), agent) }
	})
}

func note(key, content string) memory.Entry {
	return memory.Entry{Category: memory.Core, Key: key, Content: content, At: time.UnixMilli(1771237800123).UTC(), By: "human"}
}

func add(t testing.TB, s *Store, key, content string) string {
	t.Helper()
	id, err := s.Add(t.Context(), note(key, content))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// What is forgotten is in no table.
func TestForgottenIsInNoTable(t *testing.T) {
	url := own(t)
	s, _ := hybrid(t, url, "coder", &memorytest.Trigrams{Name: "m", Dim: 64})
	add(t, s, "stays", "text")
	id := add(t, s, "goes", "xyzzy")
	const there = "SELECT FROM memories m JOIN vectors v USING (id) WHERE content = 'xyzzy' AND words @@ 'xyzzy'"
	if postgrestest.Run(t, url, there) != 1 {
		t.Fatal("it was never there")
	}
	if err := s.Forget(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"memories", "vectors"} {
		if n := postgrestest.Run(t, url, "SELECT FROM "+table); n != 1 {
			t.Errorf("%s has %d rows", table, n)
		}
	}
}

// Reading makes no tables. Those of somebody else, and newer ones, are told and stay as
// they are.
func TestStrangeTables(t *testing.T) {
	url := own(t)
	s := open(t, url, "coder")
	if found, err := s.Recall(t.Context(), "x", 5); err != nil || len(found) > 0 {
		t.Errorf("without tables: %v, %v", found, err)
	}
	if n := postgrestest.Run(t, url, "SELECT FROM pg_tables WHERE schemaname = 'public'"); n > 0 {
		t.Error("reading has made tables")
	}
	postgrestest.Run(t, url, "CREATE TABLE agents (name text)")
	if _, err := s.Add(t.Context(), note("key", "text")); err == nil || !strings.Contains(err.Error(), "agents") || !told(err, "search_path") {
		t.Errorf("somebody else's: %v", err)
	}
	if n := postgrestest.Run(t, url, "SELECT FROM pg_tables WHERE schemaname = 'public'"); n != 1 {
		t.Errorf("there are %d tables now", n)
	}
	postgrestest.Run(t, url, "DROP TABLE agents")
	add(t, s, "key", "text")
	postgrestest.Run(t, url, "UPDATE mbox_memory SET version = 99")
	for range 2 {
		if _, err := open(t, url, "coder").Add(t.Context(), note("key", "text")); err == nil || !strings.Contains(err.Error(), "version 99") || !told(err, "newer mbox") {
			t.Errorf("newer ones: %v", err)
		}
	}
}

// told tells whether an error says how to mend it.
func told(err error, fix string) bool {
	var f *memory.Fault
	return errors.As(err, &f) && strings.Contains(f.Fix, fix)
}

// Two mailboxes can share a database, each with a schema of its own.
func TestSearchPath(t *testing.T) {
	url := own(t)
	postgrestest.Run(t, url, "CREATE SCHEMA one; CREATE SCHEMA two")
	add(t, open(t, url+"&search_path=one", "coder"), "key", "text")
	if found, err := open(t, url+"&search_path=two", "coder").Recall(t.Context(), "", 5); err != nil || len(found) > 0 {
		t.Errorf("recalled %v, %v", found, err)
	}
}

// What is wrong with a server or a database is one error, with what mends it, and without
// what connects.
func TestFaults(t *testing.T) {
	url := own(t)
	add(t, open(t, url, "coder"), "key", "text")
	silent, err := net.Listen("unix", filepath.Join(shortDir(t), ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	database := postgrestest.Name(url)
	for _, statement := range []string{
		"CREATE ROLE stranger LOGIN PASSWORD '" + postgrestest.Password + "'",
		"CREATE DATABASE odd ENCODING LATIN1 TEMPLATE template0",
		"REVOKE CONNECT ON DATABASE odd FROM PUBLIC",
	} {
		postgrestest.Superuser(t, "postgres", statement)
	}
	host := "?host=" + postgrestest.Dir(t)
	with := ":" + postgrestest.Password + "@"
	for name, c := range map[string]struct{ url, want, fix string }{
		"down":           {"postgres://swordfish" + with + "127.0.0.1:1/secretdb", "cannot be reached: connection refused", "start it"},
		"no socket":      {"postgres://swordfish" + with + "/secretdb?host=/nowhere", "cannot be reached: no such file", "start it"},
		"no host":        {"postgres://swordfish" + with + "secrethost.invalid/secretdb?sslmode=require", "host|does not answer|cannot be reached", "where the connection is said"},
		"silent":         {"postgres://swordfish" + with + "/secretdb?host=" + filepath.Dir(silent.Addr().String()), "does not answer", "look whether it runs"},
		"password":       {strings.Replace(url, postgrestest.Password, "secret-but-wrong", 1), "refuses user and password", "pg_hba.conf"},
		"user":           {"postgres://swordfish" + with + "/postgres" + host, "refuses user and password", "pg_hba.conf"},
		"database":       {"postgres://postgres" + with + "/secretdb" + host, "no such database", "createdb"},
		"no connect":     {"postgres://stranger" + with + "/odd" + host, "may not use the database", "GRANT CONNECT"},
		"encoding":       {"postgres://postgres" + with + "/odd" + host, "the encoding LATIN1", "ENCODING UTF8"},
		"others' tables": {"postgres://stranger" + with + "/" + database + host, "permission denied", "GRANT ALL"},
		"no schema":      {url + "&search_path=none", "no schema", "GRANT ALL"},
		"read only":      {url + "&default_transaction_read_only=on", "read-only", "GRANT ALL"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(Options{URL: c.url, Agent: "coder", Timeout: 3 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			began := time.Now()
			_, err = s.Add(t.Context(), note("key", "text"))
			var f *memory.Fault
			if !errors.As(err, &f) || !regexp.MustCompile(c.want).MatchString(err.Error()) || !strings.Contains(f.Fix, c.fix) {
				t.Fatalf("%v; %+v", err, f)
			}
			for _, secret := range []string{"secret", "swordfish", postgrestest.Password} {
				if text := fmt.Sprintf("%v %+v", err, f.Fix); strings.Contains(text, secret) {
					t.Errorf("it tells %s: %s", secret, text)
				}
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mbox-pg-") // the name of a socket has 108 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// What does not connect is refused before anything is, and is not told.
func TestURLs(t *testing.T) {
	for url, want := range map[string]string{
		"":                                     "want postgres://",
		"mysql://swordfish":                    "want postgres://",
		"postgres://u:sword:fish@h/d":          "in the clear",
		"postgres://u:swordfish@h:x/d":         "want postgres://",
		"host=h password='swordfish":           "want postgres://",
		"postgres://u:swordfish@h/d?sslmode=x": "want postgres://",
		"postgres://u:swordfish@203.0.113.1/d": "in the clear",
		"host=/tmp,db.example.org user=u password=swordfish sslmode=allow": "in the clear",
	} {
		_, err := Open(Options{URL: url, Agent: "coder"})
		if !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "fish") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"postgres://u@db.example.org/d?sslmode=verify-full", "host=/tmp user=u", "postgres://u@[::1]/d", "postgres://u@localhost/d"} {
		if _, err := Open(Options{URL: url, Agent: "coder"}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// Who waits too long for others is told that, and what takes too long is given up, also
// by the server.
func TestTimes(t *testing.T) {
	url := own(t)
	add(t, open(t, url, "coder"), "key", "text")
	other, err := pgconn.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	run := func(statements string) {
		t.Helper()
		if _, err := other.Exec(t.Context(), statements).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	run("BEGIN; SELECT FROM agents FOR UPDATE")
	s, err := Open(Options{URL: url, Agent: "coder", Wait: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Add(t.Context(), note("key", "text")); !errors.Is(err, durable.ErrBusy) {
		t.Errorf("busy: %v", err)
	}
	run("LOCK TABLE memories IN ACCESS EXCLUSIVE MODE")
	s.o.Timeout = 100 * time.Millisecond
	if _, err := s.Recall(t.Context(), "", 5); err == nil || !strings.Contains(err.Error(), "not answered within") {
		t.Errorf("no answer: %v", err)
	}
	given, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	s.o.Timeout = maxTime
	if _, err := s.Recall(given, "", 5); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("given up: %v", err)
	}
	run("COMMIT")
	if found, err := s.Recall(t.Context(), "", 5); err != nil || len(found) != 1 {
		t.Errorf("afterwards: %v, %v", found, err)
	}
}

// A connection that was lost is told once, and made again.
func TestLostConnection(t *testing.T) {
	url := own(t)
	s := open(t, url, "coder")
	add(t, s, "key", "text")
	postgrestest.Superuser(t, "postgres", fmt.Sprintf("SELECT pg_terminate_backend(%d, 10000)", s.conn.PID()))
	if _, err := s.Recall(t.Context(), "", 5); err == nil || !told(err, "again") {
		t.Errorf("lost: %v", err)
	}
	if found, err := s.Recall(t.Context(), "", 5); err != nil || len(found) != 1 {
		t.Errorf("made again: %v, %v", found, err)
	}
}

// Rare words lead to entries, however many others have the common ones, and other agents'
// do not stand in the way.
func TestRarest(t *testing.T) {
	url := own(t)
	s := open(t, url, "coder")
	add(t, s, "old", "the zebra crossing")
	filled(t, url, "coder", enough+500, "'the common text ' || n")
	add(t, open(t, url, "tester"), "first", "entry")
	filled(t, url, "tester", enough+500, "'the zebra of others'")
	found, err := s.Recall(t.Context(), "The ZEBR crossing", 3)
	if err != nil || len(found) == 0 || found[0].Key != "old" || found[0].Score != 1 {
		t.Errorf("recalled %v, %v", found, err)
	}
	if match, err := s.rarest(t.Context(), "the common crossing missing"); err != nil || match != `'crossing':*` {
		t.Errorf("looked for %q, %v", match, err)
	}
	long := strings.Repeat("ä", 20_000)
	add(t, s, "long", long)
	if found, err := s.Recall(t.Context(), long, 3); err != nil || len(found) != 1 || found[0].Key != "long" {
		t.Errorf("a long word: %d, %v", len(found), err)
	}
}

// filled adds many entries, of a text that is an expression of SQL over n.
func filled(t testing.TB, url, agent string, n int, text string) {
	t.Helper()
	postgrestest.Run(t, url, fmt.Sprintf(`INSERT INTO memories (agent_id, category, key, content, at, author, task, words)
		SELECT uuid, 'core', 'key', %s, 1771237800123 + n, 'human', '', to_tsvector('simple', 'key ' || %[1]s)
		FROM agents, generate_series(1, %d) n WHERE alias = '%s'`, text, n, agent))
	postgrestest.Run(t, url, "ANALYZE memories")
}

// What an agent remembers is its own under another name, and has its UUID.
func TestRename(t *testing.T) {
	url := own(t)
	o := Options{URL: url, Agent: "ada", UUID: "0f6c1e9a-3b52-4a49-9c64-1d7a2d0c8f11"}
	if err := Rename(t.Context(), o, "eve"); err != nil {
		t.Fatalf("where there are no tables: %v", err)
	}
	if known, err := Knows(t.Context(), o); known || err != nil {
		t.Errorf("where there are no tables: %v, %v", known, err)
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	add(t, s, "name", "I am ada")
	add(t, open(t, url, "bob"), "name", "I am bob")
	for range 2 { // said again
		if err := Rename(t.Context(), o, "eve"); err != nil {
			t.Fatal(err)
		}
		for agent, want := range map[string]bool{"ada": false, "bob": true, "eve": true} {
			if known, err := Knows(t.Context(), Options{URL: url, Agent: agent}); known != want || err != nil {
				t.Errorf("%s is known: %t %v", agent, known, err)
			}
		}
	}
	if found, err := open(t, url, "eve").Recall(t.Context(), "", 5); err != nil || len(found) != 1 || found[0].Content != "I am ada" {
		t.Errorf("recalled %v, %v", found, err)
	}
	if postgrestest.Run(t, url, "SELECT FROM agents WHERE alias = 'eve' AND uuid = '"+o.UUID+"'") != 1 {
		t.Error("it has another UUID")
	}
	if err := Rename(t.Context(), Options{URL: url, Agent: "eve"}, "bob"); err == nil {
		t.Error("two are one")
	}
}
