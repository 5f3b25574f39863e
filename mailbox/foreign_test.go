package mailbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/mailbox/verify"
	"mbox/schemas"
)

// clock is a clock that a test turns by hand. It begins at a whole second.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.at.Store(time.Now().Truncate(time.Second).UnixNano())
	return c
}

func (c *clock) now() time.Time           { return time.Unix(0, c.at.Load()) }
func (c *clock) turn(d time.Duration)     { c.at.Add(int64(d)) }
func (c *clock) options() Options         { return Options{Now: c.now, RetryBase: time.Nanosecond} }
func (c *clock) stamp(path string)        { _ = os.Chtimes(path, c.now(), c.now()) } // a dangling symlink has no times
func old(path string)                     { at := time.Now().Add(-10 * time.Minute); _ = os.Chtimes(path, at, at) }
func put(path, text string) error         { return os.WriteFile(path, []byte(text), 0o600) }
func (b *Box) pending(name string) string { return b.path("tasks", "pending", name) }

// whole runs our own verify on a home: it has to agree with the checker.
func whole(t interface {
	Helper()
	Errorf(string, ...any)
}, dir string,
) {
	t.Helper()
	r, err := verify.Home(context.Background(), dir, verify.Options{Deep: true})
	if err != nil {
		t.Errorf("verify: %v", err)
	}
	for _, f := range r.Findings {
		t.Errorf("verify: %v", f)
	}
}

// homes collects the homes of a table's rows, for one run of the checker.
type homes map[string]string

// open makes and opens a mailbox whose home is checked with the others.
func (h homes) open(t *testing.T, o Options) *Box {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	if o.Sync == durable.Standard {
		o.Sync = durable.None
	}
	must(t, Create(dir, o))
	b, err := Open(t.Context(), dir, o)
	must(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// keep registers a home for the checker. It is copied, because a subtest's
// folder goes with the subtest.
func (h homes) keep(t *testing.T, b *Box, kept string) {
	t.Helper()
	if t.Failed() {
		return
	}
	dir := filepath.Join(kept, fmt.Sprint(len(h)))
	must(t, os.Rename(b.Home(), dir))
	h[dir] = t.Name()
}

func must(t interface {
	Helper()
	Fatal(...any)
}, err error,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within fails the test if do takes longer, and then calls unblock, for a scan
// may not block on anything that lies in a folder. A panic is a failure too.
func within(t *testing.T, limit time.Duration, what string, unblock func(), do func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v", p)
			}
		}()
		done <- do()
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(limit):
		t.Errorf("%s: not done after %v", what, limit)
		if unblock != nil {
			unblock()
		}
		<-done
	}
}

// scanNow scans as a process does that has just been started: it looks into
// every folder, whatever it cost the last time.
func scanNow(b *Box, folders ...State) error {
	b.forgetPaces()
	if len(folders) == 0 {
		folders = []State{Pending, InProgress}
	}
	_, err := b.scan(context.Background(), folders, nil)
	return err
}

// forgetPaces makes the box look at everything again, as a new process does.
func (b *Box) forgetPaces() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paces = map[string]pace{}
	b.settledAt = time.Time{}
}

func mustScan(t testing.TB, b *Box, folders ...State) {
	t.Helper()
	must(t, scanNow(b, folders...))
}

// quarantine lists the reasons of the quarantine whose bytes are there.
func quarantine(t testing.TB, b *Box) []home.Reason {
	t.Helper()
	names, err := durable.Names(b.path("tasks", "quarantine"))
	must(t, err)
	var out []home.Reason
	for _, name := range names {
		entry, ok := strings.CutSuffix(name, home.ReasonSuffix)
		if !ok {
			continue
		}
		data, err := os.ReadFile(b.path("tasks", "quarantine", name))
		must(t, err)
		var r home.Reason
		must(t, json.Unmarshal(data, &r))
		if _, err := os.Lstat(b.path("tasks", "quarantine", entry)); err != nil {
			t.Errorf("%s is there, its entry is not: %v", name, err)
		}
		out = append(out, r)
	}
	return out
}

// lines returns the ledger's entries about a task; "" for all.
func lines(t testing.TB, b *Box, id ID) []audit.Entry {
	t.Helper()
	r := b.ledger.Read(audit.Position{})
	defer r.Close()
	var out []audit.Entry
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			if broken := r.Broken(); broken != nil {
				t.Error(broken)
			}
			return out
		}
		must(t, err)
		e, err := line.Decode()
		must(t, err)
		if id == "" || ID(e.Task()) == id {
			out = append(out, e)
		}
	}
}

// ending is where a file that somebody dropped has to end.
type ending struct {
	state State  // Pending: admitted; Failed: rejected; None: see below
	made  bool   // admitted under an id that mbox made
	path  string // rejected: result.error.path
	code  string // of the rejection or of the quarantine's reason
	alone bool   // left where it is
}

func admitted() ending                  { return ending{state: Pending} }
func admittedAs() ending                { return ending{state: Pending, made: true} }
func rejected(path, code string) ending { return ending{state: Failed, path: path, code: code} }
func quarantined(code string) ending    { return ending{code: code} }
func leftAlone() ending                 { return ending{alone: true} }
func titled(rest string) string         { return `{"task":{"title":"x"}` + rest + `}` }
func meta(field string) string          { return titled(`,"mbox":{` + field + `}`) }
func inContext(value string) string     { return `{"task":{"title":"x","context":{"a":` + value + `}}}` }
func deep(n int) string                 { return strings.Repeat("[", n) + strings.Repeat("]", n) }
func (e ending) putAway() bool          { return e.state == None && !e.alone }
func (b *Box) drop(t testing.TB, name, text string) {
	t.Helper()
	must(t, put(b.pending(name), text))
	old(b.pending(name))
}

// dropped is one row of the table: a file that somebody drops into pending.
type dropped struct {
	name string // of the row
	file string // "drop.json" if empty
	text string
	make func(b *Box, path string) error // instead of text
	free func(path string)               // unblocks whoever reads it
	ends ending
}

func symlink(to string) func(*Box, string) error {
	return func(_ *Box, path string) error { return os.Symlink(to, path) }
}

func sized(n int64) func(*Box, string) error {
	return func(_ *Box, path string) error {
		if err := put(path, `{"task":{"title":"x"}}`); err != nil {
			return err
		}
		return os.Truncate(path, n)
	}
}

func moded(m fs.FileMode) func(*Box, string) error {
	return func(_ *Box, path string) error {
		if err := put(path, titled("")); err != nil {
			return err
		}
		return os.Chmod(path, m)
	}
}

func modified(at time.Time, text string) func(*Box, string) error {
	return func(_ *Box, path string) error {
		if err := put(path, text); err != nil {
			return err
		}
		// os.Chtimes counts nanoseconds, which end in the year 2262.
		ts := unix.Timespec{Sec: at.Unix()}
		return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{ts, ts}, 0)
	}
}

func hardLink(b *Box, path string) error {
	if err := put(b.path("other"), titled("")); err != nil {
		return err
	}
	return os.Link(b.path("other"), path)
}

func socket(_ *Box, path string) error {
	// The path of a socket is bounded: it is made elsewhere and moved.
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	return os.Rename(filepath.Join(dir, "s"), path)
}

func folder(_ *Box, path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return put(filepath.Join(path, "inside"), "kept")
}

// earlier makes a task before the drop comes, and brings it to an end if asked.
func earlier(id string, how func(b *Box) error, text string) func(*Box, string) error {
	return func(b *Box, path string) error {
		task := request("the first of its id")
		task.ID = ID(id)
		if _, err := b.Submit(context.Background(), task); err != nil {
			return err
		}
		if how != nil {
			if err := how(b); err != nil {
				return err
			}
		}
		return put(path, text)
	}
}

func cancelled(id string) func(*Box) error {
	return func(b *Box) error { return b.Cancel(context.Background(), ID(id), "human", "test") }
}

func archived(id string) func(*Box) error {
	return func(b *Box) error {
		if err := cancelled(id)(b); err != nil {
			return err
		}
		_, err := b.Archive(context.Background(), 0, "human")
		return err
	}
}

func deleted(id string) func(*Box) error {
	return func(b *Box) error {
		if err := os.Remove(b.pending(id + ".json")); err != nil {
			return err
		}
		return scanNow(b)
	}
}

// padded is a valid drop of n bytes.
func padded(n int) string {
	return inContext(`"` + strings.Repeat("p", n-len(inContext(`""`))) + `"`)
}

// spread is a valid drop below 1 MiB that is above it once it is indented.
func spread() string { return inContext("[" + strings.Repeat("1,", 300_000) + "1]") }

func unreadable() ending {
	if os.Getuid() == 0 {
		return admitted() // root reads it all the same
	}
	return quarantined("not_regular")
}

var bidi = "\u202e"

