package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// member is what an agent of the colony does: it answers a message once, and writes a line
// into its memory. What it has done it tells beside itself, outside of the mailbox. Now and
// then its answer names another agent.
const member = `#!/bin/sh
test -n "$MBOX_MESSAGE" || { echo "I am $MBOX_AGENT."; exit; }
out=${0%/*}
set -- $(cat "$out/friends")
shift $(($$ % ($# + 1)))
friend=
test $(($$ % 4)) != 0 || test $# = 0 || friend=" @$1"
mbox post "$MBOX_CHANNEL" "I have read it.$friend" --reply-to "$MBOX_MESSAGE" >&2 || exit 75
line="read $MBOX_MESSAGE for $MBOX_TASK_ID, $$"
echo "- $line" >>../memory/memory.md && echo "$line" >>"$out/written"
`

// colony is many agents that are born, talk, dream, change their names, die and come back,
// while what runs them is killed again and again. What was acknowledged it keeps itself.
type colony struct {
	*storm
	agents int
	over   chan struct{}

	mu     sync.Mutex // guards what follows, and the storm's random
	living []string   // names of those that nothing is done to
	dead   []string
	said   map[string][]string // message → whom it names, as they were called
	done   map[string]int      // verb → how often
	next   atomic.Int64
}

// TestColony: agents with homes live in real processes, and what runs them is killed all
// the time. Every message is answered once, and every line of a memory is in that memory
// or in a dream.
func TestColony(t *testing.T) {
	bin := program(t)
	t.Setenv("PATH", filepath.Dir(bin)+":"+os.Getenv("PATH")) // by which the agents find mbox
	dir := diskDir(t)
	c := &colony{
		storm:  &storm{T: t, bin: bin, dir: dir, home: filepath.Join(dir, "home"), random: rand.New(rand.NewPCG(seedOf(t), 5))},
		agents: sized(5, 8, 20), over: make(chan struct{}), said: map[string][]string{}, done: map[string]int{},
	}
	for name, mode := range map[string]os.FileMode{"member": 0o700, "friends": 0o600, "written": 0o600} {
		text := ""
		if name == "member" {
			text = member
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	c.must("init")
	c.must("create-channel", "office")
	c.live(time.Duration(sized(5, 8, 600))*time.Second, time.Duration(sized(2, 3, 10))*time.Second)
	if t.Failed() {
		return
	}
	c.settle()
	c.answered()
	c.remembered()
	c.calm()
	t.Logf("%d agents: %v", len(c.living), c.done)
}

// live lets the colony live so long, with what runs it killed each time that period is over.
func (c *colony) live(span, period time.Duration) {
	var all sync.WaitGroup
	for _, role := range []func(){c.births, c.talk, c.talk, c.ends, c.names, c.dreams} {
		all.Go(role)
	}
	for end := time.Now().Add(span); time.Now().Before(end) && !c.Failed(); {
		up := c.up()
		time.Sleep(c.draw(period/2, period)) // it lives so long; nothing waits for that
		_ = up.Process.Kill()
		_ = up.Wait()
		c.count("kill -9")
	}
	close(c.over)
	all.Wait()
}

// goesOn waits a little; false when it is over.
func (c *colony) goesOn() bool {
	select {
	case <-time.After(c.draw(0, 200*time.Millisecond)):
		return !c.Failed()
	case <-c.over:
		return false
	}
}

func (c *colony) draw(from, below time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return from + time.Duration(c.random.Int64N(int64(below-from)))
}

func (c *colony) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[what]++
}

// take has an agent that nobody else does anything to, "" if there is none; put gives back
// what became of it.
func (c *colony) take(from *[]string) (name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(*from) == 0 {
		return ""
	}
	i := c.random.IntN(len(*from))
	name = (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return name
}

func (c *colony) put(to *[]string, names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*to = append(*to, names...)
}

// try runs a command, again while the mailbox is busy. done tells that it did what it says;
// else it was refused, with one of the codes that may be.
func (c *colony) try(may []int, args ...string) (done bool) {
	for !c.Failed() {
		cmd := c.command(args...)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		err := cmd.Run()
		var exit *exec.ExitError
		code := 0
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			c.Error(err)
			return false
		}
		switch {
		case code == 0 || code == exitCommitted:
			c.count(strings.Join(args[:2], " "))
			return true
		case slices.Contains(may, code):
			return false
		case code == exitBusy:
			continue
		}
		c.Errorf("mbox %q: exit code %d\n%s", args, code, said.Bytes())
	}
	return false
}

func (c *colony) births() {
	for i := range c.agents {
		name := fmt.Sprintf("a%d", i)
		c.try([]int{exitConflict}, "agent", "birth", name, "--exec", filepath.Join(c.dir, "member"))
		if err := c.set(name, "max_memory_lines = 10", "idle_interval = \"1s\"", "dream_every = \"1m\""); err != nil {
			c.Error(err)
			return
		}
		c.put(&c.living, name)
		if !c.goesOn() {
			return
		}
	}
}

// set puts lines into the table of an agent that was born.
func (s *storm) set(agent string, lines ...string) error {
	entry := filepath.Join(s.home, "mbox.d", agent+".toml")
	text, err := os.ReadFile(entry)
	if err != nil {
		return err
	}
	head := "[agents." + agent + "]\n"
	return os.WriteFile(entry, bytes.Replace(text, []byte(head), []byte(head+strings.Join(lines, "\n")+"\n"), 1), 0o600)
}

// talk posts messages that name one to three agents.
func (c *colony) talk() {
	for c.goesOn() {
		var to []string
		for range 1 + c.draw(0, 3) {
			if name := c.take(&c.living); name != "" {
				to = append(to, name)
			}
		}
		if len(to) == 0 {
			continue
		}
		id := fmt.Sprintf("m%d", c.next.Add(1))
		if c.try(nil, "post", "office", "@"+strings.Join(to, " @")+" well?", "--message-id", id) {
			c.mu.Lock()
			c.said[id] = to
			c.mu.Unlock()
		}
		c.put(&c.living, to...)
	}
}

// ends puts agents away, and brings them back.
func (c *colony) ends() {
	for c.goesOn() {
		if name := c.take(&c.dead); name != "" {
			if c.try(nil, "agent", "restore", name) {
				c.put(&c.living, name)
			} else {
				c.put(&c.dead, name)
			}
			continue
		}
		name := c.take(&c.living)
		if name == "" {
			continue
		}
		end := [][]string{{"drain"}, {"kill"}, {"kill", "--now"}}[c.draw(0, 3)]
		if !c.try([]int{exitConflict}, append([]string{"agent"}, append(end, name)...)...) {
			c.put(&c.living, name) // it works at something
			continue
		}
		for c.state(name) == "draining" && !c.Failed() {
			c.try([]int{exitConflict}, "agent", "drain", name) // mbox up does it, too
		}
		c.put(&c.dead, name)
	}
}

// names gives agents other names.
func (c *colony) names() {
	for i := 0; c.goesOn(); i++ {
		name := c.take(&c.living)
		if name == "" {
			continue
		}
		to := fmt.Sprintf("n%d", i)
		if c.try([]int{exitConflict}, "agent", "rename", name, to) {
			name = to
		}
		c.put(&c.living, name)
	}
}

// dreams has agents dream, and now and then takes a dream back.
func (c *colony) dreams() {
	for c.goesOn() {
		name := c.take(&c.living)
		if name == "" {
			continue
		}
		args := []string{"dream", "--json", name}
		if c.draw(0, 4) == 0 {
			args = []string{"dream", "--undo", name}
		}
		c.try([]int{exitConflict, exitNotFound, exitBusy}, args...)
		c.put(&c.living, name)
		c.befriend()
	}
}

// befriend tells the agents whom they may name.
func (c *colony) befriend() {
	c.mu.Lock()
	text := strings.Join(c.living, " ")
	c.mu.Unlock()
	path := filepath.Join(c.dir, "friends")
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		c.Error(err)
	}
}

