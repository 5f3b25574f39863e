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

	"mbox/audit/record"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
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

// ofRoot makes the home as root, for what only this process can do there.
func (o *ownedHome) ofRoot() *mailbox.Box {
	o.t.Helper()
	o.home = filepath.Join(o.spare, "home")
	options := mailbox.Options{Sync: durable.None}
	o.must(mailbox.Create(o.home, options))
	b, err := mailbox.Open(o.t.Context(), o.home, options)
	o.must(err)
	return b
}

// without does something while an operation fails on what lies in a folder.
func (o *ownedHome) without(op durable.Op, folder string, do func() error) error {
	remove := durable.SetFault(func(now durable.Op, path string) (bool, error) {
		if now == op && filepath.Dir(path) == filepath.Join(o.home, folder) {
			return false, syscall.EACCES
		}
		return true, nil
	})
	defer remove()
	return do()
}

// handOver gives a home of root to the owner, but for what lies at except.
func (o *ownedHome) handOver(except string) {
	o.t.Helper()
	o.must(filepath.WalkDir(o.spare, func(path string, _ fs.DirEntry, err error) error {
		if path == except {
			return fs.SkipDir
		}
		return errors.Join(err, os.Chown(path, stranger, stranger))
	}))
}

// Where the folder could not be moved after its line, the shard is settled without it, and
// the ledger says that it was left.
func TestFolderThatCouldNotBeMovedAfterItsLine(t *testing.T) {
	o := newOwnedHome(t)
	b := o.ofRoot()
	path := o.closedFolder()
	err := o.without(durable.OpMove, "tasks/quarantine", func() error { _, err := b.Scan(context.Background()); return err })
	if !errors.Is(err, mailbox.ErrCommitted) {
		t.Fatalf("the scan: %v", err)
	}
	o.must(errors.Join(b.Close(), os.Chmod(path, 0o755))) // root has opened it to itself
	o.handOver(path)
	o.theirs("send", "First", "--id", "first")
	o.works()
	if said := o.theirs("tail", "--no-follow"); strings.Count(said, "into quarantine") != 1 || strings.Count(said, "left where it was") != 1 {
		t.Errorf("the ledger: %s", said)
	}
	o.must(os.RemoveAll(path))
	o.theirs("verify")
}

// Files that have ended and that nobody may read keep no recovery from its end: it names
// all of them, and what is written goes on. So does the first command after a reboot.
func TestRecoverPastUnreadableFiles(t *testing.T) {
	o := newOwnedHome(t)
	o.theirs("init", "--sync", "none")
	for _, id := range []string{"archived", "failed", "live"} {
		o.theirs("send", "Title", "--id", id, "--to", "hand")
	}
	o.theirs("cancel", "archived")
	o.theirs("cancel", "failed")
	o.theirs("archive", "archived")
	o.theirs("decision", "new", "--agent", "hand", "--context", "c", "--option", "o", "--decision", "d")
	var closed []string
	for _, name := range []string{"tasks/archive/*/archived.json", "tasks/failed/failed.json", "tasks/pending/live.json", "decisions/*.md", "audit/human/*.jsonl"} {
		paths, err := filepath.Glob(filepath.Join(o.home, name))
		o.must(err)
		if len(paths) != 1 {
			t.Fatalf("%s: %q", name, paths)
		}
		o.must(os.Chmod(paths[0], 0))
		closed = append(closed, paths[0])
	}
	recovers := func(when string) {
		t.Helper()
		code, said := o.as(stranger, "recover")
		for _, path := range closed {
			if code != exitIO || !strings.Contains(said, path) {
				t.Errorf("recover %s: %d, without %s: %s", when, code, path, said)
			}
		}
	}
	recovers("as they are")
	o.theirs("send", "Second", "--to", "hand", "--id", "second")
	o.must(os.Remove(filepath.Join(o.home, ".mbox/boot")))
	if said := o.theirs("send", "Third", "--to", "hand", "--id", "third"); !strings.Contains(said, closed[0]) {
		t.Errorf("the first command after a reboot does not name the files: %s", said)
	}
	if said := o.theirs("claim", "--agent", "hand"); !strings.Contains(said, `"second"`) || strings.Contains(said, closed[0]) {
		t.Errorf("the next one, a claim: %s", said)
	}
	recovers("again")
	for _, path := range closed {
		o.must(os.Chmod(path, 0o600))
	}
	o.theirs("recover")
	o.theirs("verify")
	if said := o.theirs("claim", "--agent", "hand"); !strings.Contains(said, `"live"`) {
		t.Errorf("the task that could not be read: %s", said)
	}
}

// A file that cannot be read stops the recovery where content of its task or record is
// staged: that would be swept as if it had no line.
func TestUnreadableInTheWay(t *testing.T) {
	for name, begin := range map[string]func(*ownedHome, *mailbox.Box) (path string, err error){
		"task": func(o *ownedHome, b *mailbox.Box) (string, error) {
			_, err := b.Submit(t.Context(), &mailbox.Task{ID: "x", Task: mailbox.Request{Title: "x"}})
			o.must(err)
			c, err := b.Claim(t.Context(), mailbox.ClaimRequest{Agent: "hand"})
			o.must(err)
			return "tasks/in-progress/x.json", o.without(durable.OpExchange, "tasks/in-progress", func() error { return c.Progress(t.Context(), mailbox.Progress{Message: "half"}) })
		},
		"record": func(o *ownedHome, b *mailbox.Box) (string, error) {
			id, err := b.Decide(t.Context(), record.Decision{Agent: "hand", Context: "c", Options: []string{"o"}, Decision: "d"})
			o.must(err)
			return "decisions/" + id + ".md", o.without(durable.OpExchange, "decisions", func() error { return b.Outcome(t.Context(), id, "hand", "good") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOwnedHome(t)
			b := o.ofRoot()
			file, err := begin(o, b)
			if !errors.Is(err, mailbox.ErrCommitted) {
				t.Fatalf("begun: %v", err)
			}
			o.must(b.Close())
			slots, err := os.ReadFile(home.IntentsPath(o.home))
			o.must(err)
			for at := 0; at < len(slots); at += home.SlotSize { // a power cut has taken the record of it
				copy(slots[at:], home.BlankSlot)
			}
			path := filepath.Join(o.home, file)
			o.must(errors.Join(os.WriteFile(home.IntentsPath(o.home), slots, 0o600), os.Chmod(path, 0), os.Remove(filepath.Join(o.home, ".mbox/boot"))))
			o.handOver("")
			if code, said := o.as(stranger, "recover"); code != exitIO || !strings.Contains(said, path) {
				t.Errorf("recover: %d: %s", code, said)
			}
			if staged, err := home.StagedNames(o.home); err != nil || len(staged) != 1 {
				t.Errorf("staged: %q, %v", staged, err)
			}
			o.must(os.Chmod(path, 0o600))
			o.theirs("recover")
			o.theirs("verify")
		})
	}
}
