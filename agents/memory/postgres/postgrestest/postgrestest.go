// Package postgrestest runs a Postgres server for the tests of a package: a real one, in a
// temporary folder, on a socket there.
package postgrestest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Password is that of every user of the server.
const Password = "open-sesame-17"

// variable has the folder of a server, for the processes of a test.
const variable = "MBOX_TEST_POSTGRES_DIR"

var server struct {
	once sync.Once
	dir  string
	err  error
	end  func()
}

// Programs is the folder of initdb and postgres; "" if there are none.
func Programs() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // where Debian has them
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}

// ready starts the server, once for all tests of a process, and returns the folder of its
// socket.
func ready() (dir string, err error) {
	server.once.Do(func() {
		if server.dir = os.Getenv(variable); server.dir != "" {
			return // of the process that has begun this one
		}
		if server.dir, server.end, server.err = start(); server.err == nil {
			server.err = os.Setenv(variable, server.dir)
		}
	})
	return server.dir, server.err
}

// Dir is the folder of the server's socket. Without Postgres the test is skipped, and
// fails in CI.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := ready()
	switch {
	case errors.Is(err, errMissing) && os.Getenv("CI") == "":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return dir
}

// Stop ends the server, if this process has started one.
func Stop() {
	if server.end != nil {
		server.end()
	}
}

var errMissing = errors.New("postgres is missing: install the package postgresql")

// start starts a server. It ends, and its folder goes, when this process does, however
// that ends: then the shell below reads the end of its input.
func start() (dir string, end func(), err error) {
	programs := Programs()
	if programs == "" {
		return "", nil, errMissing
	}
	if dir, err = os.MkdirTemp(base(), "mbox-pg-"); err != nil {
		return "", nil, err
	}
	as, err := other(dir)
	if err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "password"), []byte(Password), 0o644); err != nil {
		return "", nil, err
	}
	run := exec.Command(filepath.Join(programs, "initdb"), "--pgdata="+filepath.Join(dir, "data"), "--username=postgres", "--auth=scram-sha-256",
		"--pwfile="+filepath.Join(dir, "password"), "--encoding=UTF8", "--locale=C", "--no-sync")
	run.SysProcAttr, run.Dir = as, dir
	if out, err := run.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	const guard = `"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c fsync=off -c shared_buffers=32MB >"$2/log" 2>&1 & pid=$!
		read -r line; kill -QUIT $pid; wait $pid; rm -rf "$2"`
	cmd := exec.Command("/bin/sh", "-c", guard, "sh", programs, dir)
	cmd.SysProcAttr, cmd.Dir = as, dir
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, err
	}
	end = func() {
		in.Close()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir) // what the other user could not remove
	}
	for late := time.Now().Add(time.Minute); ; {
		conn, err := connect(dir, "postgres")
		if err == nil {
			return dir, end, conn.Close(context.Background())
		}
		if time.Now().After(late) {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			end()
			return "", nil, fmt.Errorf("%w\n%s", err, log)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// base is where the server's folder is made: for temporary files, or in /tmp where another
// user does not get there, or the name of a socket would be too long (108 bytes).
func base() string {
	dir := os.TempDir()
	if len(dir) > 60 {
		return "/tmp"
	}
	for at := dir; os.Geteuid() == 0 && at != "/"; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err != nil || info.Mode()&0o001 == 0 {
			return "/tmp"
		}
	}
	return dir
}

// other gives the folder to another user where this one is root, whom no server takes.
func other(dir string) (*syscall.SysProcAttr, error) {
	as := &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() != 0 {
		return as, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return as, os.Chown(dir, uid, gid)
}

// URL is what connects to a database of a server as a user.
func URL(dir, database, as string) string {
	return "postgres://" + as + ":" + Password + "@/" + database + "?host=" + dir
}

func connect(dir, database string) (*pgconn.PgConn, error) {
	return pgconn.Connect(context.Background(), URL(dir, database, "postgres"))
}

// Database is New for tests that skip without Postgres.
func Database(t testing.TB, name string) (url string) {
	t.Helper()
	Dir(t)
	url, err := New(name)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// New makes a database, once for each name, and returns what connects to it as its owner,
// who is no superuser.
func New(name string) (url string, err error) {
	dir, err := ready()
	if err != nil {
		return "", err
	}
	id := fmt.Sprintf("t_%x", sha256.Sum256([]byte(name)))[:14]
	conn, err := connect(dir, "postgres")
	if err != nil {
		return "", err
	}
	defer conn.Close(context.Background())
	rows, err := run(conn, "SELECT pg_advisory_lock(1); SELECT FROM pg_database WHERE datname = '"+id+"'")
	if err == nil && rows == 0 {
		_, err = run(conn, "CREATE ROLE "+id+" LOGIN PASSWORD '"+Password+"'")
		if err == nil {
			_, err = run(conn, "CREATE DATABASE "+id+" OWNER "+id)
		}
	}
	return URL(dir, id, id), err
}

// Name is the name of the database to which a URL of Database connects.
func Name(url string) string {
	_, name, _ := strings.Cut(url, "@/")
	name, _, _ = strings.Cut(name, "?")
	return name
}

// Pgvector tells whether the server can have the extension vector.
func Pgvector(t testing.TB) bool {
	t.Helper()
	return Superuser(t, "postgres", "SELECT FROM pg_available_extensions WHERE name = 'vector'") > 0
}

// Superuser runs statements in a database, and tells how many rows the last one gives.
func Superuser(t testing.TB, database, statements string) (rows int) {
	t.Helper()
	return Run(t, URL(Dir(t), database, "postgres"), statements)
}

// Run connects, runs statements, and tells how many rows the last one gives.
func Run(t testing.TB, url, statements string) (rows int) {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if rows, err = run(conn, statements); err != nil {
		t.Fatal(err)
	}
	return rows
}

func run(conn *pgconn.PgConn, statements string) (rows int, err error) {
	all, err := conn.Exec(context.Background(), statements).ReadAll()
	if err == nil {
		rows = len(all[len(all)-1].Rows)
	}
	return rows, err
}
