package email

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// attribution is the line over a quotation, in the languages of the usual programs.
// Where no program put one, a person quoted, and wants it read.
var attribution = []string{
	"wrote:", "writes:", "schrieb:", "geschrieben:", "a écrit :", "a écrit:", "escribió:", "escreveu:", "ha scritto:", "schreef:", "skrev:", "napisał:", "napisał(a):",
}

// unquoted cuts off the history under an answer: lines that begin with ">", to the
// very end, under an attribution; or what follows a line "Original Message".
func unquoted(text string, answer bool) string {
	if !answer {
		return text
	}
	lines := strings.Split(text, "\n")
	if at := slices.IndexFunc(lines, original); at > 0 {
		return strings.Join(lines[:at], "\n")
	}
	end := len(lines)
	for end > 0 && (strings.HasPrefix(lines[end-1], ">") || strings.TrimSpace(lines[end-1]) == "") {
		end--
	}
	if end == len(lines) || end == 0 {
		return text
	}
	// A long attribution goes over two lines, of which the last ends it. The first
	// one may have a date and an address.
	last := strings.ToLower(strings.TrimSpace(lines[end-1]))
	ends := func(word string) bool { return strings.HasSuffix(last, word) }
	german := strings.HasSuffix(last, ":") && strings.Contains(last, "schrieb ")
	if !german && !slices.ContainsFunc(attribution, ends) {
		return text
	}
	end--
	if end > 0 && !strings.ContainsAny(last, "0123456789") && strings.ContainsAny(lines[end-1], "0123456789") {
		end--
	}
	return strings.Join(lines[:end], "\n")
}

// original is the line that some programs put over a whole mail.
func original(line string) bool {
	words, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(line)), "-----")
	words = strings.TrimSpace(strings.Trim(words, "-"))
	return ok && (words == "original message" || words == "ursprüngliche nachricht" || words == "message d'origine")
}

// unsigned cuts off a signature: at most 15 lines under a line "-- ", which nothing
// follows (RFC 3676, 4.3).
func unsigned(text string) string {
	lines := strings.Split(text, "\n")
	for at := len(lines) - 1; at >= max(0, len(lines)-16); at-- {
		if lines[at] == "-- " {
			return strings.Join(lines[:at], "\n")
		}
	}
	return text
}

// undressed is the text of an HTML page. Links are told behind their words, and what
// is quoted begins with ">".
func undressed(page string) string {
	p := paper{tokens: html.NewTokenizer(strings.NewReader(page))}
	p.tokens.SetMaxBuf(maxText)
	for {
		switch p.tokens.Next() {
		case html.ErrorToken:
			return strings.TrimSpace(p.String())
		case html.TextToken:
			if p.hidden == "" {
				p.write(string(p.tokens.Text()))
			}
		case html.StartTagToken:
			p.begin(p.tokens.Token())
		case html.SelfClosingTagToken:
			p.begin(p.tokens.Token())
		case html.EndTagToken:
			p.end(p.tokens.Token().Data)
		}
	}
}

// paper is what a page was written to so far.
type paper struct {
	strings.Builder
	tokens *html.Tokenizer
	hidden string // the element whose text is none
	link   string // of the words that are written now
	words  int    // where they began
	quoted int    // depth of quotations
	exact  int    // depth of text in which spaces count
	space  bool   // between two words
	begun  bool   // the line has words
}

// block tells whether an element begins on a line of its own.
func block(name string) bool {
	const names = " address article aside blockquote body br caption center dd div dl dt figure footer form h1 h2 h3 h4 h5 h6 head header hr html li main ol p pre section table tr ul "
	return strings.Contains(names, " "+name+" ")
}

func (p *paper) begin(t html.Token) {
	if p.hidden != "" {
		return
	}
	switch t.Data {
	case "script", "style", "title", "template":
		p.hidden = t.Data
	case "blockquote":
		p.line()
		p.quoted = min(p.quoted+1, 8)
	case "pre":
		p.exact++
	case "td", "th":
		p.space = true
	case "a":
		p.words = p.Len()
		for _, a := range t.Attr {
			if a.Key == "href" && (strings.HasPrefix(a.Val, "http://") || strings.HasPrefix(a.Val, "https://")) {
				p.link = a.Val
			}
		}
	}
	if block(t.Data) {
		p.line()
	}
	switch t.Data {
	case "p":
		p.gap()
	case "li":
		p.write("- ")
	}
}

func (p *paper) end(name string) {
	if p.hidden != "" {
		if name == p.hidden {
			p.hidden = ""
		}
		return
	}
	switch name {
	case "a":
		if p.link != "" && !strings.Contains(p.String()[p.words:], p.link) {
			p.write(" <" + p.link + ">")
		}
		p.link = ""
	case "pre":
		p.exact = max(p.exact-1, 0)
	}
	if block(name) {
		p.line()
	}
	switch name {
	case "blockquote":
		p.quoted = max(p.quoted-1, 0)
	case "p":
		p.gap()
	}
}

// write adds text to the line.
func (p *paper) write(text string) {
	if p.exact > 0 {
		for i, line := range strings.Split(text, "\n") {
			if i > 0 && !p.begun {
				p.WriteByte('\n')
			}
			if i > 0 {
				p.line()
			}
			p.word(line)
		}
		return
	}
	text = strings.ReplaceAll(text, "\u00a0", " ")
	p.space = p.space || strings.TrimLeft(text, " \t\r\n") != text
	for i, word := range strings.Fields(text) {
		p.space = p.space || i > 0
		p.word(word)
	}
	p.space = p.space || strings.TrimRight(text, " \t\r\n") != text
}

func (p *paper) word(word string) {
	if word == "" {
		return
	}
	if !p.begun {
		p.WriteString(strings.Repeat("> ", p.quoted))
	} else if p.space {
		p.WriteByte(' ')
	}
	p.WriteString(word)
	p.begun, p.space = true, false
}

// line ends the line, gap leaves one out.
func (p *paper) line() {
	if p.begun {
		p.WriteByte('\n')
	}
	p.begun, p.space = false, false
}

func (p *paper) gap() {
	p.line()
	if text := p.String(); text != "" && !strings.HasSuffix(text, "\n\n") {
		p.WriteByte('\n')
	}
}
