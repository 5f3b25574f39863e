// Package agentshome is the template of a mailbox's home: what mbox init copies
// beside the folders that it makes. Agents' own homes are made when an agent
// first runs.
package agentshome

import "embed"

// FS holds the template's files under template/.
//
//go:embed all:template
var FS embed.FS

// Prompts holds the templates of what agents' brains are told, under prompts/.
// They are not copied out: a file of the same name in the mailbox's folder
// prompts/ goes before.
//
//go:embed prompts
var Prompts embed.FS

// Born holds the templates of the texts in the home of an agent that mbox agent birth
// makes, under born/.
//
//go:embed born
var Born embed.FS
