package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// supervisorSocket is a socket such as systemd's, and the environment of one that it started.
func supervisorSocket(t *testing.T) (*net.UnixConn, []string) {
	dir, err := os.MkdirTemp("", "told") // a socket's name is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	name := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, append(os.Environ(), "NOTIFY_SOCKET="+name)
}

// hear waits for a word of a process, over others that may come before it.
func hear(t *testing.T, conn *net.UnixConn, want string, before ...string) {
	t.Helper()
	buffer := make([]byte, 4096)
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			t.Fatalf("%s was not told: %v", want, err)
		}
		got := string(buffer[:n])
		if got == want {
			return
		}
		if !slices.Contains(before, got) {
			t.Fatalf("%s was told, want %s", got, want)
		}
	}
}

// started is a command of mbox that ends with the test.
func started(t *testing.T, env []string, args ...string) (cmd *exec.Cmd, out *bytes.Buffer) {
	cmd, out = exec.Command(program(t), args...), &bytes.Buffer{}
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, out
}

// mbox up tells systemd when it serves, that it lives, and that it ends.
func TestUpTellsSystemd(t *testing.T) {
	home := filepath.Join(t.TempDir(), "agents")
	if out, err := exec.Command(program(t), "--home", home, "init", "--sync", "none").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	conn, env := supervisorSocket(t)
	cmd, out := started(t, append(env, "WATCHDOG_USEC=60000000"), "--home", home, "up")
	hear(t, conn, "READY=1", "WATCHDOG=1") // the first scan comes before
	hear(t, conn, "WATCHDOG=1")
	hear(t, conn, "WATCHDOG=1")
	_ = cmd.Process.Signal(syscall.SIGTERM)
	hear(t, conn, "STOPPING=1", "WATCHDOG=1")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Where no watchdog waits for this process, it is not told that it lives.
func TestUpIsNotWatched(t *testing.T) {
	home := filepath.Join(t.TempDir(), "agents")
	if out, err := exec.Command(program(t), "--home", home, "init", "--sync", "none").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	conn, env := supervisorSocket(t)
	another := "WATCHDOG_PID=" + strconv.Itoa(os.Getpid())
	cmd, out := started(t, append(env, "WATCHDOG_USEC=60000000", another), "--home", home, "up")
	hear(t, conn, "READY=1") // the first scan has been
	_ = cmd.Process.Signal(syscall.SIGTERM)
	hear(t, conn, "STOPPING=1")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A worker tells that it lives while it waits for tasks, and while it works: its loop does.
func TestWorkerIsWatched(t *testing.T) {
	home := filepath.Join(t.TempDir(), "agents")
	if out, err := exec.Command(program(t), "--home", home, "init", "--sync", "none").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(home, "mbox.toml"), []byte("sync = \"none\"\npoll_interval = \"1s\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	begun := filepath.Join(t.TempDir(), "begun")
	conn, env := supervisorSocket(t)
	cmd, out := started(t, append(env, "WATCHDOG_USEC=60000000"), "--home", home, "worker", "--agent", "one", "--grace", "0s", "--exec", "echo >"+begun+"; exec sleep 1000")
	hear(t, conn, "READY=1")
	for range 3 {
		hear(t, conn, "WATCHDOG=1")
	}
	if out, err := exec.Command(program(t), "--home", home, "send", "--to", "one", "Sleep").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for hear(t, conn, "WATCHDOG=1"); ; hear(t, conn, "WATCHDOG=1") {
		if _, err := os.Stat(begun); err == nil {
			break
		}
	}
	for range 3 {
		hear(t, conn, "WATCHDOG=1")
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	hear(t, conn, "STOPPING=1", "WATCHDOG=1")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// mbox worker tells it too; what a task's command gets does not name the socket.
func TestWorkerTellsSystemd(t *testing.T) {
	home := filepath.Join(t.TempDir(), "agents")
	for _, args := range [][]string{{"init", "--sync", "none"}, {"send", "--to", "one", "What do you see?"}} {
		if out, err := exec.Command(program(t), append([]string{"--home", home}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	seen := filepath.Join(t.TempDir(), "seen")
	conn, env := supervisorSocket(t)
	cmd, out := started(t, append(env, "WATCHDOG_USEC=60000000"), "--home", home, "worker", "--agent", "one", "--once", "--exec", "env >"+seen)
	hear(t, conn, "READY=1")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	variables, err := os.ReadFile(seen)
	if err != nil || !strings.Contains(string(variables), "MBOX_TASK_ID=") || strings.Contains(string(variables), "NOTIFY_SOCKET") || strings.Contains(string(variables), "WATCHDOG") {
		t.Errorf("%v\n%s", err, variables)
	}
}
