// Command peers runs the same work through mbox and through other durable
// queues, on one disk, in one run, and prints how they compare.
//
//	go run . [-workers 1,4,16] [-seconds 2] [-rounds 3] [-drain 100000] [-drain-seconds 15] [-only mbox,goqite] [-disks journaled,own] [-dir DIR] [-json]
//
// The work: tasks of 1.5 KB are submitted, claimed and completed, by goroutines
// that do all three, or by as many processes that submit as processes that claim
// and complete. Every step is on the disk before the next. All peers of one
// number of workers take short turns, in an order that rotates, so that what
// else the machine does falls on all of them; a rate is the median of the
// rounds, a ratio the median of the ratios within each round. A peer that loses
// or doubles a task, or says something else than what was done, fails the run.
// A peer that cannot be had here is named and left out. On the first disk one
// worker process of each peer drains many tasks besides. In the end the figures
// that mbox is held to are printed beside what is wanted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mbox/mailbox/durable"
)

// gcPercent is what mbox's commands set; here all peers have it.
const gcPercent = 400

func main() {
	debug.SetGCPercent(gcPercent)
	is, err := child()
	if !is {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = run(ctx, os.Args[1:])
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	workers      []int
	seconds      float64
	rounds       int
	drain        int64
	drainSeconds float64
	only         []string
	disks        []string
	dir          string
	json         bool
}

func parse(args []string) (*options, error) {
	o := new(options)
	f := flag.NewFlagSet("peers", flag.ExitOnError)
	workers := f.String("workers", "1,4,16", "numbers of workers")
	only := f.String("only", "", "the peers to run, by name; those in processes if empty: "+strings.Join(names(peers()), ","))
	disks := f.String("disks", journaled+","+own, "where to work: "+journaled+", on a new ext4 with a journal on a loop device, where that may be made; "+own+", in the folder")
	f.Float64Var(&o.seconds, "seconds", 1.5, "how long each peer works in each round")
	f.IntVar(&o.rounds, "rounds", 3, "how many rounds")
	f.Int64Var(&o.drain, "drain", 100_000, "how many tasks one worker drains, 0 for none")
	f.Float64Var(&o.drainSeconds, "drain-seconds", 15, "how long it drains them at most")
	f.StringVar(&o.dir, "dir", "", "where to work, on a real disk; a temporary folder if empty")
	f.BoolVar(&o.json, "json", false, "print JSON")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("what is %q?", f.Arg(0))
	}
	for _, w := range strings.Split(*workers, ",") {
		n, err := strconv.Atoi(w)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-workers: %q is no number of workers", w)
		}
		o.workers = append(o.workers, n)
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	o.disks = strings.Split(*disks, ",")
	for _, d := range o.disks {
		if d != journaled && d != own {
			return nil, fmt.Errorf("-disks: %q is neither %s nor %s", d, journaled, own)
		}
	}
	if o.rounds < 1 || o.seconds <= 0 || o.drainSeconds <= 0 {
		return nil, errors.New("-rounds, -seconds and -drain-seconds: more than 0")
	}
	return o, nil
}

func names(ps []*peer) (out []string) {
	for _, p := range ps {
		out = append(out, p.name)
	}
	return out
}

// choose returns the peers to run, and why the others are left out.
func (o *options) choose() (run []*peer, out []leftOut, err error) {
	all := peers()
	for _, name := range o.only {
		if !slices.Contains(names(all), name) {
			return nil, nil, fmt.Errorf("-only: no peer %q; there are %s", name, strings.Join(names(all), ", "))
		}
	}
	for _, p := range all {
		if len(o.only) == 0 && !p.processes || len(o.only) > 0 && !slices.Contains(o.only, p.name) {
			continue
		}
		if p.missing != nil {
			if err := p.missing(); err != nil {
				out = append(out, leftOut{p.name, err.Error()})
				continue
			}
		}
		run = append(run, p)
	}
	return run, out, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	chosen, out, err := o.choose()
	if err != nil {
		return err
	}
	root, err := os.MkdirTemp(o.dir, "peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	r := &report{LeftOut: out, Seconds: o.seconds, Rounds: o.rounds, Pending: o.drain}
	r.machine()
	if !o.json {
		r.printHead(os.Stdout, chosen)
	}
	for _, name := range o.disks {
		d, err := o.mount(ctx, name, root)
		if err == nil {
			r.Disks = append(r.Disks, d)
			err = errors.Join(r.measure(ctx, o, d, chosen), d.unmount())
		}
		if errors.Is(err, errNoDisk) {
			fmt.Fprintf(os.Stderr, "peers: LEFT OUT: the disk %s: %v\n", name, err)
			continue
		}
		if err != nil {
			return err
		}
	}
	if o.json {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	r.printFigures(os.Stdout)
	return nil
}

// measure runs everything on one disk.
func (r *report) measure(ctx context.Context, o *options, d *disk, chosen []*peer) (err error) {
	if d.FileSystem, _, err = durable.FileSystem(d.dir); err != nil {
		return err
	}
	if d.Probes, err = probeDisk(d.dir, time.Duration(o.seconds/4*float64(time.Second))); err != nil {
		return err
	}
	if !o.json {
		d.print(os.Stdout)
	}
	parts := []part{{"tasks", r.tasks}, {"pickup", r.pickUps}}
	if len(r.Disks) == 1 {
		parts = append(parts, part{"calls", r.calls}, part{"alone", r.alone}, part{"drain", r.drain})
	}
	for _, p := range parts {
		begun := time.Now()
		if err := p.run(ctx, o, d, chosen); err != nil {
			return fmt.Errorf("%s, on the disk %s: %w", p.name, d.Name, err)
		}
		r.Took = append(r.Took, span{d.Name, p.name, time.Since(begun).Seconds()})
	}
	return nil
}

// part is one kind of figure.
type part struct {
	name string
	run  func(ctx context.Context, o *options, d *disk, chosen []*peer) error
}

// span is how long a part of the run took.
type span struct {
	Disk    string  `json:"disk"`
	Part    string  `json:"part"`
	Seconds float64 `json:"seconds"`
}

// tasks lets the peers take turns with all numbers of workers.
func (r *report) tasks(ctx context.Context, o *options, d *disk, chosen []*peer) error {
	var rows []row
	var laps []lap
	for _, workers := range o.workers {
		for _, p := range chosen {
			rows = append(rows, row{Disk: d.Name, Peer: p.name, Base: p.base, Workers: workers})
			laps = append(laps, lap{peer: p, workers: workers, time: time.Duration(o.seconds * float64(time.Second))})
		}
	}
	for round := range o.rounds {
		for turn := range laps {
			i := (turn + round) % len(laps)
			s, err := laps[i].next(ctx, d.dir)
			if err != nil {
				return err
			}
			rows[i].add(s)
		}
	}
	for i := range rows {
		rows[i].finish(rows)
	}
	r.Results = append(r.Results, rows...)
	for some := range slices.Chunk(rows, len(chosen)) {
		if !o.json {
			printRows(os.Stdout, some)
		}
	}
	return nil
}

// next runs such a lap in a new folder below root.
func (l lap) next(ctx context.Context, root string) (*score, error) {
	var err error
	if l.dir, err = emptyDir(root); err == nil {
		err = settleDisk(root)
	}
	if err != nil {
		return nil, err
	}
	s, err := l.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s, %d workers: %w", l.peer.name, l.workers, err)
	}
	return s, nil
}
