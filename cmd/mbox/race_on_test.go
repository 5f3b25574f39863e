//go:build race

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// raced says that the race detector is at work.
const raced = true

// Under the race detector a process sleeps for a second at its end, unless it was begun
// with another wish. Scripts begin many, also behind a worker, which hands little of its
// environment on.
func init() {
	if os.Getenv("GORACE") != "" {
		return
	}
	if self, err := os.Executable(); err == nil {
		_ = unix.Exec(self, os.Args, append(os.Environ(), "GORACE=atexit_sleep_ms=20"))
	}
}
