package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// grounds makes folders and symlinks ("name -> target") in a folder of the test.
func grounds(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name, target, link := strings.Cut(name, " -> "); link {
			err = os.Symlink(target, filepath.Join(dir, name))
		} else {
			err = os.MkdirAll(filepath.Join(dir, name), 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var folders = []string{
	"home/.mbox/keys", "home/audit/shared", "home/tasks/pending", "home/tasks/artifacts", "home/tasks/archive/2026-02/x.1", "home/agents/me", "home/agents/peer/in", "outside/data", "also/data",
	"home/agents/me/to-mbox -> ../../.mbox", "outside/up -> ..", "outside/gone -> nowhere", "outside/alias -> ../also",
}

func TestRules(t *testing.T) {
	dir := grounds(t, folders...)
	for _, c := range []struct {
		name string
		own  string // the workspace
		rw   string
		ro   string
		wo   string
		want error
	}{
		{name: "the workspace alone", own: "home/agents/me"},
		{name: "all lists", own: "home/agents/me", rw: "outside/data", ro: "also", wo: "home/agents/peer/in"},
		{name: "a path that is not there", own: "home/agents/me", rw: "outside/later", ro: "nowhere/at/all", wo: "outside/gone"},
		{name: "no workspace", own: "home/agents/nobody", want: fs.ErrNotExist},
		{name: "the mailbox", own: "home/agents/me", rw: "home", want: ErrProtected},
		{name: "the mailbox, to be read", own: "home/agents/me", ro: "home", want: ErrProtected},
		{name: "the mailbox, to be written", own: "home/agents/me", wo: "home", want: ErrProtected},
		{name: "above the mailbox", own: "home/agents/me", rw: ".", want: ErrProtected},
		{name: "far above the mailbox", own: "home/agents/me", ro: "../../../../../../..", want: ErrProtected},
		{name: "the workspace above the mailbox", own: ".", want: ErrProtected},
		{name: ".mbox", own: "home/agents/me", ro: "home/.mbox", want: ErrProtected},
		{name: "in .mbox", own: "home/agents/me", wo: "home/.mbox/keys", want: ErrProtected},
		{name: "audit", own: "home/agents/me", ro: "home/audit", want: ErrProtected},
		{name: "in audit", own: "home/agents/me", rw: "home/audit/shared", want: ErrProtected},
		{name: ".mbox by a symlink", own: "home/agents/me", ro: "home/agents/me/to-mbox", want: ErrProtected},
		{name: "in .mbox by a symlink", own: "home/agents/me", ro: "home/agents/me/to-mbox/keys", want: ErrProtected},
		{name: "above the mailbox by a symlink", own: "home/agents/me", rw: "outside/up", want: ErrProtected},
		{name: "audit by dots", own: "home/agents/me", ro: "home/agents/../audit", want: ErrProtected},
		{name: "waiting tasks, to be read", own: "home/agents/me", ro: "home/tasks/pending"},
		{name: "tasks, to be read", own: "home/agents/me", ro: "home/tasks", want: ErrProtected},
		{name: "artifacts, to be read", own: "home/agents/me", ro: "home/tasks/artifacts", want: ErrProtected},
		{name: "archived artifacts, to be read", own: "home/agents/me", ro: "home/tasks/archive/2026-02/x.1", want: ErrProtected},
		{name: "tasks, to be written", own: "home/agents/me", rw: "home/tasks", want: ErrProtected},
		{name: "tasks, to be made", own: "home/agents/me", wo: "home/tasks", want: ErrProtected},
		{name: "read only in read and write", own: "home/agents/me", rw: "outside", ro: "outside/data", want: ErrOverlap},
		{name: "write only in read and write", own: "home/agents/me", rw: "outside", wo: "outside/data", want: ErrOverlap},
		{name: "write only in read only", own: "home/agents/me", ro: "outside", wo: "outside/data", want: ErrOverlap},
		{name: "read only in write only", own: "home/agents/me", wo: "outside", ro: "outside/data", want: ErrOverlap},
		{name: "twice the same", own: "home/agents/me", wo: "outside", ro: "outside", want: ErrOverlap},
		{name: "overlap by a symlink", own: "home/agents/me", rw: "also", ro: "outside/alias/data", want: ErrOverlap},
		{name: "read and write in read only", own: "home/agents/me", ro: "outside", rw: "outside/data"},
		{name: "read and write in write only", own: "home/agents/me", wo: "outside", rw: "outside/data"},
		{name: "a name that begins alike", own: "home/agents/me", ro: "also", rw: "also-not"},
	} {
		at := func(name string) []string {
			if name == "" {
				return nil
			}
			return []string{dir + "/" + name}
		}
		r := Rules{
			Mailbox: dir + "/home", Workspace: dir + "/" + c.own, ReadWrite: at(c.rw), ReadOnly: at(c.ro), WriteOnly: at(c.wo),
			Protected: []string{dir + "/home/tasks", dir + "/home/mbox.toml"},
		}
		if _, err := r.grants(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestRulesNeedAbsolutePaths(t *testing.T) {
	dir := grounds(t, folders...)
	good := Rules{Mailbox: dir + "/home", Workspace: dir + "/home/agents/me"}
	for name, change := range map[string]func(*Rules){
		"no mailbox":            func(r *Rules) { r.Mailbox = "" },
		"a relative mailbox":    func(r *Rules) { r.Mailbox = "home" },
		"no workspace":          func(r *Rules) { r.Workspace = "" },
		"a relative workspace":  func(r *Rules) { r.Workspace = "." },
		"a relative list entry": func(r *Rules) { r.ReadOnly = []string{"usr"} },
		"an empty list entry":   func(r *Rules) { r.ReadWrite = []string{""} },
	} {
		r := good
		change(&r)
		if _, err := r.grants(); err == nil || !strings.Contains(err.Error(), "absolute") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := good.grants(); err != nil {
		t.Error(err)
	}
}

// A mailbox may lie in what programs need, or be reached by another name.
func TestRulesKnowFoldersByMoreThanNames(t *testing.T) {
	dir := grounds(t, folders...)
	defer func(old []string) { programs = old }(programs)
	programs = append(slices.Clone(programs), dir)
	r := Rules{Mailbox: dir + "/home", Workspace: dir + "/home/agents/me"}
	if _, err := r.grants(); !errors.Is(err, ErrProtected) {
		t.Errorf("a mailbox among the programs: %v", err)
	}
	programs = programs[:len(programs)-1]
	r.Mailbox, r.ReadOnly = dir+"/outside/up/home", []string{dir + "/home/audit"}
	if _, err := r.grants(); !errors.Is(err, ErrProtected) {
		t.Errorf("a mailbox named through a symlink: %v", err)
	}
}

// What an agent has put in the place of what is its own opens nothing else.
func TestRulesOfSelf(t *testing.T) {
	dir := grounds(t, append(slices.Clone(folders),
		"home/agents/me/workspace", "home/agents/me/memory/dreams", "home/agents/me/heartbeat.md -> ../../../outside/data",
		"home/agents/you", "home/agents/you/memory -> ../me/memory", "home/agents/it/memory/memory.md", "alias -> home")...)
	for _, name := range []string{"home/agents/me/CLAUDE.md", "home/agents/me/memory/memory.md", "home/agents/me/to.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../to.md", dir+"/home/agents/me/memory/link.md"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, mailbox string
		self          []string
		memory        string
		want          []grant
	}{
		{name: "files and a folder", self: []string{"agents/me/CLAUDE.md", "agents/me/SOUL.md", "agents/me/memory"}, memory: "agents/me/memory/memory.md", want: []grant{
			{"home/agents/me/CLAUDE.md", read}, {"home/agents/me/memory", read}, {"home/agents/me/memory/memory.md", read | write},
		}},
		{name: "a mailbox by a symlink", mailbox: "/alias", memory: "agents/me/memory/memory.md", want: []grant{{"home/agents/me/memory/memory.md", read | write}}},
		{name: "a symlink out", self: []string{"agents/me/heartbeat.md"}},
		{name: "a symlink inside", memory: "agents/me/memory/link.md"},
		{name: "a folder that is a symlink", self: []string{"agents/you/memory"}, memory: "agents/you/memory/memory.md"},
		{name: "memory that is a folder", memory: "agents/it/memory/memory.md"},
		{name: "out of the mailbox", self: []string{"../outside"}, memory: "../outside/data"},
	} {
		box := dir + "/home"
		if c.mailbox != "" {
			box = dir + c.mailbox
		}
		r := Rules{Mailbox: box, Workspace: dir + "/home/agents/me/workspace", Protected: []string{dir + "/home/agents/me/memory"}}
		bare, err := r.grants()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range c.self {
			r.Self = append(r.Self, filepath.Join(box, name))
		}
		if c.memory != "" {
			r.Memory = filepath.Join(box, c.memory)
		}
		all, err := r.grants()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for i := range c.want {
			c.want[i].Path = filepath.Join(dir, c.want[i].Path)
		}
		if got := all[len(bare):]; !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	r := Rules{Mailbox: dir + "/home", Workspace: dir + "/home/agents/me/workspace", Self: []string{dir + "/home/.mbox/keys"}}
	if _, err := r.grants(); !errors.Is(err, ErrProtected) {
		t.Errorf(".mbox as its own: %v", err)
	}
}

// The list of what programs need has nothing in it that is for few eyes.
func TestNeeds(t *testing.T) {
	all := needs()
	if len(all) < 5 {
		t.Errorf("%d grants, want at least programs and devices: %v", len(all), all)
	}
	for _, secret := range []string{"/etc/shadow", "/etc/ssh", "/etc/ssl/private", "/root", "/home", "/proc/1", "/dev/shm", "/tmp", "/var", "/run", "/dev/mem"} {
		for _, g := range all {
			if within(resolved(secret), g.Path) {
				t.Errorf("%s lies in %s", secret, g.Path)
			}
		}
	}
	for _, g := range all {
		if g.Access&write != 0 && g.Access&device == 0 {
			t.Errorf("%s can be written", g.Path)
		}
	}
}

func TestSupport(t *testing.T) {
	if err := (Support{ABI: 7, Namespaces: true, Seccomp: true}).Err(); err != nil {
		t.Error(err)
	}
	err := Support{Why: "the kernel is old"}.Err()
	if !errors.Is(err, ErrUnsupported) || !strings.HasSuffix(err.Error(), ": the kernel is old") {
		t.Error(err)
	}
}
