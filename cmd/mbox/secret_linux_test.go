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

	"mbox/agents/secret"
)

// echoes tells whether a terminal shows what is typed.
func echoes(t *testing.T, terminal *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

// What is typed for a secret is not shown, and whatever ends the asking the terminal
// shows again afterwards.
func TestSecretIsTyped(t *testing.T) {
	bin, home := program(t), filepath.Join(t.TempDir(), "home")
	call := func(args ...string) *exec.Cmd {
		cmd := exec.Command(bin, append([]string{"--home", home}, args...)...)
		cmd.Env = append(os.Environ(), "MBOX_AGENT=", "MBOX_TASK_ID=")
		return cmd
	}
	if out, err := call("init", "--sync", "none").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, end := range map[string]func(cmd *exec.Cmd, master *os.File) error{
		"typed": func(_ *exec.Cmd, master *os.File) error {
			_, err := master.WriteString("what-is-typed\n")
			return err
		},
		"given up": func(cmd *exec.Cmd, _ *os.File) error { return cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			master, slave := newTerminal(t)
			defer master.Close()
			defer slave.Close()
			cmd, said := call("secret", "set", "--agent", "coder", "TYPED"), &bytes.Buffer{}
			cmd.Stdin, cmd.Stderr = slave, said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for late := time.Now().Add(time.Minute); echoes(t, slave); time.Sleep(time.Millisecond) {
				if time.Now().After(late) {
					t.Fatalf("it shows what is typed: %s", said)
				}
			}
			if err := end(cmd, master); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			if typed := name == "typed"; (err == nil) != typed || !strings.Contains(said.String(), "TYPED of coder (not shown): ") {
				t.Errorf("%v: %s", err, said)
			}
			if !echoes(t, slave) {
				t.Error("the terminal shows nothing any more")
			}
		})
	}
	if v, err := secret.Open(t.Context(), home, "coder"); err != nil || v["TYPED"] != "what-is-typed" {
		t.Errorf("%d secrets, %v", len(v), err)
	}
}
