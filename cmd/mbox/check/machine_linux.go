package check

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// The commands that make files append-only, and take that back, and the one that lets
// a file be moved.
const (
	sealCommand   = "sudo chattr +a"
	unpinCommand  = "sudo chattr -ia"
	unsealCommand = "sudo chattr -a"
)

// availableMemory is what programs can still get, in bytes.
func availableMemory() (uint64, error) { return memoryOf("MemAvailable") }

// machineMemory is all that there is.
func machineMemory() (uint64, error) { return memoryOf("MemTotal") }

func memoryOf(line string) (uint64, error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var kilobytes uint64
		if n, _ := fmt.Sscanf(lines.Text(), line+": %d kB", &kilobytes); n == 1 {
			return kilobytes << 10, nil
		}
	}
	return 0, errors.New("/proc/meminfo has no " + line)
}

// watches looks at the limits of inotify. Without it mailboxes are scanned at
// poll_interval only, so this is never wrong, only slow.
func (e *Exam) watches() {
	const dir = "/proc/sys/fs/inotify/"
	watches, err1 := readNumber(dir + "max_user_watches")
	instances, err2 := readNumber(dir + "max_user_instances")
	switch {
	case err1 != nil || err2 != nil:
		e.add("inotify", Doubt, "", "its limits are not known")
	case watches < enoughWatches || instances < 64:
		e.add("inotify", Doubt, "sysctl fs.inotify.max_user_watches=65536 fs.inotify.max_user_instances=256", "%d watches and %d instances a user: changes may be seen at poll_interval only", watches, instances)
	default:
		e.add("inotify", Fine, "", "%d watches, %d instances", watches, instances)
	}
}

func readNumber(path string) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(data)))
}
