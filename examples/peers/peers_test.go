package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// The test program is its own worker process.
func TestMain(m *testing.M) {
	if is, err := child(); is {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Every peer does 50 tasks with four workers, and agrees on it.
func TestPeers(t *testing.T) {
	for _, p := range peers() {
		t.Run(p.name, func(t *testing.T) {
			if p.missing != nil {
				if err := p.missing(); err != nil {
					t.Skip(err)
				}
			}
			l := &lap{peer: p, dir: t.TempDir(), workers: 4, tasks: 50}
			s, err := l.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Sent) != 50 || len(s.Done) != 50 {
				t.Errorf("%d tasks were sent and %d done, want 50", len(s.Sent), len(s.Done))
			}
		})
	}
}

// A loop that loses or doubles a task, or a queue that counts otherwise, must
// not come out with a rate.
func TestCheckBites(t *testing.T) {
	two := []string{"a", "b"}
	for _, c := range []struct {
		what string
		s    score
		t    tally
		want string
	}{
		{"all is well", score{Sent: two, Done: []string{"b", "a"}}, tally{0, 2}, ""},
		{"a queue that keeps nothing", score{Sent: two, Done: two}, tally{0, -1}, ""},
		{"nothing was done", score{}, tally{0, 0}, "not one task"},
		{"a task is lost", score{Sent: two, Done: two[:1]}, tally{0, 1}, "2 tasks were sent and 1 done"},
		{"a task is done twice", score{Sent: two, Done: []string{"a", "a"}}, tally{0, 2}, "not the same ones"},
		{"a task is sent and done twice", score{Sent: []string{"a", "a"}, Done: []string{"a", "a"}}, tally{0, 2}, "more than once"},
		{"the queue holds one still", score{Sent: two, Done: two}, tally{1, 2}, "1 left"},
		{"the queue has done fewer", score{Sent: two, Done: two}, tally{0, 1}, "1 done"},
	} {
		err := c.s.check(c.t)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.what, err, c.want)
		}
	}
}

// One worker process drains what another process has filled, and all of it.
func TestDrain(t *testing.T) {
	out, proved, err := drain(t.Context(), t.TempDir(), peers(), 50, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var of []string
	for _, d := range out {
		of = append(of, d.Peer)
		if d.Rate <= 0 || d.Ratio <= 0 {
			t.Errorf("%+v is no figure", d)
		}
	}
	if want := []string{ours, "maildir/processes", "goqite/processes", "jetstream/processes"}; !slices.Equal(of, want) {
		t.Errorf("%v were drained, want %v", of, want)
	}
	if len(proved) != 2 || proved[0].Lines < 150 || proved[1].Lines != proved[0].Lines {
		t.Errorf("mbox verify has read %+v, want the lines of 50 tasks twice", proved)
	}
}

// What anybody drops comes to a worker that waits.
func TestPickUp(t *testing.T) {
	out, err := pickUp(t.Context(), t.TempDir(), peers(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != 2 || out[0].Peer != ours || out[0].P50 <= 0 || out[1].P99 < out[1].P50 {
		t.Errorf("got %+v", out)
	}
}

// The calls of a task are those of both processes, without those of the start.
func TestCallsOfATask(t *testing.T) {
	if exec.Command(strace[0], "-o", os.DevNull, "true").Run() != nil {
		t.Skip("strace may not trace here")
	}
	r := new(report)
	if err := r.calls(t.Context(), nil, &disk{dir: t.TempDir()}, peers()); err != nil {
		t.Fatal(err)
	}
	// Six renames, three lines and a new file or two need so many at least.
	if r.Calls < 20 || r.Calls > 1000 {
		t.Errorf("a task takes %v calls", r.Calls)
	}
}

// The table takes each figure from its place, and shows what is missing.
func TestFigures(t *testing.T) {
	r := &report{
		Disks: []*disk{{Name: journaled}},
		Results: []row{
			{Disk: journaled, Peer: ours, Workers: 1, Rates: []float64{100, 300}, CPU: 900},
			{Disk: journaled, Peer: ours, Workers: 4, Rates: []float64{200, 900}, CPU: 1300, Switches: 12},
			{Disk: journaled, Peer: "goqite/processes", Workers: 4, Ratio: 1.4},
		},
		Drained: []drained{{Peer: ours, Rate: 1500, Ratio: 1}, {Peer: "goqite/processes", Ratio: 0.9}},
		Pickups: []pickup{{journaled, ours, 1.25, 3}},
		Proved:  []verified{{"mbox verify", 50_000, time.Second / 2}},
	}
	want := []string{
		"-", "-", "0.90/1.30/-", "12", "1.40/-/-/-", "2.50/-", "1500", "-/0.90/-", "1.25/3.00", "100000",
	}
	var got []string
	for _, f := range r.figures() {
		got = append(got, f.measured)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What cannot be had is named in the report, and nothing else is left out.
func TestMissingPeerIsNamed(t *testing.T) {
	t.Setenv("PATH", "")
	run, out, err := (&options{only: names(peers())}).choose()
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, l := range out {
		if !strings.Contains(l.Why, "redis-server") {
			t.Errorf("%s is left out because %q", l.Peer, l.Why)
		}
		left = append(left, l.Peer)
	}
	if !slices.Equal(left, []string{"asynq", "redis", "asynq/processes"}) || len(run)+len(out) != len(peers()) {
		t.Errorf("left out: %v, %d others run", left, len(run))
	}
	var printed strings.Builder
	(&report{LeftOut: out}).printHead(&printed, run)
	if n := strings.Count(printed.String(), "LEFT OUT"); n != 3 {
		t.Errorf("%d peers are said to be left out, want 3:\n%s", n, printed.String())
	}
}

// What a worker had no time for is left, no more and no less.
func TestLeave(t *testing.T) {
	for left, want := range map[int64]string{1: "", 0: "-1 left", 2: "1 left"} {
		s, q := score{Sent: []string{"a", "b", "c"}, Done: []string{"c", "a"}}, tally{left, 2}
		s.leave(&q)
		if err := s.check(q); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d left: got %v, want %q", left, err, want)
		}
	}
}

// A ratio is that of the rounds, not of the medians.
func TestRatio(t *testing.T) {
	rows := []row{
		{Peer: "mbox", Base: "mbox", Rates: []float64{100, 400, 300}},
		{Peer: "other", Base: "mbox", Rates: []float64{50, 200, 400}},
		{Peer: "lonely", Base: "nobody", Rates: []float64{1, 2, 3}},
	}
	for i := range rows {
		rows[i].cpus, rows[i].switches = rows[i].Rates, rows[i].Rates
		rows[i].finish(rows)
	}
	if rows[1].Ratio != 2 || rows[1].Rate != 200 || rows[2].Ratio != 0 {
		t.Errorf("got ratio %v, rate %v, and %v without a base", rows[1].Ratio, rows[1].Rate, rows[2].Ratio)
	}
}

func TestUnknownPeerIsRefused(t *testing.T) {
	o, err := parse([]string{"-only", "mbox,gokite"})
	if err == nil {
		_, _, err = o.choose()
	}
	if err == nil || !strings.Contains(err.Error(), `"gokite"`) || errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
