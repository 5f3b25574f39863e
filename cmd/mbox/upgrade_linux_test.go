package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"mbox/mailbox/durable"
)

// The last mbox of format 1, which the tests build to see what it makes of a home
// that it still has open. testdata/format1.tar.gz is a home that it has made, with
// tasks in every state, artifacts, a delegation, a lease, and a completion that was
// killed behind its line.
const lastOfFormat1 = "3c8e3f1fbf06934f48cf475d88cfef643505083e"

// formerHome unpacks that home.
func formerHome(t *testing.T, home string) {
	t.Helper()
	unpack := exec.Command("tar", "-xzf", filepath.Join("testdata", "format1.tar.gz"), "-C", home, "--strip-components=1")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// formerProgram builds the mbox of that commit. A checkout without history cannot.
func formerProgram(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("the mbox of format 1 is built in the normal form")
	}
	source, bin := t.TempDir(), filepath.Join(t.TempDir(), "mbox")
	// The checkout may be somebody else's.
	tree, err := exec.Command("git", "-c", "safe.directory=*", "-C", repoFile(), "archive", lastOfFormat1).Output()
	if err != nil {
		t.Skipf("NOT TESTED beside a living mbox of format 1: a checkout without history has no commit %s: %v", lastOfFormat1, err)
	}
	unpack := exec.Command("tar", "-x", "-C", source)
	unpack.Stdin = bytes.NewReader(tree)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	build := exec.Command("go", "build", "-o", bin, "./cmd/mbox")
	build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// The home that the last mbox of format 1 has left becomes one of this format by
// whichever command comes first, and nothing is lost: verify refuses it before, and
// finds nothing afterwards.
func TestRule39_FormerHome(t *testing.T) {
	bin := program(t)
	for name, first := range map[string][]string{
		"ls": {"ls"}, "send": {"send", "More", "--to", "coder"}, "recover": {"recover"},
		"backup": {"backup", filepath.Join(t.TempDir(), "b")},
	} {
		t.Run(name, func(t *testing.T) {
			h := &sweepHome{T: t, bin: bin, home: filepath.Join(t.TempDir(), "home")}
			formerHome(t, h.home)
			before := h.ledgerText()
			if r := h.run("verify"); r.code != exitError || !strings.Contains(r.err, "mbox ls brings it") {
				t.Errorf("verify of format 1: %d %s", r.code, r.err)
			}
			h.must(first...)
			if after := h.ledgerText(); !strings.HasPrefix(after, before) || strings.Count(after, `"mbox: brought from format 1 to 2"`) != 1 {
				t.Errorf("the ledger has become\n%s", strings.TrimPrefix(after, before))
			}
			h.must("recover")
			if err := h.whole(); err != nil {
				t.Error(err)
			}
			listed := h.must("ls").out
			for id, state := range map[string]string{
				"cut": `completed\?`, "done": `completed\?`, "failed": "cancelled", "parent": "pending", "held": "pending", "leased": "pending",
			} {
				if !regexp.MustCompile(`(?m)^` + id + ` +` + state + ` `).MatchString(listed) {
					t.Errorf("%s is not %s\n%s", id, state, listed)
				}
			}
			if data, err := os.ReadFile(h.Path("tasks", "artifacts", "done.1", "report.txt")); err != nil || string(data) != "a report\n" {
				t.Errorf("its artifact: %q %v", data, err)
			}
		})
	}
}

func (h *sweepHome) ledgerText() string {
	h.Helper()
	files, err := filepath.Glob(h.Path("audit", "shared", "*.jsonl"))
	if err != nil || len(files) == 0 {
		h.Fatal(err)
	}
	text := ""
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			h.Fatal(err)
		}
		text += string(data)
	}
	return text
}

