package brain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mbox/agents"
)

func command(t *testing.T, o Options) *Exec {
	t.Helper()
	o.Env = append([]string{"PATH=" + os.Getenv("PATH")}, o.Env...)
	b, err := NewExec(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestExecReply(t *testing.T) {
	t.Setenv("MBOX_TEST_SECRET", "seen")
	long := agents.Thought{Messages: question(strings.Repeat("x", 1<<20)).Messages}
	talk := agents.Thought{
		Messages: []agents.Message{
			{Role: "user", Content: "one"},
			{Role: "system", Content: "be"},
			{Role: "assistant", Content: "two"},
			{Role: "user", Content: "three"},
		},
		Schema: []byte(`{"type":"object"}`),
	}
	for name, c := range map[string]struct {
		o    Options
		q    agents.Thought
		want string
	}{
		"prompt":          {Options{Command: "cat"}, question("hi there"), "hi there\n"},
		"conversation":    {Options{Command: "cat"}, talk, "be\n\n[user]\none\n\n[assistant]\ntwo\n\n[user]\nthree\n\nAnswer with one JSON document that fits this JSON Schema, and with nothing else:\n{\"type\":\"object\"}\n"},
		"long prompt":     {Options{Command: "wc -c | tr -d ' '"}, long, fmt.Sprintln(1<<20 + 1)},
		"prompt not read": {Options{Command: "echo fine"}, long, "fine\n"},
		"environment":     {Options{Command: `echo "$A$MBOX_TEST_SECRET"`, Env: []string{"A=b"}}, question(""), "b\n"},
		"folder":          {Options{Command: "pwd", Dir: "/"}, question(""), "/\n"},
		"wrapped": {Options{Command: "echo x", Wrap: func(c *exec.Cmd) error {
			c.Args[2] = "echo wrapped"
			c.SysProcAttr = nil
			return nil
		}}, question(""), "wrapped\n"},
		"own group":  {Options{Command: `ps -o pgid= -p $$ | tr -d ' ' >x; echo $$ | diff - x && echo leader`, Dir: t.TempDir()}, question(""), "leader\n"},
		"left alone": {Options{Command: "sleep 1000 & echo fine"}, question(""), "fine\n"},
	} {
		t.Run(name, func(t *testing.T) {
			sounds := 0
			c.q.Heard = func() { sounds++ }
			r, err := command(t, c.o).Think(within(t), c.q)
			if err != nil || r.Text != c.want || r.Model != "exec" || sounds == 0 {
				t.Errorf("%.300q %v, want %.300q; heard %d times", r.Text, err, c.want, sounds)
			}
		})
	}
}

// A brain gets the agent's secrets, as they are at each start, and does not start without.
func TestExecUnlocks(t *testing.T) {
	token, failed := "first", error(nil)
	b := command(t, Options{Command: `echo "$TOKEN"`, Env: []string{"TOKEN=passed"}, Unlock: func(context.Context) ([]string, error) { return []string{"TOKEN=" + token}, failed }})
	for range 2 {
		if r, err := b.Think(within(t), question("")); err != nil || r.Text != token+"\n" {
			t.Errorf("%q %v, want %s", r.Text, err, token)
		}
		token = "second"
	}
	failed = errors.New("keys/identity: not private")
	r, err := b.Think(within(t), question(""))
	faultOf(t, agents.BrainCommand, r, err)
	if !strings.Contains(err.Error(), "keys/identity: not private") {
		t.Error(err)
	}
}

func TestExecFaults(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		want    agents.Fault
		text    string
	}{
		"exit code":      {"echo part; echo first >&2; printf 'bad \\033[2J thing\\nmbox:delay 3s\\n\\n' >&2; exit 3", agents.BrainCommand, `exit code 3: bad \x1b[2J thing`},
		"not there":      {"no-such-command-here", agents.BrainCommand, "exit code 127"},
		"signal":         {"echo part; kill -9 $$", agents.BrainCommand, "signal 9"},
		"busy":           {"echo part; echo 'mbox:delay 7s' >&2; exit 75", agents.BrainBusy, "busy"},
		"empty":          {"exit 0", agents.ReplyEmpty, ""},
		"too long":       {"yes", agents.ReplyTooLong, "1048576 bytes"},
		"much on stderr": {"head -c 3000000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit 1", agents.BrainCommand, "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := command(t, Options{Command: c.command})
			r, err := b.Think(within(t), question("hi"))
			e := faultOf(t, c.want, r, err)
			if !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "part") || len(err.Error()) > 1000 {
				t.Errorf("%q, want %q", err, c.text)
			}
			busy := c.want == agents.BrainBusy
			if held := b.Ready(within(t)); busy != (held != nil) || busy && (e.Delay < 7*time.Second || e.Delay > 9*time.Second) {
				t.Errorf("Ready then says %v, delay %v", held, e.Delay)
			}
		})
	}
}

