package mailbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/verify"
)

// populated sends tasks and brings the first three of them into progress, into
// completed and into the archive. It returns an id of each state.
func populated(t *testing.T, b *Box, n int) map[State]ID {
	t.Helper()
	ids := map[State]ID{}
	for i := range n {
		ids[Pending] = ID(fmt.Sprintf("t%02d", i))
		sent(t, b, ids[Pending])
	}
	for _, s := range []State{Archived, Completed, InProgress} {
		c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
		must(t, err)
		ids[s] = c.ID()
		if s != InProgress {
			must(t, c.Complete(t.Context(), Result{}))
		}
		if s == Archived {
			_, err := b.Archive(t.Context(), 0, "human")
			must(t, err)
		}
	}
	return ids
}

// Verify says that tasks are gone, also before anybody else has looked.
func TestVerifyTellsOfGone(t *testing.T) {
	b := newBox(t, Options{})
	populated(t, b, 4)
	dir := b.path("tasks", "pending")
	for _, scan := range []bool{false, true} {
		must(t, errors.Join(os.Rename(dir, dir+".aside"), os.Mkdir(dir, 0o700)))
		if scan {
			if _, err := b.Scan(t.Context()); !errors.Is(err, ErrGone) {
				t.Fatal(err)
			}
		}
		if r, err := verify.Home(t.Context(), b.home, verify.Options{Deep: true}); err != nil || r.Gone == "" {
			t.Errorf("gone: %q, %v", r.Gone, err)
		}
		must(t, errors.Join(os.Remove(dir), os.Rename(dir+".aside", dir)))
	}
	_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
	must(t, err)
	if r, err := verify.Home(t.Context(), b.home, verify.Options{Deep: true}); err != nil || r.Gone != "" {
		t.Errorf("back again: %q, %v", r.Gone, err)
	}
}

// stopped checks that every process sees that tasks are gone: nothing is
// written, and reading goes on.
func stopped(t *testing.T, b *Box, what string) {
	t.Helper()
	end := b.ledger.End().Seq
	fresh := opened(t, b.home, b.o)
	defer fresh.Close()
	for who, x := range map[string]*Box{"a running process": b, "a new one": fresh} {
		if _, err := x.Submit(t.Context(), request("more")); !errors.Is(err, ErrGone) {
			t.Errorf("%s: %s sends: %v", what, who, err)
		}
		if _, err := x.Claim(t.Context(), ClaimRequest{Agent: "coder"}); !errors.Is(err, ErrGone) && !errors.Is(err, ErrEmpty) {
			t.Errorf("%s: %s claims: %v", what, who, err)
		}
		if _, err := x.Scan(t.Context()); !errors.Is(err, ErrGone) {
			t.Errorf("%s: %s scans: %v", what, who, err)
		}
		for _, err := range x.List(t.Context(), Filter{}) {
			if err != nil {
				t.Errorf("%s: %s lists: %v", what, who, err)
			}
		}
	}
	alarms := 0
	for _, e := range lines(t, fresh, "") {
		if e.Seq > end && !strings.Contains(string(e.Details), `"alarm":"gone"`) {
			t.Errorf("%s: it wrote %s", what, e.Action)
		}
		if strings.Contains(string(e.Details), `"alarm":"gone"`) {
			alarms++
		}
	}
	if alarms != 1 {
		t.Errorf("%s: %d alarms", what, alarms)
	}
}

// goesOn checks that the mailbox works and that no task was given up.
func goesOn(t *testing.T, b *Box, ids map[State]ID, what string) {
	t.Helper()
	b.judging = 0 // else it looks seldom
	mustScan(t, b)
	fresh := opened(t, b.home, b.o)
	defer fresh.Close()
	for _, x := range []*Box{b, fresh} {
		_, err := x.Submit(t.Context(), request("more"))
		must(t, err)
	}
	for s, id := range ids {
		if _, m, err := fresh.ledger.LastMove(id); err != nil || m.Enters() != s {
			t.Errorf("%s: %s of %s is %v (%v)", what, id, s, m, err)
		}
	}
	whole(t, b.home)
}

