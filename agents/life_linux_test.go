package agents

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// What needs /proc, parent-death signals, setsid(1) or the options of GNU tools.

// What a command gets: package comment, "What a command gets and gives".
func TestCommandGets(t *testing.T) {
	s := newScene(t, mailbox.Options{})
	t.Setenv("INHERITED", "yes")
	id := s.submit("Look around")
	s.once(s.worker(`
		cat >$OUT/stdin
		cmp $OUT/stdin $MBOX_TASK_FILE && cmp $OUT/stdin $MBOX_HOME/tasks/in-progress/$MBOX_TASK_ID.json && echo same >$OUT/same
		echo $MBOX_TASK_FILE >$OUT/file
		stat -c %a $MBOX_TASK_FILE >$OUT/mode; umask >$OUT/umask; stat -c %a . >$OUT/modedir
		pwd >$OUT/pwd; echo $PWD >$OUT/pwdenv
		echo $MBOX_HOME,$MBOX_AGENT,$MBOX_TASK_ID,$MBOX_ATTEMPT,$MBOX_ARTIFACTS,$INHERITED >$OUT/env
		echo $MBOX_TOKEN >$OUT/token
		ps -o pgid= -p $$ | tr -d ' ' >$OUT/group; echo $$ >$OUT/pid
		readlink /proc/self/fd/3 >$OUT/held; cat <&3 >$OUT/inheld
		readlink /proc/self/fd/* | grep -c '/\.mbox/' >$OUT/ofmbox
		[ -e /proc/$$/fd/4 ] || [ -e /proc/$$/fd/5 ] || echo closed >$OUT/orders
	`))
	task, state := s.task(id)
	if state != mailbox.Completed {
		t.Fatalf("%s %+v", state, task.Result.Error)
	}
	var given mailbox.Task
	if err := schemas.Decode([]byte(s.written("stdin")), &given); err != nil {
		t.Fatal(err)
	}
	if given.ID != id || given.Result.Status != mailbox.InProgress || given.Task.Title != "Look around" {
		t.Errorf("stdin is %+v", given)
	}
	home := s.box.Home()
	workspace := filepath.Join(home, "agents/coder/workspace")
	for name, want := range map[string]string{
		"same":    "same",
		"file":    filepath.Join(workspace, ".task-"+string(id)+".1.json"),
		"mode":    "600",
		"umask":   "0077",
		"modedir": "700",
		"pwd":     workspace,
		"pwdenv":  workspace,
		"env":     strings.Join([]string{home, "coder", string(id), "1", filepath.Join(workspace, "artifacts", string(id)+".1"), "yes"}, ","),
		"token":   given.Mbox.Lease.Token,
		"group":   strings.TrimSpace(s.written("pid")),
		"held":    filepath.Join(home, ".mbox/children", string(id)+"."+fmt.Sprintf("%x", sha256.Sum256([]byte(given.Mbox.Lease.Token)))[:32]),
		"inheld":  "",
		"ofmbox":  "1",
		"orders":  "closed",
	} {
		if got := strings.TrimSuffix(s.written(name), "\n"); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// Whatever an attempt puts in the place of the folders that the next one gets, it
// is removed, and nothing that lies elsewhere.
func TestNextAttemptFindsItsFolders(t *testing.T) {
	for name, plant := range map[string]string{
		"symlinks":  `rm -r artifacts inputs; ln -s $OUT/else artifacts; ln -s $OUT/else inputs`,
		"files":     `rm -r artifacts inputs; : >artifacts; mkfifo inputs`,
		"its files": `mkdir -p artifacts/$ID.2/d inputs/$ID.2/d .task-$ID.2.json; : >artifacts/$ID.2/d/evil; : >inputs/$ID.2/d/evil`,
		"closed":    `mkdir -p inputs/$ID.2/d/e; chmod 0 inputs/$ID.2/d artifacts inputs .`, // which root does not see
		"deep ones": `perl -e 'chdir "inputs/$ENV{ID}.1"; mkdir "d"; for (1 .. 3000) { mkdir "p"; rename "d", "p/d"; rename "p", "d" }'`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, mailbox.Options{})
			id := s.submit("x")
			stop := s.run(s.worker(`
				export ID=$MBOX_TASK_ID; mkdir -p $OUT/else; : >$OUT/else/$ID.$MBOX_ATTEMPT
				if [ $MBOX_ATTEMPT = 1 ]; then ` + plant + `; exit 1; fi
				echo good >$MBOX_ARTIFACTS/good; ls $MBOX_INPUTS`))
			task := s.untilState(id, mailbox.Completed)
			stop()
			s.wantOutput(id, `""`)
			if a := task.Result.Artifacts; len(a) != 1 || filepath.Base(a[0].Path) != "good" {
				t.Errorf("it left %+v", a)
			}
			for _, attempt := range []string{".1", ".2"} {
				if _, err := os.Stat(filepath.Join(s.dir, "else", string(id)+attempt)); err != nil {
					t.Error(err)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(s.box.Home(), "agents/coder/workspace/inputs/*")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// A symlink that another command of the agent puts into a folder's place while
// mbox works there leads out of the workspace for neither.
func TestFoldersBesideAnother(t *testing.T) {
	s := newScene(t, mailbox.Options{MaxAttempts: 1})
	workspace, outside := filepath.Join(s.box.Home(), "agents/coder/workspace"), filepath.Join(s.dir, "outside")
	if err := os.MkdirAll(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	times := 0
	defer durable.SetFault(func(op durable.Op, path string) (bool, error) {
		for _, in := range []string{"artifacts", "inputs"} {
			if place := filepath.Join(workspace, in); op == durable.OpMkdir && strings.HasPrefix(path, place+"/") {
				times++
				if err := errors.Join(os.RemoveAll(place), os.Symlink(outside, place)); err != nil {
					t.Error(err)
				}
			}
		}
		return true, nil
	})()
	id := s.submit("x")
	s.once(s.worker(":"))
	s.wantFailed(id, "start", "escapes")
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 || times != 1 {
		t.Errorf("outside: %v (%v), after %d swaps", left, err, times)
	}
}

// A process that has left the group and the session ends with its command all the
// same, and cannot hold the task up by its stdout.
func TestEscapedProcess(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	id := s.submit("x")
	begun := time.Now()
	s.once(s.worker(`setsid sh -c 'echo $$ >$OUT/pid; exec sleep 1000' & until [ -s $OUT/pid ]; do sleep 0.01; done; echo done`))
	pid := s.pid("pid")
	defer syscall.Kill(pid, syscall.SIGKILL)
	s.wantOutput(id, `"done"`)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("that took %v", took)
	}
	if !dead(pid) {
		t.Error("it lives on")
	}
}

// A command that kills what keeps it loses its attempt, and nothing of it is left
// when that has ended.
func TestKeeperKilled(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{MaxAttempts: 1})
	id := s.submit("x")
	s.once(s.worker(`(setsid sh -c 'trap "" TERM; echo $$ >$OUT/pid; exec sleep 600' &)
		until [ -s $OUT/pid ]; do sleep 0.01; done; kill -KILL $PPID; sleep 600`))
	s.wantFailed(id, "signal", "killed by signal: killed")
	if pid := s.pid("pid"); !dead(pid) {
		syscall.Kill(pid, syscall.SIGKILL)
		t.Error("it lives on")
	}
}

// A command's end renews the lease, so that the grace for what it left behind
// does not cost the result.
func TestEndIsASignOfLife(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	s.submit("x")
	a := s.attempt(`touch -d '1 hour ago' $MBOX_HOME/.mbox/leases/*`)
	a.work()
	info, err := os.Stat(s.leaseFile())
	if err != nil || time.Since(info.ModTime()) > time.Minute {
		t.Errorf("the lease is of %v: %v", info.ModTime(), err)
	}
	if err := a.claim.Complete(t.Context(), mailbox.Result{}); err != nil {
		t.Fatal(err)
	}
}

// otherWorker is a worker in a process of its own, with a command of which a part
// leaves its session; both say their numbers.
func (s *scene) otherWorker(env ...string) (cmd *exec.Cmd, pid, escaped int) {
	s.Helper()
	path, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	cmd = exec.Command(path)
	cmd.Env = append(append(os.Environ(), env...), "OUT="+s.dir, "AGENTS_TEST_AS=worker", "AGENTS_TEST_HOME="+s.box.Home(),
		`AGENTS_TEST_EXEC=setsid sh -c 'trap "" TERM; echo $$ >$OUT/escaped; while :; do sleep 0.01; done' & echo $$ >$OUT/pid; wait`)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, s.pid("pid"), s.pid("escaped")
}

// What works for a killed worker ends with it, and then its task is handed out
// again.
func TestKilledWorker(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	id := s.submit("x")
	cmd, pid, escaped := s.otherWorker()
	if _, state := s.task(id); state != mailbox.InProgress {
		t.Fatalf("the task is %s", state)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	until(t, "all of its command is dead", func() bool { return dead(pid) && dead(escaped) })
	if _, err := s.box.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	task, state := s.task(id)
	if state != mailbox.Pending || task.Mbox.Attempt != 1 {
		t.Errorf("%s, attempt %d", state, task.Mbox.Attempt)
	}
	// The next worker does it, and sweeps up what the killed one left.
	if left, _ := filepath.Glob(filepath.Join(s.box.AgentDir("coder"), "workspace/.task-*")); len(left) != 1 {
		t.Errorf("left by the killed worker: %q", left)
	}
	s.run(s.worker(`echo done`))
	s.untilState(id, mailbox.Completed)
	s.wantOutput(id, `"done"`)
}

// What works for a worker that stands still is ended at the deadline, before the
// task is handed out again.
func TestStoppedWorker(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{Lease: time.Second})
	id := s.submit("x")
	cmd, pid, escaped := s.otherWorker("AGENTS_TEST_LEASE=1s")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, "the task is taken back", func() bool {
		if _, err := s.box.Scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, state := s.task(id)
		return state == mailbox.Pending
	})
	if !dead(pid) || !dead(escaped) {
		t.Error("its command lives")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	s.once(s.worker(`echo done`))
	s.wantOutput(id, `"done"`)
}
