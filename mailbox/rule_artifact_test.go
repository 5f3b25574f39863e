package mailbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox/artifact"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/mailbox/verify"
	"mbox/schemas"
)

// attemptDir makes the folder for what an attempt leaves, as a worker does.
func attemptDir(t testing.TB, b *Box, c *Claim) string {
	t.Helper()
	dir := filepath.Join(b.AgentDir(c.agent), "workspace", "artifacts", task.ArtifactFolder(c.ID(), c.Task.Mbox.Epoch))
	must(t, os.MkdirAll(dir, 0o700))
	return dir
}

// leftBy makes the folder of an attempt with files in it.
func leftBy(t *testing.T, b *Box, c *Claim, files map[string]string) string {
	t.Helper()
	dir := attemptDir(t, b, c)
	for name, text := range files {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func claimOf(t *testing.T, b *Box, id ID) *Claim {
	t.Helper()
	task := request(string(id))
	task.ID = id
	_, err := b.Submit(t.Context(), task)
	must(t, err)
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	return c
}

func wantClean(t *testing.T, b *Box) {
	t.Helper()
	r, err := verify.Home(t.Context(), b.home, verify.Options{Deep: true})
	must(t, err)
	if len(r.Findings) > 0 {
		t.Errorf("faults %v", r.Findings)
	}
}

// Rule 36: an artifact is a new file. Who holds what the attempt left, by an open
// descriptor or another name, changes nothing of it.
func TestRule36_ArtifactIsACopy(t *testing.T) {
	b := newBox(t, Options{})
	c := claimOf(t, b, "x")
	dir := leftBy(t, b, c, map[string]string{"report.txt": "first"})
	must(t, os.Link(filepath.Join(dir, "report.txt"), b.path("agents/coder/workspace/mine.txt")))
	open, err := os.OpenFile(filepath.Join(dir, "report.txt"), os.O_RDWR, 0)
	must(t, err)
	defer open.Close()
	_, err = c.Keep(t.Context(), dir)
	must(t, err)
	must(t, c.Complete(t.Context(), Result{}))
	_, err = open.WriteAt([]byte("later"), 0)
	must(t, err)
	must(t, os.WriteFile(b.path("agents/coder/workspace/mine.txt"), []byte("other"), 0o600))
	data, err := os.ReadFile(b.path("tasks/artifacts/x.1/report.txt"))
	if err != nil || string(data) != "first" {
		t.Errorf("the artifact is %q: %v", data, err)
	}
	wantClean(t, b)
}

// Rule 36: nothing is handed over that lies elsewhere, whatever stands for the
// folder or in it, and nothing blocks.
func TestRule36_ArtifactsFollowNoLink(t *testing.T) {
	elsewhere := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(elsewhere, "x.1"), 0o700))
	must(t, os.WriteFile(filepath.Join(elsewhere, "x.1", "canary"), []byte("canary"), 0o600))
	for name, plant := range map[string]func(workspace string) error{
		"a file":           func(w string) error { return os.Symlink(filepath.Join(elsewhere, "x.1/canary"), w+"/artifacts/x.1/y") },
		"a folder in it":   func(w string) error { return os.Symlink(elsewhere, w+"/artifacts/x.1/y") },
		"the folder":       func(w string) error { return swap(w+"/artifacts/x.1", filepath.Join(elsewhere, "x.1")) },
		"the folder above": func(w string) error { return swap(w+"/artifacts", elsewhere) },
		"a FIFO":           func(w string) error { return syscall.Mkfifo(w+"/artifacts/x.1/y", 0o600) },
		"the folder, by FIFO": func(w string) error {
			return errors.Join(os.RemoveAll(w+"/artifacts"), syscall.Mkfifo(w+"/artifacts", 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, Options{})
			c := claimOf(t, b, "x")
			dir := leftBy(t, b, c, nil)
			must(t, plant(b.path("agents/coder/workspace")))
			if kept, err := c.Keep(t.Context(), dir); err == nil {
				t.Errorf("kept %+v", kept)
			}
		})
	}
}

func swap(path, target string) error {
	return errors.Join(os.RemoveAll(path), os.Symlink(target, path))
}

