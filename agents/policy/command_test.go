package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// commandPolicies are those of the table of commands.
func commandPolicies(t testing.TB) (tree, map[string]*Policy) {
	f := newTree(t)
	with := func(change func(*RiskProfile)) *Policy {
		return f.policy(t, func(r *RiskProfile, _ *Agent) {
			r.AllowedCommands = append(r.AllowedCommands, "sleep", "env", "[", "cd", "true", "tee", f.at("data/tool"))
			change(r)
		})
	}
	return f, map[string]*Policy{
		"default": f.policy(t, nil),
		"some":    with(func(*RiskProfile) {}),
		"named": with(func(r *RiskProfile) {
			r.AllowedCommands = append(r.AllowedCommands, "rm", "curl", "sh", "sudo", "touch", "mkdir")
		}),
		"star":  with(func(r *RiskProfile) { r.AllowedCommands = []string{"*"} }),
		"free":  with(func(r *RiskProfile) { r.AllowedCommands, r.BlockHighRiskCommands = []string{"*"}, false }),
		"full":  with(func(r *RiskProfile) { r.Level, r.AllowedCommands = Full, []string{"*", "rm"} }),
		"quick": with(func(r *RiskProfile) { r.RequireApprovalForMediumRisk = false }),
		"looks": with(func(r *RiskProfile) { r.Level, r.AllowedCommands = ReadOnly, []string{"*", "rm", "sh"} }),
	}
}

// TestCommands runs testdata/commands.txt: per line a policy, what it says, and
// the command. "?" behind a risk: somebody must approve.
func TestCommands(t *testing.T) {
	f, policies := commandPolicies(t)
	data, err := os.ReadFile("testdata/commands.txt")
	f.must(t, err)
	cases := 0
	var out strings.Builder
	for n, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		parts := strings.Fields(line)
		if len(parts) == 0 || parts[0] == "#" {
			fmt.Fprintln(&out, line)
			continue
		}
		rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(strings.TrimPrefix(line, parts[0])), parts[1]))
		command := f.fill(rest)
		if strings.HasPrefix(command, `"`) && strings.HasSuffix(command, `"`) && strings.Contains(command, `\`) {
			command, err = strconv.Unquote(command)
			f.must(t, err)
		}
		cases++
		verdict, err := policies[parts[0]].Command(command)
		got := f.said(t, verdict, err)
		if fmt.Fprintf(&out, "%-8s %-20s %s\n", parts[0], got, rest); got != parts[1] && !*update {
			t.Errorf("commands.txt:%d: %s: %s\n got %s (%v)\nwant %s", n+1, parts[0], command, got, err, parts[1])
		}
	}
	if *update {
		f.must(t, os.WriteFile("testdata/commands.txt", []byte(out.String()), 0o644))
	}
	if cases < 300 {
		t.Errorf("%d cases, want 300 or more", cases)
	}
}

func (f tree) said(t testing.TB, v Verdict, err error) string {
	t.Helper()
	var d *Denied
	if errors.As(err, &d) {
		f.showable(t, d)
		if v.NeedsApproval {
			t.Errorf("%v: refused, and waits for approval", err)
		}
		return d.Rule
	}
	if v.NeedsApproval {
		return v.Risk.String() + "?"
	}
	return v.Risk.String()
}

// A line's segments are its commands, wherever they stand.
func TestSegments(t *testing.T) {
	_, policies := commandPolicies(t)
	for line, want := range map[string][]string{
		"ls -l 'a b' && cat x | wc":                  {"ls -l a b", "cat x", "wc"},
		"env A=1 nice -n 5 timeout 3s grep x y":      {"grep x y"},
		`sh -c "ls; echo $(date)"`:                   {"date"}, // the line itself is made at run time
		`sh -c 'ls; echo $(date)'`:                   {"ls", "date", "echo "},
		"if ls; then cat x; else pwd; fi":            {"ls", "cat x", "pwd"},
		"for f in a b; do wc \"$f\"; done":           {"wc "},
		"echo `pwd` > out":                           {"pwd", "echo ", "> out"},
		"find . -name x -exec grep y {} ';' -delete": {"find . -name x -exec grep y {} ; -delete", "grep y {}", "rm -delete"},
		"xargs -0 -n1 wc -l":                         {"wc -l "},
		`e\cho "a\"b" 'c'"d"e`:                       {`echo a"b cde`},
		"{ ls; } 2>&1 | (cat; wc)":                   {"ls", "cat", "wc"},
		"echo a # ; rm b\npwd":                       {"echo a", "pwd"},
		"echo 2>&1 3 2 >out":                         {"echo 3 2", "> out"},
		"sudo -u x ls":                               {"sudo -u x ls", "ls"},
		"bash -o pipefail -ec 'ls | wc'":             {"ls", "wc"},
		"echo '' \"\"":                               {"echo  "},
	} {
		v, _ := policies["free"].Command(line)
		var got []string
		for _, s := range v.Segments {
			got = append(got, strings.Join(append([]string{s.Command}, s.Args...), " "))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", line, got, want)
		}
	}
}

