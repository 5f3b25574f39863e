// Command gotest is go test that counts: it prints what go test prints, then
// every test that was skipped and why, then the slowest, then one plain line.
//
//	go run ./.ci/gotest [go test's flags] ./...
//
// What a test tells with a line "SKIPPED: …" counts as skipped too: it left a
// part of itself out. With CI=true, and without -short, a skip for any reason but
// those of allowed is a failure. GOTEST_TALLY names a file that the figures are
// appended to.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// allowed is what a machine of CI may lack: parts of its kernel, root, the history of
// what it checks out, and pgvector, of which Debian 12 has no package. All else can be
// installed.
var allowed = regexp.MustCompile(`(?i)loop device|\bfuse\b|user namespace|landlock|\broot\b|run as such a user|without history|\bpgvector\b`)

// place is what go test puts in front of what a test says.
var place = regexp.MustCompile(`^\s*[\w.-]+\.go:\d+: `)

// event is a line of go test -json, see go doc test2json.
type event struct {
	Action, Package, Test, Output string

	Elapsed float64 // seconds
}

type tally struct {
	passed, failed int
	skips          []string
	forbidden      int
	slow           []event // the tests, not their parts, that took 10 s and more

	said   map[string][]string // by package and test
	broken map[string]bool     // packages in which a test has failed
	parted map[string]bool     // tests, by package and name, that have parts
	parts  map[string]float64  // the seconds of a test's parts, of which several may run at once
}

func main() {
	t := tally{said: map[string][]string{}, broken: map[string]bool{}, parted: map[string]bool{}, parts: map[string]float64{}}
	code, err := t.run(os.Args[1:])
	if err == nil {
		err = t.keep(os.Getenv("GOTEST_TALLY"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
	os.Exit(max(code, t.print()))
}

// run is go test. A process that is built with the race detector sleeps for a second at
// its end, unless it is told not to.
func (t *tally) run(args []string) (code int, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "PATH="+path(), "GORACE="+cmp.Or(os.Getenv("GORACE"), "atexit_sleep_ms=20"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			t.take(line)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 1, err
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &exit) {
		return 1, nil
	} else if err != nil {
		return 1, err
	}
	return 0, nil
}

// path is the PATH of the tests, which begin python3 often: with the folder of the
// interpreter itself first, where what is found is a script that looks for it.
func path() string {
	now := os.Getenv("PATH")
	shim, err := exec.LookPath("python3")
	if err != nil {
		return now
	}
	real, err := exec.Command(shim, "-c", "import sys; print(sys.executable)").Output()
	if dir := filepath.Dir(string(real)); err == nil && dir != filepath.Dir(shim) {
		return dir + string(filepath.ListSeparator) + now
	}
	return now
}

func (t *tally) take(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		os.Stdout.Write(line) // not of go test -json: the compiler, say
		return
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		t.said[key] = append(t.said[key], e.Output)
		if _, what, found := strings.Cut(e.Output, "SKIPPED: "); found {
			t.skip(e, what)
		}
	case "build-output":
		fmt.Print(e.Output)
	case "pass", "fail", "skip":
		t.time(e)
		said := t.said[key]
		delete(t.said, key)
		t.end(e, said)
	}
}

// time notes how long a test took: itself, or its parts together, for go test does not
// count what runs beside others.
func (t *tally) time(e event) {
	whole, _, part := strings.Cut(e.Test, "/")
	switch root := e.Package + " " + whole; {
	case part:
		if !t.parted[e.Package+" "+e.Test] {
			t.parts[root] += e.Elapsed
		}
		for name := e.Test; name != whole; t.parted[e.Package+" "+name] = true {
			name = name[:strings.LastIndexByte(name, '/')]
		}
	case e.Test != "":
		if e.Elapsed = max(e.Elapsed, t.parts[root]); e.Elapsed >= 10 {
			t.slow = append(t.slow, e)
		}
	}
}

// end counts a test, or prints the closing lines of a package.
func (t *tally) end(e event, said []string) {
	switch {
	case e.Test == "":
		t.endPackage(e, said)
	case e.Action == "pass":
		t.passed++
	case e.Action == "fail":
		t.failed++
		t.broken[e.Package] = true
		fmt.Print(strings.Join(said, ""))
	default:
		t.skip(e, reason(said))
	}
}

func (t *tally) endPackage(e event, said []string) {
	for _, line := range said {
		if line != "PASS\n" {
			fmt.Print(line)
		}
	}
	if e.Action != "fail" {
		return
	}
	for key, said := range t.said { // of tests that never came to their end
		if strings.HasPrefix(key, e.Package+" ") {
			fmt.Print(strings.Join(said, ""))
			delete(t.said, key)
			t.failed++
			t.broken[e.Package] = true
		}
	}
	if !t.broken[e.Package] {
		t.failed++ // it was not built, or died outside of its tests
	}
}

// reason is what a test said last before it was skipped.
func reason(said []string) string {
	for _, line := range slices.Backward(said) {
		if place.MatchString(line) {
			return strings.TrimPrefix(place.ReplaceAllString(line, ""), "SKIPPED: ")
		}
	}
	return "no reason given"
}

func (t *tally) skip(e event, why string) {
	line := fmt.Sprintf("%s %s: %s", e.Package, e.Test, strings.TrimSpace(why))
	switch {
	case slices.Contains(os.Args, "-short"):
		line += " (with -short)"
	case os.Getenv("CI") == "true" && !allowed.MatchString(why):
		line += " (not allowed to be missing in CI)"
		t.forbidden++
	}
	if !slices.Contains(t.skips, line) {
		t.skips = append(t.skips, line)
	}
}

// print ends the run and tells whether it was good.
func (t *tally) print() (code int) {
	for _, s := range t.skips {
		fmt.Println("skipped:", s)
	}
	slices.SortFunc(t.slow, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range t.slow[:min(len(t.slow), 20)] {
		fmt.Printf("slow: %s %s %.0f s\n", e.Package, e.Test, e.Elapsed)
	}
	fmt.Printf("%d passed, %d failed\n", t.passed, t.failed)
	if t.forbidden > 0 || t.failed > 0 {
		return 1
	}
	return 0
}

// keep appends the figures to a file, for a run of several parts.
func (t *tally) keep(name string) error {
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	for _, s := range t.skips {
		fmt.Fprintln(f, "skipped:", s)
	}
	fmt.Fprintln(f, "tally:", t.passed, t.failed)
	return f.Close()
}