// What is too much is refused at once, unread: a sparse file of a terabyte, too
// many files, too deep a folder. Hashing ends with its context.
func TestArtifactLimits(t *testing.T) {
	b := newBox(t, Options{})
	c := claimOf(t, b, "x")
	dir := leftBy(t, b, c, map[string]string{"small.txt": "small"})
	refused := func(what, code string) {
		t.Helper()
		ctx, end := context.WithTimeout(t.Context(), time.Minute) // a terabyte takes longer to read
		defer end()
		_, err := c.Keep(ctx, dir)
		var bad *schemas.Error
		if !errors.As(err, &bad) || bad.Code != code || bad.Path != "result.artifacts" {
			t.Errorf("%s: %v", what, err)
		}
	}
	big := filepath.Join(dir, "z") // after small.txt
	must(t, os.WriteFile(big, nil, 0o600))
	must(t, os.Truncate(big, 1<<40))
	refused("a sparse file", "too_large")
	must(t, os.Truncate(big, artifact.MaxBytes))
	refused("one byte too many", "too_large")
	must(t, os.Remove(big))
	deep := dir
	for range artifact.MaxFiles {
		deep = filepath.Join(deep, "d")
		if os.Mkdir(deep, 0o700) != nil { // a path has its limit
			break
		}
	}
	for i := range artifact.MaxFiles {
		must(t, os.WriteFile(filepath.Join(dir, "n"+strings.Repeat("n", i%200)+string(rune('a'+i/200))), nil, 0o600))
	}
	refused("too many files", "too_many")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Keep(ctx, filepath.Join(dir, "small.txt")); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled one says %v", err)
	}
}

// Rule 7: the completion said again, with the same files, is fine and writes no
// line. Rule 36: what a completion that died left in the place is replaced.
func TestRule36_CompleteAgainWithArtifacts(t *testing.T) {
	b := newBox(t, Options{})
	c := claimOf(t, b, "x")
	from := leftBy(t, b, c, map[string]string{"a.txt": "a", "d/b.txt": "b"})
	must(t, os.MkdirAll(b.path("tasks/artifacts/x.1"), 0o700))
	must(t, os.WriteFile(b.path("tasks/artifacts/x.1/old.txt"), []byte("of before"), 0o600))
	var end int64
	for again := range 2 {
		c, err := b.Held(t.Context(), "x", c.Token())
		must(t, err)
		_, err = c.Keep(t.Context(), from)
		must(t, err)
		must(t, c.Complete(t.Context(), Result{Output: jsontext.Value(`"yes"`)}))
		if end != b.ledger.End().Seq && again > 0 {
			t.Error("the second time wrote a line")
		}
		end = b.ledger.End().Seq
	}
	task, _, err := b.Task(t.Context(), "x")
	must(t, err)
	var paths []string
	for _, a := range task.Result.Artifacts {
		paths = append(paths, a.Path)
	}
	if want := []string{"tasks/artifacts/x.1/a.txt", "tasks/artifacts/x.1/d/b.txt"}; !slices.Equal(paths, want) {
		t.Errorf("artifacts %q", paths)
	}
	wantClean(t, b)
}

// What is written to between Keep and Complete is refused, and leaves nothing.
func TestRule36_ArtifactChangedMeanwhile(t *testing.T) {
	for _, text := range []string{"other", "much longer"} {
		b := newBox(t, Options{})
		c := claimOf(t, b, "x")
		dir := leftBy(t, b, c, map[string]string{"a.txt": "first"})
		_, err := c.Keep(t.Context(), dir)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte(text), 0o600))
		var bad *schemas.Error
		if err := c.Complete(t.Context(), Result{}); !errors.As(err, &bad) || bad.Code != "changed" {
			t.Errorf("%v", err)
		}
		if _, state, err := b.Task(t.Context(), "x"); state != InProgress {
			t.Errorf("%s %v", state, err)
		}
		if names, err := home.StagedNames(b.home); err != nil || len(names) > 0 {
			t.Errorf("staged %q: %v", names, err)
		}
		wantClean(t, b)
	}
}

