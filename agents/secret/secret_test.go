package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mbox/mailbox/durable"
	"mbox/schemas"
)

const (
	canary = "canary-0f3a-value"
	wait   = 10 * time.Second
)

// folder is a home as far as secrets need one.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"locks", "keys"} {
		if err := os.MkdirAll(filepath.Join(dir, ".mbox", name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func set(t *testing.T, dir, agent, name, value string) {
	t.Helper()
	if _, err := Set(t.Context(), dir, agent, name, value, wait); err != nil {
		t.Fatal(err)
	}
}

func opened(t *testing.T, dir, agent string) Values {
	t.Helper()
	v, err := Open(t.Context(), dir, agent)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSecrets(t *testing.T) {
	dir := folder(t)
	if v, err := Open(t.Context(), dir, "coder"); v != nil || err != nil {
		t.Errorf("before there is any: %d, %v", len(v), err)
	}
	if made, err := Set(t.Context(), dir, "coder", "API_TOKEN", canary, wait); !made || err != nil {
		t.Error(made, err)
	}
	if made, err := Set(t.Context(), dir, "coder", "API_TOKEN", canary+"2", wait); made || err != nil {
		t.Error(made, err)
	}
	set(t, dir, "bridge:coder", "API_TOKEN", canary+"3")
	set(t, dir, "coder", "PEM", "line one\r\nline two\nx\n")
	if v := opened(t, dir, "coder"); len(v) != 2 || v["API_TOKEN"] != canary+"2" || v["PEM"] != "line one\r\nline two\nx\n" {
		t.Error(len(v))
	}
	if v := opened(t, dir, "bridge:coder"); len(v) != 1 || v["API_TOKEN"] != canary+"3" {
		t.Error(len(v))
	}
	if v := opened(t, dir, "tester"); len(v) != 0 {
		t.Error(len(v))
	}
	all, err := List(t.Context(), dir, "")
	if err != nil || len(all) != 3 || all[0].Agent != "bridge:coder" || all[2].Name != "PEM" || time.Since(all[1].Set) > time.Minute {
		t.Errorf("%+v %v", all, err)
	}
	if all, err := List(t.Context(), dir, "coder"); err != nil || len(all) != 2 {
		t.Errorf("%+v %v", all, err)
	}
	for _, who := range [][2]string{{"coder", "NONE"}, {"tester", "PEM"}, {"../keys", "PEM"}, {"coder", "../identity"}, {"", ""}} {
		if err := Remove(t.Context(), dir, who[0], who[1], wait); !errors.Is(err, ErrUnknown) {
			t.Error(who, err)
		}
	}
	if err := Remove(t.Context(), dir, "coder", "PEM", wait); err != nil {
		t.Error(err)
	}
	if v := opened(t, dir, "coder"); len(v) != 1 || v["PEM"] != "" {
		t.Error(len(v))
	}
}

// What lies on the disk is the user's alone, and tells no value.
func TestAtRest(t *testing.T) {
	dir := folder(t)
	set(t, dir, "coder", "API_TOKEN", canary)
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		info, statErr := d.Info()
		if err = errors.Join(err, statErr); err != nil || path == dir {
			return err
		}
		if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[d.IsDir()]; info.Mode().Perm() != want {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		if d.IsDir() {
			return nil
		}
		files++
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), canary) {
			t.Errorf("%s has the value", path)
		}
		return err
	})
	if err != nil || files != 3 { // identity, secret, lock
		t.Errorf("%d files, %v", files, err)
	}
	if _, err := exec.LookPath("age"); err == nil {
		out, err := exec.Command("age", "-d", "-i", Identity(dir), file(dir, "coder", "API_TOKEN")).Output()
		if string(out) != canary || err != nil {
			t.Errorf("age reads %q: %v", out, err)
		}
	}
}

