package check

import (
	"fmt"
	"time"

	"mbox/agents/life"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/schemas"
)

// Absent are the agents that were born, that may claim, and of which nothing has been heard
// for three idle intervals. One that mbox up would not run says itself that it is there: as
// long as it never has, nobody misses it.
func Absent(c *config.File, box *mailbox.Box) (found []Finding, err error) {
	all, err := mailbox.AgentsOf(box)
	if err != nil {
		return nil, err
	}
	now := box.Options().Now()
	for _, name := range c.AgentNames() {
		a := c.Agents[name]
		if told, is := all[name]; !is || !told.At(now).Claims() || !a.Enabled {
			continue
		}
		if since, stale := life.Seen(box, name).Stale(now, time.Duration(a.IdleInterval), a.HasWorker()); stale {
			found = append(found, absent(box, name, a, since))
		}
	}
	return found, nil
}

// absent tells of an agent of which nothing was heard since then; never, if that is zero.
func absent(box *mailbox.Box, name string, a *config.Agent, since time.Time) Finding {
	whose, word := "its worker", schemas.ShellWord(name)
	f := Finding{Check: "agents", Level: Wrong, Agent: name, Hint: "mbox up, which runs " + name}
	switch {
	case !a.HasWorker():
		whose, f.Hint = "it", "start what works as "+name+": it says POST /api/agents/"+name+"/heartbeat, or is mbox worker --agent "+word+" --exec CMD; mbox agent pause "+word+" has nobody wait for it"
	case box.Routed():
		f.Hint = "mbox agent show " + word + "; mbox up runs it when it is started anew"
	}
	f.Text = name + " is offline: nothing has been heard of " + whose
	if !since.IsZero() {
		f.Text = fmt.Sprintf("%s is offline: %s was heard of %s ago, and says each %s that it is there", name, whose, schemas.Ago(since, box.Options().Now()), config.Span(time.Duration(a.IdleInterval)))
	}
	return f
}
