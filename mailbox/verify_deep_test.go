package mailbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"mbox/audit"
	"mbox/mailbox/task"
)

// TestVerifyDeep edits tasks and makes the ledger confirm the edit, which only one
// who holds the whole home can do: a deep look decodes them all the same, and any
// look decodes the task that names artifacts.
func TestVerifyDeep(t *testing.T) {
	const named = `"artifacts": [{"path": "\n    \"artifacts\": [],\n"}]`
	for _, row := range []struct {
		name, file, old, text, what string
		plain                       bool // a look that is not deep tells it
	}{
		{"a status", "tasks/failed/v-failed.json", `"status": "failed"`, `"status": "completed"`, "result.status", false},
		{"no task", "tasks/failed/v-failed.json", `"version": 1`, `"version": 1, "more": 1`, "is no valid task", false},
		{"artifacts", "tasks/completed/v-done.json", `"status": "completed"`, `"status": "failed"`, "result.status", true},
		{"a text", "tasks/failed/v-failed.json", `"status": "failed"`, `"status": "completed"`, "result.status", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := newVerifyHome(t)
			was := h.read(row.file)
			now := strings.Replace(was, row.old, row.text, 1)
			if row.name == "a text" {
				now = strings.Replace(now, `"artifacts": []`, named, 1)
			}
			if now == was || row.name == "a text" && !strings.Contains(now, named) {
				t.Fatalf("no %s in %s", row.old, was)
			}
			h.write(row.file, now)
			id := ID(task.TrimJSON(filepath.Base(row.file)))
			h.rewrite(h.last(id), audit.Hash([]byte(was)), audit.Hash([]byte(now)))
			for _, deep := range []bool{false, true} {
				r, err := Verify(t.Context(), h.dir, h.options(), VerifyOptions{Deep: deep})
				h.must(err)
				told := slices.ContainsFunc(r.Faults, func(f Fault) bool { return f.File == row.file && strings.Contains(f.What, row.what) })
				if told != (deep || row.plain) {
					t.Errorf("deep %v: %v", deep, r.Faults)
				}
			}
		})
	}
}

func TestOnAllCores(t *testing.T) {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint(i))
	}
	var mu sync.Mutex
	var done []string
	now, most := 0, 0
	count := func(name string) error {
		mu.Lock()
		done, now = append(done, name), now+1
		most = max(most, now)
		mu.Unlock()
		runtime.Gosched()
		mu.Lock()
		defer mu.Unlock()
		now--
		return nil
	}
	if err := onAllCores(t.Context(), names, count); err != nil || most > runtime.GOMAXPROCS(0) {
		t.Errorf("%v, %d at once", err, most)
	}
	slices.Sort(done)
	if want := slices.Sorted(slices.Values(names)); !slices.Equal(done, want) {
		t.Errorf("done %v", done)
	}
	bad := errors.New("bad")
	if err := onAllCores(t.Context(), names, func(name string) error { return map[string]error{"70": bad}[name] }); !errors.Is(err, bad) {
		t.Errorf("an error: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := onAllCores(ctx, names, count); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
