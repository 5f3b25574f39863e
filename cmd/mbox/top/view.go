package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"mbox/mailbox"
	"mbox/schemas"
)

// View draws the screen.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.screenLines(), "\n"))
	v.AltScreen = true
	return v
}

// screenLines are exactly as many lines as the screen has, none wider than it.
func (m *model) screenLines() []string {
	top := []string{m.heading()}
	bottom := []string{m.status(), m.hints()}
	room := max(m.high-len(top)-len(bottom), 0)
	lines := append(top, padded(m.body(room), room)...)
	lines = append(lines, bottom...)[:max(m.high, 0)]
	for i, l := range lines {
		lines[i] = Cut(l, m.wide)
	}
	return lines
}

func padded(lines []string, high int) []string {
	for len(lines) < high {
		lines = append(lines, "")
	}
	return lines[:high]
}

// screen is how many lines a list may have, about.
func (m *model) screen() int { return max(m.high-4, 1) }

func (m *model) heading() string {
	if m.board == nil {
		return bold("mbox top") + "  reading the mailbox"
	}
	said := []string{bold("mbox top"), fmt.Sprintf("seq %d", m.seq())}
	if m.board.ReadOnly != "" {
		said = append(said, red("the mailbox is read-only"))
	}
	if m.broken != nil {
		said = append(said, red("the ledger cannot be read on"))
	}
	if m.board.Routed {
		said = append(said, "mbox up serves it")
	} else {
		said = append(said, dim("no mbox up"))
	}
	if m.o.ReadOnly != "" {
		said = append(said, dim("only looking"))
	}
	return strings.Join(append(said, clean(m.board.Home)), " · ")
}

func (m *model) seq() int64 {
	seq := m.board.Seq
	if n := len(m.lines); n > 0 {
		seq = max(seq, m.lines[n-1].Seq)
	}
	return seq
}

// status is the line above the last: a question, a filter, or what happened.
func (m *model) status() string {
	switch {
	case m.ask != nil:
		return yellow(clean(m.ask.verb+" "+string(m.ask.row.ID)+"?")) + " " + clean(m.ask.row.Title)
	case m.typing:
		return "/" + m.filter + "█"
	case m.note != "":
		return m.noted()[0]
	case !m.reading.IsZero() && m.now().Sub(m.reading) > slowRead:
		return yellow("reading the mailbox for " + schemas.Ago(m.reading, m.now()))
	case m.filter != "":
		return dim("filter ") + m.filter + dim("  esc ends it")
	}
	if row, ok := m.selected(); ok && m.page == nil {
		return m.about(row)
	}
	return ""
}

// noted is what happened, in as many lines as it takes.
func (m *model) noted() []string { return wrap(clean(m.note), m.wide) }

// about is a task in one line.
func (m *model) about(row Row) string {
	said := []string{string(row.ID), cmp.Or(string(row.State), "-"), row.Priority, row.Type}
	if row.Target != "" {
		said = append(said, "for "+row.Target)
	}
	if row.By != "" {
		said = append(said, "by "+row.By)
	}
	return dim(clean(strings.Join(append(said, row.Title), "  ")))
}

// hints are the keys, or the command that a yes runs.
func (m *model) hints() string {
	if m.ask != nil {
		return bold("y") + " runs " + bold(clean(command(m.ask.verb, m.ask.row.ID))) + "   any other key does not"
	}
	if m.typing {
		return dim("enter keeps the filter   esc ends it")
	}
	if m.note != "" {
		if lines := m.noted(); len(lines) > 1 {
			return lines[1]
		}
	}
	var said []string
	for _, b := range m.allowed() {
		if b.brief != "" {
			said = append(said, strings.Fields(b.keys)[0]+" "+dim(b.brief))
		}
	}
	return strings.Join(said, "  ")
}

func (m *model) body(high int) []string {
	switch {
	case high <= 0:
		return nil
	case m.page != nil:
		return m.pageLines(high)
	case m.view == viewBoard:
		return m.boardLines(high)
	}
	head, n, line := m.listed()
	c, items := m.settle()
	return append([]string{bold(head)}, window(c, n, high-1, len(items) > 0, func(i int) string { return fit(line(i), m.wide) })...)
}

