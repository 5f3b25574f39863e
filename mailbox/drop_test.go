package mailbox

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

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
	now  func() time.Time                // the clock, if it has to be another one
	ends ending
}

// linkOut makes a symlink to a file outside of the home, which nobody may follow.
func linkOut(home, path string) error {
	canary := home + ".canary"
	return errors.Join(os.WriteFile(canary, []byte("nobody's business"), 0o600), os.Symlink(canary, path))
}

func linkedOut(b *Box, path string) error { return linkOut(b.home, path) }

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
	{name: "brings an empty key", text: meta(`"idempotency_key":""`), ends: rejected("mbox.idempotency_key", "bad_value")},
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
	{name: "id is not the name, bad field", text: `{"id":"other","task":{"title":7}}`, ends: rejected("task.title", "wrong_type")},
	{name: "id of another task, bad field", make: earlier("other", nil, `{"id":"other","task":{"title":7}}`), ends: rejected("task.title", "wrong_type")},
	{name: "copy of another task's file", make: earlier("other", nil, titled(`,"id":"other","mbox":{"epoch":9}`)), ends: quarantined("id_mismatch")},
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
	{name: "symlink to a file", make: linkedOut, ends: quarantined("not_regular")},
	{name: "symlink to a task", make: symlink("good-1.json"), ends: quarantined("not_regular")},
	{name: "symlink to a folder", make: symlink(".."), ends: quarantined("not_regular")},
	{name: "dangling symlink", make: symlink("nowhere"), ends: quarantined("not_regular")},
	{name: "symlink to itself", make: symlink("drop.json"), ends: quarantined("not_regular")},
	{name: "FIFO", make: func(_ *Box, path string) error { return syscall.Mkfifo(path, 0o600) }, ends: quarantined("not_regular")},
	{name: "FIFO, no .json", file: "pipe", make: func(_ *Box, path string) error { return syscall.Mkfifo(path, 0o600) }, ends: quarantined("not_regular")},
	{name: "socket", make: socket, ends: quarantined("not_regular")},
	{name: "folder", make: folder, ends: quarantined("not_regular")},
	{name: "folder, no .json", file: "folder", make: folder, ends: quarantined("not_regular")},
	{name: "folder that may not be written", make: func(b *Box, path string) error { return errors.Join(folder(b, path), os.Chmod(path, 0o500)) }, ends: quarantined("not_regular")},
	{name: "hard link", make: hardLink, now: afterPatience, ends: quarantined("hard_link")},
	{name: "modified in the year 2100", make: modified(year(2100), titled("")), ends: admitted()},
	{name: "modified in the year 2100, no task", make: modified(year(2100), `{"task":`), ends: quarantined("truncated")},
	{name: "modified in the year 12000", make: modified(year(12000), titled("")), ends: admitted()},
	{name: "modified before the year 0", make: modified(year(-9), titled("")), ends: admitted()},
}

// afterPatience is when the patience with a drop of this moment is over.
func afterPatience() time.Time { return time.Now().Add(halfWritten) }

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
			b := all.open(t, Options{Now: d.now})
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

// TestRule11_HalfWritten leaves a file alone while it may still grow: 5 s when it does
// not parse, 60 s while somebody holds it open for writing.
func TestRule11_HalfWritten(t *testing.T) {
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
	t.Run("has another name yet", func(t *testing.T) { // as into a maildir: link, then unlink
		b, c, path := setup(t, half)
		must(t, os.Remove(path))
		must(t, hardLink(b, path))
		old(path)                           // its content is old: only its names change
		c.turn(halfWritten - 2*time.Second) // the clock of the test is up to 1 s late
		r, err := b.Scan(t.Context())
		must(t, err)
		alone(t, b, path, "before 5 s")
		if r.Again <= 0 || r.Again > halfWritten {
			t.Errorf("again after %v", r.Again)
		}
		must(t, os.Remove(b.path("other")))
		mustScan(t, b)
		if len(lines(t, b, "drop")) != 1 || len(quarantine(t, b)) > 0 {
			t.Error("it was not admitted when it had one name")
		}
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
