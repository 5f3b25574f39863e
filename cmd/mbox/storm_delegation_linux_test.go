package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox"
	"mbox/mailbox/task"
)

// TestDelegationStorm has several processes of each agent work at random trees
// of action tasks, kills them at random, and cancels some trees. In the end
// everything has ended, once, with its effect, and what was done is debited.
func TestDelegationStorm(t *testing.T) {
	bin := program(t)
	s := &treeStorm{
		random: rand.New(rand.NewPCG(seedOf(t), 4)), over: make(chan struct{}),
		sweepHome: sweepHome{T: t, bin: bin, home: filepath.Join(diskDir(t), "home")},
	}
	s.must("init", "--sync", "standard")
	if err := os.WriteFile(s.Path("mbox.toml"), []byte(treeConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	s.plant(sized(12, 18, 300))
	s.blow(time.Duration(sized(2, 3, 120)) * time.Second)
	s.calm()
}

type treeStorm struct {
	sweepHome
	random    *rand.Rand // of the test's goroutine alone
	over      chan struct{}
	roots     []string
	cancelled []string // acknowledged
	kills     atomic.Int64
}

// plant makes the trees: half of them as their first worker would, with several
// children, half of them as tasks that hand on by themselves.
func (s *treeStorm) plant(n int) {
	box, err := mailbox.Open(context.Background(), s.home, mailbox.Options{})
	if err != nil {
		s.T.Fatal(err)
	}
	defer box.Close()
	for i := range n {
		id := fmt.Sprintf("root-%d", i)
		s.roots = append(s.roots, id)
		if i%2 == 0 {
			file := filepath.Join(filepath.Dir(s.home), "task.json")
			if err := os.WriteFile(file, []byte(chain(id, "notes/"+id+".txt", i%4 == 0)), 0o600); err != nil {
				s.T.Fatal(err)
			}
			s.must("send", file)
			continue
		}
		s.branch(box, id)
	}
}

// branch makes a root with several children, as the agent lead would.
func (s *treeStorm) branch(box *mailbox.Box, id string) {
	ctx := context.Background()
	_, err := box.Submit(ctx, &mailbox.Task{
		ID: mailbox.ID(id), Task: mailbox.Request{Title: "hand on", Type: "action"}, Assignment: mailbox.Assignment{TargetAgent: "sower"},
		Mbox: mailbox.Meta{Action: &mailbox.Action{Name: "delegate", Params: jsontext.Value(`{"role":"coder","task":"write_file","payload":{"path":"x.txt","content":"x"}}`)}},
	})
	var c *mailbox.Claim
	if err == nil {
		c, err = box.Claim(ctx, mailbox.ClaimRequest{Agent: "sower"})
	}
	if err != nil {
		s.T.Fatal(err)
	}
	d := mailbox.Delegation{Join: task.Joins[s.random.IntN(3)], Budget: mailbox.Budget{mailbox.SpentActions: 50, mailbox.SpentChildren: 50}}
	for k := range 2 + s.random.IntN(3) {
		path := fmt.Sprintf("notes/%s-%d.txt", id, k)
		write := fmt.Sprintf(`{"path":%q,"content":%q}`, path, id)
		to, action, params := "coder", "write_file", write
		switch s.random.IntN(3) {
		case 0:
			to, action, params = "coordinator", "delegate", `{"role":"coder","task":"write_file","payload":`+write+`}`
		case 1:
			to, action, params = "tester", "file_check", `{"path":"nowhere.txt"}`
		}
		child := mailbox.Child{Task: &mailbox.Task{
			Task: mailbox.Request{Title: action, Type: "action"}, Assignment: mailbox.Assignment{TargetAgent: to},
			Mbox: mailbox.Meta{Action: &mailbox.Action{Name: action, Params: jsontext.Value(params)}},
		}}
		if k > 0 && s.random.IntN(3) == 0 {
			child.After = []int{k - 1}
		}
		d.Children = append(d.Children, child)
	}
	if _, err := c.Delegate(ctx, d); err != nil {
		s.T.Fatal(err)
	}
}

// blow keeps workers running and killed for a while.
func (s *treeStorm) blow(long time.Duration) {
	var running sync.WaitGroup
	for i, agent := range append(treeAgents, treeAgents...) {
		random := rand.New(rand.NewPCG(s.random.Uint64(), uint64(i)))
		running.Go(func() { s.keep(agent, random) })
	}
	end := time.NewTimer(long)
	defer end.Stop()
	for i := range len(s.roots) / 6 {
		id := s.roots[6*i+s.random.IntN(6)]
		switch r := s.run("cancel", id); r.code {
		case 0, exitCommitted:
			s.cancelled = append(s.cancelled, id)
		case exitConflict, exitBusy: // it has ended, or everybody is at it
		default:
			s.T.Errorf("cancel %s: exit code %d\n%s", id, r.code, r.err)
		}
	}
	<-end.C
	close(s.over)
	running.Wait()
}

// keep has one worker run, again and again, each for a moment.
func (s *treeStorm) keep(agent string, random *rand.Rand) {
	for {
		cmd := s.command(s.bin, "worker", "--agent", agent)
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			s.T.Error(err)
			return
		}
		moment := time.NewTimer(10*time.Millisecond + time.Duration(random.Int64N(int64(400*time.Millisecond))))
		over := false
		select {
		case <-moment.C:
		case <-s.over:
			over = true
		}
		moment.Stop()
		_ = cmd.Process.Kill()
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
			s.T.Errorf("mbox worker --agent %s ended by itself: %v\n%s", agent, err, said.String())
			return
		}
		s.kills.Add(1)
		if over {
			return
		}
	}
}

// calm lets everybody work to the end, and looks.
func (s *treeStorm) calm() {
	s.must("recover")
	s.must("verify")
	if err := s.noOrphans(); err != nil {
		s.T.Error(err)
	}
	f, err := s.workOff()
	if err == nil {
		err = f.judge()
	}
	if err != nil {
		s.T.Error(err)
	}
	for _, id := range s.cancelled {
		if t := f.tasks[id]; t == nil || t.Result.Status != "failed" {
			s.T.Errorf("%s was acknowledged as cancelled and is %+v", id, t)
		}
	}
	ends := map[string]int{}
	for _, id := range s.roots {
		if f.tasks[id] == nil {
			s.T.Errorf("%s was acknowledged and is gone", id)
			continue
		}
		t := f.tasks[id]
		why := ""
		if t.Result.Error != nil {
			why = " " + t.Result.Error.Code
		}
		ends[t.Result.Status+why]++
	}
	acted := 0
	for _, n := range f.acted {
		acted += n
	}
	if err := s.whole(); err != nil {
		s.T.Error(err)
	}
	s.T.Logf("%d tasks, %d kills, %d actions noted; the roots: %v", len(f.tasks), s.kills.Load(), acted, ends)
	if acted < len(s.roots)/2 || s.kills.Load() < int64(len(s.roots)) {
		s.T.Error("the storm proves little")
	}
}
