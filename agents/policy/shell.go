package policy

import (
	"strings"
	"unicode/utf8"
)

const (
	maxLine     = 64 << 10
	maxDepth    = 16  // of substitutions, subshells and sh -c in each other
	maxCommands = 100 // in a line, with the files that it opens
)

// A word is one word of a command line, without its quotes.
type word struct {
	text    string
	plain   int  // so many bytes at the beginning are neither quoted nor expanded
	dynamic bool // has an expansion: nobody knows yet what it becomes
	glob    bool // has an unquoted pattern or brace: may become other words
}

// fixed tells whether the word is what it says.
func (w word) fixed() bool { return !w.dynamic && !w.glob }

// keyword tells whether a shell would take the word for a word of its language.
func (w word) keyword() string {
	if w.plain == len(w.text) && (w.fixed() || w.text == "{") {
		return w.text
	}
	return ""
}

// assigns gives the variable that a word sets.
func (w word) assigns() (name string, ok bool) {
	name, _, ok = strings.Cut(w.text, "=")
	name = strings.TrimSuffix(name, "+")
	return name, ok && len(name) < w.plain && variable().MatchString(name)
}

// A simple is one simple command as a shell means it: words, and the files that
// it opens before it begins.
type simple struct {
	words     []word
	ins, outs []word
}

// A splitter takes a command line apart as a POSIX shell does, and gives up on
// what it does not know for certain: here-documents, arithmetic, functions, case,
// $'…', lines that go on. Subshells and substitutions are commands like any other, wherever they
// stand. It also notes the first thing that it is not sure of; what it has found
// until then does not count.
type splitter struct {
	text    string
	at      int
	depth   int
	found   []simple
	unclear string // why the line cannot be split; "" if it can
}

// split takes a line apart.
func split(line string, depth int) ([]simple, string) {
	s := &splitter{text: line, depth: depth}
	switch {
	case len(line) > maxLine:
		s.giveUp("it is too long")
	case !utf8.ValidString(line):
		s.giveUp("it is not UTF-8")
	case strings.ContainsFunc(line, func(r rune) bool { return r != '\n' && r != '\t' && moves(r) }):
		s.giveUp("it has control characters")
	default:
		s.list(0)
	}
	return s.found, s.unclear
}

func (s *splitter) giveUp(why string) {
	if s.unclear == "" {
		s.unclear = why
	}
	s.at = len(s.text)
}

// peek gives the byte some way on, 0 at the end: the text has no NUL.
func (s *splitter) peek(ahead int) byte {
	if s.at+ahead < len(s.text) {
		return s.text[s.at+ahead]
	}
	return 0
}

// list reads commands up to the closing character, or the end where that is 0.
func (s *splitter) list(closing byte) {
	if s.depth++; s.depth > maxDepth {
		s.giveUp("it is nested too deeply")
	}
	defer func() { s.depth-- }()
	var now simple
	flush := func() {
		if len(now.words)+len(now.ins)+len(now.outs) > 0 {
			s.found = append(s.found, now)
		}
		now = simple{}
	}
	for {
		switch c := s.peek(0); {
		case c == 0:
			if closing != 0 {
				s.giveUp("a parenthesis is not closed")
			}
			flush()
			return
		case c == ' ' || c == '\t':
			s.at++
		case c == ')':
			s.at++
			if closing == ')' {
				flush()
				return
			}
			s.giveUp("a parenthesis is closed that is not open")
		case c == '#':
			s.comment()
		case c == '&' && s.peek(1) == '>', c == '<', c == '>':
			s.redirect(&now)
		case c == '\n' || c == ';' || c == '&' || c == '|':
			s.operator()
			flush()
		case c == '(':
			s.subshell(&now)
		default:
			s.plainWord(&now)
		}
	}
}

func (s *splitter) comment() {
	if end := strings.IndexByte(s.text[s.at:], '\n'); end >= 0 {
		s.at += end
	} else {
		s.at = len(s.text)
	}
}

// operator reads ; & && | || |& and the end of a line.
func (s *splitter) operator() {
	c := s.peek(0)
	s.at++
	switch next := s.peek(0); {
	case c == ';' && (next == ';' || next == '&'):
		s.giveUp("it has a case")
	case c == '&' && next == '&', c == '|' && (next == '|' || next == '&'):
		s.at++
	}
}

// subshell reads ( … ), which can only stand where a command begins.
func (s *splitter) subshell(now *simple) {
	switch {
	case s.peek(1) == '(':
		s.giveUp("it has arithmetic")
	case len(now.words) > 0 && !opens(now.words[len(now.words)-1]):
		s.giveUp("it has a function, an array or a pattern")
	default:
		s.at++
		s.list(')')
	}
}

var (
	opensCommand  = set("! { if then elif else while until do")
	closesCommand = set("} fi done")
)

// opens tells the words behind which a command begins.
func opens(w word) bool {
	return opensCommand.has(w.keyword()) || w.keyword() == "time"
}

