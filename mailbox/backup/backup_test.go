package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }

// path is one in the home.
func (s Source) path(parts ...string) string {
	return filepath.Join(append([]string{s.Home}, parts...)...)
}

// newSource is a small mailbox: two tasks, and a ledger of one line.
func newSource(t *testing.T) (Source, *audit.Ledger) {
	t.Helper()
	dir, id := filepath.Join(t.TempDir(), "home"), home.RandomHex(16)
	must(t, home.MakeFolders(dir, "", durable.None))
	_, err := home.MakeLocks(dir, home.BlankSlot, durable.None)
	must(t, errors.Join(err, home.MakeSalt(dir, durable.None)))
	boot, err := home.CurrentBoot(dir)
	must(t, errors.Join(err, home.MakeVersion(dir, id, boot, durable.None)))
	ledger, err := audit.Open(dir, id, audit.Options{Mode: durable.None, Wait: time.Second})
	must(t, err)
	t.Cleanup(func() { ledger.Close() })
	_, err = ledger.Append(t.Context(), audit.Entry{Agent: "human", Event: audit.AgentState, Action: "one", Details: audit.Details(audit.ThisWriter())})
	must(t, err)
	for _, name := range []string{"x", "y"} {
		must(t, put(filepath.Join(dir, "tasks", "pending", name+".json"), "what was asked"))
	}
	return Source{Home: dir, ID: id, Now: time.Now, Progress: func(string, int64, int64) {}, Still: ledger.Frozen}, ledger
}

// backedUp is a backup of a small mailbox, whose ledger ends with that checksum.
func backedUp(t *testing.T) (packed []byte, checksum string) {
	t.Helper()
	from, _ := newSource(t)
	var w bytes.Buffer
	r, err := Write(t.Context(), &w, from)
	must(t, err)
	return w.Bytes(), r.Checksum
}

func plain(t *testing.T, packed []byte) []byte {
	t.Helper()
	z, err := zstd.NewReader(nil)
	must(t, err)
	defer z.Close()
	data, err := z.DecodeAll(packed, nil)
	must(t, err)
	return data
}

func compressed(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	must(t, err)
	defer z.Close()
	return z.EncodeAll(data, nil)
}

// restoredFrom restores into a folder that is not there yet, and tells whether
// a failure leaves it so.
func restoredFrom(t *testing.T, packed []byte) (dir string, err error) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "no", "folder")
	_, err = Restore(t.Context(), bytes.NewReader(packed), dir, durable.None)
	if _, there := os.Lstat(filepath.Dir(dir)); err != nil && !errors.Is(there, fs.ErrNotExist) {
		t.Errorf("after %v something is left", err)
	}
	return dir, err
}

// A flipped bit, a cut, and anything behind the end are seen, by a check as by a
// restore, which then leaves nothing behind. (A bit that says nothing may flip.)
func TestRule23_DamagedBackup(t *testing.T) {
	packed, _ := backedUp(t)
	want := plain(t, packed)
	if _, err := Check(t.Context(), bytes.NewReader(packed)); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < 8*len(packed); at += 1 + at/64 {
		spoilt := bytes.Clone(packed)
		spoilt[at/8] ^= 1 << (at % 8)
		if _, err := Check(t.Context(), bytes.NewReader(spoilt)); err == nil && !bytes.Equal(plain(t, spoilt), want) {
			t.Errorf("bit %d of %d is flipped", at, 8*len(packed))
		}
	}
	end := len(packed)
	for what, spoilt := range map[string][]byte{
		"a flipped bit":   append(append(bytes.Clone(packed[:end-2]), packed[end-2]^4), packed[end-1]),
		"a missing byte":  packed[:end-1],
		"half of it":      packed[:end/2],
		"nothing":         {},
		"garbage behind":  append(bytes.Clone(packed), "garbage"...),
		"a second one":    append(bytes.Clone(packed), packed...),
		"zeros behind":    append(bytes.Clone(packed), make([]byte, 512)...),
		"a frame behind":  append(bytes.Clone(packed), compressed(t, []byte("x"))...),
		"no manifest":     compressed(t, append(bytes.Clone(want[:bytes.LastIndex(want, []byte(manifestName))]), make([]byte, 1024)...)),
		"an open end":     compressed(t, want[:len(want)-1024]),
		"an entry behind": compressed(t, append(bytes.Clone(want[:len(want)-1024]), want...)),
		"a wide window":   {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 1, 0, 0},
		"only a manifest": compressed(t, tarOf(t, manifestName, `{"manifest":1}`)),
	} {
		if _, err := Check(t.Context(), bytes.NewReader(spoilt)); err == nil && what != "an open end" {
			t.Errorf("check of %s: no error", what)
		}
		if _, err := restoredFrom(t, spoilt); err == nil && what != "an open end" {
			t.Errorf("restore of %s: no error", what)
		}
	}
}

