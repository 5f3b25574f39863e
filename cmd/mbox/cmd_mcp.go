package main

import (
	"context"
	"os"

	"github.com/urfave/cli/v2"

	"mbox/cmd/mbox/mcp"
	"mbox/mailbox"
)

func mcpVerb() *verb {
	var agent string
	return &verb{
		name:  "mcp",
		brief: "serve the mailbox to an MCP client",
		about: `Speaks the Model Context Protocol on stdin and stdout, until stdin ends: tools to
send, claim, follow and end tasks, to read the ledger and channels, to say something
there, and to write records. With
--agent the client is that agent: it sees what concerns it, and claims. Without,
it is you: it sees all, and claims nothing. mbox help mcp tells how to add it to
a client.`,
		shows: []string{"claude mcp add mbox -- mbox mcp --agent coder"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			&cli.StringFlag{Name: "agent", Usage: "who the client is: `AGENT`", EnvVars: []string{"MBOX_AGENT"}, Destination: &agent},
		},
		run: func(ctx context.Context, s *session, _ []string) error {
			if agent != "" {
				if err := needAgent("mcp", agent); err != nil {
					return err
				}
			}
			return s.with(ctx, func(box *mailbox.Box) error {
				s.warnUnsynced(box.Options().Sync)
				server := mcp.New(mcp.Options{Box: box, Agent: agent, Version: thisVersion().Version, Hint: s.hint, Person: func(ctx context.Context) error {
					return firstError(posting.byPerson(), posting.byNoWorker(ctx, box))
				}})
				return server.Serve(ctx, s.in, os.Stdout)
			})
		},
	}
}

// hint is what helps against an error, as report tells it.
func (s *session) hint(err error) string {
	_, hint := s.judged(err)
	return hint
}
