package durable

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A spare is used again only if nobody else can reach what is written into it,
// whatever the lengths of what it held and of what it is to hold.
func TestSpareInReach(t *testing.T) {
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
		"mapped to read": {func(t *testing.T, s string) { mapped(t, s, unix.PROT_READ) }, false},
		"mapped":         {func(t *testing.T, s string) { mapped(t, s, unix.PROT_READ|unix.PROT_WRITE) }, false},
		"setuid":         {func(t *testing.T, s string) { must(t, os.Chmod(s, 0o600|fs.ModeSetuid)) }, false},
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
				} else if !used && c.used {
					t.Error("the spare was not used")
				}
			})
		}
	}
}
