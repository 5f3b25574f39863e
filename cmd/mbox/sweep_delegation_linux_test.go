package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// workerScene is a worker that is killed in a tree, and what came before it.
type workerScene struct {
	name   string
	lead   bool     // the root is for lead: three deep
	before []string // agents that have worked, one after another
	verb   []string // what is killed
	cancel bool     // the root is cancelled in the end, and everything with it
	points int      // so many of the calls that change something are taken in the short form
	whole  bool     // and all that append: between two lines lies what matters
}

var workerScenes = []workerScene{
	{name: "hand on", points: 1, whole: true, verb: []string{"worker", "--agent", "coordinator", "--once"}},
	{name: "act", points: 3, before: []string{"coordinator"}, verb: []string{"worker", "--agent", "coder", "--once"}},
	{name: "second claim", points: 3, before: []string{"coordinator", "coder"}, verb: []string{"worker", "--agent", "coordinator", "--once"}},
	{name: "hand on in a child", points: 3, lead: true, before: []string{"lead"}, verb: []string{"worker", "--agent", "coordinator", "--once"}},
	{name: "cancel three deep", points: 5, lead: true, before: []string{"lead", "coordinator"}, verb: []string{"cancel", "root"}, cancel: true},
}

// callsOfWorkers are the kinds of calls at which a worker is killed. Its
// goroutines change their threads, so a kind and a number hit near a place, not
// the same one in every run.
var callsOfWorkers = append(slices.Clip(changingCalls), "openat", "flock", "pread64")

var changingCalls = []string{"renameat2", "fdatasync", "pwrite64", "unlinkat", "write", "mkdirat"}

// TestKillDelegation kills a worker at its system calls, at each step of a
// delegation, and a cancel of a tree. After recovery everybody works, and then
// the root has ended once, with all that it waited for.
func TestKillDelegation(t *testing.T) {
	needSweeps(t)
	bin := program(t)
	for _, sc := range workerScenes {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			sc.sweep(t, bin, rand.New(rand.NewPCG(seedOf(t), 3)))
		})
	}
}

// killPoint is the n-th call of a kind on any one thread.
type killPoint struct {
	call string
	n    int
}

func (sc *workerScene) sweep(t *testing.T, bin string, random *rand.Rand) {
	dir := fastDir(t)
	base := sc.prepare(t, bin, dir)
	counted := base.copyOf(t, filepath.Join(dir, "counted"))
	_, calls := counted.workTraced("", sc.verb...)
	counted.remove()
	var always, changing, others []killPoint
	for _, call := range callsOfWorkers {
		for n := range calls[call] {
			switch p := (killPoint{call, n + 1}); {
			case sc.whole && call == "write":
				always = append(always, p)
			case slices.Contains(changingCalls, call):
				changing = append(changing, p)
			default:
				others = append(others, p)
			}
		}
	}
	killed, tried := 0, 0
	for _, p := range slices.Concat(always, choose(changing, sc.points, random), choose(others, 1, random)) {
		h := base.copyOf(t, filepath.Join(dir, fmt.Sprintf("%s%d", p.call, p.n)))
		r, _ := h.workTraced(fmt.Sprintf("%s:signal=KILL:when=%d", p.call, p.n), sc.verb...)
		tried++
		if r.code == -1 {
			killed++
		}
		if err := sc.verdict(h, r.code == 0); err != nil {
			t.Errorf("%s: killed at %s %d (exit code %d): %v\n%s", h.home, p.call, p.n, r.code, err, r.err)
			continue
		}
		h.remove()
	}
	t.Logf("%d points, %d of them changing; %d of %d that were tried killed it", len(always)+len(changing)+len(others), len(always)+len(changing), killed, tried)
	if 2*killed < tried {
		t.Errorf("%d of %d kills hit: the sweep proves nothing", killed, tried)
	}
}

