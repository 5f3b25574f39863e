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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The sweeps break the real program at one system call after another: by a
// SIGKILL (sweep_kill_linux_test.go) or by an error (sweep_errno_linux_test.go).
// What they share is here: tracing, homes, and the look at what is left.
//
// The calls are counted by strace for each thread and each kind of call; a
// one-shot command does its file work on one thread (main.go). So a point is a
// kind of call and its number, and hits the same place in every run. The trace
// of the broken run says where it was.

// fileCalls are the system calls that have to do with files. close is traced to
// know which descriptor is which, and never broken.
const fileCalls = "openat,read,pread64,write,pwrite64,fsync,fdatasync,renameat,renameat2,unlinkat,mkdirat," +
	"fchmod,fchmodat,utimensat,ftruncate,fallocate,linkat,symlinkat,flock,fstat,newfstatat,getdents64,lseek,statfs"

// torture is the long form of the sweeps.
func torture() bool { return os.Getenv("MBOX_TORTURE") != "" }

// sweepSeed rotates the points that the short forms choose.
func sweepSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given, err := strconv.ParseUint(os.Getenv("MBOX_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("MBOX_SEED=%d repeats the choice of points", seed)
	return seed
}

// choose takes about n of the points: every so-many-th, from a random one on.
// MBOX_POINTS says how many times n it shall be; the long form takes all.
func choose[T any](points []T, n int, random *rand.Rand) []T {
	if times, err := strconv.Atoi(os.Getenv("MBOX_POINTS")); err == nil {
		n *= times
	} else if testing.Short() {
		n = (n + 1) / 2
	}
	if torture() || len(points) <= n {
		return points
	}
	stride := (len(points) + n - 1) / n
	var out []T
	for i := random.IntN(stride); i < len(points); i += stride {
		out = append(out, points[i])
	}
	return out
}

// needSweeps skips where the machine lacks what a sweep needs.
func needSweeps(t *testing.T) {
	t.Helper()
	for _, program := range []string{"strace", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: %s is missing", program)
		}
	}
	if out, err := exec.Command("strace", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: permission to trace with strace is missing: %s", out)
	}
}

// fastDir is a folder in memory, where the system has such: neither a kill nor
// an error that is injected has to do with the disk.
func fastDir(t *testing.T) string {
	t.Helper()
	if dir, err := os.MkdirTemp("/dev/shm", "mbox-sweep-"); err == nil {
		t.Cleanup(func() {
			if t.Failed() && os.Getenv("MBOX_KEEP") != "" {
				t.Logf("left to be looked at: %s", dir)
				return
			}
			os.RemoveAll(dir)
		})
		return dir
	}
	return t.TempDir()
}

// sweepHome is a home in which a sweep runs the real program.
type sweepHome struct {
	*testing.T
	bin   string
	home  string
	token string // of the last claim
	said  string // what the last command that prepared it printed
}

func (h *sweepHome) Path(parts ...string) string {
	return filepath.Join(append([]string{h.home}, parts...)...)
}

// ran is how a command ended.
type ran struct {
	code     int // -1: killed
	out, err string
	trace    []sysCall
}

// last is the call at which a command was killed.
func (r ran) last() sysCall {
	for _, c := range slices.Backward(r.trace) {
		if c.name != "close" {
			return c
		}
	}
	return sysCall{}
}

// hit is the call that was made to fail.
func (r ran) hit() (sysCall, bool) {
	i := slices.IndexFunc(r.trace, func(c sysCall) bool { return c.broken })
	if i < 0 {
		return sysCall{}, false
	}
	return r.trace[i], true
}

func (h *sweepHome) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "MBOX_HOME="+h.home, "GOCOVERDIR=")
	cmd.Dir = filepath.Dir(h.home)
	return cmd
}

func (h *sweepHome) run(args ...string) ran {
	h.Helper()
	return h.end(h.command(append([]string{h.bin}, h.args(args)...)...))
}

// args fills in the token of the last claim, and what a command printed before.
func (h *sweepHome) args(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		switch a {
		case "TOKEN":
			out[i] = h.token
		case "SAID":
			out[i] = h.said
		}
	}
	return out
}

func (h *sweepHome) end(cmd *exec.Cmd) ran {
	h.Helper()
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	r := ran{out: out.String(), err: said.String()}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		r.code = exit.ExitCode()
	} else if err != nil {
		h.Fatal(err)
	}
	return r
}

// must runs a command that has to succeed.
func (h *sweepHome) must(args ...string) ran {
	h.Helper()
	r := h.run(args...)
	if r.code != 0 {
		h.Fatalf("%s: mbox %s: exit code %d\n%s%s", h.home, strings.Join(args, " "), r.code, r.out, r.err)
	}
	if _, token, ok := strings.Cut(r.out, `"token": "`); ok {
		h.token, _, _ = strings.Cut(token, `"`)
	}
	return r
}

