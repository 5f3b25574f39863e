package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// keep has a daemon run, and starts it again when it was killed.
func (c *crowd) keep(kind string, args ...string) {
	for c.goesOn() {
		var said bytes.Buffer
		g := c.board(kind, nil, &said, args...)
		if g == nil {
			return
		}
		stop := make(chan struct{})
		go func() {
			select {
			case <-c.over:
				_ = g.cmd.Process.Signal(syscall.SIGTERM)
			case <-stop:
			}
		}()
		code := c.leave(g)
		close(stop)
		if code != -1 && c.goesOn() {
			c.Errorf("mbox %q ended by itself, exit code %d:\n%s", args, code, said.Bytes())
		}
	}
}

// sender sends one task after the other, each until it is acknowledged. Sent
// again it is the same task: its id or its key says so.
func (c *crowd) sender() {
	for c.goesOn() {
		n := int(c.given.Add(1))
		if n > c.tasks {
			return
		}
		args := []string{"send", fmt.Sprintf("task %d", n), "--to", []string{"hand", "worker", "any"}[n%3]}
		if n%2 == 0 {
			args = append(args, "--id", fmt.Sprintf("own-%d", n))
		} else {
			args = append(args, "--key", fmt.Sprintf("key-%d", n))
		}
		c.send(args...)
	}
}

func (c *crowd) send(args ...string) {
	for c.goesOn() {
		if code, out := c.say(nil, args...); code == 0 {
			c.acknowledge("sent", string(bytes.TrimSpace(out)), "")
			return
		}
	}
}

// hand is an agent of one-shot commands: claim, do, complete.
func (c *crowd) hand() {
	for c.goesOn() {
		c.once("hand")
	}
}

// once does the next task, if there is one.
func (c *crowd) once(agent string) {
	if h := c.take(agent); h != nil {
		c.do(h)
	}
}

// holding is a task that was claimed by a one-shot command.
type holding struct {
	id, token string
	since     time.Time // before the claim was asked for
}

func (c *crowd) take(agent string) *holding {
	h := &holding{since: time.Now()}
	code, out := c.say([]int{exitConflict}, "claim", "--agent", agent, "--json", "--wait", "200ms")
	if code != 0 {
		return nil
	}
	var task struct {
		ID   string
		Mbox struct{ Lease struct{ Token string } }
	}
	if err := json.Unmarshal(out, &task); err != nil || task.ID == "" || task.Mbox.Lease.Token == "" {
		c.Errorf("claim printed %q: %v", out, err)
		return nil
	}
	h.id, h.token = task.ID, task.Mbox.Lease.Token
	return h
}

// do executes what is claimed, and says complete until it hears an answer.
func (c *crowd) do(h *holding) {
	cmd := exec.Command(filepath.Join(c.dir, "work"))
	cmd.Env = c.env("MBOX_TASK_ID="+h.id, "MBOX_TOKEN="+h.token)
	out, err := cmd.Output()
	if err != nil {
		c.Error(err)
		return
	}
	output := string(bytes.TrimSpace(out))
	for {
		code, _ := c.say([]int{exitStale}, "complete", h.id, "--token", h.token, "--output", output)
		switch {
		case code == 0:
			c.acknowledge("completed", h.id, output)
		case code == exitStale:
			if held := time.Since(h.since); held < c.lease {
				c.Errorf("a result for %s was refused %v after its claim was asked for; the lease is %v", h.id, held, c.lease)
			}
			c.acknowledge("refused", h.id, output)
		case c.Failed():
		default:
			continue
		}
		return
	}
}

// prove has the home verified while the storm goes on.
func (c *crowd) prove() {
	for c.pause(time.Second) && !c.Failed() {
		c.say(nil, "verify")
	}
}
