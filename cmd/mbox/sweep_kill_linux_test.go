package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// TestKillSweep kills each verb at each of its system calls that change
// something; a kill at any other leaves what a kill at the next of those leaves.
// Then what it had promised holds, recovery makes the home whole, the same line
// said again does it once, and one more task goes all the way. Recovery is killed
// in the same way, in each state that a kill of a verb has left. The short form
// takes points by a stride.
func TestKillSweep(t *testing.T) {
	needSweeps(t)
	bin := program(t)
	sweep := &killSweep{seed: seedOf(t), bin: bin}
	t.Cleanup(func() {
		first, second := sweep.first.Load(), sweep.second.Load()
		t.Logf("%d points: %d kills of a verb, %d of a recovery behind one; %d calls came late", first+second, first, second, sweep.missed.Load())
		proves(t, first+second, sweep.missed.Load())
		if all := sized(0, 0, 600); int(sweep.scenes.Load()) == len(sweepScenes) && int(first+second) < all {
			t.Errorf("the long form has at least %d points", all)
		}
	})
	for _, sc := range sweepScenes {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			sweep.scene(t, &sc)
		})
	}
}

type killSweep struct {
	seed                  uint64
	bin                   string
	first, second, missed atomic.Int64
	scenes                atomic.Int64 // that were begun
}

// How many points the short form takes of each verb, and how many of them are
// taken once more for a kill of the recovery behind them.
const (
	shortKills = 4
	shortDeep  = 2
)

func (k *killSweep) scene(t *testing.T, sc *sweepScene) {
	k.scenes.Add(1)
	random := rand.New(rand.NewPCG(k.seed, 1))
	dir := fastDir(t)
	base, journal := sc.prepare(t, k.bin, dir)
	run := &killRun{T: t, sweep: k, sc: sc, base: base, journal: journal, dir: dir, recoveries: map[string]bool{}}
	calls := breakable(run.compare())
	changing := slices.DeleteFunc(slices.Clone(calls), func(c sysCall) bool { return !c.changing })
	for _, c := range choose(changing, shortKills, random) {
		run.kill(c)
	}
	for _, c := range choose(changing, shortDeep, random) {
		run.deep(c, random)
	}
	t.Logf("%d calls, %d of them changing; %d points, %d of them in %d different recoveries",
		len(calls), len(changing), run.points, run.deepPoints, len(run.recoveries))
}

// killRun is the sweep of one verb.
type killRun struct {
	*testing.T
	sweep   *killSweep
	sc      *sweepScene
	base    *sweepHome
	journal promises
	dir     string
	serial  int

	points, deepPoints int
	recoveries         map[string]bool // the calls of those that were killed
}

func (k *killRun) next() string {
	k.serial++
	return filepath.Join(k.dir, fmt.Sprint("home", k.serial))
}

// compare traces the verb until two traces in a row agree: the same calls must
// come in the same order, else a number means nothing. On a loaded machine strace
// loses a call now and then.
func (k *killRun) compare() []sysCall {
	k.Helper()
	var last []string
	for i := range 4 {
		trace, labels := k.trace(i)
		if i > 0 && slices.Equal(labels, last) {
			return trace
		}
		if i == 3 {
			at := 0
			for at < min(len(last), len(labels)) && last[at] == labels[at] {
				at++
			}
			k.Fatalf("the last of four traces differ from call %d on:\n%q\n%q", at, last[at:min(at+5, len(last))], labels[at:min(at+5, len(labels))])
		}
		last = labels
	}
	return nil
}

// trace traces the verb once. The labels are those of the calls that are numbered.
func (k *killRun) trace(i int) (trace []sysCall, labels []string) {
	k.Helper()
	h := k.base.copyOf(k.T, fmt.Sprint(k.base.home, ".trace", i))
	defer h.remove()
	r := k.sc.strike(h, "")
	if r.code != k.sc.code {
		k.Fatalf("under strace: exit code %d, want %d\n%s%s", r.code, k.sc.code, r.out, r.err)
	}
	for _, c := range r.trace {
		if c.inHome {
			labels = append(labels, c.label)
		}
	}
	return r.trace, labels
}

// tries is how often a call is aimed at: where another thread makes the same call, now
// and then another one is hit.
const tries = 3