// droppedFiles is everything that can be dropped (design sections 2 and 3).
var droppedFiles = []dropped{
	// Good ones.
	{name: "smallest", text: titled(""), ends: admitted()},
	{name: "with its own id", text: titled(`,"id":"drop"`), ends: admitted()},
	{name: "indented by hand", text: "\n\t{ \"task\" :\r\n{\"title\"\t:\"x\"} }\n\n", ends: admitted()},
	{name: "pending is no claim", text: titled(`,"result":{"status":"pending","output":null,"artifacts":[],"error":null}`), ends: admitted()},
	{name: "nulls", text: titled(`,"mbox":null,"assignment":{"picked_up_by":null,"picked_up_at":null},"audit":{"state_changes":[]}`), ends: admitted()},
	{name: "all that a dropper may set", text: meta(`"action":{"name":"write_file","params":{"path":"a"}},"depends_on":["other-1"],"not_before":"2020-01-01T00:00:00+02:00","deadline":null,"max_attempts":7,"idempotency_key":"k","labels":{"a":1}`), ends: admitted()},
	{name: "depth 32", text: inContext(deep(29)), ends: admitted()},
	{name: "escapes and bidi in the title", text: `{"task":{"title":"a\u001b[31mb` + bidi + `c\nd"}}`, ends: admitted()},
	{name: "large numbers", text: inContext(`[123456789012345678901234567890, 1e300, -0.0]`), ends: admitted()},
	{name: "depends on an unknown task", text: meta(`"depends_on":["nobody-knows"]`), ends: admitted()},
	{name: "mode 0666", make: moded(0o666), ends: admitted()},
	{name: "mode 0000", make: moded(0), ends: unreadable()},
	{name: "just under the limit of a new task", text: padded(MaxNew - 2000), ends: admitted()},

	// Not JSON, or not one JSON object.
	{name: "empty", text: "", ends: quarantined("empty")},
	{name: "white space", text: " \n\t", ends: quarantined("empty")},
	{name: "truncated", text: `{"task":{"title":"x`, ends: quarantined("truncated")},
	{name: "array", text: `[` + titled("") + `]`, ends: quarantined("wrong_type")},
	{name: "string", text: `"task"`, ends: quarantined("wrong_type")},
	{name: "null", text: `null`, ends: quarantined("wrong_type")},
	{name: "two values", text: titled("") + titled(""), ends: quarantined("trailing_data")},
	{name: "trailing comma", text: `{"task":{"title":"x"},}`, ends: quarantined("not_json")},
	{name: "BOM", text: "\ufeff" + titled(""), ends: quarantined("bom")},
	{name: "UTF-16", text: "\xff\xfe{\x00}\x00", ends: quarantined("invalid_utf8")},
	{name: "comment", text: "// a task\n" + titled(""), ends: quarantined("not_json")},
	{name: "block comment inside", text: `{"task":/* what */{"title":"x"}}`, ends: quarantined("not_json")},
	{name: "single quotes", text: `{'task':{'title':'x'}}`, ends: quarantined("not_json")},
	{name: "NaN", text: inContext("NaN"), ends: quarantined("not_json")},
	{name: "Infinity", text: inContext("-Infinity"), ends: quarantined("not_json")},
	{name: "leading zero", text: inContext("01"), ends: quarantined("not_json")},
	{name: "NUL behind it", text: titled("") + "\x00", ends: quarantined("trailing_data")},
	{name: "duplicate key", text: `{"task":{"title":"x"},"task":{"title":"y"}}`, ends: quarantined("duplicate_key")},
	{name: "duplicate key at depth", text: inContext(`{"b":[{"c":1,"c":2}]}`), ends: quarantined("duplicate_key")},
	{name: "duplicate key by an escape", text: inContext(`{"b":1,"\u0062":2}`), ends: quarantined("duplicate_key")},
	{name: "invalid UTF-8", text: inContext("\"\xc3\x28\""), ends: quarantined("invalid_utf8")},
	{name: "overlong UTF-8", text: inContext("\"\xc0\xaf\""), ends: quarantined("invalid_utf8")},
	{name: "lone surrogate", text: inContext(`"\ud800"`), ends: quarantined("invalid_utf8")},
	{name: "surrogates the wrong way round", text: inContext(`"\udc00\ud800"`), ends: quarantined("invalid_utf8")},
	{name: "depth 40", text: inContext(deep(40)), ends: quarantined("too_deep")},
	{name: "depth 100000", text: inContext(deep(100_000)), ends: quarantined("too_deep")},

	// A task with a bad field: its sender gets an answer.
	{name: "no title", text: `{"task":{}}`, ends: rejected("task.title", "missing_field")},
	{name: "empty object", text: `{}`, ends: rejected("task.title", "missing_field")},
	{name: "blank title", text: `{"task":{"title":" "}}`, ends: rejected("task.title", "missing_field")},
	{name: "title too long", text: `{"task":{"title":"` + strings.Repeat("é", 501) + `"}}`, ends: rejected("task.title", "too_long")},
	{name: "description too long", text: `{"task":{"title":"x","description":"` + strings.Repeat("d", MaxDescription+1) + `"}}`, ends: rejected("task.description", "too_long")},
	{name: "title is a number", text: `{"task":{"title":7}}`, ends: rejected("task.title", "wrong_type")},
	{name: "wrong-case key", text: `{"task":{"Title":"x"}}`, ends: rejected("task.Title", "wrong_case")},
	{name: "wrong-case key on top", text: `{"Task":{"title":"x"}}`, ends: rejected("Task", "wrong_case")},
	{name: "unknown field", text: titled(`,"taks":1`), ends: rejected("taks", "unknown_field")},
	{name: "unknown field inside", text: meta(`"lable":{}`), ends: rejected("mbox.lable", "unknown_field")},
	{name: "unknown type", text: `{"task":{"title":"x","type":"dance"}}`, ends: rejected("task.type", "bad_value")},
	{name: "unknown priority", text: `{"task":{"title":"x","priority":"hihg"}}`, ends: rejected("task.priority", "bad_value")},
	{name: "version 2", text: titled(`,"version":2`), ends: rejected("version", "bad_value")},
	{name: "1e400", text: inContext("1e400"), ends: rejected("task.context.a", "bad_value")},
	{name: "context is a list", text: `{"task":{"title":"x","context":[]}}`, ends: rejected("task.context", "wrong_type")},
	{name: "relevant files are no texts", text: `{"task":{"title":"x","context":{"relevant_files":[1]}}}`, ends: rejected("task.context.relevant_files", "wrong_type")},
	{name: "target is no name", text: titled(`,"assignment":{"target_agent":"../x"}`), ends: rejected("assignment.target_agent", "bad_value")},
	{name: "target is reserved", text: titled(`,"assignment":{"target_agent":"mbox"}`), ends: rejected("assignment.target_agent", "bad_value")},
	{name: "source is mbox", text: titled(`,"source":{"agent":"mbox"}`), ends: rejected("source.agent", "bad_value")},
	{name: "depends on itself", text: meta(`"depends_on":["drop"]`), ends: rejected("mbox.depends_on[0]", "bad_value")},
	{name: "depends on itself in another case", text: meta(`"depends_on":["a","DROP"]`), ends: rejected("mbox.depends_on[1]", "bad_value")},
	{name: "depends on one task twice", text: meta(`"depends_on":["a","A"]`), ends: rejected("mbox.depends_on[1]", "bad_value")},
	{name: "depends on a path", text: meta(`"depends_on":["../x"]`), ends: rejected("mbox.depends_on[0]", "bad_value")},
	{name: "too many attempts", text: meta(`"max_attempts":101`), ends: rejected("mbox.max_attempts", "bad_value")},
	{name: "no time", text: meta(`"not_before":"tomorrow"`), ends: rejected("mbox.not_before", "bad_value")},
	{name: "time past the year 9999", text: meta(`"not_before":"9999-12-31T23:59:59-01:00"`), ends: rejected("mbox.not_before", "bad_value")},
	{name: "created past the year 9999", text: titled(`,"created":"9999-12-31T23:59:59-01:00"`), ends: rejected("created", "bad_value")},
	{name: "created before the year 0", text: titled(`,"created":"0000-01-01T00:00:00+01:00"`), ends: rejected("created", "bad_value")},
	{name: "claims to be completed", text: titled(`,"result":{"status":"completed","output":"done"}`), ends: rejected("result.status", "not_yours")},
	{name: "brings an output", text: titled(`,"result":{"output":"done"}`), ends: rejected("result.output", "not_yours")},
	{name: "brings an error", text: titled(`,"result":{"error":{"code":"x"}}`), ends: rejected("result.error", "not_yours")},
	{name: "claims to be picked up", text: titled(`,"assignment":{"picked_up_by":"coder"}`), ends: rejected("assignment.picked_up_by", "not_yours")},
	{name: "brings a history", text: titled(`,"audit":{"state_changes":[{"from":"pending","to":"in-progress","by":"a","at":"2020-01-01T00:00:00Z","reason":"r"}]}`), ends: rejected("audit.state_changes", "not_yours")},
	{name: "forged tx", text: meta(`"tx":"00"`), ends: rejected("mbox.tx", "not_yours")},
	{name: "forged epoch", text: meta(`"epoch":9`), ends: rejected("mbox.epoch", "not_yours")},
	{name: "forged lease", text: meta(`"lease":{"token":"t","host":"h","deadline":"2020-01-01T00:00:00Z"}`), ends: rejected("mbox.lease", "not_yours")},
	{name: "forged parent", text: meta(`"parent_id":"p"`), ends: rejected("mbox.parent_id", "not_yours")},
	{name: "forged budget", text: meta(`"budget":{"tokens":1}`), ends: rejected("mbox.budget", "not_yours")},
	{name: "forged join", text: meta(`"join":"all"`), ends: rejected("mbox.join", "not_yours")},
	{name: "larger than 1 MiB once indented", text: spread(), ends: rejected("$", "too_large")},

	// Ids and names.
	{name: "id is not the name", text: titled(`,"id":"other"`), ends: quarantined("id_mismatch")},
	{name: "id is the name in another case", text: titled(`,"id":"Drop"`), ends: quarantined("id_mismatch")},
	{name: "id is a path", text: titled(`,"id":"../../x"`), ends: quarantined("id_mismatch")},
	{name: "id used, pending", file: "used.json", make: earlier("USED", nil, titled("")), ends: quarantined("id_taken")},
	{name: "id used, failed", file: "Used.json", make: earlier("uSED", cancelled("uSED"), titled("")), ends: quarantined("id_taken")},
	{name: "id used, failed, same case", file: "used.json", make: earlier("used", cancelled("used"), titled("")), ends: quarantined("id_taken")},
	{name: "id used, archived", file: "used.json", make: earlier("used", archived("used"), titled("")), ends: quarantined("id_taken")},
	{name: "id used, deleted", file: "used.json", make: earlier("used", deleted("used"), titled("")), ends: quarantined("id_taken")},
	{name: "id used, bad field", file: "uSed.json", make: earlier("used", nil, `{"task":{}}`), ends: quarantined("missing_field")},
	{name: "spaces", file: "my task (2).json", text: titled(""), ends: admittedAs()},
	{name: "newline", file: "a\nb.json", text: titled(""), ends: admittedAs()},
	{name: "escape", file: "a\x1b[31mb.json", text: titled(""), ends: admittedAs()},
	{name: "bidi", file: "a" + bidi + "nosj.json", text: titled(""), ends: admittedAs()},
	{name: "quotes", file: `a"b'c\d.json`, text: titled(""), ends: admittedAs()},
	{name: "tilde inside", file: "a~b~c.json", text: titled(""), ends: admittedAs()},
	{name: "dash first", file: "-rf.json", text: titled(""), ends: admittedAs()},
	{name: "very long", file: strings.Repeat("l", 250) + ".json", text: titled(""), ends: admittedAs()},
	{name: "very long, not ASCII", file: strings.Repeat("é", 125) + ".json", text: titled(""), ends: admittedAs()},
	{name: "very long, no task", file: strings.Repeat("l", 250) + ".json", text: `[]`, ends: quarantined("wrong_type")},
	{name: "newline, no task", file: "a\n\x1b.json", text: `[]`, ends: quarantined("wrong_type")},
	{name: "name is no UTF-8, no task", file: "a\xff.json", text: `[]`, ends: quarantined("wrong_type")},
	{name: "name is no UTF-8", file: "a\xff\xfe.json", text: titled(""), ends: admittedAs()},
	{name: "spaces, bad field", file: "my task.json", text: `{"task":{}}`, ends: quarantined("missing_field")},
	{name: "no .json", file: "notes.txt", text: titled(""), ends: quarantined("name")},
	{name: "no suffix", file: "task", text: titled(""), ends: quarantined("name")},
	{name: "suffix in capitals", file: "task.JSON", text: titled(""), ends: quarantined("name")},
	{name: "dots", file: "a..b.json", text: titled(""), ends: admitted()},
	{name: "128 characters", file: strings.Repeat("a", 128) + ".json", text: titled(""), ends: admitted()},
	{name: "129 characters", file: strings.Repeat("a", 129) + ".json", text: titled(""), ends: admittedAs()},
	{name: "dotfile", file: ".drop.json", text: titled(""), ends: leftAlone()},
	{name: "only a suffix", file: ".json", text: titled(""), ends: leftAlone()},
	{name: ".tmp", file: "drop.json.tmp", text: titled(""), ends: leftAlone()},
	{name: ".part", file: "drop.json.part", text: titled(""), ends: leftAlone()},
	{name: "editor's backup", file: "drop.json~", text: titled(""), ends: leftAlone()},

	// Not a regular file with one name, or too large.
	{name: "2 MiB", make: sized(2 << 20), ends: quarantined("too_large")},
	{name: "5 MiB", make: sized(5 << 20), ends: quarantined("too_large")},
	{name: "5 MiB, no .json", file: "big.bin", make: sized(5 << 20), ends: quarantined("too_large")},
	{name: "sparse, 1 TB", make: sized(1 << 40), free: func(path string) { _ = os.Truncate(path, 0) }, ends: quarantined("too_large")},
	{name: "symlink to a file", make: symlink("/etc/hostname"), ends: quarantined("not_regular")},
	{name: "symlink to a task", make: symlink("good-1.json"), ends: quarantined("not_regular")},
	{name: "symlink to a folder", make: symlink("/"), ends: quarantined("not_regular")},
	{name: "dangling symlink", make: symlink("nowhere"), ends: quarantined("not_regular")},
	{name: "symlink to itself", make: symlink("drop.json"), ends: quarantined("not_regular")},
	{name: "FIFO", make: func(_ *Box, path string) error { return syscall.Mkfifo(path, 0o600) }, ends: quarantined("not_regular")},
	{name: "FIFO, no .json", file: "pipe", make: func(_ *Box, path string) error { return syscall.Mkfifo(path, 0o600) }, ends: quarantined("not_regular")},
	{name: "socket", make: socket, ends: quarantined("not_regular")},
	{name: "folder", make: folder, ends: quarantined("not_regular")},
	{name: "folder, no .json", file: "folder", make: folder, ends: quarantined("not_regular")},
	{name: "folder that may not be written", make: func(b *Box, path string) error { return errors.Join(folder(b, path), os.Chmod(path, 0o500)) }, ends: quarantined("not_regular")},
	{name: "hard link", make: hardLink, ends: quarantined("hard_link")},
	{name: "modified in the year 2100", make: modified(year(2100), titled("")), ends: admitted()},
	{name: "modified in the year 2100, no task", make: modified(year(2100), `{"task":`), ends: quarantined("truncated")},
	{name: "modified in the year 12000", make: modified(year(12000), titled("")), ends: admitted()},
	{name: "modified before the year 0", make: modified(year(-9), titled("")), ends: admitted()},
}