func TestExecWrapRefuses(t *testing.T) {
	b := command(t, Options{Command: "echo x", Wrap: func(*exec.Cmd) error { return errors.New("no landlock here") }})
	r, err := b.Think(within(t), question("hi"))
	if e := faultOf(t, agents.BrainCommand, r, err); !strings.Contains(e.Text, "no landlock here") {
		t.Error(e)
	}
}

// When the context ends the whole group does, what ignores SIGTERM as well.
func TestExecCancelled(t *testing.T) {
	for name, line := range map[string]string{
		"polite":  `sleep 1000 & echo $! $$; wait`,
		"deaf":    `trap '' TERM; sleep 1000 & echo $! $$; wait; sleep 1000`,
		"cleanup": `trap 'echo bye >gone; exit 0' TERM; sleep 1000 & echo $! $$; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := command(t, Options{Command: "exec >pids; " + line, Dir: dir, Grace: 300 * time.Millisecond})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer cancel()
				for len(strings.Fields(read(dir, "pids"))) < 2 && t.Context().Err() == nil {
					time.Sleep(time.Millisecond)
				}
			}()
			if r, err := b.Think(ctx, question("hi")); !errors.Is(err, context.Canceled) || r != (agents.Reply{}) {
				t.Errorf("%+v %v", r, err)
			}
			for _, pid := range strings.Fields(read(dir, "pids")) {
				n, err := strconv.Atoi(pid)
				if err != nil || !dies(n) {
					t.Errorf("%s outlives its thought (%v)", pid, err)
				}
			}
			if name == "cleanup" && read(dir, "gone") != "bye\n" {
				t.Error("SIGTERM has not come first")
			}
		})
	}
}

func read(dir, name string) string {
	data, _ := os.ReadFile(filepath.Join(dir, name))
	return string(data)
}

// dies waits for a killed process to be dead; whoever reaps it may take longer.
func dies(pid int) bool {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
		out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
		if state := strings.TrimSpace(string(out)); err != nil || strings.HasPrefix(state, "Z") {
			return true
		}
	}
	return false
}

func TestExecParallel(t *testing.T) {
	dir := t.TempDir()
	b := command(t, Options{Command: "touch on; while ! test -e off; do :; done; echo fine", Dir: dir, Parallel: 1})
	ended := make(chan error)
	go func() {
		_, err := b.Think(within(t), question("hi"))
		ended <- err
	}()
	for _, err := os.Stat(filepath.Join(dir, "on")); err != nil; _, err = os.Stat(filepath.Join(dir, "on")) {
		time.Sleep(time.Millisecond)
	}
	faultOf(t, agents.BrainBusy, agents.Reply{}, b.Ready(within(t)))
	if err := os.WriteFile(filepath.Join(dir, "off"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := b.Ready(within(t)); err != nil {
		t.Error(err)
	}
}

func TestExecReady(t *testing.T) {
	b := command(t, Options{Command: "echo x", Dir: filepath.Join(t.TempDir(), "none")})
	faultOf(t, agents.BrainDown, agents.Reply{}, b.Ready(within(t)))
	r, err := b.Think(within(t), question("hi"))
	faultOf(t, agents.BrainCommand, r, err)
}

// Without an environment of its own the command has none: not mbox's.
func TestExecEnvironmentEmpty(t *testing.T) {
	t.Setenv("MBOX_TEST_SECRET", "seen")
	b, err := NewExec(Options{Command: `echo "<$MBOX_TEST_SECRET>"`})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := b.Think(within(t), question("hi")); err != nil || r.Text != "<>\n" {
		t.Errorf("%q %v", r.Text, err)
	}
}
