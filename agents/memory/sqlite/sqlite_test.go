package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/agents/memory"
	"mbox/agents/memory/memorytest"
	"mbox/mailbox/durable"
)

func open(t testing.TB, path, agent string) *Store {
	t.Helper()
	s, err := Open(path, agent, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSQLite(t *testing.T) {
	memorytest.Suite(t, func(dir string) memorytest.Open {
		path := filepath.Join(dir, "a ?#%b", "memory.db")
		return func(t testing.TB, agent string) memory.Store { return open(t, path, agent) }
	})
}

func note(key, content string) memory.Entry {
	return memory.Entry{Category: memory.Core, Key: key, Content: content, At: time.UnixMilli(1771237800123).UTC(), By: "human"}
}

func add(t testing.TB, s *Store, key, content string) string {
	t.Helper()
	id, err := s.Add(t.Context(), note(key, content))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// has tells in which files of a folder a text stands.
func has(t *testing.T, dir, text string) (in []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(bytes.ToLower(data), []byte(text)) {
			in = append(in, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// What is forgotten is in no byte of the database, also while it is open, nor in a copy
// that a killed backup has left.
func TestForgottenIsInNoFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "memory.db"), "coder")
	add(t, s, "stays", "text")
	var ids []string
	for i := range 20 {
		ids = append(ids, add(t, s, fmt.Sprint("xyzzy", i), strings.Repeat("plugh ", 1000)+"xyzzy"))
	}
	if _, err := s.db.Exec("VACUUM INTO ?", snapshotOf(s.path)); err != nil {
		t.Fatal(err)
	}
	if len(has(t, dir, "xyzzy")) != 2 {
		t.Fatal("the text is not in the database and its copy")
	}
	if err := s.Forget(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
	if in := has(t, dir, "xyzzy"); len(in) > 0 {
		t.Errorf("it is still in %v", in)
	}
	if in := has(t, dir, "plugh"); len(in) > 0 {
		t.Errorf("the index still has it: %v", in)
	}
}

// A copy has what there is at that moment, is private, and goes away at its end.
func TestSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	if copied, end, err := Snapshot(t.Context(), path, time.Second); copied != "" || err != nil || end() != nil {
		t.Errorf("without a database: %q, %v", copied, err)
	}
	s := open(t, path, "coder")
	add(t, s, "key", "text")
	copied, end, err := Snapshot(t.Context(), path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := durable.Lstat(copied); err != nil || uint32(st.Mode)&0o777 != 0o600 {
		t.Errorf("mode %o, %v", st.Mode, err)
	}
	if _, _, err := Snapshot(t.Context(), path, time.Millisecond); !errors.Is(err, durable.ErrBusy) {
		t.Errorf("two at once: %v", err)
	}
	add(t, s, "later", "text")
	found, err := open(t, copied, "coder").Recall(t.Context(), "text", 5)
	if err != nil || len(found) != 1 || found[0].Key != "key" {
		t.Errorf("the copy has %v, %v", found, err)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(copied); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy stays: %v", err)
	}
}

// The database is private, and so is what SQLite makes beside it.
func TestPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "er")
	add(t, open(t, filepath.Join(dir, "memory.db"), "coder"), "key", "text")
	for path, want := range map[string]uint32{dir: 0o700, filepath.Join(dir, "memory.db"): 0o600} {
		if st, err := durable.Lstat(path); err != nil || uint32(st.Mode)&0o777 != want {
			t.Errorf("%s: mode %o, %v", path, st.Mode&0o777, err)
		}
	}
}

// What is no database, or a newer one, is told with its name and stays as it is. Reading
// makes nothing.
func TestStrangeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	s := open(t, path, "coder")
	if found, err := s.Recall(t.Context(), "x", 5); err != nil || len(found) > 0 {
		t.Errorf("without a database: %v, %v", found, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading has made it: %v", err)
	}
	junk := strings.Repeat("no database ", 1000)
	if err := os.WriteFile(path, []byte(junk), 0o600); err != nil {
		t.Fatal(err)
	}
	_, added := open(t, path, "coder").Add(t.Context(), note("key", "text"))
	_, recalled := open(t, path, "coder").Recall(t.Context(), "x", 5)
	for what, err := range map[string]error{"added": added, "recalled": recalled} {
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != junk {
		t.Errorf("it was changed: %v", err)
	}
	other := filepath.Join(t.TempDir(), "memory.db")
	s = open(t, other, "coder")
	add(t, s, "key", "text")
	if _, err := s.db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recall(t.Context(), "text", 5); err == nil || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("a newer one: %v", err)
	}
	link := filepath.Join(t.TempDir(), "memory.db")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, link, "coder").Recall(t.Context(), "text", 5); !errors.Is(err, durable.ErrNotRegular) {
		t.Errorf("a link: %v", err)
	}
}

// Rare words lead to entries, however many others have the common ones, and other agents'
// do not stand in the way.
func TestRarest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	s := open(t, path, "coder")
	add(t, s, "old", "the zebra crossing")
	filled(t, s, enough+500, func(i int) string { return fmt.Sprint("the common text ", i) })
	other := open(t, path, "tester")
	filled(t, other, enough+500, func(i int) string { return "the zebra of others" })
	found, err := s.Recall(t.Context(), "The ZEBR crossing", 3)
	if err != nil || len(found) == 0 || found[0].Key != "old" || found[0].Score != 1 {
		t.Errorf("recalled %v, %v", found, err)
	}
	match, err := s.rarest(t.Context(), tokens("the common crossing missing"))
	if err != nil || match != `"crossing"*` {
		t.Errorf("looked for %q, %v", match, err)
	}
}

// filled adds many entries in one transaction.
func filled(t testing.TB, s *Store, n int, text func(i int) string) {
	t.Helper()
	add(t, s, "first", "entry")
	_, err := s.db.Exec("BEGIN")
	for i := 0; i < n && err == nil; i++ {
		var id int64
		err = s.db.QueryRow(`INSERT INTO memories (agent_id, category, key, content, at, author, task)
			SELECT uuid, 'core', 'key', ?, ?, 'human', '' FROM agents WHERE alias = ? RETURNING id`, text(i), 1771237800123+i, s.alias).Scan(&id)
		if err == nil {
			_, err = s.db.Exec("INSERT INTO words (rowid, key, content) VALUES (?, 'key', ?)", id, text(i))
		}
	}
	if err == nil {
		_, err = s.db.Exec("COMMIT")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkRecall recalls from 100,000 entries of 20 words, of which some are in half of
// all entries and some in one of a thousand.
func BenchmarkRecall(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "memory.db"), "coder")
	filled(b, s, 100_000, func(i int) string {
		var words []string
		for w := range 20 {
			words = append(words, fmt.Sprintf("w%d", (i*31+w*w*17)%(2<<w%5000)))
		}
		return strings.Join(words, " ")
	})
	for _, query := range []string{"w1", "w1 w777 w4000", "w3 w5 w9 w100 w1000", ""} {
		b.Run(fmt.Sprintf("%q", query), func(b *testing.B) {
			for b.Loop() {
				if found, err := s.Recall(context.Background(), query, 5); err != nil || len(found) == 0 {
					b.Fatal(found, err)
				}
			}
		})
	}
}
