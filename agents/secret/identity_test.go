package secret

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mbox/agents/secret/keyring"
	"mbox/agents/secret/keyring/keyringtest"
	"mbox/mailbox/durable"
)

// fakeRing is a keyring that can fail, at one call, before or after it has done it.
type fakeRing struct {
	entries map[string]string
	fails   func() (done bool, err error)
}

func (r *fakeRing) call(do func()) error {
	done, err := true, error(nil)
	if r.fails != nil {
		done, err = r.fails()
	}
	if done {
		do()
	}
	return err
}

func (r *fakeRing) Get(_ context.Context, account string) (text string, err error) {
	err = r.call(func() { text = r.entries[account] })
	if err == nil && text == "" {
		err = keyring.ErrUnknown
	}
	return text, err
}

func (r *fakeRing) Set(_ context.Context, account, text string) error {
	return r.call(func() { r.entries[account] = text })
}

func (r *fakeRing) Delete(_ context.Context, account string) error {
	return r.call(func() { delete(r.entries, account) })
}

func useRing(t *testing.T) *fakeRing {
	before, r := ring, &fakeRing{entries: map[string]string{}}
	ring = r
	t.Cleanup(func() { ring = before })
	return r
}

func agreed() error { return nil }

func move(t *testing.T, dir, to string) Moved {
	t.Helper()
	m, err := Move(t.Context(), dir, to, wait, agreed)
	if err != nil {
		t.Fatalf("to the %s: %v", to, err)
	}
	return m
}

// holds wants that the file has a key or has none.
func holds(t *testing.T, dir string, want bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, ".mbox", "keys", "identity*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil || strings.Contains(string(data), "AGE-SECRET-KEY") != want {
		t.Errorf("%s has a key: %v, %v", files[0], !want, err)
	}
	if info, err := os.Lstat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// An identity goes to a real keyring and back; secrets are opened and set from each.
func TestMove(t *testing.T) {
	keyringtest.Use(t)
	dir := folder(t)
	set(t, dir, "coder", "A", canary)
	for i, to := range []string{InKeyring, InKeyring, InFile, InFile, InKeyring} {
		if m := move(t, dir, to); m.Left != "" || m.Moved != (i != 1 && i != 3) {
			t.Errorf("%d: %+v", i, m)
		}
		holds(t, dir, to == InFile)
		if at, err := Where(t.Context(), dir); err != nil || at.In != to {
			t.Errorf("%d: %+v, %v", i, at, err)
		}
		set(t, dir, "coder", fmt.Sprintf("B%d", i), canary)
		if v := opened(t, dir, "coder"); len(v) != i+2 || v["A"] != canary {
			t.Errorf("%d: %d secrets", i, len(v))
		}
	}
}

// Whatever fails on the way, before or after it is done, the secrets can be opened, and
// said again the identity gets there and is nowhere else.
func TestMoveFails(t *testing.T) {
	for _, to := range []string{InKeyring, InFile} {
		for at := 0; ; at++ {
			r, dir, calls := useRing(t), folder(t), 0
			set(t, dir, "coder", "A", canary)
			if to == InFile {
				move(t, dir, InKeyring)
			}
			fault := func() (bool, error) {
				if calls++; calls == at/2+1 {
					return at%2 == 0, fmt.Errorf("fault: %w", fs.ErrPermission)
				}
				return true, nil
			}
			r.fails = fault
			remove := durable.SetFault(func(durable.Op, string) (bool, error) { return fault() })
			_, err := Move(t.Context(), dir, to, wait, func() error { _, err := fault(); return err })
			remove()
			r.fails = nil
			if v := opened(t, dir, "coder"); v["A"] != canary {
				t.Errorf("to the %s, call %d: %d secrets after %v", to, at, len(v), err)
			}
			move(t, dir, to)
			holds(t, dir, to == InFile)
			if v := opened(t, dir, "coder"); v["A"] != canary || len(r.entries) != map[string]int{InKeyring: 1}[to] {
				t.Errorf("to the %s, call %d: %d secrets, %d entries after it is said again", to, at, len(v), len(r.entries))
			}
			if calls <= at/2 {
				break
			}
		}
	}
}

