package chat

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// leastCut is the shortest piece that a text is cut into, whatever the limit says.
const leastCut = 64

// maxFence is the longest mark of a fence; more characters in a row are a line drawn.
const maxFence = 8

// cut cuts a text into pieces of at most so many bytes and lines; 0 is any number. It
// cuts between paragraphs where that leaves a piece at least half full, else between
// lines, else between words, and else between two characters as people count them.
// A code fence that is open at a cut is closed, and opened again in the next piece.
// A piece that shows nothing is left out, as long as there is another: some systems
// refuse it.
func cut(text string, most, lines int) (pieces []string) {
	if most <= 0 {
		most = len(text) + leastCut
	}
	most = max(most, leastCut)
	opened := ""
	for {
		closing := ""
		head := opened
		if opened != "" {
			head += "\n"
		}
		if len(head)+len(text) <= most && (lines <= 0 || strings.Count(head+text, "\n") < lines) {
			return shown(pieces, head+text)
		}
		room, rows := most-len(head), 0
		if lines > 0 {
			rows = max(1, lines-strings.Count(head, "\n"))
		}
		end := breakAt(text, room, rows)
		if fence := openFence(head + text[:end]); fence != "" {
			end = breakAt(text, max(room-maxFence-1, leastCut/4), max(rows-1, min(rows, 1)))
			if opened = openFence(head + text[:end]); opened != "" { // it may be another one
				closing = "\n" + fenceMark(opened)
			}
		} else {
			opened = ""
		}
		if len(opened) > leastCut/4 || lines > 0 && lines < 4 { // no room for fences
			opened, closing = "", ""
		}
		pieces = shown(pieces, head+strings.TrimRight(text[:end], " \n")+closing)
		if text = strings.TrimLeft(text[end:], "\n"); opened == "" {
			text = strings.TrimLeft(text, " ")
		}
		if text == "" {
			return pieces
		}
	}
}

// shown adds a piece to others, and leaves out what shows nothing.
func shown(pieces []string, piece string) []string {
	switch {
	case len(pieces) > 0 && blank(piece):
		return pieces
	case len(pieces) == 1 && blank(pieces[0]):
		return []string{piece}
	}
	return append(pieces, piece)
}

// blank tells whether a text shows nothing.
func blank(text string) bool {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '\u200c' || r == '\u200d' }) == ""
}

// breakAt is where to cut a text that is too long, within room bytes and so many
// lines. It is more than 0.
func breakAt(text string, room, lines int) int {
	end := min(room, len(text))
	if lines > 0 {
		if at := nthLine(text, lines); at < end {
			return max(at, 1)
		}
	}
	if end == len(text) {
		return end
	}
	window := text[:end]
	if at := strings.LastIndex(window, "\n\n"); at >= end/2 {
		return at
	}
	if at := strings.LastIndexByte(window, '\n'); at > end/4 {
		return at
	}
	if at := strings.LastIndexByte(window, ' '); at > end/4 {
		return at
	}
	return character(text, end)
}

// nthLine is where the nth line of a text ends.
func nthLine(text string, n int) int {
	at := 0
	for range n {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		at += i + 1
	}
	return at - 1
}

// character is the last place up to end that is not inside a character as people see
// it: not before what is drawn together with what stands before it. Where such a
// thing is endless, it is cut all the same.
func character(text string, end int) int {
	at := end
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	for back := at; back > max(0, end-leastCut/2); {
		next, _ := utf8.DecodeRuneInString(text[back:])
		before, size := utf8.DecodeLastRuneInString(text[:back])
		if !joins(next) && before != '\u200d' && !(isFlag(before) && isFlag(next)) {
			return back
		}
		back -= size
	}
	return max(at, 1)
}

// joins tells whether a rune belongs to the one before it.
func joins(r rune) bool {
	return r == '\u200d' || r == '\u200c' || unicode.In(r, unicode.Mn, unicode.Mc, unicode.Me, unicode.Variation_Selector) || r >= 0x1f3fb && r <= 0x1f3ff
}

// isFlag tells whether a rune is one of the letters of which two make a flag.
func isFlag(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// openFence is the line that begins a code fence which is open at the end of a text;
// "" for none.
func openFence(text string) (fence string) {
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		switch {
		case fence == "" && fenceMark(l) != "":
			fence = l
		case fence != "" && strings.HasPrefix(l, fenceMark(fence)) && strings.Trim(l, l[:1]) == "":
			fence = ""
		}
	}
	return fence
}

// fenceMark is what a line that begins a fence begins with; "" if it does not.
func fenceMark(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 && n <= maxFence {
			return line[:n]
		}
	}
	return ""
}
