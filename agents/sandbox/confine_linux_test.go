//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Every act is refused to a confined process, and not to another one: else the
// refusal would prove nothing.
func TestForbidden(t *testing.T) {
	needSandbox(t)
	shared := world(t)
	if n := len(allActs()); n < 40 {
		t.Errorf("%d acts, want 40 at least", n)
	}
	// The acts run at the same time, and have ended when the world does.
	t.Run("acts", func(t *testing.T) {
		for i, a := range allActs() {
			if testing.Short() && i%5 != 0 {
				continue // the race detector's start in each process takes longer than the act
			}
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				a.check(t, shared)
			})
		}
	})
}

func (a act) check(t *testing.T, shared scene) {
	free := a.free
	if free == nil {
		free = []string{"ok"}
	}
	if os.Getuid() == 0 || !a.root && !(a.traces && yama()) {
		if got := said(t, actor(t, a.name, shared.fresh(t))); !slices.Contains(free, got) {
			t.Errorf("not confined: %s, want one of %q", got, free)
		}
	}
	s := shared.fresh(t)
	cmd := actor(t, a.name, s)
	s.mustConfine(t, cmd, false)
	if got := said(t, cmd); !slices.Contains(a.denied, got) {
		t.Errorf("confined: %s, want one of %q", got, a.denied)
	}
}

// yama tells whether only parents may trace.
func yama() bool {
	text, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	return err == nil && strings.TrimSpace(string(text)) != "0"
}

// fresh is the world with files and a victim of its own.
func (s scene) fresh(t *testing.T) scene {
	f := newScene(t)
	f.withVictim(t)
	f.Inherited, f.TCP4, f.TCP6, f.MPTCP, f.UDP4, f.UDP6 = s.Inherited, s.TCP4, s.TCP6, s.MPTCP, s.UDP4, s.UDP6
	f.Stream, f.Datagram, f.Abstract, f.SharedMemory, f.MemSize = s.Stream, s.Datagram, s.Abstract, s.SharedMemory, s.MemSize
	return f
}

// With the network granted IP works, and nothing else more than before.
func TestNetworkGranted(t *testing.T) {
	needSandbox(t)
	shared := world(t)
	for _, a := range networkActs() {
		want := a.denied
		switch a.name {
		case "TCP over IPv4", "TCP over IPv6", "listen on TCP", "UDP over IPv4", "UDP over IPv6", "netlink":
			want = []string{"ok"}
		case "Multipath TCP":
			want = a.free
		}
		s := shared.fresh(t)
		cmd := actor(t, a.name, s)
		s.mustConfine(t, cmd, true)
		if got := said(t, cmd); !slices.Contains(want, got) {
			t.Errorf("%s: %s, want one of %q", a.name, got, want)
		}
	}
}