// helpText lists the keys.
func (m *model) helpText() string {
	var lines []string
	for _, b := range m.allowed() {
		lines = append(lines, "  "+fit(b.keys, 10)+b.what)
	}
	if m.o.ReadOnly != "" {
		lines = append(lines, "", "  nothing can be changed here: "+clean(m.o.ReadOnly))
	}
	return strings.Join(lines, "\n")
}

func (m *model) pageLines(high int) []string {
	lines := wrap(m.page.text, m.wide)
	m.page.top = max(0, min(m.page.top, len(lines)-high+1))
	title := bold(m.page.kind+" "+clean(string(m.page.id))) + dim("  "+schemas.Count(len(lines), "line", "lines"))
	return append([]string{title}, lines[m.page.top:min(len(lines), m.page.top+high-1)]...)
}

// window is the part of a list that is shown, with the cursor in it: line i of n.
func window(c *cursor, n, high int, marks bool, line func(i int) string) (out []string) {
	c.off = max(min(c.off, c.at), c.at-high+1, 0)
	c.off = max(min(c.off, n-high), 0)
	for i := c.off; i < n && len(out) < high; i++ {
		l := line(i)
		if i == c.at && marks {
			l = mark(l)
		}
		out = append(out, l)
	}
	return out
}

// listed is what stands above a list, how long it is, and each of its lines.
func (m *model) listed() (head string, n int, line func(i int) string) {
	switch m.view {
	case viewTasks:
		rows := m.shown()
		return taskLine(bold, "ID", "STATE", "PRIO", "FOR", "BY", "AGE", "TITLE"), len(rows), func(i int) string { return m.rowLine(&rows[i]) }
	case viewLedger:
		entries := m.entries()
		return "LEDGER", len(entries), func(i int) string { return m.o.Line(&entries[i]) }
	case viewAgents:
		agents := m.agents()
		return agentLine("AGENT", "STATE", "WAITING", "SINCE", "HOLDS"), len(agents), func(i int) string {
			a := &agents[i]
			return agentLine(a.Name, a.state(), number(a.Waiting), a.since(m.now()), joined(a.Holds))
		}
	}
	problems := m.problems()
	if len(problems) == 0 {
		return "PROBLEMS", 1, func(int) string { return green("nothing that anybody has to look at") }
	}
	return "PROBLEMS", len(problems), func(i int) string { return problemLine(problems[i]) }
}

func taskLine(paint func(string) string, id, state, priority, target, by, age, title string) string {
	return columns([]int{26}, id, "") + paint(fit(state, 11)) + "  " + columns([]int{6, 10, 10, 5}, priority, target, by, age, title)
}

func (m *model) rowLine(r *Row) string {
	return taskLine(colour(r.State), string(r.ID), string(r.State), r.Priority, r.Target, r.By, schemas.Ago(r.Since.Time, m.now()), r.Title)
}

func agentLine(cells ...string) string { return columns([]int{20, 16, 7, 6}, cells...) }

// columns puts cells side by side; the last is as wide as it is.
func columns(wide []int, cells ...string) string {
	var b strings.Builder
	for i, c := range cells {
		if i < len(wide) {
			b.WriteString(fit(clean(c), wide[i]) + "  ")
		} else {
			b.WriteString(clean(c))
		}
	}
	return b.String()
}

func (a *Agent) state() string {
	switch {
	case !a.Enabled:
		return "not enabled"
	case !a.Life.Claims():
		return string(a.Life.State)
	case len(a.Holds) > 0:
		return "works"
	case !a.Known:
		return "not in mbox.toml"
	}
	return "idle"
}

func (a *Agent) since(now time.Time) string {
	if a.Since == nil {
		return "-"
	}
	return schemas.Ago(a.Since.Time, now)
}

func joined(ids []mailbox.ID) string {
	var out []string
	for _, id := range ids {
		out = append(out, string(id))
	}
	return strings.Join(out, " ")
}

func problemLine(p Problem) string {
	paint := yellow
	switch p.Kind {
	case kindReadOnly, kindGone, kindLedger, kindClaim, kindFailed:
		paint = red
	}
	line := paint(fit(p.Kind, 10)) + "  "
	if p.Task != "" {
		line += clean(string(p.Task)) + "  "
	}
	return line + p.text() + dim("  "+clean(p.Hint))
}

func colour(s mailbox.State) func(string) string {
	switch s {
	case mailbox.Pending:
		return yellow
	case mailbox.InProgress:
		return cyan
	case mailbox.Completed:
		return green
	}
	return red
}
