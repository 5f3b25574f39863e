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

// fit makes a line exactly so many cells wide. It may have colours.
func fit(line string, wide int) string {
	line = cut(line, wide)
	return line + strings.Repeat(" ", max(wide-ansi.StringWidthWc(line), 0))
}

// cut makes a line at most so many cells wide. A wide character has two, a combining
// one none, and colours have none.
func cut(line string, wide int) string {
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
