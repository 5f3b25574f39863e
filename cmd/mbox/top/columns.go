package top

import (
	"cmp"
	"fmt"
	"strings"

	"mbox/mailbox"
	"mbox/schemas"
)

// columnWide is the least that a column of the board needs; on a screen that has no room
// for all four, one is shown, and the counts of the others above it.
const columnWide = 18

// boardLines are the board: problems, columns, and the ledger.
func (m *model) boardLines(high int) []string {
	var lines []string
	if problems := m.problems(); len(problems) > 0 {
		most := max(1, min(3, high/5))
		for _, p := range problems[:min(most, len(problems))] {
			lines = append(lines, problemLine(p))
		}
		if more := len(problems) - most; more > 0 {
			lines[most-1] = Cut(lines[most-1], m.wide-12) + dim(fmt.Sprintf("  +%d: key 5", more))
		}
	}
	ledger := 0
	if left := high - len(lines); left >= 8 {
		ledger = left / 3
	}
	lines = append(lines, padded(m.columnLines(high-len(lines)-ledger), high-len(lines)-ledger)...)
	if ledger > 0 {
		lines = append(lines, dim("── ledger "+strings.Repeat("─", max(m.wide-10, 0))))
		entries := m.entries()
		for _, e := range entries[max(0, len(entries)-ledger+1):] {
			lines = append(lines, m.o.Line(&e))
		}
	}
	return lines
}

func (m *model) columnLines(high int) []string {
	if m.board == nil {
		return nil
	}
	if m.wide < len(folders)*columnWide {
		return m.narrow(high)
	}
	wide := (m.wide - (len(folders) - 1)) / len(folders)
	blocks := make([][]string, len(folders))
	for i := range folders {
		blocks[i] = padded(append([]string{m.columnHead(i)}, m.columnRows(i, wide, high-1)...), high)
	}
	lines := make([]string, high)
	for y := range lines {
		cells := make([]string, len(folders))
		for i := range folders {
			cells[i] = fit(blocks[i][y], wide)
		}
		lines[y] = strings.Join(cells, dim("│"))
	}
	return lines
}

// narrow shows one column below the counts of all.
func (m *model) narrow(high int) []string {
	var counts []string
	for i, s := range folders {
		text := fmt.Sprintf("%s %d", [...]string{"pend", "prog", "done", "fail"}[i], m.board.Columns[i].Count)
		if i == m.column {
			text = mark(text)
		} else {
			text = colour(s)(text)
		}
		counts = append(counts, text)
	}
	return append([]string{strings.Join(counts, " ")}, m.columnRows(m.column, m.wide, high-1)...)
}

func (m *model) columnHead(i int) string {
	c := &m.board.Columns[i]
	head := fmt.Sprintf("%s %d", strings.ToUpper(string(c.State)), c.Count)
	if head = colour(c.State)(head); i == m.column {
		head = bold(head)
	}
	if c.Oldest != nil {
		head += dim(" oldest " + schemas.Ago(c.Oldest.Time, m.now()))
	}
	return head
}

// columnRows are the rows of one column. Only one of them has the cursor.
func (m *model) columnRows(i, wide, high int) []string {
	rows, c := m.rows(i), &m.cursors[views+i]
	if i == m.column {
		m.settle()
	}
	return window(c, len(rows), high, i == m.column, func(n int) string { return fit(m.cell(&rows[n], wide), wide) })
}

// cell is a task in a column: how urgent, how old, who has it, and what it is.
func (m *model) cell(r *Row, wide int) string {
	urgent := " "
	switch {
	case r.live != nil && r.live.Alarmed:
		urgent = red("!")
	case r.Priority == "urgent":
		urgent = red("»")
	case r.Priority == "high":
		urgent = yellow("›")
	}
	what := cmp.Or(r.Title, string(r.ID))
	if r.State == mailbox.InProgress && r.By != "" {
		what = r.By + ": " + what
	}
	return Cut(urgent+dim(fit(schemas.Ago(r.Since.Time, m.now()), 4))+clean(what), wide)
}
