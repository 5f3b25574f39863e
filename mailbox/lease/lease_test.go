package lease

import (
	"os/exec"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What works on a lost task is ended whichever it is: one that stands in the way
// of the signal is killed. A number that another process got since, or of another
// boot or namespace, is nobody's here.
func TestRule13_ChildIsEnded(t *testing.T) {
	for name, c := range map[string]struct {
		line   string
		change func(n *home.Note)
		ended  bool
	}{
		"it ends":           {"read -r _", func(*home.Note) {}, true},
		"it stands still":   {"kill -STOP $$", func(*home.Note) {}, true},
		"it ignores":        {"trap '' TERM; echo; read -r _", func(*home.Note) {}, true},
		"another start":     {"read -r _", func(n *home.Note) { n.ChildStart = "1" }, false},
		"no start":          {"read -r _", func(n *home.Note) { n.ChildStart = "" }, false},
		"another boot":      {"read -r _", func(n *home.Note) { n.Boot = "another" }, false},
		"another namespace": {"read -r _", func(n *home.Note) { n.Namespace = "pid:[1]" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", "-c", c.line)
			in, err := cmd.StdinPipe()
			must(t, err)
			defer in.Close()
			must(t, cmd.Start())
			ended := make(chan struct{})
			go func() { defer close(ended); _ = cmd.Wait() }()
			defer func() { _ = cmd.Process.Kill(); <-ended }()
			l := New(t.TempDir(), audit.ThisWriter(), "this boot", time.Now, time.Hour, durable.None)
			n := l.note()
			n.Child, n.ChildStart = cmd.Process.Pid, home.StartTime(cmd.Process.Pid)
			c.change(&n)
			must(t, l.EndChild(&n))
			if lives := home.StartTime(cmd.Process.Pid) != ""; c.ended {
				<-ended
			} else if !lives {
				t.Error("it was ended")
			}
		})
	}
}
