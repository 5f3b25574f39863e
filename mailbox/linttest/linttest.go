// Package linttest runs the independent checker of the format, .ci/lint.py, for tests.
package linttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// linter is a Python process that runs the checker on one home after the other.
type linter struct {
	in   io.WriteCloser
	out  *bufio.Scanner
	said *bytes.Buffer // before it ended
}

const lintLoop = `
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("lint", sys.argv[1])
lint = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lint)
for line in sys.stdin:
    lint.problems.clear()
    sys.argv = ["lint.py"] + json.loads(line)
    try:
        lint.main()
    except SystemExit as end:
        if end.code not in (None, 0, 1):
            print(end.code)
    print("END", flush=True)
`

// linters wait for a home: to begin one takes longer than to check most. They end with
// the tests.
var linters struct {
	sync.Mutex
	idle []*linter
}

// Problems are what the checker finds in a home, a line each.
type Problems []string

func (p Problems) Error() string { return "lint.py: " + strings.Join(p, "; ") }

// Home runs the checker on a home in which nobody works, with its options. What it finds
// is [Problems]; any other error says that it could not look.
func Home(home string, options ...string) error {
	l, err := idleLinter()
	if err != nil {
		return err
	}
	args, err := json.Marshal(append(options, home))
	if err != nil {
		return err
	}
	fmt.Fprintf(l.in, "%s\n", args)
	var problems Problems
	for l.out.Scan() {
		if l.out.Text() != "END" {
			problems = append(problems, l.out.Text())
			continue
		}
		linters.Lock()
		linters.idle = append(linters.idle, l)
		linters.Unlock()
		if problems == nil {
			return nil
		}
		return problems
	}
	return fmt.Errorf("lint.py ended at %s\n%s", home, l.said)
}

func idleLinter() (*linter, error) {
	linters.Lock()
	defer linters.Unlock()
	if last := len(linters.idle) - 1; last >= 0 {
		l := linters.idle[last]
		linters.idle = linters.idle[:last]
		return l, nil
	}
	script, err := checker()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("python3", "-c", lintLoop, script)
	l := &linter{said: new(bytes.Buffer)}
	if l.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	l.out, cmd.Stderr = bufio.NewScanner(out), l.said
	return l, cmd.Start()
}

// checker is where lint.py lies: the tests of a package run in its folder.
func checker() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		script := filepath.Join(dir, ".ci", "lint.py")
		if _, missing := os.Stat(script); missing == nil {
			return script, nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("no folder above the test's has .ci/lint.py")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}