func year(n int) time.Time { return time.Date(n, 1, 1, 0, 0, 0, 0, time.UTC) }

func (d *dropped) fileName() string {
	if d.file == "" {
		return "drop.json"
	}
	return d.file
}

func (d *dropped) put(t *testing.T, b *Box) (path, sha string) {
	t.Helper()
	path = b.pending(d.fileName())
	if d.make == nil {
		b.drop(t, d.fileName(), d.text)
	} else {
		must(t, d.make(b, path))
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()).Abs() < time.Hour {
			old(path)
		}
	}
	if s, err := home.Look(path); err == nil {
		sha = s.Hash
	}
	return path, sha
}

// TestDroppedFiles drops each kind of file among good ones and tells where it
// must end. Nothing else is lost, nothing blocks, a second scan changes nothing,
// and the home passes the checker.
func TestDroppedFiles(t *testing.T) {
	all, place := homes{}, t.TempDir()
	for _, d := range droppedFiles {
		t.Run(d.name, func(t *testing.T) {
			d.lacksRoot(t)
			b := all.open(t, Options{})
			b.drop(t, "good-1.json", `{"task":{"title":"good"}}`)
			path, sha := d.put(t, b)
			b.drop(t, "good-2.json", `{"task":{"title":"good"}}`)
			before, _ := os.Lstat(path)
			free := func() {
				if d.free != nil {
					d.free(path)
				}
			}
			within(t, 10*time.Second, "scan", free, func() error { return scanNow(b) })
			t.Cleanup(func() { loosen(b.Home()) })
			if t.Failed() {
				return
			}
			d.check(t, b, sha, before)
			end := b.ledger.End()
			within(t, 10*time.Second, "second scan", free, func() error { return scanNow(b) })
			if now := b.ledger.End(); now != end {
				t.Errorf("the second scan wrote %d ledger lines", now.Seq-end.Seq)
			}
			claimGood(t, b)
			loosen(b.Home())
			whole(t, b.Home())
			all.keep(t, b, place)
		})
	}
	lintAll(t, all)
}

// loosen makes all folders such that they can be removed.
func loosen(dir string) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return err
	})
}

// claimGood claims everything that can be claimed: the good drops are among it.
func claimGood(t *testing.T, b *Box) {
	t.Helper()
	got := map[ID]bool{}
	for {
		c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
		if errors.Is(err, ErrEmpty) {
			break
		}
		if err != nil {
			t.Errorf("claim: %v", err)
			return
		}
		got[c.ID()] = true
		if err := c.Complete(t.Context(), Result{}); err != nil {
			t.Errorf("complete %s: %v", c.ID(), err)
		}
	}
	if !got["good-1"] || !got["good-2"] {
		t.Errorf("the good drops were not claimed: %v", got)
	}
}

func (d *dropped) check(t *testing.T, b *Box, sha string, before fs.FileInfo) {
	t.Helper()
	path := b.pending(d.fileName())
	info, err := os.Lstat(path)
	switch {
	case d.ends.alone:
		if err != nil || !os.SameFile(info, before) {
			t.Errorf("it was not left alone: %v", err)
		}
		return
	case d.ends.putAway():
		d.checkKept(t, b, sha)
		return
	}
	id := ID(task.TrimJSON(d.fileName()))
	if d.ends.made {
		if id = madeID(t, b); err == nil {
			t.Error("the drop is still there")
		}
	}
	parsed, state, err := b.Task(t.Context(), id)
	if err != nil || state != d.ends.state {
		t.Fatalf("it is %q: %v", state, err)
	}
	about := lines(t, b, id)
	if len(about) == 0 {
		t.Fatal("it has no ledger line")
	}
	var m task.Move
	must(t, about[0].Detail(&m))
	if m.SourceSHA256 != sha {
		t.Errorf("its line names the dropped bytes as %s, they were %s", m.SourceSHA256, sha)
	}
	if state == Failed {
		if e := parsed.Result.Error; e.Path != d.ends.path || e.Code != d.ends.code || e.Message == "" {
			t.Errorf("error %+v", e)
		}
		d.checkKept(t, b, sha)
	}
}

// madeID is the id of the one task that was made for a drop.
func madeID(t *testing.T, b *Box) ID {
	t.Helper()
	for _, e := range lines(t, b, "") {
		if strings.HasPrefix(e.Task(), "task-") {
			return ID(e.Task())
		}
	}
	t.Fatal("no task was made")
	return ""
}

func (d *dropped) checkKept(t *testing.T, b *Box, sha string) {
	t.Helper()
	reasons := quarantine(t, b)
	if len(reasons) != 1 {
		t.Fatalf("%d entries in quarantine", len(reasons))
	}
	r := reasons[0]
	if r.Code != d.ends.code || r.Reason == "" {
		t.Errorf("reason %+v", r)
	}
	if text := r.Name + r.Entry + r.Reason; schemas.Sentence(text, 2*len(text)) != text {
		t.Errorf("a reason is not fit for a terminal: %+q", text)
	}
	entry := b.path("tasks", "quarantine", r.Entry)
	if s, err := home.Look(entry); (err != nil || s.Hash != sha) && !errors.Is(err, fs.ErrPermission) {
		t.Errorf("the kept bytes are %s (%v), they were %s", s.Hash, err, sha)
	}
	if strings.HasPrefix(d.name, "folder") {
		if text, err := os.ReadFile(filepath.Join(entry, "inside")); string(text) != "kept" {
			t.Errorf("what was in the folder: %q, %v", text, err)
		}
	}
}

