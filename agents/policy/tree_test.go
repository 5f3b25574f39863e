package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A tree is a mailbox on a real disk, with what lies around it:
//
//	T/home         the mailbox: agents coder (whose policy it is), reader,
//	               dropbox, pair and stranger, each with a workspace
//	T/data         a folder that allowed_roots names as T/link-to-data
//	T/data/closed  … with a forbidden folder in it
//	T/forbidden    a forbidden folder; T/forbidden/open is in allowed_roots
//	T/user         the user's home; ~/.ssh is forbidden
//	T/free         in no list
type tree struct{ top string }

func newTree(t testing.TB) tree {
	dir := t.TempDir()
	if strings.HasPrefix(dir, "/dev/") { // which is forbidden; with TMPDIR=/dev/shm
		var err error
		if dir, err = os.MkdirTemp("/tmp", "mbox-tree-"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
	}
	top, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := tree{top}
	for _, name := range strings.Fields(`home/.mbox/keys home/audit/shared home/tasks/pending home/decisions home/changes
		home/memory/context home/agents/coder/workspace/deep/er home/agents/reader/workspace home/agents/dropbox/workspace
		home/agents/pair/workspace home/agents/stranger/workspace data/closed forbidden/open user/.ssh free`) {
		f.must(t, os.MkdirAll(f.at(name), 0o700))
	}
	for _, name := range strings.Fields(`home/.mbox/keys/k home/audit/shared/day home/tasks/pending/t.json home/mbox.toml home/agents/coder/agent.toml
		home/agents/coder/workspace/note home/agents/reader/workspace/note home/agents/dropbox/workspace/note home/agents/pair/workspace/note
		home/agents/stranger/workspace/note data/file data/closed/file forbidden/file forbidden/open/file user/.ssh/id user/file free/file`) {
		f.must(t, os.WriteFile(f.at(name), []byte("x"), 0o600))
	}
	f.links(t)
	return f
}

// links makes every kind of symlink that a path may meet, in the workspace (W)
// and elsewhere.
func (f tree) links(t testing.TB) {
	const w = "home/agents/coder/workspace/"
	for name, target := range map[string]string{
		"link-to-data": f.at("data"), "link-to-home": f.at("home"), "free/into-ws": f.at(w),
		w + "inside": "deep/er", w + "inside-abs": f.at(w + "deep"), w + "self": ".", w + "up": "..",
		w + "out": f.at("free"), w + "out-file": f.at("free/file"), w + "to-etc": "/etc", w + "to-null": "/dev/null", w + "to-zero": "/dev/zero",
		w + "to-data": f.at("data"), w + "to-forbidden": f.at("forbidden"), w + "to-open": f.at("forbidden/open"),
		w + "to-private": f.at("home/.mbox"), w + "to-audit": "../../../audit", w + "to-tasks": f.at("home/tasks"), w + "to-config": f.at("home/mbox.toml"),
		w + "to-own-agent": "../agent.toml", w + "to-dropbox": f.at("home/agents/dropbox/workspace"), w + "to-reader": "../../reader/workspace",
		w + "dangling-in": "not-there", w + "dangling-out": f.at("free/not-there"), w + "dangling-up": "gone/../../../../.mbox/new", w + "dangling-private": f.at("home/.mbox/new"),
		w + "loop": "loop", w + "loop-a": "loop-b", w + "loop-b": "loop-a",
		"forbidden/to-free": f.at("free"), "data/to-private": f.at("home/.mbox"), "data/to-free": f.at("free"), "free/to-forbidden": f.at("forbidden"), "free/to-dropbox": f.at("home/agents/dropbox/workspace"),
	} {
		f.must(t, os.Symlink(target, f.at(name)))
	}
	// A chain of 40 links is the longest that a path may lead through.
	for i, target := 0, f.at(w+"note"); i < 41; i++ {
		link := f.at(w + "chain" + string(rune('0'+i/10)) + string(rune('0'+i%10)))
		f.must(t, os.Symlink(target, link))
		target = link
	}
}

func (f tree) must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f tree) at(name string) string { return filepath.Join(f.top, filepath.FromSlash(name)) }

// fill puts the tree's folders into a table's text.
func (f tree) fill(text string) string {
	return strings.NewReplacer("{T}", f.top, "{W}", f.at("home/agents/coder/workspace"), "{H}", f.at("home")).Replace(text)
}

// config opens to coder all that the comment on tree names.
func (f tree) config(change func(*RiskProfile, *Agent)) Config {
	risk := DefaultRiskProfile()
	risk.AllowedRoots = []string{f.at("link-to-data"), "", " ", "*", f.at("forbidden/open"), "../../../memory/context"}
	risk.ForbiddenPaths = []string{f.at("forbidden"), f.at("data/closed"), "~/.ssh", "/etc", "/dev", "/proc", f.at("home/agents/reader")}
	coder := Agent{Enabled: true, Workspace: Workspace{Access: map[string]string{"reader": "read", "dropbox": "write", "pair": "read_write"}}}
	if change != nil {
		change(&risk, &coder)
	}
	return Config{
		Home: f.at("home"), UserHome: f.at("user"),
		RiskProfiles: map[string]RiskProfile{DefaultProfile: risk},
		Agents:       map[string]Agent{"coder": coder, "reader": {}, "dropbox": {}, "pair": {}, "stranger": {}},
	}
}

func (f tree) policy(t testing.TB, change func(*RiskProfile, *Agent)) *Policy {
	t.Helper()
	p, err := ForAgent(f.config(change), "coder")
	f.must(t, err)
	return p
}

// policies of the tables of paths, by name.
func (f tree) policies(t testing.TB) map[string]*Policy {
	return map[string]*Policy{
		"lists": f.policy(t, nil),
		"open":  f.policy(t, func(_ *RiskProfile, a *Agent) { a.Workspace.UnrestrictedFilesystem = true }),
		"full":  f.policy(t, func(r *RiskProfile, _ *Agent) { r.Level = Full }),
		"looks": f.policy(t, func(r *RiskProfile, _ *Agent) { r.Level = ReadOnly }),
		"bare":  f.policy(t, func(r *RiskProfile, a *Agent) { r.AllowedRoots, a.Workspace.Access = nil, nil }),
		"wide":  f.policy(t, func(r *RiskProfile, _ *Agent) { r.AllowedRoots = []string{f.at("link-to-home"), f.top} }),
	}
}
