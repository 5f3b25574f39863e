package irc

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// tend keeps connection, nick and rooms, and fetches at first what was said since.
// Every question that it asks shows that the server is there.
func (s *session) tend(since time.Time) error {
	var told string
	if err := s.settle(&told); err != nil {
		return err
	}
	s.c.set(s)
	if err := s.catchUp(since); err != nil {
		return err
	}
	tick := time.NewTicker(s.c.tending)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.nudge:
		case <-s.ctx.Done():
			return nil
		}
		if err := s.settle(&told); err != nil {
			return err
		}
	}
}

// settle asks for the nick and the rooms that are missing. What is refused is told
// once, and asked for again the next time.
func (s *session) settle(told *string) error {
	var ask []string
	if me := s.me(); !same(me, s.c.User) {
		ask = append(ask, "NICK "+s.c.User)
	} else if s.bot != "" {
		ask = append(ask, "MODE "+me+" +"+s.bot)
		s.bot = ""
	}
	missing := s.missing()
	for _, room := range missing {
		ask = append(ask, "JOIN "+room)
	}
	reply, err := s.ask(s.ctx, ask...)
	if err != nil {
		return err
	}
	var faults []string
	for _, l := range reply {
		if room := s.c.room(l.param(1)); room != "" && refusal(l) {
			faults = append(faults, fmt.Sprintf("%s: %v", room, l))
		}
	}
	if fault := strings.Join(faults, ", "); fault != *told {
		*told = fault
		if fault != "" {
			s.c.Log("irc: the server does not let us in: %s", fault)
		}
	}
	return nil
}

// missing are the rooms that we are not in.
func (s *session) missing() (rooms []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, room := range s.c.Rooms {
		if !s.rooms[room] {
			rooms = append(rooms, room)
		}
	}
	return rooms
}

// The history of the server, as in https://ircv3.net/specs/extensions/chathistory.
const (
	stamp    = "2006-01-02T15:04:05.000Z"
	maxPage  = 500
	maxPages = 200
	maxPeers = 100
	// overlap is how far the servers of a network may be apart in order and time. What
	// comes twice for it has the same ID.
	overlap = 30 * time.Second
)

// place reads what was kept.
func place(kept string) (time.Time, error) {
	if kept == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(stamp, kept)
	if err != nil {
		return at, errors.New("the place that was kept is no time")
	}
	return at, nil
}

// remembers tells whether the server has a history that can be asked for.
func (s *session) remembers() bool {
	return s.has("draft/chathistory") && s.has("batch") && s.has("server-time") && s.has("message-tags")
}

// catchUp fetches what was said behind the place, and then lets the place move. The
// messages themselves go into the queue as they come.
func (s *session) catchUp(since time.Time) error {
	if !s.remembers() {
		return nil
	}
	if !since.IsZero() {
		targets, err := s.targets(since.Add(-overlap))
		if err != nil {
			return err
		}
		for _, target := range targets {
			if err := s.history(target, since.Add(-overlap)); err != nil {
				return err
			}
		}
	}
	return s.put(event{at: s.since})
}

// targets are the rooms, and who has spoken with us directly.
func (s *session) targets(since time.Time) ([]string, error) {
	targets := append([]string(nil), s.c.Rooms...)
	reply, err := s.ask(s.ctx, fmt.Sprintf("CHATHISTORY TARGETS timestamp=%s timestamp=%s %d",
		since.UTC().Format(stamp), time.Now().UTC().Add(24*time.Hour).Format(stamp), min(s.page, maxPeers)))
	for _, l := range reply {
		s.complain(l)
		if l.command == "CHATHISTORY" && l.param(0) == "TARGETS" && !isRoom(l.param(1)) && single(l.param(1)) {
			targets = append(targets, l.param(1))
		}
	}
	return targets[:min(len(targets), len(s.c.Rooms)+maxPeers)], err
}

// history fetches what a target has, page by page.
func (s *session) history(target string, since time.Time) error {
	from := "timestamp=" + since.UTC().Format(stamp)
	for range maxPages {
		reply, err := s.ask(s.ctx, fmt.Sprintf("CHATHISTORY AFTER %s %s %d", target, from, s.page))
		if err != nil {
			return err
		}
		before, count := from, 0
		for _, l := range reply {
			s.complain(l)
			if l.command == "PRIVMSG" {
				count++
				from = mark(l, from)
			}
		}
		if count == 0 || from == before {
			return nil
		}
	}
	s.c.Log("irc: %s has a longer history than is read", target)
	return nil
}

// mark names the message behind which the next page begins.
func mark(l line, from string) string {
	if id := l.tags["msgid"]; id != "" && !strings.ContainsAny(id, " \r\n\x00") {
		return "msgid=" + id
	}
	if at, err := time.Parse(stamp, l.tags["time"]); err == nil {
		return "timestamp=" + at.Format(stamp)
	}
	return from
}

func (s *session) complain(l line) {
	if l.command == "FAIL" {
		s.c.Log("irc: the history has a gap: %v", l)
	}
}

// batch remembers which batches are a history, and whose.
func (s *session) batch(l line) {
	ref := l.param(0)
	switch {
	case strings.HasPrefix(ref, "-"):
		delete(s.batches, ref[1:])
	case strings.HasPrefix(ref, "+") && l.param(1) == "chathistory" && len(s.batches) < maxOpen:
		s.batches[ref[1:]] = l.param(2)
	}
}