// TestHalfWritten leaves a file alone while it may still grow: 5 s when it does
// not parse, 60 s while somebody holds it open for writing.
func TestHalfWritten(t *testing.T) {
	setup := func(t *testing.T, text string) (*Box, *clock, string) {
		c := newClock()
		b := newBox(t, c.options())
		path := b.pending("drop.json")
		must(t, put(path, text))
		c.stamp(path)
		mustScan(t, b)
		return b, c, path
	}
	alone := func(t *testing.T, b *Box, path, when string) {
		t.Helper()
		if n := len(lines(t, b, "")); n > 0 {
			t.Errorf("%s: %d ledger lines", when, n)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	const half = `{"task":{"title":"x`
	t.Run("is finished in time", func(t *testing.T) {
		b, c, path := setup(t, half)
		c.turn(halfWritten - time.Millisecond)
		mustScan(t, b)
		alone(t, b, path, "before 5 s")
		must(t, put(path, half+`"}}`))
		c.stamp(path)
		mustScan(t, b)
		if !stateIs("drop", Pending)(t, b, nil) || len(lines(t, b, "drop")) != 1 {
			t.Error("it was not admitted when it was complete")
		}
	})
	t.Run("is never finished", func(t *testing.T) {
		b, c, path := setup(t, half)
		alone(t, b, path, "at once")
		c.turn(halfWritten + time.Millisecond)
		mustScan(t, b)
		if r := quarantine(t, b); len(r) != 1 || r[0].Code != "truncated" {
			t.Errorf("after 5 s: %+v", r)
		}
	})
	t.Run("scan says when to look again", func(t *testing.T) {
		c := newClock()
		b := newBox(t, c.options())
		must(t, put(b.pending("drop.json"), half))
		c.stamp(b.pending("drop.json"))
		r, err := b.Scan(t.Context())
		must(t, err)
		if r.Again <= 0 || r.Again > halfWritten+time.Second {
			t.Errorf("again after %v", r.Again)
		}
		must(t, os.Remove(b.pending("drop.json")))
	})
	for _, text := range []string{titled(""), half} {
		t.Run("held open for writing", func(t *testing.T) {
			c := newClock()
			b := newBox(t, c.options())
			path := b.pending("drop.json")
			f, err := os.Create(path)
			must(t, err)
			defer f.Close()
			_, err = f.WriteString(text)
			must(t, err)
			if idle, known := durable.Idle(f); known && idle {
				t.Fatal("the system says that nobody writes")
			} else if !known {
				t.Skip("this system cannot say who holds a file open")
			}
			c.stamp(path)
			mustScan(t, b)
			alone(t, b, path, "at once")
			c.turn(heldOpen - time.Millisecond)
			mustScan(t, b)
			alone(t, b, path, "before 60 s")
			c.turn(2 * time.Millisecond)
			mustScan(t, b)
			if n := len(lines(t, b, "")); n != 1 {
				t.Errorf("after 60 s: %d ledger lines", n)
			}
		})
	}
	for name, write := range map[string]func(f *os.File) error{
		"another name": func(f *os.File) error { _, err := f.WriteString(half); return err },
		"too large":    func(f *os.File) error { return f.Truncate(2 * MaxTask) },
	} {
		t.Run("held open for writing, "+name, func(t *testing.T) {
			c := newClock()
			b := newBox(t, c.options())
			path := b.pending(map[bool]string{true: "drop", false: "drop.json"}[name == "another name"])
			f, err := os.Create(path)
			must(t, err)
			defer f.Close()
			must(t, write(f))
			if _, known := durable.Idle(f); !known {
				t.Skip("this system cannot say who holds a file open")
			}
			c.stamp(path)
			mustScan(t, b)
			alone(t, b, path, "at once")
			c.turn(heldOpen + time.Millisecond)
			mustScan(t, b)
			_, err = f.WriteAt([]byte("more"), 0) // its writer goes on all the same
			must(t, err)
			wantClean(t, b)
			must(t, f.Close())
		})
	}
	t.Run("another name, is let go", func(t *testing.T) {
		c := newClock()
		b := newBox(t, c.options())
		path := b.pending("drop")
		must(t, put(path, half))
		c.stamp(path)
		mustScan(t, b)
		alone(t, b, path, "at once") // as sed -i has it before its rename
		c.turn(settleTime)
		mustScan(t, b)
		if r := quarantine(t, b); len(r) != 1 || r[0].Code != "name" {
			t.Errorf("%+v", r)
		}
		must(t, os.WriteFile(b.path("tasks", "quarantine", quarantine(t, b)[0].Entry), []byte("tampered"), 0o600))
		wantFault(t, b, 13)
		must(t, os.WriteFile(b.path("tasks", "quarantine", quarantine(t, b)[0].Entry), []byte(half), 0o600))
	})
	t.Run("is let go", func(t *testing.T) {
		b, c, path := setup(t, half)
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		_, err = f.WriteString(`"}}`)
		must(t, err)
		c.stamp(path)
		mustScan(t, b)
		if _, known := durable.Idle(f); known {
			alone(t, b, path, "while it is held")
		}
		must(t, f.Close())
		c.stamp(path)
		c.turn(settleTime)
		mustScan(t, b)
		if len(lines(t, b, "drop")) != 1 {
			t.Error("it was not admitted when its writer was done")
		}
	})
}

// sent submits a task with everything in it that an edit could spoil.
func sent(t testing.TB, b *Box, id ID) {
	t.Helper()
	task, err := task.ParseDrop(id.File(), []byte(`{"task":{"title":"what was asked","description":"naïve ☂ 🙂","context":{"a":[1,2],"conversation_summary":"s","z":1}},
		"source":{"agent":"asker","session":"s"}}`))
	must(t, err)
	_, err = b.Submit(t.Context(), task)
	must(t, err)
}

func mv(t testing.TB, b *Box, id ID, from, to State) {
	t.Helper()
	must(t, os.Rename(b.path("tasks", string(from), id.File()), b.path("tasks", string(to), id.File())))
}

// edit rewrites a task's file as a script in another language does: keys in
// another order, other white space, characters escaped, another mode.
func edit(t testing.TB, b *Box, id ID, in State, change func(task map[string]any)) {
	t.Helper()
	path := b.path("tasks", string(in), id.File())
	data, err := os.ReadFile(path)
	must(t, err)
	var task map[string]any
	must(t, json.Unmarshal(data, &task))
	change(task)
	data, err = json.Marshal(task, json.Deterministic(true), jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true))
	must(t, err)
	must(t, os.WriteFile(path, []byte(ascii(string(data))), 0o644))
}

// ascii escapes what is not ASCII, as Python's json does.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// in returns an object inside a decoded task.
func in(task map[string]any, names ...string) map[string]any {
	for _, n := range names {
		inner, _ := task[n].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
			task[n] = inner
		}
		task = inner
	}
	return task
}

func outcome(output any) func(map[string]any) {
	return func(task map[string]any) { in(task, "result")["output"] = output }
}

func withoutMbox(change func(map[string]any)) func(map[string]any) {
	return func(task map[string]any) { change(task); delete(task, "mbox") }
}

// TestMovedByHand is the worker that only knows mv.
func TestMovedByHand(t *testing.T) {
	type world struct {
		*testing.T
		b *Box
	}
	state := func(w world) (*Task, State) {
		w.Helper()
		task, s, err := w.b.Task(w.Context(), "t1")
		must(w, err)
		return task, s
	}
	claim := func(w world) *Claim {
		w.Helper()
		c, err := w.b.Claim(w.Context(), ClaimRequest{Agent: "coder"})
		must(w, err)
		return c
	}
	for _, row := range []struct {
		name string
		do   func(w world)
		ends State
		then func(w world, task *Task)
	}{
		{
			name: "taken", ends: InProgress,
			do: func(w world) { mv(w, w.b, "t1", Pending, InProgress) },
			then: func(w world, task *Task) {
				if l := task.Mbox.Lease; *task.Assignment.PickedUpBy != "unknown" || l.Token == "" || task.Mbox.Epoch != 1 || task.Mbox.Attempt != 1 {
					w.Errorf("%+v %+v", task.Assignment, task.Mbox)
				}
			},
		},
		{
			name: "taken and edited as Python does", ends: InProgress,
			do: func(w world) {
				edit(w, w.b, "t1", Pending, func(map[string]any) {})
				mv(w, w.b, "t1", Pending, InProgress)
			},
		},
		{
			// No language is bound to keep the order of keys or the form of a number.
			name: "taken, context's keys sorted and numbers in another form", ends: InProgress,
			do: func(w world) {
				data, err := os.ReadFile(w.b.pending("t1.json"))
				must(w, err)
				text := strings.Replace(string(data), "1,\n        2\n", "1.0,\n        20e-1\n", 1)
				text = strings.Replace(text, `"conversation_summary": "s",
      "z": 1`, `"z": 1,
      "conversation_summary": "s"`, 1)
				if len(text) < len(data)+4 || strings.Index(text, `"z"`) > strings.Index(text, "summary") {
					w.Fatalf("not edited: %s", text)
				}
				must(w, put(w.b.pending("t1.json"), text))
				mv(w, w.b, "t1", Pending, InProgress)
			},
		},
		{
			name: "taken, without the mbox object", ends: InProgress,
			do: func(w world) {
				edit(w, w.b, "t1", Pending, withoutMbox(func(map[string]any) {}))
				mv(w, w.b, "t1", Pending, InProgress)
			},
			then: func(w world, task *Task) {
				if task.Mbox.MaxAttempts != 3 || task.Mbox.Epoch != 1 {
					w.Errorf("%+v", task.Mbox)
				}
			},
		},
		{
			name: "done", ends: Completed,
			do: func(w world) {
				mv(w, w.b, "t1", Pending, InProgress)
				mustScan(w, w.b)
				edit(w, w.b, "t1", InProgress, outcome(map[string]any{"b": 1, "a": []int{2}}))
				mv(w, w.b, "t1", InProgress, Completed)
			},
			then: func(w world, task *Task) {
				var got map[string]any
				must(w, json.Unmarshal(task.Result.Output, &got))
				if len(got) != 2 || task.Result.Error != nil {
					w.Errorf("%s", task.Result.Output)
				}
			},
		},
		{
			name: "done, without the mbox object", ends: Completed,
			do: func(w world) {
				mv(w, w.b, "t1", Pending, InProgress)
				mustScan(w, w.b)
				edit(w, w.b, "t1", InProgress, withoutMbox(outcome("done")))
				mv(w, w.b, "t1", InProgress, Completed)
			},
			then: func(w world, task *Task) {
				if string(task.Result.Output) != `"done"` || task.Mbox.Epoch != 1 || task.Mbox.Attempt != 1 {
					w.Errorf("%s %+v", task.Result.Output, task.Mbox)
				}
			},
		},
		{
			name: "done without a result", ends: Completed,
			do: func(w world) { claim(w); mv(w, w.b, "t1", InProgress, Completed) },
			then: func(w world, task *Task) {
				if string(task.Result.Output) != `""` || *task.Assignment.PickedUpBy != "coder" {
					w.Errorf("%s %s", task.Result.Output, *task.Assignment.PickedUpBy)
				}
			},
		},
		{
			name: "failed", ends: Failed,
			do: func(w world) {
				claim(w)
				edit(w, w.b, "t1", InProgress, func(task map[string]any) {
					in(task, "result")["error"] = map[string]any{"code": "no_disk", "message": "full"}
				})
				mv(w, w.b, "t1", InProgress, Failed)
			},
			then: func(w world, task *Task) {
				if task.Result.Error.Code != "no_disk" {
					w.Errorf("%+v", task.Result.Error)
				}
			},
		},
		{
			name: "failed without a reason", ends: Failed,
			do: func(w world) { claim(w); mv(w, w.b, "t1", InProgress, Failed) },
			then: func(w world, task *Task) {
				if task.Result.Error.Code != "unspecified" {
					w.Errorf("%+v", task.Result.Error)
				}
			},
		},
		{
			name: "given back", ends: Pending,
			do: func(w world) { claim(w); mv(w, w.b, "t1", InProgress, Pending) },
			then: func(w world, task *Task) {
				if task.Mbox.Attempt != 0 || task.Assignment.PickedUpBy != nil || task.Mbox.Lease != nil {
					w.Errorf("%+v %+v", task.Assignment, task.Mbox)
				}
				if c := claim(w); c.Task.Mbox.Epoch != 2 || c.Task.Mbox.Attempt != 1 {
					w.Errorf("the next claim: %+v", c.Task.Mbox)
				}
			},
		},
		{
			name: "two moves between scans, completed", ends: Completed,
			do: func(w world) {
				edit(w, w.b, "t1", Pending, outcome("quick"))
				mv(w, w.b, "t1", Pending, InProgress)
				mv(w, w.b, "t1", InProgress, Completed)
			},
			then: func(w world, task *Task) {
				if string(task.Result.Output) != `"quick"` || len(task.Audit.StateChanges) != 2 {
					w.Errorf("%s %+v", task.Result.Output, task.Audit)
				}
			},
		},
		{
			name: "two moves between scans, failed", ends: Failed,
			do: func(w world) { mv(w, w.b, "t1", Pending, Failed) },
		},
		{
			name: "there and back between scans", ends: Pending,
			do: func(w world) { mv(w, w.b, "t1", Pending, InProgress); mv(w, w.b, "t1", InProgress, Pending) },
		},
		{
			name: "a verb comes first", ends: Completed,
			do: func(w world) {
				mv(w, w.b, "t1", Pending, InProgress)
				mustScan(w, w.b)
				task, _ := state(w)
				c, err := w.b.Held(w.Context(), "t1", task.Mbox.Lease.Token)
				must(w, err)
				must(w, c.Complete(w.Context(), Result{Output: jsontext.Value(`"by verb"`)}))
			},
		},
		{
			name: "moved under a claim that reports later", ends: Completed,
			do: func(w world) {
				c := claim(w)
				edit(w, w.b, "t1", InProgress, outcome("by hand"))
				mv(w, w.b, "t1", InProgress, Completed)
				if err := c.Complete(w.Context(), Result{Output: jsontext.Value(`"by verb"`)}); !errors.Is(err, ErrStale) {
					w.Errorf("complete after the move: %v", err)
				}
			},
			then: func(w world, task *Task) {
				if string(task.Result.Output) != `"by hand"` {
					w.Errorf("output %s", task.Result.Output)
				}
				if len(quarantine(w, w.b)) != 1 {
					w.Error("the late result was not kept")
				}
			},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := world{t, newBox(t, newClock().options())}
			sent(w, w.b, "t1")
			row.do(w)
			mustScan(w, w.b, task.Folders...)
			parsed, s := state(w)
			if s != row.ends || parsed.Result.Status != row.ends {
				t.Fatalf("it is %s", s)
			}
			if parsed.Task.Title != "what was asked" || parsed.Source.Session != "s" {
				t.Errorf("what was asked is not what it was: %+v", parsed)
			}
			end := w.b.ledger.End()
			mustScan(w, w.b, task.Folders...)
			if w.b.ledger.End() != end {
				t.Error("a second scan adopted something again")
			}
			if row.then != nil {
				row.then(w, parsed)
			}
		})
	}
}