func (s *splitter) plainWord(now *simple) {
	w, there := s.word()
	if !there { // given up
		return
	}
	next := s.peek(0)
	if (next == '<' || next == '>') && w.plain == len(w.text) && isDigits(w.text) {
		return // the descriptor of a redirection: 2>
	}
	now.words = append(now.words, w)
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// redirect reads one redirection, or a process substitution, which is a list.
func (s *splitter) redirect(now *simple) {
	if s.peek(1) == '(' {
		s.at += 2
		s.list(')')
		now.words = append(now.words, word{text: "/dev/fd", dynamic: true})
		return
	}
	if s.peek(0) == '&' {
		s.giveUp("it has &>, which is a redirection or the end of a command, as the shell likes")
		return
	}
	operator := s.redirection()
	for s.peek(0) == ' ' || s.peek(0) == '\t' {
		s.at++
	}
	target, _ := s.word()
	switch {
	case strings.HasPrefix(operator, "<<"):
		s.giveUp("it has a here-document")
	case target.text == "" && !target.dynamic:
		s.giveUp("a redirection has no file")
	case strings.HasSuffix(operator, "&") && target.fixed() && (isDigits(target.text) || target.text == "-"):
		// one descriptor becomes another
	case operator == "<":
		now.ins = append(now.ins, target)
	case operator == "<&":
		s.giveUp("a descriptor is made at run time")
	default:
		now.outs = append(now.outs, target)
	}
}

// redirection reads the operator alone, the longest that fits.
func (s *splitter) redirection() string {
	for _, operator := range []string{"<<", "<&", "<>", ">>", ">|", ">&", "<", ">"} {
		if strings.HasPrefix(s.text[s.at:], operator) {
			s.at += len(operator)
			return operator
		}
	}
	return ""
}

// A spelling collects a word while it is read.
type spelling struct {
	strings.Builder
	word
	quoted bool // has been, somewhere
}

func (b *spelling) put(text string, quoted bool) {
	if quoted || b.dynamic {
		b.quoted = true
	}
	b.WriteString(text)
	if !b.quoted {
		b.plain = b.Len()
	}
}

// word reads up to what ends a word. It tells whether there was one: "" is, and
// nothing is not.
func (s *splitter) word() (w word, there bool) {
	var b spelling
	for {
		switch c := s.peek(0); c {
		case 0, ' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')':
			b.text = b.String()
			if b.text == "[" || b.text == "[[" {
				b.glob = false // no pattern, and nothing to choose from
			}
			return b.word, b.text != "" || b.quoted || b.dynamic
		case '\\':
			s.escaped(&b)
		case '\'':
			s.single(&b)
		case '"':
			s.double(&b)
		case '$', '`':
			s.expansion(&b, false)
		case '*', '?', '[', '{':
			b.glob = b.glob || c != '{' || s.peek(1) != '}' // {} stays as it is
			b.put(s.take(), false)
		default:
			b.put(s.take(), false)
		}
	}
}

// take reads one byte.
func (s *splitter) take() string {
	s.at++
	return s.text[s.at-1 : s.at]
}

func (s *splitter) escaped(b *spelling) {
	s.at++
	switch s.peek(0) {
	case 0:
		s.giveUp("it ends in a backslash")
	case '\n': // within what it joins: $ and ( become $(, and what follows a blank a comment
		s.giveUp("a line goes on in the next")
	default:
		b.put(s.take(), true)
	}
}

func (s *splitter) single(b *spelling) {
	s.at++
	inside, _, closed := strings.Cut(s.text[s.at:], "'")
	if !closed {
		s.giveUp("a quotation mark is not closed")
		return
	}
	b.put(inside, true)
	s.at += len(inside) + 1
}

func (s *splitter) double(b *spelling) {
	s.at++
	b.put("", true)
	for {
		switch c := s.peek(0); {
		case c == 0:
			s.giveUp("a quotation mark is not closed")
			return
		case c == '"':
			s.at++
			return
		case c == '\\' && s.peek(1) != 0 && strings.IndexByte("$`\"\\\n", s.peek(1)) >= 0:
			s.escaped(b)
		case c == '$' || c == '`':
			s.expansion(b, true)
		default:
			b.put(s.take(), true)
		}
	}
}

// expansion reads what begins with $ or a backtick.
func (s *splitter) expansion(b *spelling, quoted bool) {
	if s.peek(0) == '`' {
		b.dynamic = true
		s.backticks()
		return
	}
	switch next := s.peek(1); {
	case next == '(' && s.peek(2) == '(':
		s.giveUp("it has arithmetic")
	case next == '(':
		b.dynamic = true
		s.at += 2
		s.list(')')
	case next == '{':
		b.dynamic = true
		s.braced()
	case !quoted && (next == '\'' || next == '"' || next == '['):
		s.giveUp("it has a kind of quotation that shells differ in")
	case next != 0 && (strings.IndexByte("@*#?$!-_", next) >= 0 || variable().MatchString(string(next)) || isDigits(string(next))):
		b.dynamic = true
		s.at += 2
	default:
		s.at++
		b.put("$", quoted)
	}
}

// braced reads ${NAME}; what else can stand there may run commands.
func (s *splitter) braced() {
	inside, _, closed := strings.Cut(s.text[s.at+2:], "}")
	if !closed || !variable().MatchString(inside) && !isDigits(inside) {
		s.giveUp("it has an expansion with an operator")
		return
	}
	s.at += len(inside) + 3
}

// backticks reads `…`. One with a backslash has quotes within quotes, which
// nobody reads with certainty.
func (s *splitter) backticks() {
	s.at++
	inside, _, closed := strings.Cut(s.text[s.at:], "`")
	if !closed || strings.Contains(inside, `\`) {
		s.giveUp("backticks are not closed, or have a backslash in them")
		return
	}
	found, unclear := split(inside, s.depth)
	s.found = append(s.found, found...)
	if s.at += len(inside) + 1; unclear != "" {
		s.giveUp(unclear)
	}
}
