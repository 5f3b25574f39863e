package chat

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain makes text of a stranger fit to be read: lines end with \n, and what moves a
// cursor, turns the direction of a line or cannot be seen is left out, the tag
// characters, in which words can be hidden, with it. Bytes that are no UTF-8 become
// U+FFFD.
func Plain(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r', r == '\u0085', r == '\u2028', r == '\u2029':
			return '\n'
		case r == '\n', r == '\t', r == '\u200c', r == '\u200d': // the last two shape letters, and join emoji
			return r
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co):
			return -1
		}
		return r
	}, text)
}

// OneLine is what a server or a program says, for people: in one line.
func OneLine(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "")))
}

// isPlain tells whether a name is one line that may stand in a task as it is.
func isPlain(name string, most int) bool {
	return name != "" && len(name) <= most && utf8.ValidString(name) && Plain(name) == name && !strings.ContainsAny(name, "\n\t")
}

// IsName tells whether somebody, or a room, can have this name.
func IsName(name string) bool { return isPlain(name, maxName) }
