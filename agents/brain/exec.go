package brain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"mbox/agents"
	"mbox/schemas"
)

// Exec thinks with a command, such as claude -p. It gets the prompt on its
// standard input, as text, and answers on its standard output; exit 0 means that
// the reply is whole. Exit 75 means that it is busy, for as long as a line
// mbox:delay DURATION on standard error says.
//
// Nothing that comes from it outlives the thought: what it leaves gets SIGTERM, and
// SIGKILL after the grace, also what has left its process group or session.
type Exec struct {
	o     Options
	turns turns
	rest  rest
}

const (
	exitBusy     = 75 // EX_TEMPFAIL
	maxStdout    = 1 << 20
	maxStderr    = 4 << 10 // of its end
	defaultGrace = 2 * time.Second
	noLimit      = 1 << 30
)

// NewExec makes a brain. It runs nothing.
func NewExec(o Options) (*Exec, error) {
	err := o.check(KindExec)
	if strings.TrimSpace(o.Command) == "" {
		err = errors.Join(err, errors.New("command is missing"))
	}
	for _, text := range append([]string{o.Command, o.Dir}, o.Env...) {
		if strings.ContainsRune(text, 0) {
			err = errors.Join(err, errors.New("command, dir and env cannot hold NUL"))
			break
		}
	}
	for _, variable := range o.Env {
		if i := strings.IndexByte(variable, '='); i <= 0 { // its value may be secret
			err = errors.Join(err, errors.New("env has an entry that is not NAME=VALUE"))
			break
		}
	}
	if o.Parallel == 0 {
		o.Parallel = noLimit
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	return &Exec{o: o}, err
}

// Ready implements agents.Brain. It runs nothing: it knows of the time that the
// command asked for, and of the folder.
func (e *Exec) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.rest.now(time.Now()); err != nil {
		return err
	}
	if e.turns.full(e.o.Parallel) {
		return &agents.BrainError{Fault: agents.BrainBusy, Text: "the command is thinking for others", Delay: time.Second}
	}
	if info, err := os.Stat(e.o.Dir); e.o.Dir != "" && (err != nil || !info.IsDir()) {
		return &agents.BrainError{
			Fault: agents.BrainDown, Text: "the command's folder is not there: " + line(e.o.Dir),
			Hint: "mbox up and mbox worker make it when they start",
		}
	}
	return nil
}

// Think implements agents.Brain. When ctx ends the command gets SIGTERM, and
// SIGKILL after the grace.
func (e *Exec) Think(ctx context.Context, t agents.Thought) (agents.Reply, error) {
	if err := asks(t); err != nil {
		return agents.Reply{}, err
	}
	giveBack, err := e.turns.take(ctx, e.o.Parallel)
	if err != nil {
		return agents.Reply{}, err
	}
	defer giveBack()
	begun := time.Now()
	var one sync.Mutex // standard output and error are read at the same time
	p := &process{grace: e.o.Grace, stderr: schemas.Tail{Most: maxStderr}, heard: func() {
		one.Lock()
		defer one.Unlock()
		heard(t)
	}}
	status, err := p.run(ctx, e.cmd, prompt(t))
	if ctx.Err() != nil {
		return agents.Reply{}, ctx.Err()
	}
	if fault := p.fault(status, err); fault != nil {
		if fault.Fault == agents.BrainBusy {
			fault.Delay = e.rest.begin(time.Now(), fault)
		}
		return agents.Reply{}, fault
	}
	e.rest.end()
	return whole(agents.Reply{Text: p.stdout.String(), Model: KindExec, Took: time.Since(begun)})
}

// cmd has an environment even if it is empty: exec would take nil for mbox's own.
func (e *Exec) cmd(ctx context.Context) (*exec.Cmd, error) {
	cmd := exec.Command("/bin/sh", "-c", e.o.Command)
	cmd.Dir, cmd.Env = e.o.Dir, append([]string{}, e.o.Env...)
	if e.o.Unlock != nil {
		secrets, err := e.o.Unlock(ctx)
		if err != nil {
			return nil, err
		}
		cmd.Env = append(cmd.Env, secrets...) // of two of a name the last counts
	}
	if e.o.Wrap == nil {
		return cmd, nil
	}
	return cmd, e.o.Wrap(cmd)
}

// prompt is a thought as text: what the system says, the conversation, and the
// schema, which a command can be told in no other way. A conversation of one
// message is that message; of more, each is headed by who says it.
func prompt(t agents.Thought) string {
	var system, said []agents.Message
	for _, m := range t.Messages {
		if m.Role == "system" {
			system = append(system, m)
		} else {
			said = append(said, m)
		}
	}
	var parts []string
	for _, m := range system {
		parts = append(parts, m.Content)
	}
	for _, m := range said {
		if len(said) > 1 {
			parts = append(parts, "["+m.Role+"]\n"+m.Content)
		} else {
			parts = append(parts, m.Content)
		}
	}
	if t.Schema != nil {
		parts = append(parts, "Answer with one JSON document that fits this JSON Schema, and with nothing else:\n"+string(t.Schema))
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// fault tells what the command's end means, or why it did not start.
func (p *process) fault(status syscall.WaitStatus, err error) *agents.BrainError {
	words := p.words()
	switch {
	case p.stdout.full:
		return &agents.BrainError{Fault: agents.ReplyTooLong, Text: fmt.Sprintf("the command wrote more than %d bytes", maxStdout)}
	case err != nil:
		return &agents.BrainError{Fault: agents.BrainCommand, Text: "the command cannot be run: " + line(err.Error())}
	case status == 0 && p.held:
		return cut("the command's end left a process behind that holds its standard output")
	case status == 0:
		return nil
	case status.Signaled():
		return &agents.BrainError{Fault: agents.BrainCommand, Text: fmt.Sprintf("the command was ended by signal %d%s", status.Signal(), words)}
	case status.ExitStatus() == exitBusy:
		return &agents.BrainError{Fault: agents.BrainBusy, Text: "the command is busy" + words, Delay: p.delay()}
	}
	return &agents.BrainError{Fault: agents.BrainCommand, Text: fmt.Sprintf("the command ended with exit code %d%s", status.ExitStatus(), words)}
}

const delayMark = "mbox:delay "

// words are the last ones on standard error that are not for mbox.
func (p *process) words() string {
	var last string
	for text := range strings.Lines(p.stderr.String()) {
		if text = strings.TrimSpace(text); text != "" && !strings.HasPrefix(text, delayMark) {
			last = text
		}
	}
	if last == "" {
		return ""
	}
	return ": " + line(last)
}

// delay is what the command asks for, 0 if it does not.
func (p *process) delay() (d time.Duration) {
	for text := range strings.Lines(p.stderr.String()) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(text), delayMark); ok {
			d, _ = time.ParseDuration(strings.TrimSpace(value)) // nonsense is no wish
		}
	}
	return max(d, 0)
}
