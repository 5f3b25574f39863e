package mailbox

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mbox/audit"
	"mbox/mailbox/task"
	"mbox/mailbox/verify"
)

// TestRule36_VerifyDeep edits tasks and makes the ledger confirm the edit, which only one
// who holds the whole home can do: a deep look decodes them all the same, and any
// look decodes the task that names artifacts.
func TestRule36_VerifyDeep(t *testing.T) {
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
				r, err := verify.Home(t.Context(), h.dir, verify.Options{Deep: deep})
				h.must(err)
				told := slices.ContainsFunc(r.Findings, func(f verify.Finding) bool { return f.File == row.file && strings.Contains(f.What, row.what) })
				if told != (deep || row.plain) {
					t.Errorf("deep %v: %v", deep, r.Findings)
				}
			}
		})
	}
}
