package mailbox

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// A power cut takes from the files that were not flushed whatever it likes: the
// ledger's end, contents, renames. What the journal has comes back, in its
// place, without a line and without anything in quarantine.
func TestRule10_PowerCut(t *testing.T) {
	if !durable.CanSyncFS {
		t.Skip("syncfs is missing: there is no journal on this system")
	}
	seed := seedOf(t)
	for n := range uint64(amount(15, 60, 600)) {
		cutPower(t, seed+n)
	}
}

func cutPower(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	home := filepath.Join(t.TempDir(), "home")
	must(t, Create(home, Options{}))
	b, err := Open(t.Context(), home, Options{})
	must(t, err)
	busyHour(t, b, r)
	want := liveFiles(t, home)
	ledger := onlyLedger(t, home)
	before, err := os.ReadFile(ledger)
	must(t, err)
	records, err := b.ledger.Replay(t.Context(), true)
	must(t, err)
	must(t, b.Close())
	if len(records) < 10 {
		t.Fatalf("the journal has %d records", len(records))
	}

	tearLedger(t, r, ledger, before, records[0].At.Offset)
	lives := formerLives(records)
	for id := range want {
		tearTask(t, r, b, ID(task.TrimJSON(filepath.Base(id))), records, lives)
	}
	anotherBoot(t, home)
	b, err = Open(t.Context(), home, Options{})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	must(t, scanNow(b))
	must(t, b.Close())

	after, err := os.ReadFile(ledger)
	must(t, err)
	if !bytes.HasPrefix(after, before) {
		t.Errorf("seed %d: the ledger lost lines: %d bytes, %d before", seed, len(after), len(before))
	}
	for line := range bytes.Lines(after[min(len(before), len(after)):]) {
		if !bytes.Contains(line, []byte(`"event":"task_retried"`)) { // who worked on it is gone
			t.Errorf("seed %d: a new line: %s", seed, line)
		}
	}
	got := liveFiles(t, home)
	for name, text := range want {
		id, running := strings.CutPrefix(name, "tasks/in-progress/")
		if running && got["tasks/pending/"+id] != "" {
			name, text = "tasks/pending/"+id, got["tasks/pending/"+id]
		}
		if got[name] != text {
			t.Errorf("seed %d: %s: it has %d bytes, it had %d", seed, name, len(got[name]), len(text))
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("seed %d: %s has come", seed, name)
	}
	whole(t, home)
}

// anotherBoot makes the boot record that of an earlier start of the machine.
func anotherBoot(t *testing.T, dir string) {
	t.Helper()
	var was home.Boot
	data, err := os.ReadFile(home.Private(dir, "boot"))
	must(t, err)
	must(t, schemas.Decode(data, &was))
	was.Boot = "another"
	data, err = schemas.Encode(was)
	must(t, err)
	must(t, os.WriteFile(home.Private(dir, "boot"), data, 0o600))
}

// busyHour leaves tasks in all states, with all that was done in the journal.
func busyHour(t *testing.T, b *Box, r *rand.Rand) {
	t.Helper()
	b.drop(t, "dropped.json", `{"task":{"title":"dropped"}}`)
	must(t, scanNow(b))
	for range 12 {
		_, err := b.Submit(t.Context(), request("work"))
		must(t, err)
	}
	for range 9 {
		c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
		must(t, err)
		switch r.IntN(10) {
		case 0:
			must(t, c.Progress(t.Context(), Progress{Message: "half"}))
		case 1, 6, 7:
			must(t, c.Complete(t.Context(), Result{Output: jsontext.Value(`"` + strings.Repeat("o", r.IntN(150_000)) + `"`)}))
		case 2:
			must(t, c.Fail(t.Context(), Failure{TaskError: TaskError{Code: "broken"}, Final: r.IntN(2) == 0}))
		case 3:
			must(t, c.Release(t.Context(), "later", 0))
		case 4:
			must(t, b.Cancel(t.Context(), c.ID(), "human", "no"))
			must(t, b.Retry(t.Context(), c.ID(), "human", "yes"))
		case 5:
			must(t, c.Complete(t.Context(), Result{}))
			_, err := b.Archive(t.Context(), 0, "human")
			must(t, err)
		}
	}
}

// liveFiles are the files under tasks/, by name.
func liveFiles(t *testing.T, home string) map[string]string {
	t.Helper()
	files := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(home, "tasks", "*", "*"))
	must(t, err)
	archived, err := filepath.Glob(filepath.Join(home, "tasks", "archive", "*", "*"))
	must(t, err)
	paths = append(paths, archived...)
	for _, p := range paths {
		if info, err := os.Lstat(p); err != nil || info.IsDir() {
			continue
		}
		data, err := os.ReadFile(p)
		must(t, err)
		files[strings.TrimPrefix(p, home+"/")] = string(data)
	}
	return files
}

