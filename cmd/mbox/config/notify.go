package config

import (
	"net/url"
	"slices"
	"strings"

	"mbox/agents/chat"
)

// Notify is a table [notify.NAME]: whom mbox up tells what happens. It has one of
// command, url and ntfy.
type Notify struct {
	On        []string `toml:"on" json:"on,omitzero" jsonschema:"description=what is told: completed\\, failed\\, approval\\, alarm\\, message"`
	Agent     string   `toml:"agent" json:"agent,omitzero" jsonschema:"description=only tasks that it sent\\, does or is to do"`
	Command   []string `toml:"command" json:"command,omitzero" jsonschema:"description=a program\\, absolute\\, and its arguments: it gets JSON on its standard input"`
	URL       string   `toml:"url" json:"url,omitzero" jsonschema:"description=a webhook: it gets JSON by POST\\, signed with the token"`
	Ntfy      string   `toml:"ntfy" json:"ntfy,omitzero" jsonschema:"description=a topic of a server of ntfy\\, by its URL"`
	TokenFile string   `toml:"token_file" json:"token_file,omitzero" jsonschema:"description=file that holds the token; relative ones from the mailbox's folder"`
	TokenEnv  string   `toml:"token_env" json:"token_env,omitzero" jsonschema:"description=name of the environment variable that holds the token"`
	CA        string   `toml:"ca" json:"ca,omitzero" jsonschema:"description=PEM file of who signs the server's certificate; relative ones from the mailbox's folder"`
	Insecure  bool     `toml:"insecure" json:"insecure,omitzero" jsonschema:"default=false,description=the token may travel in the clear to another machine"`

	home string // the mailbox's folder
}

// Kind is the name of the kind of channel that tells it; "" where the table does not
// say which, or says several.
func (n *Notify) Kind() string {
	kind := ""
	for _, way := range []struct {
		kind string
		set  bool
	}{{"command", len(n.Command) > 0}, {"webhook", n.URL != ""}, {"ntfy", n.Ntfy != ""}} {
		if way.set && kind != "" {
			return ""
		}
		if way.set {
			kind = way.kind
		}
	}
	return kind
}

// Table is what a bridge to the target would have.
func (n *Notify) Table() *Bridge {
	return &Bridge{
		Kind: n.Kind(), Server: n.URL + n.Ntfy, Command: n.Command, CA: n.CA, Insecure: n.Insecure,
		TokenFile: n.TokenFile, TokenEnv: n.TokenEnv, home: n.home,
	}
}

// checkNotify refuses what makes no sense whatever kinds there are.
func checkNotify(c *File) error {
	return checkTables(c, "notify", "target of notifications", c.Notify, func(key string, n *Notify) error {
		n.home = c.Home()
		if len(n.On) == 0 {
			return advise(c.wrong(key, "it does not say what is told"), `on = ["failed", "alarm"], or some of %s`, strings.Join(chat.Happenings, ", "))
		}
		for i, on := range n.On {
			if err := c.checkWord(key+".on", on, chat.Happenings); err != nil || slices.Contains(n.On[:i], on) {
				if err == nil {
					err = c.wrong(key+".on", "%s stands there twice", quoted(on))
				}
				return err
			}
		}
		if n.Agent != "" && !c.dead[n.Agent] {
			if err := checkName(c, key+".agent", n.Agent, "agents", c.Agents); err != nil {
				return err
			}
		}
		switch n.Kind() {
		case "":
			return advise(c.wrong(key, "it does not say whom to tell, or says it twice"), "want one of command, url and ntfy")
		case "webhook":
			if n.TokenFile == "" && n.TokenEnv == "" {
				return advise(c.wrong(key, "a webhook needs a token, which signs what is sent"), "token_file or token_env")
			}
		case "command":
			if !strings.HasPrefix(n.Command[0], "/") {
				return c.wrong(key+".command", "%s is no absolute path of a program", quoted(n.Command[0]))
			}
		}
		for _, at := range []struct{ key, url string }{{".url", n.URL}, {".ntfy", n.Ntfy}} {
			if u, err := url.Parse(at.url); at.url != "" && (err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http") {
				return c.wrongSecret(key+at.key, "want a URL of http or https, without a user in it")
			}
		}
		return c.checkConnection(key, n.Table())
	})
}
