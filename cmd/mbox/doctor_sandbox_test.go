package main

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
		level  level
		text   string
	}{
		{able, nil, fine, "Landlock ABI 7"},
		{able, []string{"coder"}, fine, "can be confined"},
		{unable, nil, doubt, "commands cannot be confined: Landlock is old"},
		{unable, []string{"coder", "tester"}, wrong, "coder, tester cannot be confined: Landlock is old"},
	} {
		var e exam
		e.confinement(c.can, c.asking)
		if len(e.findings) != 1 || e.findings[0].Level != c.level || !strings.Contains(e.findings[0].Text, c.text) {
			t.Errorf("%+v asked by %v: %+v, want %s and %q", c.can, c.asking, e.findings, c.level, c.text)
		}
	}
}
