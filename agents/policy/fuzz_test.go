package policy

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// A model decides on paths in the tree as naively as can be: it has the real
// folders by heart and knows none of the policy's code. It errs only by not
// knowing where a symlink to something missing leads.
type model struct {
	f    tree
	open bool // no boundary
}

func (m model) in(path string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		folder = m.f.at(folder)
		return path == folder || strings.HasPrefix(path, folder+"/")
	})
}

// allows decides on a path without symlinks.
func (m model) allows(real string, write bool) bool {
	const agents = "home/agents/"
	granted := []string{agents + "coder/workspace", agents + "pair/workspace", "data", "forbidden/open", "home/memory/context"}
	devices := []string{"/dev/null"}
	if write {
		granted = append(granted, agents+"dropbox/workspace")
	} else {
		granted = append(granted, agents+"reader/workspace")
		devices = append(devices, "/dev/zero", "/dev/random", "/dev/urandom")
	}
	switch {
	case slices.Contains(devices, real):
		return true
	case m.in(real, "home/.mbox", "home/audit"):
		return false
	case write && m.in(real, "home/tasks", "home/decisions", "home/changes", "home/channels", "home/mbox.toml", "home/mbox.d", agents+"coder/agent.toml", agents+"reader/state.json"):
		return false
	case m.in(real, granted...):
		return true
	case !write && m.in(real, agents+"dropbox/workspace"):
		return false
	case m.in(real, "forbidden", "data/closed", "user/.ssh", agents+"reader"):
		return false
	}
	for _, outside := range []string{"/etc", "/dev", "/proc"} {
		if real == outside || strings.HasPrefix(real, outside+"/") {
			return false
		}
	}
	return m.open
}

// means is where a path leads, by the file system alone; "" where that cannot be
// told since it does not exist.
func (m model) means(path string) string {
	switch {
	case path == "~" || strings.HasPrefix(path, "~/"):
		path = m.f.at("user") + path[1:]
	case !filepath.IsAbs(path):
		path = m.f.at("home/agents/coder/workspace") + "/" + path
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return real
}

// FuzzPath: no path leads to a place that the model would not allow, nor to
// another place than the file system does; and what is plainly in the workspace
// is decided on as the model does.
func FuzzPath(f *testing.F) {
	tr := newTree(f)
	policies := tr.policies(f)
	seeds, err := os.ReadFile("testdata/paths.txt")
	tr.must(f, err)
	for line := range strings.Lines(string(seeds)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[0] != "#" {
			f.Add(fields[0], false, false)
			f.Add(fields[0], true, true)
		}
	}
	f.Fuzz(func(t *testing.T, path string, open, write bool) {
		path = tr.fill(path)
		p, m := policies["lists"], model{tr, open}
		if open {
			p = policies["open"]
		}
		decide := p.Read
		if write {
			decide = p.Write
		}
		var place Place
		var err error
		quick(t, path, func() { place, err = decide(path) })
		if again, err2 := decide(path); again != place || (err == nil) != (err2 == nil) {
			t.Fatalf("%q: %+v, then %+v", path, place, again)
		}
		m.judge(t, path, place, err, write)
	})
}

func (m model) judge(t *testing.T, path string, place Place, err error, write bool) {
	real := m.means(path)
	var d *Denied
	if err != nil {
		if !errors.As(err, &d) {
			t.Fatalf("%q: %v is no refusal", path, err)
		}
		m.f.showable(t, d)
		if real != "" && plain(path) && !strings.Contains(path, "chain") && m.allows(real, write) {
			t.Fatalf("%q is really %s, and refused: %v", path, real, err)
		}
		return
	}
	if strings.ContainsAny(path, "\x00\\") || slices.Contains(strings.Split(path, "/"), "..") || !filepath.IsLocal(place.Rel) {
		t.Fatalf("%q was allowed: %+v", path, place)
	}
	if !m.allows(place.Path(), write) {
		t.Fatalf("%q: the model refuses %+v", path, place)
	}
	if real != "" && real != place.Path() {
		t.Fatalf("%q: %+v is really %s", path, place, real)
	}
	if led, err := filepath.EvalSymlinks(place.Path()); err == nil && led != place.Path() {
		t.Fatalf("%q: %+v leads on to %s", path, place, led)
	}
}

// plain tells a relative path in which nobody could see anything but a name. (One
// of the chains has more links than the policy follows.)
func plain(path string) bool {
	return path != "" && path[0] != '/' && path[0] != '~' && utf8.ValidString(path) && !strings.Contains(path, "..") &&
		!strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' || r == '%' })
}

// FuzzCommand: a line that is allowed has only commands that are allowed, and
// stays what it is with another command behind it.
func FuzzCommand(f *testing.F) {
	tr, policies := commandPolicies(f)
	seeds, err := os.ReadFile("testdata/commands.txt")
	tr.must(f, err)
	for line := range strings.Lines(string(seeds)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] != "#" {
			f.Add(strings.Join(fields[2:], " "))
		}
	}
	f.Fuzz(func(t *testing.T, line string) {
		for name, p := range policies {
			var v Verdict
			var err error
			quick(t, line, func() { v, err = p.Command(line) })
			said := tr.said(t, v, err)
			var d *Denied
			switch {
			case err != nil && !errors.As(err, &d):
				t.Fatalf("%s: %q: %v is no refusal", name, line, err)
			case v.Risk == High && p.BlockHighRisk && err == nil && (name == "star" || name == "default"):
				t.Fatalf("%s: %q: %s", name, line, said)
			case err == nil && p.Level == ReadOnly && v.Risk > Low:
				t.Fatalf("%s: %q: %s", name, line, said)
			}
			for _, s := range v.Segments {
				if s.Risk > v.Risk || err == nil && name == "default" && s.Command != ">" && !slices.Contains(p.AllowedCommands, filepath.Base(s.Command)) {
					t.Fatalf("%s: %q: %+v in a verdict of %s", name, line, s, said)
				}
			}
		}
		// One that is allowed ends where it ends: the next line is a command.
		p := policies["default"]
		if _, err := p.Command(line); err != nil || len(line) > maxLine/2 {
			return
		}
		for _, longer := range []string{line + "\nrm x", "rm x\n" + line, "(" + line + "\n) && rm x", "ls $(" + line + "\nrm x)"} {
			if _, err := p.Command(longer); err == nil {
				t.Fatalf("%q is allowed, and so is %q", line, longer)
			}
		}
	})
}
