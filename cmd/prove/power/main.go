// Command power cuts the power under the real mbox, thousands of times.
//
//	go run . [-fs ext4,xfs,btrfs] [-rounds N] [-images N] [-deep N] [-seed N]
//
// A disk is a file of a FUSE file system of this program's own, behind a loop
// device, under a real file system. Every block that is written and every flush
// goes through this program's hands and into a log. On that disk the real mbox
// is put to work: one-shot commands, workers, a router, dropped files. A journal
// outside the disk has every operation that was acknowledged, with its place in
// the log.
//
// Then the power fails. For each flush there are disks that hold all that was
// written before it, and of what was written between it and the next nothing,
// everything, or a random part. Each is mounted, in what looks like the next
// boot of the machine; mbox recovers; and the journal is compared with what is
// there. A recovery is cut short in the same way.
//
// A test that finds nothing proves nothing unless it would have found something,
// so mbox is also built with one of its flushes taken out, and the run is void
// unless that is found.
//
// It needs root, FUSE and loop devices. It works in its own mount and process
// namespaces: when it ends, or is killed, nothing stays mounted or attached.
//
// Exit codes: 0 no violation, and the mutants were found; 1 a violation; 2 the
// run is void; 77 this machine lacks what is needed.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	exitViolation = 1
	exitBroken    = 2
	exitUnable    = 77
)

// A run is one workload on one file system, and the power cuts in it. It is
// handed from process to process as JSON.
type run struct {
	Dir    string // outside the disks
	Root   string // of the repository
	Mbox   string
	FS     string
	Seed   uint64
	Rounds int  // steps of each actor
	Images int  // disks to look at, at most
	Deep   int  // of them, recoveries to cut short
	First  bool // stop at the first violation: for mutants
}

// An outcome is what a run found.
type outcome struct {
	Commands, Acknowledged  int
	Records, Flushes        int
	Images, Deep            int
	Violations              []string
	Worked, Looked, Elapsed time.Duration
}

func main() {
	if len(os.Args) == 3 {
		switch os.Args[1] {
		case "serve":
			serve(os.Args[2])
			return
		case "test":
			test(os.Args[2])
			return
		}
	}
	p := &program{}
	flag.StringVar(&p.systems, "fs", "ext4,xfs,btrfs", "file systems; one whose mkfs is missing is left out, and said so")
	flag.IntVar(&p.run.Rounds, "rounds", 60, "steps of each actor of the workload")
	flag.IntVar(&p.run.Images, "images", 400, "disks to look at for each file system, at most")
	flag.IntVar(&p.run.Deep, "deep", 20, "recoveries to cut short for each file system")
	flag.Uint64Var(&p.run.Seed, "seed", 0, "of the workload and the cuts; 0 draws one")
	flag.StringVar(&p.run.Root, "root", "../../..", "the repository")
	flag.BoolVar(&p.keep, "keep", false, "keep the working folder")
	flag.StringVar(&p.only, "mutant", "", "build only this mutant, and show what is found")
	flag.Parse()
	code, err := p.main()
	if err != nil {
		fatal(err)
	}
	os.Exit(code)
}

type program struct {
	systems, only string
	keep          bool
	run           run
}

func (p *program) main() (code int, err error) {
	if err := able(); err != nil {
		return 0, err
	}
	if p.run.Root, err = filepath.Abs(p.run.Root); err != nil {
		return 0, err
	}
	if p.run.Seed == 0 {
		p.run.Seed = rand.Uint64N(1 << 32)
	}
	fmt.Printf("seed %d\n", p.run.Seed)
	dir, err := os.MkdirTemp("", "mbox-power-")
	if err != nil {
		return 0, err
	}
	defer func() {
		if p.keep || code == exitViolation {
			fmt.Println("kept:", dir)
			return
		}
		os.RemoveAll(dir)
	}()
	return p.all(dir)
}

// all tests mbox and then its mutants, on each file system.
func (p *program) all(dir string) (code int, err error) {
	if p.only == "" {
		bin := filepath.Join(dir, "mbox")
		if err := build(p.run.Root, bin, nil); err != nil {
			return 0, err
		}
		for _, fs := range p.chosen() {
			out, err := p.one(dir, fs, bin, false)
			if err != nil {
				return 0, err
			}
			if len(out.Violations) > 0 {
				code = exitViolation
			}
		}
	}
	void, err := p.calibrate(dir)
	if err != nil || code != 0 {
		return code, err
	}
	return void, nil
}

