package record

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"mbox/schemas"
)

// maxRecord is how many bytes six sections of MaxBody have, with what marking adds.
const maxRecord = 4 << 20

// form is a record in its order on paper. It points to where the parts of the record
// lie, so that both kinds are read and written by the same code.
type form struct {
	kind     string // Decision
	idForm   func() *regexp.Regexp
	id       *string
	fields   []field
	sections []section
}

type field struct {
	name  string
	value *string
	check func(string) error
	none  string // what is written where there is no value
}

// section has a text or a list of texts.
type section struct {
	name     string
	text     *string
	list     *[]string
	optional bool // may stay without text
	extra    bool // is there only if it has something
}

// none tells whether the section is left out.
func (s *section) none() bool { return s.extra && s.list != nil && len(*s.list) == 0 }

func (s *section) heading() string { return "## " + s.name }

// print makes the section normal, checks it, and tells what stands under its heading.
func (s *section) print() (string, error) {
	if s.list != nil {
		return printList(s.heading(), s.list)
	}
	*s.text = Normal(*s.text)
	return mark(s.heading(), *s.text)
}

func (s *section) parse(text string) (err error) {
	if s.list != nil {
		*s.list, err = parseList(s.heading(), text)
	} else {
		*s.text, err = unmark(s.heading(), text)
	}
	return err
}

// write makes the record normal, checks it, and writes it. Sections without text are
// named all at once.
func (f *form) write() ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s: %s\n\n", f.kind, *f.id)
	err := allowed(f.idForm().MatchString(*f.id), "# "+f.kind, *f.id, "an id such as "+strings.ToLower(f.kind)+"-2026-02-16-001")
	for _, field := range f.fields {
		fmt.Fprintf(&b, "**%s:** %s\n", field.name, cmp.Or(*field.value, field.none))
		err = cmp.Or(err, field.check(*field.value))
	}
	var blank []string
	var inText error
	for _, s := range f.sections {
		if s.none() {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", s.heading())
		text, bad := s.print()
		if text != "" {
			fmt.Fprintf(&b, "\n%s\n", text)
		} else if bad == nil && !s.optional {
			blank = append(blank, s.heading())
		}
		inText = cmp.Or(inText, bad)
	}
	if len(blank) > 0 {
		inText = wrong(schemas.CodeMissingField, blank[0], "no text under "+strings.Join(blank, ", "), "text under each")
	}
	if err = cmp.Or(err, inText); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// read is the inverse of write. It takes any number of blank lines around fields and
// texts, for people write records too.
func (f *form) read(data []byte) error {
	text, err := plain(data)
	if err != nil {
		return err
	}
	r := &reader{lines: strings.Split(text, "\n")}
	*f.id = r.value("# "+f.kind, "# "+f.kind+": ", "<id>")
	for _, field := range f.fields {
		value := r.value(field.name, "**"+field.name+":**", " …")
		if value == "" && field.none != "" {
			r.fail(wrong(schemas.CodeMissingField, field.name, "no value", `a task id, or "none"`))
		}
		if *field.value = value; value == field.none {
			*field.value = ""
		}
	}
	var there []section
	var texts []string
	for _, s := range f.sections {
		if !s.extra || r.at(s.heading()) {
			there, texts = append(there, s), append(texts, r.section(s.heading()))
		}
	}
	r.end()
	for i, s := range there {
		if r.err == nil {
			r.fail(s.parse(texts[i]))
		}
	}
	if r.err == nil {
		_, r.err = f.write()
	}
	return r.err
}

func plain(data []byte) (string, error) {
	switch {
	case len(data) > maxRecord:
		return "", wrong(schemas.CodeTooLarge, "$", fmt.Sprintf("has %d bytes", len(data)), fmt.Sprintf("at most %d", maxRecord))
	case bytes.HasPrefix(data, []byte("\ufeff")):
		return "", wrong(schemas.CodeBOM, "$", "begins with a byte order mark", "plain UTF-8")
	case !utf8.Valid(data):
		return "", wrong(schemas.CodeInvalidUTF8, "$", "invalid UTF-8", "")
	case len(bytes.TrimSpace(data)) == 0:
		return "", wrong(schemas.CodeEmpty, "$", "is empty", "a record")
	}
	return oneNewline(string(data)), nil
}

// reader walks over the lines of a record. After the first error it stays where it is.
type reader struct {
	lines []string
	next  int
	err   error
}

// value reads a line that begins with prefix, and gives the rest of it. Only the title
// must be the very first line.
func (r *reader) value(path, prefix, example string) string {
	if r.next > 0 {
		r.skipBlank()
	}
	if r.next < len(r.lines) {
		if value, ok := strings.CutPrefix(r.lines[r.next], prefix); ok {
			r.next++
			return strings.TrimSpace(value)
		}
	}
	r.missing(path, schemas.Quote(prefix+example))
	return ""
}

// at tells whether the next line is this heading.
func (r *reader) at(heading string) bool {
	r.skipBlank()
	return r.next < len(r.lines) && strings.TrimRight(r.lines[r.next], " \t") == heading
}

// section reads a heading and what stands under it, up to the next heading.
func (r *reader) section(heading string) string {
	if !r.at(heading) {
		r.missing(heading, schemas.Quote(heading)+r.hint())
		return ""
	}
	r.next++
	from := r.next
	for r.next < len(r.lines) && !strings.HasPrefix(r.lines[r.next], "## ") {
		r.next++
	}
	return trimBlank(strings.Join(r.lines[from:r.next], "\n"))
}

// end demands that nothing follows the last section: only a heading can.
func (r *reader) end() {
	if r.next < len(r.lines) {
		problem := fmt.Sprintf("line %d is %s, after the last section", r.next+1, schemas.Quote(r.lines[r.next]))
		r.fail(wrong(schemas.CodeUnknownField, "$", problem, "nothing more"+r.hint()))
	}
}

func (r *reader) missing(path, want string) {
	problem := "missing: the record ends here"
	if r.next < len(r.lines) {
		problem = fmt.Sprintf("missing: line %d is %s", r.next+1, schemas.Quote(r.lines[r.next]))
	}
	r.fail(wrong(schemas.CodeMissingField, path, problem, want))
}

func (r *reader) fail(err error) { r.err = cmp.Or(r.err, err) }

// hint tells how to write a heading that was meant as text.
func (r *reader) hint() string {
	if r.next < len(r.lines) && strings.HasPrefix(r.lines[r.next], "## ") {
		return `; inside a text a heading is written "\## "`
	}
	return ""
}

func (r *reader) skipBlank() {
	for r.next < len(r.lines) && isBlank(r.lines[r.next]) {
		r.next++
	}
}
