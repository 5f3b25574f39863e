package main

import (
	"fmt"

	"mbox/cmd/mbox/config"
)

// environment names variables that are set in vain, and model servers that are
// not asked.
func (e *exam) environment() {
	c := e.s.config
	if c == nil {
		return
	}
	for _, text := range c.Unread() {
		e.add("environment", doubt, "", "%s", text)
	}
	told := map[string]bool{}
	for _, name := range c.AgentNames() {
		a := c.Agents[name]
		err := c.BrainRefused(a)
		if err == nil || !a.Enabled || told[err.Problem] {
			continue
		}
		told[err.Problem] = true
		e.add("models", doubt, err.Hint, "%v", err)
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
	text = fmt.Sprintf("%d agents %s", count, size(need))
	if here {
		need += ollamaMemory
		text += ", Ollama " + size(uint64(ollamaMemory))
	}
	return need, text
}

// budget compares that with what there is.
func (e *exam) budget() {
	free, err := availableMemory()
	if e.s.config == nil || err != nil {
		return // is told elsewhere
	}
	switch need, text := budget(e.s.config); {
	case need == 0:
	case need+spareMemory > free:
		e.add("budget", doubt, "a lighter model for all (MBOX_MODEL=tinyllama), or enabled = false for an agent",
			"agents that think need about %s (%s), %s are available", size(need), text, size(free))
	default:
		e.add("budget", fine, "", "agents that think need about %s (%s)", size(need), text)
	}
}
