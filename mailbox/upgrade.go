package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// upgrade brings a home of format 1 to the present one. Open and Recover call it
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
func upgrade(ctx context.Context, dir string, o Options) error {
	v, err := readVersion(dir)
	if err != nil || v.Format == format && !oldLocksStand(dir) {
		return err
	}
	u := &upgrading{dir: dir, o: o}
	defer u.unlock()
	ctx, cancel := context.WithTimeout(ctx, o.LockWait)
	defer cancel()
	if err := u.alone(ctx, &v); err != nil {
		return fmt.Errorf("bringing %s from format %d to %d: %w", dir, oldFormat, format, lockError(err))
	}
	if v.Format == format && !oldLocksStand(dir) {
		return nil // it was done meanwhile
	}
	for _, step := range []func() error{
		func() error { return u.make(v) },
		func() error { return writeVersion(dir, v.MailboxID, o.Sync) },
		u.leave,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// oldNames are the lock files of format 1, in the order in which they are held.
func oldNames() []string {
	names := []string{oldRecover, "router", "delegate", "index", "serial"}
	for i := range shards {
		names = append(names, fmt.Sprintf("shard-%02x", i))
	}
	for i := range 32 {
		names = append(names, fmt.Sprintf("copy-%02x", i))
	}
	return append(names, oldLedger)
}

const (
	oldRecover = "recover" // the last that goes
	oldLedger  = "ledger"
)

// oldLocksStand tells whether a home is not wholly of this format yet.
func oldLocksStand(dir string) bool {
	_, err := os.Lstat(lockPath(dir, oldRecover))
	return err == nil
}

type upgrading struct {
	dir  string
	o    Options
	held []*durable.Lock
}

func (u *upgrading) unlock() {
	for _, l := range slices.Backward(u.held) {
		l.Unlock()
	}
}

// alone makes sure that nobody else is at work, and reads VERSION again.
func (u *upgrading) alone(ctx context.Context, v *version) (err error) {
	if err := makeLock(u.dir, "recovery", u.o.Sync); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := u.hold(ctx, "recovery"); err != nil {
		return err
	}
	if *v, err = readVersion(u.dir); err != nil || v.Format == format && !oldLocksStand(u.dir) {
		return err
	}
	if err := makeLock(u.dir, oldRecover, u.o.Sync); err != nil && !errors.Is(err, fs.ErrExist) {
		return err // it may have been lost, and tells that this is not done
	}
	for _, name := range oldNames() {
		if err := u.hold(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return u.noLease()
}

// hold takes a lock, and names who has it. What is missing nobody has.
func (u *upgrading) hold(ctx context.Context, name string) error {
	wait := u.o.LockWait
	if name == "router" {
		wait = min(wait, time.Second) // it is asked for a moment now and then, and a router keeps it
	}
	l, err := durable.AcquireLock(ctx, lockPath(u.dir, name), wait)
	if err == nil {
		u.held = append(u.held, l)
	} else if errors.Is(err, ErrBusy) {
		err = fmt.Errorf("%w, held by %s of an older mbox, which has to end first", err, flockHolder(l.Path()))
	}
	return err
}

// noLease makes sure that no worker has a lease: its task would be lost to it.
func (u *upgrading) noLease() error {
	names, err := listNames(privatePath(u.dir, "leases"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		path := privatePath(u.dir, "leases", name)
		if held, err := locked(path); err == nil && held {
			id, _ := leaseOf(name)
			return fmt.Errorf("task %s: %w: %s of an older mbox works at it, and has to end first", id, ErrBusy, flockHolder(path))
		}
	}
	return err
}

// make makes what the present format has. What an upgrade left that was killed
// before VERSION is made anew: the old locks may have been at work since.
func (u *upgrading) make(v version) error {
	if v.Format == oldFormat {
		if err := errors.Join(removeIfThere(intentsPath(u.dir)), removeIfThere(audit.ChainPath(u.dir))); err != nil {
			return err
		}
	}
	if err := u.chain(); err != nil {
		return err
	}
	_, err := makeLocks(u.dir, upgradedSlot, u.o.Sync)
	return err
}

// chain makes the ledger's lock with the head record that the old one has: it tells
// how long the ledger was.
func (u *upgrading) chain() error {
	head, err := durable.Read(lockPath(u.dir, oldLedger), MaxTask)
	if err == nil {
		err = durable.Stage(audit.ChainPath(u.dir), head, u.o.Sync)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// leave takes the old locks away.
func (u *upgrading) leave() error {
	for _, name := range slices.Backward(oldNames()) {
		if err := removeIfThere(lockPath(u.dir, name)); err != nil {
			return err
		}
	}
	return durable.SyncDir(privatePath(u.dir, "locks"), u.o.Sync)
}