func tarOf(t *testing.T, pairs ...string) []byte {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for p := range slices.Chunk(pairs, 2) {
		must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: p[0], Size: int64(len(p[1])), Mode: 0o600}))
		_, err := io.WriteString(w, p[1])
		must(t, err)
	}
	must(t, w.Close())
	return data.Bytes()
}

// holes is an archive of a file that is one hole.
func holes(t *testing.T, size int) []byte {
	t.Helper()
	var data bytes.Buffer
	w, where := tar.NewWriter(&data), fmt.Sprintf("%-512s", fmt.Sprintf("1\n%d\n0\n", size))
	must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "x", Size: int64(len(where)), Mode: 0o600, PAXRecords: map[string]string{
		"LOW.sparse.major": "1", "LOW.sparse.minor": "0", "LOW.sparse.name": "x", "LOW.sparse.realsize": fmt.Sprint(size),
	}}))
	_, err := io.WriteString(w, where)
	must(t, errors.Join(err, w.Close()))
	return bytes.ReplaceAll(data.Bytes(), []byte("LOW.sparse"), []byte("GNU.sparse")) // which the writer does not write
}

// An archive that is a whole one, but not what was backed up.
func TestRule23_ForgedBackup(t *testing.T) {
	packed, sum := backedUp(t)
	want := plain(t, packed)
	forged := func(old, new string) []byte {
		if !bytes.Contains(want, []byte(old)) || len(old) != len(new) {
			t.Fatalf("%q for %q", new, old)
		}
		return compressed(t, bytes.ReplaceAll(want, []byte(old), []byte(new)))
	}
	const line = `{"path":"%s","size":1,"sha256":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}`
	listed := `{"manifest":1,"seq":1,"checksum":"sha256:0"}` + "\n" + fmt.Sprintf(line, ".mbox/VERSION") + "\n" + fmt.Sprintf(line, "audit/shared/2026-01-01.jsonl")
	version := fmt.Sprintf(`{"format": %d, "mailbox_id": %q}`, home.Format, home.RandomHex(16))
	of := func(data string) string {
		return fmt.Sprintf(`{"path":".mbox/VERSION","size":%d,"sha256":"%x"}`, len(data), sha256.Sum256([]byte(data)))
	}
	for what, c := range map[string]struct {
		packed []byte
		says   string
	}{
		"a task":        {forged("what was asked", "what was askew"), "x.json is not what was backed up"},
		"the checksum":  {forged(`,"checksum":"`+sum, `,"checksum":"`+strings.Repeat("0", len(sum))), "not what was backed up"},
		"another place": {compressed(t, tarOf(t, "../../x", "out")), "no path of a backup"},
		"a boot record": {compressed(t, tarOf(t, ".mbox/boot", "{}")), "no path of a backup"},
		"a lock":        {compressed(t, tarOf(t, ".mbox/locks/chain", "{}")), "no path of a backup"},
		"no mailbox":    {compressed(t, tarOf(t, "x", "", manifestName, `{"manifest":1}`)), "of no mailbox"},
		"holes":         {compressed(t, holes(t, 1<<20)), "it is sparse"},
		"a later one":   {compressed(t, tarOf(t, manifestName, `{"manifest":2}`)), "this mbox knows 1"},
		"another end":   {compressed(t, tarOf(t, ".mbox/VERSION", "x", "audit/shared/2026-01-01.jsonl", "x", manifestName, listed)), "does not end with sha256:0"},
		"itself":        {compressed(t, tarOf(t, ".", "x")), "no path of a backup"},
		"a long name":   {compressed(t, tarOf(t, "tasks/"+strings.Repeat("x", 300), "x")), "no path of a backup"},
		"in a file":     {compressed(t, tarOf(t, ".mbox/VERSION", version, "x/y", "x", "x", "x", manifestName, `{"manifest":1}`+"\n"+of(version)+"\n"+fmt.Sprintf(line, "x")+"\n"+fmt.Sprintf(line, "x/y"))), "x is no folder"},
		"another kind":  {compressed(t, tarOf(t, "x/y", "x", manifestName, `{"manifest":1}`+"\n"+fmt.Sprintf(line, "x"))), "x is missing"},
		"what is no id": {compressed(t, tarOf(t, ".mbox/VERSION", "x", manifestName, `{"manifest":1}`+"\n"+fmt.Sprintf(line, ".mbox/VERSION"))), "of no mailbox: "},
		"a skipped end": {compressed(t, tarOf(t, manifestName, `{"manifest":1}`+"\n"+`{"path":"audit/shared/2026-01-01.jsonl","size":1,"skipped":"no"}`)), "of no mailbox"},
		"no folder":     {compressed(t, tarOf(t, ".mbox/VERSION", version, "tasks", "x", manifestName, `{"manifest":1}`+"\n"+of(version)+"\n"+fmt.Sprintf(line, "tasks"))), "tasks is no folder"},
	} {
		_, err := restoredFrom(t, c.packed)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
		_, checked := Check(t.Context(), bytes.NewReader(c.packed))
		if checked == nil || !strings.Contains(checked.Error(), c.says) {
			t.Errorf("%s: the check says %v", what, checked)
		}
	}
}

