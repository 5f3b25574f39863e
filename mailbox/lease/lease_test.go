package lease

import (
	"os/exec"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
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
			l := New(t.TempDir(), audit.ThisWriter(), "this boot", time.Now, home.Awake, time.Hour, durable.None)
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

// A wall clock that is put right and a machine that sleeps end nobody who lives, and
// keep nobody who hangs.
func TestRule13_ClockOfALease(t *testing.T) {
	const lasts = 15 * time.Minute
	for name, c := range map[string]struct {
		put         time.Duration // how far the wall clock is put forward before the last sign of life
		wall, awake time.Duration // how far each has gone on since
		change      func(n *home.Note)
		want        Verdict
	}{
		"a while":                       {0, lasts / 2, lasts / 2, nil, Held},
		"silent for too long":           {0, 2 * lasts, 2 * lasts, nil, Hung},
		"the clock put forward":         {0, 1000 * time.Hour, lasts / 2, nil, Held},
		"the machine asleep":            {0, time.Hour, 0, nil, Held},
		"a sign, the clock put forward": {1000 * time.Hour, lasts / 2, lasts / 2, nil, Held},
		"silent, the clock put forward": {1000 * time.Hour, 2 * lasts, 2 * lasts, nil, Hung},
		"no epoch in its note":          {0, time.Hour, 0, func(n *home.Note) { n.Epoch = 0 }, Hung},
		"another boot":                  {0, time.Hour, 0, func(n *home.Note) { n.Boot = "another" }, Hung},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, durable.MkdirAll(home.Private(dir, "leases"), durable.None))
			now, awake := time.Now(), 40*time.Hour
			l := New(dir, audit.ThisWriter(), "this boot", func() time.Time { return now }, func() time.Duration { return awake }, lasts, durable.None)
			lock, err := l.Begin("x", "secret")
			must(t, err)
			defer func() { must(t, lock.Unlock()) }()
			if c.change != nil {
				n := l.note()
				c.change(&n)
				must(t, home.AddNote(home.LeasePath(dir, home.LeaseName("x", "secret")), n))
			}
			held := &task.Task{ID: "x"}
			held.Mbox.Lease = &task.Lease{Token: "secret", Deadline: task.At(now.Add(lasts))}
			now, awake = now.Add(lasts/2+c.put), awake+lasts/2
			must(t, l.Renew("x", "secret"))
			now, awake = now.Add(c.wall), awake+c.awake
			got, note, err := l.Judge(held)
			must(t, err)
			if got != c.want {
				t.Errorf("judged %d, want %d", got, c.want)
			}
			if seen, ok := l.LastSeen(held, note); ok && c.change == nil && now.Sub(seen).Round(time.Second) != c.awake {
				t.Errorf("last seen %s ago, want %s", now.Sub(seen), c.awake)
			}
		})
	}
}
