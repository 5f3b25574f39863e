package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"mbox/mailbox"
	"mbox/schemas"
)

func createChannelVerb() *verb {
	var o postOptions
	topic := ""
	return &verb{
		name: "create-channel", args: "NAME", least: 1, most: 1,
		brief: "make a channel",
		about: `Makes a channel: lower-case letters, digits, _ and -. The same line again answers 0
and changes nothing; a channel of this name that is about something else is refused
with exit code 5. Whoever has the key watch_channels in mbox.toml gets all that is
posted there.`,
		shows: []string{`mbox create-channel builds --topic "What the builds say"`},
		exits: []int{exitConflict, exitStale, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: slices.Concat(o.speaker.flags("from", "who makes it: an `AGENT`, or human (human)"), []cli.Flag{
			textFlag("topic", "what it is about: `TEXT`", &topic),
		}, o.answer.flags("print nothing but what is wrong")),
		run: func(ctx context.Context, s *session, args []string) error {
			if err := o.check("create-channel"); err != nil {
				return err
			}
			return s.tidied(ctx, func(box *mailbox.Box) error {
				p := mailbox.Post{Channel: args[0], Text: topic, Create: true}
				if topic == "" {
					p.Text = args[0]
				}
				var err error
				if p.From, p.By, err = o.speaks(ctx, box); err != nil {
					return err
				}
				m, _, _, err := mailbox.PostMessage(ctx, box, p)
				switch {
				case errors.Is(err, mailbox.ErrConflict):
					return hint(err, "it is there already: mbox read %s", schemas.ShellWord(args[0]))
				case err != nil:
					return hintData(err, "mbox create-channel builds")
				case o.json:
					return s.printLine(m)
				case o.quiet:
					return nil
				}
				s.printf("%s\n", m.Channel)
				return nil
			})
		},
	}
}

func channelsVerb() *verb {
	var o answer
	return &verb{
		name:  "channels",
		brief: "list the channels",
		about: "Lists the channels with how many messages they have. With --json each line is one.",
		shows: []string{"mbox channels"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: o.flags("print the names alone"),
		run: func(ctx context.Context, s *session, _ []string) error {
			if err := o.check("channels"); err != nil {
				return err
			}
			return s.looking(ctx, func(box *mailbox.Box) error {
				lines, err := mailbox.Channels(ctx, box)
				switch {
				case err != nil || o.json:
					return firstError(err, s.printLines(len(lines), func(i int) any { return lines[i] }))
				case o.quiet:
					return printIDs(s, lines, func(l *mailbox.ChannelInfo) string { return l.Channel })
				}
				t := table{head: []string{"CHANNEL", "MESSAGES", "TOPIC"}}
				for _, l := range lines {
					t.add(text(l.Channel), text(fmt.Sprint(l.Messages)), text(l.Topic))
				}
				t.printIfAny(s, "there is no channel; mbox create-channel NAME makes one")
				return nil
			})
		},
	}
}
