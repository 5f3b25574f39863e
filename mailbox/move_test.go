package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/mailbox/verify"
)

func mv(t testing.TB, b *Box, id ID, from, to State) {
	t.Helper()
	must(t, os.Rename(b.path("tasks", string(from), id.File()), b.path("tasks", string(to), id.File())))
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
			must(t, linkedOut(b, at("link.json")))
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
	{"puts a symlink there", func(b *Box, path string) error {
		return errors.Join(os.Remove(path), linkedOut(b, path))
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
	step := amount(31, 5, 1)
	n, homes, all := 0, t.TempDir(), map[string]string{}
	for _, sc := range scenes {
		if !slices.Contains(interposed, sc.name) {
			continue
		}
		for _, act := range acts {
			t.Run(sc.name+", "+act.name, func(t *testing.T) {
				for k, more := 1, true; more; k++ {
					if n++; n%step != 0 {
						more = k < 30
						continue
					}
					more = interpose(t, sc, act.do, k, filepath.Join(homes, strconv.Itoa(n)), all)
				}
			})
		}
	}
	lintAll(t, all)
}

// interpose lets act happen before the k-th write of a scene's verb, in a new home. It
// tells whether there may be a later write.
func interpose(t *testing.T, sc scene, act func(*Box, string) error, k int, dir string, all map[string]string) (more bool) {
	ctx := context.Background()
	o := Options{Sync: durable.None, RetryBase: time.Nanosecond, Now: func() time.Time { return time.Now().Add(time.Minute) }}
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
	all[dir] = fmt.Sprintf("%s: %s; verb said: %v", t.Name(), hit, said)
	return true
}

// TestReleaseInTheLedger: a line tells why a task was given back where that is a code,
// and nothing of what somebody wrote.
func TestReleaseInTheLedger(t *testing.T) {
	b, ctx := newBox(t, Options{}), context.Background()
	for _, row := range [][2]string{
		{"brain_down", "given back: brain_down"}, {"brain_down: hunter_2", "given back: brain_down"}, {"password hunter_2", "given back"}, {"hunter", "given back"}, {"Brain_down", "given back"}, {strings.Repeat("a_", 17), "given back"},
	} {
		if _, err := b.Submit(ctx, &Task{Task: Request{Title: "x"}}); err != nil {
			t.Fatal(err)
		}
		c := claimAs(t, b, "coder")
		must(t, c.Release(ctx, row[0], 0))
		if m, _ := task.MoveOf(lineOf(t, b, audit.TaskReleased)); m.Reason != row[1] {
			t.Errorf("%s: %s", row[0], m.Reason)
		}
		must(t, b.Cancel(ctx, c.ID(), "human", "done"))
	}
}
