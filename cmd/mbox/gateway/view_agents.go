package gateway

import (
	"maps"
	"net/url"
	"slices"
	"time"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// worker is an agent as its page shows it.
type worker struct {
	Name, Role     string
	Known, Enabled bool
	Life           mailbox.Agent
	Holds          []card
	Waiting        int // pending tasks that name it
	Last           *entry
}

// Paused tells whether somebody can resume it, and Pausable whether it can be paused.
func (w *worker) Paused() bool   { return w.Life.State == lifecycle.Paused }
func (w *worker) Pausable() bool { return w.Life.Claims() && task.CheckAgent(w.Name) == nil }

// entry is a line of the ledger for people.
type entry struct {
	Seq                                       int64
	At                                        time.Time
	TS, Event, Action, Task, Reason, Checksum string
}

func entryOf(line audit.Line) (*entry, error) {
	e, err := line.Decode()
	if err != nil {
		return nil, err
	}
	return &entry{line.Seq, line.Time(), e.TS, string(e.Event), e.Action, e.Task(), line.Text("reason"), e.Checksum}, nil
}

// workers are the agents of the registry, those that have a task, and those of which the
// ledger tells, by name.
func (v view) workers() (map[string]*worker, error) {
	if err := v.tidy(); err != nil {
		return nil, err
	}
	x, err := v.Box.Index()
	if err != nil {
		return nil, err
	}
	all := map[string]*worker{}
	of := func(name string) *worker {
		if all[name] == nil {
			all[name] = &worker{Name: name, Life: x.Agents[name].At(v.door.o.Now())}
		}
		return all[name]
	}
	for name, a := range v.Agents {
		w := of(name)
		w.Role, w.Known, w.Enabled = a.Role, true, a.Enabled
	}
	for name := range x.Agents {
		of(name)
	}
	for _, l := range x.Live {
		if l.State == mailbox.Pending {
			if a := all[l.Target]; a != nil {
				a.Waiting++
			}
			continue
		}
		if t, state, err := v.Box.Task(v.ctx, l.ID); err == nil && state == l.State {
			k := cardOf(t, state)
			k.Since = l.Since
			of(l.Claimant).Holds = append(of(l.Claimant).Holds, k)
		}
	}
	return all, v.lastLines(all)
}

// agent is the page of one.
func (v view) agent() error {
	all, err := v.workers()
	if err != nil {
		return err
	}
	w := all[v.r.PathValue("name")]
	if w == nil {
		return &refusal{404, "there is no such agent", "Agents lists those that there are"}
	}
	return v.show("agent", "/agents", w.Name, w)
}

// decideAbout does with an agent what a form says.
func (v view) decideAbout() error {
	f, err := v.fields()
	if err != nil {
		return err
	}
	verb, name := v.r.PathValue("verb"), v.r.PathValue("name")
	do := map[string]agentVerb{"pause": (*call).pause, "resume": (*call).resume}[verb]
	if do == nil {
		return badRequest(schemas.Quote(verb)+" is nothing that can be done with an agent", "the agent's page shows what can")
	}
	done, err := v.decideAgent(do, name, anyOrder{Reason: f["reason"], For: f["for"]})
	if err != nil {
		return err
	}
	return v.to("/agent/" + url.PathEscape(done.Name) + "?said=" + verb)
}

func (v view) agents() error {
	all, err := v.workers()
	if err != nil {
		return err
	}
	var out []*worker
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name])
	}
	return v.show("agents", "/agents", "Agents", out)
}

// lastLines finds the last line of each agent, among the newest.
func (v view) lastLines(all map[string]*worker) error {
	looked, missing := 0, len(all)
	for line, err := range v.Box.Ledger().Backward() {
		if err != nil {
			return err
		}
		if looked++; looked > mostRecent || missing == 0 {
			break
		}
		a := all[line.Agent()]
		if a == nil || a.Last != nil {
			continue
		}
		if a.Last, err = entryOf(line); err != nil {
			return err
		}
		missing--
	}
	return v.ctx.Err()
}
