package home

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// Shards is the number of task locks. A task's lock is chosen by the hash of
// its case-folded id, a record's by its file name.
const Shards = 256

// Delegations is the lock behind those. It is held from the check of a delegation
// until its children stand in the ledger, and while a task with paths is claimed, and
// comes before any shard.
const Delegations = Shards

// ShardName is the name of a lock file.
func ShardName(i int) string {
	if i == Delegations {
		return "delegation"
	}
	return fmt.Sprintf("task-%02x", i)
}

// Shard is the number of the lock that a task id, or a name, is under.
func Shard(name string) int {
	h := fnv.New32a()
	io.WriteString(h, strings.ToLower(name))
	return int(h.Sum32() % Shards)
}

// LockError says of a lock file that is missing, or another than before, what mends it.
func LockError(err error) error {
	if errors.Is(err, os.ErrNotExist) && !errors.Is(err, audit.ErrUnwritten) || errors.Is(err, durable.ErrReplaced) {
		return fmt.Errorf("%w: %w (mbox recover makes missing lock files anew)", ErrIntegrity, err)
	}
	return err
}

// MakeLocks makes the file of intent records and the lock files, where they are
// missing. That goes into the slots of those that it makes, before anybody can take
// them.
func MakeLocks(dir string, slot []byte, m durable.Mode) (made int, err error) {
	there, err := durable.Names(Private(dir, "locks"))
	if err != nil {
		return 0, err
	}
	all := durable.Stage(IntentsPath(dir), append(bytes.Repeat(slot, SerialSlot), BlankSlot...), m)
	if all == nil {
		made++
	} else if !errors.Is(all, fs.ErrExist) {
		return 0, all
	}
	slots, err := durable.OpenNamed(IntentsPath(dir), os.O_RDWR)
	if err != nil {
		return made, err
	}
	defer slots.Close()
	slices.Sort(there)
	for i, name := range LockNames() {
		if _, found := slices.BinarySearch(there, name); found {
			continue
		}
		if i <= Delegations && all != nil {
			err = WriteSlot(slots, i, slot)
		}
		if err == nil {
			err = MakeLock(dir, name, m)
		}
		if err == nil {
			made++
		} else if !errors.Is(err, fs.ErrExist) {
			return made, err
		}
	}
	return made, errors.Join(durable.SyncDir(Private(dir, "locks"), m), durable.SyncDir(Private(dir), m))
}

// MakeLock makes an empty lock file, with room for the one record that it may hold.
func MakeLock(dir, name string, m durable.Mode) error {
	return durable.Stage(LockPath(dir, name), SlotOf(""), m)
}

// LockPath is a lock file's place.
func LockPath(home, name string) string { return Private(home, "locks", name) }

// LockNames are the names of all lock files, those with a slot first, in its order.
func LockNames() []string {
	var names []string
	for i := range Shards + 1 {
		names = append(names, ShardName(i))
	}
	return append(append(names, audit.LockNames()...), "recovery", "routing", "snapshot", "numbers")
}
