package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/channel"
	"mbox/schemas"
)

// aboutMessage is what mbox why tells of a message.
type aboutMessage struct {
	spoken
	Summary string        `json:"summary"`
	Line    mailbox.Proof `json:"line"` // that it stands in the ledger
}

// showMessage shows a message with its receipts. unknown is what there is to say where no
// message has the id.
func showMessage(ctx context.Context, s *session, box *mailbox.Box, id string, inJSON bool, unknown error) error {
	m, err := messageCalled(ctx, box, id, unknown)
	if err != nil {
		return err
	}
	if inJSON {
		return s.printJSON(m)
	}
	printMessage(s, m)
	return nil
}

func messageCalled(ctx context.Context, box *mailbox.Box, id string, unknown error) (*spoken, error) {
	said, err := mailbox.MessageOf(box, id)
	if errors.Is(err, mailbox.ErrNotFound) {
		return nil, unknown
	}
	if err != nil {
		return nil, err
	}
	m := &spoken{Posted: said}
	m.Receipts, err = mailbox.Receipts(ctx, box, said)
	return m, err
}

// whyMessage tells whom a message is for and why, how far it has come, and what proves it.
func whyMessage(ctx context.Context, s *session, box *mailbox.Box, id string, inJSON bool, unknown error) error {
	m, err := messageCalled(ctx, box, id, unknown)
	if err != nil {
		return err
	}
	about := aboutMessage{spoken: *m, Summary: reachOf(m.Posted, box.Options().MaxDepth)}
	if about.Line, err = lineOf(box, m.Seq); err != nil {
		return err
	}
	if inJSON {
		return s.printJSON(about)
	}
	s.printf("%s  message of #%s\n%s\n\n", s.paint.bold(clean(m.ID, 128)), m.Channel, clean(about.Summary, maxLine))
	printMessage(s, m)
	if m.Task != "" {
		s.field("said for", string(m.Task)+", of the tree of "+string(m.Root))
	}
	s.printf("\n%s\n   %s  %s\n", s.paint.dim("proof"), s.paint.dim(fmt.Sprintf("%6d  %s", m.Seq, clean(schemas.LocalTimes(about.Line.TS), 30))), clean(about.Line.Action, maxLine))
	return nil
}

// reachOf tells in a sentence whom a message is for.
func reachOf(m *mailbox.Posted, depth int) string {
	switch {
	case m.Type == channel.Created:
		return "it made the channel #" + m.Channel + ", and is for nobody"
	case m.Ended:
		return fmt.Sprintf("it reaches no inbox: what it would bring about is %d deep, and the depth of delegation is %d", m.Depth, depth)
	case len(m.Receivers) == 0 && m.People:
		return "it is for people, whom [notify] tells, and for no agent"
	case len(m.Receivers) == 0:
		return "it is for nobody: it names no agent, and none watches #" + m.Channel
	}
	var all []string
	for _, r := range m.Receivers {
		all = append(all, map[string]string{
			channel.Mention: r.Agent + ", whom it names", channel.Watch: r.Agent + ", who watches the channel", channel.Broadcast: r.Agent + ", as all agents",
		}[r.Trigger])
	}
	text := "it is for " + strings.Join(all, "; ")
	if m.People {
		text += "; and for people, whom [notify] tells"
	}
	return text
}

// lineOf is the line of the ledger with this number.
func lineOf(box *mailbox.Box, seq int64) (p mailbox.Proof, err error) {
	for line, err := range box.Ledger().BackwardFrom(seq) {
		if err != nil {
			return p, err
		}
		e, err := line.Decode()
		if err != nil {
			return p, err
		}
		p = mailbox.Proof{Seq: e.Seq, File: "audit/shared/" + line.At.File, TS: e.TS, Agent: e.Agent, Event: e.Event, Action: e.Action, Checksum: e.Checksum}
		break
	}
	if p.Seq != seq || p.Event != audit.MessageEvent {
		return p, fmt.Errorf("line %d: %w", seq, mailbox.ErrNotFound)
	}
	return p, nil
}

// searchMessages visits the messages in which a text stands. Those that are not as they
// were posted are left out: verify tells of them.
func searchMessages(ctx context.Context, box *mailbox.Box, needle string, visit func(found) error) error {
	said, _, err := mailbox.Messages(ctx, box, mailbox.Reading{})
	if err != nil {
		return err
	}
	for _, m := range said {
		for _, f := range []field{{"id", m.ID}, {"message", m.Text}} {
			if line := lineWith(f.text, needle); line != "" {
				if err := visit(found{ID: m.ID, Channel: m.Channel, Field: f.name, Text: line}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// unknownTask tells whether an error says that an id is no task's.
func unknownTask(err error) bool {
	var odd *schemas.Error
	return errors.Is(err, mailbox.ErrNotFound) || errors.As(err, &odd)
}