// A folder of tasks that was replaced, removed or emptied is a stop, not a
// verdict, for all processes; it ends by itself when the tasks are back.
func TestRule09_FolderGone(t *testing.T) {
	replace := func(dir, aside string) error { return errors.Join(os.Rename(dir, aside), os.Mkdir(dir, 0o700)) }
	moveBack := func(dir, aside string) error { return errors.Join(os.RemoveAll(dir), os.Rename(aside, dir)) }
	fill := func(dir, aside string) error {
		return errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(aside)), modes(dir), os.RemoveAll(aside))
	}
	for _, s := range home.TaskPlaces {
		for how, c := range map[string]struct{ take, restore func(dir, aside string) error }{
			"replaced and moved back":  {replace, moveBack},
			"removed and filled again": {os.Rename, fill},
		} {
			b := homes{}.open(t, Options{Now: later}) // so late, one look at tasks/ is enough
			ids := populated(t, b, 5)
			if s == Failed {
				must(t, b.Cancel(t.Context(), ids[Pending], "human", "no"))
				ids[Failed] = ids[Pending]
				delete(ids, Pending)
			}
			dir, aside := b.path("tasks", string(s)), b.home+"-aside"
			what := fmt.Sprintf("%s %s", s, how)
			must(t, c.take(dir, aside))
			stopped(t, b, what)
			must(t, c.restore(dir, aside))
			goesOn(t, b, ids, what)
		}
	}
}

func later() time.Time { return time.Now().Add(time.Hour) }

// modes gives a copied tree those of a mailbox.
func modes(dir string) error {
	return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			err = os.Chmod(path, 0o700)
		} else if err == nil {
			err = os.Chmod(path, 0o600)
		}
		return err
	})
}

// What is gone all at once from a folder that is the same: up to 16 tasks were
// deleted by hand, more are a stop until all of them are back.
func TestRule09_ManyGone(t *testing.T) {
	for _, s := range []State{Pending, InProgress} {
		b := newBox(t, Options{})
		for i := range 2 * byHandAtMost {
			sent(t, b, ID(fmt.Sprintf("t%02d", i)))
			if s == InProgress {
				_, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
				must(t, err)
			}
		}
		dir, aside := b.path("tasks", string(s)), t.TempDir()
		take := func(from, to string, n int) {
			t.Helper()
			names, err := durable.Names(from)
			must(t, err)
			for _, name := range names[:n] {
				must(t, os.Rename(filepath.Join(from, name), filepath.Join(to, name)))
			}
		}
		time.Sleep(2 * quiet) // else the folder's time proves nothing
		take(dir, aside, byHandAtMost+1)
		if _, err := b.Scan(t.Context()); !errors.Is(err, ErrGone) {
			t.Errorf("%s: scan: %v", s, err)
		}
		stopped(t, b, string(s))
		take(aside, dir, byHandAtMost)
		stopped(t, b, string(s)+", one is still away")
		take(aside, dir, 1)
		goesOn(t, b, nil, string(s))
		if s == InProgress {
			continue // each of them would have an alarm, and verify names it
		}
		for range 2 { // several times as many as a person deletes
			for _, id := range pendingIDs(t, b)[:byHandAtMost] {
				must(t, os.Remove(b.pending(id.File())))
			}
			mustScan(t, b)
		}
		if n := len(pendingIDs(t, b)); n != 2 {
			t.Errorf("%d tasks are pending", n)
		}
	}
}

func pendingIDs(t *testing.T, b *Box) (ids []ID) {
	t.Helper()
	must(t, b.queue.Update())
	ids, err := b.expected(Pending)
	must(t, err)
	return ids
}

// An operator's word ends the stop: what is gone was deleted.
func TestAdoptDeleted(t *testing.T) {
	for what, take := range map[string]func(b *Box) error{
		"pending emptied": func(b *Box) error {
			return errors.Join(os.RemoveAll(b.path("tasks", "pending")), os.Mkdir(b.path("tasks", "pending"), 0o700))
		},
		"all removed": func(b *Box) error { return os.RemoveAll(b.path("tasks")) },
	} {
		b := newBox(t, Options{})
		ids := populated(t, b, 5)
		must(t, take(b))
		stopped(t, b, what)
		if _, err := Recover(t.Context(), b.home, b.o, RecoverOptions{}); !errors.Is(err, ErrGone) {
			t.Errorf("%s: recover: %v", what, err)
		}
		if _, _, err := b.Task(t.Context(), ids[Pending]); !errors.Is(err, ErrGone) {
			t.Errorf("%s: show: %v", what, err)
		}
		for i, want := range []int{2, 0} {
			r, err := Recover(t.Context(), b.home, b.o, RecoverOptions{AdoptDeleted: true})
			if what == "all removed" && i == 0 {
				want = 5
			}
			if err != nil || r.Adopted != want {
				t.Errorf("%s: %+v, %v", what, r, err)
			}
		}
		if _, m, err := b.ledger.LastMove(ids[Pending]); err != nil || m.Enters() != None {
			t.Errorf("%s: %v (%v)", what, m, err)
		}
		goesOn(t, b, nil, what)
	}
}

