package agents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/mailbox"
)

// lines are so many lines of 20 bytes, of which each is another.
func lines(from, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%019d\n", from+i)
	}
	return b.String()
}

// agentHome is a folder of an agent, with one for its logs.
func agentHome(t *testing.T) (home, logs string) {
	home = t.TempDir()
	logs = filepath.Join(home, "logs")
	if err := os.Mkdir(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	return home, logs
}

// What a unit tells is bounded while it is told: whole lines of the last half are kept
// aside, and whoever has the file open goes on in the same one.
func TestLogOfUnitIsBounded(t *testing.T) {
	t.Parallel()
	home, logs := agentHome(t)
	path := filepath.Join(logs, WorkerOutput)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trim := func(told, want, kept string) {
		t.Helper()
		_, err := f.WriteString(told)
		if err := errors.Join(err, trimOutput(home, WorkerOutput, 1000)); err != nil {
			t.Fatal(err)
		}
		now, err := os.ReadFile(path)
		if err != nil || string(now) != want {
			t.Errorf("it has %q, want %q: %v", now, want, err)
		}
		if aside, _ := os.ReadFile(path + ".1"); string(aside) != kept {
			t.Errorf("kept is %q, want %q", aside, kept)
		}
	}
	trim(lines(0, 50), lines(0, 50), "")
	trim(lines(50, 1), "", lines(26, 25)) // the half begins where a line does
	trim(lines(100, 3), lines(100, 3), lines(26, 25))
	trim("x\n"+lines(103, 97), "", lines(175, 25))
	trim("y\n"+lines(0, 60)+"cut", "", lines(36, 24)+"cut")
	trim(strings.Repeat("z", 20_000), "", "")
	if err := trimOutput(filepath.Join(home, "away"), WorkerOutput, 1000); err != nil {
		t.Errorf("of a home that is put away: %v", err)
	}
	if info, err := os.Stat(path + ".1"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// Only what is a file of the agent's own is touched, and no link is followed.
func TestLogOfUnitFollowsNothing(t *testing.T) {
	t.Parallel()
	canary := lines(0, 100)
	for _, c := range []struct {
		name   string
		lay    func(home, at, canary string) error
		warned bool
		kept   string
	}{
		{"a symlink", func(_, at, canary string) error { return os.Symlink(canary, at) }, false, ""},
		{"a symlink in the home", func(_, at, _ string) error { return os.Symlink("../canary", at) }, false, ""},
		{"another name", func(_, at, canary string) error { return os.Link(canary, at) }, true, ""},
		{"a folder", func(_, at, _ string) error { return os.Mkdir(at, 0o700) }, false, ""},
		{"logs elsewhere", func(home, at, canary string) error {
			return errors.Join(os.Remove(filepath.Dir(at)), os.Mkdir(filepath.Join(home, "mine"), 0o700), os.Symlink("mine", filepath.Dir(at)), os.Rename(canary, at), os.Symlink("mine/"+WorkerOutput, canary))
		}, false, ""},
		{"a symlink where it is kept", func(_, at, canary string) error {
			return errors.Join(os.WriteFile(at, []byte(lines(0, 100)), 0o600), os.Symlink(canary, at+".1"))
		}, false, lines(75, 25)},
		{"a folder where it is kept", func(_, at, _ string) error {
			return errors.Join(os.WriteFile(at, []byte(lines(0, 100)), 0o600), os.MkdirAll(at+".1/x", 0o700))
		}, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			home, logs := agentHome(t)
			path, at := filepath.Join(home, "canary"), filepath.Join(logs, WorkerOutput)
			if err := errors.Join(os.WriteFile(path, []byte(canary), 0o600), c.lay(home, at, path)); err != nil {
				t.Fatal(err)
			}
			err := trimOutput(home, WorkerOutput, 1000)
			if (err != nil) != c.warned {
				t.Errorf("it is told of: %v", err)
			}
			if data, err := os.ReadFile(path); string(data) != canary || err != nil {
				t.Errorf("the canary has %d bytes: %v", len(data), err)
			}
			if data, _ := os.ReadFile(at + ".1"); string(data) != c.kept {
				t.Errorf("kept is %q", data)
			}
		})
	}
}

// A worker bounds what units have told when it begins, and while it has nothing to do but
// to tell that. What it keeps is no attempt's.
func TestLogOfUnitIsTrimmedByWorkers(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{ScanInterval: 10 * time.Millisecond})
	logs := filepath.Join(s.box.AgentDir("coder"), "logs")
	lay := func() {
		t.Helper()
		for _, name := range []string{WorkerOutput, DreamOutput} {
			if err := errors.Join(os.MkdirAll(logs, 0o700), os.WriteFile(filepath.Join(logs, name), []byte(lines(0, 100)), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	look := func(when string) {
		t.Helper()
		for _, name := range []string{WorkerOutput, DreamOutput} {
			info, err := os.Stat(filepath.Join(logs, name))
			kept, failed := os.ReadFile(filepath.Join(logs, name+".1"))
			if err := errors.Join(err, failed); err != nil || info.Size() != 0 || string(kept) != lines(75, 25) {
				t.Errorf("%s, %s: %v, kept is %q", name, when, err, kept)
			}
		}
	}
	w := s.worker("true")
	w.Logs = Logs{File: 1000, Age: time.Nanosecond}
	lay()
	s.once(w)
	look("at the start")
	lay()
	idle := &shift{Worker: *w}
	idle.rest(t.Context())
	look("at rest")
	if found, err := AttemptLogs(s.box.Home(), "coder", ""); err != nil || len(found) > 0 {
		t.Errorf("%+v %v are no attempts", found, err)
	}
}
