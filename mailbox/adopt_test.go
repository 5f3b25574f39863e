package mailbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// TestVerifyLargeTasks: a task that was small enough when it was sent, and that
// its claim, progress and result have filled, is a valid one.
func TestVerifyLargeTasks(t *testing.T) {
	b := newBox(t, newClock().options())
	for id, size := range map[ID]int{"full": MaxNew - 1100, "half": MaxNew / 2} {
		task, err := task.ParseDrop("", []byte(padded(size)))
		must(t, err)
		task.ID = id
		_, err = b.Submit(t.Context(), task)
		must(t, err)
		c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
		must(t, err)
		must(t, c.Progress(t.Context(), Progress{Message: strings.Repeat("m", 900)}))
		must(t, c.Complete(t.Context(), Result{Output: jsontext.Value(`"` + strings.Repeat("o", MaxOutput-2) + `"`)}))
	}
	whole(t, b.Home())
}

// handEdits are edits of a completed task, and how an operator's adoption ends:
// refused names the JSON path, "" is an adoption after which verify is content.
var handEdits = []struct {
	name     string
	old, new string
	refused  string
}{
	{"a better output", `"output": "done"`, `"output": "better"`, ""},
	{"another priority", `"priority": "normal"`, `"priority": "urgent"`, ""},
	{"no output", `"output": "done"`, `"output": null`, ""},
	{"no token", `"token": "`, `"token": "", "host": "h", "deadline": "2026-02-16T10:00:00Z"}, "labels": {"was": "`, ""},
	{"nobody has it", `"picked_up_by": "coder"`, `"picked_up_by": ""`, ""},
	{"a history without reasons", `"reason": "Picked up for processing"`, `"reason": ""`, ""},
	{"a history of its own", `"from": "pending"`, `"from": "failed"`, ""},
	{"a forged revision and epoch", `"epoch": 1`, `"epoch": 9`, ""},
	{"the status of another folder", `"status": "completed"`, `"status": "failed"`, ""},
	{"a priority that is none", `"priority": "normal"`, `"priority": "soon"`, "task.priority"},
	{"no title", `"title": "what was asked"`, `"title": ""`, "task.title"},
	{"a target that is none", `"target_agent": "any"`, `"target_agent": "../x"`, "assignment.target_agent"},
	{"a version of the future", `"version": 1`, `"version": 2`, "version"},
	{"an id of another", `"id": "t1"`, `"id": "t2"`, "id"},
	{"an unknown field", `"version": 1`, `"version": 1, "extra": 1`, "extra"},
	{"a source that is mbox", `"agent": "asker"`, `"agent": "mbox"`, "source.agent"},
	{"it depends on itself", `"mbox": {`, `"mbox": {"depends_on": ["T1"],`, "mbox.depends_on[0]"},
	{"no JSON", `"version": 1`, `"version": 1,,`, "$"},
}

// TestAdopt takes over what was done to an ended task by hand. What is taken
// over is a task that breaks no invariant; what is none is refused with the
// reason, and the home stays as it was.
func TestAdopt(t *testing.T) {
	all, kept := homes{}, t.TempDir()
	for _, row := range handEdits {
		for _, place := range []string{"completed", "archive/2026-02"} {
			t.Run(row.name+", "+place, func(t *testing.T) {
				b, c := adoptable(t, place != "completed")
				path := b.path("tasks", place, "t1.json")
				data, err := os.ReadFile(path)
				must(t, err)
				text := strings.Replace(string(data), row.old, row.new, 1)
				if text == string(data) {
					t.Fatalf("no %s to change", row.old)
				}
				must(t, put(path, text))
				c.turn(31 * 24 * time.Hour)
				_, err = Recover(t.Context(), b.Home(), b.o, RecoverOptions{Adopt: []ID{"t1"}})
				if row.refused != "" {
					var bad *schemas.Error
					if !errors.As(err, &bad) || bad.Path != row.refused {
						t.Errorf("it ends with %v, want a refusal of %s", err, row.refused)
					}
					if now, err := os.ReadFile(path); string(now) != text {
						t.Errorf("the file was touched: %v", err)
					}
					return
				}
				must(t, err)
				whole(t, b.Home())
				again, err := Recover(t.Context(), b.Home(), b.o, RecoverOptions{Adopt: []ID{"t1"}})
				if err != nil || again.Adopted+again.Mended+again.Quarantine > 0 {
					t.Errorf("a second recovery: %+v %v", again, err)
				}
				all.keep(t, b, kept)
			})
		}
	}
	lintAll(t, all)
}

// adoptable is a box with one completed task, archived if asked for.
func adoptable(t *testing.T, archived bool) (*Box, *clock) {
	t.Helper()
	clk := newClock()
	clk.at.Store(time.Date(2026, 2, 16, 10, 0, 0, 0, time.UTC).UnixNano())
	b := homes{}.open(t, clk.options())
	sent(t, b, "t1")
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	must(t, c.Complete(t.Context(), Result{Output: jsontext.Value(`"done"`)}))
	if archived {
		_, err := b.Archive(t.Context(), 0, "human")
		must(t, err)
	}
	return b, clk
}

// TestAdoptFromArchive moves a task by hand between the folders and an archive
// month that is past. Wherever it lay, one file is left, in the month of the
// line that adopts it, and a process that dies at any write on the way changes
// nothing in that.
func TestAdoptFromArchive(t *testing.T) {
	for _, row := range []struct {
		name     string
		archived bool
		from, to string
	}{
		{"archived, edited there", true, "archive/2026-02", "archive/2026-02"},
		{"archived, moved to another month", true, "archive/2026-02", "archive/2025-11"},
		{"archived, moved back", true, "archive/2026-02", "completed"},
		{"archived, moved to failed", true, "archive/2026-02", "failed"},
		{"completed, moved to a past month", false, "completed", "archive/2026-01"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for k := 0; adoptDying(t, row.archived, row.from, row.to, k) && !t.Failed(); k += stride() {
			}
		})
	}
}

// adoptDying adopts in a process that dies at its k-th write (0: at none), and
// then again. It tells whether there may be a later write to die at.
func adoptDying(t *testing.T, archived bool, from, to string, k int) bool {
	b, c := adoptable(t, archived)
	was := b.path("tasks", to, "t1.json")
	must(t, os.MkdirAll(filepath.Dir(was), 0o700))
	must(t, os.Rename(b.path("tasks", from, "t1.json"), was))
	must(t, rewrite(was, `"done"`, `"by hand"`))
	b.Close()
	c.turn(31 * 24 * time.Hour)
	n := 0
	remove := durable.SetFault(func(durable.Op, string) (bool, error) {
		if n++; k > 0 && n >= k {
			return false, syscall.EIO
		}
		return true, nil
	})
	_, err := Recover(t.Context(), b.Home(), b.o, RecoverOptions{Adopt: []ID{"t1"}})
	remove()
	if k > 0 && err == nil {
		return false
	}
	for range 2 {
		_, err = Recover(t.Context(), b.Home(), b.o, RecoverOptions{Adopt: []ID{"t1"}})
		must(t, err)
	}
	whole(t, b.Home())
	var left []string
	must(t, filepath.WalkDir(b.path("tasks"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			left = append(left, strings.TrimPrefix(path, b.path("tasks")+"/"))
		}
		return err
	}))
	if strings.HasPrefix(to, "archive") {
		to = "archive/2026-03"
	}
	if len(left) != 1 || left[0] != to+"/t1.json" {
		t.Errorf("dying at write %d it ends as %v, want %s", k, left, to)
	}
	return true
}