// Each of what can be wrong names its file, shows no value, and keeps the agent from
// getting half of what it needs.
func TestBroken(t *testing.T) {
	cases := []struct {
		what  string
		spoil func(dir string) error
		want  error
		says  string
	}{
		{"no identity", func(dir string) error { return os.Remove(Identity(dir)) }, ErrIdentity, "there is no "},
		{"open to the group", func(dir string) error { return os.Chmod(Identity(dir), 0o640) }, ErrIdentity, "others can read it (mode 0640): chmod 600"},
		{"writable by others", func(dir string) error { return os.Chmod(Identity(dir), 0o602) }, ErrIdentity, "chmod 600"},
		{"a symlink", func(dir string) error {
			return errors.Join(os.Rename(Identity(dir), Identity(dir)+".moved"), os.Symlink(Identity(dir)+".moved", Identity(dir)))
		}, ErrIdentity, "not a regular file"},
		{"an identity cut short", func(dir string) error {
			data, err := os.ReadFile(Identity(dir))
			return errors.Join(err, os.WriteFile(Identity(dir), data[:len(data)-9], 0o600))
		}, ErrIdentity, "is damaged"},
		{"an empty identity", func(dir string) error { return os.Truncate(Identity(dir), 0) }, ErrIdentity, "is damaged"},
		{"another identity", func(dir string) error {
			if err := os.Remove(Identity(dir)); err != nil {
				return err
			}
			_, err := generate(t.Context(), dir, Place{})
			return err
		}, ErrDamaged, "API_TOKEN.age"},
		{"a secret cut short", func(dir string) error {
			return os.Truncate(file(dir, "coder", "API_TOKEN"), 100)
		}, ErrDamaged, "API_TOKEN.age"},
		{"a secret that is a symlink", func(dir string) error {
			path := file(dir, "coder", "API_TOKEN")
			return errors.Join(os.Remove(path), os.Symlink(file(dir, "coder", "OTHER"), path))
		}, ErrDamaged, "not a regular file"},
		{"a secret open to others", func(dir string) error {
			return os.Chmod(file(dir, "coder", "API_TOKEN"), 0o644)
		}, ErrDamaged, "chmod 600"},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			dir := folder(t)
			set(t, dir, "coder", "API_TOKEN", canary)
			set(t, dir, "coder", "OTHER", canary+"2")
			key, err := os.ReadFile(Identity(dir))
			if err := errors.Join(err, c.spoil(dir)); err != nil {
				t.Fatal(err)
			}
			v, err := Open(t.Context(), dir, "coder")
			if v != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), filepath.Join(".mbox", "keys")) {
				t.Errorf("%d values: %v", len(v), err)
			}
			all, listed := List(t.Context(), dir, "")
			if len(all) != 2 || !errors.Is(listed, c.want) {
				t.Errorf("%+v, %v", all, listed)
			}
			lines := strings.Split(strings.TrimSpace(string(key)), "\n")
			for _, err := range []error{err, listed} {
				if text := fmt.Sprint(err); strings.Contains(text, canary) || strings.Contains(text, lines[len(lines)-1][:20]) {
					t.Errorf("it tells the value or the key: %s", text)
				}
			}
			if err := Remove(t.Context(), dir, "coder", "API_TOKEN", wait); err != nil {
				t.Errorf("it cannot be removed: %v", err)
			}
		})
	}
}

// A lost identity is made anew only when nothing wants it any more.
func TestLostIdentity(t *testing.T) {
	dir := folder(t)
	set(t, dir, "coder", "API_TOKEN", canary)
	if err := os.Rename(Identity(dir), Identity(dir)+".kept"); err != nil {
		t.Fatal(err)
	}
	if _, err := Set(t.Context(), dir, "tester", "OTHER", canary, wait); !errors.Is(err, ErrIdentity) {
		t.Errorf("set beside it: %v", err)
	}
	if err := os.Rename(Identity(dir)+".kept", Identity(dir)); err != nil {
		t.Fatal(err)
	}
	if v := opened(t, dir, "coder"); v["API_TOKEN"] != canary {
		t.Error("it came back, and opens nothing")
	}
	if err := errors.Join(os.Remove(Identity(dir)), Remove(t.Context(), dir, "coder", "API_TOKEN", wait)); err != nil {
		t.Fatal(err)
	}
	set(t, dir, "coder", "API_TOKEN", canary)
	if v := opened(t, dir, "coder"); v["API_TOKEN"] != canary {
		t.Error("a new identity does not open what is encrypted for it")
	}
}

