package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A crash is a verb that is killed at one of its system calls after another,
// until it gets through.
type crash struct {
	name   string
	before []string // lines of shell that prepare the home
	verb   string   // the line that is killed
	again  string   // exit codes that the same line, said again, may have
	check  string   // a line that must succeed at the end
}

// The claims of the tasks below have these tokens in shell variables.
const claimed = `mbox send "A task" --id a && TOKEN=$(mbox claim --agent coder | jq -r .mbox.lease.token) && echo $TOKEN > $MBOX_HOME.token`

const withToken = ` --token $(cat $MBOX_HOME.token)`

var crashes = []crash{
	{"init", nil, `mbox init --sync none`, "0 5", `mbox send x`},
	{"send", nil, `mbox send "A task" --id a`, "0", `test $(mbox ls --json | wc -l) = 1`},
	{"send with a key", nil, `mbox send "A task" --key k`, "0", `test $(mbox ls --json | wc -l) = 1`},
	{"admission", nil, `mkdir -p $MBOX_HOME/drop && echo '{"task":{"title":"x"}}' > $MBOX_HOME/drop/d.json && (mv -n $MBOX_HOME/drop/d.json $MBOX_HOME/tasks/pending/ ; rmdir $MBOX_HOME/drop) ; exec mbox ls`, "0", `mbox show d`},
	{"claim", []string{`mbox send "A task" --id a`}, `mbox claim --agent coder`, "0 5", `test -f $MBOX_HOME/tasks/in-progress/a.json`},
	{"progress", []string{claimed}, `mbox progress a --percent 5 --message "on it"` + withToken, "0", `test -f $MBOX_HOME/tasks/in-progress/a.json`},
	{"complete", []string{claimed}, `mbox complete a --output '{"n":1}'` + withToken, "0", `test "$(mbox show a --json | jq .result.output.n)" = 1`},
	{"fail", []string{claimed}, `mbox fail a --final --reason no` + withToken, "0", `test -f $MBOX_HOME/tasks/failed/a.json`},
	{"release", []string{claimed}, `mbox release a --delay 1h` + withToken, "0", `test -f $MBOX_HOME/tasks/pending/a.json`},
	{"cancel", []string{claimed}, `mbox cancel a`, "0", `test -f $MBOX_HOME/tasks/failed/a.json`},
	{"retry", []string{`mbox send x --id a && mbox cancel a`}, `mbox retry a`, "0", `test -f $MBOX_HOME/tasks/pending/a.json`},
	{"archive", []string{`mbox send x --id a && mbox cancel a`}, `mbox archive --older-than 0s`, "0", `test -f $MBOX_HOME/tasks/archive/*/a.json`},
	{"decision new", nil, `mbox decision new --context c --option o --decision d`, "0", `mbox decision list`},
	{"decision outcome", []string{`mbox decision new --context c --option o --decision d > $MBOX_HOME.token`}, `mbox decision outcome $(cat $MBOX_HOME.token) good`, "0", `test "$(mbox decision list --json | jq -r .outcome)" = good`},
	{"change new", nil, `mbox change new --description d --rationale r --before b --after a --rollback u --verification v`, "0", `mbox change list`},
	{"recover", []string{claimed}, `mbox recover`, "0", `test -f $MBOX_HOME/tasks/in-progress/a.json`},
	{"backup", []string{`mbox send x --id a`}, `rm -f $MBOX_HOME.tar; exec mbox backup $MBOX_HOME.tar`, "0", `mbox restore $MBOX_HOME.tar $MBOX_HOME.copy && mbox --home $MBOX_HOME.copy verify`},
}

// changing are the system calls that change something on disk. A kill comes
// before the call is carried out, so the kills of a run stand between all of
// its steps. (A file that is made is written at once: openat needs no kill of
// its own.)
const changing = "write,pwrite64,renameat,renameat2,unlinkat,mkdirat,fchmod,fchmodat,utimensat,ftruncate"

// Whatever system call a verb is killed at: the mailbox verifies, the same line
// said again does it, and it is done once. What a sync mode flushes makes no
// difference to a kill, so these homes flush nothing.
func TestKilledVerbs(t *testing.T) {
	for _, program := range []string{"strace", "jq", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s", program)
		}
	}
	if out, err := exec.Command("strace", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace may not trace here: %s", out)
	}
	for _, c := range crashes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			step := 1
			if c.name == "init" || c.name == "backup" || testing.Short() { // they write some 300 files alike
				step = 17
			}
			base := filepath.Join(fastDir(t), "base")
			c.prepare(t, base)
			for k := 1; ; k += step {
				if through := c.kill(t, base, k); through {
					t.Logf("%d kills", (k-1)/step)
					return
				}
			}
		})
	}
}

// fastDir is a folder in memory, where the system has such: a kill loses nothing
// that was written, so the disk has no part in this.
func fastDir(t *testing.T) string {
	t.Helper()
	if dir, err := os.MkdirTemp("/dev/shm", "mbox-crash-"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

func (c crash) prepare(t *testing.T, home string) {
	t.Helper()
	if c.name != "init" {
		mustShell(t, home, "mbox init --sync none")
	}
	for _, line := range c.before {
		mustShell(t, home, line)
	}
}

// kill kills the verb at its k-th call in a copy of the home and looks at what
// is left. It returns true when the verb got through before that.
func (c crash) kill(t *testing.T, base string, k int) (through bool) {
	t.Helper()
	home := fmt.Sprintf("%s.%d", base, k)
	mustShell(t, home, fmt.Sprintf("test ! -e %[1]s || cp -a %[1]s $MBOX_HOME; test ! -e %[1]s.token || cp %[1]s.token $MBOX_HOME.token", base))
	defer func() {
		if !t.Failed() {
			left, _ := filepath.Glob(home + "*")
			for _, path := range left {
				os.RemoveAll(path)
			}
		}
	}()
	through = c.strike(t, home, k)
	if c.name != "init" {
		mustShell(t, home, "mbox verify")
	}
	if code, out := inShell(home, c.verb); !strings.Contains(" "+c.again+" ", fmt.Sprintf(" %d ", code)) {
		t.Fatalf("killed at call %d, then said again: exit code %d, want %s\n%s", k, code, c.again, out)
	}
	mustShell(t, home, c.check)
	mustShell(t, home, "mbox verify")
	mustShell(t, home, "python3 "+repoFile(".ci", "lint.py")+" $MBOX_HOME")
	return through
}

// strike runs the verb under strace. Only the main thread is traced: it does
// the file work.
func (c crash) strike(t *testing.T, home string, k int) (through bool) {
	t.Helper()
	strace := fmt.Sprintf(`strace -o /dev/null -e trace=%s -e inject=%[1]s:signal=KILL:when=%d mbox`, changing, k)
	code, out := inShell(home, strings.Replace(c.verb, "mbox", strace, 1))
	switch code {
	case 0:
		return true
	case 137:
		return false
	}
	t.Fatalf("under strace, call %d: exit code %d\n%s", k, code, out)
	return true
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
