package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// linter is a Python process that runs the independent checker on one home
// after the other.
type linter struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

const lintLoop = `
import importlib.util, sys
spec = importlib.util.spec_from_file_location("lint", sys.argv[1])
lint = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lint)
for home in sys.stdin:
    lint.problems.clear()
    sys.argv = ["lint.py", home.rstrip("\n")]
    try:
        lint.main()
    except SystemExit as end:
        if end.code not in (None, 0, 1):
            print(end.code)
    print("END", flush=True)
`

func newLinter(t *testing.T) *linter {
	t.Helper()
	cmd := exec.Command("python3", "-c", lintLoop, repoFile(".ci", "lint.py"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	return &linter{in, bufio.NewScanner(out)}
}

func (l *linter) check(home string) error {
	fmt.Fprintln(l.in, home)
	var problems []string
	for l.out.Scan() {
		if l.out.Text() == "END" {
			if problems == nil {
				return nil
			}
			return fmt.Errorf("lint.py: %s", strings.Join(problems, "; "))
		}
		problems = append(problems, l.out.Text())
	}
	return errors.New("lint.py ended")
}
