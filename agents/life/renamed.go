package life

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// identityFile says in a few lines what an agent is called, and since when it is there.
const identityFile = "IDENTITY.md"

// rewrite has the texts of an agent's home that mbox has written tell its new name: those
// of their lines that are as a birth writes them. A CLAUDE.md that is not the one of its
// birth stays as it is. Said again after a crash it does the rest.
func rewrite(b *mailbox.Box, home, from, to string) error {
	mode := b.Options().Sync
	if err := rewriteFile(filepath.Join(home, identityFile), identityFile, from, to, mode); err != nil {
		return err
	}
	a, err := mailbox.AgentOf(b, to)
	if err != nil || !isUUID().MatchString(a.UUID) {
		return err
	}
	kept := filepath.Join(b.Home(), claudeName(a.UUID))
	born, err := durable.Read(kept, mostClaude)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := renamed(claudeFile, born, from, to)
	if err != nil || bytes.Equal(text, born) {
		return err
	}
	path := filepath.Join(home, claudeFile)
	switch now, err := durable.Read(path, mostClaude); {
	case err == nil && bytes.Equal(now, born):
		if err := durable.Replace(path, text, mode); err != nil {
			return err
		}
	case err != nil || !bytes.Equal(now, text):
		return nil // somebody has changed it
	}
	return durable.Replace(kept, text, mode)
}

// rewriteFile is rewrite of a text of which none is kept. One that cannot be read stays.
func rewriteFile(path, template, from, to string, mode durable.Mode) error {
	was, err := durable.Read(path, mostClaude)
	if err != nil {
		return nil
	}
	text, err := renamed(template, was, from, to)
	if err != nil || bytes.Equal(text, was) {
		return err
	}
	return durable.Replace(path, text, mode)
}

// renamed is a text with another name in the lines that a birth has written.
func renamed(template string, text []byte, from, to string) ([]byte, error) {
	var born [2][]string
	for i, name := range []string{from, to} {
		text, err := fill(template, map[string]string{"Name": name, "Role": "", "Soul": "", "Instruction": "", "Born": ""})
		if err != nil {
			return nil, err
		}
		born[i] = strings.Split(string(text), "\n")
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if at := slices.Index(born[0], line); at >= 0 {
			lines[i] = born[1][at]
		}
	}
	return []byte(strings.Join(lines, "\n")), nil
}
