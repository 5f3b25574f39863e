package lease

import (
	"os"
	"os/exec"
	"strings"
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

// clocks are a wall clock, and for how long the machine has been awake.
type clocks struct {
	now   time.Time
	awake time.Duration
}

// on lets both go on.
func (c *clocks) on(wall, awake time.Duration) { c.now, c.awake = c.now.Add(wall), c.awake+awake }

const lasts = 15 * time.Minute

// begun is a lease that has begun by these clocks, its file, and the task until a deadline.
func begun(t *testing.T, c *clocks, deadline time.Duration) (l *Leases, path string, held *task.Task) {
	t.Helper()
	dir := t.TempDir()
	must(t, durable.MkdirAll(home.Private(dir, "leases"), durable.None))
	l = New(dir, audit.ThisWriter(), "this boot", func() time.Time { return c.now }, func() time.Duration { return c.awake }, lasts, durable.None)
	lock, err := l.Begin("x", "secret")
	must(t, err)
	t.Cleanup(func() { must(t, lock.Unlock()) })
	held = &task.Task{ID: "x"}
	held.Mbox.Lease = &task.Lease{Token: "secret", Deadline: task.At(c.now.Add(deadline))}
	return l, lock.Path(), held
}

// A wall clock that is put right and a machine that sleeps end nobody who lives, and
// keep nobody who hangs.
func TestRule13_ClockOfALease(t *testing.T) {
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
		"another boot":                  {0, time.Hour, 0, func(n *home.Note) { n.Boot = "another" }, Hung},
	} {
		t.Run(name, func(t *testing.T) {
			clk := &clocks{time.Now(), 40 * time.Hour}
			l, path, held := begun(t, clk, lasts)
			if c.change != nil {
				n := l.note()
				c.change(&n)
				must(t, home.AddNote(path, n))
			}
			clk.on(lasts/2+c.put, lasts/2)
			must(t, l.Renew("x", "secret"))
			if info, err := os.Stat(path); err != nil || info.ModTime().Sub(clk.now).Abs() > time.Second {
				t.Errorf("an older mbox sees a sign of life at %v, %v", info.ModTime(), err)
			}
			clk.on(c.wall, c.awake)
			got, note, err := l.Judge(held)
			must(t, err)
			if got != c.want {
				t.Errorf("judged %d, want %d", got, c.want)
			}
			if seen, ok := l.LastSeen(held, note); ok && c.change == nil && clk.now.Sub(seen).Round(time.Second) != c.awake {
				t.Errorf("last seen %s ago, want %s", clk.now.Sub(seen), c.awake)
			}
		})
	}
}

// The lease of a worker of an older mbox has no line of signs, and one of ours has its
// note where an older one looks for it.
func TestRule13_LeaseOfAnOlderVersion(t *testing.T) {
	clk := &clocks{time.Now(), home.Awake()}
	l, path, held := begun(t, clk, 0)
	data, err := os.ReadFile(path)
	must(t, err)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	note, err := l.note().Line()
	must(t, err)
	if len(lines) != 2 || lines[1]+"\n" != string(note) {
		t.Fatalf("a lease file holds %q", lines)
	}

	must(t, os.WriteFile(path, note, 0o600))
	must(t, os.Chtimes(path, clk.now, clk.now))
	for _, row := range []struct {
		later time.Duration
		want  Verdict
	}{{lasts / 2, Held}, {-time.Hour, Held}, {lasts/2 - time.Hour, Held}, {time.Hour, Hung}} {
		at := clk.now
		clk.now = at.Add(row.later)
		if got, n, err := l.Judge(held); err != nil || got != row.want || n == nil || n.PID != os.Getpid() {
			t.Errorf("%s later: %d, %+v, %v", row.later, got, n, err)
		}
		clk.now = at
	}
}

// A sign of life that somebody has written ahead puts the end off by one lease.
func TestRule13_SignFromTheFuture(t *testing.T) {
	clk := &clocks{time.Now(), 40 * time.Hour}
	l, path, held := begun(t, clk, 0)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt(home.Sign(1000*time.Hour), 0)
	must(t, err)
	for _, want := range []Verdict{Held, Hung} {
		clk.on(lasts+time.Minute, lasts+time.Minute)
		if got, _, err := l.Judge(held); err != nil || got != want {
			t.Errorf("judged %d, %v, want %d", got, err, want)
		}
	}
}
