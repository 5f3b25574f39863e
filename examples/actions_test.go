package examples

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// action is the action that an example task carries.
type action struct {
	Mbox struct {
		Action struct {
			Params struct{ Content string }
		}
	} `json:"mbox"`
}

func readAction(t *testing.T, path string) (a action) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The agents that are there without any entry do every example action but the
// one that is refused, without a model.
func TestActions(t *testing.T) {
	h := newHouse(t, "OLLAMA_HOST=127.0.0.1:9")
	paths, err := filepath.Glob(example("actions/*.json"))
	if err != nil || len(paths) != 4 {
		t.Fatal(paths, err)
	}
	h.up()
	for _, path := range paths {
		if filepath.Base(path) != "tester-writes.json" {
			h.mbox("send", path)
		}
	}
	h.until("all have ended", func() bool { return h.mbox("ls", "--state", "pending,in-progress", "--json") == "" })
	if failed := h.names("failed"); len(failed) > 0 || len(h.names("completed")) != 4 {
		t.Fatalf("failed %v, completed %v", failed, h.names("completed"))
	}
	want := readAction(t, example("actions/write-note.json"))
	note, err := os.ReadFile(filepath.Join(h.home, "agents/coder/workspace/projects/note.md"))
	if err != nil || string(note) != want.Mbox.Action.Params.Content {
		t.Errorf("note.md is %q: %v", note, err)
	}
	if found := result(h.completed("check-note")); found["status"] != "exists" || found["path"] != "coder:projects/note.md" {
		t.Errorf("the tester found %v", found)
	}
	children, _ := result(h.completed("ask-coder"))["children"].([]any)
	if len(children) != 1 || children[0].(map[string]any)["status"] != "completed" {
		t.Errorf("the coordinator got %v", children)
	}
	if _, err := os.Stat(filepath.Join(h.home, "agents/coder/workspace/projects/plan.md")); err != nil {
		t.Error(err)
	}
}

func result(t task) map[string]any {
	found, _ := t.Result.Output.(map[string]any)
	return found
}

// What the tester's role does not list is refused when it is sent, with exit code
// 73, and when it is dropped; both refusals stand in the ledger.
func TestActionsRefused(t *testing.T) {
	h := newHouse(t)
	path := example("actions/tester-writes.json")
	out, err := h.command("mbox", "send", path).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 73 || !strings.Contains(string(out), "tester may not do") {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h.drop("tester-writes.json", data)
	h.up()
	h.until("it is refused", func() bool { return slices.Equal(h.names("failed"), []string{"tester-writes"}) })
	if refused := h.mbox("audit", "delegation", "--decision", "rejected"); strings.Count(refused, "tester may not do") != 2 {
		t.Errorf("%s", refused)
	}
	if _, err := os.Stat(filepath.Join(h.home, "agents/tester/workspace/note.md")); err == nil {
		t.Error("the tester wrote it all the same")
	}
}
