package gateway

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/schemas"
)

func healthRoutes() []route {
	return []route{{method: "GET", path: "/health", agents: true, about: "is everything well; 503 where something is wrong", gives: Health{}, do: (*call).health}}
}

// Health tells whether the mailbox is well.
type Health struct {
	Status   string          `json:"status" jsonschema:"enum=ok,enum=wrong"`
	Problems []string        `json:"problems" jsonschema:"description=what is wrong"`
	Roles    []RoleHealth    `json:"roles" jsonschema:"description=who is there for what"`
	Depths   map[string]int  `json:"depths" jsonschema:"description=tasks in each state"`
	Blocked  int             `json:"blocked" jsonschema:"description=pending tasks that wait for others"`
	Oldest   int64           `json:"oldest_pending_seconds" jsonschema:"description=how long the oldest pending task has waited; 0: there is none"`
	Late     map[string]int  `json:"late" jsonschema:"description=tasks that nobody took in time\\, by the agent that they are for"`
	Stale    []string        `json:"stale_agents" jsonschema:"description=enabled agents that took nothing of that in time"`
	Router   bool            `json:"router" jsonschema:"description=mbox up serves this mailbox"`
	LastSeq  int64           `json:"last_seq" jsonschema:"description=of the ledger's newest line"`
	Agents   map[string]bool `json:"agents" jsonschema:"description=the registry; whether each is enabled"`

	Paused map[string]mailbox.Agent `json:"paused" jsonschema:"description=agents that may not claim\\, and why; an agent is told of itself alone"`
}

// RoleHealth is a role and who has it.
type RoleHealth struct {
	Role   string   `json:"role"`
	Agents []string `json:"agents" jsonschema:"description=enabled ones"`
}

func (c *call) health() error {
	h, err := c.look()
	if err != nil {
		return err
	}
	status := http.StatusOK
	if h.Status != "ok" {
		status = http.StatusServiceUnavailable
	}
	return c.json(status, h)
}

// look examines the mailbox. What cannot be found out is a problem, not an error.
func (c *call) look() (h Health, err error) {
	h = Health{Status: "ok", Problems: []string{}, Roles: c.roles(), Depths: map[string]int{}, Late: map[string]int{}, Stale: []string{}, Agents: map[string]bool{}, Paused: map[string]mailbox.Agent{}}
	for name, a := range c.Agents {
		h.Agents[name] = a.Enabled
	}
	x, err := c.Box.Index()
	if c.ctx.Err() != nil {
		return h, c.ctx.Err()
	}
	if h.wrong(err); err == nil {
		c.count(&h, x)
	}
	h.Router = c.Box.Routed()
	h.wrong(audit.CheckWritable(c.Box.Home()))
	if gone := c.Box.InPlace(); errors.Is(gone, mailbox.ErrGone) {
		h.wrong(gone)
	}
	seq, broken := c.newest(c.ctx)
	h.LastSeq = seq
	h.wrong(broken)
	if c.Problems != nil {
		problems, err := c.Problems(c.ctx)
		for _, p := range problems {
			h.wrong(errors.New(p))
		}
		h.wrong(err)
	}
	return h, nil
}

func (c *call) count(h *Health, x *mailbox.Index) {
	for name, a := range x.Agents {
		if !a.Claims() && (c.all() || c.agent == name) {
			h.Paused[name] = a
		}
	}
	for state, n := range x.Count {
		h.Depths[string(state)] = n
	}
	var oldest time.Time
	for _, t := range x.Live {
		if t.State != mailbox.Pending {
			continue
		}
		if oldest.IsZero() || t.Created.Before(oldest) {
			oldest = t.Created
		}
		if t.Blocked {
			h.Blocked++
		}
		if t.Alarmed {
			h.Late[t.Target]++
		}
	}
	if !oldest.IsZero() {
		h.Oldest = int64(max(0, c.door.o.Now().Sub(oldest)) / time.Second)
	}
	for _, agent := range slices.Sorted(maps.Keys(h.Late)) {
		if c.Agents[agent].Enabled {
			h.Stale = append(h.Stale, agent)
		}
		h.wrong(fmt.Errorf("%s for %s not taken in time", schemas.Count(h.Late[agent], "task", "tasks"), agent))
	}
}

func (h *Health) wrong(err error) {
	if err != nil {
		h.Status = "wrong"
		h.Problems = append(h.Problems, schemas.Sentence(err.Error(), maxDetail))
	}
}

// roles lists who may be asked for what.
func (c *call) roles() []RoleHealth {
	have := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		if a := c.Agents[name]; a.Role != "" && a.Enabled {
			have[a.Role] = append(have[a.Role], name)
		}
	}
	out := []RoleHealth{}
	for _, role := range slices.Sorted(maps.Keys(have)) {
		out = append(out, RoleHealth{role, have[role]})
	}
	return out
}
