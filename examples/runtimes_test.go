package examples

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// standIn puts a script in the place of a program, and the user's home into a folder
// of the test's.
func standIn(t *testing.T, name, script string) *house {
	t.Helper()
	bin, user := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return newHouse(t, "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+user)
}

// adds puts the lines of an example behind mbox.toml.
func (h *house) adds(name string, change ...string) {
	h.Helper()
	lines, err := os.ReadFile(example(name))
	if err != nil {
		h.Fatal(err)
	}
	path := filepath.Join(h.home, "mbox.toml")
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(data, strings.NewReplacer(change...).Replace(string(lines))...), 0o600)
	}
	if err != nil {
		h.Fatal(err)
	}
}

// shown is what mbox show tells of a task.
func (h *house) shown(id string) (task struct {
	Result struct {
		Status string
		Output json.RawMessage
	}
	Mbox struct {
		NotBefore string `json:"not_before"`
	}
},
) {
	h.Helper()
	if err := json.Unmarshal([]byte(h.mbox("show", id, "--json")), &task); err != nil {
		h.Fatal(err)
	}
	return task
}

// Claude Code stands for itself: it asks its hook before it uses a tool.
const claude = `
settings=
while [ $# -gt 0 ]; do [ "$1" = --settings ] && settings=$2; shift; done
grep -q 'Push it' || exit 9
hook=$(jq -r '.hooks.PreToolUse[0].hooks[0].command' "$settings")
decision=$(echo '{"tool_name":"Bash","tool_input":{"command":"git push"},"cwd":"/one","session_id":"s"}' | sh -c "$hook" |
  jq -r .hookSpecificOutput.permissionDecision)
echo '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash"}]}}'
printf '{"type":"result","subtype":"success","is_error":false,"result":"push: %s"}\n' "$decision"
`

// What the hook is asked about, a person has to approve; then the task goes on.
func TestClaudeCode(t *testing.T) {
	t.Parallel()
	h := standIn(t, "claude", claude)
	h.run("sh", "-c", "cp -r '"+example("claude-code")+"' ~/claude-code; sed -i.orig 's/delay 30s/delay 1s/' ~/claude-code/agent.sh")
	h.adds("claude-code/mbox.toml")
	h.mbox("send", "Push it", "--to", "claude", "--id", "push")
	h.mbox("worker", "--agent", "claude", "--once")
	task := h.shown("push")
	if task.Result.Status == "completed" || task.Mbox.NotBefore == "" {
		t.Fatalf("it has not waited: %+v", task)
	}
	question := strings.TrimSpace(h.run("sh", "-c", "mbox ls --state pending --json | jq -r .id | grep ^may-"))
	h.mbox("worker", "--agent", "claude", "--once") // nobody has answered
	if h.shown(question).Result.Status == "completed" {
		t.Fatal("it was taken without an approval")
	}
	h.mbox("approve", question)
	h.mbox("worker", "--agent", "claude", "--once")
	if got := string(h.shown(question).Result.Output); !strings.Contains(got, "true") {
		t.Fatalf("the question is answered with %s", got)
	}
	h.until("the task is taken up again", func() bool {
		h.mbox("worker", "--agent", "claude", "--once")
		return h.shown("push").Result.Status == "completed"
	})
	if got := string(h.shown("push").Result.Output); got != `"push: allow"` {
		t.Errorf("the result is %s", got)
	}
}

