package check

import (
	"errors"

	"mbox/agents/policy"
)

// rights names the hand-overs that mbox.toml lists and that are refused all the
// same, since who would get the work may do more than who hands it on.
func (e *Exam) rights() {
	if e.Config == nil {
		return
	}
	policies := e.Config.Policy()
	for _, parent := range e.Config.AgentNames() {
		mine, err := policy.ForAgent(policies, parent)
		if err != nil || !e.Config.Agents[parent].Enabled {
			continue
		}
		for _, child := range mine.Delegates {
			its, err := policy.ForAgent(policies, child)
			if err != nil || !e.Config.Agents[child].Enabled {
				continue
			}
			var beyond *policy.Escalation
			var why *policy.Denied
			if err := its.Beyond(mine); errors.As(err, &beyond) && errors.As(err, &why) {
				e.add("rights", Doubt, why.Hint, "%s cannot hand work to %s: its %s is %s, and that of %s is %s", parent, child, beyond.Axis, beyond.Child, parent, beyond.Parent)
			}
		}
	}
}
