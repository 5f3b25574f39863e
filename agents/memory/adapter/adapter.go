// Package adapter is a memory that a program keeps: an adapter to a database or a service
// which mbox does not know, over its standard input and output.
//
// # The protocol, version 1
//
// Mbox begins the program when an agent's memory is first used, and closes its standard
// input when it is done with it: then the program ends. Each request is one line of JSON,
// and so is the answer to it, which the next request waits for:
//
//	{"v":1,"op":"add","agent":"coder","uuid":"…","entry":{…}}    {"id":"…"}
//	{"v":1,"op":"recall","agent":"coder","query":"…","limit":5}  {"entries":[{…,"score":0.5}]}
//	{"v":1,"op":"list","agent":"coder","after":"…"}              {"entries":[…],"more":true}
//	{"v":1,"op":"forget","agent":"coder","ids":["…"]}            {}
//
// agent and uuid say whose memory it is. A UUID outlives a change of the name; it is not
// there for an agent that was not born. An entry is one of package memory: what mbox has
// stamped (agent, at, by, task) comes back as it was. An id is the program's, never used
// again. The best entries of a recall come first, with scores from 0 to 1; an empty query,
// and *, ask for the newest. A list has the oldest first, from behind the entry after, or
// from the beginning; more says that it goes on. Of a forget that names an unknown id
// nothing is forgotten.
//
// What cannot be done is answered with {"error":"why"}, and with "code":"unknown" for an
// id that is not there or "code":"full" where no more fits. What the program writes on
// standard error is told where it ends before it has answered. What it has answered has
// to be there for good.
//
// # Mbox's own programs
//
// What makes each start of mbox slow where it is linked is a program beside it that
// speaks the same way (see [Serve]), and knows more. "warnings":["…"] beside an answer
// are told; "fix":"…" beside an error says how to mend it; and "code" may be "model",
// where the embeddings are of another model. Further requests are:
//
//	{"v":1,"op":"embed","agent":"coder","again":true}  {"count":3}
//	{"v":1,"op":"rename","agent":"coder","to":"eve"}   {}
//	{"v":1,"op":"knows","agent":"coder"}               {"known":true}
package adapter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"mbox/agents/memory"
	"mbox/schemas"
)

const (
	version   = 1
	maxAnswer = 16 << 20 // bytes of a line
	maxWords  = 4 << 10  // bytes of standard error that are kept
	maxEnd    = 2 * time.Second
	maxTime   = 30 * time.Second // for an answer
)

// ErrAdapter: the program has not answered, or not as the protocol says.
var ErrAdapter = errors.New("the memory's program")

// Options say which program it is, and whose memory.
type Options struct {
	Agent   string
	UUID    string // "" of an agent that was not born
	Command string // for /bin/sh -c
	Dir     string // where it runs
	// Env is the environment of the program, and what of it is never said in an error.
	Env     func(ctx context.Context) (set, secrets []string, err error)
	Timeout time.Duration // for an answer; 0: 30 s

	// Of mbox's own programs:

	In    string      // what keeps the memories, for people; "": the agent's own program
	Embed bool        // it finds by meaning
	Warn  func(error) // is told of its warnings; nil: nobody is
}

// Store is the memory of one agent. It implements [memory.Store].
type Store struct {
	o   Options
	mu  sync.Mutex // one request at a time
	run *program   // nil: it does not run
}

// New makes a store. It runs nothing yet.
func New(o Options) *Store {
	if o.Timeout == 0 {
		o.Timeout = maxTime
	}
	return &Store{o: o}
}

type request struct {
	V     int           `json:"v"`
	Op    string        `json:"op"`
	Agent string        `json:"agent"`
	UUID  string        `json:"uuid,omitzero"`
	Entry *memory.Entry `json:"entry,omitzero"`
	Query *string       `json:"query,omitzero"`
	Limit int           `json:"limit,omitzero"`
	After string        `json:"after,omitzero"`
	IDs   []string      `json:"ids,omitempty"`
	Again bool          `json:"again,omitzero"`
	To    string        `json:"to,omitzero"`
}

type answer struct {
	ID       string         `json:"id,omitzero"`
	Entries  []memory.Entry `json:"entries,omitempty"`
	More     bool           `json:"more,omitzero"`
	Count    int            `json:"count,omitzero"`
	Known    bool           `json:"known,omitzero"`
	Warnings []string       `json:"warnings,omitempty"`
	Error    string         `json:"error,omitzero"`
	Code     string         `json:"code,omitzero"`
	Fix      string         `json:"fix,omitzero"`
}

