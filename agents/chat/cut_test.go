package chat

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCut(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, c := range []struct {
		name        string
		text        string
		most, lines int
		want        []string
	}{
		{"short", "one", 64, 0, []string{"one"}},
		{"paragraphs", strings.Repeat("a ", 25) + "\n\n" + strings.Repeat("b ", 25), 64, 0, []string{strings.TrimSpace(strings.Repeat("a ", 25)), strings.Repeat("b ", 25)}},
		{"lines", long[:40] + "\n" + long[:40], 64, 0, []string{long[:40], long[:40]}},
		{"words", long[:40] + " " + long[:40], 64, 0, []string{long[:40], long[:40]}},
		{"no words", long + "y", 64, 0, []string{long, "y"}},
		{"runes", strings.Repeat("ü", 33), 65, 0, []string{strings.Repeat("ü", 32), "ü"}},
		{"accents", long[:63] + "e\u0301\u0302z", 65, 0, []string{long[:63], "e\u0301\u0302z"}},
		{"families", long[:50] + "👩\u200d👩\u200d👧z", 64, 0, []string{long[:50], "👩\u200d👩\u200d👧z"}},
		{"flags", long[:58] + "🇩🇪z", 64, 0, []string{long[:58], "🇩🇪z"}},
		{"many lines", "1\n2\n3\n4\n5", 640, 2, []string{"1\n2", "3\n4", "5"}},
		{"nothing to see", "a" + strings.Repeat("\t", 63) + strings.Repeat("\u200d\t", 32) + "b", 64, 0, []string{"a" + strings.Repeat("\t", 62), "\tb"}},
		{"nothing before", strings.Repeat("\t", 90) + "b", 64, 0, []string{strings.Repeat("\t", 26) + "b"}},
		{"nothing at all", strings.Repeat("\t", 90), 64, 0, []string{strings.Repeat("\t", 64)}},
		{"fence", "a\n```go\n" + strings.Repeat("f()\n", 20) + "```\nend", 64, 0, []string{
			"a\n```go\n" + strings.Repeat("f()\n", 11) + "```",
			"```go\n" + strings.Repeat("f()\n", 9) + "```\nend",
		}},
	} {
		got := cut(c.text, c.most, c.lines)
		if strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Whatever is cut, no piece is too long, none is empty or broken, and but for spaces
// and fences nothing is lost or comes twice.
func FuzzCut(f *testing.F) {
	f.Add("a b\n\nc ```x\ny```", 64, 4)
	f.Add(strings.Repeat("```go\n", 40), 70, 3)
	f.Add(strings.Repeat("👩\u200d", 40), 64, 0)
	f.Fuzz(func(t *testing.T, text string, most, lines int) {
		text = Plain(text)
		if text == "" || most < leastCut || most > 1<<16 || lines < 0 || lines > 1<<16 {
			return
		}
		pieces := cut(text, most, lines)
		for _, p := range pieces {
			if len(p) > most || lines > 0 && strings.Count(p, "\n") >= lines || !utf8.ValidString(p) {
				t.Errorf("%d bytes, %d lines of at most %d and %d: %q", len(p), strings.Count(p, "\n")+1, most, lines, p)
			}
		}
		if len(pieces) > 1 && slices.ContainsFunc(pieces, blank) {
			t.Errorf("%q shows nothing in a piece", pieces)
		}
		if strings.ContainsAny(text, "`~") {
			return
		}
		bare := func(text string) string {
			return strings.Map(func(r rune) rune {
				if blank(string(r)) {
					return -1
				}
				return r
			}, text)
		}
		if got := bare(strings.Join(pieces, "")); got != bare(text) {
			t.Errorf("%q became %q", text, pieces)
		}
	})
}
