package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mbox/agents/secret"
	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/gateway/token"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// What the shell's completion offers besides commands and flags. It reads names
// only, opens no task, and is silent where something is wrong. A shell expands
// what it is offered, so nothing but the characters of ids and names comes out.

const mostWords = 500

var harmless = schemas.Pattern(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

// taskWords are the ids of live and ended tasks.
func taskWords(s *session) []string { return tasksThatAre(task.Folders...)(s) }

// tasksThatAre offers the ids of the tasks in these states.
func tasksThatAre(states ...task.State) func(*session) []string {
	return func(s *session) (ids []string) {
		home, err := s.homeDir()
		if err != nil {
			return nil
		}
		for _, state := range states {
			ids = append(ids, fileWords(filepath.Join(home, "tasks", string(state)), ".json")...)
		}
		return ids
	}
}

// tokenWords are the names of the doors' tokens.
func tokenWords(s *session) []string {
	home, err := s.homeDir()
	if err != nil {
		return nil
	}
	return fileWords(token.Folder(home), ".json")
}

// secretWords are the names of the agents' secrets.
func secretWords(s *session) (words []string) {
	home, err := s.homeDir()
	if err != nil {
		return nil
	}
	agents, _ := durable.Names(secret.Folder(home, ""))
	for _, agent := range agents {
		words = append(words, fileWords(filepath.Join(secret.Folder(home, ""), agent), ".age")...)
	}
	slices.Sort(words)
	return slices.Compact(words)
}

func fileWords(dir, suffix string) []string {
	d, err := durable.OpenDir(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(mostWords)
	var words []string
	for _, n := range names {
		if word, ok := strings.CutSuffix(n, suffix); ok && harmless().MatchString(word) {
			words = append(words, word)
		}
	}
	return words
}

// agentWords are the registered agents.
func agentWords(s *session) []string {
	c := configOf(s)
	if c == nil {
		return nil
	}
	return c.AgentNames()
}

// configOf is the home's configuration; nil where it cannot be read.
func configOf(s *session) *config.File {
	if s.config == nil {
		home, err := s.homeDir()
		if err != nil {
			return nil
		}
		if s.config, err = config.Load(home); err != nil {
			return nil
		}
	}
	return s.config
}

// valuesOf offers what may stand behind a flag; nil where nobody knows.
func valuesOf(f cli.Flag) func(*session) []string {
	if f == nil {
		return nil
	}
	if g, ok := f.(*cli.GenericFlag); ok {
		switch v := g.Value.(type) {
		case *choice:
			return func(*session) []string { return v.among }
		case *choices:
			return func(*session) []string { return v.among }
		case *length:
			return nil // --for of an approval
		}
	}
	switch f.Names()[0] {
	case "to", "for", "by", "from", "agent":
		return agentWords
	case "after", "depends-on", "not-after":
		return taskWords
	case "accept":
		return checkWords
	}
	return nil
}

// checkWords are the names of the checks that results may have to pass.
func checkWords(s *session) []string {
	c := configOf(s)
	if c == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(c.Accept))
}

// moveWords are the tasks that can be given to another agent, and the agents.
func moveWords(s *session) []string {
	return slices.Concat(tasksThatAre(task.Pending)(s), agentWords(s))
}

// logWords are the tasks and agents of which something is kept that they said.
func logWords(s *session) []string { return slices.Concat(taskWords(s), agentWords(s)) }
