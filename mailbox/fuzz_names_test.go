package mailbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

const zeroTX = "00112233445566778899aabbccddeeff"

// FuzzID: an id that is taken is the name of one file in one folder, and all
// that is made of it can be taken apart again; one that is refused is refused in
// words that are fit for a terminal. The same for names of agents.
func FuzzID(f *testing.F) {
	for _, text := range []string{
		"task-2026-02-16-001", "a", "A.b_c-9", strings.Repeat("a", 128), strings.Repeat("a", 129), "", ".", "..", "-a", "a/b", "a\x00b",
		"a~b", "a.json", "x.tmp", "a\n", "ä", "bridge:x", "bridge:shared", "shared", "mbox", "any", "coder", "A", "\u202ea", "con:", "a.reason.json",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		bounded(t, "it", mostAllocated, func() { checkID(t, ID(text)); checkAgentName(t, text) })
	})
}

func checkID(t *testing.T, id ID) {
	t.Helper()
	if err := task.CheckID(id); err != nil {
		checkRefusal(t, err)
		return
	}
	file := id.File()
	if filepath.Base(file) != file || !filepath.IsLocal(file) || task.Ignored(file) || len(file) > 255 || ID(task.TrimJSON(file)) != id {
		t.Errorf("%q is the file %q", id, file)
	}
	if id.Fold() != ID(id.Fold()).Fold() || home.Shard(string(id)) != home.Shard(id.Fold()) || task.CheckID(ID(id.Fold())) != nil {
		t.Errorf("%q folds to %q", id, id.Fold())
	}
	if n := home.Shard(string(id)); n < 0 || n >= home.Shards {
		t.Errorf("%q has shard %d", id, n)
	}
	if name, tx, ok := home.CutLast(string(id)+"~"+zeroTX, "~"); !ok || name != string(id) || tx != zeroTX {
		t.Errorf("%q is staged as that of %q", id, name)
	}
	if back, ok := home.LeaseOf(home.LeaseName(id, zeroTX)); !ok || back != id {
		t.Errorf("the lease of %q is that of %q, %v", id, back, ok)
	}
	drop, err := task.ParseDrop(file, []byte(titled("")))
	if err != nil || drop.ID != id {
		t.Errorf("dropped as %q it is %v: %v", file, drop, err)
	}
}

func checkAgentName(t *testing.T, name string) {
	t.Helper()
	if err := task.CheckAgent(name); err != nil {
		checkRefusal(t, err)
		return
	}
	folder := audit.Folder(name)
	if filepath.Base(folder) != folder || folder == "shared" || strings.HasPrefix(folder, ".") || strings.Contains(folder, ":") {
		t.Errorf("the agent %q has the folder %q", name, folder)
	}
	if schemas.Sentence(name, 100) != name || task.CheckActor(name) != nil {
		t.Errorf("%q is an agent's name", name)
	}
}

// FuzzFileName: whatever a file in pending is called, it has a place among the
// shards, can be named in a line and in quarantine, and gives an id or none.
func FuzzFileName(f *testing.F) {
	for _, name := range []string{
		"a.json", "my task (2).json", "a\nb.json", "a\x1b[31m.json", "\u202enosj.a", strings.Repeat("l", 250) + ".json", strings.Repeat("é", 125) + ".json",
		"a\xff\xfe.json", ".json", "....json", "a~b~c.json", "x.reason.json", "~", "-rf", "dropped:YQ", `a"b'c\d.json`, "a.json.tmp", "\x00",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || len(name) > 255 {
			return // no file is called so
		}
		bounded(t, "it", mostAllocated, func() { checkFileName(t, name) })
	})
}