// codes are the errors that have a name.
var codes = map[string]error{"unknown": memory.ErrUnknown, "full": memory.ErrFull, "model": memory.ErrModel}

// Add implements [memory.Store].
func (s *Store) Add(ctx context.Context, e memory.Entry) (string, error) {
	a, err := s.ask(ctx, request{Op: "add", Entry: &e})
	if err == nil && checkID(a.ID) != nil {
		err = s.wrong(checkID(a.ID))
	}
	if err != nil {
		return "", err
	}
	return a.ID, nil
}

// Recall implements [memory.Store].
func (s *Store) Recall(ctx context.Context, query string, limit int) ([]memory.Entry, error) {
	a, err := s.ask(ctx, request{Op: "recall", Query: &query, Limit: limit})
	if err != nil {
		return nil, err
	}
	for i, e := range a.Entries {
		if e.Score < 0 || e.Score > 1 {
			return nil, s.wrong(fmt.Errorf("entry %d has the score %v: want 0 to 1", i+1, e.Score))
		}
	}
	return a.Entries[:min(len(a.Entries), max(limit, 0))], nil
}

// All implements [memory.Store].
func (s *Store) All(ctx context.Context) iter.Seq2[memory.Entry, error] {
	return func(yield func(memory.Entry, error) bool) {
		for after, more := "", true; more; {
			a, err := s.ask(ctx, request{Op: "list", After: after})
			if err == nil && a.More && (len(a.Entries) == 0 || a.Entries[len(a.Entries)-1].ID == after) {
				err = s.wrong(errors.New("a list that goes on has no entry that is new"))
			}
			if err != nil {
				yield(memory.Entry{}, err)
				return
			}
			for _, e := range a.Entries {
				if after = e.ID; !yield(e, nil) {
					return
				}
			}
			more = a.More
		}
	}
}

// Forget implements [memory.Store].
func (s *Store) Forget(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := s.ask(ctx, request{Op: "forget", IDs: ids})
	return err
}

// maxEmbed is how long the vectors of all entries may take.
const maxEmbed = 7 * 24 * time.Hour

// Embed has the program make the vectors that the agent's entries lack, or all of them.
func (s *Store) Embed(ctx context.Context, again bool) (int, error) {
	if !s.o.Embed {
		return 0, memory.ErrNoModel
	}
	a, err := s.within(ctx, maxEmbed, request{Op: "embed", Again: again})
	if err != nil {
		return 0, err
	}
	return a.Count, nil
}

// Rename gives the agent another name.
func (s *Store) Rename(ctx context.Context, to string) error {
	_, err := s.ask(ctx, request{Op: "rename", To: to})
	return err
}

// Knows tells whether the program has an agent of the name.
func (s *Store) Knows(ctx context.Context) (bool, error) {
	a, err := s.ask(ctx, request{Op: "knows"})
	return err == nil && a.Known, err
}

// Close ends the program.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		s.run.end(maxEnd)
		s.run = nil
	}
	return nil
}

func (s *Store) ask(ctx context.Context, r request) (*answer, error) {
	return s.within(ctx, s.o.Timeout, r)
}

