// Package agentshome is the template of a mailbox's home: what mbox init copies
// beside the folders that it makes. Agents' own homes are made when an agent
// first runs.
package agentshome

import "embed"

// FS holds the template's files under template/.
//
//go:embed all:template
var FS embed.FS
