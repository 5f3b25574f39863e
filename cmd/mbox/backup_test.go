package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// somebody runs the built program as a user who may not read everything.
type somebody struct {
	*testing.T
	bin, dir string
}

func newSomebody(t *testing.T) *somebody {
	t.Helper()
	bin := program(t)
	dir, err := os.MkdirTemp("/tmp", "mbox-somebody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &somebody{t, filepath.Join(dir, "bin"), filepath.Join(dir, "work")}
	data, err := os.ReadFile(bin)
	for _, err := range []error{err, os.Chmod(dir, 0o755), os.WriteFile(s.bin, data, 0o755), os.Mkdir(s.dir, 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() == 0 {
		if err := os.Chown(s.dir, nobodysID, nobodysID); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

const nobodysID = 65534

func (s *somebody) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.bin, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + s.dir, "MBOX_HOME=" + filepath.Join(s.dir, "home"), "TMPDIR=" + filepath.Join(s.dir, "tmp")}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodysID, Gid: nobodysID}}
	}
	return cmd
}

// says runs mbox, holds its exit code, and returns all that it wrote.
func (s *somebody) says(code int, args ...string) string {
	s.Helper()
	cmd := s.command(args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		s.Fatalf("mbox %q: %v, want %d\n%s", args, err, code, out)
	}
	return string(out)
}

// What cannot be read stops nothing: it is named, and the exit code says so only
// where it is part of the mailbox itself.
func TestBackupOfTheUnreadable(t *testing.T) {
	s := newSomebody(t)
	s.says(0, "init", "--sync", "none")
	s.says(0, "send", "One", "--id", "one")
	at := func(name string) string { return filepath.Join(s.dir, "home", name) }
	for _, name := range []string{"agents/coder", "agents/coder/closed"} {
		if err := os.MkdirAll(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeText(t, at("agents/coder/secret"), "x")
	for _, name := range []string{"agents/coder/secret", "agents/coder/closed"} {
		if err := os.Chmod(at(name), 0); err != nil {
			t.Fatal(err)
		}
	}
	out := s.says(0, "backup", "one.tar.zst")
	for _, name := range []string{"agents/coder/secret", "agents/coder/closed/"} {
		if !strings.Contains(out, "not in the backup: "+name+": permission denied") {
			t.Errorf("%s is not named:\n%s", name, out)
		}
	}
	s.says(0, "restore", "one.tar.zst", "restored")
	s.says(0, "--home", "restored", "verify")
	if err := os.Chmod(at("tasks/pending/one.json"), 0); err != nil {
		t.Fatal(err)
	}
	if out = s.says(exitIO, "backup", "two.tar.zst"); !strings.Contains(out, "the backup lacks "+at("tasks/pending/one.json")) {
		t.Error(out)
	}
	s.says(0, "backup", "--check", "two.tar.zst")
}

// A backup that is killed leaves nothing but its .part, which the next one takes
// over; two at once do not write to the same one.
func TestKilledBackup(t *testing.T) {
	s := newSomebody(t)
	s.says(0, "init", "--sync", "none")
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} { // 480 MB that take no place
		path := filepath.Join(s.dir, "home", "agents", name)
		writeText(t, path, name)
		if err := os.Truncate(path, 60<<20); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(s.dir, "tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(s.dir, "tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := s.command("backup", "x.tar.zst")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(s.dir, "x.tar.zst.part")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if info, err := os.Stat(part); err == nil && info.Size() > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no .part")
		}
	}
	s.says(exitBusy, "backup", "x.tar.zst")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("it was through before it was killed")
	}
	for _, dir := range []string{s.dir, filepath.Join(s.dir, "tmp"), filepath.Join(s.dir, "home", ".mbox", "tmp")} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != "home" && e.Name() != "tmp" && e.Name() != filepath.Base(part) {
				t.Errorf("it left %s in %s", e.Name(), dir)
			}
		}
	}
	s.says(0, "backup", "x.tar.zst")
	if _, err := os.Lstat(part); !os.IsNotExist(err) {
		t.Errorf("the .part is there still: %v", err)
	}
	s.says(0, "backup", "--check", "x.tar.zst")
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
