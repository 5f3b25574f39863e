package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mbox/mailbox/durable"
)

// A place of the home is replaced by what nobody expects there. Each returns
// what ends it.
var replacements = map[string]func(path string) (end func(), err error){
	"a FIFO": func(path string) (func(), error) { return func() {}, unix.Mkfifo(path, 0o600) },
	"an endless FIFO": func(path string) (func(), error) {
		if err := unix.Mkfifo(path, 0o600); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0) // waits for no reader
		if err != nil {
			return nil, err
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for line := bytes.Repeat([]byte("[a]\n"), 1<<12); ; {
				if _, err := f.Write(line); err != nil {
					return
				}
			}
		}()
		return func() { f.Close(); <-ended }, nil
	},
	"a sparse file": func(path string) (func(), error) {
		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			return nil, err
		}
		return func() {}, os.Truncate(path, 1<<40)
	},
	"a folder": func(path string) (func(), error) { return func() {}, os.Mkdir(path, 0o700) },
	"a symlink to a FIFO": func(path string) (func(), error) {
		to := path + ".far"
		return func() { os.Remove(to) }, errors.Join(unix.Mkfifo(to, 0o600), os.Symlink(to, path))
	},
	"a symlink to itself": func(path string) (func(), error) { return func() {}, os.Symlink(path, path) },
}

// most is what a command may have resident, in bytes, and within is a guard
// against hanging, no benchmark.
const (
	mostResident = 200 << 20
	within       = 30 * time.Second
)

// answers runs mbox, and fails the test if it hangs, crashes or grows.
func answers(t *testing.T, what string, cmd *exec.Cmd) string {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Errorf("%s: %v", what, err)
		return ""
	}
	code := cmd.ProcessState.ExitCode()
	if code < 0 {
		t.Errorf("%s: no answer within %v", what, within)
	}
	if strings.Contains(out.String(), "goroutine ") {
		t.Errorf("%s: crashed\n%.2000s", what, out.Bytes())
	}
	// Until it has called exec a child counts as large as its parent.
	own := new(syscall.Rusage)
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, own); err != nil {
		t.Fatal(err)
	}
	if use := resident(cmd.ProcessState.SysUsage().(*syscall.Rusage)); use > max(mostResident, resident(own)) {
		t.Errorf("%s: %d MB resident", what, use>>20)
	}
	return out.String()
}

func resident(used *syscall.Rusage) int64 {
	use := used.Maxrss
	if runtime.GOOS != "darwin" {
		use <<= 10
	}
	return use
}

var counted = regexp.MustCompile(`[0-9a-f]{32}|-[0-9a-f]{2}\b|\d+`)

