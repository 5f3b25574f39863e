package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mbox/schemas"
)

const (
	delegationForbidden = "forbidden"
	delegationAllow     = "allow"

	sandboxNone     = "none"
	sandboxLandlock = "landlock"
)

// Invalid is a value in mbox.toml that cannot be: which key, what is wrong with
// its value, and what to write instead.
type Invalid struct {
	Key     string // risk_profiles.careful.level
	Problem string // "read_only" is no level; write "readonly"
}

func (e *Invalid) Error() string { return e.Key + ": " + e.Problem }

// faults collects what is wrong below one table.
type faults struct {
	table string
	found []error
}

func (f *faults) add(key, format string, a ...any) {
	f.found = append(f.found, &Invalid{Key: f.table + "." + key, Problem: fmt.Sprintf(format, a...)})
}

func (f *faults) err() error { return errors.Join(f.found...) }

// Check builds every policy that a configuration describes and gives everything
// that is wrong, each an [*Invalid] in a joined error, always in the same order.
func Check(c Config) error {
	var found []error
	for _, name := range slices.Sorted(maps.Keys(c.RiskProfiles)) {
		found = append(found, CheckRiskProfile(name, c.RiskProfiles[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(c.RuntimeProfiles)) {
		found = append(found, CheckRuntimeProfile(name, c.RuntimeProfiles[name]))
	}
	if err := errors.Join(found...); err != nil {
		return err // an agent's policy would only tell the same again
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		_, err := ForAgent(c, name)
		found = append(found, err)
	}
	return errors.Join(found...)
}

// CheckRiskProfile gives what is wrong in a risk profile, each an [*Invalid].
// What mbox does not do is refused by name: a profile that asks for it would
// promise something that nobody keeps.
func CheckRiskProfile(name string, p RiskProfile) error {
	f := &faults{table: "risk_profiles." + name}
	checkLevel(f, p.Level)
	checkCommands(f, p.AllowedCommands)
	checkForbidden(f, p.ForbiddenPaths)
	checkRoots(f, p.AllowedRoots)
	checkEnvironment(f, p.ShellEnvPassthrough)
	checkTools(f, p)
	checkDelegation(f, p.DelegationPolicy)
	checkSandbox(f, p)
	return f.err()
}

func checkLevel(f *faults, level string) {
	levels := []string{ReadOnly, Supervised, Full}
	switch {
	case slices.Contains(levels, level):
	case level == "read_only" || level == "read-only":
		f.add("level", `%s is no level; write "readonly"`, schemas.Quote(level))
	default:
		f.add("level", "%s is no level; %s", schemas.Quote(level), orMeant(level, levels))
	}
}

// orMeant is the fix for a word that is none of a few.
func orMeant(word string, known []string) string {
	if near := schemas.Suggest(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "write one of " + strings.Join(known, ", ")
}

func checkCommands(f *faults, commands []string) {
	for i, c := range commands {
		if strings.ContainsFunc(c, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			f.add(fmt.Sprintf("allowed_commands[%d]", i), "%s is no command's name; write the name alone, without arguments", schemas.Quote(c))
		}
	}
}

func checkForbidden(f *faults, paths []string) {
	for i, p := range paths {
		key := fmt.Sprintf("forbidden_paths[%d]", i)
		switch {
		case !strings.HasPrefix(p, "/") && p != "~" && !strings.HasPrefix(p, "~/"):
			f.add(key, "%s is not absolute; begin it with / or ~/", schemas.Quote(p))
		case strings.ContainsRune(p, 0):
			f.add(key, "%s has a NUL; take it out", schemas.Quote(p))
		}
	}
}

func checkRoots(f *faults, roots []string) {
	for i, r := range roots {
		key := fmt.Sprintf("allowed_roots[%d]", i)
		switch {
		case strings.HasPrefix(r, "~") && r != "~" && !strings.HasPrefix(r, "~/"):
			f.add(key, "%s is another user's home; write the whole path", schemas.Quote(r))
		case strings.ContainsRune(r, 0):
			f.add(key, "%s has a NUL; take it out", schemas.Quote(r))
		}
	}
}

var variable = schemas.Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

func checkEnvironment(f *faults, names []string) {
	for i, name := range names {
		if !variable().MatchString(name) {
			f.add(fmt.Sprintf("shell_env_passthrough[%d]", i), "%s is no variable's name; write the name alone, without = and patterns", schemas.Quote(name))
		}
	}
}

// checkTools refuses a tool that is both allowed and excluded: one of the two
// lines is a mistake. (always_ask simply goes before auto_approve, which is
// never empty by default.)
func checkTools(f *faults, p RiskProfile) {
	for _, t := range p.ExcludedTools {
		if slices.Contains(p.AllowedTools, t) {
			f.add("excluded_tools", "%s stands in allowed_tools too; take it out of one of them", schemas.Quote(t))
		}
	}
}

func checkDelegation(f *faults, d DelegationPolicy) {
	switch d.Mode {
	case "", delegationForbidden, delegationAllow:
	default:
		f.add("delegation_policy.mode", "%s is no mode; %s", schemas.Quote(d.Mode), orMeant(d.Mode, []string{delegationForbidden, delegationAllow}))
	}
}

func checkSandbox(f *faults, p RiskProfile) {
	switch b := p.SandboxBackend; {
	case b != "" && b != sandboxNone && b != sandboxLandlock:
		f.add("sandbox_backend", "%s is not supported; write none or landlock", schemas.Quote(b))
	case b == sandboxLandlock && !p.SandboxEnabled:
		f.add("sandbox_backend", `"landlock" without sandbox_enabled confines nothing; write sandbox_enabled = true too`)
	case b == sandboxNone && p.SandboxEnabled:
		f.add("sandbox_backend", `"none" with sandbox_enabled confines nothing; write "landlock", or sandbox_enabled = false`)
	}
}

// CheckRuntimeProfile gives what is wrong in a runtime profile, each an [*Invalid].
func CheckRuntimeProfile(name string, p RuntimeProfile) error {
	f := &faults{table: "runtime_profiles." + name}
	for _, n := range []struct {
		key   string
		value int
	}{
		{"max_tool_iterations", p.MaxToolIterations},
		{"max_actions_per_hour", p.MaxActionsPerHour},
		{"max_delegation_depth", p.MaxDelegationDepth},
		{"delegation_timeout_secs", p.DelegationTimeout},
		{"agentic_timeout_secs", p.AgenticTimeoutSecs},
		{"memory_recall_limit", p.MemoryRecallLimit},
	} {
		if n.value < 0 {
			f.add(n.key, "%d is too small; write 0 or more", n.value)
		}
	}
	return f.err()
}
