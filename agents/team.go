package agents

import (
	"cmp"
	"context"
	"maps"
	"os/exec"
	"slices"

	"mbox/agents/action"
	"mbox/agents/policy"
	"mbox/mailbox"
)

// Team is the agents of one mailbox and what each of them may do. It is made
// once, from the configuration, and then only read; any number of goroutines may
// ask it.
type Team struct {
	Roles    map[string]Role
	Members  Members
	Policies policy.Config
	Actions  *policy.Window        // actions of the last hour, over all agents of this process
	Limits   action.Limits         // of parameters
	HTTP     action.HTTPOptions    // of http_check
	Compose  action.ComposeOptions // of deploy_compose
	Budget   mailbox.Budget        // of a tree that is begun
	MaxDepth int                   // of delegation
	Salt     []byte                // of the mailbox, for the hashes of what is redacted
	Prompts  Prompts

	Checks  map[string]Check                         // by their names
	Recall  Recall                                   // nil: nobody remembers anything
	Confine func(agent string) func(*exec.Cmd) error // puts an agent's commands into its sandbox; nil if it has none
	Env     func(agent string) []string              // the environment of an agent's commands
}

// Recall returns what an agent remembers about some words, the best first. Each is one
// text that says whose memory it is from, and where it comes from.
type Recall func(ctx context.Context, agent, about string) ([]string, error)

// Member is one agent of the team.
type Member struct {
	Enabled bool
	Role    string   // "" for an agent that does its tasks by a command of its own
	Actions []string // that an agent without a role takes
	Asks    bool     // a command or a runtime does its tasks, and may ask persons for permissions
	Brain   Brain    // nil: it does tasks that carry an action, and no others
	Context int      // tokens of prompt and reply together that the brain has room for; 0: not known
}

// Members are the agents of a team by their names.
type Members map[string]Member

// Find finds the enabled agent of the name, or else the first enabled agent of the role
// that has the name, or else an agent of the name that is not enabled. Where there is none
// it returns the name.
func (all Members) Find(name string) (agent string, m Member, ok bool) {
	own, is := all[name]
	if own.Enabled {
		return name, own, true
	}
	for _, agent := range slices.Sorted(maps.Keys(all)) {
		if m := all[agent]; m.Role == name && m.Enabled {
			return agent, m, true
		}
	}
	return name, own, is
}

// role is an agent's role; the zero Role, which allows nothing, where it has
// none.
func (t *Team) role(agent string) Role { return t.Roles[t.Members[agent].Role] }

// maxDepth is the depth that an agent's children may not reach.
func (t *Team) maxDepth(p *policy.Policy) int64 {
	most := int64(cmp.Or(t.MaxDepth, mailbox.MaxDepth))
	if own := int64(p.MaxDepth); own > 0 {
		most = min(most, own)
	}
	return most
}
