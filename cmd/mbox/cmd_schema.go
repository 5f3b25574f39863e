package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/audit/record"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// kind is a document that mbox has a schema of.
type kind struct {
	name  string
	about string
	value any // of the Go type that the schema is made from
	check func(data []byte) error
}

var kinds = []kind{
	{"task", "a task file, tasks/<state>/<id>.json", mailbox.Task{}, checkTask},
	{"ledger", "a line of the ledger, audit/shared/<date>.jsonl", audit.Entry{}, checkLedger},
	{"config", "the configuration, mbox.toml", config.File{}, checkConfig},
	{"decision", "a decision record, decisions/<id>.md", record.Decision{}, checkDecision},
	{"change", "a change record, changes/<id>.md", record.Change{}, checkChange},
	{"agent_state", "the view memory/agent_state.json", AgentState{}, checkBySchema(AgentState{})},
	{"task_queue", "the view memory/task_queue.json", TaskQueue{}, checkBySchema(TaskQueue{})},
	{"delegation", "an entry of mbox audit delegation --json", delegation.View{}, checkBySchema(delegation.View{})},
}

func kindNames() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

func kindNamed(name string) (*kind, error) {
	for i, k := range kinds {
		if k.name == name {
			return &kinds[i], nil
		}
	}
	return nil, usagef("mbox schema list", "no schema %q: want one of %s%s", clean(name, 40), strings.Join(kindNames(), ", "), schemas.Meant(name, kindNames()))
}

func schemaVerb() *verb {
	return &verb{
		name:  "schema",
		brief: "print and apply the JSON Schemas of the format",
		about: "The format's JSON Schemas (draft 2020-12), made from the types that mbox itself\nreads and writes.",
		verbs: []*verb{schemaListVerb(), schemaPrintVerb(), schemaValidateVerb()},
	}
}

func schemaListVerb() *verb {
	var inJSON bool
	return &verb{
		name:  "list",
		brief: "list the schemas",
		about: "Lists the documents that there is a schema of.",
		flags: []cli.Flag{jsonFlag(&inJSON)},
		run: func(_ context.Context, s *session, _ []string) error {
			t := table{head: []string{"NAME", "DOCUMENT"}}
			for _, k := range kinds {
				t.add(text(k.name), text(k.about))
				if !inJSON {
					continue
				}
				if err := s.printLine(map[string]string{"name": k.name, "document": k.about}); err != nil {
					return err
				}
			}
			if !inJSON {
				t.print(s)
			}
			return nil
		},
	}
}

func schemaPrintVerb() *verb {
	return &verb{
		name: "print", args: strings.Join(kindNames(), "|"), least: 1, most: 1,
		brief: "print a schema",
		about: "Prints a JSON Schema, the same as in the file schemas/NAME.schema.json.",
		run: func(_ context.Context, s *session, args []string) error {
			k, err := kindNamed(args[0])
			if err != nil {
				return err
			}
			schema, err := schemas.Of(k.value)
			s.printf("%s", schema)
			return err
		},
		words: func(*session) []string { return kindNames() },
	}
}

func schemaValidateVerb() *verb {
	return &verb{
		name: "validate", args: "NAME FILE|-", least: 2, most: 2,
		brief: "check a document as mbox would",
		about: `Checks a document as strictly as mbox does when it reads it, and names the place
of the first fault. A task that mbox has not written is checked as a drop. A
ledger is checked line by line, each by itself; mbox verify checks the chain.`,
		shows: []string{"mbox schema validate task task.json", "mbox schema validate config ~/agents/mbox.toml"},
		exits: []int{exitNotFound, exitData, exitIO},
		run: func(ctx context.Context, s *session, args []string) error {
			k, err := kindNamed(args[0])
			if err != nil {
				return err
			}
			data, err := s.readInput(ctx, args[1], 1<<30)
			if err != nil {
				return err
			}
			if err := inFile(k.check(data), args[1]); err != nil {
				var known *config.Error
				if errors.As(err, &known) && known.Hint != "" {
					return err
				}
				return hint(err, "mbox schema print %s", k.name)
			}
			s.done("%s is a valid %s", args[1], k.name)
			return nil
		},
		words: func(*session) []string { return kindNames() },
	}
}

func checkTask(data []byte) error {
	var t mailbox.Task
	if err := schemas.Decode(data, &t); err != nil {
		return err
	}
	if t.Mbox.TX == "" {
		if _, err := task.ParseDrop("", data); err != nil {
			return err
		}
	}
	return t.Validate()
}

func checkLedger(data []byte) error {
	number := 0
	for raw := range bytes.Lines(data) {
		number++
		if err := checkLedgerLine(bytes.TrimSuffix(raw, []byte{'\n'})); err != nil {
			var e *schemas.Error
			if errors.As(err, &e) {
				e.Path = strings.TrimSuffix(fmt.Sprintf("line %d: %s", number, e.Path), ": $")
			}
			return err
		}
	}
	return nil
}

// checkLedgerLine does by hand what any language can: cut the checksum's 86
// bytes, close the object, hash.
func checkLedgerLine(raw []byte) error {
	const suffix = 86
	if len(raw) <= suffix || len(raw) > audit.MaxLine {
		return &schemas.Error{Path: "$", Problem: "is no ledger line", Want: "JSON with a checksum at its end", Code: schemas.CodeBadValue}
	}
	body := append(bytes.Clone(raw[:len(raw)-suffix]), '}')
	if end := fmt.Sprintf(`,"checksum":"%s"}`, audit.Hash(body)); end != string(raw[len(body)-1:]) {
		return &schemas.Error{Path: "checksum", Problem: "does not match", Want: audit.Hash(body), Code: schemas.CodeBadValue}
	}
	if err := schemas.CheckCanonical(body); err != nil {
		return err
	}
	if _, err := (audit.Line{Raw: raw}).Decode(); err != nil {
		return &schemas.Error{Path: "$", Problem: clean(err.Error(), 200), Code: schemas.CodeBadValue}
	}
	return nil
}

func checkConfig(data []byte) error {
	c, err := config.Parse(config.Name, data)
	if err != nil {
		return err
	}
	return config.CheckBridges(c, chatKinds())
}

func checkDecision(data []byte) error {
	_, err := record.ParseDecision(data)
	return err
}

func checkChange(data []byte) error {
	_, err := record.ParseChange(data)
	return err
}

// checkBySchema checks what mbox writes and never reads, by its schema alone.
func checkBySchema(v any) func(data []byte) error {
	return func(data []byte) error {
		source, err := schemas.Of(v)
		if err != nil {
			return err
		}
		schema, err := schemas.Compile(source)
		if err != nil {
			return err
		}
		return schema.Validate(data)
	}
}
