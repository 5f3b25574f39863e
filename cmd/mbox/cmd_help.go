package main

import (
	"context"
	"slices"
	"strings"

	"mbox/cmd/mbox/help"
	"mbox/schemas"
)

func helpVerb() *verb {
	return &verb{
		name: "help", args: "[COMMAND|TOPIC]", most: -1,
		brief: "explain a command or a topic",
		about: "Prints what mbox --help prints, the help of a command, or one of these texts:\n\n" + topicList(),
		shows: []string{"mbox help send", "mbox help decision new", "mbox help damage"},
		run: func(_ context.Context, s *session, args []string) error {
			v, path := tree(), []string{"mbox"}
			for i, word := range args {
				sub := v.verb(word)
				if sub == nil && i == 0 && len(args) == 1 {
					return s.printTopic(word)
				}
				if sub == nil {
					return usagef(strings.Join(path, " ")+" --help", "%s has no command %q", strings.Join(path, " "), clean(word, 40))
				}
				v, path = sub, append(path, word)
			}
			s.printHelp(v, path)
			return nil
		},
		words: func(*session) []string { return slices.Concat(tree().names(), topicNames()) },
	}
}

// printTopic prints a topic's text as it stands: Markdown is meant to be read.
func (s *session) printTopic(name string) error {
	for _, t := range help.Topics() {
		if t.Name == name {
			s.printf("%s", t.Text)
			return nil
		}
	}
	hint := "mbox --help"
	if near := schemas.Suggest(name, append(tree().names(), topicNames()...)); near != "" {
		hint = "mbox help " + near
	}
	return usagef(hint, "mbox has no command or topic %q", clean(name, 40))
}

func topicNames() []string {
	var names []string
	for _, t := range help.Topics() {
		names = append(names, t.Name)
	}
	return names
}

// topicList is a line for each topic.
func topicList() string {
	var lines []string
	for _, t := range help.Topics() {
		lines = append(lines, "   mbox help "+t.Name+"   "+t.Title)
	}
	return strings.Join(lines, "\n")
}
