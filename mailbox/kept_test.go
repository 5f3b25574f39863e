package mailbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/mailbox/verify"
)

// lateActs are what somebody does to a file that a line has just put into
// quarantine, before it is moved there.
var lateActs = []struct {
	name string
	do   func(path string) error
}{
	{"replaces it", func(path string) error {
		return rewrite(path, "", `{"task":{"title":"the next drop"}}`)
	}},
	{"removes it", os.Remove},
	{"puts a symlink there", func(path string) error {
		return rename2(path, func(new string) error { return linkOut(filepath.Join(path, "../../.."), new) })
	}},
	{"puts a folder there", func(path string) error {
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.Mkdir(path, 0o700)
	}},
}

func rename2(path string, make func(string) error) error {
	if err := make(path + ".tmp"); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// TestReplacedOnTheWay lets somebody replace or remove a file between the line
// that puts it into quarantine and the rename that does. Nobody's new bytes are
// lost, the ledger says what did not come, and verify is content, also when the
// process dies at any write behind the line.
func TestReplacedOnTheWay(t *testing.T) {
	for _, junk := range []struct{ name, file, text string }{
		{"no task", "pending/drop.json", `[]`},
		{"a bad field", "pending/drop.json", `{"task":{"title":"x","priority":"soon"}}`},
		{"a stray", "failed/stray.json", titled("")},
	} {
		for _, act := range lateActs {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, somebody %s, late %v", junk.name, act.name, late), func(t *testing.T) {
					for die := 0; replacedOnTheWay(t, junk.file, junk.text, act.do, late, die) && !t.Failed(); die += stride() {
					}
				})
			}
		}
	}
}

// replacedOnTheWay acts right behind the line, or, late, right before the rename
// into quarantine. It tells whether the process had come to the write at which
// it was to die; at 0 it lives.
func replacedOnTheWay(t *testing.T, file, text string, act func(string) error, late bool, die int) bool {
	o := Options{Sync: durable.None, Now: func() time.Time { return time.Now().Add(time.Hour) }}
	dir := filepath.Join(t.TempDir(), "home")
	must(t, Create(dir, o))
	b, err := Open(t.Context(), dir, o)
	must(t, err)
	path := b.path("tasks", file)
	must(t, put(path, text))
	written, acted, since := false, false, 0
	remove := durable.SetFault(func(op durable.Op, at string) (bool, error) {
		entering := op == durable.OpMove && filepath.Dir(at) == b.path("tasks", "quarantine")
		if !acted && (entering || written && !late) {
			acted = true
			must(t, act(path))
		}
		written = written || op == durable.OpAppend && strings.HasPrefix(at, b.path("audit", "shared"))
		if acted {
			since++
		}
		if die > 0 && since >= die {
			return false, syscall.EIO
		}
		return true, nil
	})
	said := scanNow(b, task.Folders...)
	remove()
	b.Close()
	if !acted {
		t.Fatalf("nothing was moved: %v", said)
	}
	if since < die {
		return false
	}
	b, err = Open(t.Context(), dir, o)
	must(t, err)
	defer b.Close()
	for range 2 {
		must(t, scanNow(b, task.Folders...))
	}
	whole(t, dir)
	told := 0
	for _, e := range lines(t, b, "") {
		if strings.Contains(string(e.Details), `"gone":`) {
			told++
		}
	}
	if told != 1 {
		t.Errorf("dying at %d: %d lines say what is gone", die, told)
	}
	if names, err := durable.Names(home.Private(dir, "tmp")); err != nil || len(names) > 0 {
		t.Errorf("dying at %d: left in tmp: %v %v", die, names, err)
	}
	return true
}

// TestReplacedTwice lets a second file of the name come along into quarantine,
// and a third take its place before it is sent back: all three are accounted for.
func TestReplacedTwice(t *testing.T) {
	b := homes{}.open(t, newClock().options())
	b.drop(t, "drop.json", `[]`)
	path := b.pending("drop.json")
	quarantined := b.path("tasks", "quarantine")
	second, third := false, false
	remove := durable.SetFault(func(op durable.Op, at string) (bool, error) {
		if op == durable.OpMove && filepath.Dir(at) == quarantined && !second {
			second = true
			must(t, rewrite(path, "", "[2]"))
		}
		if op == durable.OpMove && at == path && !third {
			third = true
			must(t, put(path, titled("")))
		}
		return true, nil
	})
	err := scanNow(b)
	remove()
	must(t, err)
	old(path)
	mustScan(t, b)
	if s := said(t, b, "drop"); !second || !third || s != Pending {
		t.Errorf("second came %v, third came %v and is %q", second, third, s)
	}
	kept := quarantine(t, b)
	if len(kept) != 1 {
		t.Fatalf("kept: %+v", kept)
	}
	if data, err := os.ReadFile(filepath.Join(quarantined, kept[0].Entry)); !strings.HasPrefix(string(data), "[2]") {
		t.Errorf("kept %q: %v", data, err)
	}
	whole(t, b.Home())
	lintAll(t, map[string]string{b.Home(): b.Home()})
}