// An identity of the person's own is used, also a post-quantum one.
func TestOwnIdentity(t *testing.T) {
	dir := folder(t)
	set(t, dir, "coder", "OLD", canary)
	old, err := os.ReadFile(Identity(dir))
	if err != nil {
		t.Fatal(err)
	}
	other := folder(t)
	if _, err := generate(t.Context(), other, Place{}); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(Identity(other))
	if err = errors.Join(err, os.WriteFile(Identity(dir), append(first, old...), 0o600)); err != nil {
		t.Fatal(err)
	}
	set(t, dir, "coder", "NEW", canary)
	if v := opened(t, dir, "coder"); len(v) != 2 {
		t.Errorf("%d of two identities", len(v))
	}
	if err := errors.Join(Remove(t.Context(), dir, "coder", "OLD", wait), os.WriteFile(Identity(dir), first, 0o600)); err != nil {
		t.Fatal(err)
	}
	if v := opened(t, dir, "coder"); v["NEW"] != canary {
		t.Error("the first identity is not that for which is encrypted")
	}
}

// However many begin at once, there is one identity, and it opens all that they set.
func TestSetAtOnce(t *testing.T) {
	dir := folder(t)
	var begun sync.WaitGroup
	for i := range 16 {
		begun.Go(func() {
			if _, err := Set(t.Context(), dir, "coder", fmt.Sprintf("K%d", i%8), canary, wait); err != nil {
				t.Error(err)
			}
		})
	}
	begun.Wait()
	if v := opened(t, dir, "coder"); len(v) != 8 {
		t.Errorf("%d secrets", len(v))
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".mbox", "keys", "*"+staged)); left != nil {
		t.Error(left)
	}
}

// Nobody else changes secrets at any step of one who does.
func TestSetAlone(t *testing.T) {
	dir, steps := folder(t), 0
	lock := filepath.Join(dir, ".mbox", "locks", "secrets")
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if path == lock {
			return true, nil
		}
		steps++
		if other, err := durable.AcquireLock(t.Context(), lock, 0); err == nil {
			t.Errorf("%v %s: another one may begin", op, path)
			return true, other.Unlock()
		} else if !errors.Is(err, durable.ErrBusy) {
			t.Error(err)
		}
		return true, nil
	})
	_, err := Set(t.Context(), dir, "coder", "API_TOKEN", canary, wait)
	remove()
	if err != nil || steps < 4 {
		t.Errorf("%d steps: %v", steps, err)
	}
}

// Wherever the disk fails, the secret before stands or the new one does, and saying it
// again sets it.
func TestSetFails(t *testing.T) {
	for _, first := range []bool{true, false} {
		for at := 0; ; at++ {
			dir := folder(t)
			if !first {
				set(t, dir, "coder", "API_TOKEN", canary)
			}
			calls := 0
			remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
				if calls++; calls == at+1 {
					return at%2 == 0, fmt.Errorf("%v %s: %w", op, path, fs.ErrPermission)
				}
				return true, nil
			})
			_, err := Set(t.Context(), dir, "coder", "API_TOKEN", canary+"2", wait)
			remove()
			v, opens := Open(t.Context(), dir, "coder")
			switch got := v["API_TOKEN"]; {
			case opens != nil:
				t.Errorf("call %d: %v", at, opens)
			case err == nil && got != canary+"2":
				t.Errorf("call %d: it is not set", at)
			case first && got != "" && got != canary+"2", !first && got != canary && got != canary+"2":
				t.Errorf("call %d: it is neither", at)
			}
			set(t, dir, "coder", "API_TOKEN", canary+"3")
			if opened(t, dir, "coder")["API_TOKEN"] != canary+"3" {
				t.Errorf("call %d: said again it is not set", at)
			}
			if calls <= at {
				break
			}
		}
	}
}

