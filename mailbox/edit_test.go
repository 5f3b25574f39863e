package mailbox

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox/task"
)

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

// TestRule09_EditedByHand: what was asked is never changed by a stranger. There is one
// alarm, and only an operator takes the edit over.
func TestRule09_EditedByHand(t *testing.T) {
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

// TestReplacedByHand puts something else in the place of a task of ours. It is
// not adopted, and the other tasks go on.
func TestReplacedByHand(t *testing.T) {
	things := map[string]func(*Box, string) error{
		"nothing like JSON": func(_ *Box, path string) error { return put(path, "junk") },
		"an empty file":     func(_ *Box, path string) error { return put(path, "") },
		"a symlink":         linkedOut,
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
