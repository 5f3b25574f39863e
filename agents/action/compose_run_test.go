package action

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"mbox/mailbox/durable"
)

// standIn puts a docker on PATH that notes its arguments, its environment and
// its folder, and then does what a script says.
func standIn(t *testing.T, script string) (notes string) {
	t.Helper()
	dir := t.TempDir()
	notes = filepath.Join(dir, "notes")
	must(t, os.Mkdir(notes, 0o700))
	text := `#!/bin/sh
/bin/pwd >'` + notes + `/folder'
for a; do echo "$a"; done >'` + notes + `/arguments'
/bin/cat >'` + notes + `/input'
/usr/bin/env >'` + notes + `/environment'
` + script + "\n"
	must(t, os.WriteFile(filepath.Join(dir, "docker"), []byte(text), 0o700))
	t.Setenv("PATH", dir)
	t.Setenv("DOCKER_HOST", "unix:///nowhere.sock")
	t.Setenv("HOME", dir)
	t.Setenv("COMPOSE_FILE", filepath.Join(dir, "other.yaml"))
	t.Setenv("SECRET", "x")
	return notes
}

// ready is a workspace with the folders that goodCompose names.
func ready(t *testing.T) (*Env, string) {
	t.Helper()
	env, dir := workspace(t)
	must(t, os.Mkdir(filepath.Join(dir, "html"), 0o700))
	must(t, os.Mkdir(filepath.Join(dir, "db"), 0o700))
	env.Agent, env.Sync = "deployer", durable.None
	return env, dir
}

// approve is a person's word for a file, with what lies in its folders.
func approve(t *testing.T, env *Env, text string) {
	t.Helper()
	env.Compose.Run, env.Approved, env.Folders = true, true, nil
	for _, f := range folders(t, env, text) {
		if f.SHA256 != "" {
			env.Folders = append(env.Folders, f.SHA256)
		}
	}
}

func folders(t *testing.T, env *Env, text string) []Folder {
	t.Helper()
	all, err := parsed(t, "deploy_compose", composeParams(t, text)).(*DeployCompose).Folders(t.Context(), env.Policy)
	must(t, err)
	return all
}

func deployed(t *testing.T, env *Env, text string) (Result, deployment, error) {
	t.Helper()
	result, err := do(t, env, "deploy_compose", composeParams(t, text))
	var d deployment
	if err == nil {
		must(t, json.Unmarshal(result.Output, &d))
	}
	return result, d, err
}

// Nothing is run but where the configuration and an approval say so.
func TestComposeDryRun(t *testing.T) {
	notes := standIn(t, "exit 0")
	for _, c := range []struct {
		run, approved bool
		why           string
	}{{false, false, "is not set"}, {false, true, "is not set"}, {true, false, "approved"}} {
		env, dir := ready(t)
		env.Compose.Run, env.Approved = c.run, c.approved
		result, d, err := deployed(t, env, goodCompose)
		if err != nil || result.Status != "validated" || !strings.Contains(d.DryRun, c.why) {
			t.Errorf("%+v: %+v, %v", c, result, err)
		}
		want := []service{
			{Name: "db", Build: "./db"},
			{Name: "web", Image: "nginx:1.27", Ports: []string{"127.0.0.1:8080->80", "::1:8081->81"}, Mounts: []string{"./html"}},
		}
		if !slices.EqualFunc(d.Services, want, same) {
			t.Errorf("%+v, want %+v", d.Services, want)
		}
		if _, err := os.Stat(filepath.Join(dir, composeFile)); err == nil {
			t.Error("a dry run wrote the file")
		}
	}
	if made, err := os.ReadDir(notes); err != nil || len(made) > 0 {
		t.Errorf("docker was run: %v, %v", made, err)
	}
}

func same(a, b service) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}

func TestComposeRun(t *testing.T) {
	notes := standIn(t, "echo started; echo warned >&2")
	env, dir := ready(t)
	approve(t, env, goodCompose)
	result, d, err := deployed(t, env, goodCompose)
	if err != nil || result.Status != "deployed" || result.Path != composeFile || d.Log != "started\nwarned\n" || d.DryRun != "" {
		t.Fatalf("%+v, %+v, %v", result, d, err)
	}
	file := filepath.Join(dir, composeFile)
	if got := noted(t, notes, "arguments"); !slices.Equal(got, []string{
		"compose", "-f", "-", "--project-directory", dir, "--env-file", "/dev/null", "-p", "mbox-deployer", "up", "-d", "--wait",
	}) {
		t.Errorf("%q", got)
	}
	if got := noted(t, notes, "folder"); !slices.Equal(got, []string{dir}) {
		t.Errorf("%q", got)
	}
	for _, v := range noted(t, notes, "environment") {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains([]string{"PATH", "HOME", "DOCKER_HOST", "PWD", "OLDPWD", "SHLVL", "_"}, name) {
			t.Errorf("docker got %s", v)
		}
	}
	text, err := os.ReadFile(file)
	if got := noted(t, notes, "input"); strings.Join(got, "\n")+"\n" != string(text) {
		t.Errorf("docker read %q", got)
	}
	if err != nil {
		t.Error(err)
	}
}

