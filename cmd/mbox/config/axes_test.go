package config

import (
	"maps"
	"reflect"
	"testing"

	"mbox/agents/policy"
)

// noRight are the keys of an agent's table that no policy is made of, and why they
// grant nothing that a delegation could gain.
var noRight = map[string]string{
	"Types":               "what it takes from any; a delegation names its agent",
	"Actions":             "what it takes; a role's actions are judged one by one",
	"OnlyNamed":           "what it takes from any; a delegation names its agent",
	"Concurrency":         "how many tasks at once",
	"DreamEvery":          "how often mbox up has it dream",
	"MaxMemoryLines":      "what a dream leaves of its memory",
	"MaxTasksPerCycle":    "how many tasks from one idle tick to the next",
	"MaxMessagesPerCycle": "another name of MaxTasksPerCycle",
	"IdleInterval":        "how often its worker says that it is there",
	"Timeout":             "how long a command runs; the tree's budget counts the seconds",
	"Silence":             "how long a command may write nothing",
	"ACP":                 "who does its tasks: it has no role, which is an axis",
	"AgentZero":           "who does its tasks: it has no role, which is an axis",
	"ExecFormat":          "how its command's output is read",
	"Exit":                "what its command's exit codes mean",
	"Quota":               "how its command says that its account has nothing left",
	"Account":             "whose quota it waits for",
	"Accept":              "what its results have to pass, which only takes away",
	"ExpectOutput":        "what its results have to be",
	"WatchChannels":       "which messages it gets; each is a task that names it, which anybody may send",
	"Brain":               "what it thinks with: a command has to stand in allowed_commands, and what it replies is judged",
	"Memory":              "there is none yet",
	"Version":             "which of its programs may work, which only takes away",
	"Units":               "where a person's supervisor finds the mbox that works for it",
	"UUID":                "by what its memories are its own, which nobody else is shown",
	"Formerly":            "what it was called: what those names were granted is its own",
}

// inPolicy are the keys whose name there is another one.
var inPolicy = map[string]string{"Role": "Exec"}

// Each key of an agent's table goes into its policy, where an axis compares it, or
// says why it grants nothing.
func TestEveryAgentKeyHasAnAxis(t *testing.T) {
	why, rights := maps.Clone(noRight), reflect.TypeFor[policy.Agent]()
	for f := range reflect.TypeFor[Agent]().Fields() {
		name := f.Name
		if other := inPolicy[name]; other != "" {
			name = other
		}
		if _, there := rights.FieldByName(name); there == (why[name] != "") {
			t.Errorf("agents.*.%s: either policy.Agent has it, or noRight says why not", f.Name)
		}
		delete(why, name)
	}
	if len(why) > 0 {
		t.Errorf("there is no key %v", why)
	}
}

// An agent with a role is bounded by it, any other by nothing of mbox.
func TestExecIsNoRole(t *testing.T) {
	c := read(t, "[agents.coder]\nexec = 'true'\n[agents.outside]\ntypes = ['other']\n[agents.second]\nrole = 'coder'")
	for name, want := range map[string]bool{"coder": true, "outside": true, "second": false, "tester": false} {
		p, err := policy.ForAgent(c.Policy(), name)
		if err != nil || p.Exec != want {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}
