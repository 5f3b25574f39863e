package token

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mbox/mailbox/durable"
	"mbox/schemas"
)

func create(t testing.TB, mailbox, name string, role Role, agent string) string {
	t.Helper()
	secret, _, err := Create(mailbox, name, role, agent)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// A store that is open sees at once what was made and what was revoked.
func TestCountsAtOnce(t *testing.T) {
	home := t.TempDir()
	s := Open(home)
	if _, err := s.Find(prefix + strings.Repeat("A", 43)); !errors.Is(err, ErrUnknown) {
		t.Errorf("before there is any: %v", err)
	}
	phone, coder := create(t, home, "phone", Operator, ""), create(t, home, "laptop", Agent, "coder")
	for range 50 { // a folder's times tell nothing of what happens within their grain
		got, err := s.Find(phone)
		if err != nil || got.Name != "phone" || got.Role != Operator || got.Agent != "" || time.Since(got.Created) > time.Minute {
			t.Fatalf("the one of today: %+v, %v", got, err)
		}
		if err := Revoke(home, "phone"); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Find(phone); !errors.Is(err, ErrUnknown) {
			t.Fatalf("revoked: %+v, %v", got, err)
		}
		was := phone
		phone = create(t, home, "phone", Operator, "")
		if got, err := s.Find(was); !errors.Is(err, ErrUnknown) {
			t.Fatalf("the one before: %+v, %v", got, err)
		}
	}
	if got, err := s.Find(coder); err != nil || got.Role != Agent || got.Agent != "coder" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := Revoke(home, "phone"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"phone", "nobody", "../../salt", "", "A"} {
		if err := Revoke(home, name); !errors.Is(err, ErrUnknown) {
			t.Errorf("revoke %q: %v", name, err)
		}
	}
	if all, err := List(home); err != nil || len(all) != 1 || all[0].Name != "laptop" {
		t.Errorf("%+v, %v", all, err)
	}
}

// Whatever is nearly a secret is none, and costs no look at the disk where it has
// not its form.
func TestNearlyASecret(t *testing.T) {
	home := t.TempDir()
	s := Open(home)
	secret := create(t, home, "a", Operator, "")
	for _, no := range []string{
		"", prefix, secret[:len(secret)-1], secret + "A", " " + secret, secret + "\n", strings.ToUpper(secret), strings.TrimPrefix(secret, prefix),
		"mbox-" + secret[len(prefix):], prefix + strings.Repeat("\x00", 43), secret[:20] + "!" + secret[21:], fmt.Sprintf("%x", hash(secret)),
	} {
		if got, err := s.Find(no); !errors.Is(err, ErrUnknown) || got != (Token{}) {
			t.Errorf("%q: %+v, %v", no, got, err)
		}
	}
	for i := len(prefix); i < len(secret); i++ {
		other := byte('A')
		if secret[i] == other {
			other = 'B'
		}
		if _, err := s.Find(secret[:i] + string(other) + secret[i+1:]); !errors.Is(err, ErrUnknown) {
			t.Errorf("another character at %d: %v", i, err)
		}
	}
	if err := os.WriteFile(Folder(home)+"x", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Store{Folder(home) + "x"}).Find("short"); err != ErrUnknown { //nolint:errorlint // nothing else was looked at
		t.Errorf("the disk was asked: %v", err)
	}
}

// Secrets are long, differ, and lie nowhere.
func TestSecretIsNotKept(t *testing.T) {
	home := t.TempDir()
	a, b := create(t, home, "a", Reader, ""), create(t, home, "b", Reader, "")
	if a == b || len(a) != len(prefix)+43 {
		t.Errorf("%d characters, twice the same: %v", len(a), a == b)
	}
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == home {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[d.IsDir()]; info.Mode().Perm() != want {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		if d.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), a[len(prefix):]) || strings.Contains(string(data), prefix) {
			t.Errorf("%s holds the secret: %s", path, data)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCreateRefuses(t *testing.T) {
	home := t.TempDir()
	create(t, home, "taken", Reader, "")
	for _, c := range []struct {
		name  string
		role  Role
		agent string
	}{
		{"", Reader, ""},
		{"A", Reader, ""},
		{"../x", Reader, ""},
		{"human", Reader, ""},
		{strings.Repeat("a", 65), Reader, ""},
		{"x", "", ""},
		{"x", "root", ""},
		{"x", "Operator", ""},
		{"x", Reader, "coder"},
		{"x", Operator, "coder"},
		{"x", Agent, ""},
		{"x", Agent, "human"},
		{"x", Agent, "a/b"},
	} {
		var data *schemas.Error
		if secret, got, err := Create(home, c.name, c.role, c.agent); !errors.As(err, &data) || secret != "" || got != (Token{}) {
			t.Errorf("%+v: %q, %+v, %v", c, secret, got, err)
		}
	}
	if _, _, err := Create(home, "taken", Operator, ""); !errors.Is(err, ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	if all, err := List(home); err != nil || len(all) != 1 || all[0].Role != Reader {
		t.Errorf("%+v, %v", all, err)
	}
	for i := range most {
		if err := os.WriteFile(file(home, fmt.Sprint("n", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := Create(home, "x", Reader, ""); err == nil || errors.Is(err, ErrExists) {
		t.Errorf("beyond all bounds: %v", err)
	}
}

// Of many who make a token of one name only one does, and its secret counts.
func TestCreateOnce(t *testing.T) {
	home := t.TempDir()
	var made atomic.Pointer[string]
	var n atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			secret, _, err := Create(home, "a", Reader, "")
			switch {
			case err == nil:
				made.Store(&secret)
				n.Add(1)
			case !errors.Is(err, ErrExists):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n.Load() != 1 {
		t.Fatalf("%d were made", n.Load())
	}
	if _, err := Open(home).Find(*made.Load()); err != nil {
		t.Error(err)
	}
}

// What is no whole, private token lets nobody in and is named; whoever has another
// one comes in all the same.
func TestDamaged(t *testing.T) {
	write := func(data string, mode fs.FileMode) func(path string, was []byte) error {
		return func(path string, _ []byte) error {
			return errors.Join(os.WriteFile(path, []byte(data), 0o600), os.Chmod(path, mode))
		}
	}
	instead := func(old, new string) func(string, []byte) error {
		return func(path string, was []byte) error {
			changed := strings.Replace(string(was), old, new, 1)
			if changed == string(was) {
				return fmt.Errorf("%q is not in %s", old, was)
			}
			return os.WriteFile(path, []byte(changed), 0o600)
		}
	}
	for name, spoil := range map[string]func(path string, was []byte) error{
		"empty":           write("", 0o600),
		"zeros":           write(strings.Repeat("\x00", 300), 0o600),
		"huge":            write(strings.Repeat(" ", maxFile+1), 0o600),
		"no object":       write("[]", 0o600),
		"cut off":         func(path string, was []byte) error { return os.Truncate(path, int64(len(was)-3)) },
		"others read it":  func(path string, _ []byte) error { return os.Chmod(path, 0o640) },
		"others write it": func(path string, _ []byte) error { return os.Chmod(path, 0o602) },
		"another name":    instead(`"bad"`, `"good"`),
		"another role":    instead(`"agent",`, `"operator",`),
		"unknown role":    instead(`"agent",`, `"root",`),
		"no agent":        instead(`"agent": "coder",`, ``),
		"unknown field":   instead(`"agent": "coder",`, `"agent": "coder", "also": "tester",`),
		"twice":           instead(`"agent": "coder",`, `"agent": "coder", "agent": "tester",`),
		"short hash":      instead(`"sha256": "`, `"sha256": "", "x": "`),
		"no hash":         instead(`"sha256": "`, `"sha256": "zz`),
		"a symlink": func(path string, _ []byte) error {
			return errors.Join(os.Rename(path, filepath.Join(filepath.Dir(path), "..", "away")), os.Symlink("../away", path))
		},
		"a FIFO":   func(path string, _ []byte) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
		"a folder": func(path string, _ []byte) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"no token name": func(path string, _ []byte) error {
			return os.Rename(path, filepath.Join(filepath.Dir(path), "BAD.json"))
		},
		"no json": func(path string, _ []byte) error { return os.Rename(path, filepath.Join(filepath.Dir(path), "bad")) },
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			bad, good := create(t, home, "bad", Agent, "coder"), create(t, home, "good", Reader, "")
			was, err := os.ReadFile(file(home, "bad"))
			if err == nil {
				err = spoil(file(home, "bad"), was)
			}
			if err != nil {
				t.Fatal(err)
			}
			s := Open(home)
			got, err := s.Find(bad)
			if !errors.Is(err, ErrUnknown) || !errors.Is(err, ErrDamaged) || !strings.Contains(strings.ToLower(err.Error()), "/bad") || got != (Token{}) {
				t.Errorf("it counts: %+v, %v", got, err)
			}
			if got, err := s.Find(good); err != nil || got.Name != "good" {
				t.Errorf("it keeps another out: %+v, %v", got, err)
			}
			if all, err := List(home); len(all) != 1 || all[0].Name != "good" || !errors.Is(err, ErrDamaged) {
				t.Errorf("%+v, %v", all, err)
			}
		})
	}
}

// A folder that cannot be read is no unknown token: it is not the caller's fault.
func TestUnreadable(t *testing.T) {
	home := t.TempDir()
	secret := create(t, home, "a", Reader, "")
	if err := errors.Join(os.RemoveAll(Folder(home)), os.WriteFile(Folder(home), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(home).Find(secret); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
}

// More files than are looked at are no reason to read on.
func TestTooMany(t *testing.T) {
	home := t.TempDir()
	create(t, home, "a", Reader, "")
	for i := range maxNames + 100 {
		if err := os.WriteFile(file(home, fmt.Sprint("n", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := names(Folder(home)); err != nil || len(n) != maxNames+1 {
		t.Errorf("%d names, %v", len(n), err)
	}
	if _, err := List(home); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "more than 1024") {
		t.Errorf("%.200v", err)
	}
}

// What a crash has left staged counts for nothing and is in nobody's way, and the
// next token of that name removes it.
func TestStagedIsNone(t *testing.T) {
	home := t.TempDir()
	create(t, home, "ab", Reader, "")
	whole, err := os.ReadFile(file(home, "ab"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"a.X.new": string(whole), "a.Y.new": "", "ab.Z.new": "{"} {
		if err := os.WriteFile(filepath.Join(Folder(home), name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := List(home); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	create(t, home, "a", Reader, "")
	left, err := filepath.Glob(filepath.Join(Folder(home), "*"+staged))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "ab.Z.new" {
		t.Errorf("left: %q, %v", left, err)
	}
}

// Each step of making and revoking fails in turn, done and not done. A secret counts
// exactly if Create gave it, nothing is in the way of the next, and a token does not
// count once Revoke said so.
func TestFaults(t *testing.T) {
	no := errors.New("no")
	for _, applied := range []bool{false, true} {
		for at := 0; ; at++ {
			home, n := t.TempDir(), 0
			remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
				if n++; n == at+1 {
					return applied, no
				}
				return true, nil
			})
			secret, _, err := Create(home, "a", Reader, "")
			remove()
			all, damaged := List(home)
			if _, found := Open(home).Find(secret); (err == nil) != (found == nil) || damaged != nil {
				t.Errorf("step %d, done %v: %v, and then %v, %v, %v", at, applied, err, found, all, damaged)
			}
			if _, _, again := Create(home, "a", Reader, ""); (again == nil) != (len(all) == 0) || again != nil && !errors.Is(again, ErrExists) {
				t.Errorf("step %d, done %v: %v, and once more: %v", at, applied, err, again)
			}
			if n <= at {
				break
			}
		}
		for at := range 2 {
			home, n := t.TempDir(), 0
			secret := create(t, home, "a", Reader, "")
			remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
				if n++; n == at+1 {
					return applied, no
				}
				return true, nil
			})
			err := Revoke(home, "a")
			remove()
			if _, found := Open(home).Find(secret); !errors.Is(err, no) || (found == nil) != (at == 0 && !applied) {
				t.Errorf("revoke, step %d, done %v: %v, and then %v", at, applied, err, found)
			}
		}
	}
}

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{3, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			home, secret := b.TempDir(), ""
			for i := range n {
				secret = create(b, home, fmt.Sprint("n", i), Reader, "")
			}
			s := Open(home)
			for b.Loop() {
				if _, err := s.Find(secret); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
