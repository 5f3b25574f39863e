package mailbox

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mbox/mailbox/durable"
)

const countedCalls = "MBOX_TEST_COUNTED" // set in the process whose calls are counted

// verbCalls are the system calls on files that each verb makes at most, in a process
// that lives on and has the mailbox for itself, without flushes. Who makes them fewer
// writes down the new number; none of them grows.
var verbCalls = map[string]int{"submit": 37, "claim": 52, "complete": 46}

// What a verb costs is counted by strace, in the thread that does all of it: the least
// of many rounds, for now and then a snapshot is written.
func TestCallsOfAVerb(t *testing.T) {
	if os.Getenv(countedCalls) != "" {
		runVerbs(t)
		return
	}
	if out, err := exec.Command("strace", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: strace may not trace here: %v %s", err, out)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "strace", "-f", "-o", trace, "-e", "trace=%file,%desc", os.Args[0], "-test.run", "^TestCallsOfAVerb$")
	cmd.Env = append(os.Environ(), countedCalls+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(trace)
	must(t, err)
	counts, calls := countVerbs(data)
	for verb, want := range verbCalls {
		if got := counts[verb]; len(got) < 10 || slices.Min(got) > want {
			t.Errorf("%s makes %v calls, want %d at most:\n%s", verb, got, want, bytes.Join(calls[verb], []byte("\n")))
		}
	}
}

var (
	beginsVerb = regexp.MustCompile(`^(\d+) +faccessat2?\(AT_FDCWD, "verb-(\w+)"`)
	fileCall   = regexp.MustCompile(`^(\d+) +([a-z0-9_]+)\(`)
	noFileCall = regexp.MustCompile(`^(epoll|mmap|eventfd|ioctl)`)
)

// countVerbs counts the calls of each round of each verb, and returns those of the last.
func countVerbs(trace []byte) (counts map[string][]int, calls map[string][][]byte) {
	counts, calls = map[string][]int{}, map[string][][]byte{}
	verb, thread := "end", ""
	for line := range bytes.Lines(trace) {
		if m := beginsVerb.FindSubmatch(line); m != nil {
			if verb != "end" {
				counts[verb] = append(counts[verb], len(calls[verb]))
			}
			verb, thread = string(m[2]), string(m[1])
			calls[verb] = nil
			continue
		}
		m := fileCall.FindSubmatch(line)
		if m != nil && verb != "end" && string(m[1]) == thread && !noFileCall.Match(m[2]) {
			calls[verb] = append(calls[verb], bytes.TrimSpace(line))
		}
	}
	return counts, calls
}

func runVerbs(t *testing.T) {
	runtime.LockOSThread()
	home := t.TempDir() + "/home"
	must(t, Create(home, Options{Sync: durable.None}))
	later := func() time.Time { return time.Now().Add(time.Minute) } // the folders have long been as they are
	b := opened(t, home, Options{Sync: durable.None, Now: later})
	begin := func(verb string) { _ = unix.Faccessat(unix.AT_FDCWD, "verb-"+verb, unix.F_OK, unix.AT_EACCESS) }
	for range 20 {
		begin("submit")
		_, err := b.Submit(t.Context(), request("counted"))
		begin("claim")
		must(t, err)
		c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: true})
		begin("complete")
		must(t, err)
		must(t, c.Complete(t.Context(), Result{}))
		must(t, c.Close())
		begin("end")
	}
}

// A box that is closed leaves no descriptor open in its home: a disk could not be
// taken away.
func TestCloseLeavesNothingOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	must(t, Create(dir, Options{Sync: durable.None}))
	b, err := Open(t.Context(), dir, Options{Sync: durable.None})
	must(t, err)
	submit(t, b, request("x"))
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: true})
	must(t, err)
	must(t, c.Complete(t.Context(), Result{}))
	must(t, c.Close())
	must(t, b.Close())
	open, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, fd := range open {
		if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasPrefix(to, dir) {
			t.Errorf("%s is open", to)
		}
	}
}
