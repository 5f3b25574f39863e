package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The disks that a run works on.
const (
	journaled = "journaled" // what people have
	own       = "own"       // what the folder lies on
)

// disk is where the peers work.
type disk struct {
	Name       string  `json:"name"`
	FileSystem string  `json:"file_system"`
	Probes     []probe `json:"probes"`

	dir   string
	image string // of a loop device; "" for the folder itself
}

// errNoDisk says that a disk cannot be had here.
var errNoDisk = errors.New("cannot be made here")

// imageSize is what a loop device shows; the image takes what is written.
const imageSize = 16 << 30

// mount makes the disk available below root.
func (o *options) mount(ctx context.Context, name, root string) (*disk, error) {
	d := &disk{Name: name, dir: filepath.Join(root, name)}
	if err := os.Mkdir(d.dir, 0o700); err != nil || name == own {
		return d, err
	}
	d.image = filepath.Join(root, name+".img")
	f, err := os.Create(d.image)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(imageSize), f.Close()); err != nil {
		return nil, err
	}
	for _, argv := range [][]string{{"mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", d.image}, {"mount", "-o", "loop", d.image, d.dir}} {
		if text, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s: %w: %s", errNoDisk, argv[0], err, strings.TrimSpace(string(text)))
		}
	}
	return d, nil
}

func (d *disk) unmount() error {
	if d.image == "" {
		return nil
	}
	if text, err := exec.Command("umount", d.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("umount: %w: %s", err, strings.TrimSpace(string(text)))
	}
	return os.Remove(d.image)
}

func (d *disk) print(w io.Writer) {
	fmt.Fprintf(w, "\n%-60s %8s %10s %9s %9s\n", "disk: "+d.Name+", "+d.FileSystem, "writers", "a second", "p50 ms", "p99 ms")
	for _, p := range d.Probes {
		fmt.Fprintf(w, "%-60s %8d %10.0f %9.2f %9.2f\n", p.What, p.Writers, p.Rate, p.P50, p.P99)
	}
}

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
	p.Rate = float64(len(took)) / span.Seconds()
	p.P50, p.P99 = spread(took)
}

// spread sorts and returns the median and the 99th percentile in milliseconds.
func spread(took []time.Duration) (p50, p99 float64) {
	slices.Sort(took)
	return milliseconds(took[len(took)/2]), milliseconds(took[len(took)*99/100])
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
