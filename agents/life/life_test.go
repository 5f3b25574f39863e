package life

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/mailboxtest"
)

func newBox(t testing.TB) *mailbox.Box {
	t.Helper()
	home := filepath.Join(t.TempDir(), "a[1]") // which a pattern would take for a1
	clock := time.Now()
	var mu sync.Mutex
	// Each look at the clock is another millisecond: an archive has its name from that.
	now := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		clock = clock.Add(time.Millisecond)
		return clock
	}
	return mailboxtest.In(t, home, mailbox.Options{Now: now})
}

func newborn(name string) Newborn {
	return Newborn{Name: name, Soul: "Kind.\n", Instruction: "Write.", Entry: []byte("[agents." + name + "]\n"), By: "human", Version: "v"}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bear makes an agent that is healthy.
func bear(t testing.TB, b *mailbox.Box, name string) {
	t.Helper()
	must(t, Birth(t.Context(), b, newborn(name)))
	must(t, Pulse(t.Context(), b, name, "v", true))
}

// bury puts an agent away, and tells where.
func bury(t testing.TB, b *mailbox.Box, name string) string {
	t.Helper()
	archive, err := Drain(t.Context(), b, name, "human", "r", nil, nil)
	if err != nil || archive == "" {
		t.Fatal(archive, err)
	}
	return filepath.Join(b.Home(), archive)
}

func stateOf(t testing.TB, b *mailbox.Box, name string) lifecycle.State {
	t.Helper()
	all, err := mailbox.AgentsOf(b)
	must(t, err)
	return all[name].State
}

// What lies in a home is listed, and neither followed nor waited for.
func TestManifest(t *testing.T) {
	b := newBox(t)
	bear(t, b, "ada")
	canary := filepath.Join(t.TempDir(), "canary")
	must(t, os.WriteFile(canary, []byte("sings"), 0o600))
	home := b.AgentDir("ada")
	must(t, os.Symlink(canary, filepath.Join(home, "workspace", "link")))
	must(t, os.Symlink(filepath.Dir(canary), filepath.Join(home, "workspace", "folder")))
	must(t, syscall.Mkfifo(filepath.Join(home, "workspace", "pipe"), 0o600))
	must(t, os.WriteFile(filepath.Join(home, "logs", "ada.log"), []byte("x"), 0o600))
	dir := bury(t, b, "ada")
	m, err := manifestOf(t.Context(), "ada", filepath.Join(dir, "home"), func(string, int64) bool { return true }, func(string) bool { return true })
	must(t, err)
	got := map[string]File{}
	for _, f := range m.Files {
		got[f.Path] = f
	}
	for path, want := range map[string]File{
		"workspace/link":   {Link: canary, Size: int64(len(canary))},
		"workspace/folder": {Link: filepath.Dir(canary), Size: int64(len(filepath.Dir(canary)))},
		"workspace/pipe":   {},
		"heartbeat.md":     {Size: 35, SHA256: "sha256:7ec3e2694c971293413fdafe6a2024f5c80d987d3957223214140adfd8708086"},
	} {
		want.Path = path
		if got[path] != want {
			t.Errorf("%+v, want %+v", got[path], want)
		}
	}
	if _, there := got["logs/ada.log"]; there || len(got) != 10 {
		t.Errorf("%d files: %v", len(got), got)
	}
	if a, err := os.ReadFile(filepath.Join(dir, "home", "logs", "ada.log")); err != nil || string(a) != "x" {
		t.Errorf("the logs are not kept: %q %v", a, err)
	}
	must(t, Restore(t.Context(), b, "ada", "human", "", nil))
	if _, err := os.Lstat(filepath.Join(b.AgentDir("ada"), "workspace", "pipe")); err != nil {
		t.Error(err)
	}
}

// One agent's archive is not that of one whose name begins the same, and the newest is
// brought back.
func TestArchiveOfAnother(t *testing.T) {
	b := newBox(t)
	for _, name := range []string{"ada", "ada-9", "ada-9-9"} {
		bear(t, b, name)
		must(t, os.WriteFile(filepath.Join(b.AgentDir(name), "workspace", "mine"), []byte(name), 0o600))
		bury(t, b, name)
	}
	for _, name := range []string{"ada", "ada-9"} {
		for range 2 {
			must(t, Restore(t.Context(), b, name, "human", "", nil))
			must(t, Pulse(t.Context(), b, name, "v", true))
			if text, err := os.ReadFile(filepath.Join(b.AgentDir(name), "workspace", "mine")); string(text) != name {
				t.Errorf("%s has the home of %q: %v", name, text, err)
			}
			bury(t, b, name)
		}
	}
}

// What a worker has made in the home of an agent that is put away is not in its way back,
// and not lost.
func TestLateWorker(t *testing.T) {
	b := newBox(t)
	bear(t, b, "ada")
	bury(t, b, "ada")
	log := filepath.Join(b.AgentDir("ada"), "logs", "ada.log")
	must(t, os.MkdirAll(filepath.Dir(log), 0o700))
	must(t, os.WriteFile(log, []byte("late"), 0o600))
	must(t, Restore(t.Context(), b, "ada", "human", "", nil))
	if s, err := Stateful(b, "ada"); s == nil || err != nil {
		t.Errorf("it is not back: %v", err)
	}
	kept, err := filepath.Glob(filepath.Join(strings.NewReplacer("[", "\\[").Replace(b.Home()), archives, "ada-*", "late-*", "logs", "ada.log"))
	if err != nil || len(kept) != 1 {
		t.Errorf("%q %v", kept, err)
	}
}

func hashOf(path string) (string, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	defer root.Close()
	return hashFile(root, filepath.Base(path))
}

// An archive that was changed does not come back, also if its manifest was changed with it.
func TestChangedArchive(t *testing.T) {
	for what, change := range map[string]func(dir string) error{
		"home/CLAUDE.md is not as it was put away": func(dir string) error { return os.WriteFile(filepath.Join(dir, "home/CLAUDE.md"), []byte("x"), 0o600) },
		"home/SOUL.md is missing":                  func(dir string) error { return os.Remove(filepath.Join(dir, "home/SOUL.md")) },
		"home/zzz was not there":                   func(dir string) error { return os.WriteFile(filepath.Join(dir, "home/zzz"), nil, 0o600) },
		"home/new was not there":                   func(dir string) error { return os.WriteFile(filepath.Join(dir, "home/new"), nil, 0o600) },
		"manifest.json is not the one of the ledger": func(dir string) error {
			path := filepath.Join(dir, "home/CLAUDE.md")
			before, err := hashOf(path)
			if err != nil {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte(strings.Repeat("x", len(text))), 0o600); err != nil {
				return err
			}
			after, err := hashOf(path)
			if err != nil {
				return err
			}
			list, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(strings.Replace(string(list), before, after, 1)), 0o600)
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBox(t)
			bear(t, b, "ada")
			dir := bury(t, b, "ada")
			must(t, change(dir))
			var changed *ChangedError
			if err := Restore(t.Context(), b, "ada", "human", "", nil); !errors.As(err, &changed) || changed.What != what {
				t.Errorf("it came back, or for another reason did not: %v", err)
			}
			if state := stateOf(t, b, "ada"); state != lifecycle.Dead {
				t.Errorf("it is %s", state)
			}
		})
	}
}

