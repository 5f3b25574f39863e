package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there (%v)", filepath.Base(path), err)
	}
}

func inodeOf(t *testing.T, path string) uint64 {
	t.Helper()
	st, err := Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// A spare goes to the first place that is free, replaces none, and is removed
// where there is no room for it.
func TestSpare(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, end := range []string{"a", "b", ""} {
		write(t, in("file"), "for "+end)
		if err := Spare(in("file"), in("a"), in("b")); err != nil {
			t.Fatal(err)
		}
		gone(t, in("file"))
	}
	holds(t, in("a"), "for a")
	holds(t, in("b"), "for b")

	write(t, in("file"), "no folder for spares")
	if err := Spare(in("file"), in("none/a"), in("none/b")); err != nil {
		t.Error(err)
	}
	gone(t, in("file"))
	if err := Spare(in("file"), in("none/a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing to put away: %v", err)
	}
	if err := Spare(in("file"), in("c")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing to put away, and a free place: %v", err)
	}
}

// A spare is used again only if nobody else can reach it; then the next one is
// tried, and a new file made where none is left.
func TestStageSpare(t *testing.T) {
	const old, data = "what it held before, which is longer", "new"
	for name, c := range map[string]struct {
		spoil func(t *testing.T, spare string)
		kept  string // what the spare still holds; "" if it was used
	}{
		"alone":            {func(*testing.T, string) {}, ""},
		"of another mode":  {func(t *testing.T, p string) { chmod(t, p, 0o640) }, old},
		"of another owner": {chown, old},
		"with two names": {func(t *testing.T, p string) {
			if err := os.Link(p, p+"-too"); err != nil {
				t.Fatal(err)
			}
		}, old},
		"open for reading": {func(t *testing.T, p string) { keepOpen(t, p, os.O_RDONLY) }, old},
		"open for writing": {func(t *testing.T, p string) { keepOpen(t, p, os.O_WRONLY) }, old},
		"a symlink": {func(t *testing.T, p string) {
			if err := errors.Join(os.Rename(p, p+"-target"), os.Symlink(p+"-target", p)); err != nil {
				t.Fatal(err)
			}
		}, old},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first, second, path := filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "path")
			write(t, first, old)
			write(t, second, old)
			c.spoil(t, first)
			used := inodeOf(t, first)
			if c.kept != "" {
				used = inodeOf(t, second)
			}
			if err := StageSpare(path, []byte(data), first, second); err != nil {
				t.Fatal(err)
			}
			holds(t, path, data)
			if inodeOf(t, path) != used {
				t.Error("it is in another inode")
			}
			if c.kept == "" {
				gone(t, first)
				holds(t, second, old)
			} else {
				holds(t, first, c.kept)
				gone(t, second)
			}
			if err := StageSpare(path, []byte("other"), first, second); !errors.Is(err, fs.ErrExist) {
				t.Errorf("over a file: %v", err)
			}
			holds(t, path, data)
			if err := StageSpare(filepath.Join(dir, "third"), []byte(data), filepath.Join(dir, "none")); err != nil {
				t.Error(err)
			}
			holds(t, filepath.Join(dir, "third"), data)
		})
	}
}

func chmod(t *testing.T, path string, m fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, m); err != nil {
		t.Fatal(err)
	}
}

func chown(t *testing.T, path string) {
	t.Helper()
	if err := os.Chown(path, 1, -1); err != nil {
		t.Skipf("the right to give files away is missing: %v (root has it)", err)
	}
}

func keepOpen(t *testing.T, path string, flags int) {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
}
