package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The peer whose figures are held to something, and what they are held to.
const ours = "mbox/processes"

func (r *report) pickUps(ctx context.Context, o *options, d *disk, chosen []*peer) error {
	all, err := pickUp(ctx, d.dir, chosen, pickups)
	for i := range all {
		all[i].Disk = d.Name
	}
	r.Pickups = append(r.Pickups, all...)
	return err
}

func (r *report) drain(ctx context.Context, o *options, d *disk, chosen []*peer) (err error) {
	if o.drain == 0 {
		return nil
	}
	if r.Drained, r.Proved, err = drain(ctx, d.dir, chosen, o.drain, time.Duration(o.drainSeconds*float64(time.Second))); err != nil || o.json {
		return err
	}
	fmt.Printf("\n%-28s %10s %14s %12s\n", fmt.Sprintf("one worker, %d pending", o.drain), "tasks/s", "CPU µs/task", "mbox/peer")
	for _, d := range r.Drained {
		fmt.Printf("%-28s %10.0f %14.0f %12s\n", d.Peer, d.Rate, d.CPU, slash("%.2f", d.Ratio))
	}
	return nil
}

// alone is the processor time of a task in one process with one goroutine, in
// memory.
func (r *report) alone(ctx context.Context, o *options, _ *disk, chosen []*peer) error {
	p := find(chosen, ours)
	if p == nil {
		return nil
	}
	memory, err := os.MkdirTemp("/dev/shm", "peers-")
	if err != nil {
		return nil // another system: it has no such place
	}
	defer os.RemoveAll(memory)
	one := *p
	one.processes = false
	one.open = func(ctx context.Context, dir string, _ int) (queue, error) { return p.lazy(ctx, dir) }
	s, err := lap{peer: &one, workers: 1, tasks: 4000}.next(ctx, memory)
	if err == nil {
		r.Alone = s.cpu()
	}
	return err
}

// strace counts calls; what waits and what the Go runtime does for itself is no
// call of a task.
var strace = []string{
	"strace", "-f", "-c", "-qq", "--seccomp-bpf",
	"-e", "trace=!/^(futex|epoll_.*|.*nanosleep|madvise|sched_yield|getpid|tgkill|rt_sig.*)$",
}

// calls is how many system calls a task takes of the process that sends it and
// of the one that works: what more tasks take more, so that opening is not in it.
func (r *report) calls(ctx context.Context, o *options, d *disk, chosen []*peer) error {
	p := find(chosen, ours)
	if p == nil || exec.Command(strace[0], "-o", os.DevNull, "true").Run() != nil {
		return nil // strace may not trace here
	}
	const few, many = 100, 600
	var all [2]int64
	for i, tasks := range []int64{few, many} {
		trace := filepath.Join(d.dir, fmt.Sprintf("calls-%d", tasks))
		_, err := lap{peer: p, workers: 1, tasks: tasks, trace: trace}.next(ctx, d.dir)
		if err == nil {
			all[i], err = traced(trace)
		}
		if err != nil {
			return err
		}
	}
	r.Calls = float64(all[1]-all[0]) / (many - few)
	return nil
}

// traced adds the totals of all processes of a lap.
func traced(trace string) (total int64, err error) {
	files, err := filepath.Glob(trace + "-*")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return 0, err
		}
		lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		last := strings.Fields(string(lines[len(lines)-1]))
		if len(last) < 5 || last[len(last)-1] != "total" {
			return 0, fmt.Errorf("strace does not say a total: %q", last)
		}
		n, err := strconv.ParseInt(last[3], 10, 64)
		if err != nil {
			return 0, err
		}
		total += n
	}
	if total == 0 {
		err = errors.Join(err, errors.New("strace has counted nothing"))
	}
	return total, err
}

func find(ps []*peer, name string) *peer {
	if i := slices.IndexFunc(ps, func(p *peer) bool { return p.name == name }); i >= 0 {
		return ps[i]
	}
	return nil
}