func checkFileName(t *testing.T, name string) {
	t.Helper()
	entry := home.EntryName(name, zeroTX)
	if filepath.Base(entry) != entry || strings.HasPrefix(entry, ".") || len(entry+home.ReasonSuffix) > 255 || schemas.Sentence(entry, 300) != entry {
		t.Errorf("%q goes to quarantine as %q", name, entry)
	}
	if _, tx, ok := home.CutLast(entry, "~"); !ok || tx != zeroTX {
		t.Errorf("the transaction of %q is %q", entry, tx)
	}
	m := &task.Move{Dropped: task.DroppedName(name)}
	if !utf8.ValidString(m.Dropped) || m.DropName() != name {
		t.Errorf("the drop %q is named %q in the line, and that is %q", name, m.Dropped, m.DropName())
	}
	if n := home.Shard(task.TrimJSON(name)); n < 0 || n >= home.Shards {
		t.Errorf("%q has shard %d", name, n)
	}
	parsed, err := task.ParseDrop(name, []byte(titled("")))
	switch {
	case err != nil:
		t.Errorf("a task may have any file name: %v", err)
	case parsed.ID != "" && (task.CheckID(parsed.ID) != nil || parsed.ID.File() != name):
		t.Errorf("%q gives the id %q", name, parsed.ID)
	}
	if _, err := task.ParseDrop(name, []byte(titled(`,"id":"other"`))); name != "other.json" {
		checkRefusal(t, err)
	}
	checkIntent(t, home.Intent{Kind: "drop", Name: name, TX: zeroTX, At: audit.Position{File: "2026-01-01.jsonl", Checksum: audit.Hash(nil)}, PID: 1})
}

// FuzzArtifactPath: whatever the files are called that an attempt leaves, each
// is handed over under a path in tasks/artifacts, or refused; none is read or
// written elsewhere.
func FuzzArtifactPath(f *testing.F) {
	for _, name := range []string{"a.txt", "dir/a.txt", "../up", "/etc/canary", "a/../../b", "..", ".", "a\nb", "a\x1b[2J", "\u202ex", "a\xff", strings.Repeat("n", 255), "a.part", ".part", "a-2.txt"} {
		f.Add(name, []byte("content"))
	}
	dir := filepath.Join(f.TempDir(), "home")
	must(f, Create(dir, Options{Sync: durable.None}))
	b, err := Open(f.Context(), dir, Options{Sync: durable.None})
	must(f, err)
	f.Cleanup(func() { b.Close() })
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		c := &Claim{Task: &Task{ID: "t1", Mbox: Meta{Epoch: 1}}, box: b, agent: "coder"}
		folder := attemptDir(t, b, c)
		defer os.RemoveAll(folder)
		source := filepath.Join(folder, filepath.Base(name))
		if os.WriteFile(source, content, 0o600) != nil {
			return // no file is called so
		}
		for _, path := range []string{source, source, folder} { // said again it is the same
			all, err := c.Keep(t.Context(), path)
			if err != nil {
				if text := schemas.Sentence(err.Error(), 4000); utf8.ValidString(name) && !strings.Contains(text, "not a regular") {
					t.Errorf("%q is refused: %s", name, text)
				}
				return
			}
			if len(all) != 1 {
				t.Fatalf("%q: %d artifacts", name, len(all))
			}
		}
		must(t, stageFiles(t.Context(), b.books, &shard{}, &change{left: c.left, from: InProgress}, zeroTX))
		checkArtifact(t, b, &c.left.Files[0].Artifact, string(content))
	})
}

func checkArtifact(t *testing.T, b *Box, a *Artifact, content string) {
	t.Helper()
	if !filepath.IsLocal(a.Path) || !strings.HasPrefix(a.Path, "tasks/artifacts/t1.1/") || !utf8.ValidString(a.Path) {
		t.Errorf("the path is %q", a.Path)
	}
	data, err := os.ReadFile(b.path(a.Path))
	if err != nil || string(data) != content || a.Size != int64(len(content)) || a.SHA256 != audit.Hash(data) {
		t.Errorf("%+v is %q: %v", a, data, err)
	}
	text, err := schemas.Encode(a)
	must(t, err)
	var again Artifact
	if err := schemas.Decode(text, &again); err != nil || again != *a {
		t.Errorf("%+v was read as %+v: %v", a, again, err)
	}
}