// What an agent may do to its files between Keep and Complete, and with their
// names, is an answer: it is never tried again and again.
func TestRule36_ArtifactsThatCannotBe(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, c *Claim, dir string){
		"removed":    func(t *testing.T, _ *Claim, dir string) { must(t, os.Remove(filepath.Join(dir, "sub/a"))) },
		"its folder": func(t *testing.T, _ *Claim, dir string) { must(t, os.RemoveAll(dir)) },
		"a file above": func(t *testing.T, _ *Claim, dir string) {
			must(t, os.RemoveAll(dir))
			must(t, os.WriteFile(dir, nil, 0o600))
		},
		"a symlink": func(t *testing.T, _ *Claim, dir string) {
			must(t, os.Rename(dir, dir+"-aside"))
			must(t, os.Symlink(dir+"-aside", dir))
		},
		"a folder": func(t *testing.T, _ *Claim, dir string) {
			must(t, os.Remove(filepath.Join(dir, "sub/a")))
			must(t, os.Mkdir(filepath.Join(dir, "sub/a"), 0o700))
		},
		"a FIFO": func(t *testing.T, _ *Claim, dir string) {
			must(t, os.Remove(filepath.Join(dir, "sub/a")))
			must(t, syscall.Mkfifo(filepath.Join(dir, "sub/a"), 0o600))
		},
	} {
		b := newBox(t, Options{})
		c := claimOf(t, b, "x")
		dir := leftBy(t, b, c, map[string]string{"sub/a": "first"})
		_, err := c.Keep(t.Context(), dir)
		must(t, err)
		harm(t, c, dir)
		var bad *schemas.Error
		if err := c.Complete(t.Context(), Result{}); !errors.As(err, &bad) || bad.Code != "changed" {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := newBox(t, Options{})
	c := claimOf(t, b, "x")
	_, err := c.Keep(t.Context(), leftBy(t, b, c, map[string]string{"output.txt/a": "a"}))
	must(t, err)
	long := jsontext.Value(`"` + strings.Repeat("x", MaxOutput) + `"`)
	must(t, c.Complete(t.Context(), Result{Output: long})) // the output finds another name
	wantClean(t, b)

	b = newBox(t, Options{})
	c = claimOf(t, b, "x")
	below := strings.Repeat(strings.Repeat("n", 200)+"/", 5) + "a"
	var bad *schemas.Error
	if _, err := c.Keep(t.Context(), leftBy(t, b, c, map[string]string{below: "a"})); !errors.As(err, &bad) || bad.Code != "too_long" {
		t.Errorf("a long name: %v", err)
	}
	file := filepath.Join(t.TempDir(), "sub")
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.RemoveAll(filepath.Join(b.AgentDir("coder"), "workspace/artifacts")))
	for _, path := range []string{file, leftBy(t, b, c, map[string]string{"sub/a": "a"})} {
		_, err := c.Keep(t.Context(), path)
		must(t, err)
	}
	if err := c.Complete(t.Context(), Result{}); !errors.As(err, &bad) || bad.Code != "taken" {
		t.Errorf("a file for a folder: %v", err)
	}
}

// A disk that takes longer than a lease makes no completion that is tried for
// ever, each time with the shard held.
func TestRule36_ArtifactOnASlowDisk(t *testing.T) {
	b := newBox(t, Options{Lease: 300 * time.Millisecond})
	c := claimOf(t, b, "x")
	_, err := c.Keep(t.Context(), leftBy(t, b, c, map[string]string{"a.txt": "a"}))
	must(t, err)
	defer durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpAppend && filepath.Base(path) == "a.txt" {
			time.Sleep(2 * b.o.Lease)
		}
		return true, nil
	})()
	var bad *schemas.Error
	if err := c.Complete(t.Context(), Result{}); !errors.As(err, &bad) || bad.Code != "too_slow" {
		t.Error(err)
	}
}

