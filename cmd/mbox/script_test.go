package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"mbox/agents/memory/postgres/postgrestest"
	"mbox/agents/sandbox"
	"mbox/agents/secret/keyring/keyringtest"
	"mbox/agents/secret/secrettest"
	"mbox/audit"
	"mbox/mailbox/linttest"
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

// TestScripts runs each script. Under the race detector, with which a command takes many
// times as long to begin, it runs those in which a process stays: there is much at once.
func TestScripts(t *testing.T) {
	p := scripts("testdata/script")
	if raced {
		p.Files, p.Dir = staying(t, p.Dir), ""
	}
	testscript.Run(t, p)
}

// staying are the scripts of a folder with a command that does not end by itself.
func staying(t *testing.T, dir string) (files []string) {
	t.Helper()
	stays := regexp.MustCompile(`(?m)^[^#\n]*\bmbox (up|worker|serve|mcp|top|bridge)\b`)
	all, err := filepath.Glob(filepath.Join(dir, "*.txt*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if stays.Match(text) {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		t.Fatalf("no script of %s has a process that stays", dir)
	}
	return files
}

// oneByOne skips, under the race detector, a test of commands none of which has others
// beside it: TestScripts has those.
func oneByOne(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("SKIPPED: its commands run one by one")
	}
}

// scripts are those of a folder, and what they can call.
func scripts(dir string) testscript.Params {
	return testscript.Params{
		Dir:                dir,
		RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("MBOX_HOME", filepath.Join(e.WorkDir, "agents"))
			e.Setenv("TZ", "UTC")
			if raced {
				e.Setenv("GORACE", os.Getenv("GORACE"))
			}
			e.Setenv("EXAMPLES", repoFile("examples"))
			watchCanary(e)
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "confines":
				return sandbox.Probe().Err() == nil, nil
			case "postgres":
				return postgrestest.Programs() != "", nil
			case "keyring":
				return keyringtest.Missing() == nil, nil
			}
			return false, fmt.Errorf("unknown condition %s", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"delegate":  delegate,
			"ended":     waitEnd,
			"exits":     exits,
			"given":     given,
			"grab":      grab,
			"keyring":   keyring,
			"lint":      lint,
			"nowhere":   nowhere,
			"postgres":  database,
			"qdrant":    qdrantServer,
			"terminate": terminate,
			"unname":    unname,
			"waitfor":   waitFor,
			"watch":     watch,
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
	watch(ts, false, []string{postgrestest.Password})
	given(ts, false, args)
}

// keyring [locked] starts a keyring for the script's programs, or the one before it anew
// and locked.
func keyring(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 || len(args) == 1 && args[0] != "locked" {
		ts.Fatalf("usage: keyring [locked]")
	}
	dir := ts.Getenv("KEYRING")
	if dir == "" {
		var err error
		dir, err = os.MkdirTemp("", "keyring-") // the name of a socket may not be long
		ts.Check(err)
		ts.Defer(func() { os.RemoveAll(dir) })
		ts.Setenv("KEYRING", dir)
	}
	env, stop, err := keyringtest.Start(dir, len(args) > 0)
	ts.Check(err)
	ts.Defer(stop)
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		ts.Setenv(name, value)
	}
}

// watchCanary gives the script a word, CANARY, that is in each of its secrets. When it has
// run, the word may stand in no file that it leaves, but in those that it has given.
func watchCanary(e *testscript.Env) {
	s := &secrets{words: []string{secrettest.Canary()}}
	e.Setenv("CANARY", s.words[0])
	e.Values["secrets"] = s
	e.Defer(func() {
		for _, word := range s.words {
			found, err := secrettest.Find(e.WorkDir, word, s.files...)
			if err != nil || found != nil {
				e.T().Fatal(fmt.Sprintf("a secret stands in %q %v", found, err))
			}
		}
	})
}

// secrets are the words of a script that nobody may know, and the files in which they may
// stand.
type secrets struct{ words, files []string }

func secretsOf(ts *testscript.TestScript) *secrets { return ts.Value("secrets").(*secrets) }

// watch WORD… says that words are secrets, too: those that mbox has drawn.
func watch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: watch WORD…")
	}
	s := secretsOf(ts)
	s.words = append(s.words, args...)
}

// given FILE… says that the script itself has written its secrets into files, or that a
// command has, of itself.
func given(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: given FILE…")
	}
	s := secretsOf(ts)
	for _, name := range args {
		s.files = append(s.files, ts.MkAbs(name))
	}
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
	ts.Check(linttest.Home(ts.MkAbs(args[0]), "--whole"))
}

// nowhere TEXT wants, while the script runs, that no file of it holds a text, but those
// that are given, and no command line of a process of this machine.
func nowhere(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || len(args[0]) < 16 {
		ts.Fatalf("usage: nowhere TEXT, of 16 bytes or more")
	}
	found, err := secrettest.Find(ts.Getenv("WORK"), args[0], secretsOf(ts).files...)
	ts.Check(err)
	if found != nil {
		ts.Fatalf("it stands in %q", found)
	}
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

// waitfor COMMAND ARG… repeats a command until it succeeds, for a minute.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	deadline := time.Now().Add(time.Minute)
	for {
		err := ts.Exec(args[0], args[1:]...)
		if (err == nil) != neg {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("waited a minute for %s: %v", strings.Join(args, " "), err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// terminate FILE tells the process whose number is in a file to end, and waits until it has.
func terminate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: terminate FILE")
	}
	ts.Check(syscall.Kill(pidIn(ts, args[0]), syscall.SIGTERM))
	waitEnd(ts, false, args)
}

// ended FILE waits until the process whose number is in a file has ended, for 30 s.
func waitEnd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ended FILE")
	}
	pid := pidIn(ts, args[0])
	deadline := time.Now().Add(30 * time.Second)
	for syscall.Kill(pid, 0) == nil {
		if time.Now().After(deadline) {
			ts.Fatalf("waited 30 s for the process %d to end", pid)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func pidIn(ts *testscript.TestScript, file string) int {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(file)))
	ts.Check(err)
	if pid <= 1 {
		ts.Fatalf("%s: %d is no process of ours", file, pid)
	}
	return pid
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
