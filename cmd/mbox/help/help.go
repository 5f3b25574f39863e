// Package help holds the topics of mbox help: each is a Markdown file here,
// whose first line is its title.
package help

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed *.md
var files embed.FS

// Topic is one text.
type Topic struct{ Name, Title, Text string }

// Topics lists all there are, by name.
func Topics() []Topic {
	names, _ := fs.Glob(files, "*.md") // the pattern is well-formed
	var out []Topic
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic("help: a file that is embedded cannot be read: " + err.Error())
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		out = append(out, Topic{strings.TrimSuffix(name, ".md"), title, string(text)})
	}
	return out
}