// TestDeletedByHand: a deletion from pending counts, and its id is not free.
func TestDeletedByHand(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "t1")
	must(t, os.Remove(b.pending("t1.json")))
	mustScan(t, b)
	var m task.Move
	about := lines(t, b, "t1")
	must(t, about[len(about)-1].Detail(&m))
	if m.Enters() != None || about[len(about)-1].Event != audit.Reconcile {
		t.Errorf("the last line is %+v", about[len(about)-1])
	}
	again := request("other")
	again.ID = "T1"
	if _, err := b.Submit(t.Context(), again); !errors.Is(err, ErrConflict) {
		t.Errorf("its id was given out again: %v", err)
	}
	if _, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"}); !errors.Is(err, ErrEmpty) {
		t.Errorf("claim: %v", err)
	}
}

// forgeries are edits beyond result.output, artifacts and error. A move that
// carries one of them is adopted without it.
var forgeries = []struct {
	name string
	edit func(map[string]any)
	kept func(before, after *Task) bool
}{
	{"epoch", func(m map[string]any) { in(m, "mbox")["epoch"] = 99 }, func(b, a *Task) bool { return a.Mbox.Epoch == b.Mbox.Epoch }},
	{"attempt", func(m map[string]any) { in(m, "mbox")["attempt"] = 0 }, func(b, a *Task) bool { return a.Mbox.Attempt == b.Mbox.Attempt }},
	{"max_attempts", func(m map[string]any) { in(m, "mbox")["max_attempts"] = 100 }, func(b, a *Task) bool { return a.Mbox.MaxAttempts == b.Mbox.MaxAttempts }},
	{"claimant", func(m map[string]any) { in(m, "assignment")["picked_up_by"] = "mallory" }, func(b, a *Task) bool { return *a.Assignment.PickedUpBy == *b.Assignment.PickedUpBy }},
	{"token", func(m map[string]any) { in(m, "mbox", "lease")["token"] = "00" }, func(b, a *Task) bool { return a.Mbox.Lease.Token != "00" }},
	{"idempotency key", func(m map[string]any) { in(m, "mbox")["idempotency_key"] = "mine" }, func(b, a *Task) bool { return a.Mbox.IdempotencyKey == b.Mbox.IdempotencyKey }},
	{"not_before", func(m map[string]any) { in(m, "mbox")["not_before"] = "2999-01-01T00:00:00Z" }, func(_, a *Task) bool { return a.Mbox.NotBefore == nil }},
	{"budget", func(m map[string]any) { in(m, "mbox")["budget"] = map[string]any{"tokens": 9} }, func(_, a *Task) bool { return len(a.Mbox.Budget) == 0 }},
	{"waits_for", func(m map[string]any) { in(m, "mbox")["waits_for"] = []string{"x"} }, func(_, a *Task) bool { return len(a.Mbox.WaitsFor) == 0 }},
	{"root_id", func(m map[string]any) { in(m, "mbox")["root_id"] = "x" }, func(_, a *Task) bool { return a.Mbox.RootID == "" }},
	{"trigger", func(m map[string]any) { in(m, "mbox")["trigger"] = "x" }, func(_, a *Task) bool { return a.Mbox.Trigger == "" }},
	{"history", func(m map[string]any) {
		in(m, "audit")["state_changes"].([]any)[0].(map[string]any)["by"] = "mallory"
	}, func(b, a *Task) bool { return a.Audit.StateChanges[0].By == b.Audit.StateChanges[0].By }},
}

// TestForgedWithAMove: of a foreign edit only the result is taken over.
func TestForgedWithAMove(t *testing.T) {
	for _, f := range forgeries {
		t.Run(f.name, func(t *testing.T) {
			b := newBox(t, newClock().options())
			sent(t, b, "t1")
			c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
			must(t, err)
			before, _, err := b.Task(t.Context(), "t1")
			must(t, err)
			edit(t, b, "t1", InProgress, func(m map[string]any) { f.edit(m); outcome("done")(m) })
			mv(t, b, c.ID(), InProgress, Completed)
			mustScan(t, b)
			after, state, err := b.Task(t.Context(), "t1")
			must(t, err)
			if state != Completed {
				t.Fatalf("it is %s", state)
			}
			if m := lines(t, b, "t1"); m[len(m)-1].Event != audit.Reconcile {
				t.Error("the move was not adopted")
			}
			if !f.kept(before, after) {
				t.Errorf("the edit was taken over: %+v %+v %+v", after.Assignment, after.Mbox, after.Audit)
			}
		})
	}
}

// asks are edits of what was asked.
var asks = map[string]func(map[string]any){
	"title":      func(m map[string]any) { in(m, "task")["title"] = "another" },
	"context":    func(m map[string]any) { in(m, "task", "context")["z"] = 2 },
	"priority":   func(m map[string]any) { in(m, "task")["priority"] = "urgent" },
	"target":     func(m map[string]any) { in(m, "assignment")["target_agent"] = "mallory" },
	"source":     func(m map[string]any) { in(m, "source")["agent"] = "mallory" },
	"action":     func(m map[string]any) { in(m, "mbox")["action"] = map[string]any{"name": "write_file"} },
	"depends_on": func(m map[string]any) { in(m, "mbox")["depends_on"] = []string{"x"} },
	"parent_id":  func(m map[string]any) { in(m, "mbox")["parent_id"] = "x" },
}

func alarmsOf(t testing.TB, b *Box, id ID) (n int) {
	t.Helper()
	for _, e := range lines(t, b, id) {
		if e.Event == audit.ErrorEvent {
			n++
		}
	}
	return n
}

func movesOf(t testing.TB, b *Box, id ID) (n int) {
	t.Helper()
	for _, e := range lines(t, b, id) {
		if _, ok := task.MoveOf(&e); ok {
			n++
		}
	}
	return n
}

// said is where the ledger has a task.
func said(t testing.TB, b *Box, id ID) (s State) {
	t.Helper()
	for _, e := range lines(t, b, id) {
		if m, ok := task.MoveOf(&e); ok {
			s = m.Enters()
		}
	}
	return s
}

// TestEditedByHand: what was asked is never changed by a stranger. There is one
// alarm, and only an operator takes the edit over.
func TestEditedByHand(t *testing.T) {
	places := []struct {
		name     string
		from, to State
	}{{"in pending", Pending, Pending}, {"on the way to in-progress", Pending, InProgress}, {"in in-progress", InProgress, InProgress}, {"on the way to completed", InProgress, Completed}}
	for what, change := range asks {
		for _, p := range places {
			if testing.Short() && what != "title" {
				continue
			}
			t.Run(what+" "+p.name, func(t *testing.T) {
				b := newBox(t, newClock().options())
				sent(t, b, "t1")
				if p.from == InProgress {
					_, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
					must(t, err)
				}
				had := movesOf(t, b, "t1")
				edit(t, b, "t1", p.from, change)
				if p.from != p.to {
					mv(t, b, "t1", p.from, p.to)
				}
				for range 3 {
					mustScan(t, b)
					if _, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"}); !errors.Is(err, ErrEmpty) {
						t.Errorf("claim: %v", err)
					}
				}
				if n := movesOf(t, b, "t1"); n != had {
					t.Fatalf("%d moves were made", n-had)
				}
				if n := alarmsOf(t, b, "t1"); n != 1 && (p.from != p.to || p.from == Pending) {
					t.Errorf("%d alarms", n)
				}
				r := adopt(t, b, "t1")
				if r.Adopted != 1 {
					t.Fatalf("%+v", r)
				}
				task, state, err := b.Task(t.Context(), "t1")
				must(t, err)
				if state != p.to || what == "title" && task.Task.Title != "another" {
					t.Errorf("adopted: %s %q", state, task.Task.Title)
				}
			})
		}
	}
}

// adopt is mbox recover --adopt, said twice: the second time it does nothing.
func adopt(t testing.TB, b *Box, ids ...ID) Recovered {
	t.Helper()
	r, err := Recover(t.Context(), b.Home(), b.Options(), RecoverOptions{Adopt: ids})
	must(t, err)
	again, err := Recover(t.Context(), b.Home(), b.Options(), RecoverOptions{Adopt: ids})
	must(t, err)
	if again.Adopted != 0 || again.Mended != 0 || again.Quarantine != 0 {
		t.Errorf("recovering again did %+v", again)
	}
	return r
}

