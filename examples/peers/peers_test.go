package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
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

// What cannot be had is named in the report, and nothing else is left out.
func TestMissingPeerIsNamed(t *testing.T) {
	t.Setenv("PATH", "")
	run, out, err := new(options).choose()
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