// doing calls do at the first write.
type doing struct {
	bytes.Buffer
	do func()
}

func (d *doing) Write(p []byte) (int, error) {
	if d.do != nil {
		d.do()
		d.do = nil
	}
	return d.Buffer.Write(p)
}

// What changes, moves, goes away or becomes something else while the backup is
// made is in it as it was in the end; by tar alone at least the newest bytes win.
func TestRule23_BackupOfWhatMoves(t *testing.T) {
	b, _ := newSource(t)
	must(t, os.MkdirAll(b.path("agents", "coder", "was-folder"), 0o700))
	for _, name := range []string{"was-folder/a", "was-file", "goes", "grows"} {
		must(t, put(b.path("agents", "coder", name), "old"))
	}
	must(t, put(b.path("zz"), filler())) // so that something is written in the first round, last
	w := &doing{do: func() {
		must(t, os.Rename(b.path("tasks", "pending", "x.json"), b.path("tasks", "failed", "x.json")))
		dir := b.path("agents", "coder")
		must(t, os.RemoveAll(filepath.Join(dir, "was-folder")))
		must(t, put(filepath.Join(dir, "was-folder"), "now a file"))
		must(t, os.Remove(filepath.Join(dir, "was-file")))
		must(t, os.Mkdir(filepath.Join(dir, "was-file"), 0o700))
		must(t, put(filepath.Join(dir, "was-file", "a"), "new"))
		must(t, os.Remove(filepath.Join(dir, "goes")))
		must(t, put(filepath.Join(dir, "grows"), "old and new"))
	}}
	r, err := Write(t.Context(), w, b)
	must(t, err)
	if w.do != nil || r.Rounds < 2 {
		t.Fatalf("%+v", r)
	}
	checked, err := Check(t.Context(), bytes.NewReader(w.Bytes()))
	if err != nil || checked.Files != r.Files || checked.Bytes != r.Bytes || checked.Checksum != r.Checksum {
		t.Fatalf("%+v %+v %v", checked, r, err)
	}
	dir, err := restoredFrom(t, w.Bytes())
	must(t, err)
	for name, want := range map[string]string{"was-folder": "now a file", "was-file/a": "new", "goes": "", "grows": "old and new"} {
		data, err := os.ReadFile(filepath.Join(dir, "agents", "coder", name))
		if string(data) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q %v", name, data, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "tasks", "pending", "x.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("x is in pending still: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "tasks", "failed", "x.json")); string(data) != "what was asked" {
		t.Errorf("x is not in failed: %v", err)
	}
	if got := entries(t, w.Bytes())["agents/coder/grows"]; got != "old and new" {
		t.Errorf("by tar alone: %q", got)
	}
}

// Folders as deep as an agent can make them end no backup, nor take long: where the path is
// too long for the system, it is named.
func TestBackupOfDeepFolders(t *testing.T) {
	b, _ := newSource(t)
	must(t, os.MkdirAll(b.path("agents", "coder"), 0o700))
	root, err := os.OpenRoot(b.path("agents", "coder"))
	must(t, err)
	for range 2500 {
		must(t, root.Mkdir("d", 0o700))
		below, err := root.OpenRoot("d")
		must(t, err)
		root.Close()
		root = below
	}
	root.Close()
	must(t, put(b.path("agents", "coder", "d", "d", "file"), "deep"))
	var w bytes.Buffer
	r, err := Write(t.Context(), &w, b)
	must(t, err)
	if len(r.Skipped) != 1 || !strings.HasSuffix(r.Skipped[0].Path, "/d/d/") {
		t.Errorf("%d paths are skipped", len(r.Skipped))
	}
	if got := entries(t, w.Bytes())["agents/coder/d/d/file"]; got != "deep" {
		t.Errorf("%q", got)
	}
}

// An agent that puts a link in the place of its own folder, while that is read, gets
// nothing into the backup that it cannot read itself: no bytes, and no names.
func TestBackupFollowsNoLink(t *testing.T) {
	b, _ := newSource(t)
	outside, work := filepath.Join(t.TempDir(), "outside"), b.path("agents", "coder", "work")
	for _, dir := range []string{work, outside} {
		must(t, os.MkdirAll(filepath.Join(dir, "folder"), 0o700))
	}
	must(t, put(filepath.Join(work, "first"), filler()))
	must(t, put(filepath.Join(work, "secret"), "its own"))
	must(t, put(filepath.Join(outside, "secret"), "canary"))
	must(t, put(filepath.Join(outside, "folder", "canary"), "canary"))
	w := &doing{do: func() {
		must(t, os.Rename(work, b.path("agents", "coder", "aside")))
		must(t, os.Symlink(outside, work))
	}}
	_, err := Write(t.Context(), w, b)
	must(t, err)
	if w.do != nil {
		t.Fatal("it was not at work yet")
	}
	if bytes.Contains(plain(t, w.Bytes()), []byte("canary")) {
		t.Error("the canary is in the backup")
	}
	dir, err := restoredFrom(t, w.Bytes())
	must(t, err)
	if data, err := os.ReadFile(filepath.Join(dir, "agents", "coder", "aside", "secret")); string(data) != "its own" {
		t.Errorf("%q %v", data, err)
	}
}

func entries(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(plain(t, packed))); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must(t, err)
		data, err := io.ReadAll(r)
		must(t, err)
		files[h.Name] = string(data)
	}
}

