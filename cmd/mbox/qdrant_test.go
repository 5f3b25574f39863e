package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"mbox/agents/memory/memorytest"
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
// its address, QDRANT_BIN the folder of mbox-qdrant, and EMBEDS the address of an Ollama
// that makes vectors.
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
	embeds := httptest.NewServer(http.HandlerFunc(embed))
	ts.Defer(embeds.Close)
	ts.Setenv("EMBEDS", embeds.URL)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(qdrantKey+"\n"), 0o600))
}

// embed answers as Ollama's /api/embed does.
func embed(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Input []string }
	err := json.NewDecoder(r.Body).Decode(&asked)
	if err == nil && r.URL.Path == "/api/embed" {
		var vectors [][]float32
		vectors, err = (&memorytest.Trigrams{Dim: 64}).Embed(r.Context(), false, asked.Input...)
		err = cmp.Or(err, json.NewEncoder(w).Encode(map[string]any{"embeddings": vectors}))
	}
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
}
