package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mbox/mailbox/durable"
)

// cannotCut is the exit code of cmd/prove/power on a machine that lacks what it needs.
const cannotCut = 77

// TestPowerLoss cuts the power under a real ext4: the short form of cmd/prove/power,
// which says what it does. TestPowerLossReplay needs neither root nor FUSE.
func TestPowerLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: power cuts take their time")
	}
	for _, program := range []string{"mkfs.ext4", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: %s is missing", program)
		}
	}
	power := builtPower(t)
	out, err := exec.Command(power, "-root", repoFile(), "-fs", "ext4", "-rounds", "8", "-images", "20", "-deep", "5",
		"-seed", fmt.Sprint(seedOf(t))).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == cannotCut {
		t.Skipf("SKIPPED: root, FUSE or loop devices are missing: %s", strings.TrimSpace(string(out)))
	}
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// builtPower is the program, which is a module of its own.
func builtPower(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "power")
	for _, args := range [][]string{{"mod", "download"}, {"build", "-buildvcs=false", "-o", bin, "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = repoFile("cmd", "prove", "power"), append(os.Environ(), "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil && args[0] == "mod" {
			t.Skipf("SKIPPED: the library for FUSE is missing: %s", out)
		} else if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	return bin
}

// A poweredStep is one command and what holds once it has answered.
type poweredStep struct {
	verb string // a line of shell
	id   string
	want string // "FOLDER TEXT": where the id's file lies, whatever else, and what stands in it
}

const tokenOf = ` --token $(jq -r .mbox.lease.token $MBOX_HOME.claim)`

// poweredSteps say what the mailbox holds after each of them. A claim does not
// outlive a reboot, so what is claimed counts as pending.
var poweredSteps = []poweredStep{
	{`mbox send "title a" --to coder --id a`, "a", "pending title a"},
	{`mbox send "title b" --to coder --id b`, "b", "pending title b"},
	{`mbox claim --agent coder > $MBOX_HOME.claim`, "a", "pending title a"},
	{`mbox progress a --percent 5 --message half` + tokenOf, "a", "pending title a"},
	{`mbox complete a --output "output a"` + tokenOf, "a", "completed output a"},
	{`mbox claim --agent coder > $MBOX_HOME.claim`, "b", "pending title b"},
	{`mbox release b` + tokenOf, "b", "pending title b"},
	{`mbox claim --agent coder > $MBOX_HOME.claim`, "b", "pending title b"},
	{`mbox fail b --final --reason "reason b"` + tokenOf, "b", "failed reason b"},
	{`mbox retry b`, "b", "pending title b"},
	{`mbox cancel b`, "b", "failed title b"},
	{`mbox decision new --context "context d" --option o --decision d`, "decision", "decisions context d"},
	{`mbox send "title c" --to coder --key k --id c`, "c", "pending title c"},
	{`mbox archive --older-than 0s`, "a", "archive output a"},
}

// unflushed are the flushes that the replay has to miss: a home from which they
// are left out must show a violation. This table knows how mbox flushes.
var unflushed = map[string]*regexp.Regexp{
	"the journal": regexp.MustCompile(`^\.mbox/journal$`),
}

// TestPowerLossReplay replays the system calls of real commands into homes as a
// power cut leaves them: without what was not flushed, with some of it, with
// all. It needs no root, and stands in for TestPowerLoss where that cannot run.
func TestPowerLossReplay(t *testing.T) {
	for _, program := range []string{"strace", "jq", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: %s is missing", program)
		}
	}
	if out, err := exec.Command("strace", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: strace may not trace here: %s", out)
	}
	p := newPowered(t)
	for name, ignore := range unflushed {
		if faults := p.cuts(t, ignore, 100, true); len(faults) == 0 {
			t.Errorf("void: without the flushes of %s nothing is found", name)
		} else {
			t.Logf("without the flushes of %s: %s", name, faults[0])
		}
	}
	for _, fault := range p.cuts(t, nil, sized(8, 16, 400), false) {
		t.Error(fault)
	}
}

// powered is the trace of the steps, and the home before it.
type powered struct {
	dir, home, boot string
	random          *rand.Rand
	calls           [][][]string // by step
	image           int
}

func newPowered(t *testing.T) *powered {
	t.Helper()
	boot, err := durable.BootID()
	if err != nil {
		t.Fatal(err)
	}
	dir := fastDir(t)
	p := &powered{dir: dir, home: filepath.Join(dir, "home"), boot: boot, random: rand.New(rand.NewPCG(seedOf(t), 1))}
	mustShell(t, p.home, "mbox init")
	mustShell(t, p.home, "cp -a $MBOX_HOME $MBOX_HOME.before")
	for i, s := range poweredSteps {
		trace := filepath.Join(dir, fmt.Sprintf("trace.%d", i))
		strace := fmt.Sprintf("strace -f -y -xx -s 2000000 -o %s -e trace=%s mbox", trace, replayedCalls)
		mustShell(t, p.home, strings.Replace(s.verb, "mbox", strace, 1))
		p.calls = append(p.calls, replayed(t, trace))
	}
	return p
}