// A call in another folder is another call, and without a hash none is let through.
func TestClaudeCodeHook(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "HOME="+t.TempDir())
	h.run("sh", "-c", "cp -r '"+example("claude-code")+"' ~/claude-code")
	h.adds("claude-code/mbox.toml")
	hook, err := filepath.Abs(example("claude-code/hook.sh"))
	if err != nil {
		t.Fatal(err)
	}
	call := func(folder string) string {
		return `echo '{"tool_name":"Bash","tool_input":{"command":"rm -rf x"},"cwd":"` + folder + `"}' | MBOX_TASK_ID=t MBOX_AGENT=claude sh '` + hook + `'`
	}
	questions := func() []string {
		return strings.Fields(h.run("sh", "-c", "mbox ls --json | jq -r .id"))
	}
	h.run("sh", "-c", call("/one"))
	first := questions()
	h.run("sh", "-c", "mbox approve "+first[0])
	h.mbox("worker", "--agent", "claude", "--once")
	if got := h.run("sh", "-c", call("/one")); !strings.Contains(got, `"allow"`) {
		t.Errorf("the approved call: %s", got)
	}
	if got := h.run("sh", "-c", call("/two")); strings.Contains(got, `"allow"`) || len(questions()) != 2 {
		t.Errorf("the same in another folder: %s", got)
	}
	broken := t.TempDir()
	for _, name := range []string{"sha256sum", "shasum"} {
		if err := os.WriteFile(filepath.Join(broken, name), []byte("#!/bin/sh\nexit 127\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.run("sh", "-c", "PATH='"+broken+"':$PATH; "+call("/three")+" 2>&1; echo $?"); !strings.Contains(got, "shasum works here") || !strings.HasSuffix(strings.TrimSpace(got), "2") || len(questions()) != 2 {
		t.Errorf("without a hash: %s", got)
	}
}

// The entry for MCP clients starts a server that answers.
func TestClaudeCodeMCP(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var entry struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	data, err := os.ReadFile(example("claude-code/mcp.json"))
	if err == nil {
		err = json.Unmarshal(data, &entry)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := h.command(entry.Servers["mbox"].Command, entry.Servers["mbox"].Args...)
	c.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n")
	out, err := c.Output()
	if err != nil || !strings.Contains(string(out), `"serverInfo"`) {
		t.Errorf("%v: %s", err, out)
	}
}

func TestCodex(t *testing.T) {
	t.Parallel()
	h := standIn(t, "codex", `
[ "$1 $2" = "exec --json" ] && grep -q 'Tidy up' || exit 9
echo '{"type":"thread.started","thread_id":"t"}'
echo '{"type":"item.completed","item":{"type":"agent_message","text":"All tidy."}}'
echo '{"type":"turn.completed","usage":{}}'
`)
	h.adds("codex/mbox.toml")
	h.mbox("send", "Tidy up", "--to", "codex", "--id", "tidy")
	h.mbox("worker", "--agent", "codex", "--once")
	if got := string(h.shown("tidy").Result.Output); got != `"All tidy."` {
		t.Errorf("the result is %s", got)
	}
}

func TestGemini(t *testing.T) {
	t.Parallel()
	h := standIn(t, "gemini", `
task=$(cat)
case "$task" in
*'Too long'*) exit 53 ;;
*'No quota'*) echo 'You have exhausted your capacity. Your quota will reset after 3h12m5s.' >&2; exit 1 ;;
esac
echo '{"type":"message","role":"assistant","content":"All ","delta":true}'
echo '{"type":"message","role":"assistant","content":"tidy.","delta":true}'
echo '{"type":"result","status":"success"}'
`)
	h.adds("gemini/mbox.toml")
	h.mbox("send", "Tidy up", "--to", "gemini", "--id", "tidy")
	h.mbox("send", "Too long", "--to", "gemini", "--id", "long")
	h.mbox("worker", "--agent", "gemini", "--once")
	h.mbox("send", "No quota", "--to", "gemini", "--id", "quota")
	h.mbox("worker", "--agent", "gemini", "--once")
	if got := string(h.shown("tidy").Result.Output); got != `"All tidy."` {
		t.Errorf("the result is %s", got)
	}
	for id, reason := range map[string]string{"long": "exit 53", "quota": "the quota of gemini is used up for 3h12m"} {
		if got := h.mbox("show", id); h.shown(id).Mbox.NotBefore == "" || !strings.Contains(got, reason) {
			t.Errorf("%s: %s", id, got)
		}
	}
}

func TestAgentZero(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-API-KEY") == "0123456789abcdef" && strings.HasPrefix(r.URL.Path, "/api/") {
			_, _ = w.Write([]byte(`{"context_id":"c","response":"All tidy."}`))
		}
	}))
	defer server.Close()
	h := newHouse(t)
	if err := os.WriteFile(filepath.Join(h.home, "agentzero.key"), []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.adds("agentzero/mbox.toml", "http://127.0.0.1:5000", server.URL)
	h.mbox("send", "Tidy up", "--to", "zero", "--id", "tidy")
	h.mbox("worker", "--agent", "zero", "--once")
	if got := string(h.shown("tidy").Result.Output); got != `"All tidy."` {
		t.Errorf("the result is %s", got)
	}
	h.run("sh", "-c", "rm '"+filepath.Join(h.home, "agentzero.key")+"'")
}

