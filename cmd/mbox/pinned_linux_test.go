package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// closedFolder leaves a folder of root in pending, as who drops with sudo does.
func (o *ownedHome) closedFolder() (path string) {
	o.t.Helper()
	path = filepath.Join(o.home, "tasks", "pending", "stuff")
	o.must(errors.Join(os.Mkdir(path, 0o755), os.WriteFile(filepath.Join(path, "a.txt"), []byte("hi"), 0o644)))
	return path
}

// works tells whether the owner can do what he does every day, with the folder there.
func (o *ownedHome) works() {
	o.t.Helper()
	o.theirs("send", "Second", "--id", "second")
	o.theirs("claim", "--agent", "hand")
	o.theirs("recover")
	o.theirs("backup", filepath.Join(filepath.Dir(o.home), "b.tar.zst"))
	if code, said := o.as(stranger, "status"); code != exitError || !strings.Contains(said, "tasks/pending/stuff is left there: it is a folder of another user") || !strings.Contains(said, "sudo rm -r "+o.home) {
		o.t.Errorf("status: %d: %s", code, said)
	}
	if code, said := o.as(stranger, "doctor"); code != exitError || !strings.Contains(said, "sudo rm -r "+o.home) {
		o.t.Errorf("doctor: %d: %s", code, said)
	}
}

// A folder of another user in pending is left there, named, and nobody else is kept out.
// When it is the owner's it is put away.
func TestFolderThatOnlyRootCanMove(t *testing.T) {
	o := newOwnedHome(t)
	o.theirs("init", "--sync", "none")
	o.theirs("send", "First", "--id", "first")
	path := o.closedFolder()
	o.works()
	if said := o.theirs("tail", "--no-follow"); strings.Contains(said, "stuff") {
		t.Errorf("the ledger tells of it: %s", said)
	}
	o.must(filepath.WalkDir(path, func(at string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(at, stranger, stranger))
	}))
	o.theirs("ls")
	if kept, err := filepath.Glob(filepath.Join(o.home, "tasks/quarantine/stuff~*")); len(kept) != 2 || err != nil {
		t.Errorf("in quarantine: %q, %v", kept, err)
	}
	o.theirs("recover")
	o.theirs("verify")
}

// Where the folder could not be moved after its line, the shard is settled without it, and
// the ledger says that it was left.
func TestFolderThatCouldNotBeMovedAfterItsLine(t *testing.T) {
	o := newOwnedHome(t)
	o.home = filepath.Join(o.spare, "home")
	options := mailbox.Options{Sync: durable.None}
	o.must(mailbox.Create(o.home, options))
	b, err := mailbox.Open(t.Context(), o.home, options)
	o.must(err)
	path := o.closedFolder()
	remove := durable.SetFault(func(op durable.Op, at string) (bool, error) {
		if op == durable.OpMove && filepath.Dir(at) == filepath.Join(o.home, "tasks/quarantine") {
			return false, syscall.EACCES
		}
		return true, nil
	})
	_, err = b.Scan(context.Background())
	remove()
	if !errors.Is(err, mailbox.ErrCommitted) {
		t.Fatalf("the scan: %v", err)
	}
	o.must(errors.Join(b.Close(), os.Chmod(path, 0o755))) // root has opened it to itself
	o.must(filepath.WalkDir(o.home, func(at string, _ fs.DirEntry, err error) error {
		if at == path {
			return fs.SkipDir
		}
		return errors.Join(err, os.Chown(at, stranger, stranger))
	}))
	o.must(os.Chown(o.spare, stranger, stranger))
	o.theirs("send", "First", "--id", "first")
	o.works()
	if said := o.theirs("tail", "--no-follow"); strings.Count(said, "into quarantine") != 1 || strings.Count(said, "left where it was") != 1 {
		t.Errorf("the ledger: %s", said)
	}
	o.must(os.RemoveAll(path))
	o.theirs("verify")
}
