package main

import (
	"context"
	"slices"
	"strings"

	"mbox/audit/record"
	"mbox/mailbox"
)

// recordLifted writes a change record about each of the agents whose boundary
// the configuration lifts (unrestricted_filesystem), before it works for the
// first time: that an agent may read and write everywhere is not to be found out
// from its deeds.
func (s *session) recordLifted(ctx context.Context, box *mailbox.Box, names ...string) error {
	var lifted []string
	for _, name := range names {
		if a := s.config.Agents[name]; a != nil && a.Enabled && a.Workspace.UnrestrictedFilesystem {
			lifted = append(lifted, name)
		}
	}
	if len(lifted) == 0 {
		return nil
	}
	known, err := box.Changes(ctx)
	if err != nil {
		return err
	}
	for _, name := range lifted {
		what := "agents." + name + ".workspace.unrestricted_filesystem"
		if slices.ContainsFunc(known, func(c record.Change) bool { return strings.HasPrefix(c.Description, what+" ") }) {
			continue
		}
		_, err := box.Change(ctx, record.Change{
			Agent: name, Type: "config",
			Description:  what + " is true in mbox.toml: the agent is no longer kept in its workspace.",
			Rationale:    "Somebody who may write mbox.toml has set it. mbox records it when the agent is about to work.",
			Before:       "The agent reads and writes its workspace and the lists of its access.",
			After:        "It reads and writes what the user may, but for forbidden_paths and mbox's own folders.",
			Rollback:     "Take the key out of mbox.toml, and start mbox up anew.",
			Verification: "mbox doctor --json shows the key and the line that sets it.",
		})
		if err != nil {
			return err
		}
	}
	return nil
}