// Argv takes words as they are: nothing in them is the shell's.
func TestArgv(t *testing.T) {
	f, policies := commandPolicies(t)
	for _, c := range []struct {
		policy, want string
		argv         []string
	}{
		{"default", "low", []string{"echo", "$(rm -rf /)", ";", "rm", "> x", "`id`"}},
		{"default", ruleCommandNotAllowed, []string{"claude", "-p"}},
		{"default", ruleCommandHigh, []string{"rm", "x"}},
		{"default", ruleCommandHigh, []string{"env", "rm", "x"}},
		{"default", ruleCommandHigh, []string{"sh", "-c", "ls; rm x"}},
		{"default", "low", []string{"sh", "-c", "ls"}},
		{"default", ruleCommandEmpty, nil},
		{"default", ruleCommandUnclear, []string{""}},
		{"default", "medium?", []string{"git", "commit"}},
		{"named", "high?", []string{"rm", "-rf", "a b"}},
	} {
		v, err := policies[c.policy].Argv(c.argv)
		if got := f.said(t, v, err); got != c.want {
			t.Errorf("%s: %q: %s, want %s (%v)", c.policy, c.argv, got, c.want, err)
		}
	}
}

// Nesting without end and lines without end are refused, not followed.
func TestCommandBounds(t *testing.T) {
	_, policies := commandPolicies(t)
	for _, line := range []string{
		strings.Repeat("$(", 5000), strings.Repeat("(", 30000), strings.Repeat("env ", 16000), "echo " + strings.Repeat("x", maxLine),
		strings.Repeat("(ls;", 20) + strings.Repeat(")", 20), strings.Repeat("nice ", 20) + "ls",
		strings.Repeat("ls;", maxCommands+2), "ls " + strings.Repeat("<a ", maxCommands+2),
	} {
		var d *Denied
		if _, err := policies["star"].Command(line); !errors.As(err, &d) || d.Rule != ruleCommandUnclear {
			t.Errorf("%.20s… (%d bytes): %v, want %s", line, len(line), err, ruleCommandUnclear)
		}
	}
}

// A name stands for the program that PATH leads to, unless the agent could put
// another one there or before it.
func TestNamesLeadThroughPath(t *testing.T) {
	f, policies := commandPolicies(t)
	program := func(at string) {
		f.must(t, os.MkdirAll(filepath.Dir(f.at(at)), 0o700))
		f.must(t, os.WriteFile(f.at(at), nil, 0o700))
	}
	for _, at := range []string{"bin/ls", "other/ls", "data/bin/wc", "bin/env"} {
		program(at)
	}
	f.must(t, os.Symlink(f.at("bin"), f.at("linked")))
	f.must(t, os.MkdirAll(f.at("aside"), 0o700))
	f.must(t, os.Symlink(f.at("data/bin/wc"), f.at("aside/wc")))
	for _, c := range []struct{ path, line, want string }{
		{"{T}/bin:{T}/other", "ls", "low"},
		{"{T}/bin:{T}/other", "{T}/bin/ls", "low"},
		{"{T}/bin:{T}/other", "{T}/linked/ls", "low"},
		{"{T}/linked:{T}/other", "{T}/bin/ls", "low"},
		{"{T}/bin:{T}/other", "{T}/other/ls", ruleCommandOwn},
		{"{T}/bin:{T}/data/bin", "ls", "low"},
		{"{T}/data/bin:{T}/bin", "ls", ruleCommandOwn},
		{"{W}:{T}/bin", "ls", ruleCommandOwn},
		{"{W}/none:{T}/bin", "ls", ruleCommandOwn},
		{".:{T}/bin", "ls", ruleCommandOwn},
		{":{T}/bin", "ls", ruleCommandOwn},
		{"{T}/bin:", "wc", ruleCommandOwn},
		{"{T}/aside", "wc", ruleCommandOwn},
		{"{T}/bin", "pwd", "low"},
		{"{T}/bin", "{T}/bin/pwd", ruleCommandOwn},
		{"{T}/bin", "env ls", "low"},
		{"{W}:{T}/bin", "env ls", ruleCommandNotAllowed},
	} {
		t.Setenv("PATH", f.fill(c.path))
		v, err := policies["default"].Command(f.fill(c.line))
		if got := f.said(t, v, err); got != c.want {
			t.Errorf("PATH=%s: %s: %s (%v), want %s", c.path, c.line, got, err, c.want)
		}
	}
}
