package task

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// What a result says is the text of a command, the answer of a brain, or all that it gave.
func TestSaid(t *testing.T) {
	for output, want := range map[string]string{
		`"plain"`: "plain", `{"answer":"well","results":[]}`: "well", `{"n":1}`: `{"n":1}`, `[1]`: "[1]", "null": "", "": "",
	} {
		r := Result{Output: jsontext.Value(output)}
		if got := r.Said(); got != want {
			t.Errorf("%s: %q", output, got)
		}
	}
}