// A name that somebody has or had is nobody else's.
func TestTakenName(t *testing.T) {
	b := newBox(t)
	bear(t, b, "ada")
	bear(t, b, "eve")
	bury(t, b, "eve")
	must(t, os.MkdirAll(b.AgentDir("there"), 0o700))
	must(t, os.WriteFile(filepath.Join(b.Home(), "mbox.d", "file.toml"), nil, 0o600))
	for _, name := range []string{"ada", "eve", "there", "file"} {
		if err := Birth(t.Context(), b, newborn(name)); !errors.Is(err, mailbox.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"bridge:x", "any", "../x", "Ada"} {
		if err := Birth(t.Context(), b, newborn(name)); err == nil {
			t.Errorf("%s was born", name)
		}
	}
	if _, err := Drain(t.Context(), b, "coder", "human", "", nil, nil); !errors.Is(err, mailbox.ErrConflict) {
		t.Errorf("one that was not born: %v", err)
	}
}

// What has work is not put away before it has done it.
func TestDrainWaits(t *testing.T) {
	b := newBox(t)
	bear(t, b, "ada")
	claim, err := b.Claim(t.Context(), mailbox.ClaimRequest{Agent: "ada"})
	must(t, err)
	defer claim.Close()
	if archive, err := Drain(t.Context(), b, "ada", "human", "r", nil, nil); err != nil || archive != "" {
		t.Fatal(archive, err)
	}
	if buried, err := Finish(t.Context(), b, nil); err != nil || len(buried) > 0 || stateOf(t, b, "ada") != lifecycle.Draining {
		t.Fatal(buried, err)
	}
	must(t, claim.Complete(t.Context(), mailbox.Result{}))
	if buried, err := Finish(t.Context(), b, nil); err != nil || len(buried) != 1 || stateOf(t, b, "ada") != lifecycle.Dead {
		t.Fatal(buried, err)
	}
	if buried, err := Finish(t.Context(), b, nil); err != nil || len(buried) > 0 {
		t.Fatal(buried, err)
	}
}

// errFault is what fails.
var errFault = errors.New("fault")

// Whatever fails, as if it had not been done or as if it had: what was begun can be
// finished, and nothing is half-born or half-buried.
func TestFaults(t *testing.T) {
	deeds := []struct {
		name   string
		before func(t testing.TB, b *mailbox.Box)
		do     func(ctx context.Context, b *mailbox.Box) error
		ends   lifecycle.State
	}{
		{"birth", func(testing.TB, *mailbox.Box) {}, func(ctx context.Context, b *mailbox.Box) error {
			return Birth(ctx, b, newborn("ada"))
		}, lifecycle.Provisioning},
		{"end", func(t testing.TB, b *mailbox.Box) {
			bear(t, b, "ada")
			c, err := b.Claim(t.Context(), mailbox.ClaimRequest{Agent: "ada"})
			must(t, err)
			must(t, c.Complete(t.Context(), mailbox.Result{}))
		}, func(ctx context.Context, b *mailbox.Box) error {
			_, err := Drain(ctx, b, "ada", "human", "", nil, nil)
			return err
		}, lifecycle.Dead},
		{"way back", func(t testing.TB, b *mailbox.Box) { bear(t, b, "ada"); bury(t, b, "ada") }, func(ctx context.Context, b *mailbox.Box) error {
			return Restore(ctx, b, "ada", "human", "", nil)
		}, lifecycle.Provisioning},
		{"new name", func(t testing.TB, b *mailbox.Box) { bear(t, b, "eve") }, func(ctx context.Context, b *mailbox.Box) error {
			return Rename(ctx, b, renaming("eve", "ada", nil))
		}, lifecycle.Healthy},
		{"new name of a newborn", func(t testing.TB, b *mailbox.Box) {
			n := newborn("eve")
			n.UUID = "u"
			must(t, Birth(t.Context(), b, n))
		}, func(ctx context.Context, b *mailbox.Box) error {
			return Rename(ctx, b, renaming("eve", "ada", nil))
		}, lifecycle.Provisioning},
	}
	for _, deed := range deeds {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/applied %t", deed.name, applied), func(t *testing.T) {
				step := 3 // of which all are taken in the long form
				if os.Getenv("MBOX_TORTURE") != "" {
					step = 1
				}
				for at := 1; ; at += step {
					b := newBox(t)
					deed.before(t, b)
					n := 0
					remove := durable.SetFault(func(durable.Op, string) (bool, error) {
						if n++; n == at {
							return applied, errFault
						}
						return true, nil
					})
					err := deed.do(t.Context(), b)
					remove()
					if n < at {
						must(t, err)
						if at < 10 {
							t.Errorf("only %d calls could fail", at-1)
						}
						return
					}
					finished(t, b, at, deed.do, deed.ends)
				}
			})
		}
	}
}

