package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"mbox/mailbox"
	"mbox/mailbox/channel"
	"mbox/schemas"
)

type readOptions struct {
	since    lineOrMoment
	most     number
	thread   string
	receipts bool
	answer
}

// spoken is a message as mbox read prints it.
type spoken struct {
	*mailbox.Posted
	Receipts []mailbox.Receipt `json:"receipts,omitempty"`
}

// lastMessages are shown where nothing else is said.
const lastMessages = 50

func readVerb() *verb {
	o := readOptions{since: lineOrMoment{line: number{max: math.MaxInt}, moment: moment{past: true}}, most: number{max: math.MaxInt32}}
	return &verb{
		name: "read", args: "[CHANNEL]", most: 1,
		brief: "read what was said in channels",
		about: `Prints the messages of a channel, or of all, the oldest first: with its number (the
seq of its line in the ledger), who said it, and its id. The last 50 are printed, or
all behind --since. Reading acknowledges nothing; mbox ack does. With --json each
line is one message. A message that was changed since it was posted is not shown,
and the exit code is then 1.`,
		shows: []string{
			"mbox read builds",
			"mbox read builds --since 120 --json",
			"mbox read --since 2h",
			"mbox read builds --thread msg-20260216-0123456789abcdef --receipts",
		},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: append(flags(
			valueFlag("since", "only what is behind `WHEN`: a message's number, a time, or a duration ago", &o.since),
			limitFlag("at most the last `N`; 0: all", &o.most),
			filledFlag("thread", "only message `ID`, its answers, and theirs", &o.thread),
			boolFlag("receipts", "tell who has got it, who has seen it, and who has acknowledged it", &o.receipts),
		), o.answer.flags("print the messages' ids alone")...),
		run:   func(ctx context.Context, s *session, args []string) error { return o.run(ctx, s, args) },
		words: channelWords,
	}
}

func (o *readOptions) run(ctx context.Context, s *session, args []string) error {
	if err := o.check("read"); err != nil {
		return err
	}
	return s.looking(ctx, func(box *mailbox.Box) (err error) {
		of := mailbox.Reading{}
		if len(args) == 1 {
			if of.Channel = args[0]; channel.CheckName(args[0]) != nil || !channelThere(box, args[0]) {
				return noChannel(box.Home(), args[0])
			}
		}
		limit := lastMessages
		if o.since.given {
			if of.Since, err = o.since.seq(box); err != nil {
				return err
			}
			limit = 0
		}
		if o.most.value != nil {
			limit = *o.most.value
		}
		if o.thread == "" {
			of.Limit = limit
		}
		said, bad, err := mailbox.Messages(ctx, box, of)
		if err == nil && o.thread != "" {
			said, err = o.threadOf(box, said)
			if limit > 0 {
				said = said[max(0, len(said)-limit):]
			}
		}
		if err != nil {
			return err
		}
		if err := o.print(ctx, s, box, said); err != nil {
			return err
		}
		for _, b := range bad {
			s.warnf("%v", b)
		}
		if len(bad) > 0 {
			return &unwell{fmt.Sprintf("%s not as posted: mbox verify names all", schemas.Count(len(bad), "message is", "messages are"))}
		}
		return nil
	})
}

// lineOrMoment is a place in the ledger: the number of a line, or a moment.
type lineOrMoment struct {
	line   number
	moment moment
	given  bool
}

func (l *lineOrMoment) String() string { return cmp.Or(l.line.String(), l.moment.String()) }

func (l *lineOrMoment) Set(v string) error {
	l.given = true
	if l.line.Set(v) == nil {
		return nil
	}
	if err := l.moment.Set(v); err != nil {
		return fmt.Errorf("%w, or a number such as mbox read prints", err)
	}
	return nil
}

// seq is the number of the line behind which the place is.
func (l *lineOrMoment) seq(box *mailbox.Box) (int64, error) {
	if l.line.value != nil {
		return int64(*l.line.value), nil
	}
	for line, err := range box.Ledger().Backward() {
		if err == nil {
			err = line.Sound()
		}
		if err != nil {
			return 0, err
		}
		if line.Time().Before(l.moment.at) {
			return line.Seq, nil
		}
	}
	return 0, nil
}

// threadOf are the message with this id, its answers, and theirs.
func (o *readOptions) threadOf(box *mailbox.Box, said []*mailbox.Posted) ([]*mailbox.Posted, error) {
	first, err := mailbox.MessageOf(box, o.thread)
	if err != nil {
		return nil, hint(err, "mbox read")
	}
	in := map[string]bool{first.ID: true}
	return slices.DeleteFunc(said, func(m *mailbox.Posted) bool {
		in[m.ID] = in[m.ID] || in[m.ReplyTo]
		return !in[m.ID]
	}), nil
}

func (o *readOptions) print(ctx context.Context, s *session, box *mailbox.Box, said []*mailbox.Posted) error {
	if o.quiet {
		return printIDs(s, said, func(m *mailbox.Posted) string { return m.ID })
	}
	for _, m := range said {
		line := spoken{Posted: m}
		if o.receipts {
			var err error
			if line.Receipts, err = mailbox.Receipts(ctx, box, m); err != nil {
				return err
			}
		}
		if o.json {
			if err := s.printLine(line); err != nil {
				return err
			}
			continue
		}
		printMessage(s, &line)
	}
	if len(said) == 0 && !o.json {
		s.infof("nothing was said")
	}
	return nil
}

// printMessage prints who said it, and below that, indented, what. No line of a text can
// pass for another message.
func printMessage(s *session, m *spoken) {
	head := fmt.Sprintf("%d  %s  #%s  %s  %s", m.Seq, schemas.LocalTime(m.Posted.Posted.Time), m.Channel, m.From, m.ID)
	if m.Type != channel.DefaultType {
		head += "  " + m.Type
	}
	if m.ReplyTo != "" {
		head += "  answers " + m.ReplyTo
	}
	s.printf("%s\n", s.paint.bold(clean(head, maxLine)))
	for line := range strings.SplitSeq(cleanLines(m.Text), "\n") {
		s.printf("    %s\n", line)
	}
	for _, r := range m.Receipts {
		s.printf("    %s\n", s.paint.dim(clean(fmt.Sprintf("%s (%s): %s %s", r.Agent, r.Trigger, receiptWord(r.State), r.Item), maxLine)))
	}
}

// receiptWord tells how far a message has come, as people say it.
func receiptWord(state mailbox.State) string {
	switch state {
	case mailbox.None:
		return "on its way"
	case mailbox.Pending:
		return "delivered"
	case mailbox.InProgress:
		return "seen"
	case mailbox.Completed, mailbox.Archived:
		return "acknowledged"
	}
	return string(state)
}
