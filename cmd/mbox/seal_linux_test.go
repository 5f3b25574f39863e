package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// twoDays makes a home whose ledger has a file of yesterday and one of today. With
// append_only from the beginning, whoever begins the second seals the first.
func twoDays(t *testing.T, home, config string) *walk {
	t.Helper()
	bin := program(t)
	w := &walk{T: t, bin: bin, home: home}
	w.must(mailbox.Create(home, mailbox.Options{}))
	box, err := mailbox.Open(t.Context(), home, mailbox.Options{Now: func() time.Time { return time.Now().Add(-24 * time.Hour) }})
	w.must(err)
	task := new(mailbox.Task)
	task.ID, task.Task.Title = "old", "Of yesterday"
	_, err = box.Submit(t.Context(), task)
	w.must(err)
	w.must(box.Close())
	w.must(os.WriteFile(w.path("mbox.toml"), []byte(config), 0o600))
	w.ok("send", "Of today", "--id", "new")
	return w
}

func (w *walk) ok(args ...string) string {
	w.Helper()
	code, out, said := w.command(args...)
	if code != 0 {
		w.Fatalf("mbox %q: %d\n%s%s", args, code, out, said)
	}
	return out + said
}

// refused wants a command to be refused because of append-only files, and does what
// the hint says.
func (w *walk) refused(args ...string) {
	w.Helper()
	code, _, said := w.command(args...)
	_, command, found := strings.Cut(said, "hint: ")
	command, _, asked := strings.Cut(command, ", then the same command again")
	if code != exitIO || !found || !asked || !strings.Contains(command, "sudo chattr -a ") {
		w.Fatalf("mbox %q: %d\n%s", args, code, said)
	}
	w.shell(command)
}

// shell runs a command line as a person who has become root already.
func (w *walk) shell(command string) {
	w.Helper()
	if out, err := exec.Command("sh", "-c", strings.ReplaceAll(command, "sudo ", "")).CombinedOutput(); err != nil {
		w.Fatalf("%s: %v: %s", command, err, out)
	}
}

// days are the paths of the ledger's files.
func (w *walk) days() []string {
	w.Helper()
	files, err := filepath.Glob(w.path("audit/shared/*.jsonl"))
	w.must(err)
	return files
}

// doctor returns the lines of doctor's finding about append-only files.
func (w *walk) doctor() string {
	w.Helper()
	_, out, _ := w.command("doctor")
	i := strings.Index(out, "append-only")
	if i < 0 {
		return ""
	}
	lines := strings.SplitN(out[strings.LastIndexByte(out[:i], '\n')+1:], "\n", 3)
	return strings.Join(strings.Fields(lines[0]+" "+lines[1]), " ")
}

// Where mbox may not make files append-only, doctor names them and the command.
func TestDoctorNamesUnsealedFiles(t *testing.T) {
	w := twoDays(t, filepath.Join(t.TempDir(), "home"), "")
	if said := w.doctor(); said != "" {
		t.Errorf("unasked, doctor says %s", said)
	}
	w.must(os.WriteFile(w.path("mbox.toml"), []byte("[audit]\nappend_only = true\n"), 0o600))
	days := w.days()
	want := []string{"warn append-only", "1 of 1 finished files", filepath.Base(days[0]), " && sudo chattr +a " + filepath.Base(days[0])}
	if _, err := durable.Sealed(days[0]); err != nil {
		want = []string{"warn append-only", "has no append-only files"}
	}
	said := w.doctor()
	for _, part := range want {
		if !strings.Contains(said, part) {
			t.Errorf("doctor says\n%s\nwithout %q", said, part)
		}
	}
	if strings.Contains(said, filepath.Base(days[1])) {
		t.Errorf("doctor names the newest file:\n%s", said)
	}
}

// On a disk with the attribute, and as root: yesterday's file is sealed by whoever
// begins today's. All work goes on, also where the newest is sealed by hand; what
// must rename such a file says how it can, and then does.
func TestAppendOnlyHome(t *testing.T) {
	w := twoDays(t, filepath.Join(smallDisk(t), "home"), "[audit]\nappend_only = true\n")
	days := w.days()
	if err := os.WriteFile(days[0], nil, 0o600); err == nil {
		t.Error("yesterday's file can be written over")
	}
	if said := w.doctor(); !strings.HasPrefix(said, "ok append-only all 1 finished files") {
		t.Errorf("doctor says %s", said)
	}
	w.shell("chattr +a " + days[1])
	if said := w.doctor(); !strings.HasPrefix(said, "warn append-only") || !strings.Contains(said, "sudo chattr -a "+filepath.Base(days[1])) {
		t.Errorf("of the newest doctor says %s", said)
	}
	w.ok("send", "More", "--id", "more")
	w.ok("archive", "--older-than", "0s")
	w.ok("verify")
	w.ok("recover")
	w.ok("backup", filepath.Join(filepath.Dir(w.home), "backup"))
	w.ok("restore", filepath.Join(filepath.Dir(w.home), "backup"), filepath.Join(filepath.Dir(w.home), "other"))

	w.must(os.WriteFile(w.path(".mbox/readonly"), []byte("2026-01-01: the disk broke"), 0o600))
	w.refused("recover", "--after-io-error")
	w.ok("recover", "--after-io-error")
	w.ok("verify")

	w.remove("audit/shared/" + filepath.Base(days[1]))
	code, _, said := w.command("recover")
	id, err := home.Identity(w.home)
	w.must(err)
	if code == 0 {
		t.Errorf("the newest file is gone, and recover says %s", said)
	}
	w.refused("recover", "--forget-ledger="+id)
	w.ok("recover", "--forget-ledger="+id)
	w.ok("verify")
}
