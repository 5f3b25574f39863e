package irc

import (
	"bufio"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// What a line may hold, with what ends it. Others than servers may write less.
const (
	maxLine   = 512
	maxTags   = 8191
	maxParams = 15
)

// A line is a message of the protocol.
//
//	@msgid=1;account=bob :bob!b@example.org PRIVMSG #ops :mbox: hello
type line struct {
	tags    map[string]string
	prefix  string
	command string
	params  []string
}

// parse reads a line, without what ends it.
func parse(raw string) (l line, ok bool) {
	if tags, rest, is := strings.Cut(raw, " "); is && strings.HasPrefix(tags, "@") {
		l.tags, raw = parseTags(tags[1:]), strings.TrimLeft(rest, " ")
	}
	if prefix, rest, is := strings.Cut(raw, " "); is && strings.HasPrefix(prefix, ":") {
		l.prefix, raw = prefix[1:], strings.TrimLeft(rest, " ")
	}
	l.command, raw, _ = strings.Cut(raw, " ")
	l.command = strings.ToUpper(l.command)
	for raw = strings.TrimLeft(raw, " "); raw != ""; raw = strings.TrimLeft(raw, " ") {
		if raw[0] == ':' || len(l.params) == maxParams-1 {
			l.params = append(l.params, strings.TrimPrefix(raw, ":"))
			break
		}
		var param string
		param, raw, _ = strings.Cut(raw, " ")
		l.params = append(l.params, param)
	}
	return l, l.command != "" && l.command[0] != '@' && l.command[0] != ':'
}

var (
	escape   = strings.NewReplacer(`\`, `\\`, ";", `\:`, " ", `\s`, "\r", `\r`, "\n", `\n`)
	unescape = strings.NewReplacer(`\\`, `\`, `\:`, ";", `\s`, " ", `\r`, "\r", `\n`, "\n", `\`, "")
)

func parseTags(s string) map[string]string {
	tags := make(map[string]string)
	for _, tag := range strings.Split(s, ";") {
		key, value, _ := strings.Cut(tag, "=")
		tags[key] = unescape.Replace(value)
	}
	return tags
}

// param returns a parameter, counted from 0; "" where it is missing.
func (l line) param(i int) string {
	if i >= 0 && i < len(l.params) {
		return l.params[i]
	}
	return ""
}

// last is what a person may read.
func (l line) last() string { return l.param(len(l.params) - 1) }

// nick is whom the line comes from.
func (l line) nick() string {
	nick, _, _ := strings.Cut(l.prefix, "!")
	return nick
}

// numeric tells whether the line answers a command.
func (l line) numeric() bool {
	return len(l.command) == 3 && strings.Trim(l.command, "0123456789") == ""
}

// String is what a log or an error may say of a line.
func (l line) String() string {
	return fmt.Sprintf("%s %q", l.command, strings.ToValidUTF8(l.last(), "?"))
}

// next reads a line that holds a command. Each may be as long as the longest that
// the protocol knows.
func next(r *bufio.Reader) (line, error) {
	for {
		raw, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return line{}, errors.New("the server sent a line that is too long")
		}
		if err != nil {
			return line{}, err
		}
		if l, ok := parse(strings.Trim(string(raw), "\r\n")); ok {
			return l, nil
		}
	}
}

// same compares nicks, and names of rooms. RFC 1459 has {}|^ as the small letters of
// []\~; where a server sees it otherwise the two cannot be told apart here, and
// nothing rests on that.
func same(a, b string) bool {
	return fold.Replace(strings.ToLower(a)) == fold.Replace(strings.ToLower(b))
}

var fold = strings.NewReplacer("[", "{", "]", "}", `\`, "|", "~", "^")

// colours are the marks of clients for colours; the bridge would leave their digits.
var colours = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x03(\\d{1,2}(,\\d{1,2})?)?|\x04([0-9a-fA-F]{6}(,[0-9a-fA-F]{6})?)?")
})

// plain is a text as it was meant.
func plain(text string) string {
	return colours().ReplaceAllLiteralString(strings.ToValidUTF8(text, "\uFFFD"), "")
}

// cut makes lines of a text, each of at most size bytes, and without anything that
// would end it early or be read as a command of the client (CTCP).
func cut(text string, size int) []string {
	var out []string
	for l := range strings.SplitSeq(text, "\n") {
		l = strings.TrimRight(strings.Map(visible, strings.ToValidUTF8(l, "\uFFFD")), " ")
		for len(l) > size {
			at := seam(l, size)
			if head := strings.TrimRight(l[:at], " "); head != "" {
				out = append(out, head)
			}
			l = strings.TrimLeft(l[at:], " ")
		}
		if l != "" {
			out = append(out, l)
		}
	}
	return out
}

func visible(r rune) rune {
	switch {
	case r == '\t':
		return ' '
	case r < ' ' || r == 0x7f:
		return -1
	}
	return r
}

// seam is where a line is cut: at a space near its end, else between two characters.
func seam(l string, size int) int {
	if space := strings.LastIndexByte(l[:size+1], ' '); space > size/2 {
		return space
	}
	for size > 1 && !utf8.RuneStart(l[size]) {
		size--
	}
	return size
}
