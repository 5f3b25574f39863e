package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"mbox/agents"
	"mbox/cmd/mbox/config"
	"mbox/schemas"
)

// environment names variables that are set in vain, and model servers that are
// not asked.
func (e *Exam) environment() {
	c := e.Config
	if c == nil {
		return
	}
	for _, text := range c.Unread() {
		e.add("environment", Doubt, "", "%s", text)
	}
	told := map[string]bool{}
	for _, name := range c.AgentNames() {
		a := c.Agents[name]
		err := c.BrainRefused(a)
		if err == nil || !a.Enabled || told[err.Problem] {
			continue
		}
		told[err.Problem] = true
		e.add("models", Doubt, err.Hint, "%v", err)
	}
}

// What agents need of memory, as ColDBase gives it: each by its role,
// and Ollama with one small model. spareMemory should be left over.
const (
	megabyte     = 1 << 20
	agentMemory  = 256 * megabyte
	testerMemory = 128 * megabyte
	ollamaMemory = gigabyte
	spareMemory  = 500 * megabyte
)

// budget estimates what the agents that are on need of this machine's memory.
func budget(c *config.File) (need uint64, text string) {
	count, here := 0, false
	for _, a := range c.Agents {
		if !a.Enabled || a.Role == "" {
			continue
		}
		count++
		if a.Role == "tester" {
			need += testerMemory
		} else {
			need += agentMemory
		}
		here = here || a.Brain.Here()
	}
	text = fmt.Sprintf("%d agents %s", count, schemas.Size(need))
	if here {
		need += ollamaMemory
		text += ", Ollama " + schemas.Size(uint64(ollamaMemory))
	}
	return need, text
}

// budget compares that with what there is.
func (e *Exam) budget() {
	free, err := availableMemory()
	if e.Config == nil || err != nil {
		return // is told elsewhere
	}
	switch need, text := budget(e.Config); {
	case need == 0:
	case need+spareMemory > free:
		e.add("budget", Doubt, "a lighter model for all (MBOX_MODEL=tinyllama), or enabled = false for an agent",
			"agents that think need about %s (%s), %s are available", schemas.Size(need), text, schemas.Size(free))
	default:
		e.add("budget", Fine, "", "agents that think need about %s (%s)", schemas.Size(need), text)
	}
}

// workers looks whether the enabled agents can do their tasks. That one cannot think
// is no more than a warning: it does tasks that carry an action all the same.
func (e *Exam) workers(ctx context.Context) {
	if e.Config == nil {
		return
	}
	team, err := e.Team(e.Config)
	if !e.check("agents", err) {
		return
	}
	if e.Pull != nil {
		if err := e.Pull(ctx); err != nil {
			e.add("models", Wrong, "is Ollama there, and can it reach the network?", "%v", err)
		}
	}
	e.Findings = append(e.Findings, Workers(ctx, e.Config, e.Home, team)...)
	e.embeddings(ctx)
}

// embeddings tells which enabled agents are to remember by meaning, and cannot.
func (e *Exam) embeddings(ctx context.Context) {
	for _, name := range e.Config.AgentNames() {
		if !e.Config.Agents[name].Enabled {
			continue
		}
		if err := e.Embeds(ctx, name); err != nil {
			e.add("embeddings", Doubt, "", "%s remembers by words alone: %v", name, err)
		}
	}
}

// Brain is the check whether an agent can think.
const Brain = "brain"

// mind tells whether an agent can think, by what its brain answers.
func mind(c *config.File, name string, err error) Finding {
	f := Finding{Check: Brain, Level: Doubt, Agent: name}
	var fault *agents.BrainError
	switch {
	case err == nil:
		role, _ := c.RoleOf(name)
		with := role.Model
		if b := c.Agents[name].Brain; b.Kind == "exec" {
			with = schemas.Sentence(b.Command, 60)
		}
		f.Level, f.Text = Fine, name+" can think, with "+with
	case errors.As(err, &fault) && fault.Fault == agents.BrainBusy:
		f.Level, f.Text = Fine, name+" waits for its turn: "+fault.Text
	case errors.As(err, &fault):
		f.Hint = cmp.Or(fault.Hint, "tasks that carry an action need no brain")
		f.Text = name + " cannot think: " + fault.Text
	default:
		f.Text = name + " cannot think: " + err.Error()
	}
	return f
}
