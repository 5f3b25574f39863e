package action

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/policy"
	"mbox/schemas"
)

// parsed is an action that must parse.
func parsed(t *testing.T, name, params string) Action {
	t.Helper()
	a, err := Parse(name, jsontext.Value(params))
	if err != nil {
		t.Fatalf("%s %.100s: %v", name, params, err)
	}
	if a.Name() != name {
		t.Fatalf("%s became %s", name, a.Name())
	}
	return a
}

// workspace is an environment with an empty workspace.
func workspace(t testing.TB) (*Env, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "workspace")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := policy.ForAgent(policy.Config{
		Home: filepath.Dir(dir), Agents: map[string]policy.Agent{"coder": {Enabled: true, Workspace: policy.Workspace{Path: "workspace"}}},
	}, "coder")
	must(t, err)
	return &Env{Agent: "coder", Policy: p}, dir
}

// wantFault checks an error of parameters by its path, its code and a piece of
// its text.
func wantFault(t *testing.T, what string, err error, path, code, piece string) {
	t.Helper()
	var e *schemas.Error
	if !errors.As(err, &e) || e.Path != path || e.Code != code || !strings.Contains(e.Error(), piece) {
		t.Errorf("%.120s: %v (%#v), want %s: %s with %q", what, err, e, path, code, piece)
	}
}

func TestNames(t *testing.T) {
	want := []string{"delegate", "deploy_compose", "file_check", "http_check", "read_file", "write_file"}
	if got := Names(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, params, path, code string }{
		{"write_file", ``, "params", schemas.CodeMissingField},
		{"write_file", `null`, "params", schemas.CodeWrongType},
		{"write_file", `[]`, "params", schemas.CodeWrongType},
		{"write_file", `{}`, "params.path", schemas.CodeMissingField},
		{"write_file", `{"path":"a.txt"}`, "params.content", schemas.CodeMissingField},
		{"write_file", `{"path":"a.txt","content":1}`, "params.content", schemas.CodeWrongType},
		{"write_file", `{"path":"a.txt","content":null}`, "params.content", schemas.CodeWrongType},
		{"write_file", `{"path":"","content":""}`, "params.path", schemas.CodeBadValue},
		{"write_file", `{"path":"a.txt","content":"","mode":"0777"}`, "params.mode", schemas.CodeUnknownField},
		{"write_file", `{"path":"a.txt","content":"","Path":"b.txt"}`, "params.Path", schemas.CodeWrongCase},
		{"write_file", `{"path":"a.txt","path":"b.txt","content":""}`, "params.path", schemas.CodeDuplicateKey},
		{"write_file", `{"path":"a.txt","content":"\ud800"}`, "params.content", schemas.CodeInvalidUTF8},
		{"write_file", `{"path":"` + strings.Repeat("a", 197) + `.txt","content":""}`, "params.path", schemas.CodeTooLong},
		{"read_file", `{}`, "params.path", schemas.CodeMissingField},
		{"file_check", `{"path":["a"]}`, "params.path", schemas.CodeWrongType},
		{"http_check", `{"url":"` + strings.Repeat("a", 2001) + `"}`, "params.url", schemas.CodeTooLong},
		{"http_check", `{"url":"http://a.example","method":"POST"}`, "params.method", schemas.CodeUnknownField},
		{"deploy_compose", `{"compose":"` + strings.Repeat("a", 20001) + `"}`, "params.compose", schemas.CodeTooLong},
	} {
		_, err := Parse(c.name, jsontext.Value(c.params))
		wantFault(t, c.name+" "+c.params, err, c.path, c.code, "")
	}
}

func TestParseUnknown(t *testing.T) {
	for name, near := range map[string]string{"writefile": "write_file", "write_fil": "write_file", "Delegate": "delegate", "shell": "", "": "", "http": "http_check"} {
		_, err := Parse(name, jsontext.Value(`{}`))
		var u *Unknown
		if !errors.As(err, &u) || u.Near != near || u.Path != "action" || u.Name != name {
			t.Errorf("%q: %v", name, err)
		}
		if !strings.Contains(err.Error(), near) || near == "" && !strings.Contains(err.Error(), "one of delegate, ") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// What a policy excludes as a tool no action gets past.
func TestPermitAsksForTool(t *testing.T) {
	for name, params := range map[string]string{
		"write_file": `{"path":"a.txt","content":""}`, "read_file": `{"path":"a"}`, "file_check": `{"path":"a"}`,
		"http_check": `{"url":"http://a.example"}`, "deploy_compose": `{"compose":"services: {a: {image: b}}"}`,
		"delegate": `{"role":"coder","title":"x"}`,
	} {
		env, _ := workspace(t)
		env.Policy.Delegates = []string{"coder"}
		a := parsed(t, name, params)
		if err := a.Permit(env.Policy); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		env.Policy.ExcludedTools = []string{name}
		if d := refusal(a.Permit(env.Policy)); d == nil {
			t.Errorf("%s is permitted although it is excluded", name)
		}
	}
}
