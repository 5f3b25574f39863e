// Package acp has tasks done by programs that speak the Agent Client Protocol
// (https://agentclientprotocol.com, version 1) on stdin and stdout: Claude Code,
// Codex, Gemini CLI and others, by one client.
//
// One attempt is one program and one session in it: initialize, session/new with the
// agent's workspace as its folder, session/prompt with the task. The program runs
// confined as any command of an agent, and what it asks its client for goes through
// the agent's policy: files as by read_file and write_file, a terminal's command as
// allowed_commands say. session/request_permission is a question to a person, see
// [agents.Permission]: the session ends, and the next attempt has the answer. The
// last message is the result, with the files that were changed.
//
// Nothing that comes from the program is trusted: frames, requests at once and their
// bytes, texts, terminals and their output are bounded, unknown methods are refused,
// and what is no JSON is dropped. A program that asks and does not read its answers
// stops being read, and no write to it is waited for longer than the session lasts.
// The library logs nothing, since it would log frames.
package acp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"mbox/agents"
	"mbox/schemas"
)

// Agent is a program that speaks the protocol.
type Agent struct {
	Command string        // for /bin/sh -c
	Start   time.Duration // longest wait for initialize and session/new each; 0: a minute
}

// Here is true: the program runs in the agent's workspace.
func (*Agent) Here() bool { return true }

// startTime is how long a program may take to be ready: some are fetched first.
const startTime = time.Minute

// cancelTime is how long a session that was cancelled may take to say so.
const cancelTime = time.Second

// restTime is how long what a program has written before it ended may take to be
// read.
const restTime = 500 * time.Millisecond

// lateTime is how long all that it has left may take to end, and to be read.
const lateTime = 5 * time.Second

// Work has the program do a task.
func (g *Agent) Work(outer context.Context, j *agents.Job) agents.Done {
	stdin, to, err := os.Pipe()
	if err != nil {
		return agents.Failed("start", "%v", err)
	}
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	frames := newFrames(j.Heard)
	p, err := j.Start(g.Command, stdin, frames)
	stdin.Close()
	if err != nil {
		to.Close()
		return agents.Failed("start", "%v", err)
	}
	s := &session{job: j, frames: frames, calls: map[string]*call{}, terminals: map[string]*terminal{}, stop: cancel}
	s.conn = sdk.NewConnection(s.handle, &replies{to, frames}, frames)
	s.conn.SetLogger(slog.New(slog.DiscardHandler))
	frames.open()
	talked := make(chan struct{})
	go func() {
		s.attend(p, talked)
		cancel()
	}()
	err = s.talk(ctx, g.Start)
	close(talked)
	frames.end(errors.New("the session is over"))
	to.Close()
	p.Close()
	s.close()
	return s.done(outer, p, frames, err)
}

// attend waits for the program's end, and tells the session, if that is not over.
func (s *session) attend(p *agents.Program, talked <-chan struct{}) {
	over := errors.New("the program has ended")
	<-p.Ended()
	late := time.NewTimer(lateTime)
	defer late.Stop()
	select {
	case <-p.Over():
	case <-late.C: // what it asked for before holds up the reading of what it wrote
		s.died.Store(true)
		s.frames.end(over)
		return
	}
	rest := time.NewTimer(restTime) // the library may prefer the end to an answer that came before it
	defer rest.Stop()
	select {
	case <-talked:
	case <-rest.C:
		s.died.Store(true)
	}
	s.frames.end(over)
}

// session is one session of a program.
type session struct {
	job    *agents.Job
	frames *frames
	conn   *sdk.Connection
	id     sdk.SessionId
	stop   func() // ends the talk

	mu        sync.Mutex
	calls     map[string]*call // tool calls that are not over, by their ids
	order     []string         // of the calls, the oldest first
	kept      int              // bytes of what is known of them
	text      strings.Builder  // since the last tool call
	said      string           // the last text that is not empty
	files     []string         // that were changed
	terminals map[string]*terminal
	wish      *agents.Wish
	reason    sdk.StopReason
	created   int // terminals
	starting  int // of them
	closed    bool

	working sync.WaitGroup // handlers; none begins once it is closed
	died    atomic.Bool    // the program, before the talk was over
}

// talk has the conversation, to its end.
func (s *session) talk(ctx context.Context, start time.Duration) error {
	if start == 0 {
		start = startTime
	}
	hello, err := ask[sdk.InitializeResponse](ctx, s, start, sdk.AgentMethodInitialize, sdk.InitializeRequest{
		ProtocolVersion: sdk.ProtocolVersionNumber,
		ClientInfo:      &sdk.Implementation{Name: "mbox", Version: "1"},
		ClientCapabilities: sdk.ClientCapabilities{
			Fs: sdk.FileSystemCapabilities{ReadTextFile: true, WriteTextFile: true}, Terminal: true,
		},
	})
	if err != nil {
		return err
	}
	if hello.ProtocolVersion != sdk.ProtocolVersionNumber {
		return &fault{"acp_version", "the program speaks another version of the protocol than 1", true}
	}
	made, err := ask[sdk.NewSessionResponse](ctx, s, start, sdk.AgentMethodSessionNew, sdk.NewSessionRequest{
		Cwd: s.job.Workspace, McpServers: []sdk.McpServer{},
	})
	if err != nil {
		return err
	}
	s.id = made.SessionId
	return s.prompt(ctx)
}