// Where there is none it is made in the keyring, and never lies in the file.
func TestMoveMakes(t *testing.T) {
	r, dir := useRing(t), folder(t)
	if _, err := Where(t.Context(), dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if m := move(t, dir, InKeyring); !m.Moved {
		t.Error("it lies there already")
	}
	set(t, dir, "coder", "A", canary)
	holds(t, dir, false)
	r.entries = map[string]string{}
	if _, err := Set(t.Context(), dir, "coder", "B", canary, wait); !errors.Is(err, ErrIdentity) {
		t.Errorf("the entry is lost: %v", err)
	}
	if _, err := Move(t.Context(), dir, InFile, wait, agreed); !errors.Is(err, ErrIdentity) {
		t.Errorf("made anew while a secret wants it: %v", err)
	}
	if err := Remove(t.Context(), dir, "coder", "A", wait); err != nil {
		t.Fatal(err)
	}
	set(t, dir, "coder", "A", canary)
	holds(t, dir, false)
	if v := opened(t, dir, "coder"); v["A"] != canary {
		t.Error("the one that was made anew opens nothing")
	}
}

// What is not agreed to, is damaged or comes back as something else moves nothing.
func TestMoveRefused(t *testing.T) {
	for what, spoil := range map[string]func(dir string, r *fakeRing) error{
		"not agreed":    func(string, *fakeRing) error { return nil },
		"a damaged one": func(dir string, _ *fakeRing) error { return os.Truncate(Identity(dir), 9) },
		"another text": func(_ string, r *fakeRing) error {
			r.fails = func() (bool, error) {
				for account := range r.entries {
					r.entries[account] = "cut"
				}
				return true, nil
			}
			return nil
		},
	} {
		r, dir, asked := useRing(t), folder(t), false
		set(t, dir, "coder", "A", canary)
		before, err := os.ReadFile(Identity(dir))
		if err = errors.Join(err, spoil(dir, r)); err != nil {
			t.Fatal(err)
		}
		m, err := Move(t.Context(), dir, InKeyring, wait, func() error { asked = true; return fs.ErrPermission })
		if err == nil || asked != (what == "not agreed") {
			t.Errorf("%s: %+v, asked: %v", what, m, asked)
		}
		after, err := os.ReadFile(Identity(dir))
		if err != nil || !strings.HasPrefix(string(before), string(after)) {
			t.Errorf("%s: it was touched: %v", what, err)
		}
	}
}

// A copy of a home, or a home that is another folder now, takes no entry away that the
// other one may need.
func TestMoveOfCopies(t *testing.T) {
	r, dir, other := useRing(t), folder(t), folder(t)
	set(t, dir, "coder", "A", canary)
	move(t, dir, InKeyring)
	names := []string{Identity(dir), file(dir, "coder", "A")}
	if err := os.MkdirAll(Folder(other, "coder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, to := range []string{Identity(other), file(other, "coder", "A")} {
		data, err := os.ReadFile(names[i])
		if err = errors.Join(err, os.WriteFile(to, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{other, dir} {
		if v := opened(t, d, "coder"); v["A"] != canary {
			t.Error("it opens nothing")
		}
		m := move(t, d, InFile)
		if left := m.Left != ""; left != (d == other) || left != (len(r.entries) == 1) {
			t.Errorf("%+v, %d entries", m, len(r.entries))
		}
	}
}

// Who reads while it is brought back finds it.
func TestReadWhileMoved(t *testing.T) {
	r, dir := useRing(t), folder(t)
	set(t, dir, "coder", "A", canary)
	move(t, dir, InKeyring)
	r.fails = func() (bool, error) {
		r.fails = nil
		move(t, dir, InFile)
		return true, nil
	}
	if v := opened(t, dir, "coder"); v["A"] != canary {
		t.Error("it opens nothing")
	}
}

// What the file names is an account, and nothing that a program takes for something else.
func TestDamagedPointer(t *testing.T) {
	r, dir := useRing(t), folder(t)
	set(t, dir, "coder", "A", canary)
	move(t, dir, InKeyring)
	r.fails = func() (bool, error) { return true, errors.New("asked") }
	for _, text := range []string{"keyring:", "keyring:-D", "keyring:" + strings.Repeat("0", 33)} {
		if err := os.WriteFile(Identity(dir), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), dir, "coder"); !errors.Is(err, ErrIdentity) || !strings.Contains(err.Error(), "is damaged") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A keyring that cannot be used is told as such, once for all agents.
func TestNoKeyring(t *testing.T) {
	r, dir := useRing(t), folder(t)
	set(t, dir, "coder", "A", canary)
	set(t, dir, "tester", "A", canary)
	move(t, dir, InKeyring)
	asked := 0
	r.fails = func() (bool, error) { asked++; return false, fmt.Errorf("%w: locked", ErrKeyring) }
	all, err := List(t.Context(), dir, "")
	if len(all) != 2 || !errors.Is(err, ErrKeyring) || !errors.Is(err, ErrIdentity) || asked != 1 {
		t.Errorf("%d, %v, asked %d times", len(all), err, asked)
	}
	if text, err := Carry(t.Context(), dir, false); err != nil || !strings.HasPrefix(string(text), pointing) {
		t.Errorf("%q %v", text, err)
	}
	if text, err := Carry(t.Context(), dir, true); text != nil || !errors.Is(err, ErrKeyring) {
		t.Errorf("%q %v", text, err)
	}
	other := folder(t)
	set(t, other, "coder", "A", canary)
	if m := move(t, other, InFile); m.Moved {
		t.Error("it lies there already, without a keyring")
	}
}
