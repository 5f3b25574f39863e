package life

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/mailboxtest"
)

// pending are the tasks of an agent that wait, but for its introduction.
func pending(t *testing.T, b *mailbox.Box) (out []*mailbox.Task) {
	t.Helper()
	for it, err := range b.List(t.Context(), mailbox.Filter{States: []mailbox.State{mailbox.Pending}, Target: "ada"}) {
		must(t, err)
		if it.Task.Mbox.Trigger != "" {
			out = append(out, it.Task)
		}
	}
	return out
}

// A heartbeat.md with something to do is a task at most each half hour, however often the
// worker begins anew, and one at a time.
func TestBeat(t *testing.T) {
	now := time.Now().UTC().Truncate(BeatEvery).Add(29 * time.Minute)
	b := mailboxtest.New(t, mailbox.Options{Now: func() time.Time { return now }})
	bear(t, b, "ada")
	file := filepath.Join(b.AgentDir("ada"), heartbeatFile)
	var k *Keeper
	beat := func(want int, when string) []*mailbox.Task {
		t.Helper()
		must(t, k.Beat(t.Context()))
		got := pending(t, b)
		if len(got) != want {
			t.Fatalf("%s: %d heartbeats wait, want %d", when, len(got), want)
		}
		return got
	}
	anew := func() {
		t.Helper()
		var err error
		k, err = Keep(b, "ada", "v")
		must(t, err)
	}
	do := func() {
		t.Helper()
		for {
			c, err := b.Claim(t.Context(), mailbox.ClaimRequest{Agent: "ada"})
			if err != nil {
				return
			}
			must(t, c.Complete(t.Context(), mailbox.Result{}))
		}
	}
	do()
	anew()
	beat(0, "as it was born")
	must(t, os.WriteFile(file, []byte("# Things\n\n \t\n## More\n#\n###### Least\n"), 0o600))
	beat(0, "with headings alone")
	for _, line := range []string{"#42: ask benji why the deploy is red", "####### seven"} {
		if !toDo("# Things\n" + line + "\n") {
			t.Errorf("%q counts as a heading", line)
		}
	}
	must(t, os.WriteFile(file, []byte("# Things\n- water the plants\n"), 0o600))
	one := beat(1, "with something to do")[0]
	if one.Mbox.Trigger != "heartbeat" || one.Source.Agent != "ada" || one.Assignment.TargetAgent != "ada" {
		t.Errorf("%+v", one)
	}
	do()
	now = now.Add(2 * time.Minute) // the next half hour begins
	beat(0, "two minutes later")
	anew()
	beat(0, "two minutes later, after a restart")
	now = now.Add(28 * time.Minute)
	beat(1, "half an hour later")
	now = now.Add(2 * BeatEvery)
	anew()
	beat(1, "while the last one is not done")
	do()
	must(t, os.Remove(file))
	beat(0, "without the file")
	must(t, os.WriteFile(file, []byte("- water the plants\n"), 0o600))
	_, err := mailbox.PauseAgent(t.Context(), b, mailbox.Pause{Agent: "ada", By: "human"})
	must(t, err)
	beat(0, "while it is paused")
	_, err = mailbox.ResumeAgent(t.Context(), b, "ada", "human", "")
	must(t, err)
	beat(1, "when it goes on")
	do()
	must(t, Rename(t.Context(), b, renaming("ada", "eve", nil)))
	k, err = Keep(b, "eve", "v")
	must(t, err)
	for _, want := range []bool{false, true} {
		must(t, k.Beat(t.Context()))
		if is, err := k.beating(t.Context()); err != nil || is != want {
			t.Errorf("with another name it looks after things at %v: %v %v", now, is, err)
		}
		now = now.Add(BeatEvery)
	}
}

// What is not read again has not changed; and what cannot be read is told once.
func TestHeartbeatIsReadOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), heartbeatFile)
	must(t, os.WriteFile(path, []byte("do\n"), 0o600))
	h := heartbeat{}
	must(t, h.look(path))
	h.text = "as it was read"
	if must(t, h.look(path)); h.text != "as it was read" {
		t.Error("it was read again")
	}
	must(t, os.WriteFile(path, []byte("more\n"), 0o600))
	if must(t, h.look(path)); h.text != "more\n" {
		t.Errorf("it was not read again: %q", h.text)
	}
	must(t, os.Truncate(path, mostHeartbeat+1))
	if h.look(path) == nil || h.text != "" {
		t.Error("what is too long is taken")
	}
	if err := h.look(path); err != nil {
		t.Errorf("it is told again: %v", err)
	}
	must(t, os.Remove(path))
	must(t, os.Symlink("elsewhere", path))
	if h.look(path) == nil {
		t.Error("a link is followed")
	}
}