// ask sends a request that has to be answered in time.
func ask[T any](ctx context.Context, s *session, most time.Duration, method string, params any) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, most, &fault{"acp_start", method + " was not answered in " + most.String(), false})
	defer cancel()
	select {
	case a := <-send[T](ctx, s, method, params):
		var late *fault
		if a.err != nil && errors.As(context.Cause(ctx), &late) {
			return a.value, late
		}
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// reply is what came of a request.
type reply[T any] struct {
	value T
	err   error
}

// send sends a request, whose answer comes by the channel. Nobody waits for it to be
// written: a program that does not read is found out by who waits for the answer, and
// what is still to be written then ends with the pipe.
func send[T any](ctx context.Context, s *session, method string, params any) <-chan reply[T] {
	replies := make(chan reply[T], 1)
	go func() {
		value, err := sdk.SendRequest[T](s.conn, ctx, method, params)
		replies <- reply[T]{value, err}
	}()
	return replies
}

// prompt hands the task over and waits for the end of the turn. A session that is to
// end is cancelled first, and gets a moment to say so.
func (s *session) prompt(ctx context.Context) error {
	over, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	answers := send[sdk.PromptResponse](over, s, sdk.AgentMethodSessionPrompt, sdk.PromptRequest{
		SessionId: s.id, Prompt: []sdk.ContentBlock{sdk.TextBlock(s.job.Prompt)},
	})
	select {
	case a := <-answers:
		s.reason = a.value.StopReason
		return a.err
	case <-ctx.Done():
	}
	go func() { // a program that does not read must not hold this up
		_ = s.conn.SendNotification(over, sdk.AgentMethodSessionCancel, sdk.CancelNotification{SessionId: s.id})
	}()
	moment := time.NewTimer(cancelTime)
	defer moment.Stop()
	select {
	case a := <-answers: // it may have been answered just then
		if a.err == nil && a.value.StopReason != sdk.StopReasonCancelled {
			s.reason = a.value.StopReason
			return nil
		}
	case <-moment.C:
	case <-s.conn.Done():
	}
	return ctx.Err()
}

// fault is why a talk did not come to its end.
type fault struct {
	code, text string
	final      bool
}

func (f *fault) Error() string { return f.text }

// result is what a session leaves.
type result struct {
	Answer string   `json:"answer"`
	Files  []string `json:"files,omitempty"` // that were changed, from the workspace where they are in it
}

// done is what came of the talk.
func (s *session) done(ctx context.Context, p *agents.Program, frames *frames, err error) agents.Done {
	s.mu.Lock()
	defer s.mu.Unlock()
	var known *fault
	var said *sdk.RequestError
	switch {
	case s.wish != nil:
		return agents.Done{Wish: s.wish}
	case err == nil:
		return s.turned()
	case errors.As(err, &known):
		d := agents.Failed(known.code, "%s", known.text)
		d.Final = known.final
		return d
	case frames.broken() != nil:
		return agents.Failed("acp_garbage", "%v", frames.broken())
	}
	if d, stopped := agents.TimedOut(ctx); stopped {
		return d
	}
	switch {
	case s.died.Load():
		return died(p)
	case errors.As(err, &said) && said.Code == loginNeeded:
		return agents.Failed("acp_login", "the program wants somebody to log in: run it by hand once, as this user")
	case errors.As(err, &said):
		return agents.Failed("acp_error", "the program answers: %s", words(said))
	}
	return agents.Failed("acp_error", "%v", err)
}

// loginNeeded is the protocol's code for a program that nobody has logged in to.
const loginNeeded = -32000

// died is the end of a program that ended before its turn.
func died(p *agents.Program) agents.Done {
	switch code, signal, err := p.Exit(); {
	case err != nil:
		return agents.Failed("start", "%v", err)
	case signal != "":
		return agents.Failed("signal", "the program was ended before its turn was over: %s", signal)
	default:
		return agents.Failed("exit", "the program ended before its turn was over: exit status %d", code)
	}
}

// turned is what the end of the turn means.
func (s *session) turned() agents.Done {
	if s.text.Len() > 0 {
		s.said = s.text.String()
	}
	var d agents.Done
	switch s.reason {
	case sdk.StopReasonEndTurn:
	case sdk.StopReasonRefusal:
		d = agents.Failed("acp_refusal", "the agent refuses the task")
	case sdk.StopReasonMaxTokens, sdk.StopReasonMaxTurnRequests:
		d = agents.Failed("acp_limit", "the agent ran into its limit, %s", schemas.Sentence(string(s.reason), 40))
	default:
		d = agents.Failed("acp_stop", "the agent stopped: %s", schemas.Sentence(string(s.reason), 40))
	}
	if d.Code != "" {
		d.Said = s.said
		return d
	}
	output, err := schemas.Encode(result{s.said, s.files})
	if err != nil {
		return agents.Failed("acp_result", "%v", err)
	}
	return agents.Done{Output: output}
}

// words are what an error of the program says, cut.
func words(e *sdk.RequestError) string {
	text := e.Message
	if e.Data != nil {
		if data, err := json.Marshal(e.Data); err == nil {
			text += " " + string(data)
		}
	}
	return text
}
