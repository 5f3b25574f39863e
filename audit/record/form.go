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
// lie, so that reading and writing are the same for both kinds.
type form struct {
	kind     string // Decision
	idForm   func() *regexp.Regexp
	id       *string
	fields   []field
	none     string // what stands for the last field if that has no value
	sections []section
}

type field struct {
	name  string
	value *string
	check func(string) error
}

// section has a text or a list of texts.
type section struct {
	name     string
	text     *string
	list     *[]string
	optional bool // may stay without text
}

func (s *section) heading() string { return "## " + s.name }

func (s *section) texts() []string {
	if s.list != nil {
		return *s.list
	}
	return []string{*s.text}
}

// normalize makes one text of all that are the same but for blank lines and line ends.
func (s *section) normalize() {
	if s.list == nil {
		*s.text = normalText(*s.text)
		return
	}
	items := make([]string, len(*s.list))
	for i, item := range *s.list {
		items[i] = normalItem(item)
	}
	*s.list = items
}

func (s *section) check() error {
	if s.list != nil {
		return checkList(s.heading(), *s.list)
	}
	return checkText(s.heading(), *s.text)
}

// marked is what stands under the heading.
func (s *section) marked() string {
	if s.list != nil {
		return printList(*s.list)
	}
	return mark(*s.text)
}

func (s *section) unmark(text string) (err error) {
	if s.list != nil {
		*s.list, err = parseList(s.heading(), text)
	} else {
		*s.text, err = unmark(s.heading(), text)
	}
	return err
}

// settle makes the texts normal and checks the whole.
func (f *form) settle() error {
	for _, s := range f.sections {
		s.normalize()
	}
	return f.check()
}

func (f *form) write() ([]byte, error) {
	if err := f.settle(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s: %s\n\n", f.kind, *f.id)
	for _, field := range f.fields {
		fmt.Fprintf(&b, "**%s:** %s\n", field.name, cmp.Or(*field.value, f.none))
	}
	for _, s := range f.sections {
		fmt.Fprintf(&b, "\n%s\n", s.heading())
		if text := s.marked(); text != "" {
			fmt.Fprintf(&b, "\n%s\n", text)
		}
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
		*field.value = r.value(field.name, "**"+field.name+":**", " …")
	}
	var bodies []string
	for _, s := range f.sections {
		bodies = append(bodies, r.section(s.heading()))
	}
	if r.end(); r.err != nil {
		return r.err
	}
	if err := f.takeNone(); err != nil {
		return err
	}
	for i, s := range f.sections {
		err = cmp.Or(err, s.unmark(bodies[i]))
	}
	if err != nil {
		return err
	}
	return f.settle()
}

// takeNone takes the word for no value out of the last field.
func (f *form) takeNone() error {
	last := f.fields[len(f.fields)-1]
	switch {
	case f.none == "":
	case *last.value == "":
		return wrong(schemas.CodeMissingField, last.name, "no value", `a task id, or "none"`)
	case *last.value == f.none:
		*last.value = ""
	}
	return nil
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

// section reads a heading and what stands under it, up to the next heading.
func (r *reader) section(heading string) string {
	r.skipBlank()
	if r.next >= len(r.lines) || strings.TrimRight(r.lines[r.next], " \t") != heading {
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
	if r.err == nil && r.next < len(r.lines) {
		problem := fmt.Sprintf("line %d is %s, after the last section", r.next+1, schemas.Quote(r.lines[r.next]))
		r.err = wrong(schemas.CodeUnknownField, "$", problem, "nothing more"+r.hint())
	}
}

func (r *reader) missing(path, want string) {
	problem := "missing: the record ends here"
	if r.next < len(r.lines) {
		problem = fmt.Sprintf("missing: line %d is %s", r.next+1, schemas.Quote(r.lines[r.next]))
	}
	r.err = cmp.Or(r.err, wrong(schemas.CodeMissingField, path, problem, want))
}

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
