package home

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mbox/mailbox/durable"
)

// What is replaced so soon that tasks/ keeps its ctime is seen, and so is what a
// symlink leads to, which leaves no trace there.
func TestRule22_FolderGoneUnseen(t *testing.T) {
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	open := func(now func() time.Time) (*Places, string) {
		dir := filepath.Join(t.TempDir(), "home")
		must(os.Mkdir(dir, 0o700), MakeFolders(dir, "", durable.None))
		boot, err := CurrentBoot(dir)
		must(err, WriteBoot(dir, boot, durable.None))
		p, err := NewPlaces(dir, now, func() {})
		must(err)
		t.Cleanup(func() { p.Close() })
		return p, dir
	}
	for range 20 {
		p, home := open(time.Now)
		must(p.Check())
		if p.tasks != (tasksFolder{}) { // where ctimes are fine this shows nowhere else
			t.Error("a look at tasks/ is taken to be enough so soon")
		}
		dir := filepath.Join(home, "tasks", "failed")
		must(os.Rename(dir, home+"-aside"), os.Mkdir(dir, 0o700))
		if err := p.Check(); !errors.Is(err, ErrGone) {
			t.Fatalf("replaced at once: %v", err)
		}
	}
	p, home := open(func() time.Time { return time.Now().Add(time.Hour) })
	dir, aside := filepath.Join(home, "tasks", "failed"), home+"-aside"
	must(os.Rename(dir, aside), os.Symlink(aside, dir))
	must(p.Check())
	if p.tasks != (tasksFolder{}) {
		t.Error("a look at tasks/ is taken to be enough")
	}
	must(os.Mkdir(home+"-x", 0o700), os.Remove(aside), os.Rename(home+"-x", aside)) // in this order the inode is another one
	if err := p.Check(); !errors.Is(err, ErrGone) {
		t.Errorf("what the symlink leads to was replaced: %v", err)
	}
}
