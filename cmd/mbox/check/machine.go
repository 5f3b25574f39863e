package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"mbox/cmd/mbox/config"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// Thresholds of free space: below the first mbox should not run, below the
// second it is time to act.
const (
	gigabyte   = 1 << 30
	leastDisk  = 3 * gigabyte
	enoughDisk = 5 * gigabyte
	enoughRAM  = 2 * gigabyte

	enoughInodes  = 10_000
	enoughFiles   = 1024
	enoughWatches = 8192
)

// InMemory is what there is to know of tmpfs.
const InMemory = "which is memory: a restart of the machine takes the mailbox with it"

func (e *Exam) fileSystem() {
	name, network, err := durable.FileSystem(e.Home)
	if !e.check("filesystem", err) {
		return
	}
	switch {
	case network && !e.options.AllowNetworkFS:
		e.add("filesystem", Wrong, "allow_network_fs = true in mbox.toml, at your own risk", "%s: locks and renames promise less there", name)
	case network:
		e.add("filesystem", Doubt, "", "%s: locks and renames promise less there", name)
	case name == "tmpfs":
		e.add("filesystem", Doubt, "", "tmpfs, %s", InMemory)
	default:
		e.add("filesystem", Fine, "", "%s", name)
	}
}

// probe is how the folder's name begins in which renames are tried. It lies in
// the home itself: a file in .mbox/tmp would look like a transition to whoever
// verifies or recovers at this moment.
const probe = ".doctor-"

// renames tries the two flags that every transition needs, on files of its own.
func (e *Exam) renames() {
	e.sweep()
	dir, err := os.MkdirTemp(e.Home, probe)
	if !e.check("renames", err) {
		return
	}
	defer os.RemoveAll(dir)
	err = tryRenames(filepath.Join(dir, "a"), filepath.Join(dir, "b"))
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		e.fault("renames", "", err) // which tells nothing of renames
		return
	}
	if err != nil {
		e.add("renames", Wrong, "use a local file system such as ext4, xfs, btrfs or APFS", "%v", err)
		return
	}
	e.add("renames", Fine, "", "exchange and no-replace work")
}

// sweep removes what a doctor that was killed has left.
func (e *Exam) sweep() {
	left, _ := filepath.Glob(filepath.Join(e.Home, probe+"*"))
	for _, dir := range left {
		if info, err := os.Lstat(dir); err == nil && time.Since(info.ModTime()) > time.Minute {
			e.check("renames", os.RemoveAll(dir))
		}
	}
}

func tryRenames(a, b string) error {
	for _, path := range []string{a, b} {
		if err := durable.Stage(path, []byte(filepath.Base(path)), durable.None); err != nil {
			return err
		}
	}
	if err := durable.Exchange(a, b); err != nil {
		return fmt.Errorf("exchanging two files: %w", err)
	}
	if err := durable.Move(a, b); !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("a rename that may not replace did not refuse a taken name: %v", err)
	}
	if data, err := os.ReadFile(a); err != nil || string(data) != "b" {
		return fmt.Errorf("the exchange did not exchange: %q %v", data, err)
	}
	return nil
}

func (e *Exam) space() {
	free, inodes, err := freeOf(e.Home)
	if !e.check("disk", err) {
		return
	}
	e.room(free)
	if inodes < enoughInodes {
		e.add("inodes", Doubt, "mbox archive does not free any; old archives can be moved away", "%d left on this file system", inodes)
	}
}

// freeOf is what this user may still write on a file system: bytes, and inodes where
// it counts them.
func freeOf(home string) (bytes, inodes uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(home, &st); err != nil {
		return 0, 0, err
	}
	inodes = uint64(st.Ffree)
	if st.Files == 0 {
		inodes = math.MaxUint64
	}
	return uint64(st.Bavail) * uint64(st.Bsize), inodes, nil
}

// Disk tells how many bytes are free where a home lies, and what that means.
func Disk(home string) (free uint64, f Finding) {
	free, _, err := freeOf(home)
	if err != nil {
		return 0, Finding{Check: "disk", Level: Wrong, Text: err.Error()}
	}
	return free, disk(free)
}

func disk(free uint64) Finding {
	f := Finding{Check: "disk", Level: Fine, Text: schemas.Size(free) + " free"}
	switch {
	case free < leastDisk:
		f.Level, f.Hint = Wrong, "make room: a full disk stops every transition; mbox doctor --fix removes old logs"
		f.Text += ", at least " + schemas.Size(leastDisk) + " are needed"
	case free < enoughDisk:
		f.Level, f.Hint = Doubt, "mbox doctor --fix removes old logs"
		f.Text += ", less than " + schemas.Size(enoughDisk)
	}
	return f
}