// filler is a megabyte that no compression makes much smaller.
func filler() string {
	data := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(data)
	return string(data)
}

// However slowly an archive is taken, nobody waits for a lock meanwhile.
func TestRule23_SlowBackupHoldsNobodyUp(t *testing.T) {
	b, ledger := newSource(t)
	var held atomic.Bool // the archive is written by goroutines of its own
	b.Still = func(ctx context.Context, do func(end audit.Position) error) error {
		held.Store(true)
		defer held.Store(false)
		return ledger.Frozen(ctx, do)
	}
	w := &always{do: func() {
		if held.Load() {
			t.Error("it is written with all locks held")
		}
	}}
	data := filler()
	b.Progress = func(string, int64, int64) { // with each file: it changes after it was written
		data += "x"
		must(t, put(b.path("memory", "context", "filler"), data))
	}
	_, err := Write(t.Context(), w, b)
	must(t, err)
	if w.times.Load() < 2 {
		t.Error("nothing was written")
	}
}

type always struct {
	do    func()
	times atomic.Int64
}

func (a *always) Write(p []byte) (int, error) {
	a.times.Add(1)
	a.do()
	return len(p), nil
}

// What is no file is named and left out; so is what is nearly all hole, and a
// name that no manifest can hold.
func TestBackupLeavesOut(t *testing.T) {
	b, _ := newSource(t)
	dir := b.path("agents", "coder")
	must(t, os.MkdirAll(dir, 0o700))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "link")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must(t, put(filepath.Join(dir, "latin-\xe9"), "x"))
	sparse := filepath.Join(dir, "sparse")
	must(t, put(sparse, "begin"))
	must(t, os.Truncate(sparse, 1<<42))
	must(t, put(filepath.Join(dir, "small"), "x"))
	must(t, os.Truncate(filepath.Join(dir, "small"), 1<<20))
	must(t, os.MkdirAll(b.path("tasks", "artifacts", "x.1"), 0o700))
	must(t, put(b.path("tasks", "artifacts", "x.1", "a"), "made"))
	archive, err := os.Create(b.path("itself.tar.zst"))
	must(t, err)
	defer archive.Close()
	r, err := Write(t.Context(), archive, b)
	must(t, err)
	must(t, os.RemoveAll(b.path("tasks", "artifacts", "x.1"))) // no task has made it
	var got []string
	for _, s := range r.Skipped {
		got = append(got, fmt.Sprintf("%s: %s %v", s.Path, s.Why, s.Unread))
	}
	want := []string{
		"agents/coder/latin-\ufffd: its name is not UTF-8 false",
		"agents/coder/link: it is a symlink false",
		"agents/coder/pipe: it is a FIFO false",
		"agents/coder/sparse: not a regular file: nearly all of it is a hole false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	packed, err := os.ReadFile(archive.Name())
	must(t, err)
	restored, err := restoredFrom(t, packed)
	must(t, err)
	small, err := os.ReadFile(filepath.Join(restored, "agents", "coder", "small"))
	if err != nil || len(small) != 1<<20 || small[0] != 'x' {
		t.Errorf("%d bytes, %v", len(small), err)
	}
	if data, err := os.ReadFile(filepath.Join(restored, "tasks", "artifacts", "x.1", "a")); string(data) != "made" {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(restored, "itself.tar.zst")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the archive is in itself")
	}
}

