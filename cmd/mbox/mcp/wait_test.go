package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mbox/mailbox"
)

// Who waits is told at once when the task ends, and how it goes on until then.
func TestWaitEndsWithTask(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	var told atomic.Int32
	first := make(chan struct{}, 1)
	o := &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		if told.Add(1); r.Params.Message != "" {
			select {
			case first <- struct{}{}:
			default:
			}
		}
	}}
	server := as(box, "")
	server.beat = 20 * time.Millisecond
	p, coder := connect(t, server, o), connect(t, as(box, "coder"), nil)
	id := call[outcome](p, "send_task", args{"title": "x", "to": "coder"}).ID
	call[claimOutput](coder, "claim_task", nil)
	ended := make(chan *sdk.CallToolResult, 1)
	go func() {
		params := &sdk.CallToolParams{Name: "wait_for_task", Arguments: args{"id": id, "timeout_seconds": 60}}
		params.SetProgressToken("t")
		r, err := p.CallTool(t.Context(), params)
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	<-first
	begun := time.Now()
	call[stateOutput](coder, "complete_task", args{"id": id, "output": 1})
	r := <-ended
	if took := time.Since(begun); took > 5*time.Second || r == nil || r.IsError || told.Load() == 0 {
		t.Errorf("after %v %+v, told %d times", took, r, told.Load())
	}
}

// A wait that its client gives up ends at once, and one that is over tells how far it is.
func TestWaitIsBounded(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	p := connect(t, as(box, "coder"), nil)
	id := call[outcome](p, "send_task", args{"title": "x", "to": "tester"}).ID
	begun := time.Now()
	if w := call[outcome](p, "wait_for_task", args{"id": id, "timeout_seconds": 1}); w.Ended || time.Since(begun) < time.Second {
		t.Errorf("after %v %+v", time.Since(begun), w)
	}
	for tool, a := range map[string]args{"wait_for_task": {"id": id, "timeout_seconds": 300}, "claim_task": {"wait_seconds": 300}} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		begun := time.Now()
		_, err := p.raw(ctx, tool, a)
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
			t.Errorf("%s: %v after %v", tool, err, took)
		}
		cancel()
	}
	// The server is free of it: a claim under the same key waits for nobody.
	begun = time.Now()
	p.refuse("claim_task", args{}, "nothing to claim")
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the claim that was given up is still in the way after %v", took)
	}
}

// A claim whose client is gone before it is told is given back.
func TestClaimOfNobodyIsGivenBack(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	s := as(box, "coder")
	p := connect(t, s, nil)
	call[outcome](p, "send_task", args{"title": "x", "to": "coder"})
	claim, err := s.take(t.Context(), claimInput{})
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.hand(gone, s.claims.under(""), claim); !errors.Is(err, context.Canceled) {
		t.Errorf("handed to nobody: %v", err)
	}
	if again := call[claimOutput](p, "claim_task", nil); again.Again {
		t.Error("the claim was kept")
	}
}

// stdio is a server in a process of its own.
func stdio(home, agent string) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), homeVariable+"="+home, agentVariable+"="+agent)
	c.Stderr = os.Stderr
	return c
}

// Over stdin and stdout, with the server killed between the claim and the result: the
// client that shows the token goes on.
func TestStdioRestarted(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	first := stdio(box.Home(), "coder")
	p := dial(t, &sdk.CommandTransport{Command: first}, nil)
	id := call[outcome](p, "send_task", args{"title": "x", "to": "coder"}).ID
	token := call[claimOutput](p, "claim_task", nil).Token
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.Close()

	second := stdio(box.Home(), "coder")
	p = dial(t, &sdk.CommandTransport{Command: second}, nil)
	p.refuse("complete_task", args{"id": id, "output": "x"}, "has not claimed it")
	if s := call[stateOutput](p, "complete_task", args{"id": id, "output": "x", "token": token}); s.State != mailbox.Completed {
		t.Errorf("completed %+v", s)
	}
	if p.Close(); !second.ProcessState.Success() {
		t.Errorf("the server ended with %v", second.ProcessState)
	}
}

// The server ends with its stdin: who still waits is told how far the task is.
func TestStdioEndsWithItsClient(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	task := new(mailbox.Task)
	task.Task.Title = "x"
	id, err := box.Submit(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	c := stdio(box.Home(), "")
	to, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	from, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(to, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait_for_task","arguments":{"id":%q,"timeout_seconds":300},"_meta":{"progressToken":"t","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`+"\n", id)
	said := bufio.NewScanner(from)
	if !said.Scan() || !strings.Contains(said.Text(), "notifications/progress") {
		t.Fatalf("it says %s, %v", said.Bytes(), said.Err())
	}
	begun := time.Now()
	to.Close()
	stuck := time.AfterFunc(time.Minute, func() { c.Process.Kill() })
	defer stuck.Stop()
	var last string
	for said.Scan() {
		last = said.Text()
	}
	if err := c.Wait(); err != nil || time.Since(begun) > 10*time.Second || !strings.Contains(last, `"ended":false`) {
		t.Errorf("the server ended after %v: %v, with %s", time.Since(begun), err, last)
	}
}
