package gateway

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"mbox/audit"
	"mbox/mailbox"
)

// filed is a decision or a change as its page shows it.
type filed struct {
	ID, Date, Agent, Type, About string
	Task                         mailbox.ID
	Parts                        []part
}

type part struct{ Name, Text string }

// all is every record, the newest first.
func (v view) allRecords() ([]filed, error) {
	decisions, err := v.Box.Decisions(v.ctx)
	if err != nil {
		return nil, err
	}
	changes, err := v.Box.Changes(v.ctx)
	if err != nil {
		return nil, err
	}
	var out []filed
	for _, d := range decisions {
		options := ""
		for _, o := range d.Options {
			options += "- " + strings.ReplaceAll(o, "\n", "\n  ") + "\n"
		}
		r := filed{ID: d.ID, Date: d.Date, Agent: d.Agent, Task: mailbox.ID(d.Task), About: d.Decision}
		r.Parts = []part{{"Context", d.Context}, {"Options", options}, {"Decision", d.Decision}, {"Outcome", cmp.Or(d.Outcome, "Not known yet.")}}
		out = append(out, r)
	}
	for _, c := range changes {
		r := filed{ID: c.ID, Date: c.Date, Agent: c.Agent, Type: c.Type, About: c.Description}
		r.Parts = []part{{"Description", c.Description}, {"Rationale", c.Rationale}, {"Before", c.Before}, {"After", c.After}, {"Rollback", c.Rollback}, {"Verification", c.Verification}}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b filed) int { return cmp.Or(cmp.Compare(b.Date, a.Date), cmp.Compare(b.ID, a.ID)) })
	return out, nil
}

func (v view) records() error {
	all, err := v.allRecords()
	if err != nil {
		return err
	}
	return v.show("records", "/records", "Records", all)
}

func (v view) record() error {
	all, err := v.allRecords()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(r filed) bool { return r.ID == v.r.PathValue("id") })
	if i < 0 {
		return &refusal{404, "there is no such record", "Records lists them"}
	}
	return v.still("record", "/records", all[i].ID, all[i])
}

// deedsOf are lines of the ledger that operators have made.
type deedsOf struct {
	Lines []*entry
	Older string
}

// How many lines the log shows, and looks at.
const mostLog, mostLogLooked = 100, 50_000

func (v view) log() error {
	before, _ := strconv.ParseInt(v.value("before"), 10, 64) // it was checked
	if err := v.door.finding.take(v.ctx); err != nil {
		return err
	}
	defer v.door.finding.leave()
	var d deedsOf
	if before == 0 {
		before = math.MaxInt64
	}
	looked := 0
	for line, err := range v.Box.Ledger().BackwardFrom(before - 1) {
		if err != nil {
			return err
		}
		if looked++; looked > mostLogLooked || len(d.Lines) == mostLog {
			d.Older = v.link("/log", map[string]string{"before": strconv.FormatInt(line.Seq+1, 10)})
			break
		}
		if line.Agent() != "human" || line.Event() == audit.TaskCreated {
			continue
		}
		e, err := entryOf(line)
		if err != nil {
			return err
		}
		if d.Lines = append(d.Lines, e); v.ctx.Err() != nil {
			return v.ctx.Err()
		}
	}
	return v.show("log", "/log", "Log", d)
}
