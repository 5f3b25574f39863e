package irc

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	burst    = 4    // lines that may be sent at once
	maxQueue = 1000 // messages that wait to be taken
	maxReply = 5000 // lines that answer one question
	maxOpen  = 64   // batches at a time
)

// A session is one connection, from the first line to the last.
type session struct {
	c     *channel
	ctx   context.Context // ends with the connection, for its cause
	end   context.CancelCauseFunc
	conn  net.Conn
	r     *bufio.Reader
	group sync.WaitGroup
	id    string // of this connection: what makes a message's ID unique

	// Of the registration; constant behind it.
	offered map[string]string
	server  string // what the server calls itself
	account string // that we are logged in to
	known   bool   // the login was taken
	tries   int    // of nicks
	since   time.Time
	page    int    // messages that the history gives at once
	bot     string // the mode that marks us as a program; "" for none
	deaf    bool   // no message is taken

	queue   chan event
	nudge   chan struct{}     // the nick that is wanted may be free
	batches map[string]string // of read: whose history a batch is
	heard   int               // of read: messages that had no ID
	whole   bool              // of Receive: the history was taken
	until   time.Time         // of Receive: the time of the last message

	writing sync.Mutex
	asking  sync.Mutex // held by who asks
	due     time.Time  // under asking: when the next line may be sent, but for the burst

	mu    sync.Mutex
	nick  string          // under mu behind the registration
	caps  map[string]bool // so too
	rooms map[string]bool // so too: those that we are in
	token string          // so too: of the PING behind what was asked; "" for none
	reply []line          // so too: what was answered up to now
	done  chan struct{}   // closed at the PONG
}

func newSession(ctx context.Context, c *channel, conn net.Conn) *session {
	s := &session{
		c: c, conn: conn, r: bufio.NewReaderSize(conn, maxTags+maxLine), id: unique(), page: maxPage,
		offered: make(map[string]string), caps: make(map[string]bool), rooms: make(map[string]bool),
		batches: make(map[string]string), queue: make(chan event, maxQueue), nudge: make(chan struct{}, 1),
	}
	s.ctx, s.end = context.WithCancelCause(ctx)
	s.group.Go(func() {
		<-s.ctx.Done()
		s.hangUp()
	})
	return s
}

// hangUp says goodbye, where the server listens, and frees whoever reads or writes.
func (s *session) hangUp() {
	raw := s.conn
	if secured, is := raw.(*tls.Conn); is {
		raw = secured.NetConn() // its own Close would wait for a server that does not read
	}
	late := time.AfterFunc(200*time.Millisecond, func() { raw.Close() })
	defer late.Stop()
	s.writing.Lock()
	defer s.writing.Unlock()
	_, _ = s.conn.Write([]byte("QUIT\r\n"))
	raw.Close()
}

// wait returns when nothing of the session is left. Somebody has ended it.
func (s *session) wait() { s.group.Wait() }

// start begins to listen, and to tend what was joined. The queue is at its end when
// both are: both write to it.
func (s *session) start(since time.Time) {
	var writers sync.WaitGroup
	writers.Go(func() { s.end(s.read()) })
	writers.Go(func() { s.end(s.tend(since)) })
	s.group.Go(func() {
		writers.Wait()
		close(s.queue)
	})
}

// write sends lines as they are.
func (s *session) write(lines ...string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.conn.SetWriteDeadline(time.Now().Add(s.c.patience))
	_, err := s.conn.Write([]byte(strings.Join(lines, "\r\n") + "\r\n"))
	return err
}

// read gets lines until the connection ends.
func (s *session) read() error {
	for {
		l, err := next(s.r)
		if err != nil {
			return fmt.Errorf("the connection ended: %w", err)
		}
		if err := s.hear(l); err != nil {
			return err
		}
	}
}

func (s *session) hear(l line) error {
	switch l.command {
	case "PING":
		return s.write("PONG :" + l.last())
	case "PONG":
		s.answered(l.last())
	case "ERROR":
		return fmt.Errorf("the server ends the connection: %v", l)
	case "CAP":
		s.withdrawn(l)
	case "NICK", "JOIN", "PART", "KICK", "QUIT":
		s.moved(l)
	case "BATCH", "CHATHISTORY":
		s.batch(l)
		s.answer(l)
	case "PRIVMSG":
		if l.tags["batch"] != "" {
			s.answer(l)
		}
		return s.message(l)
	default:
		if l.numeric() || l.command == "FAIL" {
			s.answer(l)
		}
	}
	return nil
}

// withdrawn forgets an extension that the server no longer has: what its tags said
// could now come from anybody.
func (s *session) withdrawn(l line) {
	if l.param(1) != "DEL" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range strings.Fields(l.last()) {
		delete(s.caps, name)
	}
}

func (s *session) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caps[name]
}

func (s *session) me() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nick
}

// moved follows what becomes of us, and sees when the nick that is wanted is left.
func (s *session) moved(l line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	room, mine := s.c.room(l.param(0)), same(l.nick(), s.nick)
	switch {
	case l.command == "NICK" && mine && single(l.param(0)):
		s.nick = l.param(0)
	case l.command == "JOIN" && mine && room != "":
		s.rooms[room] = true
	case l.command == "PART" && mine, l.command == "KICK" && same(l.param(1), s.nick):
		if s.rooms[room] {
			delete(s.rooms, room)
			s.c.Log("irc: we are no longer in %s: %v", room, l)
		}
	case (l.command == "NICK" || l.command == "QUIT") && same(l.nick(), s.c.User):
		select {
		case s.nudge <- struct{}{}:
		default:
		}
	}
}

// ask sends lines, with pauses that the server bears, and returns what it answered:
// all that came until it answered a PING behind them. One asks at a time, and nobody
// leaves before the PONG, or an answer would be taken for that of the next question.
// Where no answer comes the connection is dead.
func (s *session) ask(ctx context.Context, lines ...string) ([]line, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	token := unique()
	done := s.expect(token)
	for _, l := range append(slices.Clip(lines), "PING :"+token) {
		if err := s.paced(l); err != nil {
			return nil, err
		}
	}
	dead := time.NewTimer(s.c.patience)
	defer dead.Stop()
	select {
	case <-done:
		return s.reply, nil // without a token nothing is added to it
	case <-dead.C:
		s.end(errors.New("the server does not answer"))
	case <-s.ctx.Done():
	}
	return nil, context.Cause(s.ctx)
}

func (s *session) expect(token string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token, s.reply, s.done = token, nil, make(chan struct{})
	return s.done
}

// paced waits until a line may be sent: a few at once, then one after each pause.
func (s *session) paced(l string) error {
	now := time.Now()
	if s.due.Before(now) {
		s.due = now
	}
	pause := time.NewTimer(s.due.Sub(now) - burst*s.c.pace)
	defer pause.Stop()
	s.due = s.due.Add(s.c.pace)
	select {
	case <-pause.C:
		return s.write(l)
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// answer keeps a line that answers what was asked.
func (s *session) answer(l line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != "" && len(s.reply) < maxReply {
		s.reply = append(s.reply, l)
	}
}

func (s *session) answered(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != "" && token == s.token {
		s.token = ""
		close(s.done)
	}
}
