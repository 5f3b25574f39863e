package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mbox/cmd/mbox/help"
	"mbox/schemas"
)

func helpVerb() *verb {
	return &verb{
		name: "help", args: "[COMMAND|TOPIC]", most: -1,
		brief: "explain a command or a topic",
		about: `Prints what mbox --help prints, with a list of the topics; or the help of a
command; or a topic. What is both, as backup is, is a topic here, and the
command's help is mbox backup --help. mbox help exit tells the exit codes.`,
		shows: []string{"mbox help send", "mbox help decision new", "mbox help damage"},
		run: func(_ context.Context, s *session, args []string) error {
			v, path := tree(), []string{"mbox"}
			if len(args) == 1 && strings.HasPrefix(args[0], "exit") {
				s.printf("Exit codes:\n%s", s.exitText(v.codes()))
				return nil
			}
			if len(args) == 1 && (v.verb(args[0]) == nil || slices.Contains(topicNames(), args[0])) {
				return s.printTopic(args[0])
			}
			for _, word := range args {
				sub := v.verb(word)
				if sub == nil {
					return usagef(strings.Join(path, " ")+" --help", "%s has no command %q", strings.Join(path, " "), clean(word, 40))
				}
				v, path = sub, append(path, word)
			}
			s.printHelp(v, path)
			return nil
		},
		words: func(*session) []string { return helpWords() },
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
	hint := "mbox --help lists the commands; the topics are " + strings.Join(topicNames(), ", ")
	if near := schemas.Suggest(name, helpWords()); near != "" {
		hint = "mbox help " + near
	}
	return usagef(hint, "mbox has no command or topic %q", clean(name, 40))
}

// helpWords are what there is help for.
func helpWords() []string {
	words := slices.Concat(tree().names(), topicNames())
	slices.Sort(words)
	return slices.Compact(words)
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
		lines = append(lines, fmt.Sprintf("%-13s  %s", t.Name, t.Title))
	}
	return strings.Join(lines, "\n")
}