// within begins the program where it does not run. One that has not answered within the
// limit is ended: what it would still say belongs to no request.
func (s *Store) within(ctx context.Context, limit time.Duration, r request) (*answer, error) {
	r.V, r.Agent, r.UUID = version, s.o.Agent, s.o.UUID
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.run != nil && s.run.over() {
		s.run.end(0)
		s.run = nil
	}
	if s.run == nil {
		if s.run, err = begin(ctx, s.o); err != nil {
			return nil, s.wrong(err)
		}
	}
	said, err := s.run.exchange(ctx, append(line, '\n'), limit)
	a := &answer{}
	if err == nil {
		err = read(said, a)
	}
	if err != nil {
		s.run.end(0)
		err = s.wrong(errors.Join(err, s.run.lastWords()))
		s.run = nil
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	for _, text := range a.Warnings {
		if s.o.Warn != nil {
			s.o.Warn(errors.New(s.run.line(text, 500)))
		}
	}
	a.Error, a.Fix = s.run.line(a.Error, 500), s.run.line(a.Fix, 500)
	return a, s.fault(a)
}

// read checks an answer.
func read(line []byte, a *answer) error {
	if err := json.Unmarshal(line, a); err != nil {
		return errors.New("its answer is no JSON of the protocol")
	}
	for i, e := range a.Entries {
		err := checkID(e.ID)
		if err == nil {
			err = e.Check()
		}
		if err != nil {
			return fmt.Errorf("entry %d of its answer: %w", i+1, err)
		}
	}
	return nil
}

func checkID(id string) error {
	if id == "" || len(id) > memory.MaxKey || schemas.Sentence(id, memory.MaxKey) != id {
		return fmt.Errorf("its id is %s: want a text of one line, of 1 to %d bytes", schemas.Quote(schemas.Sentence(id, 40)), memory.MaxKey)
	}
	return nil
}

// fault is the error that the program has answered with.
func (s *Store) fault(a *answer) error {
	if a.Error == "" && a.Code == "" {
		return nil
	}
	err := errors.New(a.Error)
	known := codes[a.Code]
	switch {
	case known != nil && s.o.In == "":
		return fmt.Errorf("%w: %w", known, err)
	case known != nil:
		return &coded{a.Error, known}
	case s.o.In == "":
		return s.wrong(err)
	case a.Fix != "":
		return &memory.Fault{In: s.o.In, Err: err, Fix: a.Fix}
	}
	return err
}

// coded is an error that has said itself which one it is.
type coded struct {
	text string
	is   error
}

func (e *coded) Error() string { return e.text }
func (e *coded) Unwrap() error { return e.is }

func (s *Store) wrong(err error) error {
	if s.o.In != "" {
		return &memory.Fault{In: s.o.In, Err: fmt.Errorf("%w: %w", ErrAdapter, err), Fix: "look whether it is of this mbox: mbox help memory tells how it is built"}
	}
	return fmt.Errorf("%w (agents.%s.memory.command): %w", ErrAdapter, s.o.Agent, err)
}

// program is a child that answers.
type program struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     io.Closer
	secrets []string
	lines   chan []byte // closed when it has closed its standard output, or said too much
	words   *schemas.Tail
	gone    chan struct{} // closed when it has ended
}

func begin(ctx context.Context, o Options) (*program, error) {
	cmd := exec.Command("/bin/sh", "-c", o.Command)
	cmd.Dir, cmd.SysProcAttr = o.Dir, &syscall.SysProcAttr{Setpgid: true}
	env, secrets, err := o.Env(ctx)
	if err != nil {
		return nil, err
	}
	cmd.Env = append([]string{}, env...)
	p := &program{cmd: cmd, secrets: secrets, words: &schemas.Tail{Most: maxWords}, lines: make(chan []byte), gone: make(chan struct{})}
	cmd.Stderr, cmd.WaitDelay = p.words, maxEnd
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.out = out
	go p.read(out)
	return p, nil
}

// read passes the program's lines on, one for each request, until it ends.
func (p *program) read(out io.Reader) {
	r := bufio.NewReader(out)
	for {
		line, err := readLine(r)
		if err != nil {
			break
		}
		p.lines <- line
	}
	close(p.lines)
	_, _ = io.Copy(io.Discard, out) // so that it is not held where it still writes
	_ = p.cmd.Wait()
	close(p.gone)
}

// readLine reads a line of at most maxAnswer.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxAnswer {
			return nil, errors.New("too long")
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// over tells whether it has ended by itself, or said what nobody has asked for: another
// one is begun then.
func (p *program) over() bool {
	select {
	case <-p.lines:
		return true
	default:
		return false
	}
}

// exchange writes a request and waits for its answer.
func (p *program) exchange(ctx context.Context, line []byte, limit time.Duration) ([]byte, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	wrote := make(chan error, 1)
	go func() {
		_, err := p.in.Write(line)
		wrote <- err
	}()
	for {
		select {
		case err := <-wrote:
			if err != nil {
				return nil, errors.New("it has ended")
			}
			wrote = nil
		case said, more := <-p.lines:
			if !more {
				return nil, fmt.Errorf("it has ended, or answered with more than %s", schemas.Size(maxAnswer))
			}
			return said, nil
		case <-timer.C:
			return nil, fmt.Errorf("it has not answered within %v", limit)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// end closes its standard input, and kills it, with what it has begun, if it has not ended
// after the grace.
func (p *program) end(grace time.Duration) {
	_ = p.in.Close()
	go func() {
		for range p.lines { // what nobody waits for any more
		}
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.gone:
	case <-timer.C:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		_ = p.out.Close() // what has left its group may hold the other end
		<-p.gone
	}
}

// lastWords is what it has said on standard error last; nil if nothing.
func (p *program) lastWords() error {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(p.words.String(), "")), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return errors.New(p.line(last, 200))
	}
	return nil
}

// line is what it says without its secrets, in a line.
func (p *program) line(text string, most int) string {
	for _, s := range p.secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "<redacted>")
		}
	}
	return schemas.Sentence(text, most)
}
