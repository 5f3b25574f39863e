package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func rootAt(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// The contents are flushed before the name is taken, and the folder after it.
func TestReplaceIn(t *testing.T) {
	for m, want := range map[Mode]string{
		Standard: "create f, append f, sync, replace f, syncdir .",
		Strict:   "create f, append f, sync, replace f, syncdir .",
		None:     "create f, append f, replace f",
	} {
		dir := t.TempDir()
		root := rootAt(t, dir)
		write(t, filepath.Join(dir, "f"), "old")
		got := steps(t, dir, func() error { return ReplaceIn(root, "f", []byte("new"), m) })
		for i, step := range got {
			if strings.HasPrefix(step, "sync ") { // the temporary file's name is random
				got[i] = "sync"
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("mode %d: %q, want %q", m, got, want)
		}
		holds(t, filepath.Join(dir, "f"), "new")
		info, err := os.Stat(filepath.Join(dir, "f"))
		if err != nil || info.Mode().Perm() != FileMode || !slices.Equal(names(t, dir), []string{"f"}) {
			t.Errorf("mode %d: left %v, %v, %v", m, names(t, dir), info.Mode(), err)
		}
	}
}

// Whichever step fails, applied or not, the name holds the old bytes or the new
// ones, and no temporary file is left.
func TestReplaceInFails(t *testing.T) {
	boom := errors.New("boom")
	for _, op := range []Op{OpCreate, OpAppend, OpSync, OpReplace, OpSyncDir} {
		for _, apply := range []bool{false, true} {
			dir := t.TempDir()
			root := rootAt(t, dir)
			write(t, filepath.Join(dir, "f"), "old")
			remove := SetFault(func(at Op, _ string) (bool, error) {
				if at == op {
					return apply, boom
				}
				return true, nil
			})
			err := ReplaceIn(root, "f", []byte("new"), Standard)
			remove()
			if !errors.Is(err, boom) {
				t.Errorf("%s, applied %v: %v", op, apply, err)
			}
			want := "old"
			if op == OpSyncDir || op == OpReplace && apply {
				want = "new"
			}
			holds(t, filepath.Join(dir, "f"), want)
			if got := names(t, dir); !slices.Equal(got, []string{"f"}) {
				t.Errorf("%s, applied %v: left %v", op, apply, got)
			}
		}
	}
}

// A symlink is replaced and never followed.
func TestReplaceInLink(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "f")
	write(t, outside, "mine")
	if err := os.Symlink(outside, filepath.Join(dir, "f")); err != nil {
		t.Fatal(err)
	}
	if err := ReplaceIn(rootAt(t, dir), "f", []byte("new"), None); err != nil {
		t.Fatal(err)
	}
	holds(t, outside, "mine")
	holds(t, filepath.Join(dir, "f"), "new")
}

func TestMkdirIn(t *testing.T) {
	dir := t.TempDir()
	root := rootAt(t, dir)
	if got := steps(t, dir, func() error { return MkdirIn(root, "a", Standard) }); !slices.Equal(got, []string{"mkdir a", "syncdir ."}) {
		t.Errorf("a new folder: %q", got)
	}
	if got := steps(t, dir, func() error { return MkdirIn(root, "a", Standard) }); len(got) > 0 {
		t.Errorf("a folder that is there: %q", got)
	}
	info, err := os.Stat(filepath.Join(dir, "a"))
	if err != nil || info.Mode().Perm() != DirMode {
		t.Errorf("made %v, %v", info, err)
	}
	write(t, filepath.Join(dir, "f"), "x")
	if err := os.Symlink("a", filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"f", "l"} {
		if err := MkdirIn(root, name, None); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := MkdirIn(root, "../b", None); err == nil {
		t.Error("a folder outside the root was made")
	}
}