// figure is one that mbox is held to. What was not measured is a dash.
type figure struct{ what, measured, wanted string }

func (r *report) figures() []figure {
	main := r.Disks[0].Name
	one, four, many := r.row(main, "mbox", 1), r.row(main, "mbox", 4), r.row(main, "mbox", 16)
	out := []figure{
		{"system calls a task, 1+1", slash("%.0f", r.Calls), "<= 110"},
		{"CPU ms a task, alone, tmpfs, no flushes", slash("%.2f", r.Alone/1000), "<= 0.4"},
		{"CPU ms a task, 1+1 / 4+4 / 16+16", slash("%.2f", one.CPU/1000, four.CPU/1000, many.CPU/1000), "<= 1.0/1.4/2.5"},
		{"voluntary switches a task, 4+4", slash("%.0f", four.Switches), "<= 20"},
	}
	wanted := map[string]string{journaled: ">= 1.3/0.7/1.2/0.6", own: ">= 0.8/0.5/0.4/0.4"}
	for _, d := range r.Disks {
		ratio := func(peer string) float64 { return r.row(d.Name, peer, 4).Ratio }
		measured := slash("%.2f", ratio("goqite"), ratio("maildir"), ratio("jetstream"), ratio("asynq"))
		out = append(out, figure{"tasks/s, 4+4, beside G/M/J/A, " + d.Name, measured, wanted[d.Name]})
	}
	drained := func(peer string) float64 { return r.drained(peer).Ratio }
	out = append(out,
		figure{"tasks/s, 4+4 beside 1+1, 16+16 beside 4+4", slash("%.2f", four.beside(&one), many.beside(&four)), ">= 1.5/0.9"},
		figure{fmt.Sprintf("one worker, %d pending, tasks/s", r.Pending), slash("%.0f", r.drained("mbox").Rate), ""},
		figure{"  the same beside M/G/J", slash("%.2f", drained("maildir"), drained("goqite"), drained("jetstream")), ">= 0.5/0.8/0.6"},
	)
	for _, p := range r.Pickups {
		f := figure{"drop to pickup, ms, p50/p99, " + p.Disk, slash("%.2f", p.P50, p.P99), "<= 1.5/4"}
		if p.Peer != ours {
			f.what, f.wanted = "  the same, Maildir with inotify", ""
		}
		out = append(out, f)
	}
	for i, p := range r.Proved {
		f := figure{p.What + ", lines/s", slash("%.0f", float64(p.Lines)/p.Took.Seconds()), ""}
		if i == 0 {
			f.wanted = ">= 100000"
		}
		out = append(out, f)
	}
	return out
}

// row is that of a peer in processes, empty if it did not run.
func (r *report) row(disk, peer string, workers int) row {
	for _, o := range r.Results {
		if o.Disk == disk && o.Peer == peer+"/processes" && o.Workers == workers {
			return o
		}
	}
	return row{}
}

func (r *report) drained(peer string) drained {
	for _, d := range r.Drained {
		if d.Peer == peer+"/processes" {
			return d
		}
	}
	return drained{}
}

func slash(format string, values ...float64) string {
	var out []string
	for _, v := range values {
		if v == 0 {
			out = append(out, "-")
			continue
		}
		out = append(out, fmt.Sprintf(format, v))
	}
	return strings.Join(out, "/")
}

func (r *report) printFigures(w io.Writer) {
	if len(r.Disks) == 0 {
		return
	}
	fmt.Fprintf(w, "\nW+W: processes that send and that work. G goqite, M Maildir, J JetStream, A asynq.\n\n")
	fmt.Fprintf(w, "%-42s %-21s %s\n", "figure", "measured", "wanted")
	for _, f := range r.figures() {
		fmt.Fprintf(w, "%-42s %-21s %s\n", f.what, f.measured, f.wanted)
	}
	fmt.Fprintln(w)
	for _, s := range r.Took {
		fmt.Fprintf(w, "%s on the disk %s took %.0f s\n", s.Part, s.Disk, s.Seconds)
	}
}
