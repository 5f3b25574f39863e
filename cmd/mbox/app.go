package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// verb is one command, or a group of them. Everything that is told about a
// command is told here once: the parser, the help text, the completion and the
// man page are made from it.
type verb struct {
	name  string
	part  string   // which part of the help lists it
	args  string   // how the arguments are called: "ID", "TITLE|FILE|-"
	least int      // how many arguments it takes
	most  int      // at most; less than 0: any number
	split bool     // the first argument stands before --, the others behind it
	brief string   // one line
	about string   // the help text
	shows []string // examples, each a line of shell
	exits []int    // exit codes besides 0, 1 and 2
	flags []cli.Flag
	verbs []*verb // of a group
	run   func(ctx context.Context, s *session, args []string) error
	// words offers arguments to the shell's completion.
	words func(s *session) []string
}

// The parts of the help, in its order.
const (
	partHome   = "A mailbox"
	partAsk    = "Asking for work"
	partWork   = "Doing work"
	partTalk   = "Talking"
	partProof  = "Proof and safety"
	partOthers = "Format and shell"
)

// tree is the command tree. A verb that is not finished is absent from it.
func tree() *verb {
	return &verb{
		name:  "mbox",
		brief: "a post office for AI agents on one machine",
		about: `One agent hands work to another by leaving a task file in a mailbox: a folder
in which the file moves between pending, in-progress, completed and failed by
atomic renames. Every change is a line in a hash-chained ledger. Nothing but
files, no server; every byte can be read with cat.

   mbox init                                 make a mailbox in ~/agents
   mbox send "Summarise README" --to coder   leave a task, print its id
   mbox claim --agent coder                  take the next task, print its JSON
   mbox complete ID --token T --output …     hand in the result
   mbox verify                               prove that ledger and files agree`,
		verbs: slices.Concat(homeVerbs(), askVerbs(), workVerbs(), talkVerbs(), proofVerbs(), otherVerbs()),
	}
}

// app turns the tree into cli's commands. Help is printed by help.go.
func (s *session) app(root *verb) *cli.App {
	return &cli.App{
		Name: root.name, Usage: root.brief,
		Flags:                     s.globals(),
		Commands:                  s.commands(root, root.name),
		HideVersion:               true,
		HideHelp:                  true,
		DisableSliceFlagSeparator: true,
		Writer:                    s.out,
		ErrWriter:                 s.err,
		OnUsageError:              s.usageError(root.name),
		ExitErrHandler:            func(*cli.Context, error) {}, // run answers for exit codes
	}
}

func (s *session) globals() []cli.Flag {
	return []cli.Flag{
		&cli.GenericFlag{Name: "home", Usage: "the mailbox's `DIR`, ~/agents by default", EnvVars: []string{"MBOX_HOME"}, Value: filled{&s.home}},
		valueFlag("log-level", "what is told on stderr: `L` is debug, info, warn or error", &s.level),
	}
}

func (s *session) commands(parent *verb, path string) []*cli.Command {
	var out []*cli.Command
	for _, v := range parent.verbs {
		out = append(out, s.command(v, path+" "+v.name))
	}
	return out
}

func (s *session) command(v *verb, path string) *cli.Command {
	return &cli.Command{
		Name: v.name, HelpName: path, Usage: v.brief, ArgsUsage: v.args,
		Flags: v.flags, Subcommands: s.commands(v, path),
		HideHelp:     true,
		OnUsageError: s.usageError(path),
		Action: func(c *cli.Context) error {
			if v.run == nil {
				return usagef(path+" --help", "%s needs a command: %s", path, strings.Join(v.names(), ", "))
			}
			return v.run(c.Context, s, c.Args().Slice())
		},
	}
}

// usageError wraps what cli finds wrong with a flag's value.
func (s *session) usageError(path string) cli.OnUsageErrorFunc {
	return func(_ *cli.Context, err error, _ bool) error {
		return usagef(path+" --help", "%s", flagProblem(err))
	}
}

// flagProblem puts the flag first: cli says `invalid value "x" for flag -wait: why`.
func flagProblem(err error) string {
	text := err.Error()
	rest, ok := strings.CutPrefix(text, "invalid value ")
	value, rest, ok2 := strings.Cut(rest, " for flag -")
	name, why, ok3 := strings.Cut(rest, ": ")
	if !ok || !ok2 || !ok3 {
		return text
	}
	if why == "parse error" {
		why = "want a whole number"
	}
	return fmt.Sprintf("--%s %s: %s", name, value, why)
}

// names are those of a group's commands.
func (v *verb) names() []string {
	var out []string
	for _, sub := range v.verbs {
		out = append(out, sub.name)
	}
	return out
}

func (v *verb) verb(name string) *verb {
	for _, sub := range v.verbs {
		if sub.name == name {
			return sub
		}
	}
	return nil
}

// path is the verb below that these words name, the group before its verb.
func (v *verb) path(words string) *verb {
	for name := range strings.FieldsSeq(words) {
		if v != nil {
			v = v.verb(name)
		}
	}
	return v
}