func (c *colony) state(name string) string {
	var a struct {
		Lifecycle struct {
			State string `json:"state"`
		} `json:"lifecycle"`
	}
	if err := json.Unmarshal([]byte(c.must("agent", "show", name, "--json")), &a); err != nil {
		c.Fatal(err)
	}
	return a.Lifecycle.State
}

// settle brings back who is dead, and waits until all is answered.
func (c *colony) settle() {
	for _, name := range c.dead {
		c.must("agent", "restore", name)
	}
	c.living = append(c.living, c.dead...)
	up := c.up()
	awaitCrowd(c.T, "all is answered", func() bool {
		return c.must("ls", "--state", "pending") == "" && c.must("ls", "--state", "in-progress") == ""
	})
	if err := up.Process.Signal(os.Interrupt); err != nil {
		c.Fatal(err)
	}
	if err := up.Wait(); err != nil {
		c.Errorf("mbox up: %v", err)
	}
}

// answered compares what was said with what was done about it: each message has one item
// in the inbox of each agent that it names, and each item one answer.
func (c *colony) answered() {
	called := map[string]string{} // name that an agent has or had → the one that it has
	for line := range strings.Lines(c.must("agent", "list", "--json")) {
		var a struct {
			Name     string   `json:"name"`
			Formerly []string `json:"formerly"`
		}
		c.read(line, &a)
		for _, name := range append(a.Formerly, a.Name) {
			called[name] = a.Name
		}
	}
	type item struct{ message, agent string }
	items, answers := map[item]int{}, map[item]int{}
	_, contents := c.files()
	for id, data := range contents {
		var t struct {
			Assignment struct {
				Target string `json:"target_agent"`
			} `json:"assignment"`
			Mbox struct {
				Trigger string `json:"trigger"`
			} `json:"mbox"`
			Result *struct {
				Status string `json:"status"`
			} `json:"result"`
		}
		c.read(string(data), &t)
		if t.Result == nil || t.Result.Status != "completed" {
			c.Errorf("%s has not ended well: %s", id, data)
		}
		if message, is := strings.CutPrefix(t.Mbox.Trigger, "mention:"); is {
			items[item{message, called[t.Assignment.Target]}]++
		}
	}
	for line := range strings.Lines(c.must("read", "office", "--limit", "0", "--json")) {
		var m struct {
			From    string `json:"from"`
			ReplyTo string `json:"reply_to"`
		}
		if c.read(line, &m); m.ReplyTo != "" {
			answers[item{m.ReplyTo, called[m.From]}]++
		}
	}
	for message, names := range c.said {
		for _, name := range names {
			if it := (item{message, called[name]}); items[it] != 1 {
				c.Errorf("%s, which names %s, is %d times in its inbox", message, name, items[it])
			}
		}
	}
	for it := range items {
		if answers[it] != 1 {
			c.Errorf("%s has answered %s %d times", it.agent, it.message, answers[it])
		}
	}
	for it := range answers {
		if items[it] != 1 {
			c.Errorf("%s has answered %s, which is %d times in its inbox", it.agent, it.message, items[it])
		}
	}
	c.done["answer"] = len(answers)
	if len(c.said) == 0 || len(answers) < len(c.said) {
		c.Errorf("%d messages, %d answers", len(c.said), len(answers))
	}
}

// remembered looks for what agents have written down: it is in a memory, in a dream, or in
// what one that was undone has left.
func (c *colony) remembered() {
	var all bytes.Buffer
	err := filepath.WalkDir(filepath.Join(c.home, "agents"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.Contains(path, "/memory/") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(c.dir, "written"))
	if err != nil || len(written) == 0 {
		c.Fatal("nothing was written down", err)
	}
	for line := range strings.Lines(string(written)) {
		c.done["line"]++
		if !bytes.Contains(all.Bytes(), []byte(line)) {
			c.Errorf("no memory and no dream has %q", line)
		}
	}
}

func (c *colony) read(text string, to any) {
	if err := json.Unmarshal([]byte(text), to); err != nil {
		c.Fatalf("%v: %s", err, text)
	}
}