// What the skill tells OpenClaw to run leaves one task, however often, and finds it.
func TestOpenClawSkill(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "TITLE=Tidy up", "TEXT=All of it", "AGENT=coder", "FROM=openclaw", "SESSION=agent:main:imessage:direct:+49123", "USER=+49123", "MESSAGE=m1")
	text, script := openClawSkill(t)
	first, second := h.run("sh", "-ec", script), h.run("sh", "-ec", script)
	if first != second || !strings.Contains(first, `"status"`) {
		t.Errorf("it prints %s, and then %s", first, second)
	}
	id, _, _ := strings.Cut(first, "\n")
	got := h.mbox("show", id, "--json")
	for _, want := range []string{`"openclaw"`, `"agent:main:imessage:direct:+49123"`, `"+49123"`, `"All of it"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the task lacks %s: %s", want, got)
		}
	}
	head := bufio.NewScanner(strings.NewReader(text))
	if head.Scan(); head.Text() != "---" {
		t.Error("the skill has no front matter")
	}
}

// openClawSkill is the skill, and the commands in it.
func openClawSkill(t *testing.T) (text, script string) {
	t.Helper()
	page, err := os.ReadFile(example("openclaw-skill/SKILL.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(page, -1) {
		script += string(block[1])
	}
	return string(page), script
}

// The result of what OpenClaw leaves for a bridge goes back by its command line, once,
// and of what it answers itself mbox says nothing.
func TestOpenClawBridge(t *testing.T) {
	t.Parallel()
	h := standIn(t, "openclaw", `for a; do printf '%s|' "$a"; done >>"$HOME/sent"; echo >>"$HOME/sent"`)
	claw := strings.TrimSpace(h.run("sh", "-c", "command -v openclaw"))
	table := "\n[bridges.claw]\nkind = \"openclaw\"\ncommand = [\"" + claw + "\"]\nallow = [\"imessage:+49123\"]\n"
	h.run("sh", "-c", "cat >>'"+filepath.Join(h.home, "mbox.toml")+"' <<'END'"+table+"END")
	_, script := openClawSkill(t)
	for _, from := range []string{"bridge:claw", "openclaw"} {
		set := "TITLE='Tidy up' TEXT=All AGENT=coder SESSION=agent:main:imessage:direct:+49123 USER=+49123 MESSAGE=" + from + " FROM=" + from + "\n"
		id, _, _ := strings.Cut(h.run("sh", "-ec", set+script), "\n")
		h.run("sh", "-ec", "MBOX_TOKEN=$(mbox claim --agent coder | jq -r .mbox.lease.token) mbox complete "+id+" --output 'done for "+from+"'")
	}
	for _, want := range []string{"claw: 1 sent, 0 left, 0 given up\n", "claw: 0 sent, 0 left, 0 given up\n"} {
		if got := h.mbox("deliver"); got != want {
			t.Errorf("mbox deliver tells %q, not %q", got, want)
		}
	}
	if got := h.run("sh", "-c", `cat "$HOME/sent"`); got != "message|send|--channel=imessage|--target=+49123|--message=done for bridge:claw|\n" {
		t.Errorf("OpenClaw is called with %q", got)
	}
}

// The page for coding agents comes with a home, and names verbs that there are.
func TestAgentsPage(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	text, err := os.ReadFile(filepath.Join(h.home, "AGENTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`mbox ([a-z]+)").FindAllStringSubmatch(string(text), -1) {
		h.mbox("help", m[1])
	}
}
