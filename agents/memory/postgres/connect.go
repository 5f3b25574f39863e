package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"mbox/agents/memory"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// ErrURL: what connects is none of the forms that Postgres knows, or would do so in the
// clear.
var ErrURL = errors.New("it does not connect to a Postgres")

func fault(err error, fix string) error { return &memory.Fault{In: "Postgres", Err: err, Fix: fix} }

// oldest is the oldest version of Postgres that is supported.
const oldest = 14

// configOf reads what connects. Its errors tell nothing of it.
func configOf(o Options) (*pgconn.Config, error) {
	c, err := pgconn.ParseConfig(o.URL)
	if err != nil || o.URL == "" {
		return nil, fmt.Errorf("%w: want postgres://user:password@host:5432/database", ErrURL)
	}
	inClear := c.TLSConfig == nil && !near(c.Host)
	for _, other := range c.Fallbacks {
		inClear = inClear || other.TLSConfig == nil && !near(other.Host)
	}
	if inClear {
		return nil, fmt.Errorf("%w: the password and all that is remembered could go to another machine in the clear: want sslmode=verify-full in it", ErrURL)
	}
	c.ConnectTimeout = o.Timeout
	c.RuntimeParams["client_encoding"] = "UTF8"
	c.RuntimeParams["application_name"] = "mbox"
	c.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: o.Timeout / 10}
	}
	return c, nil
}

// near tells whether a host is this machine: a folder with a socket, or loopback.
func near(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || host == "localhost" || ip != nil && ip.IsLoopback()
}

func (s *Store) connect(ctx context.Context) error {
	s.made = 0
	conn, err := pgconn.ConnectConfig(ctx, s.config)
	if err != nil {
		return refusal(ctx, err)
	}
	s.conn = conn
	major := 0
	_, _ = fmt.Sscan(conn.ParameterStatus("server_version"), &major)
	switch encoding := conn.ParameterStatus("server_encoding"); {
	case major < oldest:
		err = fault(fmt.Errorf("the server is Postgres %s", schemas.Sentence(conn.ParameterStatus("server_version"), 40)), fmt.Sprintf("want %d or newer", oldest))
	case encoding != "UTF8":
		err = fault(fmt.Errorf("the database has the encoding %s", schemas.Sentence(encoding, 40)), "CREATE DATABASE … ENCODING UTF8 TEMPLATE template0 makes one for all texts")
	}
	if err != nil {
		_ = conn.Close(ctx)
	}
	return err
}

// Codes of errors, of appendix A of Postgres' manual.
const (
	undefinedTable    = "42P01"
	duplicateTable    = "42P07"
	noRights          = "42501"
	noSchema          = "3F000"
	noDatabase        = "3D000"
	lockNotAvailable  = "55P03"
	deadlock          = "40P01"
	queryCanceled     = "57014"
	uniqueViolation   = "23505"
	readOnly          = "25006"
	classAuthority    = "28"
	classResources    = "53"
	tooMany           = "53300"
	diskFull          = "53100"
	classIntervention = "57P"
)

// codeOf is the code of an error that the server has told; "" of any other.
func codeOf(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// refusal is why there is no connection, without what the server or the system says of
// where it was wanted.
func refusal(ctx context.Context, err error) error {
	code := codeOf(err)
	var system syscall.Errno
	var dns *net.DNSError
	switch {
	case code == noDatabase:
		return fault(errors.New("the server has no such database"), "createdb makes it, or name another one where the connection is said")
	case strings.HasPrefix(code, classAuthority):
		return fault(errors.New("the server refuses user and password"), "mend them where the connection is said; pg_hba.conf of the server tells who may come from where")
	case code == noRights:
		return fault(errors.New("the user may not use the database"), "GRANT CONNECT ON DATABASE … TO …, by its owner")
	case code == tooMany:
		return fault(errors.New("the server takes no more connections"), "try again in a moment, or raise its max_connections")
	case strings.HasPrefix(code, classIntervention):
		return fault(errors.New("the server starts or ends just now"), "try again in a moment")
	case code != "":
		return fault(fmt.Errorf("the server refuses the connection (SQLSTATE %s)", schemas.Sentence(code, 10)), "its log tells why")
	case ctx.Err() != nil || pgconn.Timeout(err):
		return fault(errors.New("the server does not answer"), "look whether it runs, and whether host and port are right where the connection is said")
	case errors.As(err, &dns):
		return fault(errors.New("there is no such host"), "mend it where the connection is said")
	case errors.As(err, &system):
		return fault(errors.New("the server cannot be reached: "+system.Error()), "start it, or mend host and port where the connection is said")
	}
	return fault(errors.New("no connection as it is said, and none with TLS that can be trusted"), "look at sslmode and sslrootcert where the connection is said, and at the server's log")
}

// about makes an error of the server one of mbox.
func (s *Store) about(err error) error {
	var e *pgconn.PgError
	var known *memory.Fault
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, memory.ErrUnknown), errors.Is(err, memory.ErrModel):
		return err
	case pgconn.Timeout(err), codeOf(err) == queryCanceled, errors.Is(err, context.DeadlineExceeded):
		return fault(fmt.Errorf("the server has not answered within %v", s.o.Timeout), "look what it is at (pg_stat_activity), and try again")
	case !errors.As(err, &e):
		return fault(errors.New("the connection was lost"), "whether it was done is not known: look, and do it again")
	}
	said := errors.New(schemas.Sentence(s.hidden(e.Message), 300))
	switch e.Code {
	case lockNotAvailable, deadlock:
		return fmt.Errorf("the memory in Postgres: %w: others write to it", durable.ErrBusy)
	case diskFull:
		return fmt.Errorf("the memory in Postgres: %w: %w", syscall.ENOSPC, said)
	case noRights, noSchema, readOnly:
		return fault(said, "GRANT ALL ON SCHEMA … TO …, or give the user a database of its own; tables that are there already want their owner, or GRANT ALL ON them and their sequences")
	case duplicateTable:
		return fault(said, "the tables are somebody else's: use a database of its own, or a schema (search_path=NAME)")
	case uniqueViolation:
		return fault(said, "another agent of this database has that name or UUID: each mailbox wants a database or a schema of its own")
	}
	if strings.HasPrefix(e.Code, classIntervention) {
		return fault(errors.New("the server ends just now"), "try again when it is there again")
	}
	if strings.HasPrefix(e.Code, classResources) {
		return fault(said, "the server has no room for that: its log tells more")
	}
	return fault(fmt.Errorf("%w (SQLSTATE %s)", said, schemas.Sentence(e.Code, 10)), "the server's log tells more")
}

// hidden is a text without what connects.
func (s *Store) hidden(text string) string {
	for _, secret := range []string{s.o.URL, s.config.Password} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "<redacted>")
		}
	}
	return text
}
