package check

import (
	"strings"
	"testing"

	"mbox/agents/sandbox"
)

func TestConfinement(t *testing.T) {
	able := sandbox.Support{ABI: 7, Namespaces: true, Seccomp: true}
	unable := sandbox.Support{ABI: 3, Seccomp: true, Why: "Landlock is old"}
	for _, c := range []struct {
		can    sandbox.Support
		asking []string
		level  Level
		text   string
	}{
		{able, nil, Fine, "Landlock ABI 7"},
		{able, []string{"coder"}, Fine, "can be confined"},
		{unable, nil, Doubt, "commands cannot be confined: Landlock is old"},
		{unable, []string{"coder", "tester"}, Wrong, "coder, tester cannot be confined: Landlock is old"},
	} {
		var e Exam
		e.confinement(c.can, c.asking)
		if len(e.Findings) != 1 || e.Findings[0].Level != c.level || !strings.Contains(e.Findings[0].Text, c.text) {
			t.Errorf("%+v asked by %v: %+v, want %s and %q", c.can, c.asking, e.Findings, c.level, c.text)
		}
	}
}
