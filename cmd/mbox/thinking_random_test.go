package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"mbox/agents"
	"mbox/agents/action"
	"mbox/agents/brain"
	"mbox/agents/brain/ollamatest"
	"mbox/agents/policy"
	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
)

// overheard is a brain whose replies are kept, by the number in the task's title.
type overheard struct {
	agents.Brain
	said map[string]said
}

type said struct {
	reply agents.Reply
	err   error
}

var numbered = regexp.MustCompile(`number-\d+`)

func (o *overheard) Think(ctx context.Context, t agents.Thought) (agents.Reply, error) {
	r, err := o.Brain.Think(ctx, t)
	o.said[numbered.FindString(t.Messages[1].Content)] = said{r, err}
	return r, err
}

// office is a home whose workers run inside the test.
type office struct {
	*mind
	config *config.File
	team   *agents.Team
	box    *mailbox.Box
}

// within opens the home as mbox does.
func (m *mind) within() *office {
	m.Helper()
	o := &office{mind: m}
	var err error
	if o.config, err = config.Load(m.home); err != nil {
		m.Fatal(err)
	}
	if o.team, err = assemble(o.config, m.home); err != nil {
		m.Fatal(err)
	}
	options := o.config.Options()
	options.Review, options.Approval, options.Unable = o.team.Review, o.team.Approval, o.team.Unable
	if o.box, err = mailbox.Open(m.Context(), m.home, options); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { o.box.Close() })
	return o
}

// send hands in a task that has to be thought about.
func (o *office) send(to, title string) mailbox.ID {
	o.Helper()
	id, err := o.box.Submit(o.Context(), &mailbox.Task{
		Task: mailbox.Request{Title: title}, Assignment: mailbox.Assignment{TargetAgent: to},
	})
	if err != nil {
		o.Fatal(err)
	}
	return id
}

// works lets an agent work until there is nothing to do for it.
func (o *office) works(agent string) {
	o.Helper()
	w := &agents.Worker{Box: o.box, Agent: agent, Team: o.team, Once: true, Log: zerolog.Nop()}
	if err := w.Run(o.Context()); err != nil {
		o.Fatal(err)
	}
}

// delivered counts the ledger's lines that tell of an action that was done.
func (o *office) delivered() map[mailbox.ID]int {
	o.Helper()
	counts := map[mailbox.ID]int{}
	r := o.box.Ledger().Read(audit.Position{})
	defer r.Close()
	for {
		line, err := r.Next()
		if err != nil {
			return counts
		}
		e, err := line.Decode()
		if err != nil {
			o.Fatal(err)
		}
		var d delegation.Details
		if e.Event == audit.DelegationEvent && e.Detail(&d) == nil && d.Decision == delegation.Delivered {
			counts[mailbox.ID(*e.TaskID)]++
		}
	}
}

