package main

import (
	"context"
	"strings"

	"mbox/audit/record"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
)

// editedConfig is how the description of a record begins that recordEdit writes.
const editedConfig = "What mbox up runs by has changed: "

// recordEdit writes a change record where the settings are not those of the last
// such record, or of the first start the defaults: which agents are off, which
// model each has been given, and a hash of every setting. It is written when mbox
// up takes the settings over; was is what ran before, nil at the start.
func (v *service) recordEdit(ctx context.Context, was *config.File) error {
	what := "see the hash"
	if was != nil {
		what = was.Changes(v.config)
	}
	_, err := recordSettings(ctx, v.box, v.config, what, "Somebody who may write mbox.toml or set mbox's environment has changed it. mbox up records it when it takes it over.")
	return err
}

// recordSettings writes a change record, unless the last one has these settings already,
// and returns its id; "" for none.
func recordSettings(ctx context.Context, box *mailbox.Box, c *config.File, what, why string) (string, error) {
	known, err := box.Changes(ctx)
	if err != nil {
		return "", err
	}
	before := config.Default().State()
	for _, c := range known {
		if strings.HasPrefix(c.Description, editedConfig) {
			before = c.After
		}
	}
	after := c.State()
	if after == before {
		return "", nil
	}
	return box.Change(ctx, record.Change{
		Agent: "human", Type: "config",
		Description:  editedConfig + what + ".",
		Rationale:    why,
		Before:       before,
		After:        after,
		Rollback:     "Put back what stood in mbox.toml; mbox up reads it again.",
		Verification: "mbox doctor shows every setting and where it comes from.",
	})
}
