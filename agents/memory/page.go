package memory

import (
	"strings"
	"unicode"
)

// page is a Markdown file of entries, line by line.
//
// An entry is a line "- **key**: content"; further lines of its content are indented by
// two spaces. An entry is numbered by its first line, counted from 0 among the lines
// that are neither blank nor headings. A forgotten entry leaves a line "-" for each of
// its lines that count, so that the others keep their numbers, and no number comes again.
type page struct {
	lines []string
}

const headings = "# "

func readPage(text string) page {
	text = strings.TrimSuffix(strings.ToValidUTF8(text, "\uFFFD"), "\n")
	if text == "" {
		return page{}
	}
	return page{strings.Split(text, "\n")}
}

func (p *page) text() string { return strings.Join(p.lines, "\n") + "\n" }

// piece is an entry as it stands on a page.
type piece struct {
	first, end   int // lines: from first to before end
	n            int
	key, content string
}

// counts tells whether a line has a number.
func counts(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && line[0] != '#'
}

// pieces are the entries of a page, and how many lines count.
func (p *page) pieces() (all []piece, n int) {
	open := false // a further line belongs to the last entry
	for i, line := range p.lines {
		further := open && strings.HasPrefix(line, "  ")
		switch {
		case further:
			last := &all[len(all)-1]
			last.content += strings.Repeat("\n", i-last.end+1) + line[2:]
			last.end = i + 1
		case strings.TrimSpace(line) == "":
		case !counts(line), strings.TrimSpace(line) == "-":
			open = false
		default:
			one := piece{first: i, end: i + 1, n: n}
			one.key, one.content = split(line)
			all, open = append(all, one), true
		}
		if counts(line) {
			n++
		}
	}
	for i := range all {
		all[i].content = visible(all[i].content)
	}
	return all, n
}

// split reads the first line of an entry. What people have written without a key is a
// note.
func split(line string) (key, content string) {
	line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "- "))
	if rest, ok := strings.CutPrefix(line, "**"); ok {
		if key, content, ok = strings.Cut(rest, "**: "); ok && (Entry{Category: Core, Key: key, Content: "x"}).Check() == nil {
			return key, content
		}
	}
	return "note", line
}

// visible puts a sign in the place of control characters that somebody else has written.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, text)
}

// add puts an entry at the end and returns its number. A page that is new gets a title.
func (p *page) add(title, key, content string) (n int) {
	if len(p.lines) == 0 {
		p.lines = []string{headings + title, ""}
	}
	_, n = p.pieces()
	lines := strings.Split("- **"+key+"**: "+content, "\n")
	for i, line := range lines[1:] {
		if line != "" {
			line = "  " + line
		}
		lines[i+1] = line
	}
	p.lines = append(p.lines, lines...)
	return n
}

// remove takes an entry out.
func (p *page) remove(one piece) {
	var kept []string
	for i, line := range p.lines {
		switch {
		case i < one.first || i >= one.end:
			kept = append(kept, line)
		case counts(line):
			kept = append(kept, "-")
		}
	}
	p.lines = kept
}