// TestNeverAdopted: what a stranger does to an ended task counts for nothing
// until an operator says so.
func TestNeverAdopted(t *testing.T) {
	finish := func(t *testing.T, b *Box) {
		c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
		must(t, err)
		must(t, c.Complete(t.Context(), Result{Output: jsontext.Value(`"done"`)}))
	}
	give := func(t *testing.T, b *Box) { must(t, b.Cancel(t.Context(), "t1", "human", "no")) }
	for _, row := range []struct {
		name   string
		before func(*testing.T, *Box)
		act    func(*testing.T, *Box)
	}{
		{"moved from completed to pending", finish, func(t *testing.T, b *Box) { mv(t, b, "t1", Completed, Pending) }},
		{"moved from completed to in-progress", finish, func(t *testing.T, b *Box) { mv(t, b, "t1", Completed, InProgress) }},
		{"moved from completed to failed", finish, func(t *testing.T, b *Box) { mv(t, b, "t1", Completed, Failed) }},
		{"moved from failed to pending", give, func(t *testing.T, b *Box) { mv(t, b, "t1", Failed, Pending) }},
		{"moved from failed to completed", give, func(t *testing.T, b *Box) { mv(t, b, "t1", Failed, Completed) }},
		{"deleted from completed", finish, func(t *testing.T, b *Box) { must(t, os.Remove(b.path("tasks/completed/t1.json"))) }},
		{"deleted from failed", give, func(t *testing.T, b *Box) { must(t, os.Remove(b.path("tasks/failed/t1.json"))) }},
		{"edited in completed", finish, func(t *testing.T, b *Box) { edit(t, b, "t1", Completed, outcome("better")) }},
		{"edited in failed", give, func(t *testing.T, b *Box) { edit(t, b, "t1", Failed, outcome("better")) }},
		{"deleted from in-progress", func(t *testing.T, b *Box) {
			_, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
			must(t, err)
		}, func(t *testing.T, b *Box) { must(t, os.Remove(b.path("tasks/in-progress/t1.json"))) }},
		{"a new drop of a completed and deleted id", finish, func(t *testing.T, b *Box) {
			must(t, os.Remove(b.path("tasks/completed/t1.json")))
			b.drop(t, "t1.json", titled(""))
		}},
		{"a new task of a completed and deleted id", finish, func(t *testing.T, b *Box) {
			must(t, os.Remove(b.path("tasks/completed/t1.json")))
			again := request("again")
			again.ID = "T1"
			if _, err := b.Submit(t.Context(), again); !errors.Is(err, ErrConflict) {
				t.Errorf("submit: %v", err)
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newClock()
			b := newBox(t, c.options())
			sent(t, b, "t1")
			row.before(t, b)
			had := movesOf(t, b, "t1")
			row.act(t, b)
			c.turn(time.Minute) // nothing is half-written any more
			for range 2 {
				mustScan(t, b, task.Folders...)
			}
			if n := movesOf(t, b, "t1") + movesOf(t, b, "T1"); n != had {
				all := lines(t, b, "")
				t.Fatalf("%d moves were made: %s: %s", n-had, all[len(all)-1].Action, all[len(all)-1].Details)
			}
			if _, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"}); !errors.Is(err, ErrEmpty) {
				t.Errorf("claim: %v", err)
			}
			adopt(t, b, "t1")
		})
	}
}

// TestStrays: a file in any folder but pending whose id has no line goes to
// quarantine.
func TestStrays(t *testing.T) {
	for _, s := range []State{InProgress, Completed, Failed} {
		t.Run(string(s), func(t *testing.T) {
			b := newBox(t, Options{})
			at := func(name string) string { return b.path("tasks", string(s), name) }
			must(t, put(at("task.json"), titled("")))
			must(t, put(at("junk.json"), "junk"))
			must(t, put(at("notes.txt"), "notes"))
			must(t, put(at("a b.json"), titled("")))
			must(t, os.Symlink("/etc/hostname", at("link.json")))
			must(t, syscall.Mkfifo(at("pipe.json"), 0o600))
			must(t, folder(b, at("folder.json")))
			must(t, put(at(".hidden"), "left alone"))
			b.drop(t, "good-1.json", titled(""))
			b.drop(t, "good-2.json", titled(""))
			within(t, 10*time.Second, "scan", nil, func() error { return scanNow(b, task.Folders...) })
			names, err := durable.Names(b.path("tasks", string(s)))
			must(t, err)
			if len(names) != 1 || names[0] != ".hidden" {
				t.Errorf("left: %q", names)
			}
			if r := quarantine(t, b); len(r) != 7 {
				t.Errorf("%d entries in quarantine", len(r))
			}
			claimGood(t, b)
			if err := os.Remove(at(".hidden")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReplacedByHand puts something else in the place of a task of ours. It is
// not adopted, and the other tasks go on.
func TestReplacedByHand(t *testing.T) {
	things := map[string]func(*Box, string) error{
		"nothing like JSON": func(_ *Box, path string) error { return put(path, "junk") },
		"an empty file":     func(_ *Box, path string) error { return put(path, "") },
		"a symlink":         symlink("/etc/hostname"),
		"a FIFO":            func(_ *Box, path string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder":          folder,
		"5 MiB":             sized(5 << 20),
	}
	for _, s := range []State{Pending, InProgress} {
		for name, thing := range things {
			t.Run(name+" in "+string(s), func(t *testing.T) {
				b := newBox(t, Options{})
				bad := request("urgent")
				bad.ID, bad.Task.Priority = "t1", "urgent"
				_, err := b.Submit(t.Context(), bad)
				must(t, err)
				if s == InProgress {
					_, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: false})
					must(t, err)
				}
				b.drop(t, "good-1.json", titled(""))
				b.drop(t, "good-2.json", titled(""))
				path := b.path("tasks", string(s), "t1.json")
				must(t, os.Remove(path))
				must(t, thing(b, path))
				within(t, 10*time.Second, "scan", nil, func() error { return scanNow(b, task.Folders...) })
				claimGood(t, b)
				if _, err := Open(t.Context(), b.Home(), b.Options()); err != nil {
					t.Errorf("opening: %v", err)
				}
				must(t, os.RemoveAll(path))
				adopt(t, b, "t1")
			})
		}
	}
}

// TestAsNobody drops, as a user whom permissions bind, what root would get past.
func TestAsNobody(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: the other tests have run as such a user")
	}
	dir, err := os.MkdirTemp("/tmp", "mbox-nobody-") // /dev/shm may be noexec
	must(t, err)
	defer os.RemoveAll(dir)
	must(t, os.Chmod(dir, 0o755))
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip("SKIPPED: no /proc/self/exe")
	}
	bin := filepath.Join(dir, "mailbox.test")
	must(t, os.WriteFile(bin, data, 0o755))
	cmd := exec.Command(bin, "-test.run", "^TestDroppedFiles$/^(smallest|mode|folder|hard)", "-test.v")
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestDroppedFiles/mode_0000") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestNotOurs: a file of another user is no drop.
func TestNotOurs(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: only root can give a file away")
	}
	b := newBox(t, Options{})
	b.drop(t, "drop.json", titled(""))
	must(t, os.Lchown(b.pending("drop.json"), 65534, 65534))
	mustScan(t, b)
	if r := quarantine(t, b); len(r) != 1 || r[0].Code != "not_ours" {
		t.Errorf("%+v", r)
	}
}

// TestTimes: a time is written in UTC with milliseconds, however it came.
func TestTimes(t *testing.T) {
	b := newBox(t, Options{})
	b.drop(t, "drop.json", titled(`,"created":"2020-01-01T01:30:00.123456789+02:00","mbox":{"not_before":"2020-01-01T00:00:00.5-00:30"}`))
	mustScan(t, b)
	data, err := os.ReadFile(b.pending("drop.json"))
	must(t, err)
	for _, want := range []string{`"created": "2019-12-31T23:30:00.123Z"`, `"not_before": "2020-01-01T00:30:00.5Z"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %s in %s", want, data)
		}
	}
}

// TestAgentsOfOneFolder: bridge:x and bridge_x are two agents whose copies share
// a folder's name. Both are good names, so the copies must hold.
func TestAgentsOfOneFolder(t *testing.T) {
	b := newBox(t, Options{})
	for _, agent := range []string{"bridge:x", "bridge_x", "bridge:x", "bridge_x"} {
		task := request("x")
		task.Source.Agent = agent
		_, err := b.Submit(t.Context(), task)
		must(t, err)
	}
	mustScan(t, b)
}

// TestLargeTasks: a task that was taken in can be worked off, however near to
// the limit it is, and never stands in the way of others.
func TestLargeTasks(t *testing.T) {
	ctx := t.Context()
	full := func(c *Claim) *Claim { return c }
	for _, row := range []struct {
		name string
		work func(t *testing.T, b *Box, c *Claim) error
	}{
		{"completed", func(_ *testing.T, _ *Box, c *Claim) error { return full(c).Complete(ctx, Result{}) }},
		{"progress", func(_ *testing.T, _ *Box, c *Claim) error {
			return errors.Join(c.Progress(ctx, Progress{Message: strings.Repeat("m", 900)}), c.Complete(ctx, Result{}))
		}},
		{"failed", func(_ *testing.T, _ *Box, c *Claim) error {
			return c.Fail(ctx, Failure{TaskError: TaskError{Code: "x", Message: strings.Repeat("m", 200)}, Final: true})
		}},
		{"cancelled", func(_ *testing.T, b *Box, c *Claim) error { return b.Cancel(ctx, c.ID(), "human", "why") }},
		{"lost", func(t *testing.T, b *Box, c *Claim) error { return scanNow(b) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			clk := newClock()
			b := newBox(t, clk.options())
			for size := MaxTask - 4000; size <= MaxTask; size += 211 {
				task, err := task.ParseDrop("", []byte(padded(size)))
				must(t, err)
				id, err := b.Submit(ctx, task)
				var refused *schemas.Error
				if errors.As(err, &refused) {
					break // refused in time
				}
				must(t, err)
				c, err := b.Claim(ctx, ClaimRequest{Agent: "coder"})
				if err != nil {
					t.Fatalf("a task sent with %d bytes cannot be claimed: %v", size, err)
				}
				if row.name == "lost" {
					clk.turn(time.Hour)
				}
				if err := row.work(t, b, c); err != nil {
					t.Fatalf("a task sent with %d bytes: %v", size, err)
				}
				if _, state, err := b.Task(ctx, id); err != nil || state == InProgress {
					t.Fatalf("it is %s: %v", state, err)
				}
				if row.name == "lost" {
					must(t, b.Cancel(ctx, id, "human", "done with"))
				}
			}
		})
	}
}

// TestLargeOutputs: an output below its limit is taken, whatever the task's size
// and whatever indenting makes of it.
func TestLargeOutputs(t *testing.T) {
	ones := "[" + strings.Repeat("1,", 120_000) + "1]"
	for name, row := range map[string]struct {
		task   string
		output string
	}{
		"many short values":           {titled(""), ones},
		"text in a large task":        {padded(900_000), `"` + strings.Repeat("o", MaxOutput-2) + `"`},
		"many values in a large task": {padded(900_000), ones},
		"over the limit":              {padded(900_000), `"` + strings.Repeat("o", 2<<20) + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, Options{})
			task, err := task.ParseDrop("", []byte(row.task))
			must(t, err)
			_, err = b.Submit(t.Context(), task)
			must(t, err)
			c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
			must(t, err)
			must(t, c.Complete(t.Context(), Result{Output: jsontext.Value(row.output)}))
		})
	}
	t.Run("left by mv", func(t *testing.T) {
		b := newBox(t, newClock().options())
		for size := MaxTask - 1600; size < MaxTask-700; size += 90 {
			id := ID(fmt.Sprint("t", size))
			sent(t, b, id)
			edit(t, b, id, Pending, outcome(strings.Repeat("o", size)))
			mv(t, b, id, Pending, InProgress)
			must(t, scanNow(b))
			mv(t, b, id, InProgress, Completed)
			must(t, scanNow(b))
			if s := said(t, b, id); s != Completed {
				t.Errorf("with an output of %d bytes the ledger has it in %q", size, s)
			}
		}
	})
}

