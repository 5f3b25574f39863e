package imsg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
	"mbox/agents/sandbox"
	"mbox/schemas"
)

const (
	maxLine   = 4 << 20 // bytes of a line
	maxStderr = 2 << 10 // bytes that are remembered
	grace     = 300 * time.Millisecond
)

// environment is what a child gets of the bridge's: no secret is in it.
var environment = []string{"HOME", "PATH", "USER", "LOGNAME", "TMPDIR", "LANG"}

// A child is a running imsg. It is for one goroutine.
type child struct {
	process *sandbox.Process
	in, out *os.File
	lines   *bufio.Reader
	stderr  schemas.Tail
	reading sync.WaitGroup
	calls   int
	early   []frame // notifications that came before an answer
}

// frame is a line: an answer, or a notification.
type frame struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  *fault         `json:"error"`
}

// fault is an error that imsg answers.
type fault struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data"`
}

func (f *fault) Error() string {
	return fmt.Sprintf("imsg: %s (%d): %s", chat.OneLine(f.Message), f.Code, chat.OneLine(string(f.Data)))
}

// Is makes an error of the settings of a program that is not imsg, or may not read.
func (f *fault) Is(target error) bool {
	return target == chat.ErrSetup && (f.Code == codeMethod || f.Code == codeDatabase)
}

// start starts the command, with all that comes from it in the hands of a keeper.
func start(ctx context.Context, command []string) (*child, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec // the bridge's table names it
	if cmd.Err != nil {
		return nil, fmt.Errorf("command: %w: %w", cmd.Err, chat.ErrSetup)
	}
	cmd.Env = []string{}
	for _, name := range environment {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	streams, err := sandbox.Pipe(cmd)
	if err != nil {
		return nil, err
	}
	defer streams.Started()
	process, err := sandbox.Start(cmd)
	if err != nil {
		streams.Close()
		return nil, err
	}
	in, out, words := streams.Ours[0], streams.Ours[1], streams.Ours[2]
	c := &child{process: process, in: in, out: out, lines: bufio.NewReader(out), stderr: schemas.Tail{Most: maxStderr}}
	c.reading.Go(func() {
		_, _ = io.Copy(&c.stderr, words)
		words.Close()
	})
	c.reading.Go(func() {
		<-process.Ended() // somebody else may hold its streams open
		_ = c.out.SetReadDeadline(time.Now().Add(grace))
		_ = words.SetReadDeadline(time.Now().Add(grace))
	})
	if err := process.Begin(); err != nil {
		c.end(ctx)
		return nil, err
	}
	return c, nil
}

// end lets the child end by itself, as it does when nothing more can come, and then
// ends it and all that has come from it; at once where the context has ended.
func (c *child) end(ctx context.Context) {
	c.in.Close()
	select {
	case <-c.process.Gone():
	case <-ctx.Done():
	case <-time.After(grace):
	}
	c.process.End(context.WithoutCancel(ctx), grace)
	c.reading.Wait()
	c.out.Close()
}

// call asks the child, and reads its answer into out, unless that is nil.
func (c *child) call(ctx context.Context, method string, params, out any) error {
	c.calls++
	id := strconv.Itoa(c.calls)
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.calls, "method": method, "params": params})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.in.SetWriteDeadline(time.Unix(1, 0)) })
	_, err = c.in.Write(append(text, '\n'))
	stop()
	if err != nil {
		return c.fails(ctx, err)
	}
	for {
		f, err := c.read(ctx)
		switch {
		case err != nil:
			return err
		case string(f.ID) != id:
			if f.Method != "" && len(c.early) < 1000 {
				c.early = append(c.early, f)
			}
		case f.Error != nil:
			return f.Error
		case out == nil:
			return nil
		default:
			if err := json.Unmarshal(f.Result, out); err != nil {
				return fmt.Errorf("imsg: what it answers is none: %s", chat.OneLine(err.Error()))
			}
			return nil
		}
	}
}

// next waits for a notification.
func (c *child) next(ctx context.Context) (frame, error) {
	if len(c.early) > 0 {
		f := c.early[0]
		c.early = slices.Delete(c.early, 0, 1)
		return f, nil
	}
	return c.read(ctx)
}

// read reads a line.
func (c *child) read(ctx context.Context) (f frame, err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.out.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var line []byte
	for {
		part, err := c.lines.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return f, c.fails(ctx, err)
		}
		if len(line) > maxLine {
			return f, fmt.Errorf("imsg: a line of more than %d bytes", maxLine)
		}
	}
	if err := json.Unmarshal(line, &f); err != nil {
		return f, &chat.WordsError{Err: errors.New("imsg: it writes what is no JSON-RPC"), Words: fmt.Sprintf("%.60s", chat.OneLine(string(line[:min(len(line), 200)])))}
	}
	return f, nil
}

// fails tells why the child says nothing more.
func (c *child) fails(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("imsg: no answer: %w", ctx.Err())
	}
	select {
	case <-c.process.Ended():
		c.reading.Wait() // its last words, for as long as it is given
		status, why := c.process.Status()
		if why == nil {
			why = fmt.Errorf("status %d", status.ExitStatus())
		}
		return &chat.WordsError{Err: fmt.Errorf("imsg: it has ended: %w", why), Words: c.words()}
	case <-time.After(grace):
		return &chat.WordsError{Err: fmt.Errorf("imsg: %w", err), Words: c.words()}
	}
}

// words are the last that it wrote on standard error.
func (c *child) words() string {
	text := c.stderr.String()
	return chat.OneLine(text[max(0, len(text)-200):])
}
