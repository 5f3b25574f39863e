package main

import (
	"os/exec"
	"testing"
)

// Each change in the tables of cmd/prove/mutants still fits the source, each names a
// test that is there, and every rule of the protocol has one: what broke mbox
// once goes on being tried.
func TestMutantsFit(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is missing: the tables cannot be checked")
	}
	cmd := exec.Command("go", "run", "./cmd/prove/mutants", "-check")
	cmd.Dir = repoFile()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
