package policy

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pieces of lines that a real shell may be given: no slash, so that nothing
// leaves the folder it runs in, and no loops.
var pieces = strings.Split(` |; | && | || |||&|
|(|)|$(|`+"`"+`|'|"|\|{ | }|#| # |rm|rm x|rm|r|m|echo|echo a|echo rm|ls|ls | x |$x|A=1 |A=|!|env |env A=1 |-i |nice |-n 1 |sh -c |xargs |
|>|2>|2>&1|>y|<|*|?|if ls; then |; fi|$| |=|-|[|timeout 5 |command |exec |time |--|&>y|eval |\|"$(|)"|nohup`, "|")

// Against real shells: of what is allowed by default, nothing runs rm.
func TestNoShellRunsWhatIsNotAllowed(t *testing.T) {
	f := newTree(t)
	p := f.policy(t, func(r *RiskProfile, _ *Agent) { r.AllowedCommands = []string{"echo", "ls"} })
	bench := newBench(t, f)
	random := rand.New(rand.NewPCG(1, uint64(len(pieces))))
	lines, runs := 40000, 150
	if os.Getenv("MBOX_TORTURE") != "" {
		lines, runs = 4000000, 20000
		random = rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))
	}
	ran := 0
	for range lines {
		var line strings.Builder
		for range 2 + random.IntN(9) {
			line.WriteString(pieces[random.IntN(len(pieces))])
		}
		text := line.String()
		if _, err := p.Command(text); err != nil || !strings.Contains(text, "m") {
			continue
		}
		for _, shell := range bench.shells {
			if bench.removes(t, shell, text) {
				t.Errorf("allowed, and %s ran rm: %q", shell, text)
			}
		}
		if ran++; ran == runs {
			break
		}
	}
	t.Logf("%d lines in %v", ran, bench.shells)
	// The bench sees what it is for.
	for _, shell := range bench.shells {
		if !bench.removes(t, shell, "echo $(env A=1 rm x)") {
			t.Errorf("%s: rm was not seen", shell)
		}
	}
	if ran < 100 {
		t.Errorf("%d lines were run, want 100 or more", ran)
	}
}

// A bench runs lines with a stand-in for rm.
type bench struct {
	dir, bin, mark string
	shells         []string
}

func newBench(t *testing.T, f tree) *bench {
	b := &bench{dir: f.at("free/run"), bin: f.at("free/bin"), mark: f.at("free/mark")}
	f.must(t, os.MkdirAll(b.bin, 0o700))
	f.must(t, os.WriteFile(filepath.Join(b.bin, "rm"), []byte("#!/bin/sh\necho rm >>\"$MARK\"\n"), 0o700))
	for _, name := range []string{"ls", "env", "nice", "xargs", "timeout", "nohup", "sh", "echo"} {
		if path, err := exec.LookPath(name); err == nil {
			f.must(t, os.Symlink(path, filepath.Join(b.bin, name)))
		}
	}
	for _, name := range []string{"sh", "bash", "dash", "zsh"} {
		if path, err := exec.LookPath(name); err == nil {
			b.shells = append(b.shells, path)
		}
	}
	if len(b.shells) == 0 {
		t.Skip("a shell is missing: install one as sh")
	}
	return b
}

func (b *bench) removes(t *testing.T, shell, line string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := os.RemoveAll(b.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	alive, held, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	c := exec.CommandContext(ctx, shell, "-c", line)
	c.Dir, c.Env, c.ExtraFiles = b.dir, []string{"PATH=" + b.bin, "MARK=" + b.mark}, []*os.File{held}
	_ = c.Run() // most lines are nonsense
	// What runs in the background holds the pipe: it ends with the last of them.
	held.Close()
	if _, err := io.Copy(io.Discard, alive); err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(b.mark)
	if err == nil && os.Remove(b.mark) != nil {
		t.Fatal(b.mark)
	}
	return err == nil
}
