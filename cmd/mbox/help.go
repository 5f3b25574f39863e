package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// printHelp prints what is told about a verb, a group, or mbox as a whole.
func (s *session) printHelp(v *verb, path []string) {
	name := strings.Join(path, " ")
	s.printf("%s - %s\n\nUsage:\n   %s\n\n%s\n", name, v.brief, v.usage(path), indented(flowed(v.about, s.helpWide()-len(helpMargin))))
	if len(v.verbs) > 0 {
		s.printVerbs(v)
	}
	if flags := v.flags; len(flags) > 0 {
		s.printFlags("Flags", flags)
	}
	if len(path) == 1 {
		s.printf("\nTopics, read by mbox help TOPIC:\n%s\n", indented(topicList()))
		s.printFlags("Global flags, anywhere in the line", s.globals())
	}
	if len(v.shows) > 0 {
		s.printf("\nExamples:\n%s\n", indented(strings.Join(v.shows, "\n")))
	}
	if len(v.verbs) == 0 || len(path) == 1 {
		s.printf("\nExit codes:\n%s", s.exitText(v.codes()))
	}
}

// usage is the line that shows how a verb is called.
func (v *verb) usage(path []string) string {
	name := strings.Join(path, " ")
	switch {
	case len(path) == 1:
		return name + " [--home DIR] [--log-level L] COMMAND …"
	case len(v.verbs) > 0:
		return name + " " + strings.Join(v.names(), "|") + " …"
	case len(v.flags) > 0 && v.args != "":
		return name + " " + v.args + " [flags]"
	case len(v.flags) > 0:
		return name + " [flags]"
	}
	return strings.TrimRight(name+" "+v.args, " ")
}

func (s *printer) printVerbs(v *verb) {
	width := 0
	for _, n := range v.names() {
		width = max(width, len(n))
	}
	part := ""
	for _, sub := range v.verbs {
		if sub.part != part {
			part = sub.part
			s.printf("\n%s:\n", part)
		} else if sub == v.verbs[0] {
			s.printf("\nCommands:\n")
		}
		s.printf("   %-*s  %s\n", width, sub.name, sub.brief)
	}
}

// helpWide is how many columns help is as wide as, at most.
func (s *printer) helpWide() int {
	const wide = 85 // as the topics are
	if s.wide > 0 {
		return min(s.wide, wide)
	}
	return wide
}

func (s *printer) printFlags(title string, flags []cli.Flag) {
	var names, usages []string
	width := 0
	for _, f := range flags {
		name, usage := describe(f)
		names, usages = append(names, name), append(usages, usage)
		width = max(width, len(name))
	}
	s.printf("\n%s:\n", title)
	for i := range names {
		margin := len(helpMargin) + width + 2
		usage := strings.Join(wrap(usages[i], s.helpWide()-margin), "\n"+strings.Repeat(" ", margin))
		s.printf("%s%-*s  %s\n", helpMargin, width, names[i], usage)
	}
}

// describe tells a flag as "--to AGENT" and what it is for.
func describe(f cli.Flag) (name, usage string) {
	d := f.(cli.DocGenerationFlag)
	usage = d.GetUsage()
	before, rest, found := strings.Cut(usage, "`")
	what, after, closed := strings.Cut(rest, "`")
	if found && closed {
		usage = before + what + after
	}
	for i, n := range f.Names() {
		if i > 0 {
			name += ", "
		}
		name += dashed(n)
	}
	if d.TakesValue() {
		name += " " + cmp.Or(what, "VALUE")
	}
	if def := d.GetDefaultText(); def != "" && def != `""` && def != "0" && d.TakesValue() {
		usage += " (" + strings.Trim(def, `"`) + ")"
	}
	if env := d.GetEnvVars(); len(env) > 0 {
		usage += " [$" + env[0] + "]"
	}
	return name, usage
}

// codes are a verb's exit codes in order.
func (v *verb) codes() []int {
	codes := slices.Concat([]int{exitOK, exitError, exitUsage}, v.exits)
	if len(v.verbs) > 0 {
		codes = nil
		for c := range exitMeaning {
			codes = append(codes, c)
		}
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

func (s *printer) exitText(codes []int) string {
	const margin = 7
	var b strings.Builder
	for _, c := range codes {
		fmt.Fprintf(&b, "   %-2d  %s\n", c, strings.Join(wrap(exitTold(c), s.helpWide()-margin), "\n"+strings.Repeat(" ", margin)))
	}
	return b.String()
}

// flowed breaks each paragraph anew into lines of at most so many columns. One that is
// indented stays as it is.
func flowed(text string, wide int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.HasPrefix(p, " ") {
			paragraphs[i] = strings.Join(wrap(strings.ReplaceAll(p, "\n", " "), wide), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

const helpMargin = "   "

func indented(text string) string {
	return helpMargin + strings.ReplaceAll(strings.ReplaceAll(text, "\n", "\n"+helpMargin), "\n"+helpMargin+"\n", "\n\n")
}
