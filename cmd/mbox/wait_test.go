package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A wait that a signal ends is no failure of the task, and says so by its exit code. The
// task goes on.
func TestWaitEndsBySignal(t *testing.T) {
	bin, home := program(t), filepath.Join(t.TempDir(), "agents")
	mbox := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), bin, append([]string{"--home", home}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("mbox %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	mbox("init", "--sync", "none")
	mbox("send", "Ended", "--id", "ended")
	mbox("cancel", "ended")
	mbox("send", "Open", "--id", "open")
	for _, tt := range []struct {
		signal syscall.Signal
		want   int
		line   []string
	}{
		{syscall.SIGINT, 130, []string{"wait", "ended", "open"}},
		{syscall.SIGTERM, 143, []string{"wait", "ended", "open"}},
		{syscall.SIGINT, 130, []string{"--log-level", "info", "send", "Wait for me", "--id", "mine", "--wait"}},
	} {
		cmd := exec.CommandContext(t.Context(), bin, append([]string{"--home", home}, tt.line...)...)
		told, err := cmd.StdoutPipe()
		if tt.line[0] != "wait" {
			told, err = cmd.StderrPipe()
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(told)
		first, err := lines.ReadString('\n') // it waits, or is about to
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(tt.signal); err != nil {
			t.Fatal(err)
		}
		var rest bytes.Buffer
		_, _ = rest.ReadFrom(lines)
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != tt.want {
			t.Errorf("%v: %v: exit code %d, want %d: %s%s", tt.line, tt.signal, got, tt.want, first, rest.String())
		}
	}
	for _, id := range []string{"open", "mine"} {
		if out := mbox("show", id, "--json"); !strings.Contains(out, `"status": "pending"`) {
			t.Errorf("%s does not wait any more: %s", id, out)
		}
	}
}

// Nor is it one of a claim that waits for a task.
func TestClaimEndsBySignal(t *testing.T) {
	bin, home := program(t), filepath.Join(t.TempDir(), "agents")
	mbox := func(args ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), bin, append([]string{"--home", home}, args...)...)
	}
	if out, err := mbox("init", "--sync", "none").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		cmd := mbox("claim", "--agent", "waiter", "--wait", "10m")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"begins", "waits"} { // it takes in the second one only while it waits
			admitted(t, home, fmt.Sprintf("%s-%d", name, want))
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%v: exit code %d, want %d", signal, got, want)
		}
	}
}

// admitted drops a task for somebody else, and waits until it was taken in.
func admitted(t *testing.T, home, id string) {
	t.Helper()
	path := filepath.Join(home, "tasks", "pending", id+".json")
	if err := os.WriteFile(path, []byte(`{"task":{"title":"Dropped"},"assignment":{"target_agent":"other"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(`"tx"`)) {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("nobody has taken %s in", id)
		}
	}
}
