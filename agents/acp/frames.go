package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"

	sdk "github.com/coder/acp-go-sdk"
)

// Bounds of what a program sends.
const (
	maxFrame    = 4 << 20 // bytes
	maxResponse = 1 << 20 // bytes of an answer to mbox, which the library reads whole
	maxID       = 256     // bytes of a request's id
	maxGarbage  = 1000    // lines that are no JSON; some programs greet
	maxRequests = 32      // that are not answered yet
	maxNotes    = 512     // notifications that are not handled yet; the library closes at 1024
	maxHeld     = 8 << 20 // bytes of both, with answers
	answerSize  = 2 << 20 // for which an answer with a text of maxScreen, or of a file, counts
)

// frames stands between a program's stdout and the connection: it lets through whole
// lines that are JSON, no longer than maxFrame, and no more at once than are handled,
// by their number and by their bytes.
type frames struct {
	heard func()
	opens chan struct{}
	lines chan []byte
	over  chan struct{}

	line []byte // the writer's: that has not ended
	rest []byte // the reader's: of the line that it has

	mu       sync.Mutex
	room     *sync.Cond
	requests []int // what those not answered yet count for
	notes    []int // and notifications not handled yet, the oldest first
	held     int   // the sum of both
	garbage  int
	why      error // why it is over
	broke    error // what was wrong with what the program sent
}

func newFrames(heard func()) *frames {
	f := &frames{heard: heard, opens: make(chan struct{}), lines: make(chan []byte), over: make(chan struct{})}
	f.room = sync.NewCond(&f.mu)
	return f
}

// open lets the connection read.
func (f *frames) open() { close(f.opens) }

// end is the end of all frames.
func (f *frames) end(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why == nil {
		f.why = why
		close(f.over)
		f.room.Broadcast()
	}
}

// breaks ends them because of what the program sent.
func (f *frames) breaks(what string) error {
	err := errors.New("the program sends " + what)
	f.mu.Lock()
	f.broke = err
	f.mu.Unlock()
	f.end(err)
	return err
}

func (f *frames) broken() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broke
}

// Write takes what the program writes. It blocks while too much is not handled.
func (f *frames) Write(p []byte) (int, error) {
	f.heard()
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		if len(f.line)+len(part) > maxFrame {
			return 0, f.breaks("a frame of more than 4 MiB")
		}
		f.line = append(f.line, part...)
		p = rest
		if !ended {
			break
		}
		line := f.line
		f.line = nil
		if err := f.pass(line); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// pass hands a line to the connection.
func (f *frames) pass(line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(line, &m) != nil {
		f.mu.Lock()
		f.garbage++
		much := f.garbage > maxGarbage
		f.mu.Unlock()
		if much {
			return f.breaks("much that is no JSON")
		}
		return nil
	}
	request := len(m.ID) > 0 && string(m.ID) != "null"
	switch told := m.Method == sdk.ClientMethodSessionUpdate; {
	case request == told:
		return nil // nothing else is told to nobody in particular, and that is asked of nobody
	case len(m.ID) > maxID:
		return f.breaks("an id of more than 256 bytes")
	case m.Method == "" && len(line) > maxResponse:
		return f.breaks("an answer of more than 1 MiB")
	}
	if m.Method != "" {
		if err := f.wait(request, len(line)+answerOf(m.Method)); err != nil {
			return err
		}
	}
	select {
	case f.lines <- append(line, '\n'):
		return nil
	case <-f.over:
		return f.why
	}
}

// answerOf is what the answer to a request counts for, until it is written.
func answerOf(method string) int {
	if method == sdk.ClientMethodFsReadTextFile || method == sdk.ClientMethodTerminalOutput {
		return answerSize
	}
	return 0
}

// wait waits for room, and takes it. A request waits for all notifications that came
// before it, too: the library would begin it while they are still to be handled.
func (f *frames) wait(request bool, size int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.why == nil && (len(f.requests) >= maxRequests || len(f.notes) >= maxNotes || request && len(f.notes) > 0 || f.held > 0 && f.held+size > maxHeld) {
		f.room.Wait()
	}
	f.held += size
	if request {
		f.requests = append(f.requests, size)
	} else {
		f.notes = append(f.notes, size)
	}
	return f.why
}

// handled is the oldest notification.
func (f *frames) handled() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.notes) > 0 {
		f.held -= f.notes[0]
		f.notes = f.notes[1:]
	}
	f.room.Signal()
}

// answered is a request that was. Which one it was is not known: the least is let go
// of, so that never less counts than is held.
func (f *frames) answered() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.requests) > 0 {
		least := slices.Index(f.requests, slices.Min(f.requests))
		f.held -= f.requests[least]
		f.requests = slices.Delete(f.requests, least, least+1)
	}
	f.room.Signal()
}

// Read gives the connection whole lines.
func (f *frames) Read(p []byte) (int, error) {
	<-f.opens
	if len(f.rest) == 0 {
		select {
		case f.rest = <-f.lines:
		case <-f.over:
			return 0, io.EOF
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// replies is the program's stdin: the connection writes one message at a time.
type replies struct {
	to     io.Writer
	frames *frames
}

func (r *replies) Write(p []byte) (int, error) {
	var m struct {
		Method string `json:"method"`
	}
	if json.Unmarshal(p, &m) == nil && m.Method == "" {
		defer r.frames.answered()
	}
	return r.to.Write(p)
}