// A home that was moved, copied or restored has new inodes. It goes on, unless
// a folder is missing or many of its tasks are gone.
func TestGoneFromACopy(t *testing.T) {
	for what, c := range map[string]struct {
		tasks int
		spoil func(dir string) error
		gone  bool
	}{
		"whole":              {30, func(string) error { return nil }, false},
		"one pending lost":   {30, func(dir string) error { return os.Remove(filepath.Join(dir, "tasks/pending/t29.json")) }, false},
		"without pending":    {30, func(dir string) error { return os.RemoveAll(filepath.Join(dir, "tasks/pending")) }, true},
		"few, no pending":    {5, func(dir string) error { return os.RemoveAll(filepath.Join(dir, "tasks/pending")) }, true},
		"pending is emptied": {30, func(dir string) error { return emptied(filepath.Join(dir, "tasks/pending")) }, true},
		"no empty folders": {5, func(dir string) error {
			for _, f := range home.Folders { // as git makes a clone
				_ = os.Remove(filepath.Join(dir, f)) // what is not empty stays
			}
			return nil
		}, false},
	} {
		b := homes{}.open(t, Options{})
		ids := populated(t, b, c.tasks)
		must(t, b.Close())
		to := filepath.Join(t.TempDir(), "copy")
		must(t, errors.Join(os.CopyFS(to, os.DirFS(b.home)), modes(to), c.spoil(to)))
		copied, err := Open(context.Background(), to, b.o)
		must(t, err)
		t.Cleanup(func() { copied.Close() })
		if c.gone {
			stopped(t, copied, what)
			must(t, os.MkdirAll(filepath.Join(to, "tasks/pending"), 0o700))
			must(t, os.RemoveAll(filepath.Join(to, "tasks/pending")))
			must(t, errors.Join(os.CopyFS(filepath.Join(to, "tasks/pending"), os.DirFS(b.path("tasks", "pending"))), modes(filepath.Join(to, "tasks/pending"))))
		}
		if what == "one pending lost" {
			_, err = copied.Submit(t.Context(), request("more"))
			must(t, err)
			continue
		}
		goesOn(t, copied, ids, what)
	}
}

func emptied(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) }

// Within one boot no power cut took a file: what the journal has of the tasks
// that are gone comes neither into the new folder, nor back after they are given up.
func TestRule22_GoneIsNotReplayed(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	must(t, Create(home, Options{}))
	b := opened(t, home, Options{})
	sent(t, b, "x")
	dir := b.path("tasks", "pending")
	must(t, errors.Join(os.Rename(dir, home+"-aside"), os.Mkdir(dir, 0o700)))
	stopped(t, b, "replaced")
	if names, err := durable.Names(dir); err != nil || len(names) > 0 {
		t.Errorf("the new folder has %q (%v)", names, err)
	}
	r, err := Recover(t.Context(), home, b.o, RecoverOptions{AdoptDeleted: true})
	if err != nil || r.Adopted != 1 || r.Replayed != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	goesOn(t, b, nil, "given up")
}

// What a recovery found torn, put away and called lost was deleted by nobody.
func TestLostIsNotDeleted(t *testing.T) {
	b := homes{}.open(t, Options{})
	sent(t, b, "torn")
	must(t, os.WriteFile(b.path("tasks", "pending", "torn.json"), []byte(`{"id":"to`), 0o600))
	must(t, b.Close())
	out, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
	must(t, err)
	if out.Lost != 1 {
		t.Fatalf("lost: %d", out.Lost)
	}
	b = opened(t, b.home, b.o)
	must(t, scanNow(b))
	must(t, b.Tidy(t.Context()))
	_, m, err := b.ledger.LastMove("torn")
	must(t, err)
	if m.Enters() != Pending {
		t.Errorf("its last line has it in %q: %s", m.Enters(), m.Reason)
	}
	_, err = Recover(t.Context(), b.home, b.o, RecoverOptions{Adopt: []ID{"torn"}})
	must(t, err)
	whole(t, b.home)
}
