package life

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/mailbox/durable"
	"mbox/mailbox/lifecycle"
)

// Whatever an agent leaves in its home, it is put away, and comes back: names that are no
// text, what cannot be read, a file that has no end, and locks.
func TestNothingKeepsAnAgentFromItsEnd(t *testing.T) {
	b := newBox(t)
	bear(t, b, "ada")
	home := b.AgentDir("ada")
	work := filepath.Join(home, "workspace")
	for _, name := range []string{"a\xff", "a\nb", "\x01", "closed"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte("x"), 0o600); err != nil && name != "a\xff" {
			t.Fatal(err) // there are file systems that want UTF-8
		}
	}
	must(t, os.Chmod(filepath.Join(work, "closed"), 0))
	must(t, os.Mkdir(filepath.Join(work, "shut"), 0))
	_ = os.Symlink("\xff", filepath.Join(work, "link"))
	endless := filepath.Join(work, "endless")
	must(t, os.WriteFile(endless, nil, 0o600))
	for size := int64(1 << 52); os.Truncate(endless, size) != nil; size >>= 1 { // as far as the file system goes
		if size == 1 {
			t.Fatal("no file can be made longer")
		}
	}
	for _, name := range []string{"agent.lock", "state.lock", ".lock"} {
		must(t, os.WriteFile(filepath.Join(home, name), nil, 0o600))
		held, err := durable.TryLock(filepath.Join(home, name))
		must(t, err)
		defer func() { must(t, held.Unlock()) }()
	}
	must(t, os.Chmod(home, 0))
	began := time.Now()
	dir := bury(t, b, "ada")
	if took := time.Since(began); took > lockWait/2 {
		t.Errorf("its end took %v", took)
	}
	must(t, Restore(t.Context(), b, "ada", "human", "", nil))
	if state := stateOf(t, b, "ada"); state != lifecycle.Provisioning {
		t.Errorf("it is %s", state)
	}
	if _, err := os.Lstat(filepath.Join(work, "shut")); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	must(t, err)
	for _, name := range []string{"closed", "shut", "endless"} {
		if name == "shut" && os.Geteuid() == 0 {
			continue // whom nothing is shut to
		}
		if !strings.Contains(string(text), `"workspace/`+name+`"`) {
			t.Errorf("the manifest does not list %s", name)
		}
	}
	must(t, os.Chmod(filepath.Join(work, "shut"), 0o700)) // so that it can be removed
}

// A home of more than a manifest holds is put away with one that counts the rest, and what
// was added to it afterwards is noticed.
func TestManifestOfTooMuch(t *testing.T) {
	b := newBox(t)
	bear(t, b, "ada")
	work := filepath.Join(b.AgentDir("ada"), "workspace")
	deep := filepath.Join(work, strings.Repeat("d/", mostPath/2))
	must(t, os.MkdirAll(deep, 0o700))
	must(t, os.WriteFile(filepath.Join(deep, "file"), nil, 0o600))
	wide := filepath.Join(work, strings.Repeat("w", 200), strings.Repeat("w", 200), strings.Repeat("w", 200))
	must(t, os.MkdirAll(wide, 0o700))
	defer func(most int) { mostListed = most }(mostListed)
	mostListed = 1 << 20
	for i := range mostListed / 800 {
		must(t, os.WriteFile(filepath.Join(wide, fmt.Sprintf("%0200d", i)), nil, 0o600))
	}
	dir := bury(t, b, "ada")
	late := filepath.Join(dir, "home", "workspace", filepath.Base(wide), filepath.Base(wide), filepath.Base(wide), "x")
	must(t, os.WriteFile(late, nil, 0o600))
	var changed *ChangedError
	if err := Restore(t.Context(), b, "ada", "human", "", nil); !errors.As(err, &changed) {
		t.Errorf("with one file more: %v", err)
	}
	must(t, os.Remove(late))
	must(t, Restore(t.Context(), b, "ada", "human", "", nil))
}

// The locks of a home lie where no rules of a sandbox lead, and not in the home.
func TestLocksOfAHome(t *testing.T) {
	b := newBox(t)
	bear(t, b, "ada")
	leave, err := Enter(t.Context(), b, "ada", 0)
	must(t, err)
	if _, err := durable.TryLock(filepath.Join(b.Home(), ".mbox", "locks", "home-ada")); !errors.Is(err, durable.ErrBusy) {
		t.Errorf("who is in the home does not hold its lock in .mbox: %v", err)
	}
	must(t, leave())
	for _, name := range []string{"agent.lock", "state.lock"} {
		if is, err := there(filepath.Join(b.AgentDir("ada"), name)); is || err != nil {
			t.Errorf("in the home lies %s: %v", name, err)
		}
	}
	if _, err := Enter(t.Context(), b, "nobody", 0); !gone(err) {
		t.Errorf("a home that is not there: %v", err)
	}
}
