package acp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	sdk "github.com/coder/acp-go-sdk"

	"mbox/agents"
	"mbox/schemas"
)

// Bounds of terminals.
const (
	maxTerminals = 8         // at once
	maxScreen    = 512 << 10 // bytes of its output
	maxLine      = 64 << 10  // bytes
)

// terminal is a command that the program has mbox run.
type terminal struct {
	run *agents.Program

	mu   sync.Mutex
	keep int // bytes of output, the last ones
	out  []byte
	cut  bool
}

// Write takes what the command writes, from both its streams.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out = append(t.out, p...)
	if len(t.out) > 2*t.keep {
		t.trim()
	}
	return len(p), nil
}

func (t *terminal) trim() {
	if over := len(t.out) - t.keep; over > 0 {
		t.out, t.cut = append([]byte(nil), t.out[over:]...), true
	}
}

// screen is the output so far.
func (t *terminal) screen() (text string, cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trim()
	out := t.out
	for t.cut && len(out) > 0 && !utf8.RuneStart(out[0]) {
		out = out[1:]
	}
	return strings.ToValidUTF8(string(out), "\uFFFD"), t.cut
}

// commandLine is a request as a line for a shell, which is what the policy judges.
// Without arguments the command is such a line already.
func commandLine(r sdk.CreateTerminalRequest, workspace string) (string, error) {
	var words []string
	for _, v := range r.Env {
		if !isName(v.Name) {
			return "", fmt.Errorf("%s is no name of a variable", schemas.Quote(v.Name))
		}
		words = append(words, v.Name+"="+quote(v.Value))
	}
	if len(r.Args) == 0 {
		if len(words) > 0 {
			words = append(words, "sh", "-c", quote(r.Command))
		} else {
			words = append(words, r.Command)
		}
	} else {
		words = append(words, quote(r.Command))
	}
	for _, arg := range r.Args {
		words = append(words, quote(arg))
	}
	line := strings.Join(words, " ")
	if r.Cwd != nil && *r.Cwd != "" && *r.Cwd != workspace {
		line = "cd " + quote(*r.Cwd) + " && " + line
	}
	if len(line) > maxLine || strings.ContainsRune(line, 0) {
		return "", errors.New("a command that is too long, or has a NUL")
	}
	return line, nil
}

func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

func isName(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == "" && (name[0] < '0' || name[0] > '9')
}

// createTerminal runs a command that the agent's policy allows.
func (s *session) createTerminal(r sdk.CreateTerminalRequest) (any, error) {
	made, err := s.startTerminal(r)
	if err != nil {
		return nil, s.wants(err)
	}
	return made, nil
}

func (s *session) startTerminal(r sdk.CreateTerminalRequest) (any, error) {
	line, err := commandLine(r, s.job.Workspace)
	if err != nil {
		return nil, err
	}
	t := &terminal{keep: maxScreen}
	if r.OutputByteLimit != nil {
		t.keep = min(max(*r.OutputByteLimit, 1), maxScreen)
	}
	if !s.begins() {
		return nil, errors.New("there are too many terminals: release one")
	}
	t.run, err = s.job.Run(line, t)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting--
	if err != nil {
		return nil, err
	}
	s.created++
	id := "t" + strconv.Itoa(s.created)
	s.terminals[id] = t
	return sdk.CreateTerminalResponse{TerminalId: id}, nil
}

// begins tells whether there is room for one more terminal, and takes it.
func (s *session) begins() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.terminals)+s.starting >= maxTerminals {
		return false
	}
	s.starting++
	return true
}

func (s *session) terminal(id string) (*terminal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.terminals[id]; t != nil {
		return t, nil
	}
	return nil, errors.New("there is no such terminal")
}

// exit is how a terminal's command ended; nil while it runs.
func (t *terminal) exit() *sdk.TerminalExitStatus {
	select {
	case <-t.run.Over():
	default:
		return nil
	}
	code, signal, err := t.run.Exit()
	switch {
	case err != nil:
		return &sdk.TerminalExitStatus{ExitCode: sdk.Ptr(126)}
	case signal != "":
		return &sdk.TerminalExitStatus{Signal: sdk.Ptr(signal)}
	}
	return &sdk.TerminalExitStatus{ExitCode: sdk.Ptr(code)}
}

func (s *session) terminalOutput(r sdk.TerminalOutputRequest) (any, error) {
	t, err := s.terminal(r.TerminalId)
	if err != nil {
		return nil, err
	}
	status := t.exit()
	text, cut := t.screen()
	return sdk.TerminalOutputResponse{Output: text, Truncated: cut, ExitStatus: status}, nil
}

func (s *session) waitForTerminal(ctx context.Context, r sdk.WaitForTerminalExitRequest) (any, error) {
	t, err := s.terminal(r.TerminalId)
	if err != nil {
		return nil, err
	}
	select {
	case <-t.run.Over():
	case <-ctx.Done():
		return nil, errors.New("the session ends")
	}
	e := t.exit()
	return sdk.WaitForTerminalExitResponse{ExitCode: e.ExitCode, Signal: e.Signal}, nil
}

// killTerminal ends a terminal's command, and forgets the terminal if it is released.
func (s *session) killTerminal(id string, release bool) error {
	t, err := s.terminal(id)
	if err != nil {
		return err
	}
	t.run.Close()
	if release {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.terminals, id)
	}
	return nil
}

// close ends what is being done for the program, and all terminals at once.
func (s *session) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end() // else who waits for one would be waited for
	s.working.Wait()
	s.end() // what was still being started
}

func (s *session) end() {
	s.mu.Lock()
	all := s.terminals
	s.terminals = map[string]*terminal{}
	s.mu.Unlock()
	var ending sync.WaitGroup
	for _, t := range all {
		ending.Go(t.run.Close)
	}
	ending.Wait()
}
