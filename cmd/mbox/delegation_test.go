package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/testscript"

	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// delegate FROM TO ACTION DECISION PARAMS [STEP REASON] writes a delegation line
// about the task "one".
func delegate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 && len(args) != 7 {
		ts.Fatalf("usage: delegate FROM TO ACTION DECISION PARAMS [STEP REASON]")
	}
	d := delegation.Details{
		RequestID: 1771237800123456, FromAgent: args[0], ToAgent: args[1], Task: args[2],
		Decision: delegation.Decision(args[3]), TriedEndpoints: []string{"tasks/pending/one.json"}, DelegationDepth: 1, DurationMS: 12,
	}
	d.PayloadKeys, d.PayloadSummary, d.SensitiveHashes = delegation.Redact(jsontext.Value(args[4]), []byte("salt"))
	if len(args) == 7 {
		d.Step, d.Reason = delegation.Step(args[5]), &args[6]
	}
	ts.Check(writeDelegation(context.Background(), ts.Getenv("MBOX_HOME"), args[0], d))
}

func writeDelegation(ctx context.Context, home, agent string, d delegation.Details) error {
	box, err := mailbox.Open(ctx, home, mailbox.Options{Sync: durable.None})
	if err != nil {
		return err
	}
	defer box.Close()
	return box.Note(ctx, d.Entry(agent, "one"))
}

// Who follows the ledger on a terminal sees at once what was refused.
func TestDelegationLine(t *testing.T) {
	reason := "coder may not\x1b[2J deploy"
	d := delegation.Details{FromAgent: "coder", ToAgent: "deployer", Task: "deploy_compose", Decision: delegation.Rejected, Step: delegation.StepAction, Reason: &reason}
	e := d.Entry("coder", "one")
	e.Details = audit.Details(d) // as another program may write it
	s := &session{printer: printer{paint: palette{on: true}}}
	line := s.entryLine(&e)
	for _, want := range []string{
		"\x1b[31mdelegation      \x1b[0m", "  one  coder → deployer  deploy_compose  \x1b[31mrejected at action\x1b[0m", `: coder may not\x1b[2J deploy`,
	} {
		if !strings.Contains(line, want) {
			t.Errorf("%q is not in %q", want, line)
		}
	}
	e.Details = jsontext.Value(`{"decision":"maybe"}`)
	if line := s.entryLine(&e); !strings.Contains(line, "coder handed deploy_compose to deployer: rejected at action") {
		t.Errorf("a line with other details: %q", line)
	}
}

// What the view prints fits its published schema.
func TestDelegationsFitTheirSchema(t *testing.T) {
	home := filepath.Join(t.TempDir(), "agents")
	o := mailbox.Options{Sync: durable.None}
	if err := mailbox.Create(home, o); err != nil {
		t.Fatal(err)
	}
	reason := "no"
	for _, d := range []delegation.Details{
		{FromAgent: "coder", ToAgent: "tester", Task: "file_check", Decision: delegation.Delivered},
		{FromAgent: "\x1b[2J", ToAgent: "\u202e\n", Task: "no action", Decision: delegation.Rejected, Step: delegation.StepRole, Reason: &reason, ResultSummary: strings.Repeat("ü", 2000)},
	} {
		if err := writeDelegation(t.Context(), home, "coder", d); err != nil {
			t.Fatal(err)
		}
	}
	box, err := mailbox.Open(t.Context(), home, o)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	found, err := delegation.Find(t.Context(), box.Ledger(), delegation.Query{N: 2})
	if err != nil || len(found) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	for _, d := range found {
		data, err := schemas.Encode(d)
		if err == nil {
			err = checkBySchema(delegation.View{})(data)
		}
		if err != nil {
			t.Errorf("%+v: %v", d, err)
		}
	}
}
