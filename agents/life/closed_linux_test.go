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
	must(t, os.MkdirAll(filepath.Join(home, "folder"), 0o755))
	must(t, os.WriteFile(filepath.Join(home, "folder", "inner"), []byte("x"), 0o644))
	must(t, os.WriteFile(filepath.Join(home, "note"), []byte("text"), 0o644))
	for _, path := range []string{"../..", "..", ".", "folder"} { // for those who are not their owner
		must(t, os.Chmod(filepath.Join(home, path), 0o755))
	}
	for _, path := range []string{"note", "folder/inner"} {
		must(t, os.Chmod(filepath.Join(home, path), 0o644))
	}
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
		asAnother(t, func() {
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

// asAnother does something as a user whom the modes of files bind.
func asAnother(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		must(t, unix.Setfsuid(65534))
		defer unix.Setfsuid(0)
	}
	do()
}
