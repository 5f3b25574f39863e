package main

import (
	"os"
	"path/filepath"
	"strings"

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
func taskWords(s *session) []string {
	home, err := s.homeDir()
	if err != nil {
		return nil
	}
	var ids []string
	for _, state := range task.Folders {
		ids = append(ids, fileWords(filepath.Join(home, "tasks", string(state)), ".json")...)
	}
	return ids
}

// tokenWords are the names of the doors' tokens.
func tokenWords(s *session) []string {
	home, err := s.homeDir()
	if err != nil {
		return nil
	}
	return fileWords(token.Folder(home), ".json")
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

// completesFlag tells whether the word at the cursor is a flag.
func completesFlag() bool {
	n := len(os.Args)
	return n > 2 && strings.HasPrefix(os.Args[n-2], "-")
}
