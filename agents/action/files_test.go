package action

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"mbox/agents/policy"
	"mbox/schemas"
)

func TestWriteFileValidate(t *testing.T) {
	for _, c := range []struct{ path, content, at, piece string }{
		{"a.txt", "x", "", ""},
		{"a/b/c.md", "", "", ""},
		{"./a.txt", "x", "", ""},
		{"a.TXT", "x", "", ""},
		{"a.b.json", "{}", "", ""},
		{"ü.yaml", "x", "", ""},
		{"a..b.txt", "x", "", ""},
		{strings.Repeat("ä", 196) + ".txt", "x", "", ""},
		{"a.txt", strings.Repeat("x", 100000), "", ""},
		{"a.txt", "text\n#!/bin/sh", "", ""},
		{"a.txt", "#", "", ""},
		{"a.txt", "x\x7fELF", "", ""},
		{"a.yml", "x", "", ""},
		{"a.cfg", "x", "", ""},
		{"a.conf", "x", "", ""},
		{"a.ini", "x", "", ""},
		{"a.log", "x", "", ""},
		{"", "x", "path", "is missing"},
		{"/a.txt", "x", "path", "not relative"},
		{"//a.txt", "x", "path", "not relative"},
		{"../a.txt", "x", "path", "goes up"},
		{"a/../b.txt", "x", "path", "goes up"},
		{"a/..", "x", "path", "goes up"},
		{"..", "x", "path", "goes up"},
		{"a\\..\\b.txt", "x", "path", "backslash"},
		{"a\x00.txt", "x", "path", "control"},
		{"a\n.txt", "x", "path", "control"},
		{"a\x7f.txt", "x", "path", "control"},
		{strings.Repeat("ä", 197) + ".txt", "x", "path", "201 characters"},
		{"a", "x", "path", "no extension"},
		{"a.d/b", "x", "path", "no extension"},
		{".txt", "x", "path", "no extension"},
		{"a/.log", "x", "path", "no extension"},
		{"a.", "x", "path", "extension"},
		{".", "x", "path", "extension"},
		{"a.txt/", "x", "path", "folder"},
		{"a.txt/.", "x", "", ""},
		{"a.py", "x", "path", `".py" is not allowed`},
		{"a.txt.sh", "x", "path", `".sh" is not allowed`},
		{"a.txt ", "x", "path", "not allowed"},
		{"a.toml", "x", "path", "not allowed"},
		{"...txt", "x", "path", "run or obey"},
		{".vscode/tasks.json", "x", "path", "run or obey"},
		{"a/.github/workflows/ci.yml", "x", "path", "run or obey"},
		{"./.claude/settings.json", "x", "path", "run or obey"},
		{"coder:.vscode/a.json", "x", "path", "run or obey"},
		{"coder:package.json", "x", "path", "run or obey"},
		{"a/package.json", "x", "path", "run or obey"},
		{"Package.JSON", "x", "path", "run or obey"},
		{"package.json/.", "x", "path", "run or obey"},
		{".pre-commit-config.yaml", "x", "path", "run or obey"},
		{"CLAUDE.md", "x", "path", "run or obey"},
		{"docker-compose.yml", "x", "path", "run or obey"},
		{"packages.json", "x", "", ""},
		{"cdk.json", "x", "path", "run or obey"},
		{"AGENTS.override.md", "x", "path", "run or obey"},
		{"infra/main.TF.json", "x", "path", "run or obey"},
		{"tf.json", "x", "", ""},
		{"podman-compose.yml", "x", "path", "run or obey"},
		{"podman-compose.override.yaml", "x", "path", "run or obey"},
		{"a/container-compose.yaml", "x", "path", "run or obey"},
		{"Container-Compose.Override.yml", "x", "path", "run or obey"},
		{"a-container-compose.yaml", "x", "", ""},
		{"wp-cli.yml", "x", "path", "run or obey"},
		{"wp-cli.local.yml", "x", "path", "run or obey"},
		{"jupyter_config.json", "x", "path", "run or obey"},
		{"jupyter_notebook_config.json", "x", "path", "run or obey"},
		{"Jupyter_Server_Config.JSON", "x", "path", "run or obey"},
		{"jupyter_notes.json", "x", "", ""},
		{"my_jupyter_config.json", "x", "", ""},
		{"helmfile.yaml", "x", "path", "run or obey"},
		{"helmfile.yml", "x", "path", "run or obey"},
		{"a.txt", strings.Repeat("x", 100001), "content", "100001 bytes"},
		{"a.txt", strings.Repeat("é", 50001), "content", "100002 bytes"},
		{"a.txt", "a\x00b", "content", "NUL"},
		{"a.txt", "a\xffb", "content", "UTF-8"},
		{"a.txt", "#!/bin/sh\n", "content", "script"},
		{"a.txt", "\ufeff#!/bin/sh\n", "content", "script"},
		{"a.txt", "\x7fELF\x02", "content", "program"},
	} {
		err := (&WriteFile{Path: c.path, Content: c.content}).Validate(Limits{})
		if c.at == "" {
			if err != nil {
				t.Errorf("%.60q: %v", c.path, err)
			}
			continue
		}
		var e *schemas.Error
		if !errors.As(err, &e) || e.Path != "params."+c.at || !strings.Contains(err.Error(), c.piece) {
			t.Errorf("%.60q: %v, want %s with %q", c.path, err, c.at, c.piece)
		}
	}
}

