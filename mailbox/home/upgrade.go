package home

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"mbox/mailbox/task"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// Upgrade brings a home of format 1 to the present one. Open and Recover call it
// first. Nobody of an older mbox may be at work: its locks are taken, all of them,
// and held to the end, and a router or a worker with a lease is named and left
// alone (ErrBusy). Whoever of them only has the home open does not write a line
// afterwards, because the locks are gone that he asks for.
//
// The order: the lock files under their new names and the intents, whose slots let
// nobody take a shard before a full recovery has told the ledger what was done;
// VERSION; then the old names go, that of the ledger's lock first. A kill before
// VERSION leaves a home of format 1, one after it a home that has the old recover
// lock still, and is gone on with under what is there of the old locks. That recovery
// settles what the old intent records told of, and mends what a power cut left of
// inodes that were used again.
func Upgrade(ctx context.Context, dir string, m durable.Mode, lockWait time.Duration) error {
	v, err := ReadVersion(dir)
	if err != nil || v.Format == Format && !OldLocksStand(dir) {
		return err
	}
	u := &upgrading{dir: dir, mode: m, wait: lockWait}
	defer u.unlock()
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	if err := u.alone(ctx, &v); err != nil {
		return fmt.Errorf("bringing %s from format %d to %d: %w", dir, OldFormat, Format, LockError(err))
	}
	if v.Format == Format && !OldLocksStand(dir) {
		return nil // it was done meanwhile
	}
	for _, step := range []func() error{
		func() error { return u.make(v) },
		func() error { return WriteVersion(dir, v.MailboxID, m) },
		u.leave,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// OldNames are the lock files of format 1, in the order in which they are held.
func OldNames() []string {
	names := []string{oldRecover, "router", "delegate", "index", "serial"}
	for i := range Shards {
		names = append(names, fmt.Sprintf("shard-%02x", i))
	}
	for i := range 32 {
		names = append(names, fmt.Sprintf("copy-%02x", i))
	}
	return append(names, OldLedger)
}

const (
	oldRecover = "recover" // the last that goes
	OldLedger  = "ledger"
)

// OldLocksStand tells whether a home is not wholly of this format yet.
func OldLocksStand(dir string) bool {
	_, err := os.Lstat(LockPath(dir, oldRecover))
	return err == nil
}

type upgrading struct {
	dir  string
	mode durable.Mode
	wait time.Duration
	held []*durable.Lock
}

func (u *upgrading) unlock() {
	for _, l := range slices.Backward(u.held) {
		l.Unlock()
	}
}

// alone makes sure that nobody else is at work, and reads VERSION again.
func (u *upgrading) alone(ctx context.Context, v *Version) (err error) {
	if err := MakeLock(u.dir, "recovery", u.mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := u.hold(ctx, "recovery"); err != nil {
		return err
	}
	if *v, err = ReadVersion(u.dir); err != nil || v.Format == Format && !OldLocksStand(u.dir) {
		return err
	}
	if err := MakeLock(u.dir, oldRecover, u.mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err // it may have been lost, and tells that this is not done
	}
	for _, name := range OldNames() {
		if err := u.hold(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return u.noLease()
}

// hold takes a lock, and names who has it. What is missing nobody has.
func (u *upgrading) hold(ctx context.Context, name string) error {
	wait := u.wait
	if name == "router" {
		wait = min(wait, time.Second) // it is asked for a moment now and then, and a router keeps it
	}
	l, err := durable.AcquireLock(ctx, LockPath(u.dir, name), wait)
	if err == nil {
		u.held = append(u.held, l)
	} else if errors.Is(err, durable.ErrBusy) {
		err = fmt.Errorf("%s: %w, held by %s %w", l.Path(), durable.ErrBusy, holder(l.Path()), ErrOlderAtWork)
	}
	return err
}

// holder names the process that has a file locked, for people.
func holder(path string) string {
	if pid, _ := durable.Holder(path); pid > 0 {
		return fmt.Sprintf("process %d", pid)
	}
	return "a process"
}

// noLease makes sure that no worker has a lease: its task would be lost to it.
func (u *upgrading) noLease() error {
	names, err := durable.Names(Private(u.dir, "leases"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		path := Private(u.dir, "leases", name)
		if held, err := Locked(path); err == nil && held {
			id, _ := LeaseOf(name)
			return fmt.Errorf("task %s: %w, worked at by %s %w", id, durable.ErrBusy, holder(path), ErrOlderAtWork)
		}
	}
	return err
}

// make makes what the present format has. What an upgrade left that was killed
// before VERSION is made anew: the old locks may have been at work since.
func (u *upgrading) make(v Version) error {
	if v.Format == OldFormat {
		if err := errors.Join(durable.RemoveIfThere(IntentsPath(u.dir)), durable.RemoveIfThere(audit.ChainPath(u.dir))); err != nil {
			return err
		}
	}
	if err := u.chain(); err != nil {
		return err
	}
	_, err := MakeLocks(u.dir, upgradedSlot, u.mode)
	return err
}

// chain makes the ledger's lock with the head record that the old one has: it tells
// how long the ledger was.
func (u *upgrading) chain() error {
	head, err := durable.Read(LockPath(u.dir, OldLedger), task.MaxTask)
	if err == nil {
		err = durable.Stage(audit.ChainPath(u.dir), head, u.mode)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// leave takes the old locks away.
func (u *upgrading) leave() error {
	for _, name := range slices.Backward(OldNames()) {
		if err := durable.RemoveIfThere(LockPath(u.dir, name)); err != nil {
			return err
		}
	}
	return durable.SyncDir(Private(u.dir, "locks"), u.mode)
}
