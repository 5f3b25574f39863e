package gateway

import (
	"maps"
	"slices"
	"time"

	"mbox/audit"
	"mbox/mailbox"
)

// worker is an agent as its page shows it.
type worker struct {
	Name, Role     string
	Known, Enabled bool
	Holds          []card
	Waiting        int // pending tasks that name it
	Last           *entry
}

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

func (v view) agents() error {
	if err := v.tidy(); err != nil {
		return err
	}
	x, err := v.Box.Index()
	if err != nil {
		return err
	}
	all := map[string]*worker{}
	for name, a := range v.Agents {
		all[name] = &worker{Name: name, Role: a.Role, Known: true, Enabled: a.Enabled}
	}
	for _, l := range x.Live {
		if l.State == mailbox.Pending {
			if a := all[l.Target]; a != nil {
				a.Waiting++
			}
			continue
		}
		if all[l.Claimant] == nil {
			all[l.Claimant] = &worker{Name: l.Claimant}
		}
		if t, state, err := v.Box.Task(v.ctx, l.ID); err == nil && state == l.State {
			k := cardOf(t, state)
			k.Since = l.Since
			all[l.Claimant].Holds = append(all[l.Claimant].Holds, k)
		}
	}
	if err := v.lastLines(all); err != nil {
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
