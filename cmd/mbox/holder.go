package main

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"mbox/mailbox"
	"mbox/schemas"
)

// holder is what progress, complete, fail and release share: the token that
// proves the claim.
type holder struct {
	token string
	json  bool
}

func (h *holder) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "token", Usage: "the claim's `TOKEN`, from mbox claim", EnvVars: []string{"MBOX_TOKEN"}, Destination: &h.token},
		jsonFlag(&h.json),
	}
}

var holderExits = []int{exitNotFound, exitConflict, exitStale, exitData, exitIO, exitBusy, exitCommitted}

// act runs one verb of the claim's holder. These verbs do not tidy first: their
// own claim might be taken back a moment before its result comes in.
func (h *holder) act(ctx context.Context, s *session, verb, id string, do func(*mailbox.Box, *mailbox.Claim) error) error {
	if h.token == "" {
		return usagef("mbox "+verb+" "+schemas.ShellWord(id)+" --token TOKEN", "%s needs --token or MBOX_TOKEN: mbox claim printed it as mbox.lease.token", verb)
	}
	return s.with(ctx, func(box *mailbox.Box) error {
		claim, err := box.Held(ctx, mailbox.ID(id), h.token)
		if err != nil {
			return err
		}
		if err := errors.Join(do(box, claim), claim.Close()); err != nil {
			return hintUnclaimed(err, claim.Task)
		}
		if h.json {
			return s.printState(ctx, box, claim.ID())
		}
		return nil
	})
}

// hintUnclaimed adds how a task that waits, and that nobody has had, is claimed.
func hintUnclaimed(err error, t *mailbox.Task) error {
	if !errors.Is(err, mailbox.ErrStale) || t.Mbox.Epoch > 0 || t.Result.Status != mailbox.Pending {
		return err
	}
	agent := t.Assignment.TargetAgent
	if agent == "any" {
		agent = "NAME"
	}
	return hint(err, "mbox claim %s --agent %s", schemas.ShellWord(string(t.ID)), schemas.ShellWord(agent))
}

// resultFlags is where complete and fail take what the work came to from.
type resultFlags struct {
	output    string
	file      string
	text      bool
	artifacts texts
}

func (r *resultFlags) flags() []cli.Flag {
	return []cli.Flag{
		textFlag("output", "the result: `STRING`, JSON if it parses, else text", &r.output),
		fileFlag("output-file", "read the result from `FILE`, or - for standard input", &r.file),
		boolFlag("text", "the result is text even if it parses as JSON", &r.text),
		&cli.GenericFlag{Name: "artifact", Usage: "keep a copy of `PATH`, a file or a folder, with the result; may be repeated", Value: &r.artifacts},
	}
}

// maxInput is how many bytes of output are read. What is over mailbox.MaxOutput
// of them becomes an artifact.
const maxInput = 64 << 20

// check refuses what contradicts itself before anything is opened.
func (r *resultFlags) check(verb, id string) error {
	if r.output != "" && r.file != "" {
		return usagef("mbox "+verb+" "+schemas.ShellWord(id)+" --output-file "+schemas.ShellWord(r.file), "--output and --output-file are two results")
	}
	return nil
}

// read gives the output as JSON; nil where none was given.
func (r *resultFlags) read(ctx context.Context, s *session) ([]byte, error) {
	data := []byte(r.output)
	if r.file != "" {
		var err error
		if data, err = s.readInput(ctx, r.file, maxInput); err != nil {
			return nil, err
		}
	} else if r.output == "" {
		return nil, nil
	}
	if !utf8.Valid(data) {
		return nil, r.noText()
	}
	return asJSON(data, r.text)
}

// noText refuses an output that no JSON can hold, and tells how its bytes are handed in.
func (r *resultFlags) noText() error {
	bad := &schemas.Error{File: r.file, Path: "$", Problem: "is no UTF-8", Code: schemas.CodeInvalidUTF8}
	switch r.file {
	case "":
		bad.File = "--output"
	case "-":
		bad.File = "standard input"
	default:
		return hint(bad, "--artifact %s in the place of --output-file keeps its bytes as they are", schemas.ShellWord(r.file))
	}
	return hint(bad, "write it into a file: --artifact FILE keeps its bytes as they are")
}

// asJSON is the text itself where it is strict JSON, else a JSON string of it.
func asJSON(data []byte, forceText bool) ([]byte, error) {
	var probe mailbox.Result
	if !forceText && schemas.Decode(data, &probe.Output) == nil && probe.Output != nil {
		return probe.Output, nil
	}
	quoted, err := schemas.Encode(string(data))
	if err != nil {
		return nil, err
	}
	return quoted[:len(quoted)-1], nil
}
