package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
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

// A folder deeper than there are descriptors is removed, and nothing behind its
// symlinks.
func TestRemoveInDeep(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for range 300 { // the deepest is made first: no path grows long
		for _, err := range []error{root.MkdirAll("d", 0o700), root.Mkdir("p", 0o700), root.Rename("d", "p/d"), root.Rename("p", "d")} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, err := range []error{
		os.WriteFile(filepath.Join(elsewhere, "kept"), nil, 0o600), os.Symlink(elsewhere, filepath.Join(dir, "d/out")),
		os.WriteFile(filepath.Join(dir, "d/d/file"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 200
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	err = RemoveIn(root, "d")
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	if err != nil {
		t.Error(err)
	}
	if err := RemoveIn(root, "d"); err != nil {
		t.Errorf("what is not there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "kept")); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("left %v, %v", names, err)
	}
}

// What is opened in a folder of somebody else's is a regular file of its own name, also
// while he puts a link to another one there.
func TestOpenIn(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"file", "other"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	must(t, os.Symlink("other", filepath.Join(dir, "link")))
	must(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	root := rootAt(t, dir)
	for _, name := range []string{"link", "pipe", "folder"} {
		if f, info, err := OpenIn(root, name, os.O_RDWR); f != nil || info == nil || !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v %v %v", name, f, info, err)
		}
	}
	if _, info, err := OpenIn(root, "nothing", os.O_RDONLY); info != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: %v %v", info, err)
	}
	link, changing := filepath.Join(dir, "link"), filepath.Join(dir, "changing")
	var swaps atomic.Int64
	done := make(chan error, 1)
	var stop atomic.Bool
	go func() {
		for !stop.Load() {
			for _, change := range []func() error{
				func() error { return os.WriteFile(link+"2", []byte("file"), 0o600) },
				func() error { return os.Rename(link+"2", changing) },
				func() error { return os.Symlink("other", link+"2") },
				func() error { return os.Rename(link+"2", changing) },
			} {
				if err := change(); err != nil {
					done <- err
					return
				}
			}
			swaps.Add(1)
		}
		done <- nil
	}()
	opened := 0
	for n := 0; n < 20_000 || len(done) == 0 && (opened == 0 || swaps.Load() == 0); n++ {
		f, info, err := OpenIn(root, "changing", os.O_RDONLY)
		if err != nil {
			continue // it is not there yet, or a link
		}
		opened++
		if text, err := io.ReadAll(f); string(text) == "other" || info.Size() != 4 {
			t.Fatalf("%q %v, %d bytes: a link was followed", text, err, info.Size())
		}
		must(t, f.Close())
	}
	stop.Store(true)
	must(t, <-done)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
