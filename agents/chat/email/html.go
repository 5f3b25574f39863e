package email

import (
	"html"
	"strings"
)

// undressed is the text of an HTML page. Links are told behind their words, and what
// is quoted begins with ">". A page of a mail needs no more than its tags found; the
// library that knows HTML as browsers do costs each command of mbox 110 KB when it
// starts.
func undressed(page string) string {
	p := paper{}
	for page != "" {
		at := strings.IndexByte(page, '<')
		if at < 0 {
			at = len(page)
		}
		p.write(html.UnescapeString(page[:at]))
		if page = page[at:]; page != "" {
			page = p.tag(page)
		}
	}
	return strings.TrimSpace(p.String())
}

const blank = " \t\r\n\f"

// tag reads what begins with "<", and returns the page behind it. What does not end
// is left out, as browsers do.
func (p *paper) tag(page string) (rest string) {
	if after, comment := strings.CutPrefix(page, "<!--"); comment {
		_, rest, _ = strings.Cut(after, "-->")
		return rest
	}
	if strings.HasPrefix(page, "<!") || strings.HasPrefix(page, "<?") {
		_, rest, _ = strings.Cut(page, ">")
		return rest
	}
	after, closing := strings.CutPrefix(page[1:], "/")
	name := after[:len(after)-len(strings.TrimLeft(after, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"))]
	if name == "" || name[0] <= '9' {
		p.write("<")
		return page[1:]
	}
	href, rest, whole := attributes(after[len(name):])
	name = strings.ToLower(name)
	switch {
	case !whole:
	case closing:
		p.end(name)
	case name == "script" || name == "style" || name == "title" || name == "textarea" || name == "template":
		return behind(rest, "</"+name)
	default:
		p.begin(name, href)
	}
	return rest
}

// attributes finds the end of a tag, and where it links to.
func attributes(text string) (href, rest string, whole bool) {
	for i := 0; i < len(text); {
		switch text[i] {
		case '>':
			return href, text[i+1:], true
		case '=':
			key := strings.TrimRight(text[:i], blank)
			value := strings.TrimLeft(text[i+1:], blank)
			i = len(text) - len(value)
			end := strings.IndexAny(value, blank+">")
			if value != "" && (value[0] == '"' || value[0] == '\'') {
				if end = strings.IndexByte(value[1:], value[0]); end < 0 {
					return "", "", false
				}
				value, end = value[1:], end+1
				i++
			} else if end < 0 {
				return "", "", false
			}
			if n := len(key) - len("href"); n > 0 && strings.EqualFold(key[n:], "href") && strings.IndexByte(blank+`"'/`, key[n-1]) >= 0 {
				href = html.UnescapeString(strings.Trim(value[:min(end, len(value))], `"'`))
			}
			i += end
		default:
			i++
		}
	}
	return "", "", false
}

// behind is the page from an end tag on.
func behind(page, tag string) string {
	for {
		at := strings.Index(page, "</")
		if at < 0 {
			return ""
		}
		if page = page[at:]; len(page) >= len(tag) && strings.EqualFold(page[:len(tag)], tag) {
			return page
		}
		page = page[2:]
	}
}

// paper is what a page was written to so far.
type paper struct {
	strings.Builder
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

func (p *paper) begin(name, href string) {
	if block(name) {
		p.line()
	}
	switch name {
	case "blockquote":
		p.quoted = min(p.quoted+1, 8)
	case "pre":
		p.exact++
	case "td", "th":
		p.space = true
	case "a":
		p.words, p.link = p.Len(), ""
		if strings.HasPrefix(href, "http://") || strings.HasPrefix(href, "https://") {
			p.link = href
		}
	case "p":
		p.gap()
	case "li":
		p.write("- ")
	}
}

func (p *paper) end(name string) {
	if block(name) {
		p.line()
	}
	switch name {
	case "a":
		if p.link != "" && !strings.Contains(p.String()[p.words:], p.link) {
			p.write(" <" + p.link + ">")
		}
		p.link = ""
	case "pre":
		p.exact = max(p.exact-1, 0)
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
			p.word(strings.TrimRight(line, "\r"))
		}
		return
	}
	text = strings.ReplaceAll(text, "\u00a0", " ")
	p.space = p.space || strings.TrimLeft(text, blank) != text
	for i, word := range strings.Fields(text) {
		p.space = p.space || i > 0
		p.word(word)
	}
	p.space = p.space || strings.TrimRight(text, blank) != text
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
