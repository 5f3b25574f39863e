package action

import (
	"fmt"
	"strings"
	"testing"
)

// many is a text of so many parts.
func many(n int, part func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(part(i))
	}
	return b.String()
}

// ladder is services of which each two need the two before: 2^rungs ways.
func ladder(rungs int) string {
	return "services:\n  a0: {image: b}\n  b0: {image: b}\n" + many(rungs, func(i int) string {
		return fmt.Sprintf("  a%[2]d: {image: b, depends_on: [a%[1]d, b%[1]d]}\n  b%[2]d: {image: b, depends_on: [a%[1]d, b%[1]d]}\n", i, i+1)
	})
}

// A file of a few bytes costs a few megabytes to look at, whatever stands in it:
// ranges of ports, aliases of aliases, deep nesting, services that need others.
func TestComposeIsBounded(t *testing.T) {
	var aliases strings.Builder
	aliases.WriteString("x-0: &a0 {a: 1, b: 2}\n")
	for i := 1; i < 24; i++ {
		fmt.Fprintf(&aliases, "x-%d: &a%d {a: *a%d, b: *a%d}\n", i, i, i-1, i-1)
	}
	for _, c := range []struct{ name, text, refused string }{
		{"a range", "services: {a: {image: b, ports: ['127.0.0.1:1-65000:1-65000']}}", "more than 1000 ports"},
		{"a range of UDP", "services: {a.b: {image: b, ports: ['[::1]:1-65000:1-65000/udp']}}", "more than 1000 ports"},
		{"a range by escapes", `services: {a: {image: b, ports: ["127.0.0.1:1\x2d65000:1\x2d65000"]}}`, "more than 1000 ports"},
		{"many ranges", "services: {a: {image: b, ports: [" + strings.Repeat("'127.0.0.1:1-900:1-900',", 20) + "]}}", "more than 1000 ports"},
		{"a range by merge", "x-p: &p {ports: ['127.0.0.1:1-65000:1-65000']}\nservices: {a: {image: b, <<: *p}}", "more than 1000 ports"},
		{"aliases", aliases.String() + "services: {a: {image: b}}", "more than 1000 keys"},
		{"nesting", "services: {a: {image: b, labels: " + strings.Repeat("[", 900) + strings.Repeat("]", 900) + "}}", "levels deep"},
		{"nesting in an extension", "x-a: " + strings.Repeat("{a: ", 3500) + strings.Repeat("}", 3500) + "\nservices: {a: {image: b}}", "levels deep"},
		{"nesting in a list", "x-a:\n  " + strings.Repeat("- ", 9000) + "a\nservices: {a: {image: b}}", "levels deep"},
		{"nesting in keys", "x-a:\n  " + strings.Repeat("? ", 9000) + "a\nservices: {a: {image: b}}", "levels deep"},
		{"an alias of itself", "x-a: &a [*a]\nservices: {a: {image: b}}", "levels deep"},
		{"documents", strings.Repeat("---\nservices: {a: {image: b}}\n", 600), "more than one document"},
		{"services", "services:\n" + many(1000, func(i int) string { return fmt.Sprintf(" a%d: {image: b}\n", i) }), "more than 1000 keys"},
		{"a ladder", ladder(12), "more than 1000 ways"},
		{"a circle behind a ladder", strings.Replace(ladder(12), "a0: {image: b}", "a0: {image: b, depends_on: [a12]}", 1), "leads back"},
		{"a long command", "services: {a: {image: b, command: '" + strings.Repeat("𝔘", 18000) + "'}}", "more than 4096 bytes"},
		{"a long entrypoint", "x-e: &e " + strings.Repeat("𝔘", 18000) + "\nservices: {a: {image: b, entrypoint: *e}}", "more than 4096 bytes"},
		{"a small range", "services: {a: {image: b, ports: ['127.0.0.1:8000-8010:80-90']}}", ""},
		{"no range", "services: {a: {image: b, command: ['1-2', 'a-b']}}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			cheap(t, c.text, func() { err = validate(c.text) })
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("got %v, want something about %q", err, c.refused)
			}
		})
	}
}
