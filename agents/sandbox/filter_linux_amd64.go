package sandbox

import "golang.org/x/sys/unix"

const nativeArch = unix.AUDIT_ARCH_X86_64

// foreign refuses the numbers of the x32 ABI, which comes with the same arch.
func foreign() assembly { return atLeast(0x40000000, answer(deny)) }

// refusedHere are calls that only this processor has.
var refusedHere = []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_CREATE_MODULE}

// carefulHere are such of which the arguments decide.
func carefulHere() []call {
	return []call{
		{unix.SYS_CHMOD, modeIn(1)}, {unix.SYS_MKNOD, modeIn(1)}, {unix.SYS_CREAT, modeIn(1)}, {unix.SYS_OPEN, madeWith(1, 2)},
	}
}
