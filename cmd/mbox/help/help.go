// Package help holds the topics of mbox help: each is a Markdown file here,
// whose first line is its title.
package help

import (
	"embed"
	"strings"
)

//go:embed *.md
var files embed.FS

// names is the order in which the topics are listed: use, bounds, proof.
var names = []string{
	"walkthroughs", "colony", "tasks", "schedules", "channels", "agents", "runtimes", "roles", "memory", "secrets", "actions", "accept", "delegation", "models", "policies", "sandbox",
	"ledger", "doors", "dashboard", "mcp", "top", "telemetry",
	"bridges", "delivery", "telegram", "matrix", "slack", "irc", "email", "bluebubbles", "imsg", "webhook", "openclaw", "ntfy",
	"install", "configuration", "backup", "damage", "threats", "performance", "proof",
}

// Topic is one text.
type Topic struct{ Name, Title, Text string }

// Topics lists all there are.
func Topics() []Topic {
	var out []Topic
	for _, name := range names {
		text, err := files.ReadFile(name + ".md")
		if err != nil {
			panic("help: a file that is embedded cannot be read: " + err.Error())
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		out = append(out, Topic{name, title, string(text)})
	}
	return out
}
