package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// probe is what the disk gives, measured in the same run.
type probe struct {
	What    string  `json:"what"`
	Writers int     `json:"writers"`
	Rate    float64 `json:"per_second"` // of all writers together
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
}

// A disk probe prepares a file of its own in dir and returns the step that is
// measured.
var diskProbes = []struct {
	what    string
	prepare func(dir string) (step func(i int) error, end func() error, err error)
}{
	{"fdatasync of an appended file (700 bytes)", appended},
	{"fdatasync of a preallocated, overwritten file (700 bytes)", overwritten},
	{"fsync of a created file (1.5 KB)", created},
}

func appended(dir string) (func(int) error, func() error, error) {
	f, err := os.OpenFile(filepath.Join(dir, "appended"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	line := make([]byte, 700)
	return func(int) error {
		if _, err := f.Write(line); err != nil {
			return err
		}
		return unix.Fdatasync(int(f.Fd()))
	}, f.Close, nil
}

func overwritten(dir string) (func(int) error, func() error, error) {
	const size = 4 << 20
	f, err := os.OpenFile(filepath.Join(dir, "overwritten"), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if _, err := f.Write(make([]byte, size)); err != nil {
		return nil, nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, nil, err
	}
	line := make([]byte, 700)
	return func(i int) error {
		line[0] = byte(i)
		if _, err := f.WriteAt(line, int64(i*len(line)%(size-len(line)))); err != nil {
			return err
		}
		return unix.Fdatasync(int(f.Fd()))
	}, f.Close, nil
}

func created(dir string) (func(int) error, func() error, error) {
	data := make([]byte, bodySize)
	step := func(i int) error {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("created-%d", i)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.Write(data); err != nil {
			return err
		}
		return f.Sync()
	}
	return step, func() error { return nil }, nil
}

// probeDisk runs each probe with one writer and with four, each on a file or
// folder of its own.
func probeDisk(root string, each time.Duration) ([]probe, error) {
	var out []probe
	for _, d := range diskProbes {
		for _, writers := range []int{1, 4} {
			p := probe{What: d.what, Writers: writers}
			var (
				wg   sync.WaitGroup
				took = make([][]time.Duration, writers)
				errs = make([]error, writers)
			)
			for i := range writers {
				dir, err := emptyDir(root)
				if err != nil {
					return nil, err
				}
				step, end, err := d.prepare(dir)
				if err != nil {
					return nil, err
				}
				defer end()
				wg.Go(func() { took[i], errs[i] = repeat(each, step) })
			}
			wg.Wait()
			for _, err := range errs {
				if err != nil {
					return nil, fmt.Errorf("%s: %w", d.what, err)
				}
			}
			p.sum(slices.Concat(took...), each)
			out = append(out, p)
		}
	}
	return out, nil
}

func repeat(span time.Duration, step func(i int) error) (took []time.Duration, err error) {
	begun := time.Now()
	for i := 0; time.Since(begun) < span; i++ {
		at := time.Now()
		if err := step(i); err != nil {
			return nil, err
		}
		took = append(took, time.Since(at))
	}
	return took, nil
}

func (p *probe) sum(took []time.Duration, span time.Duration) {
	slices.Sort(took)
	p.Rate = float64(len(took)) / span.Seconds()
	p.P50, p.P99 = milliseconds(took[len(took)/2]), milliseconds(took[len(took)*99/100])
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// settleDisk writes out what a lap has left unwritten, so that the next one
// does not pay for it.
func settleDisk(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}
