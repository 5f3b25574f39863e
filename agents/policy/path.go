package policy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mbox/schemas"
)

// Place is where a path that is allowed leads: open Root with os.OpenRoot, and
// Rel in it. Root is the folder that allows it, so that what happens to be a
// symlink by then leads nowhere else; both are free of symlinks as of the
// decision. Where no folder has allowed it (no boundary) Root is "/".
type Place struct {
	Root   string
	Rel    string // "." for the root itself
	Device bool   // one of the four devices, which is no regular file
}

// Path is the place in one piece.
func (p Place) Path() string { return filepath.Join(p.Root, p.Rel) }

const nullDevice = "/dev/null"

// readable are the devices that everybody may read.
var readable = []string{nullDevice, "/dev/zero", "/dev/random", "/dev/urandom"}

// Read decides whether the agent may read a path: absolute, from the workspace,
// from a sibling's with NAME:path, or from the user's home with ~/. It need not
// exist. What allows it first, or
// refuses it first, in this order, is the answer:
//
//	the form of the path                               path_nul, path_parent, …
//	as it is written: devices, .mbox and audit, in the workspace or any list,
//	else workspace_only, else forbidden_paths
//	where it leads:   devices, .mbox and audit (no), workspace, read-write,
//	read-only, write-only (no), forbidden_paths (no), workspace_only (no)
//
// The error is a [*Denied].
func (p *Policy) Read(path string) (Place, error) {
	lexical, resolved, err := p.follow(path, "read", readable)
	if err != nil {
		return Place{}, err
	}
	if slices.Contains(readable, resolved) {
		return device(resolved), nil
	}
	if inAny(resolved, p.Private) {
		return Place{}, p.deny(rulePathPrivate, "read", path)
	}
	if place, ok := grant(resolved, slices.Concat([]string{p.Workspace}, p.ReadWrite, p.ReadOnlyRoots)); ok {
		return place, nil
	}
	if inAny(resolved, p.WriteOnly) || inAny(lexical, p.WriteOnly) {
		return Place{}, p.deny(rulePathWriteOnly, "read", path)
	}
	return p.outside("read", path, resolved)
}

// Write decides whether the agent may create, change or remove a path. The order
// is that of [Policy.Read] with these differences: a level of readonly refuses
// everything; of the devices only /dev/null; nothing that is Protected; the
// lists are workspace, read-write and write-only.
func (p *Policy) Write(path string) (Place, error) {
	if p.Level != Supervised && p.Level != Full {
		return Place{}, p.deny(ruleLevelReadOnly, "write", path)
	}
	return p.mayWrite(path)
}

// mayWrite is Write without the level.
func (p *Policy) mayWrite(path string) (Place, error) {
	lexical, resolved, err := p.follow(path, "write", []string{nullDevice})
	if err != nil {
		return Place{}, err
	}
	if resolved == nullDevice {
		return device(resolved), nil
	}
	for _, form := range []string{lexical, resolved} {
		if rule := p.protected(form); rule != "" {
			return Place{}, p.deny(rule, "write", path)
		}
	}
	if place, ok := grant(resolved, slices.Concat([]string{p.Workspace}, p.ReadWrite, p.WriteOnly)); ok {
		return place, nil
	}
	return p.outside("write", path, resolved)
}

// follow refuses what can be refused as it is written, and finds where the rest
// leads.
func (p *Policy) follow(path, verb string, devices []string) (lexical, resolved string, err error) {
	if rule := suspicious(path); rule != "" {
		return "", "", p.deny(rule, verb, path)
	}
	lexical, rule := p.absolute(path)
	if rule == "" {
		rule = p.refusedAsWritten(lexical, devices)
	}
	if rule != "" {
		return "", "", p.deny(rule, verb, path)
	}
	if resolved, err = resolve(lexical); err != nil {
		return "", "", p.deny(rulePathUnresolved, verb, path)
	}
	return lexical, resolved, nil
}

func (p *Policy) refusedAsWritten(lexical string, devices []string) string {
	switch {
	case slices.Contains(devices, lexical):
		return ""
	case inAny(lexical, p.Private):
		return rulePathPrivate
	case inAny(lexical, slices.Concat([]string{p.Workspace}, p.ReadWrite, p.ReadOnlyRoots, p.WriteOnly)):
		return ""
	case p.WorkspaceOnly:
		return rulePathOutside
	case inAny(lexical, p.Forbidden):
		return rulePathForbidden
	}
	return ""
}

// outside decides on what no list has allowed.
func (p *Policy) outside(verb, path, resolved string) (Place, error) {
	forbidden := inAny(resolved, p.Forbidden)
	switch {
	case (forbidden || p.WorkspaceOnly) && verb == "write" && inAny(resolved, p.ReadOnlyRoots):
		return Place{}, p.deny(rulePathReadOnly, verb, path)
	case forbidden:
		return Place{}, p.deny(rulePathForbidden, verb, path)
	case p.WorkspaceOnly:
		return Place{}, p.deny(rulePathOutside, verb, path)
	}
	place, _ := grant(resolved, []string{"/"})
	return place, nil
}