// An agent has its secrets under its new name, whole, wherever the way there was cut off.
func TestRename(t *testing.T) {
	for at := 0; ; at++ {
		dir := folder(t)
		set(t, dir, "coder", "A", canary)
		set(t, dir, "coder", "B", canary+"2")
		set(t, dir, "tester", "A", canary+"3")
		calls := 0
		remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
			if calls++; calls == at+1 {
				return at%2 == 0, fmt.Errorf("%v %s: %w", op, path, fs.ErrPermission)
			}
			return true, nil
		})
		_ = Rename(t.Context(), dir, "coder", "writer", wait)
		remove()
		for range 2 {
			if err := Rename(t.Context(), dir, "coder", "writer", wait); err != nil {
				t.Fatal(err)
			}
		}
		if v := opened(t, dir, "writer"); len(v) != 2 || v["A"] != canary || v["B"] != canary+"2" {
			t.Errorf("call %d: it has %d", at, len(v))
		}
		if v, other := opened(t, dir, "coder"), opened(t, dir, "tester"); len(v) != 0 || other["A"] != canary+"3" {
			t.Errorf("call %d: the old name has %d, another agent %d", at, len(v), len(other))
		}
		if calls <= at {
			break
		}
	}
	if err := Rename(t.Context(), folder(t), "coder", "../../x", wait); err == nil {
		t.Error("a name that is none")
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"API_TOKEN", "_X", "K2", "LDAP_PASSWORD", "MBOXKEY", "HOMEPAGE_TOKEN"} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{
		"", "api_token", "2K", "A-B", "A B", "A=B", "A\n", "A\x00", "../A", "Ä", strings.Repeat("A", 129), "\x1b[2J",
		"MBOX_TOKEN", "MBOX_", "PATH", "HOME", "LD_PRELOAD", "LC_ALL", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "IFS", "ENV", "TMPDIR",
	} {
		var bad *schemas.Error
		if _, err := Set(t.Context(), folder(t), "coder", name, canary, wait); !errors.As(err, &bad) || strings.ContainsRune(bad.Error(), '\x1b') {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestBounds(t *testing.T) {
	dir := folder(t)
	for _, value := range []string{"", "Zk9#q", strings.Repeat("x", Most+1), "with\x00nul-in-it", "no\xffutf-eight"} {
		if _, err := Set(t.Context(), dir, "coder", "K", value, wait); err == nil || value != "" && strings.Contains(err.Error(), value) {
			t.Errorf("%.20q: %v", value, err)
		}
	}
	if _, err := os.Stat(Identity(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("what is refused makes an identity")
	}
	for i := range Many {
		set(t, dir, "coder", fmt.Sprintf("K%d", i), strings.Repeat("x", Most))
	}
	if _, err := Set(t.Context(), dir, "coder", "MORE", canary, wait); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	set(t, dir, "coder", "K0", canary)
	// An environment takes them all.
	cmd := exec.Command("/bin/sh", "-c", `printf %s "$K0"`)
	cmd.Env = opened(t, dir, "coder").Environment()
	if out, err := cmd.Output(); string(out) != canary || err != nil {
		t.Errorf("%q %v", out, err)
	}
}

// Values are shown by nothing that prints them by accident.
func TestValuesHide(t *testing.T) {
	v := Values{"K": canary}
	data, err := json.Marshal(map[string]any{"v": v})
	for _, text := range []string{fmt.Sprint(v), fmt.Sprintf("%v %+v %#v %s %q %x", v, v, v, v, v, v), fmt.Sprintf("%v", struct{ V Values }{v}), strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(data))} {
		if strings.Contains(text, canary) || strings.Contains(text, fmt.Sprintf("%x", canary)) || !strings.Contains(text, redacted) {
			t.Errorf("%s %v", text, err)
		}
	}
	words := strings.Join(Values{"PEM": "line one\r\nx\nline two\n"}.Words(), "|")
	if words != "line one\r\nx\nline two\n|line one|line two" {
		t.Errorf("%q", words)
	}
	if words := (Values{"A": "abcdef", "B": "abcdefgh", "C": "abcdefg"}).Words(); len(words) != 3 || words[0] != "abcdefgh" || words[2] != "abcdef" {
		t.Errorf("%q", words)
	}
}
