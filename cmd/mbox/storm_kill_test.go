package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// some picks a process of a random kind.
func (c *crowd) some(kinds ...string) *target {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind := kinds[c.random.IntN(len(kinds))]
	var of []*target
	for g := range c.targets {
		if g.kind == kind {
			of = append(of, g)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return of[c.random.IntN(len(of))]
}

// draw is a random part of the time, or number, that it is given.
func (c *crowd) draw(below time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.random.Int64N(int64(below)))
}

// killer kills one process after the other.
func (c *crowd) killer() {
	for c.pause(c.killAfter+c.draw(c.killBefore-c.killAfter)) && !c.Failed() {
		if g := c.some("worker", "worker", "command", "command", "router"); g != nil {
			_ = g.cmd.Process.Kill() // it may just have ended; leave counts
		}
	}
}

// slowness is how long a slow process stands still at most.
const slowness = 500 * time.Millisecond

// stopper stops processes for a moment, as a machine does that has too much to
// do, and now and then a worker for longer than its lease lasts.
func (c *crowd) stopper() {
	for c.pause(c.draw(slowness)) && !c.Failed() {
		long := c.draw(8) == 0
		g := c.some("worker", "command", "router")
		if long {
			g = c.some("worker")
		}
		if g == nil || g.cmd.Process.Signal(syscall.SIGSTOP) != nil {
			continue
		}
		c.mu.Lock()
		if long {
			c.hung++
		} else {
			c.slowed++
		}
		c.mu.Unlock()
		if long {
			c.pause(c.lease + slowness)
		} else {
			c.pause(c.draw(slowness))
		}
		_ = g.cmd.Process.Signal(syscall.SIGCONT) // it may have been killed
	}
}

// lateOnes sends tasks whose agent is stopped after its work until its lease is
// over. Its result comes late: while somebody else works on the task, or after
// the other has completed it.
func (c *crowd) lateOnes() {
	for n := 1; n <= c.late && c.goesOn(); n++ {
		id := fmt.Sprintf("late-%d", n)
		c.send("send", "to be late with", "--to", "slow", "--id", id)
		a := c.stopped(id)
		if a == nil {
			return
		}
		if n%2 == 0 {
			if h := c.takeAgain(id); h != nil {
				c.comesLate(a)
				c.do(h)
			}
		}
		for !c.lies(id, "completed") && c.goesOn() {
			c.once("slow")
		}
		if n%2 == 1 {
			c.comesLate(a)
		}
	}
}

// takeAgain takes the late agent's task once its lease is over.
func (c *crowd) takeAgain(id string) *holding {
	for c.goesOn() {
		h := c.take("slow")
		if h != nil && h.id != id {
			c.Errorf("slow was given %s, there was only %s", h.id, id)
			return nil
		}
		if h != nil {
			return h
		}
	}
	return nil
}

// late is an agent that is stopped between its work and its result.
type late struct {
	id, token string
	cmd       *exec.Cmd
	in        io.Writer
	said      bytes.Buffer
}

// stopped starts an agent that takes the task and does it, and stops it.
func (c *crowd) stopped(id string) *late {
	a := &late{id: id, cmd: exec.Command("sh", "-c", lateAgent)}
	a.cmd.Env, a.cmd.Dir, a.cmd.Stderr = c.env(), c.dir, &a.said
	in, err1 := a.cmd.StdinPipe()
	out, err2 := a.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, a.cmd.Start()); err != nil {
		c.Error(err)
		return nil
	}
	c.Cleanup(func() { _ = a.cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	took, token, _ := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || took != id {
		c.Errorf("an agent that was to take %s said %q, %v\n%s", id, line, err, a.said.Bytes())
		return nil
	}
	a.in, a.token = in, token
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		c.Error(err)
	}
	return a
}

// comesLate lets the agent go on: its result is refused.
func (c *crowd) comesLate(a *late) {
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		c.Error(err)
		return
	}
	fmt.Fprintln(a.in, "go")
	_ = a.cmd.Wait()
	if code := a.cmd.ProcessState.ExitCode(); code != exitStale {
		c.Errorf("a result for %s came when its claim was over and got exit code %d, want %d\n%s", a.id, code, exitStale, a.said.Bytes())
		return
	}
	c.acknowledge("refused", a.id, "late "+a.token)
}