// protected gives the rule under which a path is mbox's own to write, "" for
// none. The files of agents' homes and copies of mbox.toml are known by their
// form, so that an agent which joins later is covered.
func (p *Policy) protected(path string) string {
	switch {
	case inAny(path, p.Private):
		return rulePathPrivate
	case inAny(path, p.Protected):
		return rulePathProtected
	case p.Home == "":
		return ""
	}
	homes := []string{filepath.Clean(p.Home)}
	if led, err := resolve(p.Home); err == nil {
		homes = append(homes, led)
	}
	for _, home := range homes {
		if rel, ok := below(path, home); ok && ownFile(rel) {
			return rulePathProtected
		}
	}
	return ""
}

func ownFile(rel string) bool {
	at := strings.Split(rel, "/")
	switch {
	case len(at[0]) >= len("mbox.toml") && sameName(at[0][:len("mbox.toml")], "mbox.toml"):
		return true
	case len(at) >= 3 && sameName(at[0], "agents"):
		return slices.ContainsFunc(protectedOfAgents, func(own string) bool { return sameName(at[2], own) })
	}
	return false
}

// inAny tells whether a path lies in one of the folders, as they are written or
// where they lead. A folder that cannot be followed counts as it is written.
func inAny(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		if folder == "" {
			return false
		}
		if folder = filepath.Clean(folder); within(path, folder) {
			return true
		}
		led, err := resolve(folder)
		return err == nil && within(path, led)
	})
}

// grant finds the first folder that a path without symlinks lies in.
func grant(path string, folders []string) (Place, bool) {
	for _, folder := range folders {
		root, err := resolve(folder)
		if err != nil {
			continue
		}
		if rel, ok := below(path, root); ok {
			return Place{Root: root, Rel: rel}, true
		}
	}
	return Place{}, false
}

func device(path string) Place {
	return Place{Root: filepath.Dir(path), Rel: filepath.Base(path), Device: true}
}

// deny words a refusal.
func (p *Policy) deny(rule, verb, path string) *Denied {
	words := pathWords[rule]
	why, hint := words.why, words.hint
	if strings.Contains(hint, "%") {
		hint = strings.NewReplacer("%p", "risk_profiles."+p.RiskProfileName, "%a", "agents."+p.Agent).Replace(hint)
	}
	return &Denied{Rule: rule, What: fmt.Sprintf("%s %s", verb, schemas.Quote(path)), Why: why, Hint: hint}
}

const ownFolder = "no key of mbox.toml allows it; name a path from %a.workspace.path"

// pathWords say why, and what would have to be changed; %p and %a stand for the
// tables of the risk profile and of the agent.
var pathWords = map[string]struct{ why, hint string }{
	rulePathEmpty:     {"a path needs a name", ownFolder},
	rulePathLong:      {"a path cannot have more than 4096 bytes", ownFolder},
	rulePathNUL:       {"a path cannot have a NUL", ownFolder},
	rulePathEncoding:  {"a path must be UTF-8", ownFolder},
	rulePathControl:   {"a path cannot have control characters", ownFolder},
	rulePathBackslash: {"a path cannot have backslashes", ownFolder},
	rulePathParent:    {"a path cannot have a component ..", ownFolder},
	rulePathEncoded:   {"a path cannot have an encoded ..", ownFolder},
	rulePathUser:      {"a path cannot begin in another user's home", ownFolder},

	rulePathDead:       {"its agent is dead", "mbox agent list shows who is there; name one of them, or a path from %a.workspace.path in mbox.toml"},
	rulePathUnresolved: {"where it leads cannot be found out", "see that the folders on the way can be searched and its symlinks end, or name a path from %a.workspace.path in mbox.toml"},
	rulePathPrivate:    {"it is private to mbox", "no key of mbox.toml opens it, %p.allowed_roots neither"},
	rulePathProtected:  {"only mbox writes there", "no key of mbox.toml opens it, %p.allowed_roots neither"},
	rulePathWriteOnly:  {"the agent may write there but not read", `give %a.workspace.access of its owner the value "read_write" in mbox.toml`},
	rulePathReadOnly:   {"the agent may read there but not write", `give %a.workspace.access of its owner the value "read_write" in mbox.toml`},
	rulePathForbidden:  {"it lies in a forbidden folder", "name its folder in %p.allowed_roots in mbox.toml, or take it out of forbidden_paths"},
	rulePathOutside:    {"it lies outside the workspace and the lists", "name its folder in %p.allowed_roots in mbox.toml, or another agent in %a.workspace.access"},
	ruleLevelReadOnly:  {"the agent's level lets it only read", `set %p.level = "supervised" in mbox.toml`},
}
