package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mbox/agents"
	"mbox/agents/memory"
	"mbox/audit"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/home"
	"mbox/schemas"
)

func memoryVerb() *verb {
	return &verb{
		name:  "memory",
		brief: "what an agent remembers: add, recall, list, forget, …",
		about: `An agent with memory.backend in its table remembers texts: each has a key, a category,
who added it, when, and on which task. mbox writes the last three; what a model says
about them counts for nothing.

A command that works for an agent, with MBOX_TASK_ID and MBOX_TOKEN as mbox up sets
them, uses that agent's memory alone. For a person --agent says whose it is. mbox help
memory tells more.`,
		verbs: []*verb{memoryAddVerb(), memoryRecallVerb(), memoryListVerb(), memoryForgetVerb(), memoryEmbedVerb(), memoryExportVerb(), memoryImportVerb()},
	}
}

var memoryExits = []int{exitNotFound, exitConflict, exitStale, exitData, exitPolicy, exitIO, exitBusy}

func (r *remembering) flags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{filledFlag("agent", "whose memory: `NAME`", &r.agent)}, more...)
}

func memoryAddVerb() *verb {
	var r remembering
	key, category := "note", oneOf(memory.Categories...)
	return &verb{
		name: "add", args: "TEXT|-", least: 1, most: 1,
		brief: "remember a text",
		about: `Adds a text, or what is on standard input, to what the agent remembers, and prints its
id. What is core lasts; the other categories belong to their day.`,
		shows: []string{
			`mbox memory add --agent coder --key deploys "The site deploys on Tuesday"`,
			"mbox memory add --agent coder --category daily - <notes.txt",
		},
		exits: memoryExits,
		flags: r.flags(
			filledFlag("key", "what it is about: `WORDS` (note)", &key),
			valueFlag("category", "`C` is core, daily, conversation or custom (core)", &category),
			jsonFlag(&r.json),
		),
		run: func(ctx context.Context, s *session, args []string) error {
			text, err := memoryText(ctx, s, args[0])
			if err != nil {
				return err
			}
			return r.use(ctx, s, func(_ *mailbox.Box, m *memory.Memory, _ string) error {
				e, err := m.Add(ctx, category.value, key, text)
				switch {
				case err != nil:
					return err
				case r.json:
					return s.printLine(e)
				}
				s.printf("%s\n", e.ID)
				return nil
			})
		},
	}
}

func memoryText(ctx context.Context, s *session, arg string) (string, error) {
	if arg != "-" || s.literal {
		return arg, nil
	}
	data, err := s.readInput(ctx, arg, memory.MaxContent+1)
	return string(data), err
}

func memoryRecallVerb() *verb {
	var r remembering
	limit := number{min: 1, max: memory.MaxLimit}
	return &verb{
		name: "recall", args: "[WORDS]", least: 0, most: 1,
		brief: "find what an agent remembers about some words",
		about: `Prints what fits best: the score is the share of the words that an entry has; with
memory.embed_model it is by the ranks that words and meaning give. Without words, or for *, the newest come. The agents of read_memory_from are asked too; each
entry says in [] whose it is.`,
		shows: []string{`mbox memory recall --agent coder "when does the site deploy"`},
		exits: memoryExits,
		flags: r.flags(limitFlag("at most `N` entries (memory_recall_limit of its runtime profile: 5)", &limit), jsonFlag(&r.json)),
		run: func(ctx context.Context, s *session, args []string) error {
			return r.use(ctx, s, func(_ *mailbox.Box, m *memory.Memory, _ string) error {
				most := 0
				if limit.value != nil {
					most = *limit.value
				}
				found, err := m.Recall(ctx, strings.Join(args, " "), most)
				if err != nil {
					return err
				}
				if r.json {
					return s.printLines(len(found), func(i int) any { return found[i] })
				}
				t := table{head: []string{"ID", "SCORE", "FROM", "ENTRY"}}
				for _, e := range found {
					t.add(text(e.ID), text(fmt.Sprintf("%.2f", e.Score)), text(schemas.LocalTimes(e.Source())), text(e.Attributed()))
				}
				none := "nothing is remembered about that"
				if len(s.config.Agents[r.agent].Workspace.ReadMemoryFrom) == 0 {
					none = r.orNone(s, none)
				}
				t.printIfAny(s, none)
				return nil
			})
		},
	}
}

func memoryListVerb() *verb {
	var r remembering
	return &verb{
		name:  "list",
		brief: "list what an agent remembers",
		about: "Prints all that the agent itself remembers, oldest first.",
		exits: memoryExits,
		flags: r.flags(jsonFlag(&r.json)),
		run: func(ctx context.Context, s *session, _ []string) error {
			return r.use(ctx, s, func(_ *mailbox.Box, m *memory.Memory, _ string) error {
				all, err := m.List(ctx)
				if err != nil {
					return err
				}
				if r.json {
					return s.printLines(len(all), func(i int) any { return all[i] })
				}
				t := table{head: []string{"ID", "CATEGORY", "FROM", "KEY", "TEXT"}}
				for _, e := range all {
					t.add(text(e.ID), text(e.Category), text(schemas.LocalTimes(e.Source())), text(e.Key), text(e.Content))
				}
				t.printIfAny(s, r.orNone(s, "it remembers nothing; mbox memory add adds something"))
				return nil
			})
		},
	}
}

// orNone is what is told where nothing was found: of an agent without a memory that it has
// none.
func (r *remembering) orNone(s *session, otherwise string) string {
	if s.config.Agents[r.agent].Memory.Backend == config.MemoryNone {
		return "it has no memory: memory.backend in its table is none (mbox help memory)"
	}
	return otherwise
}

// maxForget is how many entries one line of the ledger tells of.
const maxForget = 100

