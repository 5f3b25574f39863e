// Command bench measures what mbox help performance tells, on the disk that TMPDIR
// names, and prints each figure beside the flush rate of the same disk measured
// in the same run. Timings here never fail a test.
//
//	go run ./cmd/prove/bench [-dir DIR] [-mbox BINARY] [-pending 100000] [-seconds 2] [-only PARTS]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

var (
	dir     = flag.String("dir", "", "where to work; a temporary folder if empty")
	binary  = flag.String("mbox", "./mbox", "the binary for the figures of whole commands")
	pending = flag.Int("pending", 100_000, "how many tasks the large mailbox holds")
	only    = flag.String("only", "", "the parts to run: throughput, commands, pickup, backlog, crowded, door, idle; all if empty")
	seconds = flag.Float64("seconds", 2, "how long each throughput figure is measured")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	root, err := os.MkdirTemp(*dir, "mbox-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	for _, p := range parts {
		if *only != "" && !strings.Contains(*only, p.name) && p.name != "machine" && p.name != "flushes" {
			continue
		}
		if err := p.run(root); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

var parts = []struct {
	name string
	run  func(root string) error
}{
	{"machine", machine},
	{"flushes", flushes},
	{"throughput", throughput},
	{"commands", commands},
	{"pickup", pickup},
	{"backlog", backlog},
	{"crowded", crowded},
	{"door", door},
	{"idle", idle},
}

func machine(root string) error {
	fs, _, err := durable.FileSystem(root)
	if err != nil {
		return err
	}
	model := "unknown CPU"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.Trim(name, " \t:\n")
				break
			}
		}
	}
	fmt.Printf("machine: %s, %d cores, %s/%s, %s, %s\n", model, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), fs)
	return nil
}

// flushRate is how many appends of 700 bytes, each flushed by itself, the disk
// takes in a second: the yardstick of this run.
var flushRate float64