// Beside a router of format 1 nothing is done (75, and it is named). A process of
// format 1 that just has the home open does not write a line afterwards, and a
// command of it refuses.
func TestRule38_BesideTheFormer(t *testing.T) {
	needSweeps(t)
	former := formerProgram(t)
	home := filepath.Join(t.TempDir(), "home")
	old := &sweepHome{T: t, bin: former, home: home}
	h := &sweepHome{T: t, bin: program(t), home: home}
	old.must("init", "--sync", "none")
	old.must("send", "First", "--id", "a", "--to", "coder")

	router := old.background("up")
	router.until("ready", func() bool {
		l, err := durable.TryLock(h.Path(".mbox", "locks", "router"))
		if err == nil {
			err = l.Unlock()
		}
		return errors.Is(err, durable.ErrBusy)
	})
	if r := h.run("ls"); r.code != exitBusy || !strings.Contains(r.err, "process "+strconv.Itoa(router.pid())) {
		t.Errorf("beside a router: %d %s", r.code, r.err)
	}
	if data, err := os.ReadFile(h.Path(".mbox", "VERSION")); err != nil || !strings.Contains(string(data), `"format": 1`) {
		t.Errorf("VERSION is %s (%v)", data, err)
	}
	router.end()

	waits := old.background("claim", "--agent", "tester", "--wait", "10m")
	waits.until("at it", func() bool { return waits.has(h.Path("audit", "shared")) || waits.has(h.Path(".mbox")) })
	h.must("ls")
	before := strings.Count(h.ledgerText(), "\n")
	h.must("send", "Second", "--id", "b", "--to", "tester")
	if code := waits.wait(); code == 0 {
		t.Error("a process of format 1 has claimed in a home of format 2")
	}
	if lines := strings.Count(h.ledgerText(), "\n"); lines != before+1 {
		t.Errorf("%d lines, there were %d, and one was to come", lines, before)
	}
	if r := old.run("ls"); r.code != exitError || !strings.Contains(r.err, "format 2") {
		t.Errorf("a command of format 1: %d %s", r.code, r.err)
	}
	if err := h.whole(); err != nil {
		t.Error(err)
	}
	h.must("claim", "--agent", "tester")
}

// background is a command that goes on.
type background struct {
	*testing.T
	cmd  *exec.Cmd
	stop context.CancelFunc
	said *bytes.Buffer
	done chan struct{}
}

func (h *sweepHome) background(args ...string) *background {
	h.Helper()
	ctx, cancel := context.WithCancel(h.Context())
	cmd := exec.CommandContext(ctx, h.bin, h.args(args)...)
	b := &background{T: h.T, cmd: cmd, stop: cancel, said: new(bytes.Buffer), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = b.said, b.said
	cmd.Env = append(os.Environ(), "MBOX_HOME="+h.home)
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	go func() { defer close(b.done); _ = cmd.Wait() }()
	h.Cleanup(b.end)
	return b
}

func (b *background) pid() int { return b.cmd.Process.Pid }

func (b *background) end() { b.stop(); <-b.done }

// until waits until it is so, or it has ended.
func (b *background) until(what string, so func() bool) {
	b.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-b.done:
			b.Fatalf("it has ended before it was %s: %s", what, b.said)
		default:
		}
		if time.Now().After(end) {
			b.Fatalf("it is not %s", what)
		}
	}
}

// has tells whether it watches a folder, or has a file below it open.
func (b *background) has(dir string) bool {
	fds := filepath.Join("/proc", strconv.Itoa(b.pid()), "fd")
	names, _ := os.ReadDir(fds)
	for _, name := range names {
		if to, err := os.Readlink(filepath.Join(fds, name.Name())); err == nil && (strings.HasPrefix(to, dir) || strings.Contains(to, "inotify")) {
			return true
		}
	}
	return false
}

// wait waits for its end.
func (b *background) wait() int {
	b.Helper()
	select {
	case <-b.done:
	case <-time.After(time.Minute):
		b.stop()
		<-b.done
		b.Log("it did not end by itself")
	}
	return b.cmd.ProcessState.ExitCode()
}
