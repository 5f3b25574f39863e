package agents

import (
	"cmp"
	"strings"

	"mbox/agents/action"
)

// inputsFolder holds, in a workspace, what the tasks in progress may read.
const inputsFolder = "inputs"

// fromWorkspace is a path that an agent names, as it is from the workspace. Where
// the agent's role has a folder, its relative paths begin there, but for those that
// name that folder itself, inputs or a folder of the write roots; ./ begins in the
// workspace. NAME:path is a path of NAME's, whichever of its names that is.
func (t *Team) fromWorkspace(agent, path string) string {
	owner, rest, ofOther := strings.Cut(path, ":")
	owner = cmp.Or(t.Policies.Former[owner], owner)
	_, known := t.Members[owner]
	switch {
	case ofOther && !known && t.Policies.Dead != nil && t.Policies.Dead(owner):
		return path // which the policy refuses
	case !ofOther || !known:
		owner, rest = agent, path
	}
	folder := t.role(owner).Folder
	if folder == "" || rest == "" || strings.ContainsAny(rest[:1], "/~") || strings.HasPrefix(rest, "./") ||
		action.Below(rest+"/x", append([]string{folder, inputsFolder}, t.Limits.WriteRoots...)...) { // or is one of them
		return path
	}
	return strings.TrimSuffix(path, rest) + folder + "/" + rest
}
