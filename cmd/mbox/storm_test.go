package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// What a storm consists of. MBOX_STORM_PROCESSES and MBOX_STORM_TASKS change the
// first two.
type stormSize struct {
	processes int // that live at a time
	tasks     int
	late      int // tasks beside those, whose first agent is stopped until its claim is over
	lease     time.Duration
	limit     time.Duration // after which it counts as stuck
	// A kill comes after a random time between these.
	killAfter, killBefore time.Duration
}

func stormSizes(t *testing.T) stormSize {
	z := stormSize{
		processes: sized(8, 12, 32), tasks: sized(60, 150, 10_000),
		lease: time.Duration(sized(2, 2, 5)) * time.Second, limit: time.Duration(sized(5, 5, 120)) * time.Minute,
		killAfter: time.Duration(sized(10, 10, 50)) * time.Millisecond, killBefore: time.Duration(sized(100, 100, 500)) * time.Millisecond,
	}
	for name, n := range map[string]*int{"MBOX_STORM_PROCESSES": &z.processes, "MBOX_STORM_TASKS": &z.tasks} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		var err error
		if *n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	z.processes = max(z.processes, 8) // one of each role
	z.late = max(2, z.tasks/100)
	return z
}

// crowd is many processes at one home. What they were told is its journal, which
// lies outside the home and is the oracle.
type crowd struct {
	*storm
	stormSize
	executions string // the file in which every executed command writes a line
	over       chan struct{}
	given      atomic.Int64 // tasks that senders have begun to send

	mu      sync.Mutex // guards what follows, and the storm's random
	targets map[*target]bool
	journal *os.File
	told    journal
	kills   map[string]int // kind → processes that a SIGKILL of ours ended
	slowed  int            // processes that were stopped for a moment
	hung    int            // workers that were stopped for longer than a lease
}

// journal is what commands have acknowledged.
type journal struct {
	sent      map[string]bool
	completed map[string]string // id → output
	refused   map[string]string // output → id: late results, exit code 6
}

// target is a process that may be killed or stopped.
type target struct {
	kind string // router, worker or command
	cmd  *exec.Cmd
}

// work is what agents execute: it leaves a line where nobody but it writes.
const work = `#!/bin/sh
echo "$MBOX_TASK_ID $MBOX_TOKEN" >>"${0%/*}/executions" || exit
sleep 0.0$(($$ % 5))
echo "by $MBOX_TOKEN"
`

// lateAgent is an agent that is stopped between its work and its result.
const lateAgent = `
while :; do
	task=$("$MBOX" claim --agent slow --json) && break
	code=$?
	case $code in 5|75) sleep 0.02 ;; *) exit $code ;; esac
done
field() { printf %s "$task" | python3 -c 'import json,sys; t=json.load(sys.stdin); print(t["id"], t["mbox"]["lease"]["token"])'; }
set -- $(field)
MBOX_TASK_ID=$1 MBOX_TOKEN=$2 ./work >/dev/null || exit
echo "$1 $2"
read -r go
while :; do
	"$MBOX" complete "$1" --token "$2" --output "late $2"
	code=$?
	test $code = 75 || exit $code
done
`

// TestStorm: many processes send, take, do and prove tasks, and all the time one
// of them is killed: a worker, the router, or a one-shot command.
// Others are stopped for a moment, workers now and then for longer than a lease,
// and some agents until somebody else has done their task. Nothing is lost, no
// task is completed twice, and nothing is executed again without a reason.
func TestStorm(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatal("python3 is missing: the format checker cannot run")
	}
	c := newCrowd(t)
	begun := time.Now()
	c.gather()
	t.Logf("%d tasks, %d processes at a time, %v: killed %v, %d slowed, %d workers hung, answers: %v",
		c.tasks, c.processes, time.Since(begun).Round(time.Millisecond), c.kills, c.slowed, c.hung, c.answers)
	if t.Failed() {
		return
	}
	c.calm()
	c.audit()
	c.must("recover")
	c.calm()
	for _, kind := range []string{"router", "worker", "command"} {
		if c.kills[kind] == 0 && !testing.Short() {
			t.Errorf("no %s was killed: the storm proves little", kind)
		}
	}
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	bin := program(t)
	dir := diskDir(t) // a flush takes time there, so that a kill meets one
	c := &crowd{
		storm: &storm{
			T: t, bin: bin, dir: dir, home: filepath.Join(dir, "home"), random: rand.New(rand.NewPCG(seedOf(t), 3)),
			answers: map[string]int{},
		},
		stormSize: stormSizes(t), executions: filepath.Join(dir, "executions"), over: make(chan struct{}),
		targets: map[*target]bool{}, kills: map[string]int{},
		told: journal{sent: map[string]bool{}, completed: map[string]string{}, refused: map[string]string{}},
	}
	var err error
	if c.journal, err = os.OpenFile(filepath.Join(dir, "journal"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.journal.Close() })
	c.must("init")
	config := fmt.Sprintf("lease = \"%v\"\nmax_attempts = 100\nretry_base = \"1ms\"\npoll_interval = \"1s\"\n"+
		"[agents.slow]\nenabled = true\nonly_named = true\n", c.lease)
	for name, text := range map[string]string{filepath.Join(c.home, "mbox.toml"): config, filepath.Join(dir, "work"): work} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(c.home, "mbox.toml"), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// gather runs all roles until every task is completed.
