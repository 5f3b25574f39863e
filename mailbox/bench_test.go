package mailbox

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox/durable"
)

// BenchmarkCycle is submit, claim and complete of one task in one process.
func BenchmarkCycle(b *testing.B) {
	for name, mode := range map[string]durable.Mode{"standard": durable.Standard, "none": durable.None} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir() + "/home"
			if err := Create(dir, Options{Sync: durable.None}); err != nil {
				b.Fatal(err)
			}
			box, err := Open(b.Context(), dir, Options{Sync: mode})
			if err != nil {
				b.Fatal(err)
			}
			defer box.Close()
			for b.Loop() {
				if _, err := box.Submit(b.Context(), request("bench")); err != nil {
					b.Fatal(err)
				}
				c, err := box.Claim(b.Context(), ClaimRequest{Agent: "coder", Process: true})
				if err != nil {
					b.Fatal(err)
				}
				if err := c.Complete(b.Context(), Result{Output: jsontext.Value(`"done"`)}); err != nil {
					b.Fatal(err)
				}
				c.Close()
			}
		})
	}
}
