package check

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"mbox/mailbox/durable"
	"mbox/schemas"
)

// Hints that other commands give as well.

// maxLine is how many runes of a path a hint has.
const maxLine = 2000

// WayOut is the hint of a damaged ledger.
const WayOut = "bring audit/ back from a backup, then mbox recover --after-io-error; without a backup, mbox recover --forget-ledger goes on with the tasks as they lie; mbox help damage tells what that costs"

// MoveOut is the hint of what is not mbox's and lies in its way.
func MoveOut(path string) string {
	return "that is nothing of mbox's: move " + schemas.ShellWord(schemas.Sentence(path, maxLine)) + " out of the home, then mbox recover; mbox help damage tells the rest"
}

// OpenUp is the hint of a home of which something may not even be read.
func OpenUp(home string) string {
	return "chmod -R u+rwX " + schemas.ShellWord(schemas.Sentence(home, maxLine)) + ", then mbox doctor --fix, which names what is another user's"
}

// Pinned tells of a file in pending that cannot be moved, and what helps; "" of any other.
func Pinned(home, name string) (text, hint string) {
	path := filepath.Join(home, "tasks", "pending", name)
	pin, err := durable.Pinned(path)
	if err != nil || pin == "" {
		return "", ""
	}
	return "tasks/pending/" + name + " is left there: " + string(pin), unpin(path, pin)
}

// unpin is the command that lets a file be moved.
func unpin(path string, pin durable.Pin) string {
	file := schemas.ShellWord(schemas.Sentence(path, maxLine))
	switch pin {
	case durable.Mounted:
		return "sudo umount " + file
	case durable.Immutable:
		return unpinCommand + " " + file
	}
	return fmt.Sprintf("sudo rm -r %s, or sudo chown -Rh %s %s, which has it put into quarantine", file, schemas.ShellWord(UserName(os.Geteuid())), file)
}

// UserName is how commands call a user.
func UserName(uid int) string {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return "#" + strconv.Itoa(uid)
	}
	return u.Username
}

// Unseal is the command that lets append-only files be written over again.
func Unseal(files []string) string { return chattr(unsealCommand, files) }
