package agents

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mbox/audit"
	"mbox/mailbox"
)

// What the coder writes lies in projects/ of its workspace, by whatever name it is
// asked for: its own paths begin there, and so do those by which others name its
// files. All of the workspace can still be written, and the write roots hold.
func TestFolderOfARole(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		tester := team.Policies.Agents["tester"]
		tester.Workspace.Access = map[string]string{"coder": "read"}
		team.Policies.Agents["tester"] = tester
	})
	for _, w := range []struct {
		path, lies string
		roots      []string
	}{
		{"a.md", "projects/a.md", nil},
		{"site/a.md", "projects/site/a.md", nil},
		{"projects/b.md", "projects/b.md", nil},
		{"projects2/b.md", "projects/projects2/b.md", nil},
		{"./c.md", "c.md", nil},
		{"./docs/c.md", "docs/c.md", nil},
		{"inputs/task.1/d.md", "inputs/task.1/d.md", nil},
		{"a.md", "projects/a.md", []string{"e2e", "projects"}},
		{"e2e/a.md", "e2e/a.md", []string{"e2e", "projects"}},
		{"a.md", "", []string{"e2e"}},
		{"projects/a.md", "", []string{"e2e"}},
		{"other.md", "other.md", []string{"."}},
		{"../a.md", "", nil},
		{"tester:a.md", "", nil},
	} {
		c.team.Limits.WriteRoots = w.roots
		c.writes(w.path, w.lies)
	}
	c.team.Limits.WriteRoots = []string{"projects"}
	for params, may := range map[string]bool{`{"path":"a.md","content":"x"}`: true, `{"path":"./a.md","content":"x"}`: false} {
		asked := c.send("coordinator", "x", act("delegate", `{"role":"coder","task":"write_file","payload":`+params+`}`))
		c.works("coordinator", "coder", "coordinator")
		if _, state := c.task(asked); (state == mailbox.Completed) != may {
			t.Errorf("handed on with the root projects, %s is %s", params, state)
		}
	}
	c.team.Limits.WriteRoots = nil
	q := request{from: "human", to: "coder", name: "write_file", params: []byte(`{"path":"a/../b.md","content":"x"}`)}
	if _, refused := c.team.judge(q); refused == nil || !strings.Contains(refused.Error(), `params.path: "a/../b.md" goes up`) {
		t.Errorf("what is refused is another path than what was written: %v", refused)
	}
	if got := c.team.fromWorkspace("tester", "coder:projects"); got != "coder:projects" {
		t.Errorf("the folder itself is %s", got)
	}
	c.team.Policies.Former, c.team.Policies.Dead = map[string]string{"ada": "coder", "eve": "tester"}, func(name string) bool { return name == "grace" }
	for _, w := range [][2]string{{"ada:a.md", "ada:projects/a.md"}, {"eve:a.md", "eve:a.md"}, {"grace:a.md", "grace:a.md"}} {
		if got := c.team.fromWorkspace("coder", w[0]); got != w[1] {
			t.Errorf("%s is %s, want %s", w[0], got, w[1])
		}
	}
	for agent, paths := range map[string][]string{"coder": {"read_file", "a.md", "./projects/a.md", "./c.md"}, "tester": {"file_check", "coder:a.md", "coder:projects/a.md", "coder:./c.md"}} {
		for _, path := range paths[1:] {
			id := c.send(agent, "x", act(paths[0], `{"path":"`+path+`"}`))
			c.works(agent)
			if task, _ := c.task(id); !strings.Contains(string(task.Result.Output), `"size"`) {
				t.Errorf("%s for %s: %s %+v", path, agent, task.Result.Output, task.Result.Error)
			}
		}
	}
}

// writes has the coder write a file, which then lies there in its workspace, and
// nowhere else; "" for a path that is refused.
func (c *company) writes(path, lies string) {
	c.Helper()
	workspace := filepath.Join(c.box.AgentDir("coder"), "workspace")
	task := &mailbox.Task{Assignment: mailbox.Assignment{TargetAgent: "coder"}, Mbox: mailbox.Meta{Action: act("write_file", `{"path":"`+path+`","content":"x"}`)}}
	task.Task.Title = "x"
	id, err := c.box.Submit(context.Background(), task)
	if lies == "" {
		if err == nil {
			c.Errorf("%s with the roots %q is accepted", path, c.team.Limits.WriteRoots)
		}
		return
	}
	if err != nil {
		c.Fatalf("%s: %v", path, err)
	}
	if err := os.RemoveAll(filepath.Join(workspace, lies)); err != nil {
		c.Fatal(err)
	}
	c.works("coder")
	done, _ := c.task(id)
	if data, err := os.ReadFile(filepath.Join(workspace, lies)); err != nil || string(data) != "x" {
		c.Errorf("%s with the roots %q: %v; %s %+v", path, c.team.Limits.WriteRoots, err, done.Result.Output, done.Result.Error)
	}
	if !strings.Contains(string(done.Result.Output), lies+`"`) {
		c.Errorf("of %s the result says %s", path, done.Result.Output)
	}
}

// A role without a folder, and one with another.
func TestFolderIsTheRoles(t *testing.T) {
	c := newCompany(t, nil)
	for folder, lies := range map[string]string{"": "a.md", "deep/down": "deep/down/a.md"} {
		coder := c.team.Roles["coder"]
		coder.Folder = folder
		c.team.Roles["coder"] = coder
		c.writes("a.md", lies)
	}
	if n := c.lines(audit.PolicyDenied, nil); n != 0 {
		t.Errorf("%d refusals", n)
	}
}
