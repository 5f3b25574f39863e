package top

import (
	"slices"
	"strings"

	"mbox/audit"
	"mbox/mailbox"
)

// cursor is a place in a list. It stays with its task when the list changes.
type cursor struct {
	at   int
	off  int // the first that is shown
	key  string
	left bool // it is not at the end
}

// selected is the task that keys are about: that of the page, or under the cursor.
func (m *model) selected() (Row, bool) {
	id := mailbox.ID("")
	if m.page != nil {
		id = m.page.id
	} else if c, items := m.settle(); len(items) > 0 {
		id = items[c.at].id
	}
	if m.board == nil || id == "" {
		return Row{}, false
	}
	for _, c := range m.board.Columns {
		for _, row := range c.Rows {
			if row.ID == id {
				return row, true
			}
		}
	}
	return Row{ID: id}, true // archived, or one of more than are listed
}

// cursor is the one of what is shown.
func (m *model) cursor() *cursor {
	if m.view == viewBoard {
		return &m.cursors[views+m.column]
	}
	return &m.cursors[m.view]
}

// item is a place in a list: what tells it from the others, and its task.
type item struct {
	key string
	id  mailbox.ID
}

// list is what the cursor of the view moves over.
func (m *model) list() (items []item) {
	switch m.view {
	case viewLedger:
		for _, e := range m.entries() {
			items = append(items, item{number(int(e.Seq)), mailbox.ID(e.Task())})
		}
	case viewAgents:
		for _, a := range m.agents() {
			items = append(items, item{key: a.Name})
			if len(a.Holds) > 0 {
				items[len(items)-1].id = a.Holds[0]
			}
		}
	case viewProblems:
		for _, p := range m.problems() {
			items = append(items, item{p.key(), p.Task})
		}
	default:
		rows := m.shown()
		for i := range rows {
			items = append(items, item{string(rows[i].ID), rows[i].ID})
		}
	}
	return items
}

// settle brings the cursor back to where it was, or at least into the list. In the
// ledger the end is a place of its own.
func (m *model) settle() (*cursor, []item) {
	c, items := m.cursor(), m.list()
	last := len(items) - 1
	if c.key != "" && (c.at > last || items[c.at].key != c.key) {
		if i := slices.IndexFunc(items, func(i item) bool { return i.key == c.key }); i >= 0 {
			c.at = i
		}
	}
	if m.view == viewLedger && !c.left {
		c.at = last
	}
	c.at = max(0, min(c.at, last))
	if c.key = ""; c.at <= last {
		c.key = items[c.at].key
	}
	return c, items
}

// move puts the cursor, or what a page shows, so many lines on.
func (m *model) move(by int) {
	if m.page != nil {
		m.page.top += by
		return
	}
	c, items := m.settle()
	c.at, c.key = max(0, min(c.at+by, len(items)-1)), ""
	c.left = c.at < len(items)-1
	m.settle()
}

// fits tells whether the filter lets something through that has these texts.
func (m *model) fits(texts ...string) bool {
	return m.filter == "" || strings.Contains(strings.ToLower(strings.Join(texts, " ")), strings.ToLower(m.filter))
}

// rows are those of a column that the filter lets through.
func (m *model) rows(column int) []Row {
	if m.board == nil {
		return nil
	}
	all := m.board.Columns[column].Rows
	if m.filter == "" {
		return all
	}
	var rows []Row
	for _, r := range all {
		if m.fits(string(r.ID), string(r.State), r.Priority, r.Type, r.Target, r.By, r.Title) {
			rows = append(rows, r)
		}
	}
	return rows
}

// shown are the rows of the view: of one column, or of all.
func (m *model) shown() (rows []Row) {
	if m.view == viewBoard {
		return m.rows(m.column)
	}
	for i := range folders {
		rows = append(rows, m.rows(i)...)
	}
	return rows
}

func (m *model) entries() []audit.Entry {
	if m.filter == "" {
		return m.lines
	}
	var out []audit.Entry
	for _, e := range m.lines {
		if m.fits(e.Agent, string(e.Event), e.Task(), e.Action) {
			out = append(out, e)
		}
	}
	return out
}

func (m *model) agents() (out []Agent) {
	if m.board != nil {
		for _, a := range m.board.Agents {
			if m.fits(a.Name) {
				out = append(out, a)
			}
		}
	}
	return out
}

// problems are those of the board, behind those that the board itself has.
func (m *model) problems() (out []Problem) {
	add := func(kind string, err error, what, hint string) {
		if err != nil {
			out = append(out, Problem{Kind: kind, Text: what + oneLine(err.Error()), Hint: hint})
		}
	}
	add(kindGone, m.failed, "", "mbox doctor")
	add(kindLedger, m.broken, "", "mbox verify")
	add(kindLedger, m.o.Doubt, "when the board was opened: ", "mbox help damage")
	if m.board != nil {
		out = append(out, m.board.Problems...)
	}
	if m.filter == "" {
		return out
	}
	var fit []Problem
	for _, p := range out {
		if m.fits(p.Kind, string(p.Task), p.Text) {
			fit = append(fit, p)
		}
	}
	return fit
}
