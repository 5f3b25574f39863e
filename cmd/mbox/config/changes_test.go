package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestChanges(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"lease = '5m'", "lease = '300s'", "no setting has changed"},
		{"", "lease = '5m'\nmax_attempts = 4", "lease, max_attempts from now on"},
		{"[roles.x]", "lease = '5m'", "lease, roles.x (gone) from now on"},
		{"[roles.x]", "[roles.y]\n[roles.x]\nmax_tokens = 7", "roles.x.max_tokens, roles.y (new) from now on"},
		{
			"", "[roles.a]\n[roles.b]\n[roles.c]\n[roles.d]\n[roles.e]\n[roles.f]\n[roles.g]\n[roles.h]\n[roles.i]\n[roles.j]\n[roles.k]\n[roles.l]\n[roles.m]",
			"roles.a (new), roles.b (new), roles.c (new), roles.d (new), roles.e (new), roles.f (new), roles.g (new), roles.h (new), roles.i (new), roles.j (new), " +
				"roles.k (new), roles.l (new) and 1 more hold from now on",
		},
	} {
		equal(t, c.before+" → "+c.after, read(t, c.before).Changes(read(t, c.after)), c.want)
	}
}

// A change is told once; what cannot be read is nothing, and an error.
func TestWatch(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, Name)
	c, err := Load(home)
	if err != nil {
		t.Fatal(err)
	}
	watch := c.Watch()
	for _, step := range []struct {
		what          string
		do            func() error
		changed, good bool
	}{
		{"nothing", func() error { return nil }, false, true},
		{"written", func() error { return os.WriteFile(file, []byte("lease = '5m'\n"), 0o600) }, true, true},
		{"as it was", func() error { return os.Chmod(file, 0o644) }, false, true},
		{"a folder", func() error { os.Remove(file); return os.Mkdir(file, 0o700) }, true, false},
		{"still a folder", func() error { return nil }, false, false},
		{"gone", func() error { return os.Remove(file) }, false, true},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if changed, err := watch.Changed(); changed != step.changed || (err == nil) != step.good {
			t.Errorf("%s: changed %v, %v", step.what, changed, err)
		}
	}
}
