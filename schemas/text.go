package schemas

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Pattern is a regular expression that is compiled when it is first used: of
// those that mbox knows a command needs few.
func Pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// maxQuoted is how many runes of foreign text an error repeats.
const maxQuoted = 80

// Sentence makes text from outside fit for a terminal, a log or an error: one
// line of at most max runes. Control, bidirectional and zero-width characters
// and bytes that are no UTF-8 become visible escapes (\n, \x1b, \u202e), longer
// text ends in "…", and no escape is cut in half. A backslash stays as it is, so
// the result is for people and cannot be read back. With max < 1 it is empty.
func Sentence(text string, max int) string {
	return visible(text, max, "")
}

// Quote is how an error repeats foreign text: [Sentence] of at most 80 runes,
// in quotation marks, with those inside it escaped.
func Quote(text string) string {
	return `"` + visible(text, maxQuoted, `"\`) + `"`
}

func visible(text string, max int, alsoEscape string) string {
	if len(text) <= max && printable(text) && !strings.ContainsAny(text, alsoEscape) {
		return text
	}
	var b strings.Builder
	runes, fits := 0, 0 // fits: the bytes that leave room for the "…"
	for len(text) > 0 && max > 0 {
		r, size := utf8.DecodeRuneInString(text)
		piece := text[:size]
		switch {
		case r == utf8.RuneError && size == 1, hidden(r):
			piece = escape(r, piece)
		case strings.ContainsRune(alsoEscape, r):
			piece = `\` + piece
		}
		runes += utf8.RuneCountInString(piece)
		if runes > max {
			return b.String()[:fits] + "…"
		}
		b.WriteString(piece)
		if runes < max {
			fits = b.Len()
		}
		text = text[size:]
	}
	return b.String()
}

// hidden tells whether a rune moves the cursor, reorders text, or shows nothing.
func hidden(r rune) bool {
	switch r {
	case '\u034f', '\u115f', '\u1160', '\u3164', '\uffa0': // grapheme joiner and Hangul fillers: they count as letters
		return true
	}
	return !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r)
}

// SafeJSON writes the characters of JSON text that Sentence would escape as
// JSON escapes: \u202e, and not the bytes that turn a terminal's line around.
// The value stays the same, but for bytes that are no UTF-8. JSON has such
// characters only inside strings; line breaks between its tokens stay.
func SafeJSON(data []byte) []byte {
	if !bytes.ContainsFunc(data, func(r rune) bool { return r == utf8.RuneError || r != '\n' && hidden(r) }) {
		return data
	}
	out := make([]byte, 0, len(data)+64)
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1: // such as 0x9b, which some terminals obey
			out = append(out, `\ufffd`...)
		case r == '\n' || !hidden(r):
			out = append(out, data[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		data = data[size:]
	}
	return out
}

func escape(r rune, raw string) string {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Sprintf(`\x%02x`, raw[0])
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// Size writes bytes as people do.
func Size(bytes uint64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	f, i := float64(bytes), 0
	for f >= 1000 && i < len(units)-1 {
		f, i = f/1000, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

var utcTime = Pattern(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z`)

// LocalTimes has the times in a text, which are in UTC, as a person on this machine
// reads them. What is quoted, or part of a longer word such as a file's name, stays.
func LocalTimes(text string) string {
	var out strings.Builder
	end := 0
	for _, found := range utcTime().FindAllStringIndex(text, -1) {
		at, err := time.Parse(time.RFC3339Nano, text[found[0]:found[1]])
		if err != nil || !wordBegins(text[:found[0]]) || !wordEnds(text[found[1]:]) {
			continue
		}
		out.WriteString(text[end:found[0]])
		out.WriteString(LocalTime(at))
		end = found[1]
	}
	return out.String() + text[end:]
}

func wordBegins(before string) bool {
	return before == "" || strings.ContainsRune(" \t\n(", rune(before[len(before)-1]))
}

func wordEnds(after string) bool {
	after = strings.TrimLeft(after, ".,;:)!?")
	return after == "" || strings.ContainsRune(" \t\n", rune(after[0]))
}

// LocalTime is a time as a person on this machine reads it.
func LocalTime(t time.Time) string { return t.Local().Format(time.DateTime) }

// Ago is how long ago t was, in one unit: 4m, 3h, 12d.
func Ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "-"
	case d < 0:
		return "in " + Ago(now, t)
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// ShellWord writes a word so that a shell reads it back.
func ShellWord(w string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%"
	if w != "" && strings.Trim(w, safe) == "" {
		return w
	}
	if !strings.ContainsAny(w, `"$\`+"`!") {
		return `"` + w + `"`
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// Count is a number of things: "1 task", "2 tasks".
func Count[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n) + " " + many
}

// Meant is "; did you mean x?" where a word is near one of those known.
func Meant(word string, among []string) string {
	if near := Suggest(word, among); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// Suggest finds the word that was probably meant: the nearest one within two
// edits (fewer for short words; capitals do not count), else one that begins
// with word or that word begins with. It gives "" where nothing is near, and
// the first of several that are equally near.
func Suggest(word string, among []string) string {
	const longest = 128 // what is longer was not meant to be one of ours
	if word == "" || len(word) > longest {
		return ""
	}
	word = strings.ToLower(word)
	best, limit := "", min(2, utf8.RuneCountInString(word)/2)+1
	for _, candidate := range among {
		if len(candidate) > longest {
			continue
		}
		if d := distance(word, strings.ToLower(candidate)); d < limit {
			best, limit = candidate, d
		}
	}
	if best != "" {
		return best
	}
	return byPrefix(word, among)
}

func byPrefix(word string, among []string) string {
	for _, candidate := range among {
		c := strings.ToLower(candidate)
		if strings.HasPrefix(c, word) || len(c) >= 3 && strings.HasPrefix(word, c) {
			return candidate
		}
	}
	return ""
}

// distance is Levenshtein's: how many runes to insert, delete or replace.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j := range to {
			replaced := diagonal
			if from[i] != to[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}

// Cut is text of at most max bytes, ended at a whole character, with a word that
// says how much is missing.
func Cut(text string, max int) string {
	if len(text) <= max {
		return text
	}
	end := max
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes more)", text[:end], len(text)-end)
}

// Tail keeps the end of what is written to it, by any number of goroutines.
type Tail struct {
	Most int // bytes

	mu   sync.Mutex
	last []byte
}

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p[max(0, len(p)-t.Most):]...)
	t.last = append(t.last[:0], t.last[max(0, len(t.last)-t.Most):]...)
	return len(p), nil
}

// String is the end so far. It may begin within a character.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.last)
}

// printable tells whether a text is printable ASCII alone.
func printable(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
