package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// A pane is a terminal in which mbox top runs: tmux is the terminal, and says what stands
// on it.
type pane struct {
	t            *testing.T
	socket, home string
	bin          string
}

// newPane makes a mailbox, and runs mbox with these arguments in a terminal of 100×30.
func newPane(t *testing.T, args string, env ...string) *pane {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("no tmux, which is the terminal of mbox top: .ci/need tmux")
	}
	bin := program(t)
	dir, err := os.MkdirTemp("", "mbox-top-") // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	p := &pane{t: t, socket: filepath.Join(dir, "tmux"), home: filepath.Join(dir, "home"), bin: bin}
	t.Cleanup(func() {
		p.tmuxMay("kill-server")
		os.RemoveAll(dir)
	})
	p.mbox("init", "--sync", "none")
	shell := fmt.Sprintf("env %s MBOX_HOME=%s sh -c 'trap : INT; echo BEFORE; %s %s; echo ENDED $?; exec cat'", strings.Join(env, " "), p.home, p.bin, args)
	p.tmux("new-session", "-d", "-x", "100", "-y", "30", shell)
	return p
}

// mbox runs a command on the pane's mailbox, outside of it.
func (p *pane) mbox(args ...string) string {
	p.t.Helper()
	run := exec.Command(p.bin, args...)
	run.Env = append(os.Environ(), "MBOX_HOME="+p.home, "MBOX_AGENT=", "MBOX_TASK_ID=")
	out, err := run.CombinedOutput()
	if err != nil {
		p.t.Fatalf("mbox %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (p *pane) tmuxMay(args ...string) (string, error) {
	run := exec.Command("tmux", append([]string{"-u", "-S", p.socket, "-f", "/dev/null"}, args...)...)
	run.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := run.CombinedOutput()
	return string(out), err
}

func (p *pane) tmux(args ...string) string {
	p.t.Helper()
	out, err := p.tmuxMay(args...)
	if err != nil {
		p.t.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (p *pane) keys(keys ...string) { p.t.Helper(); p.tmux(append([]string{"send-keys"}, keys...)...) }

// tells asks tmux about its terminal.
func (p *pane) tells(format string) string {
	return strings.TrimSpace(p.tmux("display-message", "-p", format))
}

// shows waits until the screen has what it should, and nothing that it should not.
func (p *pane) shows(has, not string) string {
	p.t.Helper()
	screen := ""
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		screen = p.tmux("capture-pane", "-p")
		if regexp.MustCompile(has).MatchString(screen) && (not == "" || !regexp.MustCompile(not).MatchString(screen)) {
			return screen
		}
	}
	p.t.Fatalf("after 20 s the screen has not %q, or has %q:\n%s", has, not, screen)
	return ""
}

// ended waits until the board is gone and the screen is as it was before.
func (p *pane) ended(code int) {
	p.t.Helper()
	p.shows(fmt.Sprintf(`(?m)^BEFORE\nENDED %d$`, code), "PENDING|ledger ─")
	if got := p.tells("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"); got != "0 1 0" {
		p.t.Errorf("the terminal is not as it was: %s", got)
	}
	p.keys("typed", "Enter") // is there an echo?
	p.shows(`(?m)^typed\ntyped$`, "")
}

func TestTopInTerminal(t *testing.T) {
	t.Parallel()
	p := newPane(t, "top")
	p.shows(`PENDING 0`, "")
	if p.tells("#{alternate_on}") != "1" {
		t.Error("the board is not on the alternate screen")
	}
	title := p.tells("#{pane_title}")

	p.mbox("send", "Buy milk", "--id", "milk")
	p.shows(`PENDING 1 oldest(.|\n)*Buy milk(.|\n)*task_created +milk +human sent milk to any`, "")
	p.mbox("send", "Sell eggs", "--id", "eggs", "--priority", "urgent")
	p.shows(`PENDING 2(.|\n)*»\d+s +Sell eggs(.|\n)*Buy milk`, "")
	hostile := filepath.Join(filepath.Dir(p.home), "hostile.json")
	if err := os.WriteFile(hostile, []byte(`{"id":"odd","task":{"priority":"low","title":"\u001b[2J\u001b]0;owned\u0007\u001b[31m \u202e 漢字 end"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p.mbox("send", hostile)
	p.shows(`(?m)PENDING 3(.|\n)*\\x1b\[2J`, "")
	p.keys("End", "d")
	p.shows(`task odd(.|\n)*\\x1b\[2J\\x1b\]0;owned\\x07\\x1b\[31m \\u202e 漢字 end`, "")
	if now := p.tells("#{pane_title}"); now != title {
		t.Errorf("a task has set the title of the terminal: %q, not %q", now, title)
	}

	p.keys("Escape")
	p.shows("PENDING 3", "task odd")
	p.keys("/", "milk")
	p.shows(`/milk█(.|\n)*enter keeps`, "Sell eggs")
	p.keys("Enter")
	p.shows(`filter milk`, "Sell eggs")
	p.keys("d")
	p.shows(`task milk(.|\n)*pending and ready(.|\n)*can take it`, "")
	p.keys("l")
	p.shows(`ledger lines milk(.|\n)*task_created`, "can take it")
	p.keys("Escape")
	p.shows(`PENDING 3`, "ledger lines")

	p.keys("c")
	p.shows(`cancel milk\? Buy milk\n *y runs mbox cancel milk`, "")
	p.keys("n")
	p.shows(`cancel milk: not done`, "runs mbox")
	p.keys("c")
	p.shows(`y runs mbox cancel milk`, "")
	p.keys("y")
	p.shows(`FAILED 1(.|\n)*human cancelled milk(.|\n)*mbox cancel milk: done`, "")
	if out := p.mbox("why", "milk"); !strings.Contains(out, "human cancelled milk") || !strings.Contains(out, "failed") {
		t.Errorf("the ledger does not say who cancelled it:\n%s", out)
	}
	p.keys("Escape")
	p.shows(`Sell eggs.*Buy milk`, "filter milk")
	p.keys("Left")
	p.shows(`milk  failed  normal`, "")
	p.keys("r")
	p.shows(`retry milk\?`, "")
	p.keys("y")
	p.shows(`FAILED 0(.|\n)*mbox retry milk: done`, "")

	for _, size := range [][2]int{{40, 10}, {220, 60}, {20, 4}, {100, 30}} {
		p.tmux("resize-window", "-x", fmt.Sprint(size[0]), "-y", fmt.Sprint(size[1]))
		want := `PENDING 3(.|\n)*── ledger ─`
		if size[0] < 72 {
			want = `(?m)^pend 3 prog`
		}
		for line := range strings.Lines(p.shows(want, "")) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > size[0] {
				t.Errorf("%d cells on a terminal of %d: %s", n, size[0], line)
			}
		}
	}
	p.keys("?")
	p.shows(`enter d +describe the task`, "PENDING")
	p.keys("q")
	p.ended(0)
	p.mbox("verify")
}

// A board that may only look changes nothing: because it was told so, and because it is
// an agent's.
func TestTopReadOnly(t *testing.T) {
	t.Parallel()
	for args, c := range map[string]struct{ env, why string }{
		"top --readonly": {"", "--readonly"},
		"top":            {"MBOX_AGENT=coder", "this is an agent's command: its environment has MBOX_AGENT"},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			p := newPane(t, args, c.env)
			p.mbox("send", "Stay", "--id", "stay")
			p.shows(`only looking(.|\n)*PENDING 1`, "cancel")
			p.keys("c")
			p.shows("cancel: "+c.why, `runs|done`)
			p.keys("y", "C-c")
			p.ended(0)
			if out := p.mbox("ls", "--state", "pending"); !strings.Contains(out, "stay") {
				t.Errorf("the task is gone:\n%s", out)
			}
		})
	}
}

// A mailbox that becomes read-only, and one that is taken away, are told of on a board
// that goes on; a signal ends it and gives the terminal back.
func TestTopGoesOn(t *testing.T) {
	t.Parallel()
	p := newPane(t, "top")
	p.mbox("send", "One", "--id", "one")
	p.shows(`PENDING 1`, "")
	if err := os.WriteFile(filepath.Join(p.home, ".mbox", "readonly"), []byte("2026-11-21T00:00:00.000Z: the disk broke\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.shows(`the mailbox is read-only(.|\n)*the disk broke(.|\n)*PENDING 1`, "")
	p.keys("c")
	p.shows(`y runs mbox cancel one`, "")
	p.keys("y")
	p.shows(`mbox cancel one: .*read-only`, "")
	if err := os.Rename(p.home, p.home+".away"); err != nil {
		t.Fatal(err)
	}
	p.shows(`gone .*(no such file|missing)`, "")
	p.keys("?")
	p.shows(`quit`, "PENDING")
	pid := p.tells("#{pane_pid}")
	out, err := exec.Command("pkill", "-TERM", "-P", pid, "-x", "mbox").CombinedOutput()
	if err != nil {
		t.Fatalf("pkill: %v %s", err, out)
	}
	p.ended(0)
}

// A terminal that can do nothing gets lines, and one without colours none.
func TestTopWithoutScreen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ args, env string }{"plain": {"top --plain", ""}, "dumb": {"top", "TERM=dumb"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPane(t, c.args, c.env)
			p.shows(`(?m)^BEFORE\nmailbox +/.*\nrouter +no mbox up.*\nledger +seq 0\n(?s:.*)^pending +0\n`, "")
			p.mbox("send", "One", "--id", "one")
			p.shows(`task_created +one`, "")
			if p.tells("#{alternate_on} #{cursor_flag}") != "0 1" {
				t.Error("lines are not on the plain screen")
			}
			p.keys("C-c")
			p.shows(`(?m)^(\^C)?ENDED 0$`, "")
		})
	}
	t.Run("no colour", func(t *testing.T) {
		t.Parallel()
		for env, want := range map[string]bool{"NO_COLOR=1": false, "NO_COLOR=": true} {
			p := newPane(t, "top", env)
			p.mbox("send", "One", "--id", "one", "--priority", "urgent")
			p.shows(`PENDING 1(.|\n)*task_created`, "")
			if got := regexp.MustCompile(`\x1b\[[0-9;]*3[0-7][;m]`).MatchString(p.tmux("capture-pane", "-p", "-e")); got != want {
				t.Errorf("%s: colours are on the screen: %t", env, got)
			}
		}
	})
}
