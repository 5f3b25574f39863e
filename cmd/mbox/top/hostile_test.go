package top

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
)

var hostile = []string{
	"\x1b[2J\x1b]0;owned\x07 end", "a\nb\r\tc", "\u202egnp.exe\u2066", "漢字かな漢字かな漢字かな漢字かな漢字かな", "e" + strings.Repeat("\u0301", 300), "👨\u200d👩\u200d👧 🏳️\u200d🌈 🇩🇪", "\xff\xfe\x9b31m", "\u0000\u0085\u2028", strings.Repeat("w", 5000),
}

// Whatever stands in tasks and whatever is pressed on a screen of whatever size: the
// lines are as many and as wide as the screen, and nothing but colours is in them.
func TestNothingLeavesTheScreen(t *testing.T) {
	colours := regexp.MustCompile("\x1b\\[[0-9;]*m")
	rapid.Check(t, func(t *rapid.T) {
		s := newScreen(Options{Doubt: errors.New(hostile[0])})
		text := rapid.SampledFrom(hostile)
		titles := rapid.SliceOfN(text, 0, 12)
		fill := func(n int) {
			b := boardOf(rowsOf(mailbox.Pending, titles.Draw(t, "pending")...), rowsOf(mailbox.InProgress, titles.Draw(t, "in progress")...), rowsOf(mailbox.Failed, titles.Draw(t, "failed")...))
			for _, c := range b.Columns {
				for i := range c.Rows {
					c.Rows[i].By, c.Rows[i].Target = text.Draw(t, "by"), text.Draw(t, "for")
					if rapid.Bool().Draw(t, "odd id") { // of a file that is no task
						c.Rows[i].ID = mailbox.ID(text.Draw(t, "id"))
					}
				}
			}
			b.agents(map[string]mailbox.Capabilities{text.Draw(t, "agent"): {}}, map[string]mailbox.Agent{text.Draw(t, "paused"): {State: lifecycle.Paused, By: text.Draw(t, "by"), Reason: text.Draw(t, "reason")}})
			if rapid.Bool().Draw(t, "waits") {
				b.Agents[0].Waiting = 1
			}
			b.paused()
			for range n {
				b.trouble(kindFailed, "f1", text.Draw(t, "problem"), "mbox why x")
			}
			b.Home, b.ReadOnly = text.Draw(t, "home"), text.Draw(t, "read-only")
			s.send(boardMsg{board: b}, newsMsg{entries: []audit.Entry{line(9, "p1", text.Draw(t, "action"))}})
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				s.send(tea.WindowSizeMsg{Width: rapid.IntRange(0, 320).Draw(t, "wide"), Height: rapid.IntRange(0, 90).Draw(t, "high")})
			case 1:
				fill(rapid.IntRange(0, 20).Draw(t, "problems"))
			case 2:
				s.send(pageMsg{kind: pageTask, id: "p1", text: clean(text.Draw(t, "page")) + "\n" + clean(text.Draw(t, "page"))}, doneMsg{command: "mbox x", err: errors.New(text.Draw(t, "fault"))})
			case 3:
				s.keys(rapid.StringMatching(`(1|2|3|4|5|\?|/x|<enter>|<esc>|d|l|c|r|p|j|k|G|g|<right>|<left>|<pgdown>|<pgup>){1,6}`).Draw(t, "keys"))
			}
			lines := s.screenLines()
			if len(lines) != s.high {
				t.Fatalf("%d lines on a screen of %d", len(lines), s.high)
			}
			for _, l := range lines {
				if wide := ansi.StringWidthWc(l); wide > s.wide {
					t.Fatalf("%d cells on a screen of %d: %q", wide, s.wide, l)
				}
				rest := colours.ReplaceAllString(l, "")
				if i := strings.IndexFunc(rest, func(r rune) bool {
					return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\u2028' || r == '\u200d'
				}); i >= 0 {
					t.Fatalf("a line has %q: %q", rest[i:i+1], l)
				}
			}
		}
	})
}
