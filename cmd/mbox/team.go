package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mbox/agents"
	agentshome "mbox/agents-home"
	"mbox/agents/acp"
	"mbox/agents/agentzero"
	"mbox/agents/brain"
	"mbox/agents/policy"
	"mbox/agents/sandbox"
	"mbox/agents/secret"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/home"
	"mbox/schemas"
)

// assemble makes the agents of a mailbox from its configuration. Nothing is asked
// and nothing is started: a brain that cannot be made (a key that is missing)
// is one that says so when it is asked.
func assemble(c *config.File, dir string) (*agents.Team, error) {
	salt, err := home.Salt(dir)
	if err != nil && !errors.Is(err, home.ErrSalt) {
		return nil, err
	}
	prompts, err := fs.Sub(agentshome.Prompts, "prompts")
	if err != nil {
		return nil, err
	}
	t := &agents.Team{
		Roles: c.TeamRoles(), Members: map[string]agents.Member{}, Policies: c.Policy(),
		Actions: policy.NewWindow(math.MaxInt, nil),
		Limits:  c.Limits(), HTTP: c.HTTP(), Compose: c.Compose(),
		MaxDepth: c.Delegation.MaxDepth, Salt: salt, Checks: config.Checks(c),
		Recall:  recallOf(c, dir),
		Confine: func(agent string) func(*exec.Cmd) error { return confinement(c, agent) },
		Env:     func(agent string) []string { return passedEnv(c, agent) },
		Budget: mailbox.Budget{
			mailbox.SpentChildren: int64(c.Delegation.MaxChildren), mailbox.SpentActions: int64(c.Delegation.MaxActions),
			mailbox.SpentTokens: int64(c.Delegation.MaxTokens), mailbox.SpentSeconds: int64(c.Delegation.MaxSeconds),
		},
		Prompts: agents.Prompts{Own: os.DirFS(filepath.Join(dir, "prompts")), Builtin: prompts},
	}
	for _, name := range c.AgentNames() {
		a := c.Agents[name]
		m := agents.Member{Enabled: a.Enabled, Role: a.Role, Actions: a.Actions, Asks: a.Whole()}
		if a.Role != "" && a.Brain.Kind != "none" {
			if m.Brain, err = brainOf(c, t, name, a); err != nil {
				m.Brain = noBrain{err}
			}
			if a.Brain.Kind == "ollama" {
				m.Context = c.Ollama.NumCtx
			}
		}
		t.Members[name] = m
	}
	return t, nil
}

// brainOf makes an agent's brain.
func brainOf(c *config.File, t *agents.Team, name string, a *config.Agent) (agents.Brain, error) {
	if err := c.BrainRefused(a); err != nil {
		return nil, err
	}
	role, _ := c.RoleOf(name)
	o := brain.Options{}
	switch a.Brain.Kind {
	case "ollama":
		o = brain.Options{
			URL: a.Brain.URL, Model: role.Model, Fallback: role.Fallback, Parallel: c.Ollama.Parallel, NumCtx: c.Ollama.NumCtx,
			NumThread: c.Ollama.NumThread, KeepAlive: c.Ollama.Keep(), AllowRemoteLLM: c.Ollama.AllowRemote,
		}
	case "openai":
		key, err := keyOf(c, &a.Brain)
		if err != nil {
			return nil, err
		}
		o = brain.Options{URL: a.Brain.URL, Model: role.Model, Key: key}
	case "exec":
		p, err := policy.ForAgent(t.Policies, name)
		if err == nil {
			err = mayThinkWith(p, a.Brain.Command)
		}
		if err != nil {
			return nil, err
		}
		o = brain.Options{Command: a.Brain.Command, Dir: p.Workspace, Env: append(passed(p.EnvPassthrough), "MBOX_AGENT="+name), Wrap: confinement(c, name), Unlock: func(ctx context.Context) ([]string, error) {
			values, err := secret.Open(ctx, t.Policies.Home, name)
			return values.Environment(), err
		}}
	}
	switch {
	case a.Brain.Temperature != nil:
		o.Temperature = *a.Brain.Temperature
	case a.Brain.Kind != "exec": // a command has none
		o.Temperature = -1 // the model's own
	}
	return brain.New(a.Brain.Kind, o)
}

// keyOf reads the key of an agent's brain; "" where none is configured. It is
// never kept, and never part of an error.
func keyOf(c *config.File, b *config.Brain) (brain.Key, error) {
	file := b.KeyFile
	if file != "" && !filepath.IsAbs(file) {
		file = filepath.Join(c.Home(), file)
	}
	return brain.ReadKey(file, b.KeyEnv, os.Getenv)
}

// passedEnv is the environment of an agent's commands: what every program needs,
// and what its risk profile passes through. An agent without a table has none.
func passedEnv(c *config.File, name string) []string {
	p, err := policy.ForAgent(c.Policy(), name)
	if err != nil {
		return passed(nil)
	}
	return passed(p.EnvPassthrough)
}

// secretName tells by a variable's name whether its value is a secret.
var secretName = schemas.Pattern(`(?i)key|token|secret|passw|pwd|auth|cred|cookie`)

