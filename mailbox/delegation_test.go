package mailbox

import (
	"strings"
	"testing"

	"mbox/audit/delegation"
)

// verify takes a delegation line as the ledger's type writes it, and none that
// does not say who, what request and which decision.
func TestVerifyDelegation(t *testing.T) {
	whole := delegation.Details{RequestID: 1771237800123456, FromAgent: "coordinator", ToAgent: "coder", Task: "write_file", Decision: delegation.Delivered}
	for _, c := range []struct{ name, old, new, want string }{
		{"whole", "", "", ""},
		{"nobody handed it", `"from_agent":"coordinator"`, `"from_agent":""`, "from_agent"},
		{"to nobody", `"to_agent":"coder"`, `"to_agent":""`, "to_agent"},
		{"to a number", `"to_agent":"coder"`, `"to_agent":7`, "to_agent"},
		{"no request", `"request_id":`, `"request":`, "request_id"},
		{"no decision", `"decision":"delivered"`, `"verdict":"delivered"`, "decision"},
		{"a strange decision", `"decision":"delivered"`, `"decision":"maybe"`, "decision"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFolding()
			e := whole.Entry("coordinator", "a")
			changed := strings.Replace(string(e.Details), c.old, c.new, 1)
			if c.old != "" && changed == string(e.Details) {
				t.Fatalf("%s is not in %s", c.old, e.Details)
			}
			e.Details = []byte(changed)
			if err := e.Details.Canonicalize(); err != nil {
				t.Fatal(err)
			}
			_, what := f.line(asLine(t, e))
			if c.want == "" && what != "" || !strings.Contains(what, c.want) {
				t.Errorf("verify says %q of %s, want %q", what, e.Details, c.want)
			}
		})
	}
}