func TestWriteFileLimits(t *testing.T) {
	for _, c := range []struct {
		l    Limits
		path string
		good bool
	}{
		{Limits{Extensions: []string{".py"}}, "a.py", true},
		{Limits{Extensions: []string{".py"}}, "a.txt", false},
		{Limits{Extensions: []string{".py"}}, "conftest.py", false},
		{Limits{Extensions: []string{".py"}}, "jupyter_lab_config.py", false},
		{Limits{Autorun: true}, ".github/workflows/ci.yml", true},
		{Limits{Autorun: true}, "package.json", true},
		{Limits{}, "\u017fetup.cfg", false},
		{Limits{}, "container-compo\u017fe.yml", false},
		{Limits{}, "pack\u200cage.json", false},
		{Limits{}, "pack\ufe0fage.json", false},
		{Limits{}, "pack\u115fage.json", false},
		{Limits{}, "a/\u200d.vscode/a.json", false},
		{Limits{}, "nodemon.json", false},
		{Limits{Extensions: []string{}}, "a.txt", false},
		{Limits{MaxBytes: 3}, "a.txt", true},
		{Limits{MaxBytes: 2}, "a.txt", false},
		{Limits{WriteRoots: []string{"e2e", "workspace/projects"}}, "e2e/a.txt", true},
		{Limits{WriteRoots: []string{"e2e", "workspace/projects"}}, "./e2e/a.txt", true},
		{Limits{WriteRoots: []string{"e2e", "workspace/projects/"}}, "workspace/projects/x/a.txt", true},
		{Limits{WriteRoots: []string{"e2e", "workspace/projects"}}, "workspace/a.txt", false},
		{Limits{WriteRoots: []string{"e2e", "workspace/projects"}}, "workspace/projects2/a.txt", false},
		{Limits{WriteRoots: []string{"e2e"}}, "e2e.txt", false},
		{Limits{WriteRoots: []string{"e2e"}}, "a.txt", false},
		{Limits{WriteRoots: []string{"."}}, "a.txt", true},
	} {
		if err := (&WriteFile{Path: c.path, Content: "abc"}).Validate(c.l); (err == nil) != c.good {
			t.Errorf("%+v, %s: %v", c.l, c.path, err)
		}
	}
}

// do carries an action out in the order of every caller.
func do(t *testing.T, env *Env, name, params string) (Result, error) {
	t.Helper()
	a := parsed(t, name, params)
	if err := a.Validate(env.Limits); err != nil {
		return Result{}, err
	}
	if err := a.Permit(env.Policy); err != nil {
		return Result{}, err
	}
	return a.Do(t.Context(), env)
}

