package check

import (
	"encoding/binary"
	"errors"
	"syscall"
)

// The commands that make files append-only, and take that back, and the one that lets
// a file be moved.
const (
	sealCommand   = "chflags uappnd"
	unpinCommand  = "sudo chflags nouchg,noschg,nouappnd,nosappnd"
	unsealCommand = "chflags nouappnd"
)

// availableMemory is the machine's memory, in bytes: macOS does not tell what
// is available without asking Mach.
func availableMemory() (uint64, error) { return machineMemory() }

// machineMemory is all that there is.
func machineMemory() (uint64, error) {
	text, err := syscall.Sysctl("hw.memsize")
	if err != nil {
		return 0, err
	}
	if len(text) > 8 {
		return 0, errors.New("hw.memsize is no 64-bit number")
	}
	var raw [8]byte // Sysctl drops a last zero byte
	copy(raw[:], text)
	return binary.LittleEndian.Uint64(raw[:]), nil
}

// watches has nothing to look at: kqueue needs a descriptor a folder, and the
// limit of open files has been looked at.
func (e *Exam) watches() {}
