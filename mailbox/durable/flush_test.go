package durable

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// steps notes what do changes on the disk, in its order, with paths from dir.
func steps(t *testing.T, dir string, do func() error) []string {
	t.Helper()
	var said []string
	remove := SetFault(func(op Op, path string) (bool, error) {
		name, err := filepath.Rel(dir, path)
		if err != nil {
			name = path
		}
		said = append(said, fmt.Sprintf("%s %s", op, name))
		return true, nil
	})
	defer remove()
	if err := do(); err != nil {
		t.Fatal(err)
	}
	return said
}

// What each call promises to be on disk is flushed, behind what it flushes and
// before what rests on it; in mode None nothing is.
func TestRule10_WhatIsFlushed(t *testing.T) {
	const stage = "create f, append f, sync f"
	for _, c := range []struct {
		name string
		do   func(in func(string) string, m Mode) error
		want string // without what is left out in mode None
	}{
		{"stage", func(in func(string) string, m Mode) error { return Stage(in("f"), []byte("x"), m) }, stage},
		{"replace", func(in func(string) string, m Mode) error {
			return Replace(in("f"), []byte("x"), m)
		}, "remove f.new, create f.new, append f.new, sync f.new, replace f, syncdir ."},
		{"make folders", func(in func(string) string, m Mode) error {
			return MkdirAll(in("a/b"), m)
		}, "mkdir a, syncdir ., mkdir a/b, syncdir a"},
	} {
		for _, m := range []Mode{Standard, Strict, None} {
			dir := t.TempDir()
			got := steps(t, dir, func() error { return c.do(func(name string) string { return filepath.Join(dir, name) }, m) })
			want := strings.Split(c.want, ", ")
			if m == None {
				want = slices.DeleteFunc(want, func(s string) bool { return strings.HasPrefix(s, "sync") })
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s in mode %d: %q, want %q", c.name, m, got, want)
			}
		}
	}
}

// A folder that another process has just made is flushed into its parent too:
// nobody knows whether that one lives to do it.
func TestRule12_FolderMadeByAnother(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	synced := false
	remove := SetFault(func(op Op, _ string) (bool, error) {
		if op == OpMkdir {
			if err := unix.Mkdir(path, 0o700); err != nil {
				t.Error(err)
			}
		}
		synced = synced || op == OpSyncDir
		return true, nil
	})
	defer remove()
	if err := MkdirAll(path, Standard); err != nil || !synced {
		t.Errorf("flushed: %v (%v)", synced, err)
	}
}

// A write that the system cuts short is an error, not a file that is shorter.
func TestRule06_ShortWrite(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	if err := unix.SetNonblock(pipe[1], true); err != nil {
		t.Fatal(err)
	}
	if err := writeOnce(pipe[1], "pipe", make([]byte, 1<<22)); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("half of it fits: %v", err)
	}
}