// room judges the free space. Where there is too little, --fix removes the old
// logs that agents have put aside, and nothing else.
func (e *Exam) room(free uint64) {
	if free < enoughDisk && e.Fix {
		if n := e.pruneLogs(); n > 0 {
			e.add("disk", Fixed, "", "%s of old logs are removed", schemas.Size(n))
			free += n
		}
	}
	e.Findings = append(e.Findings, disk(free))
}

// pruneLogs removes the logs that were put aside, and tells how large they were.
func (e *Exam) pruneLogs() (freed uint64) {
	old, _ := filepath.Glob(filepath.Join(e.Home, "agents", "*", "logs", "*.log.[1-9]*"))
	for _, path := range old {
		info, err := os.Lstat(path)
		if err == nil && info.Mode().IsRegular() && e.check("disk", os.Remove(path)) {
			freed += uint64(info.Size())
		}
	}
	return freed
}

func (e *Exam) memory() {
	free, err := availableMemory()
	switch {
	case err != nil:
		e.add("memory", Doubt, "", "not known: %v", err)
	case free < enoughRAM:
		e.add("memory", Doubt, "", "%s available, less than %s", schemas.Size(free), schemas.Size(enoughRAM))
	default:
		e.add("memory", Fine, "", "%s available", schemas.Size(free))
	}
	if total, err := machineMemory(); err == nil && e.Config != nil {
		e.claudeMemory(total, withClaude(e.Config))
	}
}

// claudeRAM is what a machine of 4 GB has when its system has taken a share.
const claudeRAM = 15 * gigabyte / 4

// claudeMemory warns where agents run Claude Code and the machine is too small.
func (e *Exam) claudeMemory(total uint64, agents []string) {
	if lack := lackOf(total, agents); lack != "" {
		e.add("memory", Doubt, "a larger machine, or a model behind a server", "%s", lack)
	}
}

func lackOf(total uint64, agents []string) string {
	if len(agents) == 0 || total >= claudeRAM {
		return ""
	}
	return fmt.Sprintf("%s run Claude Code, which needs 4 GB: this machine has %s", strings.Join(agents, ", "), schemas.Size(total))
}

// Lack tells what this machine lacks for the program of an agent; "" if nothing is known.
func Lack(c *config.File, name string) string {
	total, err := machineMemory()
	if err != nil || !slices.Contains(withClaude(c), name) {
		return ""
	}
	return lackOf(total, []string{name})
}

// withClaude are the enabled agents whose command is Claude Code.
func withClaude(c *config.File) (names []string) {
	for _, name := range c.AgentNames() {
		a := c.Agents[name]
		runs := slices.ContainsFunc(strings.Fields(a.Command()+" "+a.Brain.Command), func(word string) bool { return filepath.Base(word) == "claude" })
		if a.Enabled && runs {
			names = append(names, name)
		}
	}
	return names
}

// docker looks for what deploy_compose runs. Without it that action is a dry run,
// and nothing is wrong.
func (e *Exam) docker(ctx context.Context) {
	needed := e.Config != nil && e.Config.Actions.DeployCompose.Run
	path, err := exec.LookPath("docker")
	switch {
	case err != nil && needed:
		e.add("docker", Doubt, "install Docker with its compose plug-in, or run = false in [actions.deploy_compose]", "is not there: what deploy_compose is to run cannot start")
	case err != nil:
		e.add("docker", Fine, "", "is not there, and not needed: deploy_compose is a dry run")
	case needed:
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, path, "compose", "version")
		cmd.WaitDelay = time.Second
		if err := cmd.Run(); err != nil {
			e.add("docker", Doubt, "install its compose plug-in", "%s compose does not answer: %v", path, err)
			return
		}
		fallthrough
	default:
		e.add("docker", Fine, "", "%s", path)
	}
}

func (e *Exam) limits() {
	var files syscall.Rlimit
	if e.check("open files", syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)) {
		if files.Cur < enoughFiles {
			e.add("open files", Doubt, fmt.Sprintf("ulimit -n %d", enoughFiles), "at most %d, less than %d", files.Cur, enoughFiles)
		} else {
			e.add("open files", Fine, "", "at most %d", files.Cur)
		}
	}
	e.watches()
}
