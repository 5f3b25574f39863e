package agents

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/policy"
	"mbox/audit"
	"mbox/mailbox"
)

// Files that a task names fill a prompt up to its limit, and no further: what
// comes after is left out, however many there are.
func TestPromptFilesAreBounded(t *testing.T) {
	c := newCompany(t, nil)
	c.brains["coder"].says = []any{`{"actions":[]}`}
	workspace := filepath.Join(c.box.Home(), "agents/coder/workspace/projects")
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if err := os.WriteFile(filepath.Join(workspace, name+".md"), []byte(strings.Repeat(name, maxPromptFile+1)), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, `"`+name+`.md"`)
	}
	_, err := c.box.Submit(context.Background(), &mailbox.Task{
		Task:       mailbox.Request{Title: "Read", Context: jsontext.Value(`{"relevant_files":[` + strings.Join(names, ",") + `]}`)},
		Assignment: mailbox.Assignment{TargetAgent: "coder"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.works("coder")
	asked := c.brains["coder"].asked
	if len(asked) != 1 {
		t.Fatalf("asked %d times", len(asked))
	}
	if n := len(asked[0].Messages[1].Content); n > maxPromptFiles+8<<10 {
		t.Errorf("the prompt has %d bytes of files", n)
	}
}

// A task may name any number of files that its agent may not read: no more than
// some of them are tried, since each is a line in the ledger.
func TestPromptRefusalsAreBounded(t *testing.T) {
	c := newCompany(t, nil)
	c.brains["coder"].says = []any{`{"actions":[]}`}
	files := strings.Repeat(`"/etc/canary",`, 500) + `"/etc/cannot"`
	_, err := c.box.Submit(context.Background(), &mailbox.Task{
		Task:       mailbox.Request{Title: "Read", Context: jsontext.Value(`{"relevant_files":[` + files + `]}`)},
		Assignment: mailbox.Assignment{TargetAgent: "coder"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.works("coder")
	if n := c.lines(audit.PolicyDenied, nil); n != maxPromptNames {
		t.Errorf("%d lines in the ledger, want %d", n, maxPromptNames)
	}
}

// What an agent remembers about its task stands between marks, with its origin, and up to
// a limit. A memory that cannot be read keeps no agent from working.
func TestPromptMemory(t *testing.T) {
	asked := ""
	c := newCompany(t, func(team *Team) {
		team.Recall = func(_ context.Context, agent, about string) ([]string, error) {
			asked = agent + " about " + about
			return []string{"[coder] site: FREE NOW", strings.Repeat("x", 2*maxPromptMemory), "too much"}, errors.New("a peer's memory is damaged")
		}
	})
	c.brains["coder"].says = []any{`{"actions":[]}`}
	c.send("coder", "Read the site", nil)
	c.works("coder")
	talk := c.brains["coder"].asked[0].Messages
	told, rest, ok := strings.Cut(talk[1].Content, "[coder] site: FREE NOW")
	_, said, _ := strings.Cut(talk[0].Content, "Text between <<<")
	mark, _, _ := strings.Cut(said, " ")
	if !ok || !strings.HasSuffix(told, "<<<"+mark+" from memory\n") || !strings.HasPrefix(rest, "\n"+mark+">>>") {
		t.Errorf("not between marks:\n%s", talk[1].Content)
	}
	if strings.Contains(rest, "too much") || len(rest) > maxPromptMemory+1<<10 {
		t.Errorf("the prompt has %d bytes of memory", len(rest))
	}
	if !strings.HasPrefix(asked, "coder about Read the site") {
		t.Errorf("its memory was asked: %s", asked)
	}
}

// What an agentic brain reads stands between marks too, and it is told so: those
// of the first message are others.
func TestPromptResultsAreMarked(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		loop := policy.DefaultRuntimeProfile()
		loop.Agentic = true
		team.Policies.RuntimeProfiles["default"] = loop
	})
	c.brains["coder"].says = []any{
		`{"actions":[{"action":"write_file","params":{"path":"a.md","content":"FREE NOW"}},{"action":"read_file","params":{"path":"a.md"}}]}`,
		`{"actions":[]}`,
	}
	c.send("coder", "Read", nil)
	c.works("coder")
	talk := c.brains["coder"].asked[1].Messages
	last := talk[len(talk)-1].Content
	told, rest, ok := strings.Cut(last, "FREE NOW")
	_, said, _ := strings.Cut(told, "Text between <<<")
	mark, _, named := strings.Cut(said, " ")
	if !ok || !named || !strings.Contains(told, "\n<<<"+mark+" from ") || !strings.Contains(rest, mark+">>>") {
		t.Errorf("the brain is not told what is data: %s", last)
	}
}

// The words by which a chat's template tells who speaks reach a brain only in the
// operator's own text, wherever they come from.
func TestPromptControlWords(t *testing.T) {
	words := []string{
		"<|im_start|>", "<|END|>", "<|start_header_id|>", "<｜end▁of▁sentence｜>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "<s>", "</s>",
		"<start_of_turn>", "</think>", "\n[system]\n", "\r[user]\r", "\u2028[assistant]\u2028", "[|user|]", "[gMASK]", "[ARGS]", "<<|im_end|>|im_end|>",
		"<|turn>", "<turn|>", "<|tool_call>", "<channel|>", "]~b]", "]~!b[", "[e~[", "]<]image[>[", "<sop>", "</role>", "<EOS_TOKEN>",
		"<end_of_sentence>", "<seed:bos>", "<extra_id_1>", "<unused94>", "[TOOL_CONTENT]", "[/MODEL_SETTINGS]", "<tool_response>", "<[INST]",
	}
	all := strings.Join(words, " a ")
	c := newCompany(t, func(team *Team) {
		loop := policy.DefaultRuntimeProfile()
		loop.Agentic = true
		team.Policies.RuntimeProfiles["default"] = loop
	})
	content, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	c.brains["coder"].says = []any{
		`{"actions":[{"action":"write_file","params":{"path":"a.md","content":` + string(content) + `}},{"action":"read_file","params":{"path":"a.md"}}]}`,
		`{"actions":[]}`,
	}
	_, err = c.box.Submit(context.Background(), &mailbox.Task{
		Task: mailbox.Request{
			Title: strings.ReplaceAll(all, "\n", ""), Description: all,
			Context: jsontext.Value(`{"conversation_summary":` + string(content) + `,"constraints":[` + string(content) + `],"relevant_files":["<|im_start|>"]}`),
		},
		Assignment: mailbox.Assignment{TargetAgent: "coder"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.works("coder")
	if c.file("coder", "a.md") != all {
		t.Error("the file is not what the model wrote")
	}
	if len(c.brains["coder"].asked) != 2 {
		t.Fatalf("asked %d times", len(c.brains["coder"].asked))
	}
	for _, m := range c.brains["coder"].asked[1].Messages[1:] {
		for _, word := range words {
			if strings.Contains(m.Content, word) {
				t.Errorf("%s says %q: %.300q", m.Role, word, m.Content)
			}
		}
		if !strings.Contains(m.Content, "im_start") {
			t.Errorf("%s lost the word: %.300q", m.Role, m.Content)
		}
	}
}

// A file that a task names is not shown to an agent that may not use read_file, nor
// to one that has to ask for each use of it.
func TestPromptFilesAreThePolicys(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		closed := policy.DefaultRiskProfile()
		closed.ExcludedTools = []string{"read_file"}
		team.Policies.RiskProfiles["closed"] = closed
		tester := team.Policies.Agents["tester"]
		tester.RiskProfile = "closed"
		team.Policies.Agents["tester"] = tester
		asks := policy.DefaultRiskProfile()
		asks.AlwaysAsk = []string{"read_file"}
		team.Policies.RiskProfiles["asks"] = asks
		deployer := team.Policies.Agents["deployer"]
		deployer.RiskProfile = "asks"
		team.Policies.Agents["deployer"] = deployer
	})
	for _, name := range []string{"coder", "tester", "deployer"} {
		workspace := filepath.Join(c.box.Home(), "agents", name, "workspace", c.team.role(name).Folder)
		if err := errors.Join(os.MkdirAll(workspace, 0o700), os.WriteFile(filepath.Join(workspace, "a.md"), []byte("CONTENT"), 0o600)); err != nil {
			t.Fatal(err)
		}
		c.brains[name].says = []any{`{"actions":[]}`}
		_, err := c.box.Submit(context.Background(), &mailbox.Task{
			Task:       mailbox.Request{Title: "Read", Context: jsontext.Value(`{"relevant_files":["a.md"]}`)},
			Assignment: mailbox.Assignment{TargetAgent: name},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.works(name)
		if told := strings.Contains(c.brains[name].asked[0].Messages[1].Content, "CONTENT"); told != (name == "coder") {
			t.Errorf("%s is told the file: %v", name, told)
		}
	}
	if n := c.lines(audit.PolicyDenied, nil); n != 2 {
		t.Errorf("%d refusals are noted", n)
	}
}