func memoryForgetVerb() *verb {
	var r remembering
	return &verb{
		name: "forget", args: "ID…", least: 1, most: maxForget,
		brief: "remove what an agent remembers, for good",
		about: `Removes entries from the agent's store, and so from every backup that is made later.
The ledger gets a line with a salted hash of each, and nothing of the text. Backups that
are there already keep it, and so does what others have read.`,
		shows: []string{"mbox memory forget --agent coder MEMORY:3"},
		exits: append(slices.Clone(memoryExits), exitCommitted),
		flags: r.flags(jsonFlag(&r.json)),
		run: func(ctx context.Context, s *session, ids []string) error {
			return r.use(ctx, s, func(box *mailbox.Box, m *memory.Memory, by string) error {
				if s.config.Agents[r.agent].Memory.Backend == config.MemoryNone {
					return m.Forget(ctx, ids...) // which says so
				}
				ids := slices.Compact(slices.Sorted(slices.Values(ids)))
				if err := r.forget(ctx, box, m, by, ids); err != nil {
					return err
				}
				if r.json {
					return s.printLine(map[string]any{"agent": r.agent, "forgotten": ids})
				}
				s.done("%s has forgotten %s", r.agent, schemas.Count(len(ids), "entry", "entries"))
				return nil
			})
		},
	}
}

// forget tells the ledger first: a crash between the two leaves entries that are there
// still, and that can be forgotten again.
func (r *remembering) forget(ctx context.Context, box *mailbox.Box, m *memory.Memory, by string, ids []string) error {
	found, err := m.Find(ctx, ids...)
	if err != nil {
		return err
	}
	salt, err := home.Salt(box.Home())
	if err != nil {
		return err
	}
	var hashes []string
	for _, e := range found {
		hashes = append(hashes, memory.Hash(salt, e))
	}
	err = box.Note(ctx, audit.Entry{
		Agent: by, Event: audit.AgentState, Action: by + " has " + r.agent + " forget " + schemas.Count(len(ids), "entry", "entries"),
		Details: audit.Details(map[string]any{"agent": r.agent, "memory": "forgotten", "hashes": hashes}),
	})
	if err != nil {
		return err
	}
	return m.Forget(ctx, ids...)
}

func memoryEmbedVerb() *verb {
	var r remembering
	var again bool
	return &verb{
		name:  "embed",
		brief: "let an agent find by meaning what it remembers",
		about: `Asks the model memory.embed_model of the agent for the vectors of all entries that have
none: those added before it was set, or while Ollama did not answer. Where the model has
changed, or with --again, all are made anew. What was made stays if it is cut off.`,
		shows: []string{"mbox memory embed --agent coder"},
		exits: memoryExits,
		flags: r.flags(boolFlag("again", "make all anew", &again), jsonFlag(&r.json)),
		run: func(ctx context.Context, s *session, _ []string) error {
			return r.use(ctx, s, func(_ *mailbox.Box, m *memory.Memory, _ string) error {
				n, err := m.Embed(ctx, again)
				if err != nil {
					return err
				}
				if r.json {
					return s.printLine(map[string]any{"agent": r.agent, "embedded": n})
				}
				s.done("%s finds %s more by meaning", r.agent, schemas.Count(n, "entry", "entries"))
				return nil
			})
		},
	}
}

func memoryExportVerb() *verb {
	var r remembering
	return &verb{
		name:  "export",
		brief: "print what an agent remembers for mbox memory import",
		about: "Prints the agent's entries as JSON, one a line, oldest first.",
		shows: []string{"mbox memory export --agent coder >coder.jsonl"},
		exits: memoryExits,
		flags: r.flags(),
		run: func(ctx context.Context, s *session, _ []string) error {
			return r.use(ctx, s, func(_ *mailbox.Box, m *memory.Memory, _ string) error {
				all, err := m.List(ctx)
				if err != nil {
					return err
				}
				return s.printLines(len(all), func(i int) any { return all[i] })
			})
		},
	}
}

// maxImport is how many bytes of entries are read.
const maxImport = 256 << 20

func memoryImportVerb() *verb {
	var r remembering
	return &verb{
		name: "import", args: "FILE|-", least: 1, most: 1,
		brief: "add what mbox memory export has printed",
		about: `Adds entries, whatever backend they come from, with their times, and with who added
them and on which task as the file says: so it is for people, and an agent's process is
refused. What is there already is left out; an import that was cut off can be done again.`,
		shows: []string{"mbox memory import --agent coder coder.jsonl"},
		exits: memoryExits,
		flags: r.flags(jsonFlag(&r.json)),
		run: func(ctx context.Context, s *session, args []string) error {
			entries, err := readEntries(ctx, s, args[0])
			if err != nil {
				return err
			}
			return r.use(ctx, s, func(_ *mailbox.Box, m *memory.Memory, by string) error {
				if by != "human" {
					return hint(&agents.RefusedError{Step: remembers.step, Reason: "this is a command of " + by + "; a person imports"}, "mbox memory add adds one entry")
				}
				added, err := m.Import(ctx, entries)
				if err != nil {
					return err
				}
				if r.json {
					return s.printLine(map[string]any{"agent": r.agent, "added": added, "there": len(entries) - added})
				}
				s.done("%s remembers %s more; %d were there already", r.agent, schemas.Count(added, "entry", "entries"), len(entries)-added)
				return nil
			})
		},
	}
}

// readEntries reads what export has printed.
func readEntries(ctx context.Context, s *session, name string) (all []memory.Entry, err error) {
	data, err := s.readInput(ctx, name, maxImport)
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var e memory.Entry
		if err := schemas.Decode(line, &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, e)
	}
	return all, nil
}
