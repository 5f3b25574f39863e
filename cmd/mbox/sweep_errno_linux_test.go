package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// sweepErrors are what the errno sweep makes every file call answer.
var sweepErrors = []struct {
	name   string
	number syscall.Errno
}{
	{"EIO", syscall.EIO},
	{"ENOSPC", syscall.ENOSPC},
	{"EDQUOT", syscall.EDQUOT},
	{"EROFS", syscall.EROFS},
	{"EMFILE", syscall.EMFILE},
	{"EINTR", syscall.EINTR},
	{"EACCES", syscall.EACCES},
}

// TestErrnoSweep lets one file call of each verb after another fail, with each
// of seven errors. The verb answers 0, 74 or 76 and says which file it was; what
// it acknowledged holds; the next command, or after a failed flush of the ledger
// the documented one, leaves nothing half done; no descriptor is flushed again
// after an error. What comes after is looked at once for each state that the
// errors leave: many leave the same. The short form takes points by a stride.
func TestErrnoSweep(t *testing.T) {
	needSweeps(t)
	bin := program(t)
	sweep := &errnoSweep{seed: seedOf(t), bin: bin}
	t.Cleanup(func() {
		t.Logf("%d errors: exit code 0 %d times, 74 %d times, 76 %d times; read-only %d times; %d calls came late", sweep.points.Load(),
			sweep.codes[exitOK].Load(), sweep.codes[exitIO].Load(), sweep.codes[exitCommitted].Load(), sweep.readOnly.Load(), sweep.missed.Load())
		proves(t, sweep.points.Load(), sweep.missed.Load())
	})
	for _, sc := range sweepScenes {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			sweep.scene(t, &sc)
		})
	}
}

type errnoSweep struct {
	seed                     uint64
	bin                      string
	points, missed, readOnly atomic.Int64
	codes                    [256]atomic.Int64
}

// How many points the short form takes of each verb.
const shortErrors = 4

type errnoPoint struct {
	call   sysCall
	name   string
	number syscall.Errno
}

func (e *errnoSweep) scene(t *testing.T, sc *sweepScene) {
	random := rand.New(rand.NewPCG(e.seed, 2))
	run := newErrnoRun(t, e, sc)
	var points []errnoPoint
	for _, c := range breakable(run.compare()) {
		for _, failure := range sweepErrors {
			points = append(points, errnoPoint{c, failure.name, failure.number})
		}
	}
	chosen := choose(points, shortErrors, random)
	for _, p := range chosen {
		run.point(p)
	}
	t.Logf("%d of %d points, %d different states left", len(chosen), len(points), len(run.left))
}

// errnoRun is the sweep of one verb.
type errnoRun struct {
	killRun
	sweep *errnoSweep
	left  map[string]bool // the states that were looked at
}

func newErrnoRun(t *testing.T, e *errnoSweep, sc *sweepScene) *errnoRun {
	dir := fastDir(t)
	base, journal := sc.prepare(t, e.bin, dir)
	return &errnoRun{killRun{T: t, sc: sc, base: base, journal: journal, dir: dir}, e, map[string]bool{}}
}

// fail lets a call of the verb fail in a new copy of the home. Calls are counted by
// thread: a runtime whose own write fails on another thread has crashed of that.
func (e *errnoRun) fail(p errnoPoint) (h *sweepHome, r ran, hit sysCall, ok bool) {
	for left := tries; ; left-- {
		h = e.base.copyOf(e.T, e.next())
		r = e.sc.strike(h, fmt.Sprintf("%s:error=%s:when=%d", p.call.name, p.name, p.call.nth))
		hit, ok = r.hit()
		ok = ok && !strings.Contains(r.err, "runtime: netpollBreak write failed")
		if left == 1 || ok && hit.label == p.call.label {
			return h, r, hit, ok
		}
		h.remove()
	}
}

func (e *errnoRun) point(p errnoPoint) {
	e.Helper()
	h, r, hit, ok := e.fail(p)
	e.sweep.points.Add(1)
	e.sweep.codes[r.code&255].Add(1)
	if !ok || hit.label != p.call.label {
		e.sweep.missed.Add(1)
	}
	if !ok || !hit.inHome { // the runtime's own
		h.remove()
		return
	}
	wrong := e.judge(h, r, hit, p)
	if wrong == nil {
		h.remove()
		return
	}
	e.Errorf("%s: %s of %s %d (%s): exit code %d: %v\n%s%s", h.home, p.name, hit.name, hit.nth, hit.label, r.code, wrong, r.out, r.err)
}