// finished gives the command again, after a Finish, and looks at what came of it.
func finished(t *testing.T, b *mailbox.Box, at int, do func(context.Context, *mailbox.Box) error, ends lifecycle.State) {
	t.Helper()
	_, err := mailbox.Recover(t.Context(), b.Home(), mailbox.Options{Sync: durable.None}, mailbox.RecoverOptions{})
	must(t, err)
	b, err = mailbox.Open(t.Context(), b.Home(), mailbox.Options{Sync: durable.None})
	must(t, err)
	defer b.Close()
	if _, err := Finish(t.Context(), b, nil); err != nil {
		t.Fatalf("fault %d: %v", at, err)
	}
	if stateOf(t, b, "ada") != ends {
		if err := do(t.Context(), b); err != nil {
			t.Fatalf("fault %d, again: %v", at, err)
		}
	}
	if state := stateOf(t, b, "ada"); state != ends {
		t.Fatalf("fault %d: it is %s, not %s", at, state, ends)
	}
	lives := ends != lifecycle.Dead
	for _, path := range []string{b.AgentDir("ada"), filepath.Join(b.AgentDir("ada"), "state.json"), filepath.Join(b.Home(), "mbox.d", "ada.toml")} {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) == lives {
			t.Errorf("fault %d: %s: %v", at, path, err)
		}
	}
	left, _ := filepath.Glob(strings.NewReplacer("[", `\[`).Replace(b.Home()) + "/*/.*.birth")
	fresh, _ := filepath.Glob(strings.NewReplacer("[", `\[`).Replace(b.Home()) + "/mbox.d/*.new")
	if len(left)+len(fresh) > 0 {
		t.Errorf("fault %d: left %v %v", at, left, fresh)
	}
	if !lives {
		if dir, err := lastArchive(b, "ada"); dir == "" {
			t.Errorf("fault %d: it is not archived: %v", at, err)
		}
		return
	}
	x, err := b.Index()
	must(t, err)
	if len(x.Live) != 1 || x.Live[0].Target != "ada" {
		t.Errorf("fault %d: %+v", at, x.Live)
	}
	all, err := durable.Names(filepath.Join(b.Home(), "mbox.d"))
	if err != nil || len(all) != 1 {
		t.Errorf("fault %d: entries %q %v", at, all, err)
	}
}
