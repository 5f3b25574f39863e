package gateway

import (
	"errors"
	"fmt"
	"net/http"

	"mbox/agents/life"
	"mbox/mailbox"
	"mbox/schemas"
)

// mostAcked is how many items one request acknowledges.
const mostAcked = 100

func inboxRoutes() []route {
	return []route{
		{method: "GET", path: "/api/inbox", needs: post, agents: true, about: "the inbox of the agent whose token this is", gives: InboxPage{}, do: (*call).inbox},
		{method: "POST", path: "/api/inbox/ack", needs: post, agents: true, about: "acknowledge items of the inbox of the agent whose token this is", takes: Acks{}, gives: Acked{}, do: (*call).ack},
	}
}

// InboxPage is an agent's inbox.
type InboxPage struct {
	Agent string              `json:"agent"`
	Items []mailbox.InboxItem `json:"items"`
}

// Acks are items to be acknowledged.
type Acks struct {
	IDs []mailbox.ID `json:"ids" jsonschema:"required,minItems=1,maxItems=100,pattern=^[A-Za-z0-9][A-Za-z0-9._-]{0\\,127}$,description=of the items"`
}

// Acked are the items that are acknowledged now, or were before.
type Acked struct {
	IDs []mailbox.ID `json:"ids"`
}

// owner is whose inbox is meant: the token says that, and no parameter.
func (c *call) owner() (string, error) {
	if c.agent == "" {
		return "", &refusal{http.StatusForbidden, "this token is no agent's, and has no inbox", "mbox token create NAME --role agent --agent AGENT makes one; mbox inbox --agent AGENT shows any"}
	}
	return c.agent, nil
}

func (c *call) inbox() error {
	agent, err := c.owner()
	if err != nil {
		return err
	}
	if err := c.tidy(); err != nil {
		return err
	}
	items, err := mailbox.Inbox(c.ctx, c.Box, agent)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, InboxPage{agent, items})
}

// ack acknowledges one after the other. What was acknowledged before another one was
// refused stays so; the same request again changes nothing there.
func (c *call) ack() error {
	agent, err := c.owner()
	if err != nil {
		return err
	}
	data, err := c.body()
	if err != nil {
		return err
	}
	var acks Acks
	if err := schemas.Decode(data, &acks); err != nil {
		return err
	}
	if len(acks.IDs) == 0 || len(acks.IDs) > mostAcked {
		return badRequest("ids has to name 1 to 100 items", `{"ids": ["task-2026-02-16-001"]}`)
	}
	for i, id := range acks.IDs {
		if err := life.Acknowledge(c.ctx, c.Box, id, agent, ""); err != nil && !errors.Is(err, mailbox.ErrCommitted) {
			return renamed(aboutTask(id, err), "id", fmt.Sprintf("ids[%d]", i))
		}
	}
	return c.json(http.StatusOK, Acked(acks))
}