// A staged folder is swept by its own task's settle, not by that of a task whose
// id is called like it.
func TestRule36_StagedArtifactsOfAnother(t *testing.T) {
	b := newBox(t, Options{})
	for name, swept := range map[string]bool{"x.1~" + zeroTX: true, "x.1~" + strings.Repeat("1", 32): false} {
		must(t, os.MkdirAll(home.Private(b.home, "tmp", name, "d"), 0o700))
		must(t, b.sweepStaged(home.Intent{Kind: "task", Name: "x.1", TX: zeroTX}))
		if _, err := os.Lstat(home.Private(b.home, "tmp", name)); errors.Is(err, os.ErrNotExist) != swept {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Recover(t.Context(), b.home, Options{}, RecoverOptions{}); err != nil {
		t.Fatal(err)
	}
	if names, err := home.StagedNames(b.home); err != nil || len(names) > 0 {
		t.Errorf("recovery leaves %q: %v", names, err)
	}
}

// A stranger's file may name artifacts: those of its attempt that are there as it
// says are copied, others in mbox's folders are none, and elsewhere they are the
// stranger's.
func TestStrangersArtifacts(t *testing.T) {
	b := newBox(t, Options{})
	c := claimOf(t, b, "x")
	must(t, os.MkdirAll(b.path("tasks/artifacts/x.1"), 0o700))
	must(t, os.WriteFile(b.path("tasks/artifacts/x.1/a.txt"), []byte("a"), 0o644))
	sum := func(text string) string { return audit.Hash([]byte(text)) }
	c.Task.Result.Artifacts = []Artifact{
		{Path: "tasks/artifacts/x.1/a.txt", Size: 1, SHA256: sum("a")},
		{Path: "tasks/artifacts/x.1/gone.txt", Size: 1, SHA256: sum("a")},
		{Path: "tasks/artifacts/y.1/a.txt", Size: 1, SHA256: sum("a")},
		{Path: "workspace/mine.txt", Size: 1, SHA256: sum("a")},
	}
	data, err := schemas.Encode(c.Task)
	must(t, err)
	must(t, os.WriteFile(b.path("tasks/in-progress/x.json"), data, 0o600))
	must(t, os.Rename(b.path("tasks/in-progress/x.json"), b.path("tasks/completed/x.json")))
	mustScan(t, b)
	task, state, err := b.Task(t.Context(), "x")
	must(t, err)
	if want := []Artifact{c.Task.Result.Artifacts[0], c.Task.Result.Artifacts[3]}; state != Completed || !slices.Equal(task.Result.Artifacts, want) {
		t.Errorf("%s %+v", state, task.Result.Artifacts)
	}
	wantClean(t, b) // the copy has mbox's mode
}

// Artifacts go to the archive with their task, whose file names them there; a
// rename that a power cut took is made again.
func TestArchivedArtifacts(t *testing.T) {
	b := newBox(t, Options{})
	c := claimOf(t, b, "x")
	_, err := c.Keep(t.Context(), leftBy(t, b, c, map[string]string{"a.txt": "a"}))
	must(t, err)
	must(t, c.Complete(t.Context(), Result{}))
	_, err = b.Archive(t.Context(), 0, "human")
	must(t, err)
	task, state, err := b.Task(t.Context(), "x")
	must(t, err)
	at := task.Result.Artifacts[0].Path
	if data, err := os.ReadFile(b.path(at)); state != Archived || string(data) != "a" {
		t.Errorf("%s: %s is %q: %v", state, at, data, err)
	}
	wantClean(t, b)
	must(t, os.Rename(b.path(filepath.Dir(at)), b.path("tasks/artifacts/x.1")))
	_, err = Recover(t.Context(), b.home, Options{Sync: durable.None}, RecoverOptions{})
	must(t, err)
	wantClean(t, b)
}

// What an operator takes over as it is counts from then on.
func TestAdoptChangedArtifact(t *testing.T) {
	b := newBox(t, Options{})
	c := claimOf(t, b, "x")
	_, err := c.Keep(t.Context(), leftBy(t, b, c, map[string]string{"a.txt": "a", "b.txt": "b"}))
	must(t, err)
	must(t, c.Complete(t.Context(), Result{}))
	must(t, os.WriteFile(b.path("tasks/artifacts/x.1/a.txt"), []byte("changed"), 0o600))
	must(t, os.Remove(b.path("tasks/artifacts/x.1/b.txt")))
	_, err = Recover(t.Context(), b.home, Options{Sync: durable.None}, RecoverOptions{Adopt: []ID{"x"}})
	must(t, err)
	wantClean(t, b)
	if task, _, err := b.Task(t.Context(), "x"); err != nil || len(task.Result.Artifacts) != 1 || task.Result.Artifacts[0].Size != 7 {
		t.Errorf("%+v %v", task, err)
	}
}

// A task gets copies of what those that it depends on left, and of what was
// attached to it, and nothing of it is written outside the folder that is given.
func TestInputs(t *testing.T) {
	b := newBox(t, Options{})
	c := claimOf(t, b, "first")
	_, err := c.Keep(t.Context(), leftBy(t, b, c, map[string]string{"d/a.txt": "a"}))
	must(t, err)
	must(t, c.Complete(t.Context(), Result{}))
	next := request("second")
	next.ID, next.Mbox.DependsOn = "second", []ID{"first"}
	_, err = SubmitWith(t.Context(), b, next, []File{{Name: "attached.txt", Data: []byte("att")}})
	must(t, err)
	c, err = b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	_, err = c.Inputs(t.Context(), root, "in")
	must(t, err)
	for name, want := range map[string]string{"in/first/d/a.txt": "a", "in/second/attached.txt": "att"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != want {
			t.Errorf("%s is %q: %v", name, data, err)
		}
	}
	elsewhere := t.TempDir()
	must(t, os.Symlink(elsewhere, filepath.Join(dir, "out")))
	if _, err := c.Inputs(t.Context(), root, "out"); err == nil {
		t.Error("a symlink was followed")
	}
	must(t, os.WriteFile(b.path("tasks/artifacts/first.1/d/a.txt"), []byte("b"), 0o600))
	if _, err := c.Inputs(t.Context(), root, "in2"); err == nil {
		t.Error("a changed artifact was handed on")
	}
	wantFault(t, b, 15)
	must(t, os.WriteFile(b.path("tasks/artifacts/first.1/d/a.txt"), []byte("a"), 0o600)) // lint.py reads this home
}

// A child gets what a task of another tree left only if its parent depends on that
// task too; what a task of its own tree left it gets.
func TestInputsOfAnotherTree(t *testing.T) {
	b := newBox(t, Options{})
	leaves := func(c *Claim) ID {
		t.Helper()
		_, err := c.Keep(t.Context(), leftBy(t, b, c, map[string]string{"a.txt": "a"}))
		must(t, err)
		must(t, c.Complete(t.Context(), Result{}))
		return c.ID()
	}
	first := leaves(claimOf(t, b, "first"))
	for name, dependsOn := range map[string][]ID{"stranger": nil, "kin": {first}} {
		parent := request(name)
		parent.ID, parent.Assignment.TargetAgent, parent.Mbox.DependsOn = ID(name), "boss", dependsOn
		_, err := b.Submit(t.Context(), parent)
		must(t, err)
		after := child("coder", "after", 0)
		after.Task.Mbox.DependsOn = []ID{first}
		delegate(t, claimAs(t, b, "boss"), JoinAll, child("coder", "before"), after)
		before := leaves(claimAs(t, b, "coder"))
		c := claimAs(t, b, "coder")
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		must(t, err)
		defer root.Close()
		_, err = c.Inputs(t.Context(), root, "in")
		must(t, err)
		for id, want := range map[ID]bool{before: true, first: name == "kin"} {
			if _, err := os.Stat(filepath.Join(dir, "in", string(id), "a.txt")); (err == nil) != want {
				t.Errorf("the child of %s gets what %s left: %v", name, id, err)
			}
		}
		must(t, c.Complete(t.Context(), Result{}))
		must(t, claimAs(t, b, "boss").Complete(t.Context(), Result{}))
	}
}

func wantFault(t *testing.T, b *Box, invariant int) {
	t.Helper()
	r, err := verify.Home(t.Context(), b.home, verify.Options{Deep: true})
	if err != nil || len(r.Findings) == 0 || r.Findings[0].Invariant != invariant {
		t.Errorf("faults %v: %v", r.Findings, err)
	}
}
