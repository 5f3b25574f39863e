package pages

import (
	"html/template"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"mbox/schemas"
)

// Markdown draws what records are written in: headings, paragraphs, lists, quotations, code,
// and in them emphasis, code and links to pages of the web. Everything else is text. A
// library knows more of it, and costs every command a millisecond at its start. own is the
// name under which the browser has the page.
//
// A browser sends the cookie of a host to all its ports, and an agent's command may
// listen on one. So there are no links to this host, nor to an address, which has other
// spellings, nor to a name without a dot.
func Markdown(own, text string) template.HTML {
	m := &markdown{own: own, lines: strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")}
	m.blocks()
	return template.HTML(m.out.String()) // of our own tags, and what was escaped
}

type markdown struct {
	own   string
	lines []string
	out   strings.Builder
}

type pattern = func() *regexp.Regexp

var (
	heading = schemas.Pattern(`^(#{1,6})\s+(.*?)\s*#*$`)
	bullet  = schemas.Pattern(`^\s*[-*+]\s+(.*)$`)
	counted = schemas.Pattern(`^\s*\d{1,9}[.)]\s+(.*)$`)
	quoted  = schemas.Pattern(`^>\s?(.*)$`)
	fence   = schemas.Pattern("^\\s*(```+|~~~+)")
)

func (m *markdown) blocks() {
	for len(m.lines) > 0 {
		line := m.lines[0]
		switch {
		case strings.TrimSpace(line) == "":
			m.lines = m.lines[1:]
		case fence().MatchString(line):
			m.code()
		case heading().MatchString(line):
			found := heading().FindStringSubmatch(line)
			m.lines = m.lines[1:]
			m.wrapped("h"+strconv.Itoa(min(6, len(found[1])+1)), found[2]) // the page has its own h1
		case bullet().MatchString(line):
			m.list("ul", bullet)
		case counted().MatchString(line):
			m.list("ol", counted)
		case quoted().MatchString(line):
			m.wrapped("blockquote", strings.Join(m.while(quoted), "\n"))
		default:
			m.paragraph()
		}
	}
}

// wrapped writes an element with text in it.
func (m *markdown) wrapped(tag, text string) {
	m.out.WriteString("<" + tag + ">")
	m.inline(text)
	m.out.WriteString("</" + tag + ">\n")
}

// while takes the lines that have a form, and gives what stands in them.
func (m *markdown) while(form pattern) (found []string) {
	for len(m.lines) > 0 && form().MatchString(m.lines[0]) {
		found = append(found, form().FindStringSubmatch(m.lines[0])[1])
		m.lines = m.lines[1:]
	}
	return found
}

func (m *markdown) list(tag string, form pattern) {
	m.out.WriteString("<" + tag + ">\n")
	for len(m.lines) > 0 && form().MatchString(m.lines[0]) {
		item := form().FindStringSubmatch(m.lines[0])[1]
		m.lines = m.lines[1:]
		for len(m.lines) > 0 && strings.HasPrefix(m.lines[0], "  ") && !form().MatchString(m.lines[0]) && strings.TrimSpace(m.lines[0]) != "" {
			item += "\n" + strings.TrimSpace(m.lines[0])
			m.lines = m.lines[1:]
		}
		m.wrapped("li", item)
	}
	m.out.WriteString("</" + tag + ">\n")
}

func (m *markdown) code() {
	end := strings.TrimSpace(fence().FindString(m.lines[0]))
	m.lines = m.lines[1:]
	m.out.WriteString(`<pre tabindex="0"><code>`)
	for len(m.lines) > 0 && !strings.HasPrefix(strings.TrimSpace(m.lines[0]), end) {
		m.escape(Block(m.lines[0]) + "\n")
		m.lines = m.lines[1:]
	}
	if len(m.lines) > 0 {
		m.lines = m.lines[1:]
	}
	m.out.WriteString("</code></pre>\n")
}

func (m *markdown) paragraph() {
	var text []string
	for len(m.lines) > 0 && strings.TrimSpace(m.lines[0]) != "" && (len(text) == 0 || !m.begins()) {
		text = append(text, strings.TrimSpace(m.lines[0]))
		m.lines = m.lines[1:]
	}
	m.wrapped("p", strings.Join(text, "\n"))
}

// begins tells whether the next line is a block of its own.
func (m *markdown) begins() bool {
	for _, form := range []pattern{heading, bullet, counted, quoted, fence} {
		if form().MatchString(m.lines[0]) {
			return true
		}
	}
	return false
}

// spans are what stands within a line: code, a link, strong and other emphasis. What is in
// code is no link, so they are looked for in one pass.
var spans = schemas.Pattern("`([^`\n]+)`|\\[([^\\[\\]\n]+)\\]\\(([^()\\s]+)\\)|\\*\\*([^*\n]+)\\*\\*|\\*([^*\\s][^*\n]*)\\*")

func (m *markdown) inline(text string) {
	for {
		at := spans().FindStringSubmatchIndex(text)
		if at == nil {
			m.escape(Block(text))
			return
		}
		part := func(n int) string {
			if at[2*n] < 0 {
				return ""
			}
			return text[at[2*n]:at[2*n+1]]
		}
		m.escape(Block(text[:at[0]]))
		switch {
		case part(1) != "":
			m.tagged("code", part(1))
		case part(2) != "":
			m.link(part(0), part(2), part(3))
		case part(4) != "":
			m.tagged("strong", part(4))
		default:
			m.tagged("em", part(5))
		}
		text = text[at[1]:]
	}
}

func (m *markdown) tagged(tag, text string) {
	m.out.WriteString("<" + tag + ">")
	m.escape(Block(text))
	m.out.WriteString("</" + tag + ">")
}

// elsewhere is a name of the web's, which no browser takes for an address: its last part
// is no number.
var elsewhere = schemas.Pattern(`^(?:[A-Za-z0-9_-]+\.)+[A-Za-z][A-Za-z0-9-]*\.?$`)

// link writes a link to a page of the web; any other stays as it was written.
func (m *markdown) link(whole, text, target string) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || !elsewhere().MatchString(u.Hostname()) || strings.EqualFold(strings.TrimSuffix(u.Hostname(), "."), m.own) {
		m.escape(Block(whole))
		return
	}
	m.out.WriteString(`<a rel="noreferrer nofollow" href="`)
	m.escape(u.String())
	m.out.WriteString(`">`)
	m.escape(Block(text))
	m.out.WriteString("</a>")
}

func (m *markdown) escape(text string) { template.HTMLEscape(&m.out, []byte(text)) }
