//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"os/exec"
	"runtime"
)

func help([]string) {}

// Confine checks the rules and refuses: confinement needs Linux.
func Confine(_ *exec.Cmd, r Rules) error {
	if _, err := r.grants(); err != nil {
		return err
	}
	return Probe().Err()
}

// Probe says that this system offers nothing.
func Probe() Support {
	return Support{Why: "it needs Linux on amd64 or arm64, this is " + runtime.GOOS + " on " + runtime.GOARCH}
}