// However wild a model is: a reply is a plan of actions that are all allowed, and
// is carried out; or nothing of it is, and the task's error names the reason.
func TestThinkingRandom(t *testing.T) {
	t.Parallel()
	server := ollamatest.Start(t)
	server.Create("random", ollamatest.Terse(0), "", map[string]any{"temperature": 1})
	config := "max_attempts = 1\n\n[runtime_profiles.default]\nmax_actions_per_hour = 10000\n[actions.write_file]\nextensions = [\"\", \".txt\"]\n[agents.deployer]\nenabled = true\n"
	config += "[agents.scout]\nrole = \"scout\"\n[roles.scout]\npurpose = \"Looks.\"\nactions = [\"file_check\"]\nmodel = \"random\"\nmax_tokens = 200\n"
	names := []string{"coordinator", "coder", "deployer", "tester"}
	for _, role := range names {
		config += model(role, "random") + "max_tokens = 150\n"
	}
	names = append(names, "scout") // one action, and room for it: some of its replies are done
	m := newMind(t, server, server.URL, config)
	m.patch("num_ctx = 8192", "num_ctx = 4096") // the model has no more
	if err := os.Mkdir(filepath.Join(m.home, "prompts"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, prompt := range []string{"agent.md", "coordinator.md"} { // it takes long to read, and understands nothing
		if err := os.WriteFile(filepath.Join(m.home, "prompts", prompt), []byte("You are {{.Agent}}."), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := m.within()
	heard := map[string]said{}
	for _, name := range names {
		member := o.team.Members[name]
		member.Brain = &overheard{member.Brain, heard}
		o.team.Members[name] = member
		o.works(name) // makes its folders
	}
	if err := os.WriteFile(filepath.Join(o.dir, "outside.txt"), []byte("not to be touched"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := o.untouchable()

	tasks := map[string]mailbox.ID{}
	for i := range sized(20, 100, 2000) {
		title := fmt.Sprintf("number-%d", i)
		tasks[title] = o.send(names[i%len(names)], title)
	}
	for _, name := range names {
		o.works(name)
	}
	kinds, delivered := map[string]int{}, o.delivered()
	wrote := map[string]bool{}
	for title, id := range tasks {
		kinds[o.outcome(id, heard[title], delivered[id], wrote)]++
	}
	t.Logf("%v, %d files written", kinds, len(wrote))
	for _, kind := range []string{"forbidden", "only an answer", "too long", "done"} {
		if kinds[kind] == 0 && !testing.Short() {
			t.Errorf("no reply was %s: the test shows little", kind)
		}
	}
	for path := range o.workspaces() {
		if !wrote[path] {
			t.Errorf("%q was written, and by no reply that may", path)
		}
	}
	if after := o.untouchable(); !maps.Equal(before, after) {
		t.Errorf("outside the workspaces something has changed:\n%v\n%v", before, after)
	}
	o.must("verify")
}

// outcome holds how a task ended against what its model said, and says which kind
// of end that is. The judgement is made here once more, from the action package
// and the policy alone.
func (o *office) outcome(id mailbox.ID, s said, delivered int, wrote map[string]bool) string {
	o.Helper()
	task, state, err := o.box.Task(o.Context(), id)
	if err != nil {
		o.Fatal(err)
	}
	code := ""
	if task.Result.Error != nil {
		code = task.Result.Error.Code
	}
	wants := func(kind string, state2 mailbox.State, codes ...string) string {
		if state != state2 || !slices.Contains(codes, code) {
			o.Errorf("%s is %s, %q, want %s, %q: %q %v", id, state, code, state2, codes, s.reply.Text, s.err)
		}
		if kind != "done" && kind != "not possible" && delivered != 0 {
			o.Errorf("%s: %d actions were done of a reply that is %s: %q", id, delivered, kind, s.reply.Text)
		}
		return kind
	}
	var fault *agents.BrainError
	switch {
	case errors.As(s.err, &fault) && fault.Fault == agents.ReplyTooLong:
		return wants("too long", mailbox.Failed, string(agents.ReplyTooLong))
	case errors.As(s.err, &fault):
		return wants("another fault", mailbox.Failed, string(fault.Fault))
	case s.err != nil || s.reply.Text == "":
		o.Errorf("%s: %q %v", id, s.reply.Text, s.err)
		return "no answer"
	}
	reply, err := action.ParseReply(s.reply.Text)
	if err != nil {
		return wants("no plan", mailbox.Failed, string(agents.ReplyNotJSON), string(agents.ReplyNotValid))
	}
	p, err := policy.ForAgent(o.team.Policies, task.Assignment.TargetAgent)
	if err != nil {
		o.Fatal(err)
	}
	for _, act := range reply.Actions {
		if act.Validate(o.team.Limits) != nil || act.Permit(p) != nil {
			return wants("forbidden", mailbox.Failed, string(agents.ReplyForbidden), string(agents.ReplyNotValid))
		}
	}
	for _, act := range reply.Actions {
		if w, ok := act.(*action.WriteFile); ok {
			wrote[filepath.Join(p.Workspace, w.Path)] = true
		}
	}
	switch {
	case len(reply.Actions) == 0:
		return wants("only an answer", mailbox.Completed, "")
	case code == "action_failed": // a file stands where a folder is to be
		return wants("not possible", mailbox.Failed, code)
	case delivered != len(reply.Actions):
		o.Errorf("%s: %d of %d actions were done: %q", id, delivered, len(reply.Actions), s.reply.Text)
	}
	return wants("done", mailbox.Completed, "")
}

// workspaces are the files in the agents' workspaces.
func (o *office) workspaces() map[string]bool {
	o.Helper()
	files := map[string]bool{}
	o.walk(o.home, func(path string) {
		if parts := strings.Split(path, string(filepath.Separator)); slices.Contains(parts, "workspace") {
			files[path] = true
		}
	})
	return files
}

// untouchable are the files that no action may touch, with their hashes: all but
// the workspaces, and what the mailbox itself writes.
func (o *office) untouchable() map[string]string {
	o.Helper()
	files := map[string]string{}
	o.walk(o.dir, func(path string) {
		rel, _ := filepath.Rel(o.home, path)
		parts := strings.Split(rel, string(filepath.Separator))
		if slices.Contains([]string{"tasks", "audit", ".mbox"}, parts[0]) || parts[0] == "agents" && slices.Contains([]string{"workspace", "logs"}, parts[2]) {
			return
		}
		data, err := os.ReadFile(path)
		if err != nil {
			o.Fatal(err)
		}
		files[path] = fmt.Sprintf("%x", sha256.Sum256(data))
	})
	if len(files) == 0 {
		o.Error("there is nothing that must not be touched")
	}
	return files
}

func (o *office) walk(dir string, visit func(path string)) {
	o.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			visit(path)
		}
		return err
	})
	if err != nil {
		o.Fatal(err)
	}
}

// A model that answers in prose, three times, is a task that has failed, with a
// reason that helps. The server is asked without a schema, as one is that knows
// none.
func TestThinkingNonsense(t *testing.T) {
	t.Parallel()
	server := ollamatest.Start(t)
	server.Script("tiny-talker", ollamatest.Line{Say: "Sure! Here is what I would do: first of all, I would think about it."})
	o := newMind(t, server, server.URL, model("coder", "tiny-talker")).within()
	talker, err := brain.NewOpenAI(brain.Options{URL: server.URL + "/v1", Model: "tiny-talker", FreeFormat: true})
	if err != nil {
		t.Fatal(err)
	}
	member := o.team.Members["coder"]
	heard := map[string]said{}
	member.Brain = &overheard{talker, heard}
	o.team.Members["coder"] = member
	id := o.send("coder", "number-1")
	o.await("it has failed", func() bool {
		o.works("coder")
		_, folder := o.task(string(id))
		return folder == "failed"
	})
	task, _ := o.task(string(id))
	if task.Result.Error.Code != string(agents.ReplyNotJSON) || task.Mbox.Attempt != 3 {
		t.Errorf("%+v", task)
	}
	for _, part := range []string{
		"tiny-talker", "the reply holds no JSON", "attempt 3 of 3", "A larger model may do better (model in [roles.coder] of mbox.toml)", "mbox.action",
	} {
		if !strings.Contains(task.Result.Error.Message, part) {
			t.Errorf("%q is not in %q", part, task.Result.Error.Message)
		}
	}
	if !strings.HasPrefix(heard["number-1"].reply.Text, "Sure!") {
		t.Errorf("%+v", heard)
	}
	o.must("verify")
}