func TestWriteFile(t *testing.T) {
	env, dir := workspace(t)
	for _, text := range []string{"first\n", "second, longer\n", ""} {
		result, err := do(t, env, "write_file", fmt.Sprintf(`{"path":"a/b/c.txt","content":%q}`, text))
		if err != nil || result.Action != "write_file" || result.Status != "written" || result.Path != "a/b/c.txt" || result.Error != "" {
			t.Fatalf("%+v, %v", result, err)
		}
		want := fmt.Sprintf("{\n  \"size\": %d,\n  \"sha256\": \"sha256:%x\"\n}\n", len(text), sha256.Sum256([]byte(text)))
		if string(result.Output) != want {
			t.Errorf("%s, want %s", result.Output, want)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "a/b/c.txt")); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	for path, mode := range map[string]os.FileMode{"a": 0o700, "a/b": 0o700, "a/b/c.txt": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "a/b")); err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v", entries, err)
	}
}

// No symlink leads out of the workspace, and nothing is replaced that is no file.
func TestWriteFileThroughNothing(t *testing.T) {
	env, dir := workspace(t)
	outside := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	must(t, os.Mkdir(filepath.Join(dir, "folder.txt"), 0o700))
	must(t, os.WriteFile(filepath.Join(outside, "mine.txt"), []byte("mine"), 0o600))
	must(t, os.Symlink(outside, filepath.Join(dir, "out")))
	must(t, os.Symlink("real", filepath.Join(dir, "in")))
	must(t, os.Symlink(filepath.Join(outside, "mine.txt"), filepath.Join(dir, "mine.txt")))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo.txt"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for path, rule := range map[string]string{
		"out/a.txt": "path_", "out/sub/a.txt": "path_",
		"mine.txt": "path_", "folder.txt": "path_not_regular", "fifo.txt": "path_not_regular", "file/a.txt": "",
	} {
		result, err := do(t, env, "write_file", `{"path":"`+path+`","content":"x"}`)
		d := refusal(err)
		if err == nil || rule != "" && (d == nil || !strings.HasPrefix(d.Rule, rule)) {
			t.Errorf("%s: %+v, %v", path, result, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(outside, "mine.txt")); err != nil || string(got) != "mine" {
		t.Errorf("%q, %v", got, err)
	}
	for _, of := range []string{outside, filepath.Join(dir, "real")} {
		if entries, err := os.ReadDir(of); err != nil || len(entries) > 1 {
			t.Errorf("%s holds %v, %v", of, entries, err)
		}
	}
}

// outsider is a file outside of the workspace.
func outsider(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "canary")
	must(t, os.WriteFile(path, []byte("nobody's business"), 0o600))
	return path
}

