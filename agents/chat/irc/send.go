package irc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mbox/agents/chat"
)

// maxMask is the longest user@host that a server may put behind our nick for others:
// the program does not see how it looks to them, and it may change.
const maxMask = len("~1234567890@") + 64

// Send implements [chat.Channel].
func (c *channel) Send(ctx context.Context, n chat.Notice) (string, error) {
	err := c.send(ctx, n)
	if err != nil {
		err = fmt.Errorf("irc: %w", err)
	}
	return "", err
}

func (c *channel) send(ctx context.Context, n chat.Notice) error {
	target, who, _ := strings.Cut(n.To.Peer, "!")
	if strings.HasPrefix(n.To.Peer, vouched) {
		target, who = n.To.Thread, n.To.Peer
	}
	if !single(target) || isRoom(target) != n.To.Group {
		return fmt.Errorf("%q is nobody that can be written to: %w", n.To.Peer, chat.ErrRefused)
	}
	s, leave, err := c.connected(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.present(ctx, target, who); err != nil {
		return err
	}
	head := "PRIVMSG " + target + " :"
	names := max(len(s.me()), len(c.User))
	parts := cut(n.Text, maxLine-len(":!\r\n ")-names-maxMask-len(head))
	if len(parts) == 0 {
		return nil
	}
	for i := range parts {
		parts[i] = s.replying(n.Reply) + head + parts[i]
	}
	reply, err := s.ask(ctx, parts...)
	if err != nil {
		return err
	}
	return sent(reply, target)
}

// present tells whether whom a notice is for can get it: we are in the room, or
// whoever has the nick is still the one that we have spoken with.
func (s *session) present(ctx context.Context, target, who string) error {
	if isRoom(target) && slices.Contains(s.missing(), s.c.room(target)) {
		return fmt.Errorf("we are not in %s now", target)
	}
	if who == "" {
		return nil
	}
	reply, err := s.ask(ctx, "WHOIS "+target)
	if err != nil {
		return err
	}
	var mask, account string
	for _, l := range reply {
		switch l.command {
		case "311":
			mask = l.param(2) + "@" + l.param(3)
		case "330":
			account = vouched + l.param(2)
		case "401", "402", "406":
			return fmt.Errorf("%s is not here: %w", target, chat.ErrRefused)
		}
	}
	switch {
	case mask == "":
		return pause(fmt.Errorf("the server does not say who %s is", target))
	case strings.HasPrefix(who, vouched) && !same(who, account), !strings.HasPrefix(who, vouched) && who != mask:
		return fmt.Errorf("%s is somebody else now: %w", target, chat.ErrRefused)
	}
	return nil
}

// replying names the message that is answered, for clients that show it.
func (s *session) replying(id string) string {
	id, is := strings.CutPrefix(id, "msgid:")
	if !is || !s.has("message-tags") {
		return ""
	}
	return "@+draft/reply=" + escape.Replace(id) + " "
}

// refusal tells whether a line is an error.
func refusal(l line) bool {
	return l.numeric() && (l.command[0] == '4' || l.command[0] == '5' || l.command == "716") || l.command == "FAIL"
}

// sent judges what the server has answered to a notice.
func sent(reply []line, target string) error {
	for _, l := range reply {
		switch {
		case l.command == "263", l.command == "437", l.command == "439", l.command == "707":
			return pause(fmt.Errorf("the server takes nothing for %s now: %v", target, l))
		case refusal(l):
			return fmt.Errorf("%s cannot be written to: %v: %w", target, l, chat.ErrRefused)
		}
	}
	return nil
}

func pause(err error) error { return &chat.WaitError{For: time.Minute, Err: err} }
