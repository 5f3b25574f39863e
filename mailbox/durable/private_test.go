package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A secret is read only from a file that nobody else can read or change.
func TestReadPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, good := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o620: false, 0o601: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if data, err := ReadPrivate(path, 6); good != (string(data) == "secret") || good != (err == nil) || !good && !errors.Is(err, ErrNotPrivate) {
			t.Errorf("mode %o: %q, %v", mode, data, err)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPrivate(path, 5); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a long one: %v", err)
	}
	link := path + ".link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPrivate(link, 6); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a symlink: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Log("only root can give a file away")
		return
	}
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPrivate(path, 6); !errors.Is(err, ErrNotPrivate) {
		t.Errorf("another user's: %v", err)
	}
}