func flushes(root string) error {
	f, err := os.OpenFile(filepath.Join(root, "flush"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	line := make([]byte, 700)
	begun, n := time.Now(), 0
	for time.Since(begun).Seconds() < *seconds {
		if err := durable.Append(f, line); err != nil {
			return err
		}
		if err := durable.Flush(f); err != nil {
			return err
		}
		n++
	}
	flushRate = float64(n) / time.Since(begun).Seconds()
	fmt.Printf("disk: %.0f appends of 700 bytes a second, each flushed (%.2f ms)\n\n", flushRate, 1000/flushRate)
	return nil
}

func newHome(root, name string, m durable.Mode) (*mailbox.Box, error) {
	home := filepath.Join(root, name)
	o := mailbox.Options{Sync: m}
	if err := mailbox.Create(home, mailbox.Options{Sync: durable.None}); err != nil {
		return nil, err
	}
	return mailbox.Open(context.Background(), home, o)
}

var modes = []struct {
	name string
	mode durable.Mode
}{{"standard", durable.Standard}, {"strict", durable.Strict}, {"none", durable.None}}

// throughput counts whole tasks (submit, claim, complete) a second.
func throughput(root string) error {
	fmt.Println("submit + claim + complete of 1.5 KB tasks, tasks a second (and per flush of the disk):")
	fmt.Printf("%10s %18s %18s %18s %18s\n", "sync", "1 worker", "4 workers", "16 workers", "64 workers")
	for _, m := range modes {
		fmt.Printf("%10s", m.name)
		for _, workers := range []int{1, 4, 16, 64} {
			b, err := newHome(root, fmt.Sprintf("through-%s-%d", m.name, workers), m.mode)
			if err != nil {
				return err
			}
			rate, err := cycle(b, workers)
			b.Close()
			if err != nil {
				return err
			}
			fmt.Printf(" %10.0f (%5.2f)", rate, rate/flushRate)
		}
		fmt.Println()
	}
	fmt.Println()
	return nil
}

func request(i int) *mailbox.Task {
	return &mailbox.Task{
		Task:       mailbox.Request{Title: "task " + strconv.Itoa(i), Description: strings.Repeat("x", 1000)},
		Assignment: mailbox.Assignment{TargetAgent: "coder"},
	}
}

func cycle(b *mailbox.Box, workers int) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*seconds*float64(time.Second)))
	defer cancel()
	var wg sync.WaitGroup
	var done atomic.Int64
	errs := make(chan error, workers)
	begun := time.Now()
	for range workers {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := one(b, i); err != nil {
					errs <- err
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	rate := float64(done.Load()) / time.Since(begun).Seconds()
	select {
	case err := <-errs:
		return rate, err
	default:
		return rate, nil
	}
}

func one(b *mailbox.Box, i int) error {
	ctx := context.Background()
	if _, err := b.Submit(ctx, request(i)); err != nil {
		return err
	}
	for {
		c, err := b.Claim(ctx, mailbox.ClaimRequest{Agent: "coder", Process: true})
		if errors.Is(err, mailbox.ErrEmpty) {
			time.Sleep(200 * time.Microsecond) // another worker has it at hand, and puts its own in
			continue
		}
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Complete(ctx, mailbox.Result{Output: jsontext.Value(`"done"`)})
	}
}

// times runs f n times and prints median and 99th percentile.
func times(what string, n int, f func(i int) error) error {
	all := make([]time.Duration, 0, n)
	for i := range n {
		begun := time.Now()
		if err := f(i); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		all = append(all, time.Since(begun))
	}
	fmt.Printf("%-58s %s\n", what+":", spread(all))
	return nil
}

func spread(all []time.Duration) string {
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("p50 %7.2f ms   p99 %7.2f ms", ms(all[len(all)/2]), ms(all[len(all)*99/100]))
}

// commands times whole one-shot commands of the binary on a mailbox with 1,000
// pending tasks, in turn, beside a Go program that does nothing.
func commands(root string) error {
	if _, err := os.Stat(*binary); err != nil {
		fmt.Printf("(no binary at %s: build it with make build for the figures of whole commands)\n\n", *binary)
		return nil
	}
	empty, err := buildEmpty(root)
	if err != nil {
		return err
	}
	b, err := newHome(root, "oneshot", durable.None)
	if err != nil {
		return err
	}
	err = fill(b, 1000)
	b.Close()
	if err != nil {
		return err
	}
	all := [][]string{{empty}}
	for _, v := range oneShots {
		all = append(all, append([]string{*binary, "--home", b.Home()}, v.args...))
	}
	took := make([][]time.Duration, len(all))
	for range 200 {
		for i, c := range all {
			begun := time.Now()
			if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w\n%s", strings.Join(c, " "), err, out)
			}
			took[i] = append(took[i], time.Since(begun))
		}
	}
	fmt.Printf("  %-56s %s\n", "a Go program that does nothing:", spread(took[0]))
	for i, v := range oneShots {
		fmt.Printf("  %-56s %s   (p50 wanted: %d)\n", "mbox "+strings.Join(v.args, " ")+":", spread(took[i+1]), v.wanted)
	}
	fmt.Println()
	return nil
}

// oneShots are the commands that are timed, and the milliseconds that are wanted.
var oneShots = []struct {
	wanted int
	args   []string
}{
	{5, []string{"version"}},
	{10, []string{"ls"}},
	{10, []string{"send", "hello"}},
	{10, []string{"claim", "--agent", "coder"}},
}

