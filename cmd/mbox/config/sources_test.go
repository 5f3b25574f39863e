package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// homeOf makes a home of files by their names in it.
func homeOf(t *testing.T, files map[string]string) string {
	t.Helper()
	home := t.TempDir()
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// The files of mbox.d are read as if they stood in mbox.toml, and each value knows its
// file and line.
func TestFurtherFiles(t *testing.T) {
	home := homeOf(t, map[string]string{
		"mbox.toml":        "lease = '5m'\n[agents.first]\nexec = 'true'\n[agents.first.workspace]\nread_memory_from = []\n",
		"mbox.d/b.toml":    "\n[agents.second]\nexec = 'true'\n",
		"mbox.d/a.toml":    "retry_base = '3s'\n[notify.me]\non = ['failed']\ncommand = ['/bin/true']\n",
		"mbox.d/.c.toml":   "no toml",
		"mbox.d/note.txt":  "no toml",
		"mbox.d/b.toml.my": "no toml",
	})
	c, err := Load(home)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "files", strings.Join(Files(c), " "), "mbox.toml mbox.d/a.toml mbox.d/b.toml")
	equal(t, "ignored", strings.Join(Ignored(c), " "), "mbox.d/b.toml.my mbox.d/note.txt")
	if c.Agents["first"] == nil || c.Agents["second"] == nil || c.Notify["me"] == nil {
		t.Fatalf("a table is lost: %v", slices.Sorted(maps.Keys(c.Agents)))
	}
	from := map[string]string{}
	for _, v := range c.Values() {
		from[v.Key] = v.From
	}
	for key, want := range map[string]string{
		"lease": "mbox.toml:1", "retry_base": "mbox.d/a.toml:1", "agents.first.exec": "mbox.toml:3", "agents.second.exec": "mbox.d/b.toml:3",
	} {
		equal(t, key, from[key], want)
	}

	alone, err := Load(homeOf(t, map[string]string{"mbox.d/a.toml": "lease = '5m'\n"}))
	if err != nil || Span(alone.Options().Lease) != "5m" {
		t.Errorf("mbox.d without mbox.toml: lease %v, %v", alone.Options().Lease, err)
	}
}

// A table or a key stands in one file; the error names both places.
func TestTwiceSet(t *testing.T) {
	for _, c := range []struct{ first, second, want string }{
		{"lease = '5m'\n", "lease = '5m'\n", `mbox.d/x.toml:1: lease stands in mbox.toml:1, too`},
		{"\n[agents.a]\nexec = 'x'\n", "lease = '5m'\n[agents.a]\ntimeout = '1m'\n", `mbox.d/x.toml:2: agents.a stands in mbox.toml:2, too`},
		{"[agents.a]\nexec = 'x'\n", "[agents.a.brain]\nkind = 'none'\n", `mbox.d/x.toml:1: agents.a stands in mbox.toml:1, too`},
		{"[agents.a.brain]\nkind = 'none'\n", "[agents]\na.exec = 'x'\n", `mbox.d/x.toml:2: agents.a stands in mbox.toml:1, too`},
		{"agents = {a = {exec = 'x'}}\n", "agents = {b = {exec = 'x'}, a = {timeout = '1m'}}\n", `mbox.d/x.toml:1: agents.a stands in mbox.toml:1, too`},
		{"[ollama]\nnum_ctx = 2048\n", "[ollama]\nparallel = 1\n", `mbox.d/x.toml:1: ollama stands in mbox.toml:1, too`},
		{"[agents]\n[agents.a]\nexec = 'x'\n", "[agents]\n[agents.b]\nexec = 'x'\n", ""},
	} {
		_, err := Load(homeOf(t, map[string]string{"mbox.toml": c.first, "mbox.d/x.toml": c.second}))
		if c.want == "" {
			if err != nil {
				t.Errorf("%q and %q: %v", c.first, c.second, err)
			}
			continue
		}
		refuses(t, c.second, err, c.want+"$")
	}
	_, err := Load(homeOf(t, map[string]string{"mbox.d/x.toml": "lease = '5m'\n", "mbox.d/y.toml": "lease = '5m'\n"}))
	refuses(t, "two of mbox.d", err, `mbox.d/y.toml:1: lease stands in mbox.d/x.toml:1, too$`)
}

