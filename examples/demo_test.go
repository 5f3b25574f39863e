package examples

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Without a model make demo-ollama ends with exit code 1, says what helps, and
// leaves nothing behind.
func TestDemoOllamaWithoutModel(t *testing.T) {
	mbox, err := exec.LookPath("mbox")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := exec.Command(example("../.ci/demo-ollama.sh"), mbox)
	c.Env = append(os.Environ(), "TMPDIR="+dir, "OLLAMA_HOST=127.0.0.1:9", "OLLAMA_URL=", "TINY=", "KEEP=")
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, hint := range []string{"coordinator cannot think: 127.0.0.1:9", "ollama pull", "TINY=1 make demo-ollama"} {
		if !strings.Contains(string(out), hint) {
			t.Errorf("it does not say %q:\n%s", hint, out)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}