// What is to be kept is looked at when mbox has it, not before: then nobody can
// put another file in its place any more.
func TestRule11_PossessionBeforeTheLook(t *testing.T) {
	b := homes{}.open(t, newClock().options())
	b.drop(t, "drop.json", `[]`)
	path, written := b.pending("drop.json"), false
	var moved []string
	remove := durable.SetFault(func(op durable.Op, at string) (bool, error) {
		if op == durable.OpMove {
			moved = append(moved, filepath.Base(filepath.Dir(at)))
		}
		if !written && op == durable.OpAppend && strings.HasPrefix(at, b.path("audit", "shared")) {
			written = true
			must(t, rewrite(path, "", "[2]"))
		}
		return true, nil
	})
	err := scanNow(b)
	remove()
	must(t, err)
	if strings.Join(moved, " ") != "quarantine pending" {
		t.Errorf("moved to %q", moved)
	}
	if data, err := os.ReadFile(path); !strings.HasPrefix(string(data), "[2]") {
		t.Errorf("the next drop: %q %v", data, err)
	}
	whole(t, b.Home())
}

// TestGoneIsNoExcuse: recovery does not take back an entry that was there, and
// a line that takes back what no line named is a fault.
func TestGoneIsNoExcuse(t *testing.T) {
	b := homes{}.open(t, newClock().options())
	b.drop(t, "drop.json", `{"task":{"title":"x","priority":"soon"}}`)
	mustScan(t, b)
	entry := b.path("tasks", "quarantine", quarantine(t, b)[0].Entry)
	must(t, os.Remove(entry))
	must(t, os.Remove(entry+home.ReasonSuffix))
	must(t, os.Rename(b.path("tasks/failed/drop.json"), home.Private(b.home, "tmp", "drop~"+strings.Repeat("0", 32))))
	b.Close()
	_, err := Recover(t.Context(), b.Home(), b.o, RecoverOptions{})
	must(t, err)
	r, err := verify.Home(t.Context(), b.Home(), verify.Options{Deep: true})
	must(t, err)
	if text := fmt.Sprint(r.Findings); !strings.Contains(text, "the entry is gone") {
		t.Errorf("verify: %s", text)
	}
}

// What somebody has removed from quarantine is given up when the operator says so, and
// nothing else is; said again it changes nothing.
func TestRemovedFromQuarantine(t *testing.T) {
	b := homes{}.open(t, newClock().options())
	b.drop(t, "stays.json", `{"task":{"title":"x","priority":"soon"}}`)
	mustScan(t, b)
	stays := quarantine(t, b)[0].Entry
	b.drop(t, "goes.json", `[]`)
	must(t, os.Mkdir(b.pending("folder"), 0o700))
	old(b.pending("folder"))
	mustScan(t, b)
	for _, q := range quarantine(t, b) {
		if q.Entry != stays {
			must(t, os.RemoveAll(b.path("tasks", "quarantine", q.Entry))) // the reason stays
		}
	}
	b.Close()
	faults := func() string {
		t.Helper()
		r, err := verify.Home(t.Context(), b.Home(), verify.Options{Deep: true})
		must(t, err)
		return fmt.Sprint(r.Findings)
	}
	recovered := func(o RecoverOptions) (lines int64) {
		t.Helper()
		_, err := Recover(t.Context(), b.Home(), b.o, o)
		must(t, err)
		return opened(t, b.home, b.o).ledger.End().Seq
	}
	recovered(RecoverOptions{})
	if text := faults(); !strings.Contains(text, "the entry is gone") {
		t.Fatalf("verify: %s", text)
	}
	lines := recovered(RecoverOptions{AdoptDeleted: true})
	if text := faults(); text != "[]" {
		t.Errorf("verify: %s", text)
	}
	if again := recovered(RecoverOptions{AdoptDeleted: true}); again != lines {
		t.Errorf("said again it wrote %d lines", again-lines)
	}
	if left := quarantine(t, b); len(left) != 1 || left[0].Entry != stays {
		t.Errorf("left are %+v", left)
	}
}