// What the policy does not allow is refused by Permit and by Do alike.
func TestFilesAskPolicy(t *testing.T) {
	env, _ := workspace(t)
	canary := outsider(t)
	for _, name := range []string{"read_file", "file_check"} {
		a := parsed(t, name, fmt.Sprintf(`{"path":%q}`, canary))
		if d := refusal(a.Permit(env.Policy)); d == nil {
			t.Errorf("%s is permitted", name)
		}
		if _, err := a.Do(t.Context(), env); refusal(err) == nil {
			t.Errorf("%s is done: %v", name, err)
		}
	}
	w := &WriteFile{Path: filepath.Join(filepath.Dir(canary), "a.txt")}
	if refusal(w.Permit(env.Policy)) == nil {
		t.Error("write_file is permitted")
	}
	if _, err := w.Do(t.Context(), env); refusal(err) == nil {
		t.Errorf("write_file is done: %v", err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReadFile(t *testing.T) {
	env, dir := workspace(t)
	outside := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	for name, text := range map[string]string{
		"a.txt": "line\né\n", "empty": "", "sub/b": "b", "full": strings.Repeat("x", 100000),
		"over": strings.Repeat("x", 100001), "binary": "a\xff", "nul": "a\x00",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	must(t, os.Symlink("a.txt", filepath.Join(dir, "link")))
	must(t, os.Symlink(outside, filepath.Join(dir, "out")))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	for _, c := range []struct{ path, status, content, refused string }{
		{"a.txt", "read", "line\né\n", ""},
		{"empty", "read", "", ""},
		{"sub/b", "read", "b", ""},
		{"./sub//b", "read", "b", ""},
		{filepath.Join(dir, "a.txt"), "", "", "is not relative"},
		{"full", "read", strings.Repeat("x", 100000), ""},
		{"none", "missing", "", ""},
		{"none/at/all", "missing", "", ""},
		{"a.txt/b", "missing", "", ""},
		{"over", "", "", "more than 100000 bytes"},
		{"binary", "", "", "is no text"},
		{"nul", "", "", "is no text"},
		{"link", "read", "line\né\n", ""},
		{"out/secret", "", "", "it lies "},
		{"fifo", "", "", "it is a fifo"},
		{"sub", "", "", "it is a folder"},
		{".", "", "", "it is a folder"},
		{"../workspace/a.txt", "", "", "goes up"},
	} {
		result, err := do(t, env, "read_file", fmt.Sprintf(`{"path":%q}`, c.path))
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %+v, %v", c.path, result, err)
			}
			continue
		}
		var got struct {
			Size    int
			Content string
		}
		if len(result.Output) > 0 {
			must(t, json.Unmarshal(result.Output, &got, json.MatchCaseInsensitiveNames(true)))
		}
		if err != nil || result.Status != c.status || result.Path != c.path || got.Content != c.content || got.Size != len(c.content) {
			t.Errorf("%s: %.200v, %v", c.path, result, err)
		}
	}
}

func TestFileCheck(t *testing.T) {
	env, dir := workspace(t)
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "a.bin"), []byte("a\xff\x00"), 0o600))
	must(t, os.Symlink(outsider(t), filepath.Join(dir, "link")))
	must(t, os.Symlink("sub", filepath.Join(dir, "inner")))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	file := fmt.Sprintf(`{"kind":"file","size":3,"sha256":"sha256:%x"}`, sha256.Sum256([]byte("a\xff\x00")))
	for _, c := range []struct{ path, status, output, refused string }{
		{"a.bin", "exists", file, ""},
		{"sub", "exists", `{"kind":"folder"}`, ""},
		{".", "exists", `{"kind":"folder"}`, ""},
		{"link", "", "", "it lies "},
		{"fifo", "exists", `{"kind":"fifo"}`, ""},
		{"none", "missing", "", ""},
		{"sub/none/x", "missing", "", ""},
		{"inner/x", "missing", "", ""},
		{"sub/../a.bin", "", "", "goes up"},
		{strings.Repeat("a", 200), "missing", "", ""},
	} {
		result, err := do(t, env, "file_check", fmt.Sprintf(`{"path":%q}`, c.path))
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %+v, %v", c.path, result, err)
			}
			continue
		}
		if err != nil || result.Status != c.status || compact(t, result.Output) != c.output {
			t.Errorf("%s: %s %s, %v, want %s", c.path, result.Status, compact(t, result.Output), err, c.output)
		}
	}
}

// compact is JSON without its spaces.
func compact(t *testing.T, v []byte) string {
	t.Helper()
	if len(v) == 0 {
		return ""
	}
	var whole found
	must(t, json.Unmarshal(v, &whole))
	again, err := json.Marshal(whole)
	must(t, err)
	return string(again)
}

// A symlink that comes to where a root was, after the decision, leads nowhere.
func TestRootBecomesASymlink(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "other"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "other/a.txt"), []byte("x"), 0o600))
	must(t, os.Symlink("other", filepath.Join(dir, "root")))
	for root, good := range map[string]bool{"other": true, "root": false} {
		f, err := Open(policy.Place{Root: filepath.Join(dir, root), Rel: "a.txt"})
		if (err == nil) != good {
			t.Errorf("%s: %v", root, err)
		}
		if err == nil {
			f.Close()
		}
	}
}