// chosen are the file systems that were asked for and that can be made here.
func (p *program) chosen() (list []fileSystem) {
	for _, fs := range fileSystems {
		if !strings.Contains(","+p.systems+",", ","+fs.name+",") {
			continue
		}
		if _, err := exec.LookPath(fs.mkfs[0]); err != nil {
			fmt.Printf("SKIPPED: %s: %s is missing\n", fs.name, fs.mkfs[0])
			continue
		}
		list = append(list, fs)
	}
	return list
}

// calibrate looks whether the mutants are found.
func (p *program) calibrate(dir string) (code int, err error) {
	for i := range mutants {
		m := &mutants[i]
		if p.only != "" && p.only != m.name {
			continue
		}
		bin := filepath.Join(dir, m.name)
		if err := build(p.run.Root, bin, m); err != nil {
			return 0, err
		}
		for _, fs := range p.chosen() {
			out, err := p.one(dir, fs, bin, true)
			if err != nil {
				return 0, err
			}
			if len(out.Violations) == 0 && m.needed {
				fmt.Printf("VOID: %s is not found on %s\n", m.name, fs.name)
				code = exitBroken
			}
		}
	}
	return code, nil
}

// one is one run, in processes of its own.
func (p *program) one(dir string, fs fileSystem, bin string, mutated bool) (out outcome, err error) {
	name := filepath.Base(bin) + " on " + fs.name
	r := p.run
	r.FS, r.Mbox, r.First = fs.name, bin, mutated
	if r.Dir, err = os.MkdirTemp(dir, strings.ReplaceAll(name, " ", "-")+"-"); err != nil {
		return out, err
	}
	if err := write(filepath.Join(r.Dir, "run.json"), r); err != nil {
		return out, err
	}
	begun := time.Now()
	if err := isolated(r.Dir); err != nil {
		return out, fmt.Errorf("%s: %w", name, err)
	}
	if err := read(filepath.Join(r.Dir, "outcome.json"), &out); err != nil {
		return out, fmt.Errorf("%s: %w", name, err)
	}
	fmt.Printf("%s: %d commands, %d acknowledged, %d writes and flushes, of them %d flushes; %d power cuts, %d of them in a recovery; %d violations; %v\n",
		name, out.Commands, out.Acknowledged, out.Records, out.Flushes, out.Images, out.Deep, len(out.Violations), time.Since(begun).Round(100*time.Millisecond))
	for i, v := range out.Violations {
		if i == 20 || mutated && i == 3 {
			fmt.Printf("  and %d more\n", len(out.Violations)-i)
			break
		}
		if mutated {
			v, _, _ = strings.Cut(v, "\n")
		}
		fmt.Println("  " + v)
	}
	return out, nil
}

// able tells what this machine lacks.
func able() error {
	if os.Geteuid() != 0 {
		return &unable{"root is needed for FUSE and a loop device"}
	}
	for _, path := range []string{"/dev/fuse", "/dev/loop-control"} {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return &unable{"no FUSE or no loop device: " + err.Error()}
		}
		f.Close()
	}
	return nil
}

// isolated runs the server of the disks, and under it everything else, in
// namespaces of their own. When the server ends, however that comes, the kernel
// kills whatever it started, and with the last process go the mounts and with
// them the loop devices.
func isolated(dir string) error {
	runtime.LockOSThread() // the child dies with this thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", "serve", dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL, Setpgid: true,
	}
	if err := cmd.Start(); err != nil {
		return &unable{"no root that may make namespaces: " + err.Error()}
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupted)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return childError(err)
	case s := <-interrupted:
		_ = cmd.Process.Kill()
		<-ended
		return fmt.Errorf("interrupted: %v", s)
	}
}

func childError(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitUnable {
		return &unable{"no FUSE or no loop device, see above"}
	}
	return err
}

func write(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

func read(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// serve is the first process in the namespaces: it serves the disks and starts
// the tester. It touches none of what is mounted from them.
func serve(dir string) {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fatal(&unable{"no root that may mount: " + err.Error()})
	}
	shelfDir := filepath.Join(dir, "disks")
	if err := os.Mkdir(shelfDir, 0o700); err != nil {
		fatal(err)
	}
	s := newShelf()
	if err := mountShelf(s, shelfDir); err != nil {
		fatal(&unable{"no FUSE: " + err.Error()})
	}
	if err := serveDisks(s, filepath.Join(dir, socketName)); err != nil {
		fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "test", dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// What is mounted from the disks is mounted in namespaces of the tester's: a
	// process that dies unmounts what is its own before it closes its last files,
	// and the server would wait for itself.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fatal(err)
	}
}
