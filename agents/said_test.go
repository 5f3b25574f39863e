package agents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mbox/mailbox"
)

func texts(said []Said) (out []string) {
	for _, l := range said {
		out = append(out, l.Text)
	}
	return out
}

// What an attempt says is bounded: the last of it is kept, and who reads along misses
// nothing that was put aside once, and never reads a line twice.
func TestSaidIsBounded(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := filepath.Join(home, "agents", "coder", "logs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l := &said{home: filepath.Dir(dir), name: "logs/job.3.log", most: 4000, warn: func(err error) { t.Error(err) }}
	defer l.close()
	var followed []string
	place := Place{}
	look := func() AttemptLog {
		t.Helper()
		logs, err := AttemptLogs(home, "coder", "job")
		if err != nil || len(logs) != 1 || logs[0].Epoch != 3 || logs[0].Agent != "coder" {
			t.Fatalf("%+v %v", logs, err)
		}
		if place, err = logs[0].Lines(place, func(s Said) error {
			followed = append(followed, s.Text)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return logs[0]
	}
	var all []string
	for i := range 400 {
		all = append(all, fmt.Sprintf("line %03d of what is said", i))
		l.say(SaidStderr, all[i])
		if i%15 == 0 {
			if log := look(); log.Size > 4000 {
				t.Fatalf("%d bytes are kept", log.Size)
			}
		}
	}
	log := look()
	if !slices.Equal(followed, all) {
		t.Errorf("who reads along has %d lines of %d", len(followed), len(all))
	}
	var kept []string
	if _, err := log.Lines(Place{}, func(s Said) error { kept = append(kept, s.Text); return nil }); err != nil {
		t.Fatal(err)
	}
	if n := len(kept); n < 20 || n > 100 || !slices.Equal(kept, all[len(all)-n:]) {
		t.Errorf("%d lines are kept, and they are not the last: %v", n, kept)
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("%d files", len(files))
	}
}

// What lies where a log is to be is neither followed nor written into.
func TestSaidFollowsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	canary := filepath.Join(dir, "canary")
	for name, lay := range map[string]func(at string) error{
		"a symlink":    func(at string) error { return os.Symlink(canary, at) },
		"another name": func(at string) error { return os.Link(canary, at) },
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			err := errors.Join(os.WriteFile(canary, []byte("alive"), 0o600), os.Mkdir(filepath.Join(home, "logs"), 0o700), lay(filepath.Join(home, "logs", "job.1.log")))
			if err != nil {
				t.Fatal(err)
			}
			warned := 0
			l := &said{home: home, name: "logs/job.1.log", most: 4000, warn: func(error) { warned++ }}
			l.say(SaidStderr, "words\nand more")
			l.close()
			if data, err := os.ReadFile(canary); string(data) != "alive" || err != nil || warned != 1 {
				t.Errorf("%q %v, %d warnings", data, err, warned)
			}
		})
	}
}

// Secrets that a command is known to have, and what looks like one, get neither into what
// is kept of its words, nor into its progress, nor into the failure.
func TestSaidHasNoSecrets(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{MaxAttempts: 1})
	id := s.submit("x")
	w := s.worker(`echo "mbox:progress 5 with $KEY" >&2; echo "a $KEY, $MBOX_TOKEN and password=hunter2 b" >&2; exit 3`)
	w.Secrets = []string{"canary", "canary-of-a-key", "b"}
	w.Env = append(os.Environ(), "KEY=canary-of-a-key")
	s.once(w)
	if got := texts(s.logged()); len(got) != 1 || got[0] != "a <redacted>, <redacted> and <redacted:16> b" {
		t.Errorf("kept: %q", got)
	}
	task, _ := s.task(id)
	if m := task.Result.Error.Message; strings.Contains(m, "canary") || !strings.Contains(m, "a <redacted>, <redacted>") {
		t.Errorf("the failure: %q", m)
	}
	if p := task.Mbox.Progress; p != nil && strings.Contains(p.Message, "canary") {
		t.Errorf("the progress: %q", p.Message)
	}
}

// What is too old or too much goes, but not what an attempt that runs has said, nor a
// file of another sort.
func TestSaidIsSwept(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	id := s.submit("x")
	s.run(s.worker(`echo running >&2; until [ -e $OUT/go ]; do sleep 0.02; done`))
	until(t, "its first words", func() bool { return len(s.logged()) == 1 })
	dir := filepath.Join(s.box.AgentDir("coder"), "logs")
	old := time.Now().Add(-48 * time.Hour)
	lay := func(name string, size int, at time.Time) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, make([]byte, size), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	lay("gone-a.1.log", 10, old)
	lay("gone-a.1.log.4", 10, old)
	lay("gone-b.1.log", 600, time.Now().Add(-time.Minute))
	lay("gone-c.7.log", 600, time.Now())
	lay("coder.log.1", 10, old)
	running := string(id) + ".1.log"
	if err := os.Chtimes(filepath.Join(dir, running), old, old); err != nil {
		t.Fatal(err)
	}
	w := &shift{Worker: *s.worker("true")}
	for _, c := range []struct {
		total int64
		want  []string
	}{
		{100_000, []string{"coder.log", "coder.log.1", "gone-b.1.log", "gone-c.7.log", running}},
		{1000, []string{"coder.log", "coder.log.1", "gone-c.7.log", running}},
	} {
		w.Logs = Logs{File: 1000, Total: c.total, Age: 24 * time.Hour}
		w.sweepLogs(t.Context())
		entries, err := os.ReadDir(dir)
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if err != nil || !slices.Equal(left, c.want) {
			t.Errorf("with %d bytes in all are left %v, want %v (%v)", c.total, left, c.want, err)
		}
	}
	s.give("go")
	s.untilState(id, mailbox.Completed)
}
