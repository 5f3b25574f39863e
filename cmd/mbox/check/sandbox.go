package check

import (
	"strings"

	"mbox/agents/sandbox"
)

// sandbox tells whether this machine can confine commands.
func (e *Exam) sandbox() {
	var asking []string
	if e.Config != nil {
		asking = e.Config.Confined()
	}
	e.confinement(sandbox.Probe(), asking)
}

// confinement judges what a machine offers. That commands cannot be confined is
// wrong only where agents ask for it: their tasks would not start.
func (e *Exam) confinement(can sandbox.Support, asking []string) {
	switch {
	case can.Err() == nil:
		e.add("sandbox", Fine, "", "Landlock ABI %d, namespaces and seccomp: commands can be confined", can.ABI)
	case len(asking) > 0:
		e.add("sandbox", Wrong, `set sandbox = "none" for them, or run mbox where it can be had`,
			"%s cannot be confined: %s", strings.Join(asking, ", "), can.Why)
	default:
		e.add("sandbox", Doubt, "", "commands cannot be confined: %s", can.Why)
	}
}
