package sandbox

import "golang.org/x/sys/unix"

const nativeArch = unix.AUDIT_ARCH_AARCH64

// There are no further numbers and calls on this processor.
var (
	foreign     assembly
	refusedHere []uint32
	carefulHere []call
)