// judge is the verdict on a command, one of whose calls failed, and on what it
// left.
func (e *errnoRun) judge(h *sweepHome, r ran, hit sysCall, p errnoPoint) error {
	if err := e.answer(r, hit, p); err != nil {
		return err
	}
	if fd := flushedAgain(r.trace); fd != "" {
		return fmt.Errorf("descriptor %s was flushed again after its flush had failed", fd)
	}
	if err := e.stops(h, hit, r); err != nil {
		return err
	}
	state := stateLeft(r)
	if e.left[state] {
		return nil
	}
	e.left[state] = true
	if !h.exists() {
		return e.doneAtLast(h)
	}
	if err := e.heal(h); err != nil {
		return err
	}
	if err := h.whole(); err != nil {
		return fmt.Errorf("after the next command: %w", err)
	}
	promised := e.journal
	if e.sc.acknowledged(r) {
		promised = append(slices.Clip(promised), e.sc.effect)
	}
	if err := h.account(promised, false); err != nil {
		return err
	}
	return e.doneAtLast(h)
}

// answer judges the exit code and the words.
func (e *errnoRun) answer(r ran, hit sysCall, p errnoPoint) error {
	switch {
	case r.code == e.sc.code:
		return nil
	case p.number == syscall.EINTR && hit.name != "lseek" && !flushes(hit): // which no signal interrupts, and which are not repeated
		return fmt.Errorf("an interrupted call is no error")
	case r.code == exitError && p.number == syscall.EACCES && strings.Contains(hit.path, "/tasks/"):
		// A task that may not be read was changed by hand; the words say which.
	case r.code != exitIO && r.code != exitCommitted:
		return fmt.Errorf("want %d, %d or %d", e.sc.code, exitIO, exitCommitted)
	}
	if !strings.Contains(r.err, p.number.Error()) {
		return fmt.Errorf("it does not say %q", p.number.Error())
	}
	for _, path := range []string{hit.path, hit.other} {
		if path != "" && strings.Contains(r.err, filepath.Base(path)) || hit.fd == "1" && strings.Contains(r.err, "stdout") {
			return nil
		}
	}
	return fmt.Errorf("it does not name %s", hit.path)
}

func flushes(c sysCall) bool { return strings.HasSuffix(c.name, "sync") || c.name == "syncfs" }

// flushedAgain finds a descriptor that was flushed after a flush of it failed.
func flushedAgain(trace []sysCall) (fd string) {
	failed := map[string]bool{}
	for _, c := range trace {
		switch c.name {
		case "openat", "close":
			delete(failed, c.fd)
		case "fsync", "fdatasync", "syncfs":
			if failed[c.fd] {
				return c.fd + " (" + c.path + ")"
			}
			failed[c.fd] = c.broken
		}
	}
	return ""
}

// stops wants that the mailbox is read-only where the ledger could not be
// flushed, and nowhere else.
func (e *errnoRun) stops(h *sweepHome, hit sysCall, r ran) error {
	ledger := hit.name == "syncfs" || flushes(hit) &&
		(strings.Contains(hit.path, "/audit/shared/") || strings.HasSuffix(hit.path, "/.mbox/journal"))
	was, now := e.base.readOnly(), h.readOnly()
	switch {
	case now:
		e.sweep.readOnly.Add(1)
		if !was && !ledger {
			text, _ := os.ReadFile(h.Path(".mbox", "readonly"))
			return fmt.Errorf("the mailbox is read-only, and no flush of the ledger failed: %s", text)
		}
	case ledger && hit.name != "fsync" && !was && r.code == exitIO: // fsync is for what is new and still empty
		return fmt.Errorf("the ledger could not be flushed, and the mailbox is not read-only")
	}
	return nil
}

// stateLeft names what a command left behind: how it ended, and each call that
// changed something, with the length and the place of what it wrote.
func stateLeft(r ran) string {
	var state strings.Builder
	fmt.Fprintln(&state, r.code)
	for _, c := range r.trace {
		if numbers, ok := c.done(); ok && c.inHome && (c.changing || c.name == "utimensat") {
			fmt.Fprintln(&state, c.label, numbers)
		}
	}
	return state.String()
}

// heal says the next normal command; where the ledger could not be flushed, the
// one that is documented for that.
func (e *errnoRun) heal(h *sweepHome) error {
	if h.readOnly() {
		refused := h.run("send", "no")
		if refused.code != exitIO || !strings.Contains(refused.err, "mbox recover --after-io-error") {
			return fmt.Errorf("read-only, and send answers %d:\n%s", refused.code, refused.err)
		}
		if again := h.run("recover", "--after-io-error"); again.code != 0 {
			return fmt.Errorf("recover --after-io-error: exit code %d\n%s", again.code, again.err)
		}
	}
	if next := h.run("ls"); next.code != 0 {
		return fmt.Errorf("the next command: exit code %d\n%s", next.code, next.err)
	}
	return nil
}

