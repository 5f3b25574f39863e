package main

import (
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"mbox/agents/chat"
	"mbox/mailbox"
)

func bridgeVerb() *verb {
	var check, inJSON bool
	return &verb{
		name: "bridge", args: "NAME", least: 1, most: 1,
		brief: "let people write to an agent by chat",
		about: `Runs the bridge that [bridges.NAME] in mbox.toml describes, until SIGTERM or
Ctrl-C: what an allowed sender writes becomes a task, and its result goes back into
the same conversation. mbox up runs all bridges but those of kind stdio; this is for
one alone. At most one process is at a bridge: a second one ends with exit code 75.

A bridge of kind stdio takes a line of standard input as a message and writes the
answer to standard output; it ends when the input has ended and all is answered. With
--json each message and each answer is an object on one line.

--check asks the server who we are, and tells what is wrong. Nothing is received or
sent. mbox help bridges tells of the kinds and their settings.

Bridges are for people: an agent's command cannot run one, as it cannot approve.`,
		shows: []string{"mbox bridge family --check", `echo "Will it rain?" | mbox bridge shell`},
		exits: []int{exitNotFound, exitData, exitPolicy, exitIO, exitBusy},
		flags: []cli.Flag{
			boolFlag("check", "tell whether settings, credentials and server work, and end", &check),
			boolFlag("json", "for the kind stdio: messages and answers are JSON", &inJSON),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			if err := bridging.byPerson(); err != nil {
				return err
			}
			return s.with(ctx, func(box *mailbox.Box) error {
				if err := bridging.byNoWorker(ctx, box); err != nil {
					return err
				}
				b, err := bridgeOf(s, box, args[0])
				if err == nil {
					err = linesInJSON(&b, inJSON)
				}
				switch {
				case err != nil:
					return err
				case check:
					return checkBridge(ctx, s, &b)
				}
				return runBridge(ctx, s, &b)
			})
		},
		words: bridgeWords,
	}
}

func checkBridge(ctx context.Context, s *session, b *chat.Bridge) error {
	says, err := b.Check(ctx)
	if err != nil {
		return err
	}
	s.printf("%s: %s\n", b.Kind.Name, clean(says, maxLine))
	return nil
}

func runBridge(ctx context.Context, s *session, b *chat.Bridge) error {
	s.warnUnsynced(b.Box.Options().Sync)
	if !b.Kind.Stdio {
		fmt.Fprintf(s.err, "mbox: bridge %s, pid %d, home %s\n", b.Name, os.Getpid(), clean(b.Box.Home(), maxLine))
	}
	return b.Run(ctx)
}

// bridgeWords are the names of the bridges.
func bridgeWords(s *session) []string {
	c := configOf(s)
	if c == nil {
		return nil
	}
	return c.Bridges.Names()
}
