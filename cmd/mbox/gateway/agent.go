package gateway

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// mostPause is how long a pause with an end lasts at most.
const mostPause = 366 * 24 * time.Hour

func agentRoutes() []route {
	return []route{
		{method: "POST", path: "/agents/{name}/pause", needs: operate, about: "keep an agent from claiming; it goes on with what it has", takes: PauseOrder{}, optional: true, gives: AgentDone{}, do: toldAgent[PauseOrder]((*call).pause)},
		{method: "POST", path: "/agents/{name}/resume", needs: operate, about: "let a paused agent claim again", takes: ResumeOrder{}, optional: true, gives: AgentDone{}, do: toldAgent[ResumeOrder]((*call).resume)},
	}
}

// PauseOrder is what may be said with pause.
type PauseOrder struct {
	Reason string `json:"reason,omitzero" jsonschema:"maxLength=300,description=in the person's words"`
	For    string `json:"for,omitzero" jsonschema:"description=when it ends by itself\\, never if missing"`
}

// ResumeOrder is what may be said with resume.
type ResumeOrder struct {
	Reason string `json:"reason,omitzero" jsonschema:"maxLength=300,description=in the person's words"`
}

func (o PauseOrder) order() anyOrder  { return anyOrder{Reason: o.Reason, For: o.For} }
func (o ResumeOrder) order() anyOrder { return anyOrder{Reason: o.Reason} }

// AgentDone is what an agent is then.
type AgentDone struct {
	Name      string        `json:"name"`
	Lifecycle mailbox.Agent `json:"lifecycle"`
	Note      string        `json:"note,omitzero" jsonschema:"description=what is still to be done\\, by mbox itself"`
}

// agentVerb is what may be done with an agent.
type agentVerb func(c *call, name string, o anyOrder) (mailbox.Agent, error)

// toldAgent is a route by which a verb is said about an agent, with an order of its own kind.
func toldAgent[T interface{ order() anyOrder }](do agentVerb) func(*call) error {
	return func(c *call) error {
		var given T
		if err := c.order(&given); err != nil {
			return err
		}
		out, err := c.decideAgent(do, c.r.PathValue("name"), given.order())
		if err != nil {
			return err
		}
		return c.json(http.StatusOK, out)
	}
}

// decideAgent does what a verb says with an agent that somebody has heard of.
func (c *call) decideAgent(do agentVerb, name string, o anyOrder) (AgentDone, error) {
	out := AgentDone{Name: name}
	if err := o.check(); err != nil {
		return out, err
	}
	if err := c.heardOf(name); err != nil {
		return out, err
	}
	name, err := mailbox.AgentCalled(c.Box, name)
	if err != nil {
		return out, err
	}
	out.Name = name
	if out.Lifecycle, err = do(c, name, o); errors.Is(err, mailbox.ErrCommitted) {
		_, out.Note = c.door.o.Judge(err)
		out.Lifecycle, err = mailbox.AgentOf(c.Box, name)
	}
	if errors.Is(err, mailbox.ErrConflict) {
		err = &refusal{http.StatusConflict, err.Error(), "mbox agent show " + schemas.ShellWord(name) + " tells what it is, and why"}
	}
	return out, err
}

func (c *call) pause(name string, o anyOrder) (mailbox.Agent, error) {
	p := mailbox.Pause{Agent: name, By: c.by(), Reason: c.reason(o)}
	lasting, err := lasts("for", o.For, 0, mostPause)
	if err != nil {
		return mailbox.Agent{}, err
	}
	if lasting > 0 {
		p.Until = c.door.o.Now().Add(lasting)
	}
	return mailbox.PauseAgent(c.ctx, c.Box, p)
}

func (c *call) resume(name string, o anyOrder) (mailbox.Agent, error) {
	return mailbox.ResumeAgent(c.ctx, c.Box, name, c.by(), c.reason(o))
}

// heardOf refuses a name that is neither in the registry nor in the ledger.
func (c *call) heardOf(name string) error {
	if err := task.CheckAgent(name); err != nil {
		return renamed(err, "agent", "name") // as openapi.json calls it
	}
	if _, ok := c.Agents[name]; ok {
		return nil
	}
	x, err := c.Box.Index()
	if err != nil {
		return err
	}
	if name, err = mailbox.AgentCalled(c.Box, name); err != nil {
		return err
	}
	_, told := x.Agents[name]
	if told || slices.ContainsFunc(x.Live, func(l mailbox.Live) bool { return l.Claimant == name || l.Target == name }) {
		return nil
	}
	names := slices.Collect(maps.Keys(c.Agents))
	return &refusal{http.StatusNotFound, fmt.Sprintf("there is no agent %s%s", name, schemas.Meant(name, names)), "GET /health lists the agents of mbox.toml"}
}
