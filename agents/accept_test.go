package agents

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/policy"
	"mbox/mailbox"
	"mbox/mailbox/task"
)

// checker is a team with checks and no agent that has a table: coder works in the
// home's folder for it.
func checker(t *testing.T, checks map[string]Check) *Team {
	t.Helper()
	return &Team{
		Checks: checks, Policies: policy.Config{Home: t.TempDir()},
		Confine: func(string) func(*exec.Cmd) error { return nil },
		Env:     func(agent string) []string { return []string{"PATH=" + os.Getenv("PATH"), "ENV_OF=" + agent} },
	}
}

func handover(output string, files ...string) *mailbox.Handover {
	h := &mailbox.Handover{Task: &mailbox.Task{ID: "x"}, Agent: "coder", Output: jsontext.Value(output)}
	for _, name := range files {
		h.Files = append(h.Files, mailbox.Artifact{Path: task.ArtifactsDir + "/x.1/" + name})
	}
	return h
}

// Each kind of check tells what it has found; "" is nothing.
func TestAccept(t *testing.T) {
	shape, wrong := filepath.Join(t.TempDir(), "shape.json"), filepath.Join(t.TempDir(), "wrong.json")
	for path, text := range map[string]string{shape: `{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`, wrong: `{"tpye":"object"}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	team := checker(t, map[string]Check{
		"file": {File: "sub/report.md"}, "folder": {File: "sub"}, "link": {File: "link"}, "shape": {Schema: shape}, "wrong": {Schema: wrong}, "away": {Schema: wrong + "x"},
		"reads": {Command: `read line; [ "$line" = "two words" ] && [ "$MBOX_TASK_ID $MBOX_AGENT $ENV_OF" = "x coder coder" ] && [ "$PWD" = "$(pwd)" ]`, Timeout: time.Minute},
		"json":  {Command: `grep -qx '{"a":1}'`, Timeout: time.Minute},
		"loud":  {Command: "echo out; echo err >&2; exit 3", Timeout: time.Minute},
		"much":  {Command: "yes | head -c 1000000; exit 1", Timeout: time.Minute},
		"dies":  {Command: "kill -9 $$", Timeout: time.Minute},
		"slow":  {Command: "sleep 1000", Timeout: 100 * time.Millisecond},
		"deaf":  {Command: "exit 0", Timeout: time.Minute},
	})
	dir := filepath.Join(team.Policies.Home, "agents", "coder", "workspace")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	canary := filepath.Join(t.TempDir(), "canary")
	if err := os.WriteFile(canary, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(canary, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	long := `"` + strings.Repeat("a", 1<<20) + `"`
	for _, c := range []struct {
		check string
		h     *mailbox.Handover
		want  string // what the finding begins with; "" for none
	}{
		{"file", handover(`""`, "sub/report.md"), ""},
		{"file", handover(`""`, "other/sub/report.md", "report.md"), "there is no file sub/report.md"},
		{"folder", handover(`""`), "sub is no regular file"},
		{"link", handover(`""`), "it could not be examined: "}, // it leads outside
		{"shape", handover(`{"a":"b"}`), ""},
		{"shape", handover(`{"a":1}`), "the output: "},
		{"wrong", handover(`{}`), "it could not be examined: " + wrong},
		{"away", handover(`{}`), "it could not be examined: "},
		{"reads", handover(`"two words\n"`), ""},
		{"reads", handover(`"three words\n"`), "exit status 1"},
		{"json", handover(`{"a":1}`), ""},
		{"loud", handover(`""`), "exit status 3: "},
		{"much", handover(`""`), "exit status 1: y\ny"},
		{"dies", handover(`""`), "killed by signal: killed"},
		{"slow", handover(`""`), "no end after 100ms"},
		{"deaf", handover(long), ""},
		{"slow", handover(long), "no end after 100ms"},
		{"none", handover(`""`), "there is no [accept.none] in mbox.toml"},
	} {
		finding, err := team.Accept(t.Context(), c.check, c.h)
		if err != nil || !strings.HasPrefix(finding, c.want) || (finding == "") != (c.want == "") || len(finding) > maxTail+100 {
			t.Errorf("%s of %.40s: %.200q, %v; want %q", c.check, c.h.Output, finding, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := team.Accept(ctx, "deaf", handover(`""`)); err == nil {
		t.Error("a check that was given up has accepted")
	}
}

// A check's command is confined as the agent's own.
func TestAcceptConfined(t *testing.T) {
	team := checker(t, map[string]Check{"any": {Command: "true", Timeout: time.Minute}})
	team.Confine = func(agent string) func(*exec.Cmd) error {
		return func(*exec.Cmd) error { return fmt.Errorf("the sandbox of %s is not there", agent) }
	}
	if finding, err := team.Accept(t.Context(), "any", handover(`""`)); err != nil || finding != "it could not be examined: the sandbox of coder is not there" {
		t.Errorf("%q, %v", finding, err)
	}
}

// A task that is cancelled while its result is examined is over at once.
func TestCancelWhileExamined(t *testing.T) {
	t.Parallel()
	team := checker(t, nil)
	s := newScene(t, mailbox.Options{Accept: team.Accept})
	team.Policies.Home = s.box.Home()
	team.Checks = map[string]Check{"slow": {Command: "echo $$ >" + s.dir + "/pid; exec sleep 1000", Timeout: time.Hour}}
	id, err := s.box.Submit(t.Context(), &mailbox.Task{Task: mailbox.Request{Title: "x"}, Mbox: mailbox.Meta{Accept: []string{"slow"}}})
	if err != nil {
		t.Fatal(err)
	}
	s.run(s.worker("echo done"))
	pid := s.pid("pid")
	if err := s.another().Cancel(context.Background(), id, "human", "no longer needed"); err != nil {
		t.Fatal(err)
	}
	until(t, "dead", func() bool { return dead(pid) })
	s.wantFailed(id, "cancelled", "no longer needed")
	until(t, "forgotten", func() bool { return strings.Contains(s.log.String(), "its result was not examined") })
}
