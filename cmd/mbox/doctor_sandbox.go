package main

import (
	"strings"

	"mbox/agents/sandbox"
)

// sandbox tells whether this machine can confine commands.
func (e *exam) sandbox(asking []string) { e.confinement(sandbox.Probe(), asking) }

// confinement judges what a machine offers. That commands cannot be confined is
// wrong only where agents ask for it: their tasks would not start.
func (e *exam) confinement(can sandbox.Support, asking []string) {
	switch {
	case can.Err() == nil:
		e.add("sandbox", fine, "", "Landlock ABI %d, namespaces and seccomp: commands can be confined", can.ABI)
	case len(asking) > 0:
		e.add("sandbox", wrong, `set sandbox = "none" for them, or run mbox where it can be had`,
			"%s cannot be confined: %s", strings.Join(asking, ", "), can.Why)
	default:
		e.add("sandbox", doubt, "", "commands cannot be confined: %s", can.Why)
	}
}
