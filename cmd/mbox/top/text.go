package top

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"mbox/schemas"
)

// clean makes one line of text that came from outside.
func clean(text string) string { return schemas.Sentence(text, 2000) }

// oneLine is the text of an error, which may be several that are joined.
func oneLine(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
}

// Cells is how many cells of a terminal a line takes. A wide character has two, a
// combining one none, and colours have none.
func Cells(line string) int { return ansi.StringWidthWc(line) }

// Middle is a name of at most so many cells: of a longer one both ends are left.
func Middle(name string, most int) string {
	all := Cells(name)
	if all <= most {
		return name
	}
	end := (most - 1) / 2
	return ansi.TruncateWc(name, most-1-end, "") + "…" + ansi.TruncateLeftWc(name, all-end, "")
}

// fit makes a line exactly so many cells wide. It may have colours.
func fit(line string, wide int) string {
	line = Cut(line, wide)
	return line + strings.Repeat(" ", max(wide-Cells(line), 0))
}

// Cut makes a line at most so many cells wide.
func Cut(line string, wide int) string {
	if wide <= 0 {
		return ""
	}
	return ansi.TruncateWc(line, wide, "…")
}

// wrap breaks a text into lines of at most so many cells.
func wrap(text string, wide int) []string {
	return strings.Split(ansi.HardwrapWc(text, max(wide, 1), true), "\n")
}

// Colours are the terminal's own sixteen, so that its theme counts; where NO_COLOR or the
// terminal wants none, bubbletea leaves them out.
func ink(attrs ...ansi.Attr) func(string) string {
	return func(text string) string {
		if text == "" {
			return ""
		}
		return ansi.NewStyle(attrs...).Styled(text)
	}
}

var (
	bold   = ink(ansi.AttrBold)
	dim    = ink(ansi.AttrFaint)
	red    = ink(ansi.AttrRedForegroundColor)
	green  = ink(ansi.AttrGreenForegroundColor)
	yellow = ink(ansi.AttrYellowForegroundColor)
	cyan   = ink(ansi.AttrCyanForegroundColor)
	marked = ink(ansi.AttrReverse)
)

// mark shows a line as that of the cursor, without colours of its own.
func mark(line string) string { return marked(ansi.Strip(line)) }