func noted(t *testing.T, notes, what string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(notes, what))
	must(t, err)
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

func TestComposeRunFails(t *testing.T) {
	standIn(t, "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; exit 7")
	env, _ := ready(t)
	approve(t, env, goodCompose)
	result, d, err := deployed(t, env, goodCompose)
	if err != nil || result.Status != "failed" || result.Error != "docker compose: exit status 7: line 2999" {
		t.Errorf("%+v, %v", result, err)
	}
	if len(d.Log) != composeLog || !strings.HasSuffix(d.Log, "line 2999\n") {
		t.Errorf("kept %d bytes: …%s", len(d.Log), d.Log[max(0, len(d.Log)-20):])
	}
	standIn(t, `printf 'first\nlast \033[31m%0999d\n\n' 1 >&2; exit 1`)
	result, _, err = deployed(t, env, goodCompose)
	if words := `docker compose: exit status 1: last \x1b[31m000`; err != nil || !strings.HasPrefix(result.Error, words) || len(result.Error) > 400 {
		t.Errorf("%+v, %v", result, err)
	}
	t.Setenv("PATH", t.TempDir())
	if result, _, err := deployed(t, env, goodCompose); err != nil || result.Status != "failed" || !strings.Contains(result.Error, exec.ErrNotFound.Error()) {
		t.Errorf("without docker: %+v, %v", result, err)
	}
}

// What lies in the workspace is looked at before docker is: no symlink leads out
// of it, docker makes no folder as root, and takes no settings from a file.
func TestComposeRunLooks(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"path_symlink": func(dir string) error {
			must(t, os.Remove(filepath.Join(dir, "html")))
			return os.Symlink("db", filepath.Join(dir, "html"))
		},
		"path_outside": func(dir string) error {
			must(t, os.Remove(filepath.Join(dir, "html")))
			return os.Symlink("/canary", filepath.Join(dir, "html"))
		},
		"": func(dir string) error { return os.Remove(filepath.Join(dir, "html")) },
		"compose_mount": func(dir string) error {
			must(t, os.Remove(filepath.Join(dir, "html")))
			return os.WriteFile(filepath.Join(dir, "html"), nil, 0o600)
		},
		"compose_env": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ".env"), []byte("COMPOSE_FILE=x"), 0o600)
		},
	} {
		notes := standIn(t, "exit 0")
		env, dir := ready(t)
		approve(t, env, goodCompose)
		must(t, spoil(dir))
		_, _, err := deployed(t, env, goodCompose)
		if d := refusal(err); err == nil || name != "" && (d == nil || d.Rule != name) {
			t.Errorf("%s: %v", name, err)
		}
		if made, err := os.ReadDir(notes); err != nil || len(made) > 0 {
			t.Errorf("%s: docker was run: %v, %v", name, made, err)
		}
	}
}

// The engine's socket needs a flag of its own.
func TestComposeSocket(t *testing.T) {
	text := serviceWith("volumes: ['/var/run/docker.sock:/var/run/docker.sock']")
	if err := validate(text); err != nil {
		t.Fatal(err)
	}
	notes := standIn(t, "exit 0")
	for _, approved := range []bool{false, true} {
		env, _ := ready(t)
		env.Compose.Run, env.Approved = true, approved
		if _, _, err := deployed(t, env, text); refusal(err) == nil || refusal(err).Rule != "compose_socket" {
			t.Errorf("approved %v: %v", approved, err)
		}
	}
	if made, err := os.ReadDir(notes); err != nil || len(made) > 0 {
		t.Errorf("docker was run: %v, %v", made, err)
	}
	env, _ := ready(t)
	env.Compose.Run, env.Approved, env.Compose.Socket = true, true, true
	if result, _, err := deployed(t, env, text); err != nil || result.Status != "deployed" {
		t.Errorf("%+v, %v", result, err)
	}
}

// Whoever gives up takes docker's children with him.
func TestComposeGivesUp(t *testing.T) {
	notes := standIn(t, "")
	script := filepath.Join(filepath.Dir(notes), "docker")
	fifo := filepath.Join(notes, "begun")
	must(t, exec.Command("/usr/bin/mkfifo", fifo).Run())
	must(t, os.WriteFile(script, []byte("#!/bin/sh\n(echo x >'"+fifo+"'; exec /bin/sleep 600)\n"), 0o700))
	env, _ := ready(t)
	env.Compose.Run, env.Approved = true, true
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = os.ReadFile(fifo)
		cancel()
	}()
	result, err := parsed(t, "deploy_compose", composeParams(t, serviceWith(""))).Do(ctx, env)
	if err != nil || result.Status != "failed" || !strings.Contains(result.Error, "canceled") {
		t.Errorf("%+v, %v", result, err)
	}
}
