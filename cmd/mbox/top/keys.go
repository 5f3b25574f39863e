package top

import (
	"strconv"

	tea "charm.land/bubbletea/v2"
)

// binding is what keys do. The help and the line at the bottom are made of them.
type binding struct {
	names   []string // as bubbletea calls the keys
	keys    string   // as people do
	what    string
	brief   string // for the line at the bottom; "" keeps it out
	changes bool   // it changes the mailbox
	do      func(m *model, name string) tea.Cmd
}

func still(do func(m *model)) func(*model, string) tea.Cmd {
	return func(m *model, _ string) tea.Cmd {
		do(m)
		return nil
	}
}

func by(lines int) func(*model, string) tea.Cmd {
	return still(func(m *model) { m.move(lines) })
}

// far is further than any list is long.
const far = 1 << 30

func bindings() []binding {
	return []binding{
		{names: []string{"?"}, keys: "?", what: "this help", brief: "help", do: still((*model).explain)},
		{names: []string{"1", "2", "3", "4", "5"}, keys: "1–5", what: "board, tasks, ledger, agents, problems", brief: "views", do: func(m *model, name string) tea.Cmd {
			n, _ := strconv.Atoi(name)
			m.view, m.page = n-1, nil
			return nil
		}},
		{names: []string{"up", "k"}, keys: "↑ k", what: "up", do: by(-1)},
		{names: []string{"down", "j"}, keys: "↓ j", what: "down", do: by(1)},
		{names: []string{"left", "h", "shift+tab"}, keys: "← h", what: "the column on the left", do: still(func(m *model) { m.column = (m.column + len(folders) - 1) % len(folders) })},
		{names: []string{"right", "tab"}, keys: "→ tab", what: "the column on the right", do: still(func(m *model) { m.column = (m.column + 1) % len(folders) })},
		{names: []string{"pgup", "ctrl+b", "ctrl+u"}, keys: "pgup", what: "a screen up", do: still(func(m *model) { m.move(-m.screen()) })},
		{names: []string{"pgdown", "ctrl+f", "ctrl+d", "space"}, keys: "pgdn", what: "a screen down", do: still(func(m *model) { m.move(m.screen()) })},
		{names: []string{"home", "g"}, keys: "home g", what: "the first line", do: by(-far)},
		{names: []string{"end", "G", "shift+g"}, keys: "end G", what: "the last line", do: by(far)},
		{names: []string{"/"}, keys: "/", what: "filter what is listed; enter keeps it, esc ends it", brief: "filter", do: still(func(m *model) { m.typing, m.page = true, nil })},
		{names: []string{"enter", "d"}, keys: "enter d", what: "describe the task: mbox show, mbox why", brief: "describe", do: func(m *model, _ string) tea.Cmd { return m.open(pageTask) }},
		{names: []string{"l"}, keys: "l", what: "the task's lines in the ledger", brief: "lines", do: func(m *model, _ string) tea.Cmd { return m.open(pageLedger) }},
		{names: []string{"c"}, keys: "c", what: "cancel the task, once you have said y", brief: "cancel", changes: true, do: func(m *model, _ string) tea.Cmd { return m.change(verbCancel) }},
		{names: []string{"r"}, keys: "r", what: "retry the task, once you have said y", brief: "retry", changes: true, do: func(m *model, _ string) tea.Cmd { return m.change(verbRetry) }},
		{names: []string{"p"}, keys: "p", what: "pause the agent, or resume it, once you have said y", changes: true, do: func(m *model, _ string) tea.Cmd { return m.keep() }},
		{names: []string{"esc"}, keys: "esc", what: "back", brief: "back", do: still((*model).back)},
		{names: []string{"q"}, keys: "q", what: "quit", brief: "quit", do: func(*model, string) tea.Cmd { return tea.Quit }},
	}
}

// allowed are the keys that do something here.
func (m *model) allowed() (out []binding) {
	for _, b := range bindings() {
		if !b.changes || m.o.ReadOnly == "" {
			out = append(out, b)
		}
	}
	return out
}
