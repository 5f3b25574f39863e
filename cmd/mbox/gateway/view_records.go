package gateway

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/schemas"
)

// filed is a decision or a change as its page shows it.
type filed struct {
	ID, Date, Agent, Type, About string
	Task                         mailbox.ID
	Parts                        []part
}

type part struct{ Name, Text string }

// filing is a page of the records, the latest first.
type filing struct {
	Records []filed
	Older   string
}

// mostRecords is how many records a page shows.
const mostRecords = 50

// filed reads a record. One that is none, since somebody has edited it, says so.
func (v view) filed(id string) (filed, error) {
	d, c, err := mailbox.Record(v.Box, id)
	var bad *schemas.Error
	switch {
	case errors.As(err, &bad):
		return filed{ID: id, About: err.Error()}, nil
	case err != nil:
		return filed{}, err
	case c != nil:
		r := filed{ID: id, Date: c.Date, Agent: c.Agent, Type: c.Type, About: c.Description}
		r.Parts = []part{{"Description", c.Description}, {"Rationale", c.Rationale}, {"Before", c.Before}, {"After", c.After}, {"Rollback", c.Rollback}, {"Verification", c.Verification}}
		return r, nil
	}
	bullets := func(all []string) (text string) {
		for _, one := range all {
			text += "- " + strings.ReplaceAll(one, "\n", "\n  ") + "\n"
		}
		return text
	}
	r := filed{ID: id, Date: d.Date, Agent: d.Agent, Task: mailbox.ID(d.Task), About: d.Decision}
	r.Parts = []part{{"Context", d.Context}, {"Options", bullets(d.Options)}, {"Decision", d.Decision}}
	if len(d.Tradeoffs) > 0 {
		r.Parts = append(r.Parts, part{"Trade-offs", bullets(d.Tradeoffs)})
	}
	r.Parts = append(r.Parts, part{"Outcome", cmp.Or(d.Outcome, "Not known yet.")})
	return r, nil
}

func (v view) records() error {
	ids, err := mailbox.RecordIDs(v.Box)
	if err != nil {
		return err
	}
	if before := v.value("before"); before != "" {
		ids = ids[slices.Index(ids, before)+1:]
	}
	var page filing
	for i, id := range ids {
		if i == mostRecords {
			page.Older = v.link("/records", map[string]string{"before": ids[i-1]})
			break
		}
		r, err := v.filed(id)
		if errors.Is(err, mailbox.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		page.Records = append(page.Records, r)
	}
	return v.show("records", "/records", "Records", page)
}

func (v view) record() error {
	r, err := v.filed(v.r.PathValue("id"))
	if errors.Is(err, mailbox.ErrNotFound) {
		return &refusal{404, "there is no such record", "Records lists them"}
	}
	if err != nil {
		return err
	}
	return v.still("record", "/records", r.ID, r)
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