func (sc *workerScene) prepare(t *testing.T, bin, dir string) *sweepHome {
	h := &sweepHome{T: t, bin: bin, home: filepath.Join(dir, "base")}
	h.must("init", "--sync", "standard")
	file := filepath.Join(dir, "root.json")
	for path, text := range map[string]string{h.Path("mbox.toml"): treeConfig, file: chain("root", "notes/a.txt", sc.lead)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.must("send", file)
	for _, agent := range sc.before {
		h.must("worker", "--agent", agent, "--once")
	}
	return h
}

var threadCall = regexp.MustCompile(`(?m)^(\d+) +(\w+)\(`)

// workTraced runs a command of many threads under strace, and tells how many
// calls of each kind the busiest thread made.
func (h *sweepHome) workTraced(inject string, args ...string) (ran, map[string]int) {
	h.Helper()
	file := h.home + ".trace"
	argv := []string{"strace", "-f", "-o", file, "-e", "signal=none"}
	if inject == "" {
		argv = append(argv, "-e", "trace="+strings.Join(callsOfWorkers, ","))
	} else {
		call, _, _ := strings.Cut(inject, ":")
		argv = append(argv, "-e", "trace="+call, "-e", "inject="+inject)
	}
	cmd := h.command(append(append(argv, h.bin), args...)...)
	cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	r := h.end(cmd)
	data, err := os.ReadFile(file)
	if err != nil {
		h.Fatal(err)
	}
	os.Remove(file)
	threads, most := map[string]int{}, map[string]int{}
	for _, m := range threadCall.FindAllStringSubmatch(string(data), -1) {
		threads[m[1]+" "+m[2]]++
		most[m[2]] = max(most[m[2]], threads[m[1]+" "+m[2]])
	}
	return r, most
}

// verdict is what has to hold in a home in which a worker was killed.
func (sc *workerScene) verdict(h *sweepHome, acknowledged bool) error {
	if r := h.run("verify"); r.code != 0 {
		return fmt.Errorf("verify at once: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	h.must("recover")
	if err := h.whole(); err != nil {
		return fmt.Errorf("after recovery: %w", err)
	}
	if sc.cancel {
		return sc.verdictCancel(h, acknowledged)
	}
	if err := h.noOrphans(); err != nil {
		return err
	}
	f, err := h.workOff()
	if err != nil {
		return err
	}
	if err := f.judge(); err != nil {
		return err
	}
	if root := f.tasks["root"]; root == nil || root.Result.Status != "completed" {
		return fmt.Errorf("the root is %+v", root)
	}
	if err := h.cycle(); err != nil {
		return err
	}
	return h.whole()
}

// verdictCancel: whatever was acknowledged, one more cancel ends the whole tree.
func (sc *workerScene) verdictCancel(h *sweepHome, acknowledged bool) error {
	if !acknowledged {
		h.must(sc.verb...)
	}
	h.must("ls") // whoever comes next goes on with it
	f, err := seeForest(h.home)
	if err != nil {
		return err
	}
	for id, t := range f.tasks {
		if t.Result.Status != "failed" || t.Result.Error == nil || t.Result.Error.Code != "cancelled" {
			return fmt.Errorf("the root was cancelled, %s is %s", id, t.Result.Status)
		}
	}
	if len(f.tasks) != 3 {
		return fmt.Errorf("%d tasks, want 3", len(f.tasks))
	}
	return h.whole()
}

// noOrphans has somebody look at what the dead left, and wants no orphans then.
func (h *sweepHome) noOrphans() error {
	h.must("ls")
	f, err := seeForest(h.home)
	if err == nil {
		err = f.orphans()
	}
	return err
}

// workOff lets everybody work until nothing is left.
func (h *sweepHome) workOff() (f *forestSeen, err error) {
	h.Helper()
	for range 6 {
		if f, err = seeForest(h.home); err != nil || f.live() == 0 {
			return f, err
		}
		for _, agent := range slices.Backward(treeAgents) {
			h.must("worker", "--agent", agent, "--once")
		}
	}
	return f, nil
}
