package mcp

import (
	"context"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mbox/audit/record"
	"mbox/mailbox"
)

func (s *Server) addRecords() {
	add(s, tool{name: "record_decision", title: "Record a decision", about: `Write down a choice that mattered, with what else there was. The same decision said again on the same day is the same record.`}, s.decide)
	add(s, tool{name: "record_change", title: "Record a change", about: `Write down a change of configuration, code, data or system, with how to see that it works and how to undo it. The same change said again on the same day is the same record.`}, s.change)
}

type decisionInput struct {
	Task     mailbox.ID `json:"task,omitzero" jsonschema:"description=the task that it belongs to"`
	Context  string     `json:"context" jsonschema:"minLength=1,description=what made a decision necessary"`
	Options  []string   `json:"options" jsonschema:"minItems=1,maxItems=100,description=each option with its pros and cons"`
	Decision string     `json:"decision" jsonschema:"minLength=1,description=what was decided\\, and why"`
	Outcome  string     `json:"outcome,omitzero" jsonschema:"description=what came of it\\, if that is known"`

	Tradeoffs []string `json:"tradeoffs,omitzero" jsonschema:"minItems=1,maxItems=100,description=each thing that is given up by it\\, and what for"`
}

type changeInput struct {
	Type         string `json:"type,omitzero" jsonschema:"enum=config,enum=code,enum=data,enum=system,default=system"`
	Description  string `json:"description" jsonschema:"minLength=1,description=what the change is"`
	Rationale    string `json:"rationale" jsonschema:"minLength=1,description=why it is made"`
	Before       string `json:"before" jsonschema:"minLength=1,description=how things were"`
	After        string `json:"after" jsonschema:"minLength=1,description=how they are now"`
	Rollback     string `json:"rollback" jsonschema:"minLength=1,description=how to undo it"`
	Verification string `json:"verification" jsonschema:"minLength=1,description=how to see that it works"`
}

type recordOutput struct {
	ID       string `json:"id" jsonschema:"description=of the record"`
	Resource string `json:"resource" jsonschema:"description=where it can be read"`
	Again    bool   `json:"again" jsonschema:"description=it was there already\\, word for word"`
}

func (s *Server) decide(ctx context.Context, _ *sdk.CallToolRequest, in decisionInput) (recordOutput, error) {
	if in.Task != "" {
		if _, _, err := s.task(ctx, in.Task); err != nil {
			return recordOutput{}, err
		}
	}
	d := record.Decision{
		Agent: s.actor(), Task: string(in.Task),
		Context: in.Context, Options: in.Options, Decision: in.Decision, Tradeoffs: in.Tradeoffs, Outcome: in.Outcome,
	}
	return s.writeRecord(ctx, func(since string) (string, error) {
		all, err := s.o.Box.Decisions(ctx)
		return among(all, err, since, func(r record.Decision) (id, date string, same bool) {
			n := d
			n.ID, n.Date = r.ID, r.Date
			return r.ID, r.Date, alike(n.Markdown, r.Markdown)
		})
	}, func() (string, error) { return s.o.Box.Decide(ctx, d) })
}

func (s *Server) change(ctx context.Context, _ *sdk.CallToolRequest, in changeInput) (recordOutput, error) {
	c := record.Change{
		Agent: s.actor(), Type: in.Type, Description: in.Description, Rationale: in.Rationale,
		Before: in.Before, After: in.After, Rollback: in.Rollback, Verification: in.Verification,
	}
	if c.Type == "" {
		c.Type = "system"
	}
	return s.writeRecord(ctx, func(since string) (string, error) {
		all, err := s.o.Box.Changes(ctx)
		return among(all, err, since, func(r record.Change) (id, date string, same bool) {
			n := c
			n.ID, n.Date = r.ID, r.Date
			return r.ID, r.Date, alike(n.Markdown, r.Markdown)
		})
	}, func() (string, error) { return s.o.Box.Change(ctx, c) })
}

// writeRecord writes a record unless it is there. The core has no keys for records, so the
// words are the key, for a day: who lost the answer asks again soon.
func (s *Server) writeRecord(ctx context.Context, find func(since string) (string, error), write func() (string, error)) (recordOutput, error) {
	select {
	case s.record <- struct{}{}:
		defer func() { <-s.record }()
	case <-ctx.Done():
		return recordOutput{}, ctx.Err()
	}
	id, err := find(time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly))
	again := id != ""
	if err == nil && !again {
		id, err = write()
	}
	if err != nil {
		return recordOutput{}, fmt.Errorf("record: %w", err)
	}
	return recordOutput{ID: id, Resource: recordURI(id), Again: again}, nil
}

// among finds the same record among those since a day; "" if it is none of them.
func among[R any](all []R, err error, since string, look func(R) (id, date string, same bool)) (string, error) {
	for _, r := range all {
		if id, date, same := look(r); same && date >= since {
			return id, err
		}
	}
	return "", err
}

func alike(a, b func() ([]byte, error)) bool {
	one, err := a()
	other, failed := b()
	return err == nil && failed == nil && string(one) == string(other)
}

func recordURI(id string) string { return "mbox://record/" + id }
