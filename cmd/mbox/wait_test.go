package main

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