// What is wrong in a file of mbox.d is told with its name and line.
func TestFurtherFileIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		"leese = '5m'\n":               `mbox.d/x.toml:1: unknown key leese$`,
		"lease = \n":                   `mbox.d/x.toml:1: `,
		"\nlease = '1ms'\n":            `mbox.d/x.toml:2: lease: `,
		"[agents.a]\npassword = 'x'\n": `mbox.d/x.toml:2: agents.a.password: a secret`,
		"[agents.a]\nrole = 'gone'\n":  `mbox.d/x.toml:2: agents.a.role: `,
	} {
		_, err := Load(homeOf(t, map[string]string{"mbox.toml": "lock_wait = '1s'\n\n", "mbox.d/x.toml": text}))
		refuses(t, text, err, want)
	}
	var e *Error
	_, err := Load(homeOf(t, map[string]string{"mbox.toml": "one = 1\n", "mbox.d/x.toml": "\nlease = '1ms'\n"}))
	if !errors.As(err, &e) || e.File[len(e.File)-len(Name):] != Name {
		t.Errorf("the first file with a mistake is %v, want mbox.toml", err)
	}
	_, err = Load(homeOf(t, map[string]string{"mbox.toml": "lock_wait = '1s'\n\n", "mbox.d/x.toml": "\nlease = '1ms'\n"}))
	if !errors.As(err, &e) || !strings.Contains(e.Excerpt, "lease = '1ms'") {
		t.Errorf("the excerpt is not of the file: %v", err)
	}
	refuses(t, "no folder", firstErr(Load(homeOf(t, map[string]string{"mbox.d": "x"}))), `mbox.d: it is no folder$`)
}

func firstErr(_ *File, err error) error { return err }

// Who can write mbox.d says what is run, as with mbox.toml.
func TestFurtherFilesOfOthers(t *testing.T) {
	for name, mode := range map[string]os.FileMode{"mbox.d": 0o720, "mbox.d/x.toml": 0o602} {
		home := homeOf(t, map[string]string{"mbox.d/x.toml": "lease = '5m'\n"})
		for path, mode := range map[string]os.FileMode{home: 0o711, filepath.Join(home, "mbox.d"): 0o711, filepath.Join(home, name): mode} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(filepath.Join(home, name), mode); err != nil {
			t.Fatal(err)
		}
		refuses(t, name, firstErr(Load(home)), name+`: others can write it \(mode 0`)
	}
}

// What comes, changes and goes in mbox.d is told once.
func TestWatchFurtherFiles(t *testing.T) {
	home := homeOf(t, map[string]string{"mbox.toml": "lease = '5m'\n", "mbox.d/x.toml": ""})
	c, err := Load(home)
	if err != nil {
		t.Fatal(err)
	}
	watch, file := c.Watch(), filepath.Join(home, Dir, "y.toml")
	for _, step := range []struct {
		what    string
		do      func() error
		changed bool
	}{
		{"nothing", func() error { return nil }, false},
		{"an empty file", func() error { return os.WriteFile(file, nil, 0o600) }, true},
		{"text", func() error { return os.WriteFile(file, []byte("max_attempts = 2\n"), 0o600) }, true},
		{"another name", func() error { return os.Rename(file, filepath.Join(home, Dir, "z.toml")) }, true},
		{"a note", func() error { return os.WriteFile(filepath.Join(home, Dir, "note"), nil, 0o600) }, false},
		{"all gone", func() error { return os.RemoveAll(filepath.Join(home, Dir)) }, true},
		{"still gone", func() error { return nil }, false},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if changed, err := watch.Changed(); changed != step.changed || err != nil {
			t.Errorf("%s: changed %v, %v", step.what, changed, err)
		}
	}
}