// placesOf are the paths of a home, of those that differ in a number one.
func placesOf(t *testing.T, home string) (places []string) {
	t.Helper()
	seen := map[string]bool{}
	err := filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
		name, _ := filepath.Rel(home, path)
		if kind := counted.ReplaceAllString(name, "#"); name != "." && !seen[kind] {
			seen[kind] = true
			places = append(places, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return places
}

// endOf is where the way out ends when a place of the home was lost: of decisions
// and changes there is no second copy.
func endOf(place string) string {
	if strings.HasPrefix(place, "decisions") || strings.HasPrefix(place, "changes") {
		return "backup"
	}
	return ""
}

// TestBoundedHome puts something unexpected in each place of a home, one at a
// time. Whatever it is: every command answers, and in little memory, and the hints
// lead out.
func TestBoundedHome(t *testing.T) {
	bin := program(t)
	dir := t.TempDir()
	template, home := filepath.Join(dir, "template"), filepath.Join(dir, "home")
	mbox := func(home string, args ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		t.Cleanup(cancel)
		cmd := exec.CommandContext(ctx, bin, append([]string{"--home", home}, args...)...)
		cmd.Dir = dir
		return cmd
	}
	for _, args := range [][]string{
		{"init"},
		{"send", "One", "--to", "coder", "--id", "one"},
		{"send", "Two", "--id", "two"},
		{"send", "Three", "--id", "three"},
		{"cancel", "three", "--reason", "no"},
		{"claim", "--agent", "coder"},
		{"decision", "new", "--context", "c", "--option", "o", "--decision", "d", "--outcome", "o"},
		{"change", "new", "--description", "d", "--rationale", "r", "--before", "b", "--after", "a", "--rollback", "u", "--verification", "v"},
	} {
		if out, err := mbox(template, args...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	kinds := make([]string, 0, len(replacements))
	for kind := range replacements {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	every := sized(61, 31, 1)
	for i, place := range placesOf(t, template) {
		for j, kind := range kinds {
			if (i*len(kinds)+j)%every != 0 {
				continue
			}
			if out, err := exec.Command("cp", "-a", template, home).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			_ = mbox(home, "ls").Run() // the copy is taken over
			path := filepath.Join(home, place)
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			end, err := replacements[kind](path)
			if err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"verify"}, {"ls"}, {"send", "New"}, {"doctor"}, {"recover"}, {"backup", "-"}} {
				answers(t, fmt.Sprintf("%s is %s: %s", place, kind, args[0]), mbox(home, args...))
			}
			end()
			t.Run(place+" is "+kind, func(t *testing.T) { (&walk{T: t, bin: bin, home: home}).out(endOf(place)) })
			if err := os.RemoveAll(home); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestBoundedInputs gives every kind of input without an end, and a FIFO that
// nobody writes to.
func TestBoundedInputs(t *testing.T) {
	bin := program(t)
	dir := t.TempDir()
	mbox := func(args ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		t.Cleanup(cancel)
		cmd := exec.CommandContext(ctx, bin, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "MBOX_HOME="+filepath.Join(dir, "home"))
		return cmd
	}
	answers(t, "init", mbox("init", "--sync", "none"))
	for kind, replace := range replacements {
		path := filepath.Join(dir, "home", "agents", strings.ReplaceAll(kind, " ", "-")+".json")
		end, err := replace(path)
		if err != nil {
			t.Fatal(err)
		}
		if out := answers(t, "send of "+kind, mbox("send", path)); strings.Contains(out, "out of the home") {
			t.Errorf("send of %s speaks of a damaged home: %s", kind, out)
		}
		for _, args := range [][]string{{"restore", path, "restored"}, {"backup", "--check", path}} {
			if out := answers(t, args[0]+" of "+kind, mbox(args...)); !strings.Contains(out, "mbox: ") {
				t.Errorf("%s of %s: it was taken: %s", args[0], kind, out)
			}
		}
		end()
	}
	answers(t, "send", mbox("send", "Talk", "--to", "coder", "--id", "talk"))
	answers(t, "40 MB of output", mbox("worker", "--agent", "coder", "--once", "--exec", "yes | head -c 40000000"))
	if out := answers(t, "show", mbox("show", "talk")); !strings.Contains(out, "completed") {
		t.Error(out)
	}
}

// TestTooFewDescriptors is an error, no crash, and a file that may not grow is
// one of the disk.
func TestTooFewDescriptors(t *testing.T) {
	bin := program(t)
	dir := t.TempDir()
	mbox := func(limit string, args ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		t.Cleanup(cancel)
		cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", limit + ` && exec "$0" "$@"`, bin}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "MBOX_HOME="+filepath.Join(dir, "home"))
		return cmd
	}
	answers(t, "init", mbox("true", "init"))
	answers(t, "send", mbox("true", "send", "One", "--to", "coder", "--id", "one"))
	for _, n := range []int{4, 6, 9, 20, 33, 36, 40, 60, 80} {
		for _, args := range [][]string{{"ls"}, {"send", "Two", "--id", fmt.Sprint("two-", n)}, {"verify"}, {"backup", fmt.Sprint(n, ".tar.zst")}} {
			cmd := mbox(fmt.Sprint("ulimit -n ", n), args...)
			out := answers(t, fmt.Sprintf("%s with %d descriptors", args[0], n), cmd)
			if code := cmd.ProcessState.ExitCode(); code != 0 && code != exitIO {
				t.Errorf("%s with %d descriptors: exit %d: %s", args[0], n, code, out)
			}
		}
	}
	cmd := mbox("ulimit -f 1", "backup", "x.tar.zst")
	out := answers(t, "ulimit -f", cmd)
	if code := cmd.ProcessState.ExitCode(); code != exitIO {
		t.Errorf("a file that may not grow: exit %d: %s", code, out)
	}
	answers(t, "verify", mbox("true", "verify"))
}

// A home in memory is named by init and by doctor.
func TestHomeInMemory(t *testing.T) {
	name, _, err := durable.FileSystem("/dev/shm")
	if err != nil || name != "tmpfs" {
		t.Skip("SKIPPED: no tmpfs")
	}
	bin := program(t)
	dir, err := os.MkdirTemp("/dev/shm", "mbox-memory-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, args := range [][]string{{"init", dir}, {"--home", dir, "doctor"}} {
		if out, _ := exec.Command(bin, args...).CombinedOutput(); !bytes.Contains(out, []byte("tmpfs, which is memory")) {
			t.Errorf("%q: %s", args, out)
		}
	}
}
