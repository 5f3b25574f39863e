package action

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mbox/agents/policy"
)

// folderService is built from a folder, and mounts one to read and one to write.
const folderService = "services: {web: {build: ./site, volumes: ['./conf:/conf:ro', './data:/data']}}"

// folderWorkspace has the folders of folderService.
func folderWorkspace(t *testing.T) (*Env, string) {
	t.Helper()
	env, dir := workspace(t)
	for _, name := range []string{"site/src", "conf", "data"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	for name, mode := range map[string]os.FileMode{"site/Dockerfile": 0o644, "site/src/run.sh": 0o755, "conf/a.conf": 0o600, "data/now": 0o600} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
		must(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	must(t, os.Symlink("src/run.sh", filepath.Join(dir, "site", "run")))
	return env, dir
}

// What has changed in a folder since the approval is not deployed, and is named; a
// folder that a service may write changes as it likes.
func TestApprovalBindsFolders(t *testing.T) {
	write := func(name, text string) func(dir string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	}
	for _, c := range []struct {
		what, names string
		change      func(dir string) error
	}{
		{"nothing", "", func(string) error { return nil }},
		{"what a service writes", "", write("data/now", "later")},
		{"a file", "site", write("site/Dockerfile", "FROM elsewhere")},
		{"a file of a mount", "conf", write("conf/a.conf", "other")},
		{"one more", "site", write("site/src/more", "")},
		{"one less", "conf", func(dir string) error { return os.Remove(filepath.Join(dir, "conf/a.conf")) }},
		{"its name", "site", func(dir string) error {
			return os.Rename(filepath.Join(dir, "site/src/run.sh"), filepath.Join(dir, "site/src/go.sh"))
		}},
		{"its rights", "site", func(dir string) error { return os.Chmod(filepath.Join(dir, "site/src/run.sh"), 0o644) }},
		{"the rights of a folder", "site", func(dir string) error { return os.Chmod(filepath.Join(dir, "site/src"), 0o750) }},
		{"an empty folder", "conf", func(dir string) error { return os.Mkdir(filepath.Join(dir, "conf/empty"), 0o755) }},
		{"where a symlink leads", "site", func(dir string) error {
			must(t, os.Remove(filepath.Join(dir, "site/run")))
			return os.Symlink("Dockerfile", filepath.Join(dir, "site/run"))
		}},
		{"a symlink for a file", "site", func(dir string) error {
			must(t, os.Remove(filepath.Join(dir, "site/Dockerfile")))
			return os.Symlink("src/run.sh", filepath.Join(dir, "site/Dockerfile"))
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			notes := standIn(t, "exit 0")
			env, dir := folderWorkspace(t)
			approve(t, env, folderService)
			must(t, c.change(dir))
			result, _, err := deployed(t, env, folderService)
			if c.names == "" {
				if err != nil || result.Status != "deployed" {
					t.Fatalf("%+v, %v", result, err)
				}
				return
			}
			var d *policy.Denied
			if !errors.As(err, &d) || d.Rule != "approval_changed" || !strings.Contains(err.Error(), "deploy "+c.names+": what was approved has changed") {
				t.Errorf("%+v, %v", result, err)
			}
			if made, err := os.ReadDir(notes); err != nil || len(made) > 0 {
				t.Errorf("docker was run: %v, %v", made, err)
			}
		})
	}
}

// An approval that binds other folders than the file uses is for something else.
func TestApprovalOfOtherFolders(t *testing.T) {
	standIn(t, "exit 0")
	env, _ := folderWorkspace(t)
	approve(t, env, folderService)
	whole := env.Folders
	for _, bound := range [][]string{nil, whole[:1], {whole[1], whole[0]}, append(slices.Clone(whole), whole[0])} {
		env.Folders = bound
		if _, _, err := deployed(t, env, folderService); refusal(err) == nil || refusal(err).Rule != "approval_changed" {
			t.Errorf("%d folders: %v", len(bound), err)
		}
	}
}

// What services are built from and read is a copy that the agent cannot change. It
// stays where it is as long as it is used, and is made again if it was changed.
func TestDeployedIsACopy(t *testing.T) {
	notes := standIn(t, "exit 0")
	env, dir := folderWorkspace(t)
	copies := func() (paths []string) {
		t.Helper()
		approve(t, env, folderService)
		if result, _, err := deployed(t, env, folderService); err != nil || result.Status != "deployed" {
			t.Fatalf("%+v, %v", result, err)
		}
		input := strings.Join(noted(t, notes, "input"), "\n")
		for _, m := range regexp.MustCompile(`(context|source): (\S+)`).FindAllStringSubmatch(input, -1) {
			paths = append(paths, m[2])
		}
		if len(paths) != 3 || paths[2] != "./data" {
			t.Fatalf("%q in %s", paths, input)
		}
		return paths[:2]
	}
	free := *env.Policy
	free.Level, free.WorkspaceOnly, free.Forbidden = policy.Full, false, nil
	if _, err := free.Write(filepath.Join(filepath.Dir(dir), "other")); err != nil {
		t.Fatal(err)
	}
	first := copies()
	for i, path := range first {
		if filepath.Dir(path) != env.Policy.Deployed() {
			t.Errorf("%s is no copy", path)
		}
		if _, err := free.Write(filepath.Join(path, "x")); err == nil {
			t.Error("an agent without a boundary may write into the copy")
		}
		from, err := os.OpenRoot(filepath.Join(dir, []string{"site", "conf"}[i]))
		must(t, err)
		to, err := os.OpenRoot(path)
		must(t, err)
		want, err := newSeal(t.Context()).folder(from, "", nil)
		must(t, err)
		if got, err := newSeal(t.Context()).folder(to, "", nil); err != nil || got != want {
			t.Errorf("%s, want %s: %v", got, want, err)
		}
	}
	if again := copies(); !slices.Equal(again, first) {
		t.Errorf("the same again is at %q, was at %q", again, first)
	}
	must(t, os.WriteFile(filepath.Join(first[0], "Dockerfile"), []byte("spoilt"), 0o600))
	if again := copies(); !slices.Equal(again, first) || content(t, first[0], "Dockerfile") != "site/Dockerfile" {
		t.Errorf("a spoilt copy is used: %q", content(t, first[0], "Dockerfile"))
	}
	must(t, os.WriteFile(filepath.Join(dir, "site", "Dockerfile"), []byte("new"), 0o600))
	second := copies()
	if second[0] == first[0] || second[1] != first[1] || content(t, second[0], "Dockerfile") != "new" {
		t.Errorf("%q, then %q", first, second)
	}
	if left, err := os.ReadDir(env.Policy.Deployed()); err != nil || len(left) != 3 {
		t.Errorf("there are %v, %v", left, err)
	}
}

func content(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	return string(data)
}

// What cannot be bound is refused by its name: it is too much, or it is neither a
// file nor a folder. No symlink is followed.
func TestFoldersAreBounded(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "canary")
	must(t, os.WriteFile(secret, []byte("secret"), 0o600))
	deep := strings.Repeat("d/", maxFolders+1)
	for _, c := range []struct {
		what, names string
		make        func(dir string) error
		most        func(*seal)
	}{
		{"a fifo", "site/src/pipe: it is a fifo", func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "src/pipe"), 0o600) }, nil},
		{"setuid", "site/src/run.sh: who runs it", func(dir string) error { return os.Chmod(filepath.Join(dir, "src/run.sh"), 0o755|os.ModeSetuid) }, nil},
		{"deep", "folders deep", func(dir string) error { return os.MkdirAll(filepath.Join(dir, deep), 0o700) }, nil},
		{"many", "site/src/run.sh: with it there are more than", nil, func(s *seal) { s.entries = 3 }},
		{"large", "site/src/run.sh: with it there are more than", nil, func(s *seal) { s.bytes = 20 }},
		{"sparse", "site/hole: with it there are more than", func(dir string) error {
			f, err := os.Create(filepath.Join(dir, "hole"))
			must(t, err)
			defer f.Close()
			return f.Truncate(1 << 40)
		}, func(s *seal) { s.bytes = 1 << 20 }},
		{"a symlink out", "", func(dir string) error { return os.Symlink(secret, filepath.Join(dir, "out")) }, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, dir := folderWorkspace(t)
			dir = filepath.Join(dir, "site")
			if c.make != nil {
				must(t, c.make(dir))
			}
			s := newSeal(t.Context())
			if c.most != nil {
				c.most(s)
			}
			from, err := os.OpenRoot(dir)
			must(t, err)
			before, err := s.folder(from, "site", nil)
			if c.names != "" {
				if err == nil || !strings.Contains(err.Error(), c.names) {
					t.Errorf("%v", err)
				}
				return
			}
			must(t, err)
			must(t, os.WriteFile(secret, bytes.Repeat([]byte("x"), 100), 0o600))
			from, err = os.OpenRoot(dir)
			must(t, err)
			if after, err := newSeal(t.Context()).folder(from, "site", nil); err != nil || after != before {
				t.Errorf("%s, then %s: %v", before, after, err)
			}
		})
	}
}