// strike kills the verb at a call of a new copy of the home.
func (k *killRun) strike(c sysCall) (*sweepHome, ran) {
	for left := tries; ; left-- {
		h := k.base.copyOf(k.T, k.next())
		r := k.sc.strike(h, fmt.Sprintf("%s:signal=KILL:when=%d", c.name, c.nth))
		if r.code >= 0 && r.code != k.sc.code {
			k.Fatalf("%s: killed at %s %d: exit code %d\n%s", h.home, c.name, c.nth, r.code, r.err)
		}
		hit := r.code < 0 && r.last().label == c.label
		if !hit && left > 1 {
			h.remove()
			continue
		}
		if !hit {
			k.sweep.missed.Add(1)
		}
		return h, r
	}
}

func (k *killRun) kill(c sysCall) {
	h, r := k.strike(c)
	k.sweep.first.Add(1)
	k.points++
	k.look(h, r, fmt.Sprintf("killed at %s %d (%s)", c.name, c.nth, c.label), func() { h.must(h.recovery()...) })
}

// deep kills the verb at c, and then recovery at each of its own calls that
// change something. A recovery that makes the same calls as one that was killed
// already is not killed again.
func (k *killRun) deep(c sysCall, random *rand.Rand) {
	broken, first := k.strike(c)
	defer broken.remove()
	if !broken.exists() {
		return
	}
	args := broken.recovery()
	traced := broken.copyOf(k.T, k.next())
	r := traced.traced("", args...)
	var points []sysCall
	var calls strings.Builder
	for _, c := range breakable(r.trace) {
		if c.changing {
			points = append(points, c)
			fmt.Fprintln(&calls, c.label)
		}
	}
	traced.remove()
	if k.recoveries[calls.String()] {
		return
	}
	k.recoveries[calls.String()] = true
	for _, p := range choose(points, 1, random) {
		h := broken.copyOf(k.T, k.next())
		second := h.traced(fmt.Sprintf("%s:signal=KILL:when=%d", p.name, p.nth), args...)
		if second.code >= 0 {
			k.sweep.missed.Add(1)
		}
		k.sweep.second.Add(1)
		k.points++
		k.deepPoints++
		where := fmt.Sprintf("killed at %s %d (%s), then recovery at %s %d (%s)", c.name, c.nth, c.label, p.name, p.nth, p.label)
		k.look(h, first, where, func() {
			// Whoever comes next goes on with it, not recovery alone.
			if p.nth%2 == 0 || h.readOnly() {
				h.must(args...)
			} else {
				h.must("ls")
			}
		})
	}
}

// look is the verdict on a home in which a command was killed.
func (k *killRun) look(h *sweepHome, r ran, where string, mend func()) {
	k.Helper()
	wrong := k.verdict(h, r, mend)
	if wrong == nil {
		h.remove()
		return
	}
	k.Errorf("%s: %s: %v\n%s%s", h.home, where, wrong, r.out, r.err)
}

func (k *killRun) verdict(h *sweepHome, r ran, mend func()) error {
	promised := k.journal
	if k.sc.acknowledged(r) {
		promised = append(slices.Clip(promised), k.sc.effect)
	}
	if h.exists() {
		if r := h.run("verify"); r.code != 0 {
			return fmt.Errorf("verify at once: exit code %d\n%s%s", r.code, r.out, r.err)
		}
		mend()
		if k.sc.drop != nil {
			h.must("ls") // admits: the checker is for homes where no drop waits
		}
		if err := h.whole(); err != nil {
			return fmt.Errorf("after recovery: %w", err)
		}
		if err := h.account(promised, false); err != nil {
			return err
		}
	}
	if r := k.sc.said(h); !slices.Contains(k.sc.again, r.code) {
		return fmt.Errorf("said again: exit code %d\n%s", r.code, r.err)
	}
	if k.sc.effect.event != "" {
		promised = append(slices.Clip(k.journal), k.sc.effect)
	}
	if err := h.account(promised, !k.sc.often); err != nil {
		return fmt.Errorf("said again: %w", err)
	}
	if k.sc.after != nil {
		if err := k.sc.after(h); err != nil {
			return err
		}
	}
	if err := h.cycle(); err != nil {
		return err
	}
	if err := h.account(promised, !k.sc.often); err != nil {
		return fmt.Errorf("after one more task: %w", err)
	}
	return h.whole()
}
