package config

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"

	"mbox/agents"
	"mbox/schemas"
)

// maxQuota bounds a pattern of quota.
const maxQuota = 500

var versionForm = schemas.Pattern(`^[0-9]+[0-9A-Za-z.+-]{0,63}$`)

// checkCommand checks what the agent's table says of the command that does its tasks.
func (f *origins) checkCommand(key string, a *Agent) error {
	for _, k := range []struct {
		name       string
		set, serve bool
	}{
		{".exec_format", a.ExecFormat != string(agents.FormatJSON), a.Exec != ""},
		{".exit", len(a.Exit) > 0, a.Exec != ""},
		{".quota", len(a.Quota) > 0, a.Whole()},
		{".account", a.Account != "", a.Whole()},
		{".version", a.Version != "", a.Command() != ""},
	} {
		if k.set && !k.serve {
			return advise(f.wrong(key+k.name, "it has no command, of which that tells"), `exec = "COMMAND" in [%s]`, key)
		}
	}
	if a.Version != "" && !versionForm().MatchString(a.Version) {
		return f.wrong(key+".version", "%s is no version: want a number such as 2.1, or 2.1.34", quoted(a.Version))
	}
	if err := f.checkAgentZero(key+".agentzero", a.AgentZero); err != nil {
		return err
	}
	if err := f.checkWord(key+".exec_format", a.ExecFormat, agents.Formats()); err != nil {
		return err
	}
	for _, code := range slices.Sorted(maps.Keys(a.Exit)) {
		if n, err := strconv.Atoi(code); err != nil || n < 1 || n > 255 || n == 75 || strconv.Itoa(n) != code {
			return f.wrong(key+".exit", "%s is not allowed: want an exit code from 1 to 255, and not 75, which gives the task back", quoted(code))
		}
		if err := f.checkWord(key+".exit", a.Exit[code], agents.Meanings()); err != nil {
			return err
		}
	}
	for _, pattern := range a.Quota {
		if len(pattern) > maxQuota {
			return f.wrong(key+".quota", "a pattern has %d bytes: want at most %d", len(pattern), maxQuota)
		}
		if _, err := regexp.Compile(pattern); err != nil || pattern == "" {
			return f.wrong(key+".quota", "%s is no regular expression%s", quoted(pattern), because(err))
		}
	}
	if a.Account != "" && !tableName().MatchString(a.Account) {
		return f.wrong(key+".account", "%q is not allowed: want %s", schemas.Sentence(a.Account, 60), tableName())
	}
	return nil
}

// checkAgentZero checks where an Agent Zero is, and how its key is named.
func (f *origins) checkAgentZero(key string, z AgentZero) error {
	if z == (AgentZero{}) {
		return nil
	}
	if z.URL == "" || z.KeyFile == "" {
		return advise(f.wrong(key, "wants both url and key_file"), `agentzero = { url = "http://127.0.0.1:5000/api/api_message", key_file = "agentzero.key" }`)
	}
	u, problem := parseEndpoint(z.URL)
	if problem == "" && path.Base(u.Path) != "api_message" {
		problem = "does not end in /api_message: want the whole address, whose path differs between versions of Agent Zero"
	}
	if problem != "" {
		return f.wrongSecret(key+".url", "%s", problem)
	}
	return f.checkKey(key, z.URL, z.KeyFile, "")
}

func because(err error) string {
	if err == nil {
		return ": it fits everything"
	}
	return ": " + err.Error()
}

// Meanings are what the exit codes of an agent's command mean. The table has been
// checked.
func (a *Agent) Meanings() map[int]agents.Meaning {
	out := map[int]agents.Meaning{}
	for code, meaning := range a.Exit {
		n, _ := strconv.Atoi(code)
		out[n] = agents.Meaning(meaning)
	}
	return out
}

// Quotas are the patterns of an agent's quota messages.
func (a *Agent) Quotas() (out []*regexp.Regexp) {
	for _, pattern := range a.Quota {
		out = append(out, regexp.MustCompile(pattern))
	}
	return out
}

// Fellows are the other agents that work on the account of one of c's, by name.
func Fellows(c *File, of string) (out []string) {
	account := func(name string) string { return cmp.Or(c.Agents[name].Account, name) }
	for _, name := range c.AgentNames() {
		if name != of && account(name) == account(of) {
			out = append(out, name)
		}
	}
	return out
}
