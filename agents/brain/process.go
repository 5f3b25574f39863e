package brain

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"mbox/agents/sandbox"
	"mbox/schemas"
)

// process is one run of a command.
type process struct {
	grace  time.Duration
	heard  func() // never called twice at once
	stdout head
	stderr schemas.Tail
	held   bool // somebody who could not be killed still holds stdout
}

// head keeps the beginning of a text, and calls stop when there is more.
type head struct {
	strings.Builder
	full bool
	stop func()
}

func (h *head) Write(p []byte) (int, error) {
	if h.full || h.Len()+len(p) > maxStdout {
		if !h.full {
			h.full = true
			h.stop()
		}
		return len(p), nil
	}
	return h.Builder.Write(p)
}

// run runs the command to its end, or to ctx's, and returns how it ended. When it
// returns, nothing that has come from it is left that could be killed.
func (p *process) run(ctx context.Context, make func(context.Context) (*exec.Cmd, error), prompt string) (syscall.WaitStatus, error) {
	cmd, err := make(ctx)
	if err != nil {
		return 0, err
	}
	streams, err := sandbox.Pipe(cmd)
	if err != nil {
		return 0, err
	}
	defer streams.Close()
	kept, err := sandbox.Start(cmd)
	streams.Started()
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p.stdout.stop = stop
	var readers sync.WaitGroup
	readers.Go(func() { p.read(&p.stdout, streams.Ours[1]) })
	readers.Go(func() { p.read(&p.stderr, streams.Ours[2]) })
	readers.Go(func() {
		_, _ = io.WriteString(streams.Ours[0], prompt) // a command need not read it
		streams.Ours[0].Close()
	})
	_ = kept.Begin() // else the keeper was killed, which the status tells
	select {
	case <-kept.Ended():
	case <-ctx.Done():
	}
	kept.End(context.WithoutCancel(ctx), p.grace)
	deadline := time.Now().Add(2 * time.Second)
	for _, f := range streams.Ours {
		_ = f.SetDeadline(deadline)
	}
	readers.Wait()
	return kept.Status()
}

// read ends with the last writer's end, or by the deadline.
func (p *process) read(to io.Writer, from *os.File) {
	_, err := io.Copy(to, sounding{from, p.heard})
	if to == &p.stdout {
		p.held = errors.Is(err, os.ErrDeadlineExceeded)
	}
}

// sounding calls heard for all that is read.
type sounding struct {
	io.Reader
	heard func()
}

func (s sounding) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if n > 0 {
		s.heard()
	}
	return n, err
}