func buildEmpty(root string) (path string, err error) {
	source := filepath.Join(root, "empty.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return "", err
	}
	path = filepath.Join(root, "empty")
	if out, err := exec.Command("go", "build", "-o", path, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

// backlog compares claims with 1,000 and with many pending tasks, and measures
// what opening and remembering them costs.
func backlog(root string) error {
	for _, n := range []int{1000, *pending} {
		b, err := newHome(root, fmt.Sprintf("backlog-%d", n), durable.None)
		if err != nil {
			return err
		}
		if err := fill(b, n); err != nil {
			return err
		}
		home := b.Home()
		b.Close()
		if n == *pending {
			if err := large(home); err != nil {
				return err
			}
		}
		if err := claims(home, n); err != nil {
			return err
		}
	}
	fmt.Println()
	return nil
}

func fill(b *mailbox.Box, n int) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make(chan error, 8)
	begun := time.Now()
	for range 8 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if _, err := b.Submit(context.Background(), request(int(i))); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	fmt.Printf("%d pending (put there in %.1f s without flushes):\n", n, time.Since(begun).Seconds())
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func claims(home string, n int) error {
	ctx := context.Background()
	before := heap()
	begun := time.Now()
	b, err := mailbox.Open(ctx, home, mailbox.Options{})
	if err != nil {
		return err
	}
	defer b.Close()
	if _, err := b.Scan(ctx); err != nil {
		return err
	}
	fmt.Printf("  %-56s %7.2f s, %.0f bytes of memory a task\n", "opened and scanned:", time.Since(begun).Seconds(), float64(heap()-before)/float64(n))
	err = times("  claim, in a process that stays", 200, func(int) error {
		c, err := b.Claim(ctx, mailbox.ClaimRequest{Agent: "coder", Process: true})
		if err == nil {
			err = c.Close()
		}
		return err
	})
	if err != nil {
		return err
	}
	if _, err := os.Stat(*binary); err != nil {
		return nil
	}
	for _, args := range [][]string{{"claim", "--agent", "coder"}, {"ls", "--limit", "100"}} {
		err := times("  "+strings.Join(args, " ")+", one command", 20, func(int) error {
			out, err := exec.Command(*binary, append([]string{"--home", home}, args...)...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// idle measures the CPU time and memory of mbox up with nothing to do, for nobody and for
// fifty agents that were born.
func idle(root string) error {
	if _, err := os.Stat(*binary); err != nil {
		return nil
	}
	home := filepath.Join(root, "idle")
	if out, err := exec.Command(*binary, "--home", home, "init").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if err := rest(home, "idle mbox up"); err != nil {
		return err
	}
	const colony = 50
	for i := range colony {
		if out, err := exec.Command(*binary, "--home", home, "agent", "birth", fmt.Sprintf("a%d", i), "--exec", "echo").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	for i := range colony { // they introduce themselves
		if out, err := exec.Command(*binary, "--home", home, "worker", "--agent", fmt.Sprintf("a%d", i), "--once").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return rest(home, fmt.Sprintf("the same with %d agents", colony))
}

// rest measures mbox up at this home, which has nothing to do.
func rest(home, what string) error {
	up := exec.Command(*binary, "--home", home, "up")
	stderr, err := up.StderrPipe()
	if err != nil {
		return err
	}
	if err := up.Start(); err != nil {
		return err
	}
	line := make([]byte, 256)
	if _, err := stderr.Read(line); err != nil { // the ready line
		return err
	}
	const span = time.Minute // twelve scans, and two pulses of each agent
	time.Sleep(5 * time.Second)
	cpu := cpuTime(up.Process.Pid)
	time.Sleep(span)
	spent := cpuTime(up.Process.Pid) - cpu
	rss := residentMiB(up.Process.Pid)
	_ = up.Process.Signal(syscall.SIGTERM)
	if err := up.Wait(); err != nil {
		return err
	}
	fmt.Printf("%s: %.0f ms of CPU in %v (%.2f %%), %.1f MiB resident\n", what, spent.Seconds()*1000, span, 100*spent.Seconds()/span.Seconds(), rss)
	return nil
}

func cpuTime(pid int) time.Duration {
	total := time.Duration(0)
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, t := range tasks {
		if stat, err := os.ReadFile(t); err == nil {
			ns, _ := strconv.ParseInt(strings.Fields(string(stat))[0], 10, 64)
			total += time.Duration(ns)
		}
	}
	return total
}

func residentMiB(pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.ParseFloat(strings.Fields(kb)[0], 64)
			return n / 1024
		}
	}
	return 0
}
