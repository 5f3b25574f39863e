//go:build amd64 || arm64

package sandbox

import (
	"slices"

	"golang.org/x/sys/unix"
)

// assembly is code for the kernel's classic BPF machine. What a filter loads
// from is struct seccomp_data: number int32, arch uint32, instruction pointer
// uint64, six arguments uint64. What it returns is the answer to the call.
type assembly []unix.SockFilter

const (
	offsetNumber = 0
	offsetArch   = 4
)

// argument is where the low half of an argument lies, on little-endian machines.
// The kernel looks at no more than that half of those the filter looks at.
func argument(n uint32) uint32 { return 16 + 8*n }

func load(offset uint32) assembly {
	return assembly{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}}
}

func mask(bits uint32) assembly {
	return assembly{{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: bits}}
}

func answer(a uint32) assembly {
	return assembly{{Code: unix.BPF_RET | unix.BPF_K, K: a}}
}

// equal runs the code where what was loaded is the value; else it skips it.
func equal(value uint32, then ...assembly) assembly { return when(unix.BPF_JEQ, value, then) }

// unless runs the code where it is not.
func unless(value uint32, then ...assembly) assembly {
	code := sequence(then...)
	jump := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ, K: value, Jt: uint8(len(code))}
	return append(assembly{jump}, code...)
}

// atLeast runs the code where what was loaded is not below the value.
func atLeast(value uint32, then ...assembly) assembly { return when(unix.BPF_JGE, value, then) }

func when(test uint16, value uint32, then []assembly) assembly {
	code := sequence(then...)
	jump := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | test, K: value, Jf: uint8(len(code))}
	return append(assembly{jump}, code...)
}

func sequence(parts ...assembly) assembly { return slices.Concat(parts...) }
