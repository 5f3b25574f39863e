package action

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// A file of a few bytes costs a few megabytes to look at, whatever stands in it:
// ranges of ports, aliases of aliases, deep nesting.
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
		{"aliases", aliases.String() + "services: {a: {image: b}}", "aliasing"},
		{"nesting", "services: {a: {image: b, labels: " + strings.Repeat("[", 900) + strings.Repeat("]", 900) + "}}", "labels"},
		{"a small range", "services: {a: {image: b, ports: ['127.0.0.1:8000-8010:80-90']}}", ""},
		{"no range", "services: {a: {image: b, command: ['1-2', 'a-b']}}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := (&DeployCompose{Compose: c.text}).Validate(Limits{})
			runtime.ReadMemStats(&after)
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("got %v, want something about %q", err, c.refused)
			}
			if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 64 {
				t.Errorf("%d bytes took %d MiB", len(c.text), took)
			}
		})
	}
}
