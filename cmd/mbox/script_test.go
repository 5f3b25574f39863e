package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"mbox/agents/memory/postgres/postgrestest"
	"mbox/agents/sandbox"
	"mbox/audit"
)

var update = flag.Bool("update", false, "write the golden files anew")

// In a script, mbox is this test binary under another name: a real process. So are
// the others.
var programs = map[string]func(){"mbox": main}

func TestMain(m *testing.M) {
	sandbox.Main() // the helper has a name that testscript does not know
	testscript.Main(tidying{m}, programs)
}

// tidying removes what tests have shared when they have run.
type tidying struct{ *testing.M }

func (m tidying) Run() int {
	code := m.M.Run()
	if builtDir != "" {
		os.RemoveAll(builtDir)
	}
	postgrestest.Stop()
	if qdrantBuilt != "" {
		os.RemoveAll(qdrantBuilt)
	}
	return code
}

func TestScripts(t *testing.T) { testscript.Run(t, scripts("testdata/script")) }

// scripts are those of a folder, and what they can call.
func scripts(dir string) testscript.Params {
	return testscript.Params{
		Dir:                dir,
		RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("MBOX_HOME", filepath.Join(e.WorkDir, "agents"))
			e.Setenv("TZ", "UTC")
			e.Setenv("EXAMPLES", repoFile("examples"))
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "confines":
				return sandbox.Probe().Err() == nil, nil
			case "postgres":
				return postgrestest.Programs() != "", nil
			}
			return false, fmt.Errorf("unknown condition %s", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"delegate": delegate,
			"exits":    exits,
			"grab":     grab,
			"lint":     lint,
			"nowhere":  nowhere,
			"postgres": database,
			"qdrant":   qdrantServer,
			"unname":   unname,
			"waitfor":  waitFor,
		},
	}
}

// postgres FILE writes what connects to a new database of a real server into a file.
func database(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: postgres FILE")
	}
	url, err := postgrestest.New(ts.Name() + args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(url+"\n"), 0o600))
}

// exits CODE COMMAND ARG… runs a command and wants exactly that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// grab NAME [.json.path] sets a variable to stdout, or to a field of the JSON there.
func grab(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: grab NAME [.json.path]")
	}
	out := strings.TrimSpace(ts.ReadFile("stdout"))
	if len(args) == 2 {
		var v any
		ts.Check(json.Unmarshal([]byte(out), &v))
		for key := range strings.SplitSeq(strings.TrimPrefix(args[1], "."), ".") {
			object, ok := v.(map[string]any)
			if !ok || object[key] == nil {
				ts.Fatalf("no %s in %s", args[1], out)
			}
			v = object[key]
		}
		text, ok := v.(string)
		if !ok {
			data, err := json.Marshal(v)
			ts.Check(err)
			text = string(data)
		}
		out = text
	}
	ts.Setenv(args[0], out)
}

// lint HOME runs the independent checker of the format. Nothing works there any
// more, so the agents' copies have to be whole.
func lint(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: lint HOME")
	}
	checker := os.Getenv("MBOX_LINT")
	if checker == "" {
		checker = repoFile(".ci", "lint.py")
	}
	if _, err := os.Stat(checker); err != nil {
		ts.Logf("SKIPPED: %v", err)
		return
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		ts.Logf("SKIPPED: no python3, so the format is not checked")
		return
	}
	ts.Check(ts.Exec(python, checker, "--whole", ts.MkAbs(args[0])))
}

// nowhere TEXT wants that no file of the script holds a text, and no command line of a
// process of this machine.
func nowhere(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || len(args[0]) < 16 {
		ts.Fatalf("usage: nowhere TEXT, of 16 bytes or more")
	}
	ts.Check(filepath.WalkDir(ts.Getenv("WORK"), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
			return nil
		}
		data, readErr := os.ReadFile(path)
		if errors.Is(readErr, fs.ErrNotExist) {
			return nil
		}
		if strings.Contains(string(data), args[0]) {
			ts.Fatalf("it stands in %s", path)
		}
		return errors.Join(err, readErr)
	}))
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline") // there are none on macOS
	ts.Check(err)
	for _, name := range lines {
		if data, err := os.ReadFile(name); err == nil && strings.Contains(string(data), args[0]) {
			ts.Fatalf("it stands in %s", name)
		}
	}
}

// repoFile is a path from the root of the repository: tests run in cmd/mbox.
func repoFile(parts ...string) string {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return filepath.Join(append([]string{root}, parts...)...)
}

// waitfor COMMAND ARG… repeats a command until it succeeds, for 10 s.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := ts.Exec(args[0], args[1:]...)
		if (err == nil) != neg {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("waited 10 s for %s: %v", strings.Join(args, " "), err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

var (
	namedID = regexp.MustCompile(`"mailbox_id":"[0-9a-f]+",`)
	prevSum = regexp.MustCompile(`"prev":"sha256:[0-9a-f]{64}"`)
)

// unname HOME makes the ledger one of the first versions, which did not tell the
// mailbox's id.
func unname(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: unname HOME")
	}
	files, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "audit", "shared", "*.jsonl"))
	ts.Check(err)
	var made strings.Builder
	prev := ""
	for line := range strings.Lines(ts.ReadFile(files[0])) {
		body := namedID.ReplaceAllString(line[:len(line)-1-86], "")
		if prev != "" {
			body = prevSum.ReplaceAllString(body, `"prev":"`+prev+`"`)
		}
		prev = audit.Hash([]byte(body + "}"))
		fmt.Fprintf(&made, "%s,\"checksum\":%q}\n", body, prev)
	}
	ts.Check(os.WriteFile(files[0], []byte(made.String()), 0o600))
}
