package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// lab is where mutants are tried: a folder for what is built and for the homes
// that tests make.
type lab struct {
	root string // of the tree
	dir  string
	rest []command // what runs when a mutant's own test passes

	unchanged sync.Mutex // held by who is at the unchanged tree after the baseline

	mu    sync.Mutex
	known map[command]*outcome // on the unchanged tree
}

func newLab() (*lab, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	parent := "" // homes on tmpfs where there is one: thousands are made
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() && os.Getenv("TMPDIR") == "" {
		parent = "/dev/shm"
	}
	dir, err := os.MkdirTemp(parent, "mbox-mutants-")
	return &lab{root: root, dir: dir, rest: rest, known: map[command]*outcome{}}, err
}

func (l *lab) close() { os.RemoveAll(l.dir) }

// outcome is how tests ended.
type outcome struct {
	failed string // the test that failed; "" if all have passed
	ran    int    // tests that were not skipped
	took   time.Duration
	said   string
}

// baseline runs each mutant's own test on the unchanged tree, those of so many packages
// at once: what fails there kills nothing.
func (l *lab) baseline(some []mutant, workers int) error {
	commands := map[string][]command{}
	for _, m := range some {
		if of := commands[m.kill.pkg]; !slices.Contains(of, m.kill) {
			commands[m.kill.pkg] = append(of, m.kill)
		}
	}
	bench := &bench{lab: l, dir: filepath.Join(l.dir, "unchanged")}
	defer bench.clear()
	var tests errgroup.Group
	tests.SetLimit(workers)
	for _, of := range commands {
		tests.Go(func() error {
			for _, c := range of {
				if err := l.passes(bench, c); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := tests.Wait()
	if err == nil {
		fmt.Printf("unchanged: the tests of %d packages pass\n", len(commands))
	}
	return err
}

// passes makes sure that the tests pass on the unchanged tree, once. They may fail by
// chance the first time: that kills a mutant wrongly, but makes no run void.
func (l *lab) passes(b *bench, c command) error {
	l.mu.Lock()
	known := l.known[c] != nil
	l.mu.Unlock()
	if known {
		return nil
	}
	o, err := b.test(c, 10*time.Minute)
	if err == nil && o.failed != "" {
		fmt.Printf("%s fails without a mutant, and is tried again: %s\n", c, o.failed)
		o, err = b.test(c, 10*time.Minute)
	}
	switch {
	case err != nil:
		return err
	case o.failed != "":
		return fmt.Errorf("%s fails without a mutant: %s\n%s", c, o.failed, o.said)
	case o.ran == 0:
		return fmt.Errorf("%s runs no test here\n%s", c, o.said)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[c] = o
	return nil
}

// alsoPasses is passes for tests that were not in the baseline.
func (l *lab) alsoPasses(c command) error {
	l.unchanged.Lock()
	defer l.unchanged.Unlock()
	return l.passes(&bench{lab: l, dir: filepath.Join(l.dir, "unchanged")}, c)
}

// patience is how long the tests may take with a mutant.
func (l *lab) patience(c command) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 20*time.Second + 5*l.known[c].took
}

// try returns which test kills the mutant, "" if none does.
func (l *lab) try(m mutant) (killer string, err error) {
	changed, err := m.apply()
	if err != nil {
		return "", err
	}
	b := &bench{lab: l, dir: filepath.Join(l.dir, m.name)}
	defer b.clear()
	if err := b.overlay(m.file, changed); err != nil {
		return "", err
	}
	for _, c := range append([]command{m.kill}, l.rest...) {
		if err := l.alsoPasses(c); err != nil {
			return "", err
		}
		o, err := b.test(c, l.patience(c))
		if err != nil {
			return "", err
		}
		if o.failed != "" {
			return o.failed + " in " + c.pkg, nil
		}
	}
	return "", nil
}

// bench is a folder of one mutant.
type bench struct {
	lab   *lab
	dir   string
	flags string // for the go command
}

func (b *bench) clear() { os.RemoveAll(b.dir) }

// overlay lets the go command see the changed file in the place of the tree's.
func (b *bench) overlay(file string, changed []byte) error {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	copied := filepath.Join(b.dir, filepath.Base(file))
	if err := os.WriteFile(copied, changed, 0o600); err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(b.lab.root, file): copied}})
	if err != nil {
		return err
	}
	b.flags = "-overlay=" + filepath.Join(b.dir, "overlay.json")
	return os.WriteFile(filepath.Join(b.dir, "overlay.json"), text, 0o600)
}

// env is for the go command, and for tests that call it in their turn.
func (b *bench) env(temp string) []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" "+b.flags), "TMPDIR="+temp)
}

// test builds a package's tests, once, and runs some of them.
func (b *bench) test(c command, limit time.Duration) (*outcome, error) {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return nil, err
	}
	bin := filepath.Join(b.dir, strings.ReplaceAll(c.pkg, "/", "-")+".test")
	if _, err := os.Stat(bin); err != nil {
		build := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", bin, "./"+c.pkg)
		build.Env = b.env(os.TempDir())
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("it does not compile: %w\n%s", err, out)
		}
	}
	temp, err := os.MkdirTemp(b.dir, "t")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	ctx, cancel := context.WithTimeout(context.Background(), limit+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "-test.short", "-test.v", "-test.failfast", "-test.run="+c.run, "-test.timeout="+limit.String())
	cmd.Dir, cmd.Env = filepath.Join(b.lab.root, c.pkg), b.env(temp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	began := time.Now()
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the tests have started and left
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, err
	}
	o := &outcome{took: time.Since(began), said: out.String()}
	o.read(exit != nil, ctx.Err() != nil)
	return o, nil
}

var (
	begun   = regexp.MustCompile(`(?m)^=== RUN   (\S+)`)
	failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	passed  = regexp.MustCompile(`(?m)^--- PASS: (\S+)`)
)

// read takes from what the tests have said which of them failed.
func (o *outcome) read(failed, killed bool) {
	o.ran = len(passed.FindAllString(o.said, -1))
	if !failed {
		return
	}
	hung := killed || strings.Contains(o.said, "panic: test timed out")
	if m := failure.FindStringSubmatch(o.said); m != nil {
		o.failed = m[1]
	} else if all := begun.FindAllStringSubmatch(o.said, -1); len(all) > 0 {
		o.failed = all[len(all)-1][1] // it has died in there
		if !hung {
			o.failed += " (the process died)"
		}
	} else {
		o.failed = "a start that fails"
	}
	if hung {
		o.failed += " (the timeout)"
	}
}
