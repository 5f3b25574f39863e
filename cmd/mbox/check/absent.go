package check

import (
	"fmt"
	"time"

	"mbox/agents/life"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/schemas"
)

// Absent are the agents that were born, that may claim, and of whose workers nothing has
// been heard for three idle intervals. One that mbox up would not run has no worker.
func Absent(c *config.File, box *mailbox.Box) (found []Finding, err error) {
	all, err := mailbox.AgentsOf(box)
	if err != nil {
		return nil, err
	}
	for _, name := range c.AgentNames() {
		a := c.Agents[name]
		if told, is := all[name]; !is || !told.At(box.Options().Now()).Claims() || !a.Enabled || !a.HasWorker() {
			continue
		}
		every := time.Duration(a.IdleInterval)
		since, stale := life.Seen(box, name).Stale(box.Options().Now(), every)
		if !stale {
			continue
		}
		f := Finding{Check: "agents", Level: Wrong, Agent: name, Hint: "mbox up, which runs " + name}
		f.Text = name + " is offline: nothing has been heard of its worker"
		if !since.IsZero() {
			f.Text = fmt.Sprintf("%s is offline: its worker was heard of %s ago, and says each %s that it is there", name, schemas.Ago(since, box.Options().Now()), config.Span(every))
		}
		if box.Routed() {
			f.Hint = "mbox agent show " + schemas.ShellWord(name) + "; mbox up runs it when it is started anew"
		}
		found = append(found, f)
	}
	return found, nil
}
