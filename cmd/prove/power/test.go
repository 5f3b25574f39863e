package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tester makes the disk, has the workload done on it, and looks at what power
// cuts leave.
type tester struct {
	run
	fs      fileSystem
	disks   *remote
	live    string // the disk of the workload
	end     int    // of its log
	journal journal
	random  *randv2.Rand
	out     outcome
}

// test is the second process in the namespaces.
func test(dir string) {
	t := &tester{}
	if err := read(filepath.Join(dir, "run.json"), &t.run); err != nil {
		fatal(err)
	}
	if err := t.test(); err != nil {
		fatal(err)
	}
	if err := write(filepath.Join(dir, "outcome.json"), t.out); err != nil {
		fatal(err)
	}
}

func (t *tester) test() (err error) {
	t.fs = fileSystems[slices.IndexFunc(fileSystems, func(f fileSystem) bool { return f.name == t.FS })]
	t.random = randv2.New(randv2.NewPCG(t.Seed, 1))
	if t.disks, err = dial(filepath.Join(t.Dir, socketName)); err != nil {
		return err
	}
	if err := t.format(); err != nil {
		return err
	}
	begun := time.Now()
	if err := t.useDisk(); err != nil {
		return err
	}
	t.out.Worked = time.Since(begun)
	if err := t.journal.keep(filepath.Join(t.Dir, "journal")); err != nil {
		return err
	}
	begun = time.Now()
	if err := t.cutAll(); err != nil {
		return err
	}
	t.out.Looked = time.Since(begun)
	return nil
}

func (t *tester) path(disk string) string { return filepath.Join(t.Dir, "disks", disk) }

// format makes the file system. What mkfs wrote is on the disk for good.
func (t *tester) format() error {
	t.live = t.disks.make(t.fs.size)
	args := append(slices.Clone(t.fs.mkfs), t.path(t.live))
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	t.disks.restart(t.live)
	return nil
}

// useDisk does the workload on the mounted disk.
func (t *tester) useDisk() error {
	mount := filepath.Join(t.Dir, "live")
	if err := t.fs.mount(t.path(t.live), mount); err != nil {
		return err
	}
	if err := t.flushes(mount); err != nil {
		return err
	}
	w := &workload{
		tester: t, commands: commands{bin: t.Mbox, home: filepath.Join(mount, "home"), dir: t.Dir},
		disk: t.live, journal: &t.journal,
	}
	err := w.do()
	t.out.Commands = int(w.said.Load())
	if err != nil {
		return fmt.Errorf("the workload, before any power cut: %w", err)
	}
	t.end = t.disks.mark(t.live)
	t.out.Records, t.out.Flushes, t.out.Acknowledged = t.end, len(t.disks.flushes(t.live)), t.journal.acknowledged(t.end)
	return unmount(mount)
}

// flushes makes sure that a flush of a file comes out at the disk as one.
func (t *tester) flushes(mount string) error {
	f, err := os.Create(filepath.Join(mount, "probe"))
	if err != nil {
		return err
	}
	defer f.Close()
	before := len(t.disks.flushes(t.live))
	if _, err := f.WriteString("probe"); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if len(t.disks.flushes(t.live)) == before {
		return errors.New("fsync on the disk arrives as no flush: nothing could be learnt here")
	}
	return nil
}

// reboot lets every process in these namespaces see another boot of the machine.
func (t *tester) reboot() error {
	const bootID = "/proc/sys/kernel/random/boot_id"
	file := filepath.Join(t.Dir, "boot_id")
	_, err := os.Stat(file)
	first := errors.Is(err, os.ErrNotExist)
	var id [16]byte
	_, _ = rand.Read(id[:])
	text := fmt.Sprintf("%x-%x-%x-%x-%x\n", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	if first {
		if err := unix.Mount(file, bootID, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("a boot id of its own: %w", err)
		}
	}
	now, err := os.ReadFile(bootID)
	if err != nil || string(now) != text {
		return fmt.Errorf("the boot id is %q, not %q: %w", now, text, err)
	}
	return nil
}

// commands runs mbox in one home.
type commands struct{ bin, home, dir string }

// answer is what a command said.
type answer struct {
	code      int
	out, errs string
}

func (a answer) String() string {
	return fmt.Sprintf("exit code %d\n%s%s", a.code, a.out, a.errs)
}

const patience = time.Minute

func (c commands) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.bin, args...)
	cmd.Env = append(os.Environ(), "MBOX_HOME="+c.home)
	cmd.Dir = c.dir
	return cmd
}

func (c commands) say(args ...string) answer {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := c.command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	a := answer{0, out.String(), errs.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		a.code = exit.ExitCode()
	case err != nil:
		a.code, a.errs = -1, err.Error()
	}
	if ctx.Err() != nil {
		a.errs += fmt.Sprintf("killed: no answer in %v\n", patience)
	}
	return a
}
