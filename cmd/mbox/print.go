package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"mbox/cmd/mbox/top"
	"mbox/schemas"
)

// maxLine is how many runes of one line reach a terminal.
const maxLine = 2000

// clean makes text that came from outside fit for a terminal: one line, no
// escape sequences, no characters that hide or reorder others.
func clean(text string, max int) string { return schemas.Sentence(text, max) }

// cleanLines is clean for text of several lines.
func cleanLines(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, l := range lines {
		lines[i] = clean(strings.ReplaceAll(strings.TrimSuffix(l, "\r"), "\t", "    "), maxLine)
	}
	return strings.Join(lines, "\n")
}

// wholeLines is cleanLines that cuts nothing and leaves nothing out.
func wholeLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = clean(strings.ReplaceAll(l, "\t", "    "), math.MaxInt)
	}
	return strings.Join(lines, "\n")
}

// paint colours text, or leaves it.
type paint func(string) string

func plain(text string) string { return text }

func ansi(code string) paint {
	return func(text string) string { return "\x1b[" + code + "m" + text + "\x1b[0m" }
}

// palette is the colours of one stream. Its zero value has none.
type palette struct{ on bool }

// colours is the palette of a terminal, which NO_COLOR and TERM=dumb empty.
func colours() palette {
	return palette{os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (p palette) with(code, text string) string {
	if !p.on || text == "" {
		return text
	}
	return ansi(code)(text)
}

func (p palette) red(t string) string    { return p.with("31", t) }
func (p palette) green(t string) string  { return p.with("32", t) }
func (p palette) yellow(t string) string { return p.with("33", t) }
func (p palette) blue(t string) string   { return p.with("34", t) }
func (p palette) cyan(t string) string   { return p.with("36", t) }
func (p palette) bold(t string) string   { return p.with("1", t) }
func (p palette) dim(t string) string    { return p.with("2", t) }

// printf writes to stdout. What it is given must be clean already.
func (s *printer) printf(format string, a ...any) { fmt.Fprintf(s.out, format, a...) }

// printRaw writes a ledger line as it stands. A terminal gets what its characters
// do written as escapes; a program gets the bytes that the checksum is of.
func (s *printer) printRaw(line []byte) {
	if s.terminal {
		line = schemas.SafeJSON(line)
	}
	s.printf("%s\n", line)
}

// printJSON writes v as one JSON document, indented.
func (s *printer) printJSON(v any) error {
	data, err := schemas.Encode(v)
	if err == nil {
		_, err = s.out.Write(schemas.SafeJSON(data))
	}
	return err
}

// printLine writes v as JSON on one line.
func (s *printer) printLine(v any) error {
	line, err := jsonLine(v)
	if err == nil {
		_, err = s.out.Write(line)
	}
	return err
}

// jsonLine is a value as JSON on one line, which cannot move the cursor.
func jsonLine(v any) ([]byte, error) {
	data, err := schemas.Encode(v)
	if err != nil {
		return nil, err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, data); err != nil {
		return nil, err
	}
	line.WriteByte('\n')
	return schemas.SafeJSON(line.Bytes()), nil
}

// table collects rows and prints them in columns as wide as needed. The last
// column is cut to the terminal; a pipe gets it whole.
type table struct {
	head  []string
	spare []string // columns that a terminal can do without, the least wanted first
	rows  [][]cell
}

type cell struct {
	text   string
	colour paint
	fit    func(wide int) string // in the last column of a terminal, where text is too long
}

func text(t string) cell { return cell{text: clean(t, maxLine)} }

func coloured(t string, p paint) cell { return cell{text: clean(t, maxLine), colour: p} }

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

func (t *table) print(s *session) {
	if s.wide > 0 {
		t.narrow(s.wide)
	}
	widths := t.widths()
	head := make([]cell, len(t.head))
	for i, h := range t.head {
		head[i] = cell{text: h, colour: s.paint.dim}
	}
	for _, row := range append([][]cell{head}, t.rows...) {
		s.printf("%s\n", s.row(row, widths))
	}
}

// narrow cuts long names in the first column, and leaves out the columns that can be
// spared and have nothing in them; then, as long as there is no room, those in which all
// rows say the same, and the others.
func (t *table) narrow(wide int) {
	for _, row := range t.rows {
		row[0].text = top.Middle(row[0].text, max(wide/4, idWide))
	}
	same := func(i int) bool {
		return !slices.ContainsFunc(t.rows, func(row []cell) bool { return row[i].text != t.rows[0][i].text })
	}
	t.leaveOut(func(i int) bool { return same(i) && (len(t.rows) == 0 || t.rows[0][i].text == "-") })
	t.leaveOut(func(i int) bool { return len(t.rows) > 1 && same(i) && !t.fits(wide) })
	t.leaveOut(func(int) bool { return !t.fits(wide) })
}

// fits tells whether there is room for the last column, or for as much of it as should
// be seen: 32 characters of 80.
func (t *table) fits(wide int) bool {
	used, widths := 0, t.widths()
	last := len(widths) - 1
	for _, w := range widths[:last] {
		used += w + 2
	}
	return used+min(widths[last], wide*2/5) <= wide
}

// leaveOut leaves out the columns that can be spared and of which is says so.
func (t *table) leaveOut(is func(i int) bool) {
	for _, name := range t.spare {
		i := slices.Index(t.head, name)
		if i < 0 || !is(i) {
			continue
		}
		t.head = slices.Delete(slices.Clone(t.head), i, i+1)
		for r := range t.rows {
			t.rows[r] = slices.Delete(t.rows[r], i, i+1)
		}
	}
}

func (t *table) widths() []int {
	widths := make([]int, len(t.head))
	for i, h := range t.head {
		widths[i] = len(h)
	}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], top.Cells(c.text))
		}
	}
	return widths
}

func (s *printer) row(cells []cell, widths []int) string {
	var b strings.Builder
	used := 0
	for i, c := range cells {
		shown, pad := c.text, 0
		if i < len(cells)-1 {
			pad = widths[i] - top.Cells(c.text) + 2
			used += widths[i] + 2
		} else if room := max(s.wide-used, 8); s.wide > 0 {
			if shown = top.Cut(c.text, room); c.fit != nil && shown != c.text {
				shown = c.fit(room)
			}
		}
		if c.colour != nil {
			shown = c.colour(shown)
		}
		b.WriteString(shown + strings.Repeat(" ", pad))
	}
	return strings.TrimRight(b.String(), " ")
}

// printIfAny prints the table, or says on stderr that nothing is in it.
func (t *table) printIfAny(s *session, nothing string) {
	if len(t.rows) > 0 {
		t.print(s)
	} else if !s.json {
		s.infof("%s", s.proposes.named(nothing))
	}
}

func count(n int) cell { return cell{text: fmt.Sprint(n)} }