func onlyLedger(t *testing.T, home string) string {
	t.Helper()
	days, err := filepath.Glob(filepath.Join(home, "audit", "shared", "*.jsonl"))
	must(t, err)
	if len(days) != 1 {
		t.Skip("midnight passed while the test ran")
	}
	return days[0]
}

// tearLedger cuts the file, or leaves NULs in it, behind where the journal
// begins.
func tearLedger(t *testing.T, r *rand.Rand, path string, data []byte, from int64) {
	t.Helper()
	data = bytes.Clone(data)
	cut := from + r.Int64N(int64(len(data))-from+1)
	switch r.IntN(3) {
	case 0:
		data = data[:cut]
	case 1:
		clear(data[cut:])
	case 2:
		clear(data[cut:min(int64(len(data)), cut+r.Int64N(4096))])
	}
	must(t, os.WriteFile(path, data, 0o600))
}

// tearTask puts the files of a task to where one of its versions in the journal
// had them, and tears them.
func tearTask(t *testing.T, r *rand.Rand, b *Box, id ID, records []audit.Journaled, lives [][]byte) {
	t.Helper()
	var contents [][]byte
	var moves []*task.Move
	large := false
	for _, rec := range records {
		e, err := rec.Entry()
		must(t, err)
		m, ok := task.MoveOf(&e)
		if !ok || ID(e.Task()) != id {
			continue
		}
		data := rec.Payload.Data
		if rec.Payload.Name == "" { // a large one was flushed by itself
			data, err = os.ReadFile(filepath.Join(home.Folder(b.home, m.Enters(), e.Time()), id.File()))
			if errors.Is(err, fs.ErrNotExist) {
				continue // it has moved on
			}
			must(t, err)
			must(t, os.WriteFile(home.StagedPath(b.home, string(id), m.TX), data, 0o600))
		}
		contents, moves, large = append(contents, data), append(moves, m), rec.Payload.Name == ""
	}
	if len(moves) == 0 {
		return
	}
	lives = slices.DeleteFunc(slices.Clone(lives), func(life []byte) bool { // an inode goes to other shards
		return slices.ContainsFunc(contents, func(c []byte) bool { return bytes.Equal(c, life) })
	})
	for _, s := range task.Folders {
		must(t, durable.RemoveIfThere(b.path("tasks", string(s), id.File())))
	}
	months, err := home.Months(b.home)
	must(t, err)
	for _, month := range months {
		must(t, durable.RemoveIfThere(b.path("tasks", "archive", month, id.File())))
	}
	if large { // its content stays, staged
		moves, contents = moves[:len(moves)-1], contents[:len(contents)-1]
	}
	k := r.IntN(len(moves) + 1)
	if k < len(moves) { // this version's rename was the last to reach the disk
		must(t, os.WriteFile(filepath.Join(home.Folder(b.home, moves[k].Enters(), time.Now()), id.File()), torn(r, contents[k], lives), 0o600))
	}
	for i := range moves {
		if i > k && r.IntN(2) == 0 {
			must(t, os.WriteFile(home.StagedPath(b.home, string(id), moves[i].TX), torn(r, contents[i], lives), 0o600))
		}
	}
}

// formerLives are what may stand in an inode that was used again, before it was
// or since: versions of any task.
func formerLives(records []audit.Journaled) (lives [][]byte) {
	for _, rec := range records {
		if rec.Payload.Name != "" {
			lives = append(lives, rec.Payload.Data)
		}
	}
	return lives
}

func torn(r *rand.Rand, content []byte, lives [][]byte) []byte {
	data := bytes.Clone(content)
	switch r.IntN(5) {
	case 0:
		return nil
	case 1:
		return data[:r.IntN(len(data))]
	case 2:
		clear(data[r.IntN(len(data)):])
	case 3:
		return lives[r.IntN(len(lives))]
	}
	return data
}
