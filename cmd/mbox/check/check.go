// Package check is what mbox doctor examines: the home, the machine, the brains and
// rights of the agents, and what crashes left. It prints nothing: each result is a
// Finding. Only where Fix is set does it change anything, and then no more than
// modes, missing folders and old logs.
package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"mbox/agents"
	"mbox/agents/chat"
	"mbox/agents/secret"
	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/gateway/token"
	"mbox/cmd/mbox/telemetry"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/schemas"
)

// Level is how bad a finding is.
type Level string

// The levels. Only what is Wrong needs to be mended before mbox can be relied on.
const (
	Fine  Level = "ok"
	Fixed Level = "fixed"
	Doubt Level = "warn"
	Wrong Level = "wrong"
)

// Finding is the result of one check.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Hint  string `json:"hint,omitzero"`
	Agent string `json:"agent,omitzero"` // that it is about
	Err   error  `json:"-"`              // what was wrong, where the hint is that of this error
}

// Mailbox is the check of whether the mailbox can be opened.
const Mailbox = "mailbox"

// Exam is one examination of a home.
type Exam struct {
	Home     string
	Fix      bool                                            // mend what is safe to mend
	Progress func(what string, done, total int64)            // for what takes long
	Team     func(*config.File) (*agents.Team, error)        // makes the agents
	Kinds    []chat.Kind                                     // of bridges
	Traces   func(*config.File) (*telemetry.Exporter, error) // makes what sends them; nil where none are wanted
	Embeds   func(ctx context.Context, agent string) error   // why an agent's memory cannot find by meaning, if it is to
	Pull     func(context.Context) error                     // fetches the models that they miss; nil: not asked for

	Config   *config.File // what is in force; nil where it cannot be read
	Findings []Finding

	options mailbox.Options
}

// Run makes every check. An error says that there is no mailbox to look at, or that
// it is another user's.
func (e *Exam) Run(ctx context.Context) error {
	if err := home.CheckOwner(e.Home); err != nil {
		return err
	}
	if err := e.isMailbox(); err != nil {
		return err
	}
	e.config()
	e.environment()
	e.folders()
	e.modes()
	e.fileSystem()
	e.renames()
	e.space()
	e.memory()
	e.budget()
	e.docker(ctx)
	e.limits()
	e.sandbox()
	e.rights()
	e.workers(ctx)
	e.channels()
	e.readOnly()
	e.seals()
	e.leftovers()
	e.tokens()
	e.secrets(ctx)
	e.telemetry(ctx)
	e.tasks(ctx)
	return nil
}

// channels looks whether there are those that agents watch.
func (e *Exam) channels() {
	names, err := durable.Names(filepath.Join(e.Home, "channels"))
	if e.Config == nil || err != nil {
		return // is told elsewhere
	}
	for _, agent := range e.Config.AgentNames() {
		a := e.Config.Agents[agent]
		for _, name := range a.WatchChannels {
			if a.Enabled && !slices.Contains(names, name) {
				e.add("channels", Doubt, "mbox create-channel "+name+" makes it", "%s watches %q, which is no channel%s", agent, name, schemas.Meant(name, names))
			}
		}
	}
}

// tokens looks at who may come in by the doors.
func (e *Exam) tokens() {
	tokens, err := token.List(e.Home)
	if err != nil {
		e.fault("tokens", "", err)
	}
	if len(tokens) > 0 {
		e.add("tokens", Fine, "", "%d let programs or people in by the doors; mbox token list", len(tokens))
	}
}

// secrets looks whether those of the agents can be opened.
func (e *Exam) secrets(ctx context.Context) {
	all, err := secret.List(ctx, e.Home, "")
	if err != nil {
		e.fault("secrets", "", err)
		return
	}
	at, err := secret.Where(ctx, e.Home)
	switch {
	case errors.Is(err, fs.ErrNotExist): // no secret wants it
	case err != nil:
		e.fault("secrets", "", err)
	default:
		e.add("secrets", Fine, "", "%d can be opened, for the commands of their agents, by the identity %v; mbox secret list", len(all), at)
	}
}

func (e *Exam) add(check string, l Level, hint, format string, a ...any) {
	e.Findings = append(e.Findings, Finding{Check: check, Level: l, Text: fmt.Sprintf(format, a...), Hint: hint})
}

// fault adds an error whose hint is that which every command gives with it.
func (e *Exam) fault(check, text string, err error) {
	e.Findings = append(e.Findings, Finding{Check: check, Level: Wrong, Text: text + err.Error(), Err: err})
}

// check tells whether a check could be made, and adds a finding if not.
func (e *Exam) check(name string, err error) bool {
	if err != nil {
		e.fault(name, "", err)
	}
	return err == nil
}
