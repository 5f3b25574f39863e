package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKillBehindAnswer kills the worker of an agent that thinks when its answer is in the
// channel, and the item is not completed yet. Then it works again, with another thought:
// the message has one answer, which is the item's result.
func TestKillBehindAnswer(t *testing.T) {
	needSweeps(t)
	h := &sweepHome{T: t, bin: program(t), home: filepath.Join(fastDir(t), "home")}
	h.must("init", "--sync", "standard")
	if err := os.WriteFile(h.Path("mbox.toml"), []byte("retry_base = \"1ms\"\n[agents.coder.brain]\nkind = \"exec\"\ncommand = \"cat reply.json\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.must("create-channel", "office")
	h.must("post", "office", "@coder who is there?")
	h.thinks("first")
	// Each flush takes so long that the item is not completed before the kill.
	worker := h.command("strace", "-f", "-o", os.DevNull, "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_enter=300ms", h.bin, "worker", "--agent", "coder", "--once")
	worker.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if found, _ := filepath.Glob(h.Path("channels", "office", "reply-*.json")); len(found) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Error("it does not answer")
			break
		}
	}
	_ = syscall.Kill(-worker.Process.Pid, syscall.SIGKILL)
	_ = worker.Wait()
	h.must("recover")
	if done := h.must("ls", "--for", "coder", "--state", "completed", "--json").out; done != "" {
		t.Fatalf("the kill came late: %s", done)
	}
	h.thinks("second")
	h.must("worker", "--agent", "coder", "--once")
	h.must("worker", "--agent", "coder", "--once")
	if said := h.must("read", "office", "--json").out; strings.Count(said, `"reply_to"`) != 1 || !strings.Contains(said, `"text":"first"`) {
		t.Errorf("said: %s", said)
	}
	var item struct {
		ID string `json:"id"`
	}
	if done := h.must("ls", "--for", "coder", "--state", "completed", "--json").out; json.Unmarshal([]byte(done), &item) != nil {
		t.Fatalf("done: %s", done)
	}
	if shown := h.must("show", item.ID, "--output").out; !strings.Contains(shown, `"first"`) {
		t.Errorf("the item has %s", shown)
	}
	if err := h.whole(); err != nil {
		t.Error(err)
	}
}

// thinks has the coder answer so.
func (h *sweepHome) thinks(answer string) {
	h.Helper()
	folder := h.Path("agents", "coder", "workspace")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "reply.json"), []byte(`{"actions":[],"answer":"`+answer+`"}`), 0o600); err != nil {
		h.Fatal(err)
	}
}