// doneAtLast says the same line again, now that nothing fails: it is done, once.
func (e *errnoRun) doneAtLast(h *sweepHome) error {
	if r := e.sc.said(h); !slices.Contains(e.sc.again, r.code) {
		return fmt.Errorf("said again: exit code %d\n%s", r.code, r.err)
	}
	promised := e.journal
	if e.sc.effect.event != "" {
		promised = append(slices.Clip(promised), e.sc.effect)
	}
	if err := h.account(promised, !e.sc.often); err != nil {
		return fmt.Errorf("said again: %w", err)
	}
	if e.sc.after != nil {
		if err := e.sc.after(h); err != nil {
			return err
		}
	}
	return h.whole()
}

// A home that cannot be looked at is not taken for a folder without a mailbox:
// its id would be lost, and with it the beginning of the ledger's chain.
func TestInitTakesNoIDAway(t *testing.T) {
	needSweeps(t)
	bin := program(t)
	h := &sweepHome{T: t, bin: bin, home: filepath.Join(fastDir(t), "home")}
	h.must("init")
	before, err := os.ReadFile(h.Path(".mbox", "VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	for last := 1; last <= 16; last++ {
		r := h.traced(fmt.Sprint("newfstatat:error=EIO:when=1..", last), "init")
		after, err := os.ReadFile(h.Path(".mbox", "VERSION"))
		if err != nil || string(before) != string(after) || r.code != exitIO && r.code != exitConflict {
			t.Fatalf("the first %d looks fail: exit code %d: %s\nVERSION was %s\nand is %s (%v)", last, r.code, r.err, before, after, err)
		}
	}
}

// A flush that a signal interrupts has failed: it is not asked again, and where
// it was the ledger's the mailbox is read-only.
func TestInterruptedFlush(t *testing.T) {
	needSweeps(t)
	bin := program(t)
	for name, c := range map[string]struct {
		inject   string
		args     []string
		readOnly bool
	}{
		"the journal":       {"fdatasync:error=EINTR:when=1", []string{"send", "work"}, true},
		"the file system":   {"syncfs:error=EINTR:when=1", []string{"send", "work"}, true},
		"a file of its own": {"fsync:error=EINTR:when=1", []string{"decision", "new", "--context", "c", "--option", "o", "--decision", "d"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := &sweepHome{T: t, bin: bin, home: filepath.Join(fastDir(t), "home")}
			h.must("init", "--sync", "standard")
			if strings.HasPrefix(c.inject, "syncfs") { // without a journal the next line begins one
				if err := os.Remove(h.Path(".mbox", "journal")); err != nil {
					t.Fatal(err)
				}
			}
			r := h.traced(c.inject, c.args...)
			if _, ok := r.hit(); !ok {
				t.Fatalf("no flush: exit code %d\n%s", r.code, r.err)
			}
			if r.code != exitIO || h.readOnly() != c.readOnly || !strings.Contains(r.err, syscall.EINTR.Error()) {
				t.Errorf("exit code %d, read-only %v\n%s", r.code, h.readOnly(), r.err)
			}
			if fd := flushedAgain(r.trace); fd != "" {
				t.Errorf("descriptor %s was flushed again", fd)
			}
		})
	}
}

// TestErrnoFound repeats what the long form of the sweep has found.
func TestErrnoFound(t *testing.T) {
	needSweeps(t)
	bin := program(t)
	for _, found := range []struct {
		scene, call, of string
		name            string
		number          syscall.Errno
	}{
		// gofrs/flock keeps the lock, and the process itself finds it busy.
		{"cancel", "flock", "LOCK_UN", "EIO", syscall.EIO},
		// mbox's own bytes were taken for somebody's who does not let them be read.
		{"complete too late", "openat", "a.result.json~", "EACCES", syscall.EACCES},
		// What could not be opened for a moment was no drop any more.
		{"admit", "openat", "pending/d.json", "EACCES", syscall.EACCES},
		{"quarantine", "openat", "/d.json~", "EACCES", syscall.EACCES},
		{"archive", "openat", "failed/a.json", "EACCES", syscall.EACCES},
		// What could not be looked for was taken for moved.
		{"archive", "newfstatat", "artifacts/a.0", "EIO", syscall.EIO},
		// What could not be read was taken for changed by the agent.
		{"dream", "read", "memory/memory.md", "EIO", syscall.EIO},
		{"dream undo", "fstat", "memory/dreams/", "EIO", syscall.EIO},
		// Whose state could not be read was not born.
		{"dream", "read", "ada/state.json", "EIO", syscall.EIO},
	} {
		t.Run(found.scene+", "+found.call, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(sweepScenes, func(sc sweepScene) bool { return sc.name == found.scene })
			run := newErrnoRun(t, &errnoSweep{bin: bin}, &sweepScenes[i])
			points := 0
			for _, c := range run.compare() {
				if c.inHome && c.name == found.call && strings.Contains(c.text, found.of) {
					run.point(errnoPoint{c, found.name, found.number})
					points++
				}
			}
			if points == 0 {
				t.Fatal("there is no such call")
			}
		})
	}
}