// passedSecrets are the values that an agent's commands get and nobody else may see.
func passedSecrets(c *config.File, name string) (secrets []string) {
	for _, set := range passedEnv(c, name) {
		if variable, value, _ := strings.Cut(set, "="); secretName().MatchString(variable) {
			secrets = append(secrets, value)
		}
	}
	return secrets
}

// passed is never nil, which would be all of mbox's own.
func passed(names []string) []string {
	env := []string{}
	for _, name := range slices.Concat([]string{"PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME"}, names) {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// runtimeOf is what does an agent's tasks whole in the place of a command; nil for
// none.
func runtimeOf(c *config.File, a *config.Agent) agents.Runtime {
	switch z := a.AgentZero; {
	case a.ACP != "":
		return &acp.Agent{Command: a.ACP}
	case z.URL != "":
		key, err := keyOf(c, &config.Brain{KeyFile: z.KeyFile})
		if err != nil {
			return noRuntime{err}
		}
		g, err := agentzero.New(z.URL, key)
		if err != nil {
			return noRuntime{err}
		}
		return g
	}
	return nil
}

// noRuntime is a runtime that could not be made. No task is at fault.
type noRuntime struct{ why error }

func (noRuntime) Here() bool { return false }

func (n noRuntime) Work(context.Context, *agents.Job) agents.Done {
	return agents.Done{Release: n.why.Error(), Delay: time.Minute}
}

// mayThinkWith holds the command of an exec brain against the policy's table of
// commands. Nobody is there to approve it each time, so it has to need no
// approval.
func mayThinkWith(p *policy.Policy, command string) error {
	verdict, err := p.Command(command)
	if err != nil {
		return err
	}
	if verdict.NeedsApproval {
		return fmt.Errorf("the command of the brain is of %s risk and would need an approval each time; require_approval_for_medium_risk = false in [risk_profiles.%s] lifts that", verdict.Risk, p.RiskProfileName)
	}
	return nil
}

// confinement is what puts an agent's commands into its sandbox; nil if it has
// none, as an agent without a table.
func confinement(c *config.File, name string) func(*exec.Cmd) error {
	if c.Agents[name] == nil {
		return nil
	}
	p, err := policy.ForAgent(c.Policy(), name)
	if err != nil {
		return func(*exec.Cmd) error { return err }
	}
	if p.Sandbox != "landlock" {
		return nil
	}
	rules := sandbox.Rules{
		Mailbox: c.Home(), Workspace: p.Workspace, ReadWrite: p.ReadWrite, ReadOnly: p.ReadOnlyRoots, WriteOnly: p.WriteOnly,
		Protected: p.Protected, Self: p.Self, Memory: p.Memory, Network: p.SandboxNetwork,
	}
	return func(cmd *exec.Cmd) error { return sandbox.Confine(cmd, rules) }
}

// mayStart refuses to let agents work whose folders could become others, or
// whose sandbox cannot be had.
func mayStart(c *config.File, names ...string) error {
	if err := inheritNothing(); err != nil {
		return err
	}
	for _, name := range names {
		if a := c.Agents[name]; a == nil || !a.Enabled {
			continue
		}
		p, err := policy.ForAgent(c.Policy(), name)
		if err == nil {
			err = p.CheckRoots(others(c, name)...)
		}
		if err != nil {
			return &config.Error{File: filepath.Join(c.Home(), config.Name), Problem: err.Error()}
		}
	}
	return checkSandbox(c, names...)
}

// others are the policies of the other enabled agents: they may run in another
// process.
func others(c *config.File, than string) (all []*policy.Policy) {
	for _, name := range c.AgentNames() {
		if p, err := policy.ForAgent(c.Policy(), name); err == nil && name != than && c.Agents[name].Enabled {
			all = append(all, p)
		}
	}
	return all
}

// inheritNothing keeps what mbox was begun with open, beside its three streams,
// from the commands of agents. Its own files are closed for them already.
func inheritNothing() error {
	open, err := os.ReadDir("/dev/fd")
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return err
}

// checkSandbox refuses to work where commands are to be confined and this
// machine cannot.
func checkSandbox(c *config.File, names ...string) error {
	var asking []string
	for _, name := range c.Confined() {
		if slices.Contains(names, name) {
			asking = append(asking, name)
		}
	}
	if len(asking) == 0 {
		return nil
	}
	if err := sandbox.Probe().Err(); err != nil {
		return hint(fmt.Errorf("%s: the sandbox that mbox.toml asks for cannot be had: %w", strings.Join(asking, ", "), err),
			`sandbox = "none" in the agent's table lets it work without; mbox doctor tells what this machine offers`)
	}
	return nil
}

// noBrain is a brain that could not be made.
type noBrain struct{ why error }

func (b noBrain) fault() error {
	return &agents.BrainError{Fault: agents.BrainRefused, Text: b.why.Error()}
}

func (b noBrain) Think(context.Context, agents.Thought) (agents.Reply, error) {
	return agents.Reply{}, b.fault()
}

func (b noBrain) Ready(context.Context) error { return b.fault() }
