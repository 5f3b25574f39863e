//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// tracedHome makes this test binary a worker that claims when it is told to, in
// the home that it names.
const tracedHome = "MBOX_TEST_TRACED"

// Between opens of these names, which do not exist, the worker claims.
const (
	claimBegins = "/mbox-test-claim-begins"
	claimEnds   = "/mbox-test-claim-ends"
)

func init() {
	if home := os.Getenv(tracedHome); home != "" {
		if err := claimTraced(home); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// claimTraced claims once to have everything open, and then, line by line from
// its input, once more.
func claimTraced(home string) error {
	ctx := context.Background()
	box, err := mailbox.Open(ctx, home, mailbox.Options{})
	if err != nil {
		return err
	}
	defer box.Close()
	var kept []*mailbox.Claim // whose leases are held until the end
	claim := func(process bool) error {
		c, err := box.Claim(ctx, mailbox.ClaimRequest{Agent: "coder", Process: process})
		kept = append(kept, c)
		return err
	}
	if err := claim(true); err != nil {
		return err
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		_, _ = os.Open(claimBegins)
		err := claim(in.Text() == "process")
		_, _ = os.Open(claimEnds)
		if err != nil {
			return err
		}
		fmt.Println("claimed")
	}
	return in.Err()
}

// crowded makes a home with n pending tasks.
func crowded(t *testing.T, n int) (home string) {
	t.Helper()
	home = filepath.Join(fastDir(t), "home")
	o := mailbox.Options{Sync: durable.None}
	if err := mailbox.Create(home, o); err != nil {
		t.Fatal(err)
	}
	box, err := mailbox.Open(t.Context(), home, o)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	begun := time.Now()
	for i := range n {
		task := &mailbox.Task{ID: mailbox.ID(fmt.Sprintf("t%d", i)), Task: mailbox.Request{Title: "one of many"}}
		if _, err := box.Submit(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d tasks sent in %v", n, time.Since(begun).Round(time.Millisecond))
	return home
}

// traced is a system call of the trace.
type traced struct {
	name string
	path string // of the descriptor or the file
	fd   string
	args string
}

var (
	tracedLine = regexp.MustCompile(`^\d+ +(\w+)\((.*)\) += (-?\d+)(<.*>)?`)
	onFile     = regexp.MustCompile(`^(\d+)<([^>]*)>`)
	openedFile = regexp.MustCompile(`^[^,]*, "([^"]*)"`)
)

// readTrace returns the calls between the marks, claim by claim.
func readTrace(t *testing.T, file string) (claims [][]traced) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	halves := map[string]string{} // of calls that another thread interrupted
	inside := false
	for line := range strings.Lines(string(data)) {
		pid, _, _ := strings.Cut(line, " ")
		if first, ok := strings.CutSuffix(strings.TrimSpace(line), " <unfinished ...>"); ok {
			halves[pid] = first
			continue
		}
		if _, rest, ok := strings.Cut(line, " resumed>"); ok {
			line = halves[pid] + rest
		}
		m := tracedLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		c := traced{name: m[1], args: m[2]}
		if f := onFile.FindStringSubmatch(m[2]); f != nil {
			c.fd, c.path = f[1], f[2]
		}
		if f := openedFile.FindStringSubmatch(m[2]); f != nil && c.name == "openat" {
			c.path = f[1]
		}
		switch {
		case c.path == claimBegins:
			inside, claims = true, append(claims, nil)
		case c.path == claimEnds:
			inside = false
		case inside && !strings.HasPrefix(m[3], "-"):
			claims[len(claims)-1] = append(claims[len(claims)-1], c)
		case inside && c.name == "openat": // a name that is not there was looked for
			claims[len(claims)-1] = append(claims[len(claims)-1], traced{name: "openat", path: c.path + " (failed)"})
		}
	}
	return claims
}

// TestClaimAmongMany: a long-lived worker takes the next of very many tasks with
// a bounded number of opened files and without listing a folder, and flushes
// while it holds no lock but that task's own.
func TestClaimAmongMany(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("SKIPPED: no strace")
	}
	if out, err := exec.Command("strace", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: strace may not trace here: %s", out)
	}
	home := crowded(t, sized(3_000, 20_000, 100_000))
	for i, calls := range trace(t, home) {
		process := i == 1
		var opened, flushed []string
		for _, c := range calls {
			switch c.name {
			case "openat":
				opened = append(opened, strings.TrimPrefix(c.path, home+"/"))
			case "fsync", "fdatasync":
				flushed = append(flushed, strings.TrimPrefix(c.path, home+"/"))
			case "getdents64":
				t.Errorf("claim %d lists %s", i, c.path)
			}
		}
		t.Logf("claim %d opens %d files and flushes %q", i, len(opened), flushed)
		if !slices.Equal(flushed, []string{".mbox/journal"}) {
			t.Errorf("claim %d flushes %q, want the journal alone", i, flushed)
		}
		if len(opened) > 20 {
			t.Errorf("claim %d opens %d files:\n%s", i, len(opened), strings.Join(opened, "\n"))
		}
		for _, fault := range heldOverFlushes(calls, process) {
			t.Errorf("claim %d: %s", i, fault)
		}
	}
}

// trace runs the worker under strace and lets it claim twice: without a lease
// file and with one.
func trace(t *testing.T, home string) [][]traced {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command("strace", "-f", "-y", "-o", file, "-e", "trace=openat,flock,fsync,fdatasync,getdents64,close", exe)
	cmd.Env = append(os.Environ(), tracedHome+"="+home)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewScanner(pipe)
	for _, say := range []string{"", "deadline", "process"} {
		if say != "" {
			fmt.Fprintln(in, say)
		}
		if !out.Scan() {
			break
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the traced worker: %v", err)
	}
	claims := readTrace(t, file)
	if len(claims) != 2 {
		t.Fatalf("%d claims in the trace", len(claims))
	}
	return claims
}

// heldOverFlushes tells where a lock other than one shard (and the claim's own
// lease) is held across a flush.
func heldOverFlushes(calls []traced, process bool) (faults []string) {
	fault := func(format string, a ...any) { faults = append(faults, fmt.Sprintf(format, a...)) }
	held := map[string]string{} // by descriptor
	shards := map[string]bool{}
	flushes := 0
	for _, c := range calls {
		switch {
		case c.name == "flock" && strings.Contains(c.args, "LOCK_EX"):
			held[c.fd] = c.path
		case c.name == "flock" && strings.Contains(c.args, "LOCK_UN"), c.name == "close":
			delete(held, c.fd)
		case c.name == "fsync", c.name == "fdatasync":
			flushes++
			locks := 0
			for _, path := range held {
				switch dir, base := filepath.Dir(path), filepath.Base(path); {
				case strings.HasSuffix(dir, "/.mbox/locks") && strings.HasPrefix(base, "task-"):
					locks++
					shards[base] = true
				case strings.HasSuffix(path, "/.mbox/locks/sync"): // who flushes for others has it
				case process && strings.HasSuffix(dir, "/.mbox/leases"):
				default:
					fault("%s of %s while %s is locked", c.name, c.path, path)
				}
			}
			if locks != 1 {
				fault("%s of %s with %d shards locked", c.name, c.path, locks)
			}
		}
	}
	if flushes == 0 {
		fault("nothing is flushed")
	}
	if len(shards) != 1 {
		fault("shards locked across flushes: %v", shards)
	}
	return faults
}

// TestTraceReader: the reader of traces finds what it is there for, a ledger
// that is locked across its flush above all.
func TestTraceReader(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	text := `9 openat(AT_FDCWD, "/before", O_RDONLY) = 3</before>
9 openat(AT_FDCWD, "` + claimBegins + `", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)
9 flock(3</h/.mbox/locks/task-0b>, LOCK_EX|LOCK_NB) = 0
9 flock(4</h/.mbox/locks/chain>, LOCK_EX|LOCK_NB) = 0
9 fdatasync(5</h/audit/shared/x.jsonl> <unfinished ...>
8 openat(AT_FDCWD, "/other", O_RDONLY) = 6</other>
9 <... fdatasync resumed>)                = 0
9 close(4</h/.mbox/locks/chain>)         = 0
9 fsync(7</h/.mbox/tmp/t~0>) = 0
9 getdents64(8</h/tasks/pending>, 0x1 /* 2 entries */, 32768) = 48
9 openat(AT_FDCWD, "` + claimEnds + `", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)
9 openat(AT_FDCWD, "/after", O_RDONLY) = 3</after>
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	claims := readTrace(t, file)
	if len(claims) != 1 {
		t.Fatalf("%d claims", len(claims))
	}
	var names []string
	for _, c := range claims[0] {
		names = append(names, c.name+" "+c.path)
	}
	want := []string{
		"flock /h/.mbox/locks/task-0b", "flock /h/.mbox/locks/chain", "openat /other", "fdatasync /h/audit/shared/x.jsonl",
		"close /h/.mbox/locks/chain", "fsync /h/.mbox/tmp/t~0", "getdents64 /h/tasks/pending",
	}
	if !slices.Equal(names, want) {
		t.Errorf("read %q", names)
	}
	faults := heldOverFlushes(claims[0], false)
	if len(faults) != 1 || faults[0] != "fdatasync of /h/audit/shared/x.jsonl while /h/.mbox/locks/chain is locked" {
		t.Errorf("found %q", faults)
	}
}
