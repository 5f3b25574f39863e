package life

import (
	"errors"
	"path/filepath"
	"syscall"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/lifecycle"
	"mbox/schemas"
)

// claudeFile says who an agent is, and what it is there for. The text of its birth is kept
// beside its entry, by its UUID: so it needs no move when the agent gets another name, is
// put away or comes back.
const (
	claudeFile = "CLAUDE.md"
	mostClaude = 1 << 20
)

// Claude is the CLAUDE.md of an agent, and the one that it was born with.
type Claude struct {
	File    string `json:"file"`         // from the mailbox's folder
	Kept    string `json:"kept"`         // where the text of its birth is, which no confined command can open
	AtBirth string `json:"at_birth"`     // the hash of that
	Now     string `json:"now,omitzero"` // the hash of the file; not there if it cannot be read
}

// Changed tells whether it is another text now.
func (c *Claude) Changed() bool { return c != nil && c.AtBirth != c.Now }

// ClaudeOf compares the CLAUDE.md of an agent with the one of its birth; nil where none is
// kept of it: it was not born, or before mbox kept any; of one that is dead, whose archive
// is as it was put away, or has another name; and of one whose home is on its way.
func ClaudeOf(b *mailbox.Box, agent string) (*Claude, error) {
	a, err := mailbox.AgentOf(b, agent)
	if err != nil || !isUUID().MatchString(a.UUID) || a.State == lifecycle.Dead || a.State == lifecycle.Renamed {
		return nil, err
	}
	if home, err := there(b.AgentDir(agent)); err != nil || !home && a.State == lifecycle.Provisioning {
		return nil, err
	}
	text, err := durable.Read(filepath.Join(b.Home(), claudeName(a.UUID)), mostClaude)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &Claude{File: "agents/" + filepath.Base(b.AgentDir(agent)) + "/" + claudeFile, Kept: claudeName(a.UUID), AtBirth: audit.Hash(text)}
	if text, err = durable.Read(filepath.Join(b.AgentDir(agent), claudeFile), mostClaude); err == nil {
		c.Now = audit.Hash(text)
	}
	return c, nil
}

var isUUID = schemas.Pattern(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// claudeName is where the text of a birth is kept, from the home.
func claudeName(uuid string) string { return "mbox.d/" + uuid + "." + claudeFile }

// keepClaude keeps the text that is in a home which has just come to its place, unless one
// is kept already. Nobody works there before the entry is in its place too.
func keepClaude(b *mailbox.Box, agent string) error {
	a, err := mailbox.AgentOf(b, agent)
	if err != nil || !isUUID().MatchString(a.UUID) {
		return err
	}
	path := filepath.Join(b.Home(), claudeName(a.UUID))
	if is, err := there(path); is || err != nil {
		return err
	}
	text, err := durable.Read(filepath.Join(b.AgentDir(agent), claudeFile), mostClaude)
	var number syscall.Errno
	if err != nil && (gone(err) || !errors.As(err, &number) || number == syscall.ELOOP) {
		return nil // a provisioner has put something else there
	}
	if err != nil {
		return err
	}
	return durable.Replace(path, text, b.Options().Sync)
}
