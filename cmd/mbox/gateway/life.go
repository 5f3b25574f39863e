package gateway

import (
	"errors"
	"fmt"
	"net/http"

	"mbox/agents/life"
	"mbox/audit/record"
	"mbox/cmd/mbox/gateway/token"
	"mbox/mailbox"
	"mbox/schemas"
)

func lifeRoutes() []route {
	return []route{
		{method: "POST", path: "/api/agents/register", needs: post, agents: true, about: "the agent whose token this is says that it begins to work", gives: AgentDone{}, do: func(c *call) error { return pulseOf(c, c.agent, true) }},
		{method: "POST", path: "/api/agents/{name}/heartbeat", needs: post, agents: true, about: "the agent whose token this is says that it is there", gives: AgentDone{}, do: func(c *call) error { return pulseOf(c, c.r.PathValue("name"), false) }},
		{method: "POST", path: "/api/users", needs: operate, about: "make a token, for an agent or a reader; its secret is told this once", takes: NewUser{}, gives: User{}, status: http.StatusCreated, do: makeUser},
	}
}

// pulseOf keeps the pulse of the agent whose token this is; the name in the path has to be its.
func pulseOf(c *call, name string, begins bool) error {
	if c.agent == "" {
		return forbidden("this token is no agent's, which alone says that it is there", "mbox token create NAME --role agent --agent AGENT makes one")
	}
	if name != c.agent {
		return forbidden("this is the token of "+c.agent+", and of nobody else", "POST /api/agents/"+c.agent+"/heartbeat")
	}
	home, err := life.Stateful(c.Box, name)
	if err == nil && home == nil {
		err = &refusal{http.StatusConflict, name + " has no home, which keeps when it was there", "mbox agent birth makes an agent with a home"}
	}
	if err != nil {
		return err
	}
	if err := life.Pulse(c.ctx, c.Box, name, c.door.o.Version, begins); err != nil {
		return err
	}
	out := AgentDone{Name: name}
	if out.Lifecycle, err = mailbox.AgentOf(c.Box, name); err != nil {
		return err
	}
	return c.json(http.StatusOK, out)
}

// NewUser is somebody who is to come in by the doors.
type NewUser struct {
	Username string `json:"username" jsonschema:"required,pattern=^(bridge:)?[a-z0-9][a-z0-9_-]{0\\,63}$,description=the name of the token and\\, for the role agent\\, of the agent"`
	Role     string `json:"role" jsonschema:"required,enum=agent,enum=reader,description=operators are made at the command line alone"`
}

// User is who can come in now.
type User struct {
	Username string `json:"username"`
	Role     string `json:"role"`
	Token    string `json:"token" jsonschema:"description=the secret\\, which nobody can find out afterwards"`
	Record   string `json:"record" jsonschema:"description=the change record that tells of it"`
}

// makeUser makes a token, which has its record before it works. No operator is made: a
// token that was stolen is to make none that outlives it with all rights.
func makeUser(c *call) error {
	data, err := c.body()
	if err != nil {
		return err
	}
	var o NewUser
	if err := schemas.Decode(data, &o); err != nil {
		return err
	}
	t := token.Token{Name: o.Username, Role: token.Role(o.Role)}
	switch t.Role {
	case token.Agent:
		t.Agent = o.Username
	case token.Reader:
	default:
		return &schemas.Error{Path: "role", Code: schemas.CodeBadValue, Problem: schemas.Quote(o.Role) + " is no role that is given here", Want: "agent or reader; mbox token create makes operators"}
	}
	home := c.Box.Home()
	if err := token.Vacant(home, t.Name, t.Role, t.Agent); err != nil {
		return ofToken(err)
	}
	out := User{Username: o.Username, Role: o.Role}
	if out.Record, err = c.Box.Change(c.ctx, TokenMade(t, "Somebody has asked for it by POST /api/users, from "+c.from()+".")); err != nil && !errors.Is(err, mailbox.ErrCommitted) {
		return err
	}
	if out.Token, _, err = token.Create(home, t.Name, t.Role, t.Agent); err != nil {
		return ofToken(err)
	}
	return c.json(http.StatusCreated, out)
}

func ofToken(err error) error {
	if errors.Is(err, token.ErrExists) {
		return &refusal{http.StatusConflict, err.Error(), "mbox token revoke ends it; its secret cannot be told again"}
	}
	return renamed(err, "name", "username", "agent", "username")
}

// IsMade stands in the record of a token behind its name, and before its role.
const IsMade = " is made: "

// TokenRole is what a token may do, as its records say it.
func TokenRole(t token.Token) string {
	if t.Agent != "" {
		return fmt.Sprintf("role %s for %s", t.Role, t.Agent)
	}
	return "role " + string(t.Role)
}

// TokenMade is the record of a token that is made.
func TokenMade(t token.Token, why string) record.Change {
	return record.Change{
		Agent: "human", Type: "config",
		Description:  "token " + t.Name + IsMade + TokenRole(t),
		Rationale:    why,
		Before:       "There is no token of this name.",
		After:        "Who shows its secret comes in by the doors, with this role.",
		Rollback:     "mbox token revoke " + t.Name,
		Verification: "mbox token list shows it.",
	}
}
