package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// stranger is a user whom no system has.
const stranger = 61234

// ownedHome is a mailbox of another user than root, and how to run mbox for it as
// either of them.
type ownedHome struct {
	t          *testing.T
	dir, home  string
	bin, spare string // the program, and a folder of root
}

func newOwnedHome(t *testing.T) *ownedHome {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: root is missing: the tests of another user's mailbox need it")
	}
	built := program(t)
	dir, err := os.MkdirTemp("/tmp", "mbox-owner-") // t.TempDir lets nobody else in
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	o := &ownedHome{t, dir, filepath.Join(dir, "theirs", "home"), filepath.Join(dir, "mbox"), filepath.Join(dir, "roots")}
	data, err := os.ReadFile(built)
	o.must(errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(o.bin, data, 0o755), os.Chmod(o.bin, 0o755)))
	o.must(errors.Join(os.Mkdir(filepath.Dir(o.home), 0o755), os.Chown(filepath.Dir(o.home), stranger, stranger), os.Mkdir(o.spare, 0o755)))
	return o
}

func (o *ownedHome) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

// as runs mbox as a user and returns its exit code and what it said.
func (o *ownedHome) as(uid uint32, args ...string) (int, string) {
	cmd := exec.Command(o.bin, args...)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/bin:/bin", "HOME=" + o.dir, "MBOX_HOME=" + o.home}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		o.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func (o *ownedHome) theirs(args ...string) string {
	o.t.Helper()
	code, said := o.as(stranger, args...)
	if code != 0 {
		o.t.Fatalf("mbox %q as the owner: %d: %s", args, code, said)
	}
	return said
}

// foreign lists what belongs to root under a folder.
func (o *ownedHome) foreign(dir string) (names []string) {
	o.t.Helper()
	o.must(filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != stranger {
			names = append(names, path)
		}
		return err
	}))
	return names
}

// Whoever is not the home's owner, root above all, is refused whatever he asks,
// and told how to ask as the owner. Nothing of his is left in the home.
func TestAnotherUsersMailbox(t *testing.T) {
	o := newOwnedHome(t)
	sudo := fmt.Sprintf(`sudo -u "#%d" mbox`, stranger)
	backup := filepath.Join(o.spare, "b.tar.zst")
	for what, dir := range map[string]string{"their folder": filepath.Dir(o.home), "a folder in theirs": o.home, "a folder in one in theirs": filepath.Join(o.home, "deep")} {
		if code, said := o.as(0, "init", dir, "--sync", "none"); code != exitPolicy || !strings.Contains(said, sudo) {
			t.Errorf("init in %s: %d: %s", what, code, said)
		}
	}
	o.theirs("init", "--sync", "none")
	o.theirs("send", "First", "--id", "first")
	for _, line := range []string{
		"send Second", "ls", "show first", "why first", "claim --agent coder", "cancel first", "retry first", "complete first --token 1",
		"verify", "verify --ledger-only", "recover", "doctor", "doctor --fix", "tail --no-follow", "archive", "audit show 1", "up", "worker --agent coder --once",
		"backup " + backup, "decision outcome decision-2026-02-16-001 Fine", "decision list", "init", "approve first",
	} {
		code, said := o.as(0, strings.Fields(line)...)
		switch {
		case line == "init" && code == exitConflict:
		case code != exitPolicy || !strings.Contains(said, sudo):
			t.Errorf("mbox %s as root: %d: %s", line, code, said)
		}
		if code, said := o.as(stranger+1, strings.Fields(line)...); code != exitPolicy && code != exitIO {
			t.Errorf("mbox %s as a third user: %d: %s", line, code, said)
		}
	}
	o.theirs("backup", filepath.Join(filepath.Dir(o.home), "b"))
	if code, said := o.as(0, "restore", filepath.Join(filepath.Dir(o.home), "b"), filepath.Join(filepath.Dir(o.home), "restored")); code != exitPolicy {
		t.Errorf("restore into their folder: %d: %s", code, said)
	}
	if names := o.foreign(filepath.Dir(o.home)); len(names) > 0 {
		t.Errorf("root has left %q", names)
	}
	o.theirs("send", "Third")
	if said := o.theirs("verify"); !strings.Contains(said, "no faults") {
		t.Error(said)
	}
	if code, said := o.as(0, "init", filepath.Join(o.spare, "own"), "--sync", "none"); code != 0 {
		t.Errorf("root's own: %d: %s", code, said)
	}
}

// What root has left behind, in agents' homes too, doctor names with the command
// that gives it back.
func TestDoctorFindsOthersFiles(t *testing.T) {
	o := newOwnedHome(t)
	o.theirs("init", "--sync", "none")
	o.theirs("send", "First", "--id", "first")
	for _, name := range []string{"audit/shared/x.jsonl", "tasks/pending/first.json", "agents/coder/workspace/deep/made", "agents/coder/locked/in"} {
		path := filepath.Join(o.home, name)
		o.must(os.MkdirAll(filepath.Dir(path), 0o700))
		if _, err := os.Lstat(path); err == nil {
			o.must(os.Chown(path, 0, 0))
		} else {
			o.must(os.WriteFile(path, nil, 0o600))
		}
		code, said := o.as(stranger, "doctor")
		want := fmt.Sprintf(`sudo chown -Rh "#%d" %s`, stranger, o.home)
		top := strings.Join(strings.Split(name, "/")[:2], "/")
		if code != exitError || !strings.Contains(said, "belongs to user 0") || !strings.Contains(said, top) || !strings.Contains(said, want) {
			t.Errorf("%s: %d: %s", name, code, said)
		}
		o.must(exec.Command("chown", "-Rh", fmt.Sprint(stranger), o.home).Run())
		if names := o.foreign(o.home); len(names) > 0 {
			t.Errorf("still root's: %q", names)
		}
		if strings.HasPrefix(name, "audit") {
			o.must(os.Remove(path))
		}
	}
	if _, said := o.as(stranger, "doctor"); strings.Contains(said, "belongs to user") {
		t.Error(said)
	}
}