func (c *crowd) lies(id, folder string) bool {
	_, err := os.Stat(filepath.Join(c.home, "tasks", folder, id+".json"))
	return err == nil
}

// executed reads what the executed commands have written: id → tokens.
func (c *crowd) executed() (by map[string][]string, n int) {
	data, err := os.ReadFile(c.executions)
	if err != nil {
		c.Fatal(err)
	}
	by = map[string][]string{}
	for line := range strings.Lines(string(data)) {
		id, token, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			c.Errorf("executions holds %q", line)
		}
		if slices.Contains(by[id], token) {
			c.Errorf("%s was executed twice for one claim, %s", id, token)
		}
		by[id] = append(by[id], token)
		n++
	}
	return by, n
}

// audit compares what was acknowledged and executed with what there is.
func (c *crowd) audit() {
	c.Helper()
	folders, contents := c.files()
	executed, executions := c.executed()
	tasks := c.tasks + c.late
	if len(folders) != tasks || len(c.told.sent) != tasks {
		c.Errorf("%d tasks were sent, %d acknowledged, %d there are", tasks, len(c.told.sent), len(folders))
	}
	for id := range c.told.sent {
		if folders[id] != "completed" {
			c.Errorf("%s was acknowledged and lies in %q", id, folders[id])
			continue
		}
		c.checkResult(id, contents[id], executed[id])
	}
	completions, expired, late := map[string]int{}, 0, map[string]int{}
	for _, f := range c.ledger() {
		switch {
		case f.Event == "task_completed":
			completions[*f.TaskID]++
		case f.Event == "task_late_result":
			late[*f.TaskID]++
		case f.Event == "task_retried" && strings.HasPrefix(f.Details.Reason, "lease_expired"):
			expired++
		}
	}
	for id := range folders {
		if completions[id] != 1 {
			c.Errorf("%s was completed %d times", id, completions[id])
		}
	}
	c.checkLate(late)
	c.Logf("%d executions of %d tasks, %d leases ran out, %d late results refused", executions, tasks, expired, len(c.told.refused))
	// Each execution but a task's first needs a reason: the worker was killed, or
	// its lease ran out because it, or the machine, stood still.
	if executions > tasks+c.kills["worker"]+expired {
		c.Errorf("%d executions of %d tasks with %d workers killed and %d leases that ran out", executions, tasks, c.kills["worker"], expired)
	}
}

// checkResult wants the result to be that of the claim that the task names, and
// of an execution.
func (c *crowd) checkResult(id string, content []byte, executed []string) {
	c.Helper()
	var task struct {
		Result struct{ Output string }
		Mbox   struct{ Lease struct{ Token string } }
	}
	if err := json.Unmarshal(content, &task); err != nil {
		c.Errorf("%s: %v", id, err)
		return
	}
	output, token := task.Result.Output, task.Mbox.Lease.Token
	if said, ok := c.told.completed[id]; ok && output != said {
		c.Errorf("%s was acknowledged with %q and holds %q", id, said, output)
	}
	if output != "by "+token || !slices.Contains(executed, token) {
		c.Errorf("%s was claimed with %s, executed with %q, and holds %q", id, token, executed, output)
	}
}

// checkLate looks for the bytes of refused results, and for the lines about them.
func (c *crowd) checkLate(lines map[string]int) {
	c.Helper()
	names, err := filepath.Glob(filepath.Join(c.home, "tasks", "quarantine", "*.result.json~*"))
	if err != nil {
		c.Fatal(err)
	}
	kept := map[string][]byte{}
	for _, name := range names {
		if kept[name], err = os.ReadFile(name); err != nil {
			c.Fatal(err)
		}
	}
	for output, id := range c.told.refused {
		there := false
		for name, data := range kept {
			if bytes.Contains(data, []byte(`"`+output+`"`)) && strings.HasPrefix(filepath.Base(name), id+".result.json~") {
				_, err := os.Stat(name + ".reason.json")
				there = err == nil
			}
		}
		if !there || lines[id] == 0 {
			c.Errorf("the late result %q of %s was refused: kept %v, %d lines", output, id, there, lines[id])
		}
	}
}