func (c *crowd) gather() {
	var roles sync.WaitGroup
	run := func(n int, role func()) {
		for range n {
			roles.Go(role)
		}
	}
	workers := (c.processes - 3) / 2
	senders := (c.processes - 3 - workers) * 2 / 5
	run(1, func() { c.keep("router", "up") })
	run(1, c.prove)
	run(1, c.lateOnes)
	run(workers, func() { c.keep("worker", "worker", "--agent", "worker", "--exec", filepath.Join(c.dir, "work")) })
	run(senders, c.sender)
	run(c.processes-3-workers-senders, c.hand)
	run(1, c.killer)
	run(1, c.stopper)
	c.awaitEnd()
	close(c.over)
	roles.Wait()
}

// awaitEnd waits until every task lies in completed, or a role has failed, or
// nothing can happen any more.
func (c *crowd) awaitEnd() {
	deadline, still := time.Now().Add(c.limit), stillness{since: time.Now()}
	for c.pause(100*time.Millisecond) && !c.Failed() {
		done, err := filepath.Glob(filepath.Join(c.home, "tasks", "completed", "*.json"))
		if err != nil {
			c.Error(err)
			return
		}
		c.mu.Lock()
		late := len(c.told.refused)
		c.mu.Unlock()
		if len(done) >= c.tasks+c.late && late >= c.late {
			return
		}
		if still.lasts(c) || time.Now().After(deadline) {
			c.Errorf("stuck: %d of %d tasks are completed and %d of %d late results refused; no line for %v\n%s",
				len(done), c.tasks+c.late, late, c.late, time.Since(still.since).Round(time.Second), c.unfinished())
			return
		}
	}
}

// pause waits a little; false when the storm is over.
func (c *crowd) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.over:
		return false
	}
}

func (c *crowd) goesOn() bool {
	select {
	case <-c.over:
		return false
	default:
		return !c.Failed()
	}
}

// env is for everything that runs.
func (c *crowd) env(more ...string) []string {
	return append(append(os.Environ(), "MBOX_HOME="+c.home, "MBOX="+c.bin, "GOCOVERDIR="), more...)
}

// board starts a process that may be killed and stopped.
func (c *crowd) board(kind string, stdout, stderr io.Writer, args ...string) *target {
	g := &target{kind: kind, cmd: exec.Command(c.bin, args...)}
	g.cmd.Env, g.cmd.Dir, g.cmd.Stdout, g.cmd.Stderr = c.env(), c.dir, stdout, stderr
	if err := g.cmd.Start(); err != nil {
		c.Error(err)
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.targets[g] = true
	return g
}

// leave waits for the process's end and tells its exit code, -1 if it was killed.
func (c *crowd) leave(g *target) int {
	err := g.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.targets, g)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		c.Error(err)
		return 1
	case exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		c.kills[g.kind]++
	}
	return exit.ExitCode()
}

// say runs a one-shot command. Any exit code but the given ones, 75 and a kill
// is an error.
func (c *crowd) say(expected []int, args ...string) (code int, out []byte) {
	var data, said bytes.Buffer
	g := c.board("command", &data, &said, args...)
	if g == nil {
		return 1, nil
	}
	code = c.leave(g)
	c.mu.Lock()
	c.answers[fmt.Sprintf("%s %d", args[0], code)]++
	c.mu.Unlock()
	for _, fine := range append(expected, 0, -1, exitBusy, exitCommitted) {
		if code == fine {
			return code, data.Bytes()
		}
	}
	c.Errorf("mbox %q: exit code %d\n%s%s", args, code, data.Bytes(), said.Bytes())
	return code, nil
}

// acknowledge notes what a command has acknowledged.
func (c *crowd) acknowledge(what, id, output string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := fmt.Fprintln(c.journal, what, id, output); err != nil {
		c.Error(err)
	}
	switch what {
	case "sent":
		if c.told.sent[id] {
			c.Errorf("two senders were told the id %s", id)
		}
		c.told.sent[id] = true
	case "completed":
		if other := c.told.completed[id]; other != "" {
			c.Errorf("the completion of %s was accepted twice: %q and %q", id, other, output)
		}
		c.told.completed[id] = output
	case "refused":
		c.told.refused[output] = id
	}
}