// cuts cuts the power at n moments, drawn from all; first stops at the first
// violation.
func (p *powered) cuts(t *testing.T, ignore *regexp.Regexp, n int, first bool) (faults []string) {
	t.Helper()
	total := 0
	for _, calls := range p.calls {
		total += len(calls)
	}
	for range n {
		at, keep := p.random.IntN(total+1), []float64{0, 0, 1, 0.5}[p.random.IntN(4)]
		lazy := p.random.IntN(2) == 0
		faults = append(faults, p.cut(t, ignore, at, keep, lazy)...)
		if first && len(faults) > 0 {
			break
		}
	}
	return faults
}

// cut replays the calls before the given one, cuts the power, and looks.
func (p *powered) cut(t *testing.T, ignore *regexp.Regexp, at int, keep float64, lazy bool) (faults []string) {
	t.Helper()
	r := newReplay(t, p.home+".before")
	r.home, r.lazy, r.ignore = p.home, lazy, ignore
	done, before := 0, at
	for done < len(p.calls) && before >= len(p.calls[done]) {
		before -= len(p.calls[done])
		done++
	}
	var calls [][]string
	for _, c := range p.calls[:done] {
		calls = append(calls, c...)
	}
	if done < len(p.calls) {
		calls = append(calls, p.calls[done][:before]...)
	}
	for _, c := range calls {
		if err := r.step(c[0], c[1]); err != nil {
			t.Fatal(err)
		}
	}
	p.image++
	home := fmt.Sprintf("%s.%d", p.home, p.image)
	defer os.RemoveAll(home)
	if err := r.cut(home, keep, p.random, p.boot); err != nil {
		t.Fatal(err)
	}
	for _, fault := range afterPowerCut(home, done) {
		faults = append(faults, fmt.Sprintf("call %d, %.1f of the rest kept, lazy %v, %d commands done: %s", at, keep, lazy, done, fault))
	}
	return faults
}

// afterPowerCut recovers a home and compares it with what had been acknowledged
// after so many steps; the next one may have happened.
func afterPowerCut(home string, done int) (faults []string) {
	must := func(line string) bool {
		code, out := inShell(home, line)
		if code != 0 {
			faults = append(faults, fmt.Sprintf("%s: exit code %d\n%s", line, code, out))
		}
		return code == 0
	}
	if !must("mbox recover") {
		return faults
	}
	must("mbox verify")
	for id, want := range acknowledgedAfter(done) {
		next := want
		if done < len(poweredSteps) && poweredSteps[done].id == id {
			next = poweredSteps[done].want
		}
		if !holds(home, id, want) && !holds(home, id, next) {
			faults = append(faults, fmt.Sprintf("%s: acknowledged %q, and it is not so", id, want))
		}
	}
	must(`test $(grep -h '"event":"task_completed"' $MBOX_HOME/audit/shared/* | grep -c '"task_id":"a"') -le 1`)
	must(`mbox send last --id last --to last && mbox claim --agent last > $MBOX_HOME.claim && mbox complete last --output done` + tokenOf)
	must("mbox verify")
	must("python3 " + repoFile(".ci", "lint.py") + " --whole $MBOX_HOME")
	os.Remove(home + ".claim")
	return faults
}

func acknowledgedAfter(done int) map[string]string {
	want := map[string]string{}
	for _, s := range poweredSteps[:done] {
		want[s.id] = s.want
	}
	return want
}

// holds tells whether a file of the folder has the text, and is the id's.
func holds(home, id, want string) bool {
	folder, text, _ := strings.Cut(want, " ")
	patterns := []string{filepath.Join("tasks", folder, id+".json"), filepath.Join("tasks", folder, "*", id+".json"), filepath.Join(folder, id+"-*.md")}
	if folder == "completed" || folder == "failed" {
		patterns = append(patterns, filepath.Join("tasks", "archive", "*", id+".json")) // the last step
	}
	for _, pattern := range patterns {
		names, _ := filepath.Glob(filepath.Join(home, pattern))
		for _, name := range names {
			if data, err := os.ReadFile(name); err == nil && strings.Contains(string(data), text) {
				return true
			}
		}
	}
	return false
}

func mustShell(t *testing.T, home, line string) {
	t.Helper()
	if code, out := inShell(home, line); code != 0 {
		t.Fatalf("%s: exit code %d\n%s", line, code, out)
	}
}

func inShell(home, line string) (code int, out []byte) {
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = filepath.Dir(home)
	cmd.Env = append(os.Environ(), "MBOX_HOME="+home, "GOCOVERDIR=")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, out
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return exit.ExitCode(), bytes.TrimSpace(out)
	}
	return 137, append(out, err.Error()...)
}
