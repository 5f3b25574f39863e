package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mbox/cmd/mbox/help"
)

func manVerb() *verb {
	return &verb{
		name:  "man",
		brief: "print the manual page",
		about: "Prints the manual page, made from the same words as the help texts.",
		shows: []string{"mbox man | man -l -", "mbox man > /usr/local/share/man/man1/mbox.1"},
		run: func(_ context.Context, s *session, _ []string) error {
			s.printf("%s", manPage(tree(), s.globals()))
			return nil
		},
	}
}

// manPage renders the command tree in the man macros.
func manPage(root *verb, globals []cli.Flag) string {
	var m manual
	m.line(".TH MBOX 1 \"\" \"mbox %s\" \"User Commands\"", thisVersion().Version)
	m.line(".SH NAME")
	m.line("%s", root.name+" \\- "+roff(root.brief))
	m.line(".SH SYNOPSIS")
	m.line(".B mbox\n[\\-\\-home DIR] [\\-\\-log\\-level L] COMMAND ...")
	m.line(".SH DESCRIPTION")
	m.text(root.about)
	m.line(".SH \"GLOBAL FLAGS\"")
	m.flags(globals)
	m.line(".SH COMMANDS")
	for _, v := range root.verbs {
		m.verb(v, []string{root.name, v.name})
	}
	m.line(".SH TOPICS\nEach is read by\n.BR \"mbox help TOPIC\" .")
	for _, t := range help.Topics() {
		m.line(".TP\n.B %s\n%s", t.Name, roff(t.Title))
	}
	m.line(".SH \"EXIT STATUS\"")
	for _, c := range root.codes() {
		m.line(".TP\n.B %d\n%s", c, roff(exitTold(c)))
	}
	m.line(".SH ENVIRONMENT")
	m.line(".TP\n.B MBOX_HOME\nthe mailbox's folder, \\(ti/agents by default")
	m.line(".TP\n.B MBOX_TOKEN\nthe claim's token for progress, complete, fail and release")
	m.line(".TP\n.B NO_COLOR\nno colours")
	m.line(".SH FILES")
	m.line(".TP\n.I \\(ti/agents/mbox.toml\nthe configuration; every key is documented there")
	m.line(".TP\n.I \\(ti/agents/README.md\nwhat each folder of a mailbox is")
	return m.String()
}

// manual is a manual page in the making.
type manual struct{ strings.Builder }

func (m *manual) line(format string, a ...any) { fmt.Fprintf(m, format+"\n", a...) }

func (m *manual) verb(v *verb, path []string) {
	m.line(".SS \"%s\"", roff(v.usage(path)))
	m.text(v.about)
	m.flags(v.flags)
	if len(v.shows) > 0 {
		m.line(".PP\n.nf")
		for _, line := range v.shows {
			m.line("%s", roff("    "+line))
		}
		m.line(".fi")
	}
	if len(v.verbs) == 0 && len(v.exits) > 0 {
		m.line(".PP\nExit codes: %s.", exitList(v.codes()))
	}
	for _, sub := range v.verbs {
		m.verb(sub, append(slices.Clone(path), sub.name))
	}
}

func (m *manual) flags(flags []cli.Flag) {
	for _, f := range flags {
		name, usage := describe(f)
		m.line(".TP\n.B %s\n%s", roff(name), roff(usage))
	}
}

// text writes paragraphs; indented lines stay as they are.
func (m *manual) text(about string) {
	for paragraph := range strings.SplitSeq(about, "\n\n") {
		if strings.HasPrefix(paragraph, " ") {
			m.line(".PP\n.nf\n%s\n.fi", roff(paragraph))
			continue
		}
		m.line(".PP\n%s", roff(paragraph))
	}
}

func exitList(codes []int) string {
	var out []string
	for _, c := range codes {
		out = append(out, fmt.Sprintf("%d %s", c, exitMeaning[c]))
	}
	return strings.Join(out, "; ")
}

// roff escapes what the macros would read: backslashes, hyphens that are to be
// copied, quotes, and dots at the beginning of a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`, "'", `\(aq`, "~", `\(ti`, "^", `\(ha`, "…", "...").Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
