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

	"mbox/mailbox/linttest"
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
const fileCalls = changes + ",read,pread64,flock,fstat,newfstatat,getdents64,lseek,statfs"

// changes are those of them that change something, and what tells whether a
// descriptor is flushed again after an error.
const changes = "openat,close,write,pwrite64,fsync,fdatasync,renameat,renameat2,unlinkat,mkdirat," +
	"syncfs,fchmod,fchmodat,utimensat,ftruncate,fallocate,linkat,symlinkat"

// choose takes about n of the points: every so-many-th, from a random one on.
// MBOX_POINTS says how many times n it shall be; the long form takes all.
func choose[T any](points []T, n int, random *rand.Rand) []T {
	n = sized((n+1)/2, n, len(points))
	if times, err := strconv.Atoi(os.Getenv("MBOX_POINTS")); err == nil {
		n *= times
	}
	if len(points) <= n {
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

// proves fails a sweep whose injections did not hit the calls that they were
// for: then nothing that it says counts.
func proves(t *testing.T, points, missed int64) {
	t.Helper()
	if missed*20 > points {
		t.Errorf("%d of %d calls were missed: the sweep proves nothing", missed, points)
	}
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
	cmd.Dir = filepath.Dir(h.home)
	cmd.Env = append(os.Environ(), "MBOX_HOME="+h.home, "GOCOVERDIR=", "TMPDIR="+cmd.Dir) // where a killed command leaves things
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
// do to one call; for a kill no more is traced than the verdict needs. With seccomp the
// kernel stops the command at those calls alone, which is several times as fast,
// but lets no signal in; strace wants -f for it. Calls are counted by thread.
func (h *sweepHome) traced(inject string, args ...string) ran {
	h.Helper()
	file := h.home + ".trace"
	argv := []string{"strace", "-y", "-o", file, "-e", "trace=" + tracedFor(inject), "-e", "signal=none"}
	if !strings.Contains(inject, ":signal=") {
		argv = append(argv, "-f", "--seccomp-bpf")
	}
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

// tracedFor is which calls are traced: where one is broken that kind alone, and
// for an error what changes something or flushes, too.
func tracedFor(inject string) string {
	name, what, broken := strings.Cut(inject, ":")
	switch {
	case !broken:
		return fileCalls
	case strings.HasPrefix(what, "signal="):
		return name
	}
	return name + "," + changes
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
	most  int      // how many of these lines there may be; 0 is 1
	in    []string // the folders that the task may be in; nil for any
	holds func(h *sweepHome) error
}

// account compares the promises with the home. once wants each effect exactly
// once; a task may be taken once more for each time that it was given back.
func (h *sweepHome) account(j promises, once bool) error {
	look := &storm{T: h.T, home: h.home}
	counts, given := map[string]int{}, map[string]int{}
	if days, err := os.ReadDir(h.Path("audit", "shared")); err == nil && len(days) > 0 {
		for _, f := range look.ledger() {
			id := ""
			if f.TaskID != nil {
				id = some(*f.TaskID)
			}
			counts[f.Event+" "+id]++
			if from, to := f.Details.From, f.Details.To; from != nil && to != nil && *from == "in-progress" && *to == "pending" {
				given[id]++
			}
		}
	}
	found, _ := look.files()
	folders := map[string]string{}
	for id, folder := range found {
		folders[some(id)] = folder
	}
	for _, p := range j {
		n, most := counts[p.event+" "+p.id], max(p.most, 1)
		if p.event == "task_picked" {
			most += given[p.id]
		}
		switch {
		case p.event != "" && n == 0:
			return fmt.Errorf("%s %s was acknowledged, and the ledger does not have it", p.event, p.id)
		case once && p.event != "" && n > most:
			return fmt.Errorf("%s %s was done %d times, at most %d are right", p.event, p.id, n, most)
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
func (h *sweepHome) whole() error {
	r := h.run("verify")
	if r.code != 0 || strings.Contains(r.out+r.err, "interrupted") || strings.Contains(r.out+r.err, "never committed") {
		return fmt.Errorf("verify: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	return linttest.Home(h.home)
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