// TestBusyShard: what a scan could not look into, because somebody held the
// lock, it looks into the next time.
func TestBusyShard(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "t1")
	must(t, put(b.path("tasks/in-progress/stray.json"), "junk"))
	mv(t, b, "t1", Pending, InProgress)
	var locks []*durable.Lock
	for _, name := range []string{"t1", "stray"} {
		l, err := durable.TryLock(home.Private(b.Home(), "locks", home.ShardName(home.Shard(name))))
		must(t, err)
		locks = append(locks, l)
	}
	past := time.Now().Add(-time.Minute) // the folders have been quiet for long
	for _, s := range []State{Pending, InProgress} {
		must(t, os.Chtimes(b.path("tasks", string(s)), past, past))
	}
	mustScan(t, b)
	for _, l := range locks {
		must(t, l.Unlock())
	}
	b.mu.Lock()
	for path, p := range b.paces { // the pause that keeps listings in proportion is over
		p.took = 0
		b.paces[path] = p
	}
	b.mu.Unlock()
	_, err := b.Scan(t.Context())
	must(t, err)
	if n := movesOf(t, b, "t1"); n != 2 {
		t.Error("the move by hand was not adopted once the lock was free")
	}
	if n := len(quarantine(t, b)); n != 1 {
		t.Error("the stray was not put away once the lock was free")
	}
}

// TestDependencies: a task waits for those it depends on, fails with them, and
// waits for nothing without an alarm.
func TestDependencies(t *testing.T) {
	ctx := t.Context()
	open := func(t *testing.T) (*Box, *clock) {
		c := newClock()
		b := newBox(t, c.options())
		return b, c
	}
	claimable := func(t *testing.T, b *Box) (ids []ID) {
		t.Helper()
		for {
			c, err := b.Claim(ctx, ClaimRequest{Agent: "coder"})
			if errors.Is(err, ErrEmpty) {
				return ids
			}
			must(t, err)
			ids = append(ids, c.ID())
		}
	}
	end := func(t *testing.T, b *Box, how func(*Claim) error) {
		t.Helper()
		c, err := b.Claim(ctx, ClaimRequest{Agent: "coder"})
		must(t, err)
		must(t, how(c))
	}
	needs := func(ids string) string { return meta(`"depends_on":[` + ids + `]`) }
	t.Run("unknown, then known", func(t *testing.T) {
		b, clk := open(t)
		b.drop(t, "t1.json", needs(`"later"`))
		mustScan(t, b)
		if ids := claimable(t, b); len(ids) > 0 {
			t.Errorf("claimed %v", ids)
		}
		clk.turn(b.o.StartWithin + time.Second)
		for range 3 {
			mustScan(t, b)
		}
		if n := alarmsOf(t, b, "t1"); n != 1 {
			t.Errorf("%d alarms", n)
		}
		b.drop(t, "later.json", titled(""))
		mustScan(t, b)
		end(t, b, func(c *Claim) error { return c.Complete(ctx, Result{}) })
		if ids := claimable(t, b); len(ids) != 1 || ids[0] != "t1" {
			t.Errorf("after its dependency: %v", ids)
		}
	})
	t.Run("failed before", func(t *testing.T) {
		b, _ := open(t)
		b.drop(t, "bad.json", `{"task":{}}`)
		mustScan(t, b)
		b.drop(t, "t1.json", needs(`"bad"`))
		mustScan(t, b)
		task, state, err := b.Task(ctx, "t1")
		if err != nil || state != Failed || task.Result.Error.Code != "dependency_failed" {
			t.Errorf("%s %v", state, err)
		}
	})
	t.Run("fails later, and those behind it", func(t *testing.T) {
		b, _ := open(t)
		b.drop(t, "a.json", titled(""))
		b.drop(t, "b.json", needs(`"a"`))
		b.drop(t, "c.json", needs(`"b"`))
		mustScan(t, b)
		end(t, b, func(c *Claim) error { return c.Fail(ctx, Failure{Final: true}) })
		for range 3 {
			mustScan(t, b)
		}
		if !stateIs("b", Failed)(t, b, nil) || !stateIs("c", Failed)(t, b, nil) {
			t.Error("a task whose dependency failed still waits")
		}
	})
	t.Run("archived meanwhile", func(t *testing.T) {
		b, _ := open(t)
		b.drop(t, "a.json", titled(""))
		mustScan(t, b)
		end(t, b, func(c *Claim) error { return c.Complete(ctx, Result{}) })
		_, err := b.Archive(ctx, 0, "human")
		must(t, err)
		b.drop(t, "b.json", needs(`"a"`))
		mustScan(t, b)
		if ids := claimable(t, b); len(ids) != 1 {
			t.Errorf("claimed %v", ids)
		}
	})
	t.Run("named in another case", func(t *testing.T) {
		b, _ := open(t)
		b.drop(t, "t1.json", needs(`"A"`))
		b.drop(t, "a.json", titled(""))
		mustScan(t, b)
		end(t, b, func(c *Claim) error { return c.Complete(ctx, Result{}) })
		if ids := claimable(t, b); len(ids) != 1 {
			t.Errorf("its dependency is completed, claimed were %v", ids)
		}
	})
	t.Run("in a circle", func(t *testing.T) {
		b, clk := open(t)
		b.drop(t, "a.json", needs(`"b"`))
		b.drop(t, "b.json", needs(`"a"`))
		mustScan(t, b)
		clk.turn(24 * time.Hour)
		for range 3 {
			mustScan(t, b)
		}
		if ids := claimable(t, b); len(ids) > 0 {
			t.Errorf("claimed %v", ids)
		}
		failed := stateIs("a", Failed)(t, b, nil) || stateIs("b", Failed)(t, b, nil)
		if !failed && alarmsOf(t, b, "a")+alarmsOf(t, b, "b") == 0 {
			t.Error("two tasks wait for one another for ever, and nobody is told")
		}
		for id, way := range map[ID]string{"a": "a → b → a", "b": "b → a → b"} {
			for _, e := range lines(t, b, id) {
				if e.Event == audit.ErrorEvent && !strings.Contains(e.Action, "it waits for itself: "+way) {
					t.Errorf("%s", e.Action)
				}
			}
		}
	})
}

// claimerHome makes this test binary a worker: it claims in that home, prints
// id and token, and lives until it is killed. It is done in init because
// TestMain would leave the folder of a killed process behind.
const claimerHome = "MBOX_TEST_CLAIMER"

