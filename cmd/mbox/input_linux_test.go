package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A command that waits for what somebody types, or for a program's output, ends with the
// first signal, and has done nothing.
func TestSignalEndsReading(t *testing.T) {
	bin, home := program(t), filepath.Join(t.TempDir(), "home")
	call := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), bin, append([]string{"--home", home}, args...)...)
		cmd.Env = append(os.Environ(), "MBOX_AGENT=", "MBOX_TASK_ID=")
		return cmd
	}
	for _, line := range [][]string{{"init", "--sync", "none"}, {"send", "One", "--id", "one"}} {
		if out, err := call(line...).CombinedOutput(); err != nil {
			t.Fatalf("mbox %v: %v: %s", line, err, out)
		}
	}
	ledger := ledgerText(t, home)
	signals := map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143}
	for sent, want := range signals {
		for _, args := range []string{"send -", "post general -", "restore - " + filepath.Join(t.TempDir(), "restored"), "secret set --agent coder WORD --file -"} {
			t.Run(args+" "+sent.String(), func(t *testing.T) { endsBy(t, call(strings.Fields(args)...), sent, want) })
		}
		for _, args := range []string{"cancel --live", "recover --forget-ledger"} {
			t.Run(args+" "+sent.String(), func(t *testing.T) { promptEndsBy(t, call(strings.Fields(args)...), sent, want) })
		}
	}
	if now := ledgerText(t, home); now != ledger {
		t.Errorf("something was done:\n%s", now)
	}
}

// endsBy starts a command, gives it a byte, which it reads, and then a signal.
func endsBy(t *testing.T, cmd *exec.Cmd, sent syscall.Signal, want int) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = read, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := write.WriteString("{"); err != nil {
		t.Fatal(err)
	}
	late := time.Now().Add(20 * time.Second)
	for waiting := 1; waiting > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("it reads nothing")
		}
		if waiting, err = unix.IoctlGetInt(int(read.Fd()), unix.TIOCINQ); err != nil {
			t.Fatal(err)
		}
	}
	killedBy(t, cmd, sent, want, &said)
}

// promptEndsBy starts a command that asks, on a terminal, and answers with a signal.
func promptEndsBy(t *testing.T, cmd *exec.Cmd, sent syscall.Signal, want int) {
	t.Helper()
	master, slave := newTerminal(t)
	defer master.Close()
	defer slave.Close()
	cmd.Stdin, cmd.Stderr = slave, slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(20*time.Second, func() { master.WriteString("it asks nothing: \n") })
	defer late.Stop()
	var said bytes.Buffer
	for part := make([]byte, 512); !strings.HasSuffix(said.String(), ": ") && !strings.HasSuffix(said.String(), "[y/N] "); {
		n, err := master.Read(part)
		if err != nil {
			t.Fatalf("%v: %s", err, said.String())
		}
		said.Write(part[:n])
	}
	killedBy(t, cmd, sent, want, &said)
}

func killedBy(t *testing.T, cmd *exec.Cmd, sent syscall.Signal, want int, said *bytes.Buffer) {
	t.Helper()
	if err := cmd.Process.Signal(sent); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("exit code %d, want %d: %s", got, want, said)
	}
}

// ledgerText is all that the ledger says.
func ledgerText(t *testing.T, home string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(home, "audit", "shared", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of the ledger: %v", len(files), err)
	}
	var all strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
