package verify

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
)

const (
	suffixKey  = `,"checksum":"`
	suffixSize = 86
)

const verifyMailbox = "0123456789abcdef0123456789abcdef"

// verifyLedger is a ledger with a clock that a test can turn.
type verifyLedger struct {
	*audit.Ledger
	t    testing.TB
	home string
	now  time.Time
}

func newVerifyLedger(t testing.TB) *verifyLedger {
	t.Helper()
	l := &verifyLedger{t: t, home: filepath.Join(t.TempDir(), "home"), now: time.Date(2026, 2, 16, 10, 30, 0, 0, time.UTC)}
	for _, dir := range []string{"audit/shared", ".mbox/locks"} {
		if err := durable.MkdirAll(filepath.Join(l.home, dir), durable.None); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range audit.LockNames() {
		if err := durable.Stage(filepath.Join(l.home, ".mbox/locks", name), nil, durable.None); err != nil {
			t.Fatal(err)
		}
	}
	l.open()
	return l
}

func (l *verifyLedger) open() {
	l.t.Helper()
	var err error
	l.Ledger, err = audit.Open(l.home, verifyMailbox, audit.Options{Mode: durable.None, Now: func() time.Time { return l.now }})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { l.Ledger.Close() })
}

// add appends n lines of coder and tester in turn, with their copies.
func (l *verifyLedger) add(n int) {
	l.t.Helper()
	for i := range n {
		agent := []string{"coder", "tester"}[i%2]
		if err := l.append(agent); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *verifyLedger) append(agent string) error {
	id, session := fmt.Sprintf("task-2026-02-16-%03d", l.End().Seq), "agent:pi:dm:+123"
	_, err := l.Append(l.t.Context(), audit.Entry{
		Agent: agent, Event: audit.PolicyDenied, Action: agent + " may not write_file \"x\"\n\u00e9\u2028", TaskID: &id, Session: &session,
		Details: audit.Details(map[string]any{"tx": "0123", "uid": 1, "pid": 2, "host": "h", "list": []int{-1, 0}, "\u00e9": true, "none": nil}),
	})
	if err != nil {
		return err
	}
	return l.Copy(l.t.Context(), time.Second)
}

func (l *verifyLedger) verify(o Options) Report {
	l.t.Helper()
	return l.prove(o, func(*Chain, *audit.Line) {})
}

// prove is verify, and shows each line.
func (l *verifyLedger) prove(o Options, show func(c *Chain, line *audit.Line)) Report {
	l.t.Helper()
	c, err := Open(l.t.Context(), l.home, verifyMailbox, o)
	if err != nil {
		l.t.Fatal(err)
	}
	defer c.Close()
	for line, err := range c.Lines() {
		if err != nil {
			l.t.Fatal(err)
		}
		show(c, line)
	}
	r, err := c.Finish()
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

func (l *verifyLedger) path(parts ...string) string {
	return filepath.Join(append([]string{l.home, "audit"}, parts...)...)
}

const day1, day2 = "2026-02-16.jsonl", "2026-02-17.jsonl"

// edit rewrites the lines of a file of the ledger.
func (l *verifyLedger) edit(name string, change func(lines []string) []string) {
	l.t.Helper()
	data, err := os.ReadFile(l.path("shared", name))
	if err != nil {
		l.t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	text := strings.Join(change(lines[:len(lines)-1]), "")
	if err := os.WriteFile(l.path("shared", name), []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// forge gives a line another content with the right checksum.
func forge(line string, change func(body string) string) string {
	body := strings.TrimSuffix(line, "\n")
	body = change(body[:len(body)-suffixSize] + "}")
	return strings.TrimSuffix(body, "}") + suffixKey + audit.Hash([]byte(body)) + "\"}\n"
}

// rechain makes the lines from n on a chain again, as a forger would.
func rechain(lines []string, n int) []string {
	for i := n; i < len(lines); i++ {
		before := strings.TrimSuffix(lines[i-1], "\n")
		sum := before[len(before)-73 : len(before)-2]
		lines[i] = forge(lines[i], func(body string) string {
			at := strings.LastIndex(body, `,"prev":"`) + len(`,"prev":"`)
			return body[:at] + sum + body[at+71:]
		})
	}
	return lines
}

func TestVerifyLedgerDamage(t *testing.T) {
	const f1, f2 = "audit/shared/" + day1, "audit/shared/" + day2
	lines := func(change func([]string) []string) func(*verifyLedger) {
		return func(l *verifyLedger) { l.edit(day1, change) }
	}
	forged := func(n int, old, new string) func(*verifyLedger) { // and all lines behind chained again
		return func(l *verifyLedger) {
			last := ""
			l.edit(day1, func(s []string) []string {
				s[n-1] = forge(s[n-1], func(body string) string { return strings.Replace(body, old, new, 1) })
				last = rechain(s, n)[9]
				return s
			})
			l.edit(day2, func(s []string) []string { return rechain(append([]string{last}, s...), 1)[1:] })
			os.Remove(filepath.Join(l.home, ".mbox", "locks", "chain")) // and the head record with it
		}
	}
	tests := []struct {
		name   string
		damage func(l *verifyLedger)
		want   Fault // of the first fault; What is a part of it
		only   bool  // there is no other fault but those of copies
	}{
		{
			"a byte flipped", lines(func(s []string) []string { s[4] = strings.Replace(s[4], "write_file", "write_filf", 1); return s }),
			Fault{10, f1, 5, 5, "", "checksum does not match"},
			true,
		},
		{"a byte of the checksum flipped", lines(func(s []string) []string {
			s[4] = s[4][:len(s[4])-10] + string(s[4][len(s[4])-10]^1) + s[4][len(s[4])-9:]
			return s
		}), Fault{10, f1, 5, 5, "", "checksum does not match"}, true},
		{
			"the suffix destroyed", lines(func(s []string) []string { s[4] = s[4][:len(s[4])-5] + "\n"; return s }),
			Fault{9, f1, 5, 5, "", "is no ledger line"},
			true,
		},
		{
			"a foreign line inserted", lines(func(s []string) []string { return slices.Insert(s, 4, "hello\n") }),
			Fault{9, f1, 5, 5, "", "is no ledger line"},
			true,
		},
		{
			"an empty line inserted", lines(func(s []string) []string { return slices.Insert(s, 4, "\n") }),
			Fault{9, f1, 5, 5, "", "is no ledger line"},
			true,
		},
		{
			"a line deleted", lines(func(s []string) []string { return slices.Delete(s, 4, 5) }),
			Fault{10, f1, 5, 6, "", "prev is not the checksum of the line before, seq 4"},
			true,
		},
		{
			"the first line deleted", lines(func(s []string) []string { return s[1:] }),
			Fault{10, f1, 1, 2, "", "prev is not"},
			true,
		},
		{
			"a line twice", lines(func(s []string) []string { return slices.Insert(s, 4, s[3]) }),
			Fault{10, f1, 5, 4, "", "prev is not the checksum of the line before, seq 4"},
			true,
		},
		{
			"two lines swapped", lines(func(s []string) []string { s[4], s[5] = s[5], s[4]; return s }),
			Fault{10, f1, 5, 6, "", "prev is not"},
			false,
		},
		{
			"two lines joined", lines(func(s []string) []string { s[4] = strings.TrimSuffix(s[4], "\n"); return s }),
			Fault{10, f1, 5, 5, "", "checksum does not match"},
			true,
		},
		{"a line edited with its checksum", lines(func(s []string) []string {
			s[4] = forge(s[4], func(b string) string { return strings.Replace(b, "write_file", "read_files", 1) })
			return s
		}), Fault{10, f1, 6, 6, "", "prev is not"}, true},
		{"a line not in canonical form", forged(5, `"pid":2`, `"pid": 2`), Fault{10, f1, 5, 5, "", "not in canonical form"}, true},
		{"keys out of order", forged(5, `"pid":2,"tx":"0123"`, `"tx":"0123","pid":2`), Fault{10, f1, 5, 5, "", "not in canonical form"}, true},
		{"a key twice", forged(5, `"pid":2`, `"pid":2,"pid":2`), Fault{10, f1, 5, 5, "", "duplicate key"}, true},
		{"a number that is no integer", forged(5, `"pid":2`, `"pid":2.5`), Fault{10, f1, 5, 5, "", "2.5 is not allowed"}, true},
		{"a number of 2^53", forged(5, `"pid":2`, `"pid":9007199254740992`), Fault{10, f1, 5, 5, "", "is not allowed"}, true},
		{"an unknown field", forged(5, `,"v":1`, `,"v":1,"w":1`), Fault{10, f1, 5, 5, "", "w"}, true},
		{"a missing field", forged(5, `,"session":"agent:pi:dm:+123"`, ``), Fault{10, f1, 5, 5, "", "a field is missing"}, true},
		{"a checksum and little else", lines(func(s []string) []string {
			body := `,"prev":"}`
			return slices.Insert(s, 4, body[:len(body)-1]+suffixKey+audit.Hash([]byte(body))+"\"}\n")
		}), Fault{10, f1, 5, 5, "", "prev or seq missing"}, true},
		{"an unknown event", forged(5, `policy_denied`, `policy_foobar`), Fault{10, f1, 5, 5, "", "event \"policy_foobar\" is unknown"}, true},
		{"another format", forged(5, `"v":1`, `"v":2`), Fault{10, f1, 5, 5, "", "format 2"}, true},
		{"an agent that is a path", forged(5, `"agent":"coder"`, `"agent":"../x"`), Fault{10, f1, 5, 5, "", "no proper name"}, true},
		{"a ts with a comma", forged(5, `10:30:00.000Z`, `10:30:00,000Z`), Fault{10, f1, 5, 5, "", "three decimals"}, true},
		{"the 30th of February", forged(5, `"ts":"2026-02-16`, `"ts":"2026-02-30`), Fault{10, f1, 5, 5, "", "three decimals"}, true},
		{"a ts of the next day", forged(5, `"ts":"2026-02-16`, `"ts":"2026-02-17`), Fault{10, f1, 5, 5, "", "younger file"}, true},
		{"a repair of bytes that count", forged(5, `policy_denied`, `audit_repaired`), Fault{9, f1, 5, 5, "", "names bytes that"}, true},
		{"another mailbox's ledger", forged(1, audit.Genesis(verifyMailbox), audit.Genesis("other")), Fault{10, f1, 1, 1, "", "prev is not"}, true},
		{
			"bytes that are no line and never end", lines(func(s []string) []string { return slices.Insert(s, 4, strings.Repeat("\x00", 300<<10)+"\n") }),
			Fault{9, f1, 5, 5, "", "307201 bytes without a newline"},
			true,
		},
		{
			"the last newline of an older file", lines(func(s []string) []string { s[9] = strings.TrimSuffix(s[9], "\n"); return s }),
			Fault{9, f1, 10, 10, "", "the last line has no newline"},
			true,
		},
		{
			"an older file cut", lines(func(s []string) []string { return s[:7] }),
			Fault{10, f2, 1, 11, "", "prev is not the checksum of the line before, seq 7"},
			true,
		},
		{
			"an older file gone", func(l *verifyLedger) { os.Remove(l.path("shared", day1)) },
			Fault{10, f2, 1, 11, "", "prev is not"},
			true,
		},
		{
			"the newest file gone", func(l *verifyLedger) { os.Remove(l.path("shared", day2)) },
			Fault{10, f2, 0, 11, "", "was cut"},
			true,
		},
		{
			"all files gone", func(l *verifyLedger) { os.RemoveAll(l.path("shared")); os.Mkdir(l.path("shared"), 0o700) },
			Fault{10, f2, 0, 1, "", "was cut"},
			true,
		},
		{
			"the ledger's folder gone", func(l *verifyLedger) { os.RemoveAll(l.path("shared")) },
			Fault{9, "audit/shared", 0, 0, "", "is missing"},
			false,
		},
		{
			"the newest file renamed", func(l *verifyLedger) { os.Rename(l.path("shared", day2), l.path("shared", "2026-02-18.jsonl")) },
			Fault{10, f2, 0, 16, "", "the newest file is gone"},
			true,
		},
		{
			"the newest file renamed back", func(l *verifyLedger) { os.Rename(l.path("shared", day2), l.path("shared", "2026-02-15.jsonl")) },
			Fault{10, "audit/shared/2026-02-15.jsonl", 1, 11, "", "prev is not"},
			false,
		},
		{
			"a file under another name", func(l *verifyLedger) { os.Rename(l.path("shared", day1), l.path("shared", day1+".bak")) },
			Fault{10, f2, 1, 11, "", "prev is not"},
			false,
		},
		{
			"a stranger's file", func(l *verifyLedger) { addTo(l.t, l.path("shared", "notes.txt"), "x") },
			Fault{9, "audit/shared/notes.txt", 0, 0, "", "only those belong to the ledger"},
			true,
		},
		{"a file that is a symlink", func(l *verifyLedger) {
			os.Rename(l.path("shared", day1), filepath.Join(l.home, "x"))
			os.Symlink(filepath.Join(l.home, "x"), l.path("shared", day1))
		}, Fault{14, f1, 0, 0, "", "is no regular file"}, false},
		{"a file that is a folder", func(l *verifyLedger) {
			os.Remove(l.path("shared", day1))
			os.Mkdir(l.path("shared", day1), 0o700)
		}, Fault{14, f1, 0, 0, "", "is no regular file"}, false},
		{"the newest file a folder", func(l *verifyLedger) {
			os.Remove(l.path("shared", day2))
			os.Mkdir(l.path("shared", day2), 0o700)
		}, Fault{14, f2, 0, 0, "", "is no regular file"}, true},
		{
			"the last line cut", func(l *verifyLedger) { l.edit(day2, func(s []string) []string { return s[:4] }) },
			Fault{10, f2, 5, 15, "", "the ledger ends with seq 14, but seq 15 was written"},
			true,
		},
		{"the last newline cut", func(l *verifyLedger) {
			l.edit(day2, func(s []string) []string { s[4] = strings.TrimSuffix(s[4], "\n"); return s })
		}, Fault{9, f2, 5, 15, "", "the last line has no newline"}, true},
		{
			"half of the last line cut", func(l *verifyLedger) { l.edit(day2, func(s []string) []string { s[4] = s[4][:200]; return s }) },
			Fault{9, f2, 5, 15, "", "is no ledger line"},
			false,
		},
		{
			"a foreign line at the end", func(l *verifyLedger) { l.edit(day2, func(s []string) []string { return append(s, "hello\n") }) },
			Fault{9, f2, 6, 16, "", "is no ledger line"},
			true,
		},
		{"the last line cut and forged", func(l *verifyLedger) {
			l.edit(day2, func(s []string) []string {
				s[4] = forge(s[4], func(b string) string { return strings.Replace(b, "write_file", "read_files", 1) })
				return s
			})
		}, Fault{10, f2, 5, 15, "", "the head record knows another line"}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newVerifyLedger(t)
			l.add(10)
			l.now = l.now.AddDate(0, 0, 1)
			l.add(5)
			l.Close()
			if r := l.verify(Options{}); len(r.Faults)+len(r.Notes) > 0 || r.Lines != 15 || r.End.Seq != 15 {
				t.Fatalf("before the damage: %+v", r)
			}
			test.damage(l)
			r := l.verify(Options{})
			if len(r.Faults) == 0 {
				t.Fatal("no fault")
			}
			got := r.Faults[0]
			if !strings.Contains(got.What, test.want.What) {
				t.Errorf("got %q, want %q in it", got.What, test.want.What)
			}
			got.What = test.want.What
			if got != test.want {
				t.Errorf("got %+v\nwant %+v", got, test.want)
			}
			for _, f := range r.Faults[1:] {
				if test.only && f.Invariant != 11 {
					t.Errorf("also %v", f)
				}
			}
		})
	}
}

func TestRule17_VerifyCopies(t *testing.T) {
	const file = "audit/coder/" + day1
	tests := []struct {
		name   string
		damage func(l *verifyLedger)
		want   []Fault
	}{
		{"edited", func(l *verifyLedger) { replaceIn(l.t, l.path("coder", day1), "write_file", "read_files") }, []Fault{{11, file, 1, 0, "", "is not the agent's line with seq 1"}}},
		{"short", func(l *verifyLedger) { cutFile(l.t, l.path("coder", day1), 100) }, []Fault{{11, file, 5, 0, "", "lacks 100 bytes, and 2026-02-17.jsonl does not"}}},
		{"without its last line", func(l *verifyLedger) {
			replaceIn(l.t, l.path("coder", day1), lastLineOf(l.t, l.path("coder", day1)), "")
		}, []Fault{{11, file, 5, 0, "", "and 2026-02-17.jsonl does not"}}},
		{"without its last day", func(l *verifyLedger) {
			os.Remove(l.path("coder", "2026-02-17.jsonl"))
		}, []Fault{{11, "audit/coder/2026-02-17.jsonl", 0, 0, "", "has lost 500 bytes that were there, up to seq 11"}}},
		{"longer", func(l *verifyLedger) { addTo(l.t, l.path("coder", day1), "more\n") }, []Fault{{11, file, 6, 0, "", "the ledger does not have"}}},
		{"gone", func(l *verifyLedger) { os.RemoveAll(l.path("coder")) }, []Fault{{11, "audit/coder/2026-02-17.jsonl", 0, 0, "", "has lost 500 bytes"}}},
		{"a folder", func(l *verifyLedger) {
			os.Remove(l.path("coder", "2026-02-17.jsonl"))
			os.Mkdir(l.path("coder", "2026-02-17.jsonl"), 0o700)
		}, []Fault{{11, "audit/coder/2026-02-17.jsonl", 0, 0, "", "cannot be read"}}},
		{"one day too many", func(l *verifyLedger) { addTo(l.t, l.path("coder", "2026-02-18.jsonl"), "") }, []Fault{{11, "audit/coder/2026-02-18.jsonl", 0, 0, "", "no line of that day"}}},
		{"of nobody", func(l *verifyLedger) {
			os.Mkdir(l.path("nobody"), 0o700)
			addTo(l.t, l.path("nobody", day1), "")
		}, []Fault{{11, "audit/nobody/" + day1, 0, 0, "", "no line of that day"}}},
		{"a strange file", func(l *verifyLedger) { addTo(l.t, l.path("coder", "notes.jsonl"), "") }, []Fault{{11, "audit/coder/notes.jsonl", 0, 0, "", "only those belong to a copy"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newVerifyLedger(t)
			l.add(10)
			l.now = l.now.AddDate(0, 0, 1)
			l.add(2)
			test.damage(l)
			r := l.verify(Options{InFlight: func(audit.Position) bool { return test.name == "edited" }})
			for i, f := range r.Faults {
				if i < len(test.want) && strings.Contains(f.What, test.want[i].What) {
					r.Faults[i].What = test.want[i].What
				}
			}
			if !slices.Equal(r.Faults, test.want) {
				t.Errorf("got %+v\nwant %+v", r.Faults, test.want)
			}
		})
	}
}

func replaceIn(t testing.TB, path, old, new string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), old) {
		t.Fatal(err, "nothing to replace")
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), old, new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func cutFile(t testing.TB, path string, n int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()-n)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func addTo(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func lastLineOf(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	return text[strings.LastIndex(text[:len(text)-1], "\n")+1:]
}

// A process that died while it appended leaves torn bytes or a whole line without
// its newline. That is no fault while its intent record stands.
func TestVerifyInterrupted(t *testing.T) {
	lines := func(l *verifyLedger) (next string) { // of the line that comes next
		other := newVerifyLedger(t)
		other.add(10)
		data, err := os.ReadFile(other.path("shared", day1))
		if err != nil {
			t.Fatal(err)
		}
		all := strings.SplitAfter(string(data), "\n")
		return all[8]
	}
	tests := []struct {
		name  string
		leave func(l *verifyLedger)
		fault Fault // where nobody is in flight
		lines int64
		note  string
	}{
		{
			"torn bytes", func(l *verifyLedger) { addTo(t, l.path("shared", day1), lines(l)[:300]) },
			Fault{9, "audit/shared/" + day1, 9, 9, "", "is no ledger line"},
			8, "300 bytes",
		},
		{
			"a closed range and torn bytes", func(l *verifyLedger) { addTo(t, l.path("shared", day1), "\n"+lines(l)[:300]) },
			Fault{9, "audit/shared/" + day1, 9, 9, "", "is no ledger line"},
			8, "301 bytes",
		},
		{"no newline", func(l *verifyLedger) {
			addTo(t, l.path("shared", day1), strings.TrimSuffix(lines(l), "\n"))
		}, Fault{9, "audit/shared/" + day1, 9, 9, "", "the last line has no newline"}, 9, "bytes at offset"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newVerifyLedger(t)
			l.add(8)
			end := l.End()
			test.leave(l)
			r := l.verify(Options{})
			if len(r.Faults) == 0 || !strings.Contains(r.Faults[0].What, test.fault.What) {
				t.Fatalf("nobody in flight: %+v", r.Faults)
			}
			if r.Faults[0].What = test.fault.What; r.Faults[0] != test.fault {
				t.Errorf("got %+v\nwant %+v", r.Faults[0], test.fault)
			}
			r = l.verify(Options{InFlight: func(p audit.Position) bool { return !p.Before(end) }})
			if len(r.Faults) > 0 || r.Lines != test.lines || len(r.Notes) > 1 || !strings.Contains(strings.Join(r.Notes, ""), test.note) {
				t.Errorf("in flight: %+v", r)
			}
			if r := l.verify(Options{InFlight: func(p audit.Position) bool { return p.Before(end) }}); len(r.Faults) == 0 {
				t.Errorf("somebody else in flight: %+v", r)
			}
			l.add(2) // the next appender mends it, and copies
			if r := l.verify(Options{}); len(r.Faults)+len(r.Notes) > 0 {
				t.Errorf("after the mending: %+v", r)
			}
		})
	}
}

// Repaired ranges count for nothing, lines inside them included; the last of
// several repairs of one place counts.
func TestRule16_VerifyRepairs(t *testing.T) {
	l := newVerifyLedger(t)
	l.add(4)
	for i, junk := range []string{"torn", "torn\n", "\n", strings.Repeat("\x00", 200<<10), "a\nb\nc"} {
		addTo(t, l.path("shared", day1), junk)
		if i == 1 { // the first repair, and lines behind it, fall into the next range
			l.add(1)
			data, err := os.ReadFile(l.path("shared", day1))
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.Index(data, []byte("torn\n"))
			copy(data[at:], "XXXX")
			if err := os.WriteFile(l.path("shared", day1), data, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := l.Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := l.MendCopies(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		l.add(2)
	}
	if err := l.MendCopies(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	r := l.verify(Options{})
	if len(r.Faults)+len(r.Notes) > 0 || r.End.Seq < 15 {
		t.Fatalf("%+v", r)
	}
	l.edit(day1, func(s []string) []string {
		i := slices.IndexFunc(s, func(line string) bool { return strings.HasPrefix(line, "b") })
		s[i] = "B\n"
		return s
	})
	r = l.verify(Options{})
	if len(r.Faults) == 0 || r.Faults[0].Invariant != 9 {
		t.Errorf("a repaired range was edited: %+v", r.Faults)
	}
}

// A fault that a line's reader finds gets the line's place and task.
func TestVerifyLines(t *testing.T) {
	l := newVerifyLedger(t)
	l.add(4)
	seen := int64(0)
	r := l.prove(Options{}, func(c *Chain, line *audit.Line) {
		seen++
		if e, err := line.Decode(); err != nil || e.Seq != seen || e.Checksum != line.Checksum || e.Prev != line.At.Checksum {
			t.Errorf("%v: %+v", err, e)
		}
		if line.Seq == 3 {
			c.Fault(7, "so")
		}
	})
	if want := (Fault{7, "audit/shared/" + day1, 3, 3, "task-2026-02-16-002", "so"}); seen != 4 || len(r.Faults) != 1 || r.Faults[0] != want {
		t.Errorf("%d %+v", seen, r)
	}
	if text := r.Faults[0].String(); text != "audit/shared/2026-02-16.jsonl:3: seq 3: so" {
		t.Error(text)
	}
}

// While others append, nothing looks wrong: neither several processes, nor one
// with several goroutines, nor over many midnights.
func TestVerifyAlive(t *testing.T) {
	t.Run("processes", func(t *testing.T) {
		l := newVerifyLedger(t)
		l.add(3)
		verifyAlive(t, l, func() *verifyLedger {
			own := &verifyLedger{t: t, home: l.home, now: l.now}
			own.open()
			return own
		})
	})
	t.Run("processes and midnights", func(t *testing.T) {
		l := newVerifyLedger(t)
		l.add(3)
		verifyAlive(t, l, func() *verifyLedger {
			now := l.now
			clock := func() time.Time { now = now.Add(20 * time.Minute); return now }
			own, err := audit.Open(l.home, verifyMailbox, audit.Options{Mode: durable.None, Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { own.Close() })
			return &verifyLedger{Ledger: own, t: t, home: l.home}
		})
	})
	t.Run("midnights", func(t *testing.T) {
		l := newVerifyLedger(t)
		var minutes atomic.Int64
		begin := l.now
		own, err := audit.Open(l.home, verifyMailbox, audit.Options{Mode: durable.None, Now: func() time.Time {
			return begin.Add(time.Duration(minutes.Add(20)) * time.Minute)
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		l.Ledger = own
		l.add(3)
		verifyAlive(t, l, func() *verifyLedger { return l })
	})
}

func verifyAlive(t *testing.T, l *verifyLedger, appender func() *verifyLedger) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	b := begun{at: map[audit.Position]int{}}
	var group sync.WaitGroup
	for i := range 3 {
		own := appender()
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				at := own.End()
				b.mark(at, 1)
				err := own.append([]string{"coder", "tester"}[(i+n)%2])
				b.mark(at, -1)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	runs := 0
	for ; ctx.Err() == nil; runs++ {
		if r := l.verify(Options{InFlight: b.inFlight}); len(r.Faults) > 0 {
			t.Errorf("run %d: %v", runs, r.Faults[0].String())
			break
		}
	}
	cancel()
	group.Wait()
	end := l.verify(Options{})
	if len(end.Faults)+len(end.Notes) > 0 {
		t.Errorf("at the end: %+v", end)
	}
	t.Logf("%d runs, %+v", runs, end.End)
}

// begun is what the intent records of a mailbox say.
type begun struct {
	mu sync.Mutex
	at map[audit.Position]int
}

func (b *begun) mark(at audit.Position, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at[at] += n; b.at[at] == 0 {
		delete(b.at, at)
	}
}

func (b *begun) inFlight(p audit.Position) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at := range b.at {
		if !p.Before(at) {
			return true
		}
	}
	return false
}

func TestVerifyMemory(t *testing.T) {
	l := newVerifyLedger(t)
	benchmarkLedger(l, 30000)
	var before, after runtime.MemStats
	most := uint64(0)
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	l.prove(Options{}, func(*Chain, *audit.Line) {
		if n++; n%10000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&after)
			most = max(most, after.HeapAlloc-min(after.HeapAlloc, before.HeapAlloc))
		}
	})
	if most > 2<<20 {
		t.Errorf("%d bytes live on a ledger of %d lines", most, n)
	}
}

// A file full of junk takes no longer than a good one.
func TestVerifyJunk(t *testing.T) {
	l := newVerifyLedger(t)
	l.add(4)
	addTo(t, l.path("shared", "2026-02-17.jsonl"), strings.Repeat("junk\n", 200000))
	begin := time.Now()
	r := l.verify(Options{})
	if len(r.Faults) != 1 || r.Faults[0].Line != 1 || r.Bytes < 1000000 || time.Since(begin) > 5*time.Second {
		t.Errorf("%v: %+v", time.Since(begin), r)
	}
}

// benchmarkLedger makes the ledger one of n lines of about 600 bytes, with copies.
func benchmarkLedger(l *verifyLedger, n int) {
	l.t.Helper()
	hash := audit.Hash(nil)
	entries := func(yield func(audit.Entry, error) bool) {
		for i := range n {
			id := fmt.Sprintf("task-2026-02-16-%03d", i)
			agent := []string{"coder", "tester"}[i%2]
			if !yield(audit.Entry{
				Action: agent + " picked " + id + ", attempt 1", Agent: agent, Event: audit.TaskPicked, TaskID: &id,
				Details: audit.Details(map[string]any{
					"tx": "0123456789abcdef0123456789abcdef", "from": "pending", "to": "in-progress", "revision": 2, "epoch": 1, "attempt": 1, "reason": "Picked up for processing",
					"before": hash, "after": hash, "uid": 1000, "pid": 12345, "host": "machine",
				}),
			}, nil) {
				return
			}
		}
	}
	if err := l.Forget(l.t.Context(), entries); err != nil {
		l.t.Fatal(err)
	}
	if err := l.MendCopies(l.t.Context(), nil); err != nil {
		l.t.Fatal(err)
	}
}

func BenchmarkVerifyLedger(b *testing.B) {
	const n = 100000
	l := newVerifyLedger(b)
	benchmarkLedger(l, n)
	size := int64(0)
	begin := cpuTime(b)
	b.ResetTimer()
	for b.Loop() {
		r := l.verify(Options{})
		if r.Lines != n || len(r.Faults) > 0 {
			b.Fatalf("%+v", r)
		}
		size = r.Bytes
	}
	b.SetBytes(size)
	b.ReportMetric(float64(size)/n, "B/line")
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "lines/s")
	b.ReportMetric(float64(n*b.N)/(cpuTime(b)-begin).Seconds(), "lines/cpu-s") // what a core does that is not shared
}

// cpuTime is what this process has used of the processors.
func cpuTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