// Restoring into a folder that is there keeps that folder, which may be a mount
// point, and where it is a symlink, what that leads to.
func TestRestoreInto(t *testing.T) {
	packed, _ := backedUp(t)
	restore := func(dir string) error {
		_, err := Restore(t.Context(), bytes.NewReader(packed), dir, durable.None)
		return err
	}
	folder := func(names ...string) (string, fs.FileInfo) {
		dir := t.TempDir()
		for _, n := range names {
			must(t, os.Mkdir(filepath.Join(dir, n), 0o700))
		}
		info, err := os.Stat(dir)
		must(t, err)
		return dir, info
	}
	holds := func(dir string, was fs.FileInfo) {
		t.Helper()
		if now, err := os.Stat(dir); err != nil || was != nil && !os.SameFile(was, now) || now.Mode().Perm() != 0o700 {
			t.Errorf("%s: another folder, or open to others: %v", dir, err)
		}
		if _, err := home.Present(dir); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "tasks", "pending", "x.json")); string(data) != "what was asked" {
			t.Errorf("%s: %q %v", dir, data, err)
		}
		if names, err := durable.Names(dir); err != nil || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, ".mbox-") }) {
			t.Errorf("%q %v", names, err)
		}
	}
	mount, was := folder("lost+found")
	must(t, restore(mount))
	holds(mount, was)

	here, was := folder()
	t.Chdir(here)
	must(t, restore("."))
	holds(here, was)

	real, was := folder()
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(real, link))
	must(t, restore(link))
	holds(real, was)
	must(t, restore(filepath.Join(link, "agents", "new", "home")))
	holds(filepath.Join(real, "agents", "new", "home"), nil)

	must(t, os.Symlink("nowhere", filepath.Join(here, "dangling")))
	for dir, says := range map[string]string{
		"dangling":     "leads nowhere",
		"dangling/new": "leads nowhere",
		"mbox.toml":    "not a directory",
		real:           "is in it",
	} {
		must(t, put("mbox.toml", ""))
		if err := restore(dir); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// What a restore that was killed has left is no reason not to say it again, and is removed;
// whatever else lies there is not.
func TestRestoreAfterAKilledOne(t *testing.T) {
	packed, _ := backedUp(t)
	left := t.TempDir() // as a kill leaves it
	from := t.TempDir()
	_, err := Restore(t.Context(), io.MultiReader(bytes.NewReader(packed), &atEnd{func() { must(t, os.CopyFS(left, os.DirFS(from))) }}), from, durable.None)
	must(t, err)
	names, err := durable.Names(left)
	must(t, err)
	if len(names) != 1 {
		t.Fatalf("%q", names)
	}
	restore := func(change func(dir, temp string)) (dir, temp string, err error) {
		dir = t.TempDir()
		must(t, os.CopyFS(dir, os.DirFS(left)))
		temp = filepath.Join(dir, names[0])
		change(dir, temp)
		_, err = Restore(t.Context(), bytes.NewReader(packed), dir, durable.None)
		return dir, temp, err
	}
	for name, change := range map[string]func(dir, temp string){
		"left":                 func(string, string) {},
		"left before its mark": func(_, temp string) { must(t, os.RemoveAll(temp)); must(t, os.Mkdir(temp, 0o700)) },
	} {
		dir, temp, err := restore(change)
		if _, at := os.Lstat(temp); err != nil || !errors.Is(at, fs.ErrNotExist) {
			t.Errorf("%s: %v, and of it there is: %v", name, err, at)
		}
		if _, err := home.Present(dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(dir, temp string){
		"beside a file":  func(dir, _ string) { must(t, put(filepath.Join(dir, "mine"), "")) },
		"with a file":    func(_, temp string) { must(t, put(filepath.Join(temp, "mine"), "")) },
		"without a mark": func(_, temp string) { must(t, os.Remove(filepath.Join(temp, markName))) },
		"another name":   func(_, temp string) { must(t, os.Rename(temp, temp+"x")) },
		"that lives": func(_, temp string) {
			lock, err := durable.TryLock(filepath.Join(temp, markName))
			must(t, err)
			t.Cleanup(func() { lock.Unlock() })
		},
	} {
		dir, _, err := restore(change)
		if !errors.Is(err, home.ErrExists) {
			t.Errorf("%s: %v", name, err)
		}
		if there, err := filepath.Glob(filepath.Join(dir, tempName+"*")); err != nil || len(there) != 1 {
			t.Errorf("%s: it has removed it: %q", name, there)
		}
	}
}

// atEnd does something when everything before it was read.
type atEnd struct{ do func() }

func (a *atEnd) Read([]byte) (int, error) {
	a.do()
	return 0, io.EOF
}