// traced runs the command under strace. inject is empty, or what strace is to
// do to one call.
func (h *sweepHome) traced(inject string, args ...string) ran {
	h.Helper()
	file := h.home + ".trace"
	argv := []string{"strace", "-y", "-o", file, "-e", "trace=close," + fileCalls, "-e", "signal=none"}
	if inject != "" {
		argv = append(argv, "-e", "inject="+inject)
	}
	r := h.end(h.command(append(append(argv, h.bin), h.args(args)...)...))
	data, err := os.ReadFile(file)
	if err != nil {
		h.Fatal(err)
	}
	r.trace = parseTrace(data, h.home)
	os.Remove(file)
	return r
}

// copyOf makes another home like this one.
func (h *sweepHome) copyOf(t *testing.T, home string) *sweepHome {
	t.Helper()
	c := *h
	c.T, c.home = t, home
	if _, err := os.Stat(h.home); err == nil {
		if out, err := exec.Command("cp", "-a", h.home, home).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		c.stay()
	}
	return &c
}

var inodeOf = regexp.MustCompile(`"inode": \d+`)

// stay writes into the boot record that the home is where it was: a copy would
// be recovered before anything else is done in it.
func (h *sweepHome) stay() {
	h.Helper()
	info, err := os.Stat(h.Path(".mbox"))
	if err != nil {
		h.Fatal(err)
	}
	record, err := os.ReadFile(h.Path(".mbox", "boot"))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	inode := fmt.Sprintf(`"inode": %d`, info.Sys().(*syscall.Stat_t).Ino)
	if err == nil {
		err = os.WriteFile(h.Path(".mbox", "boot"), inodeOf.ReplaceAll(record, []byte(inode)), 0o600)
	}
	if err != nil {
		h.Fatal(err)
	}
}

func (h *sweepHome) remove() { os.RemoveAll(h.home) }

// promises is what was acknowledged in a home. It lies outside the home, and it
// is the oracle: neither verify nor lint.py knows what was promised.
type promises []promise

// promise is an effect that was acknowledged: a line of the ledger, once or at
// least so often, and where the task lies then.
type promise struct {
	event string
	id    string   // "" for a line without a task
	in    []string // the folders that the task may be in; nil for any
	holds func(h *sweepHome) error
}

// account compares the promises with the home. once wants each effect exactly
// once.
func (h *sweepHome) account(j promises, once bool) error {
	look := &storm{T: h.T, home: h.home}
	counts := map[string]int{}
	if days, err := os.ReadDir(h.Path("audit", "shared")); err == nil && len(days) > 0 {
		for _, f := range look.ledger() {
			id := ""
			if f.TaskID != nil {
				id = some(*f.TaskID)
			}
			counts[f.Event+" "+id]++
		}
	}
	found, _ := look.files()
	folders := map[string]string{}
	for id, folder := range found {
		folders[some(id)] = folder
	}
	for _, p := range j {
		n := counts[p.event+" "+p.id]
		switch {
		case p.event != "" && n == 0:
			return fmt.Errorf("%s %s was acknowledged, and the ledger does not have it", p.event, p.id)
		case once && p.event != "" && n > 1:
			return fmt.Errorf("%s %s was done %d times", p.event, p.id, n)
		case p.in != nil && !slices.Contains(p.in, folders[p.id]):
			return fmt.Errorf("%s %s was acknowledged, and the task lies in %q", p.event, p.id, folders[p.id])
		}
		if p.holds != nil {
			if err := p.holds(h); err != nil {
				return fmt.Errorf("%s %s was acknowledged: %w", p.event, p.id, err)
			}
		}
	}
	return nil
}

// some makes one id of all that mbox names itself.
func some(id string) string {
	if strings.HasPrefix(id, "task-") {
		return someTask
	}
	return id
}

// whole wants that verify and the independent checker find nothing wrong, and
// that nothing is left to be done.
func (h *sweepHome) whole(l *linter) error {
	r := h.run("verify")
	if r.code != 0 || strings.Contains(r.out+r.err, "interrupted") || strings.Contains(r.out+r.err, "never committed") {
		return fmt.Errorf("verify: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	return l.check(h.home)
}

// cycle takes one more task through the mailbox.
func (h *sweepHome) cycle() error {
	h.must("send", "cycle", "--id", "cycle", "--to", "cycler")
	h.must("claim", "--agent", "cycler")
	h.must("complete", "cycle", "--token", "TOKEN", "--output", "done")
	return h.account(promises{
		{event: "task_created", id: "cycle"},
		{event: "task_picked", id: "cycle"},
		{event: "task_completed", id: "cycle", in: []string{"completed"}},
	}, true)
}

// exists tells whether the home is a mailbox: init writes that last.
func (h *sweepHome) exists() bool {
	_, err := os.Stat(h.Path(".mbox", "VERSION"))
	return err == nil
}

func (h *sweepHome) readOnly() bool {
	_, err := os.Stat(h.Path(".mbox", "readonly"))
	return err == nil
}

// recovery is the documented command that makes the home well.
func (h *sweepHome) recovery() []string {
	if h.readOnly() {
		return []string{"recover", "--after-io-error"}
	}
	return []string{"recover"}
}
