package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A spare is used again only if nobody else can reach what is written into it.
func TestStageSpare(t *testing.T) {
	hold := func(t *testing.T, spare string, flags int) {
		f, err := os.OpenFile(spare, flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
	}
	mapped := func(t *testing.T, spare string, prot int) {
		f, err := os.OpenFile(spare, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		data, err := unix.Mmap(int(f.Fd()), 0, 8, prot, unix.MAP_SHARED)
		f.Close() // the mapping stays
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Munmap(data) })
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		spoil func(t *testing.T, spare string)
		used  bool
	}{
		"nobody's":       {func(*testing.T, string) {}, true},
		"read":           {func(t *testing.T, s string) { hold(t, s, os.O_RDONLY) }, false},
		"written":        {func(t *testing.T, s string) { hold(t, s, os.O_WRONLY) }, false},
		"mapped to read": {func(t *testing.T, s string) { mapped(t, s, unix.PROT_READ) }, false},
		"mapped":         {func(t *testing.T, s string) { mapped(t, s, unix.PROT_READ|unix.PROT_WRITE) }, false},
		"linked":         {func(t *testing.T, s string) { must(t, os.Link(s, s+".other")) }, false},
		"for the group":  {func(t *testing.T, s string) { must(t, os.Chmod(s, 0o640)) }, false},
		"setuid":         {func(t *testing.T, s string) { must(t, os.Chmod(s, 0o600|fs.ModeSetuid)) }, false},
		"a symlink":      {func(t *testing.T, s string) { must(t, os.Rename(s, s+".t")); must(t, os.Symlink(s+".t", s)) }, false},
		"missing":        {func(t *testing.T, s string) { must(t, os.Rename(s, s+".t")) }, false},
		"a folder":       {func(t *testing.T, s string) { must(t, os.Rename(s, s+".t")); must(t, os.Mkdir(s, 0o700)) }, false},
	}
	for name, c := range cases {
		for _, content := range []string{"", "short", strings.Repeat("long", 3000)} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				spare, path := filepath.Join(dir, "spare"), filepath.Join(dir, "new")
				must(t, os.WriteFile(spare, []byte("what was private"), FileMode))
				was, err := os.Stat(spare)
				must(t, err)
				c.spoil(t, spare)
				must(t, StageSpare(path, []byte(content), spare))
				if data, err := os.ReadFile(path); err != nil || string(data) != content {
					t.Errorf("it holds %d bytes, want %d: %v", len(data), len(content), err)
				}
				now, err := os.Lstat(path)
				must(t, err)
				if now.Mode() != FileMode {
					t.Errorf("its mode is %v", now.Mode())
				}
				if used := os.SameFile(was, now); used && !c.used {
					t.Error("somebody else can reach it")
				} else if !used && c.used && reuses() {
					t.Error("the spare was not used")
				}
			})
		}
	}
}

// reuses tells whether the system can say who else has a file open.
func reuses() bool { return CanSyncFS }

// What is put away never replaces anything, and goes if there is no place.
func TestSpare(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"one", "two", "three", "four"} {
		if err := Stage(at(name), []byte(name), None); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"one", "two", "three"} {
		if err := Spare(at(name), at("spare-0"), at("spare-1")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Spare(at("four"), filepath.Join(dir, "no", "folder")); err != nil {
		t.Errorf("without a folder: %v", err)
	}
	if err := Spare(at("five"), at("spare-2")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range entries {
		data, _ := os.ReadFile(at(e.Name()))
		have = append(have, e.Name()+"="+string(data))
	}
	if said := strings.Join(have, " "); said != "spare-0=one spare-1=two" {
		t.Error(said)
	}
}

// A lease file that is used again keeps at most so much of its earlier life.
func TestCreateSpare(t *testing.T) {
	for name, c := range map[string]struct {
		was  string
		want string
	}{
		"short": {"before\n", "before\nnow\n"},
		"long":  {strings.Repeat("x", 17), "now\n"},
	} {
		dir := t.TempDir()
		spare, path := filepath.Join(dir, "spare"), filepath.Join(dir, "new")
		if err := os.WriteFile(spare, []byte(c.was), FileMode); err != nil {
			t.Fatal(err)
		}
		f, err := CreateSpare(spare, path, 16, []byte("now\n"))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if data, _ := os.ReadFile(path); string(data) != c.want && (reuses() || string(data) != "now\n") {
			t.Errorf("%s: %q", name, data)
		}
	}
}
