package life

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// What mbox may not read has no hash where an agent is put away. Where it is brought back,
// a file that was read then and cannot be now is that error, and not a change of the file.
func TestManifestOfTheClosed(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	must(t, os.MkdirAll(filepath.Join(home, "folder"), 0o700))
	must(t, os.WriteFile(filepath.Join(home, "folder", "inner"), []byte("x"), 0o600))
	must(t, os.WriteFile(filepath.Join(home, "note"), []byte("text"), 0o600))
	list := func(closed bool) (*Manifest, error) {
		return manifestOf(t.Context(), "ada", home, func(string, int64) bool { return true }, func(string) bool { return closed })
	}
	for name, shut := range map[string][]File{
		"note":   {{Path: "folder/inner", Size: 1, SHA256: "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}, {Path: "note", Size: 4}},
		"folder": {{Path: "folder"}, {Path: "note", Size: 4, SHA256: "sha256:982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"}},
	} {
		path := filepath.Join(home, name)
		info, err := os.Lstat(path)
		must(t, err)
		must(t, os.Chmod(path, 0))
		bound(t, func() {
			m, err := list(true)
			if err != nil || len(m.Files) != len(shut) || m.Files[0] != shut[0] || m.Files[1] != shut[1] {
				t.Errorf("%s put away: %+v %v, want %+v", name, m, err, shut)
			}
			if m, err := list(false); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s brought back: %+v %v", name, m, err)
			}
		})
		must(t, os.Chmod(path, info.Mode()))
	}
}

// bound does something as one whom the modes of files bind, which they do not bind root.
func bound(t *testing.T, do func()) {
	t.Helper()
	runtime.LockOSThread() // whose rights these are
	defer runtime.UnlockOSThread()
	self := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var rights [2]unix.CapUserData
	must(t, unix.Capget(&self, &rights[0]))
	fewer := rights
	fewer[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	must(t, unix.Capset(&self, &fewer[0]))
	defer unix.Capset(&self, &rights[0])
	do()
}
