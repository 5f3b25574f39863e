package agents

import (
	"slices"
	"time"
)

// Role is what an agent that thinks is there for, and the bounds of its
// thinking. Roles are data: a new one is an entry in the configuration.
type Role struct {
	Name         string
	Purpose      string   // one sentence; it stands in the prompt, and tells others what to hand over
	Model        string   // that is asked
	Fallback     []string // models asked in this order where Model cannot answer
	Capabilities []string // words for what it can do; they stand in prompts, and allow nothing
	Actions      []string // that it may do; what is not listed is refused
	Folder       string   // of its agent's workspace, in which its relative paths begin; "" for the workspace
	Autorun      bool     // write_file takes names that programs run by themselves
	MaxTokens    int      // of one reply
	Timeout      time.Duration
}

// Allows tells whether the role may do the action.
func (r Role) Allows(action string) bool { return slices.Contains(r.Actions, action) }

// Limits of a role whose configuration names none.
const (
	DefaultModel     = "phi4-mini"
	DefaultMaxTokens = 2048
	DefaultTimeout   = 300 * time.Second
)

// DefaultRoles are the four roles that there are without any configuration.
func DefaultRoles() map[string]Role {
	roles := map[string]Role{}
	for _, r := range []Role{
		{
			Name: "coordinator", Purpose: "Splits a task into parts, hands each to the agent that can do it, and puts the results together.",
			Model: "tinyllama", Capabilities: []string{"planning", "delegation", "aggregation"},
			Actions: []string{"delegate"}, MaxTokens: 4096, Timeout: 300 * time.Second,
		},
		{
			Name: "coder", Purpose: "Writes text, code and configuration into files of its workspace.",
			Model: "phi4-mini", Capabilities: []string{"code", "files"}, Folder: "projects",
			Actions: []string{"write_file", "read_file"}, MaxTokens: 3072, Timeout: 300 * time.Second,
		},
		{
			Name: "deployer", Purpose: "Checks and deploys compose files.",
			Model: "phi4-mini", Capabilities: []string{"containers"},
			Actions: []string{"deploy_compose"}, MaxTokens: 2048, Timeout: 600 * time.Second,
		},
		{
			Name: "tester", Purpose: "Checks that web addresses answer and that files are there.",
			Model: "tinyllama", Capabilities: []string{"http", "files"},
			Actions: []string{"http_check", "file_check"}, MaxTokens: 2048, Timeout: 300 * time.Second,
		},
	} {
		roles[r.Name] = r
	}
	return roles
}
