// Package examples is the folder of runnable examples. mbox init --demo has some of
// them done; make demo shows those and others at work.
package examples

import "embed"

// FS holds what a demo is made of: the tasks under actions/, tasks/ and demo/, the
// settings of demo/mbox.toml, and the command that writes summaries.
//
//go:embed actions demo tasks/fix-login.json tasks/release-notes.json summarise.sh
var FS embed.FS