// What the rules grant works, and what stays possible is no more than is said.
func TestAllowed(t *testing.T) {
	needSandbox(t)
	for name, line := range map[string]string{
		"own files":    `echo a >new && cat new own && mv new sub/new && ln sub/new hard && ln -s sub soft && cat soft/own && mkdir d && rmdir d && rm hard && chmod 700 own && touch own`,
		"own programs": `printf '#!/bin/sh\necho ran\n' >tool && chmod 700 tool && test "$(./tool)" = ran`,
		"read only":    `test "$(cat ../friend/note)" = hello && ls ../friend`,
		"write only":   `echo b >../drop/new && echo c >>../drop/letter && mkdir ../drop/d`,
		"pipes":        `test "$(echo a | cat | cat)" = a && mkfifo p && { echo b >p & read x <p; } && test $x = b && wait`,
		"devices":      `echo a >/dev/null && test -z "$(cat /dev/null)" && head -c 4 /dev/zero | wc -c && head -c 1 /dev/urandom | wc -c`,
		"scratch":      `test "$TMPDIR" = "$PWD/.tmp" && f=$(mktemp) && echo a >"$f" && test "$(dirname "$f")" = "$TMPDIR"`,
		"home":         `test "$HOME" = "$PWD" && cd && test "$(cat own)" = mine`,
		"children":     `sleep 60 & kill -0 $! && kill $! && ! wait $!`,
		"stat outside": `test -e "$OUTSIDE/.ssh/id_rsa" && cd "$OUTSIDE"`, // no layer refuses it
		"user":         `test "$(id -u):$(id -g)" = "$IDS"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.runs(t, "set -e\n"+line)
		})
	}
}

// runs runs a line in the workspace and wants it to end well.
func (s scene) runs(t *testing.T, line string) string {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir = s.Workspace
	cmd.Env = append(os.Environ(), "OUTSIDE="+s.Outside, "IDS="+strconv.Itoa(os.Getuid())+":"+strconv.Itoa(os.Getgid()))
	s.mustConfine(t, cmd, false)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

// The programs that agents use most run.
func TestPrograms(t *testing.T) {
	needSandbox(t)
	for program, line := range map[string]string{
		"python3": `python3 -c 'import subprocess, tempfile, json; f = tempfile.TemporaryFile(); print(subprocess.check_output(["echo", "ok"]).decode().strip())'`,
		"jq":      `echo '{"a":"ok"}' | jq -r .a`,
		"git":     `git init -q r && cd r && echo a >a && git add a && git -c user.name=a -c user.email=a@b commit -qm one && git gc -q && git log --format=tformat:ok`,
		"bash":    `bash -c 'cat <(echo ok)'`,
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat("/usr/bin/" + program); err != nil {
				t.Skipf("/usr/bin/%s is missing", program)
			}
			if got := newScene(t).runs(t, "PATH=/usr/bin:/bin; "+line); got != "ok\n" {
				t.Errorf("it says %q", got)
			}
		})
	}
}

// A worker starts its command behind a gate, in a group of its own, with the
// lease as descriptor 3, and reads its streams: all of it has to go through.
func TestBehindTheGate(t *testing.T) {
	needSandbox(t)
	const gate = `umask 077; read -r _ <&4 && exec /bin/sh -c "$0" 4<&-`
	s := newScene(t)
	lease, err := os.Open(filepath.Join(s.Outside, "file")) // outside: only the descriptor opens it
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", gate, `cat <&3; echo; cat; echo made >made; (: <&4) 2>/dev/null && echo open; exit 7`)
	cmd.Dir, cmd.Stdin, cmd.ExtraFiles = s.Workspace, strings.NewReader("input"), []*os.File{lease, r}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s.mustConfine(t, cmd, false)
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if group, err := syscall.Getpgid(cmd.Process.Pid); err != nil || group != cmd.Process.Pid {
		t.Errorf("group %d of process %d: %v", group, cmd.Process.Pid, err)
	}
	if _, err := w.WriteString("\n"); err != nil {
		t.Error(err)
	}
	w.Close()
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 || out.String() != "text\ninput" {
		t.Errorf("exit %d, output %q", code, out.String())
	}
	var info unix.Stat_t
	if err := unix.Stat(filepath.Join(s.Workspace, "made"), &info); err != nil || int(info.Uid) != os.Getuid() || info.Mode&0o777 != 0o600 {
		t.Errorf("made: uid %d, mode %o, %v", info.Uid, info.Mode, err)
	}
}

// The kernel kills a confined command when its worker dies: neither namespaces
// nor given up capabilities take the signal away.
func TestDiesWithWorker(t *testing.T) {
	needSandbox(t)
	worker := actor(t, "be a worker", newScene(t))
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, out)
	_ = worker.Process.Kill()
	if rest, err := io.ReadAll(out); len(rest) > 0 || err != nil { // the end comes when nobody holds the pipe
		t.Errorf("it still says %q, %v", rest, err)
	}
	_ = worker.Wait()
}

// beWorker starts a confined command and never ends.
func beWorker(s scene) error {
	cmd := exec.Command("/bin/sh", "-c", "echo $$; exec sleep 600")
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := Confine(cmd, s.rules()); err != nil {
		return err
	}
	if err := cmd.Run(); err != nil { // by the main goroutine, which keeps its thread
		return err
	}
	return errors.New("the command ended by itself")
}

// A bind mount gives a folder one more name, which no symlink tells of.
func TestRulesSeeThroughMounts(t *testing.T) {
	needSandbox(t)
	cmd := actor(t, "grant by another name", newScene(t))
	if err := isolate(cmd, true); err != nil {
		t.Fatal(err)
	}
	if got := said(t, cmd); !strings.Contains(got, ErrProtected.Error()) {
		t.Errorf("it says %q, want %v", got, ErrProtected)
	}
}

func grantByAnotherName(s scene) error {
	if err := unix.Mount(filepath.Join(s.Home, "audit"), filepath.Join(s.Outside, ".ssh"), "", unix.MS_BIND, ""); err != nil {
		return err
	}
	r := s.rules()
	r.ReadOnly = append(r.ReadOnly, filepath.Join(s.Outside, ".ssh", "shared"))
	_, err := r.grants()
	return err
}

// What the helper was told is gone, and so is what it could do.
func TestNothingStays(t *testing.T) {
	needSandbox(t)
	s := newScene(t)
	cmd := exec.Command("/bin/sh", "-c", "echo ready; exec sleep 600")
	cmd.Dir = s.Workspace
	s.mustConfine(t, cmd, false)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	waitFor(t, out)
	below, err := descendants(cmd.Process.Pid)
	if err != nil || len(below) != 1 {
		t.Fatalf("the keeper has below it %v: %v", below, err)
	}
	proc := "/proc/" + strconv.Itoa(below[0]) + "/"
	for name, words := range map[string][]string{
		"status": {"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"},
	} {
		text, err := os.ReadFile(proc + name)
		for _, word := range words {
			if err != nil || !strings.Contains(string(text), word) {
				t.Errorf("%s has no %q: %v\n%s", name, word, err, text)
			}
		}
	}
	for _, name := range []string{"cmdline", "environ"} {
		if text, err := os.ReadFile(proc + name); err != nil || strings.Contains(string(text), "Grants") || strings.Contains(string(text), helper) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// Both ends of a failed start: a code that tells, and one line.
func TestRefusals(t *testing.T) {
	needSandbox(t)
	s := newScene(t)
	start := func(change func(*exec.Cmd), path string) (int, string) {
		t.Helper()
		cmd := exec.Command(path)
		cmd.Dir = s.Workspace
		s.mustConfine(t, cmd, false)
		change(cmd)
		out, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(out)
	}
	as := func(*exec.Cmd) {}
	for _, c := range []struct {
		name   string
		path   string
		change func(*exec.Cmd)
		code   int
		text   string
	}{
		{"not there", "/bin/not-there", as, ExitNotFound, "sandbox: /bin/not-there: no such file or directory\n"},
		{"not granted", filepath.Join(s.Outside, "tool"), as, ExitRefused, "permission denied\n"},
		{"no plan", "/bin/true", func(c *exec.Cmd) { c.Args = c.Args[:4] }, ExitRefused, "sandbox: this is the helper of mbox, not a command\n"},
		{"a broken plan", "/bin/true", func(c *exec.Cmd) { c.Args[4] = "{" }, ExitRefused, "sandbox: plan: "},
		{"no namespaces", "/bin/true", func(c *exec.Cmd) { *c.SysProcAttr = syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER} }, ExitRefused, "sandbox: the helper has no namespaces of its own\n"},
		{"the caller's mounts", "/bin/true", func(c *exec.Cmd) { c.SysProcAttr.Cloneflags &^= unix.CLONE_NEWNS }, ExitRefused, "sandbox: the helper has no namespaces of its own\n"},
		{"a path changed", "/bin/true", func(*exec.Cmd) { swap(t, s.Friend, s.Peer) }, ExitRefused, "friend: too many levels of symbolic links\n"},
	} {
		code, text := start(c.change, c.path)
		if code != c.code || !strings.Contains(text, c.text) || strings.Count(text, "\n") != 1 {
			t.Errorf("%s: exit %d and %q, want %d and %q", c.name, code, text, c.code, c.text)
		}
	}
}

// swap puts a symlink in a folder's place, as an agent might between check and use.
func swap(t *testing.T, folder, target string) {
	t.Helper()
	if err := errors.Join(os.Rename(folder, folder+".old"), os.Symlink(target, folder)); err != nil {
		t.Fatal(err)
	}
}

// What an ordinary user cannot do anyway proves nothing, and what root can may
// hide what an ordinary user cannot: so root runs the tests as nobody once more.
func TestAsOrdinaryUser(t *testing.T) {
	needSandbox(t)
	if os.Getuid() != 0 {
		t.Skip("root is missing; the other tests have run as an ordinary user")
	}
	dir, err := os.MkdirTemp("/tmp", "confined-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := os.ReadFile(itself)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "sandbox.test")
	const nobody = 65534
	if err := errors.Join(os.WriteFile(binary, program, 0o755), os.Chown(dir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-test.v", fmt.Sprintf("-test.short=%v", testing.Short()), "-test.run=^(TestForbidden|TestAllowed|TestBehindTheGate|TestDiesWithWorker|TestNothingStays)$")
	cmd.Dir, cmd.Env = dir, []string{"TMPDIR=" + dir, "PATH=/usr/bin:/bin", "HOME=/nonexistent"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "--- SKIP") {
		t.Errorf("%v\n%s", err, out)
	}
}