func init() {
	home := os.Getenv(claimerHome)
	if home == "" {
		return
	}
	b, err := Open(context.Background(), home, Options{Sync: durable.None})
	if err == nil {
		var c *Claim
		if c, err = b.Claim(context.Background(), ClaimRequest{Agent: "coder", Process: true}); err == nil {
			err = work(c)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// work holds the claim, and with MBOX_TEST_CHILD starts a child that holds the
// task too, as a worker's command does.
func work(c *Claim) error {
	if os.Getenv("MBOX_TEST_CHILD") != "" {
		child := exec.Command("/bin/sh", "-c", "read -r line")
		held, err := c.Hold()
		if err != nil {
			return err
		}
		defer held.Close()
		child.Stdin, child.Stdout, child.ExtraFiles = os.Stdin, os.Stdout, []*os.File{held}
		child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := child.Start(); err != nil {
			return err
		}
		if err := c.Started(child.Process.Pid); err != nil {
			return err
		}
	}
	fmt.Println(c.ID(), c.Token())
	r, w, err := os.Pipe()
	if err == nil {
		_, err = r.Read(make([]byte, 1)) // nobody writes: until it is killed
	}
	return errors.Join(err, w.Close())
}

// claimer is a worker in a process of its own.
type claimer struct {
	cmd   *exec.Cmd
	out   *bufio.Reader
	id    ID
	token string
}

func startClaimer(t *testing.T, b *Box, env ...string) *claimer {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	w := &claimer{cmd: exec.Command(exe)}
	w.cmd.Env = append(append(os.Environ(), claimerHome+"="+b.Home()), env...)
	w.cmd.Stderr = os.Stderr
	stdin, err := w.cmd.StdinPipe() // held open, so that a child of it waits
	must(t, err)
	out, err := w.cmd.StdoutPipe()
	must(t, err)
	must(t, w.cmd.Start())
	t.Cleanup(func() { w.kill(t); stdin.Close() })
	w.out = bufio.NewReader(out)
	line, err := w.out.ReadString('\n')
	must(t, err)
	_, err = fmt.Sscan(line, &w.id, &w.token)
	must(t, err)
	return w
}

func (w *claimer) kill(t *testing.T) {
	t.Helper()
	if w.cmd.ProcessState == nil {
		must(t, w.cmd.Process.Kill())
		_, _ = w.cmd.Process.Wait()
		w.cmd.ProcessState = new(os.ProcessState)
	}
}

// TestKilledWorker: the kernel frees a dead worker's lease, the next scan hands
// the task out again, and the third time it has failed.
func TestKilledWorker(t *testing.T) {
	b := newBox(t, Options{RetryBase: time.Nanosecond})
	ctx := t.Context()
	sent(t, b, "t1")
	for attempt := int64(1); attempt <= 3; attempt++ {
		w := startClaimer(t, b)
		mustScan(t, b)
		task, state, err := b.Task(ctx, "t1")
		if err != nil || state != InProgress || task.Mbox.Lease.Token != w.token {
			t.Fatalf("attempt %d: while it lives: %s %v", attempt, state, err)
		}
		w.kill(t)
		mustScan(t, b)
		task, state, err = b.Task(ctx, "t1")
		must(t, err)
		want := Pending
		if attempt == 3 {
			want = Failed
		}
		if state != want || task.Mbox.Attempt != attempt || task.Mbox.Epoch != attempt {
			t.Fatalf("attempt %d: %s, %+v", attempt, state, task.Mbox)
		}
		late(t, b, w, attempt)
	}
	task, _, err := b.Task(ctx, "t1")
	must(t, err)
	if task.Result.Error.Code != "worker_lost" {
		t.Errorf("%+v", task.Result.Error)
	}
	must(t, b.Retry(ctx, "t1", "human", "again"))
	must(t, b.Retry(ctx, "t1", "human", "again"))
	c, err := b.Claim(ctx, ClaimRequest{Agent: "coder"})
	must(t, err)
	if m := c.Task.Mbox; m.Attempt != 1 || m.Epoch != 4 {
		t.Errorf("after a retry: %+v", m)
	}
	must(t, c.Complete(ctx, Result{}))
}

// late hands in the result of a worker that has lost its task: it is refused,
// and kept as evidence.
func late(t *testing.T, b *Box, w *claimer, times int64) {
	t.Helper()
	c, err := b.Held(t.Context(), w.id, w.token)
	must(t, err)
	text := fmt.Sprintf(`"late result %d"`, times)
	if err := c.Complete(t.Context(), Result{Output: jsontext.Value(text)}); !errors.Is(err, ErrStale) {
		t.Errorf("a late result: %v", err)
	}
	found := false
	for _, r := range quarantine(t, b) {
		data, err := os.ReadFile(b.path("tasks", "quarantine", r.Entry))
		found = found || err == nil && r.Code == "late_result" && strings.Contains(string(data), text)
	}
	if !found {
		t.Error("the late result was not kept")
	}
	n := int64(0)
	for _, e := range lines(t, b, w.id) {
		if e.Event == audit.TaskLateResult {
			n++
		}
	}
	if n != times {
		t.Errorf("%d lines about late results, want %d", n, times)
	}
	if err := c.Progress(t.Context(), Progress{}); !errors.Is(err, ErrStale) {
		t.Errorf("late progress: %v", err)
	}
	if err := c.Release(t.Context(), "", 0); !errors.Is(err, ErrStale) {
		t.Errorf("late release: %v", err)
	}
}

// TestKilledWorkersChild: the child that does the work goes before the task is
// handed out again, though it holds the task.
func TestKilledWorkersChild(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "t1")
	w := startClaimer(t, b, "MBOX_TEST_CHILD=1")
	w.kill(t)
	mustScan(t, b)
	if !stateIs("t1", Pending)(t, b, nil) {
		t.Error("the task was not taken back")
	}
	gone := make(chan struct{})
	go func() {
		_, _ = w.out.ReadString(0) // the end of the child's stdout
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the child lives on")
	}
}

// TestDeadline: without a sign of life the lease is over at its deadline.
func TestDeadline(t *testing.T) {
	ctx := t.Context()
	const lease = 10 * time.Minute
	for _, process := range []bool{false, true} {
		t.Run(fmt.Sprintf("process %v", process), func(t *testing.T) {
			clk := newClock()
			o := clk.options()
			o.Lease = lease
			b := newBox(t, o)
			sent(t, b, "t1")
			c, err := b.Claim(ctx, ClaimRequest{Agent: "coder", Process: process})
			must(t, err)
			defer c.Close()
			clk.turn(lease - time.Minute)
			mustScan(t, b)
			if !stateIs("t1", InProgress)(t, b, nil) {
				t.Fatal("it was taken back before its deadline")
			}
			must(t, c.Progress(ctx, Progress{Message: "still here"}))
			clk.turn(lease - time.Minute)
			mustScan(t, b)
			if !stateIs("t1", InProgress)(t, b, nil) {
				t.Fatal("progress did not renew the lease")
			}
			must(t, c.Valid(ctx))
			clk.turn(2*time.Minute + time.Second)
			mustScan(t, b)
			task, state, err := b.Task(ctx, "t1")
			must(t, err)
			if state != Pending || task.Mbox.Attempt != 1 || task.Mbox.Epoch != 1 {
				t.Fatalf("after the deadline: %s %+v", state, task.Mbox)
			}
			if err := c.Valid(ctx); !errors.Is(err, ErrStale) {
				t.Errorf("the old claim: %v", err)
			}
			if err := c.Progress(ctx, Progress{Message: "late"}); !errors.Is(err, ErrStale) {
				t.Errorf("progress of the old claim: %v", err)
			}
			again, err := b.Claim(ctx, ClaimRequest{Agent: "coder"})
			must(t, err)
			if again.Task.Mbox.Epoch != 2 || again.Token() == c.Token() {
				t.Errorf("the next claim: %+v", again.Task.Mbox)
			}
			if err := c.Complete(ctx, Result{Output: jsontext.Value(`"late"`)}); !errors.Is(err, ErrStale) {
				t.Errorf("late: %v", err)
			}
			must(t, again.Complete(ctx, Result{}))
			if err := again.Fail(ctx, Failure{}); !errors.Is(err, ErrStale) {
				t.Errorf("failing what is completed: %v", err)
			}
		})
	}
	t.Run("renewed", func(t *testing.T) {
		clk := newClock()
		b := newBox(t, clk.options())
		sent(t, b, "t1")
		c, err := b.Claim(ctx, ClaimRequest{Agent: "coder", Process: true})
		must(t, err)
		defer c.Close()
		for range 3 {
			clk.turn(b.o.Lease - time.Minute)
			must(t, c.Renew())
			mustScan(t, b)
		}
		if !stateIs("t1", InProgress)(t, b, nil) {
			t.Error("renewing did not move the lease's end")
		}
		must(t, c.Release(ctx, "test over", 0))
	})
	t.Run("released", func(t *testing.T) {
		clk := newClock()
		b := newBox(t, clk.options())
		sent(t, b, "t1")
		c, err := b.Claim(ctx, ClaimRequest{Agent: "coder"})
		must(t, err)
		must(t, c.Release(ctx, "not now", time.Hour))
		must(t, c.Release(ctx, "not now", time.Hour)) // said again
		if _, err := b.Claim(ctx, ClaimRequest{Agent: "coder"}); !errors.Is(err, ErrEmpty) {
			t.Errorf("before its time: %v", err)
		}
		clk.turn(time.Hour)
		c, err = b.Claim(ctx, ClaimRequest{Agent: "coder"})
		must(t, err)
		if c.Task.Mbox.Attempt != 1 || c.Task.Mbox.Epoch != 2 {
			t.Errorf("a release burnt an attempt: %+v", c.Task.Mbox)
		}
	})
}

// acts are what a stranger does to t1's file between two writes of ours.
var acts = []struct {
	name string
	do   func(b *Box, path string) error
}{
	{"edits what was asked", func(_ *Box, path string) error { return rewrite(path, `"asked"`, `"changed"`) }},
	{"fills in an output", func(_ *Box, path string) error { return rewrite(path, `"output": null`, `"output": "by hand"`) }},
	{"writes junk", func(_ *Box, path string) error { return rewrite(path, "", "junk") }},
	{"deletes it", func(_ *Box, path string) error { return os.Remove(path) }},
	{"moves it to pending", func(b *Box, path string) error { return moveTo(b, path, Pending) }},
	{"moves it to in-progress", func(b *Box, path string) error { return moveTo(b, path, InProgress) }},
	{"moves it to completed", func(b *Box, path string) error { return moveTo(b, path, Completed) }},
	{"moves it to failed", func(b *Box, path string) error { return moveTo(b, path, Failed) }},
	{"puts a folder there", func(_ *Box, path string) error {
		return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
	}},
	{"puts a symlink there", func(_ *Box, path string) error {
		return errors.Join(os.Remove(path), os.Symlink("/etc/hostname", path))
	}},
}

// strangersMark marks bytes that a stranger wrote.
const strangersMark = "\n\n\n"

// rewrite puts new bytes in a file's place, as an editor does.
func rewrite(path, from, to string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := strings.Replace(string(data), from, to, 1)
	if from == "" {
		text = to
	}
	if err := put(path+".tmp", text+strangersMark); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

func moveTo(b *Box, path string, to State) error {
	new := b.path("tasks", string(to), filepath.Base(path))
	if _, err := os.Lstat(new); err == nil {
		return fs.ErrExist
	}
	return os.Rename(path, new)
}

// where t1's file lies; "" if nowhere.
func where(b *Box) string {
	for _, s := range task.Folders {
		path := b.path("tasks", string(s), "t1.json")
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return ""
}

// holdsByHand tells whether a stranger's bytes are still anywhere, or what they
// said has been taken over.
func holdsByHand(b *Box) bool {
	found := false
	_ = filepath.WalkDir(b.path("tasks"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			data, _ := os.ReadFile(path)
			found = found || strings.HasSuffix(string(data), strangersMark) || strings.Contains(string(data), `"by hand"`) || strings.Contains(string(data), `"changed"`)
		}
		return nil
	})
	return found
}

// interposed are the verbs under which a stranger acts.
var interposed = []string{"admit", "claim", "progress", "complete", "fail", "release", "cancel", "retry", "archive"}

// TestStrangerBetweenWrites lets a stranger act once before every write of every
// verb. Whatever he does, nothing of his is lost, everything comes to rest, what
// was acknowledged stands in the ledger, and after an operator has said what
// counts the home passes the checker.
func TestStrangerBetweenWrites(t *testing.T) {
	stride := amount(11, 5, 1)
	n := 0
	for _, sc := range scenes {
		if !slices.Contains(interposed, sc.name) {
			continue
		}
		for _, act := range acts {
			t.Run(sc.name+", "+act.name, func(t *testing.T) {
				all := map[string]string{}
				for k, more := 1, true; more; k++ {
					if n++; n%stride != 0 {
						more = k < 30
						continue
					}
					more = interpose(t, sc, act.do, k, all)
				}
				lintAll(t, all)
			})
		}
	}
}

func interpose(t *testing.T, sc scene, act func(*Box, string) error, k int, all map[string]string) (more bool) {
	ctx := context.Background()
	o := Options{Sync: durable.None, RetryBase: time.Nanosecond, Now: func() time.Time { return time.Now().Add(time.Minute) }}
	dir := filepath.Join(t.TempDir(), "home")
	must(t, Create(dir, o))
	b, err := Open(ctx, dir, o)
	must(t, err)
	prior := sc.before(t, b)
	hit, acted, count := "", false, 0
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if count++; count == k {
			hit = fmt.Sprintf("write %d (%s %s)", k, op, filepath.Base(path))
			if at := where(b); at != "" {
				acted = act(b, at) == nil
			}
		}
		return true, nil
	})
	said := sc.verb(ctx, b, prior)
	remove()
	b.Close()
	if hit == "" {
		return false
	}
	if !acted {
		return true
	}
	fail := func(format string, a ...any) {
		text := fmt.Sprintf("%s, verb said %v: %s", hit, said, fmt.Sprintf(format, a...))
		t.Error(strings.ReplaceAll(text, dir+"/", ""))
	}
	if b, err = Open(ctx, dir, o); err != nil {
		_, failed := Recover(ctx, dir, o, RecoverOptions{})
		_, still := Open(ctx, dir, o)
		fail("the mailbox cannot be opened: %v; mbox recover: %v; opening then: %v", err, failed, still)
		return true
	}
	for range 3 {
		if err := scanNow(b, task.Folders...); err != nil {
			fail("scan: %v", err)
		}
	}
	if written := strings.Contains(t.Name(), "edits") || strings.Contains(t.Name(), "fills") || strings.Contains(t.Name(), "junk"); written && !holdsByHand(b) {
		fail("the stranger's bytes are nowhere")
	}
	b.Close()
	for _, r := range []RecoverOptions{{}, {Adopt: []ID{"t1"}}} {
		if _, err := Recover(ctx, dir, o, r); err != nil {
			fail("recover %v: %v", r, err)
		}
	}
	if r, err := verify.Home(ctx, dir, verify.Options{Deep: true}); err != nil || len(r.Findings) > 0 {
		fail("verify: %v %v", err, r.Findings)
	}
	all[dir] = fmt.Sprintf("%s; verb said: %v", hit, said)
	return true
}
