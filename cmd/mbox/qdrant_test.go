package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// qdrantKey is what the fake server of scripts wants.
const qdrantKey = "open-sesame-17"

// qdrantBuilt is where qdrantDir built, to be removed when all tests have run.
var qdrantBuilt string

// qdrantDir has mbox-qdrant and the fake server, which are built with the first script
// that wants them. They are no part of this test's binary, since each mbox of the scripts
// would begin later with them.
var qdrantDir = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "mbox-qdrant-"); err != nil {
		return "", err
	}
	qdrantBuilt = dir
	build := exec.Command("go", "build", "-buildvcs=false", "-o", dir+"/", "mbox/cmd/mbox-qdrant", "mbox/agents/memory/qdrant/qdranttest/fake")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, nil
})

// qdrantServer is qdrant FILE: it starts a fake server for a script, and
// writes its key into a file. QDRANT is
// its address, and QDRANT_BIN the folder of mbox-qdrant.
func qdrantServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: qdrant FILE")
	}
	dir, err := qdrantDir()
	ts.Check(err)
	cmd := exec.Command(filepath.Join(dir, "fake"))
	cmd.Env = []string{"MBOX_TEST_QDRANT_KEY=" + qdrantKey}
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		in.Close()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	ts.Check(err)
	ts.Setenv("QDRANT", strings.TrimSpace(address))
	ts.Setenv("QDRANT_BIN", dir)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(qdrantKey+"\n"), 0o600))
}
