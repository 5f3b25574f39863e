package mailbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/mailbox/verify"
	"mbox/schemas"
)

func attached(t *testing.T, b *Box, id ID, key string, files ...File) ID {
	t.Helper()
	n := request("with files")
	n.ID, n.Mbox.IdempotencyKey = id, key
	id, err := SubmitWith(t.Context(), b, n, files)
	must(t, err)
	return id
}

// What comes with a task lies beside it before anybody can claim it, and both the task
// and its line name it.
func TestAttachments(t *testing.T) {
	b := newBox(t, Options{})
	from := t.TempDir()
	must(t, os.WriteFile(filepath.Join(from, "report.pdf"), []byte("report"), 0o600))
	id := attached(t, b, "", "", File{Path: filepath.Join(from, "report.pdf")}, File{Name: "../../etc/report.pdf", Data: []byte("other")},
		File{Name: "REPORT.pdf", Data: []byte("third")}, File{Name: "empty"})
	must(t, os.WriteFile(filepath.Join(from, "report.pdf"), []byte("changed"), 0o600))
	n, _, err := b.Task(t.Context(), id)
	must(t, err)
	want := map[string]string{"report.pdf": "report", "report-2.pdf": "other", "report-3.pdf": "third", "empty": ""}
	if len(n.Mbox.Attachments) != len(want) {
		t.Fatalf("attachments %+v", n.Mbox.Attachments)
	}
	for _, a := range n.Mbox.Attachments {
		data, err := os.ReadFile(b.path(task.ArtifactsDir, string(id)+".0", a.Name))
		if err != nil || string(data) != want[a.Name] || a.Size != int64(len(data)) || a.SHA256 != audit.Hash(data) {
			t.Errorf("%+v is %q: %v", a, data, err)
		}
	}
	e := lineOf(t, b, audit.TaskCreated)
	if m, ok := task.MoveOf(e); !ok || !slices.Equal(m.Attachments, n.Mbox.Attachments) {
		t.Errorf("the line names %s", e.Details)
	}
	wantClean(t, b)
}

// The same message again is the first task, and nothing is staged for it.
func TestAttachedOnce(t *testing.T) {
	b := newBox(t, Options{})
	file := File{Name: "a.txt", Data: []byte("a")}
	byKey, byID := attached(t, b, "", "key", file), attached(t, b, "named", "", file)
	if again := attached(t, b, "", "key", File{Name: "b.txt", Data: []byte("b")}); again != byKey {
		t.Errorf("by its key %s is %s", byKey, again)
	}
	if again := attached(t, b, "named", "", file); again != byID {
		t.Errorf("by its id %s is %s", byID, again)
	}
	other := request("with files")
	other.ID = "named"
	if _, err := SubmitWith(t.Context(), b, other, []File{{Name: "a.txt", Data: []byte("other")}}); !errors.Is(err, ErrConflict) {
		t.Errorf("other bytes under the same id: %v", err)
	}
	folders, err := durable.Names(b.path(task.ArtifactsDir))
	must(t, err)
	staged, err := home.StagedNames(b.home)
	must(t, err)
	if len(folders) != 2 || len(staged) != 0 {
		t.Errorf("folders %q, staged %q", folders, staged)
	}
}

func TestAttachmentsThatAreRefused(t *testing.T) {
	b := newBox(t, Options{})
	dir := t.TempDir()
	must(t, os.Symlink("/canary", filepath.Join(dir, "link")))
	many := make([]File, task.MaxAttachments+1)
	for i := range many {
		many[i] = File{Name: "f", Data: []byte{byte(i)}}
	}
	for name, files := range map[string][]File{"a symlink": {{Path: filepath.Join(dir, "link")}}, "too many": many} {
		var bad *schemas.Error
		if _, err := SubmitWith(t.Context(), b, request("x"), files); !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
	forged := request("x")
	forged.Mbox.Attachments = []task.Attachment{{Name: "a", SHA256: audit.Hash(nil)}}
	var bad *schemas.Error
	if _, err := b.Submit(t.Context(), forged); !errors.As(err, &bad) || bad.Path != "mbox.attachments" {
		t.Errorf("said by the sender: %v", err)
	}
}

// Verify notices what was changed, is gone or was added, while the task is live and
// in the archive.
func TestVerifySeesAttachments(t *testing.T) {
	for _, archived := range []bool{false, true} {
		b := newBox(t, Options{})
		attached(t, b, "x", "", File{Name: "a.txt", Data: []byte("a")})
		attached(t, b, "plain", "")
		dir := b.path(task.ArtifactsDir, "x.0")
		if archived {
			must(t, b.Cancel(t.Context(), "x", "human", "no"))
			_, err := b.Archive(t.Context(), 0, "human")
			must(t, err)
			months, err := filepath.Glob(b.path("tasks/archive/*/x.0"))
			must(t, err)
			dir = strings.Join(months, "")
		}
		wantClean(t, b)
		file := filepath.Join(dir, "a.txt")
		for _, damage := range []struct{ do, undo func() error }{
			{func() error { return os.WriteFile(file, []byte("b"), 0o600) }, func() error { return os.WriteFile(file, []byte("a"), 0o600) }},
			{func() error { return os.Rename(file, b.home+".away") }, func() error { return os.Rename(b.home+".away", file) }},
			{func() error { return os.WriteFile(file+".more", nil, 0o600) }, func() error { return os.Remove(file + ".more") }},
			{func() error { return os.Mkdir(b.path(task.ArtifactsDir, "plain.0"), 0o700) }, func() error { return os.Remove(b.path(task.ArtifactsDir, "plain.0")) }},
		} {
			must(t, damage.do())
			wantFault(t, b, 15)
			must(t, damage.undo())
		}
		wantClean(t, b)
	}
}

// A quick verify looks at them too, where no attempt has left anything.
func TestVerifySkimsNoAttachment(t *testing.T) {
	b := newBox(t, Options{})
	attached(t, b, "x", "", File{Name: "a.txt", Data: []byte("a")})
	file := b.path(task.ArtifactsDir, "x.0", "a.txt")
	must(t, os.WriteFile(file, []byte("b"), 0o600))
	r, err := verify.Home(t.Context(), b.home, verify.Options{})
	if err != nil || len(r.Findings) != 1 || r.Findings[0].Invariant != 15 {
		t.Errorf("faults %v: %v", r.Findings, err)
	}
	must(t, os.WriteFile(file, []byte("a"), 0o600))
}

// A crash at any step of sending leaves a task with all its files, or nothing.
func TestAttachmentsOrNothing(t *testing.T) {
	for k := int64(1); ; k += int64(stride()) {
		b := newBox(t, Options{Sync: durable.Strict})
		var n atomic.Int64
		remove := durable.SetFault(func(durable.Op, string) (bool, error) {
			if n.Add(1) < k {
				return true, nil
			}
			return false, errInjected
		})
		said := submitWith(t.Context(), b, nil)
		remove()
		if said == nil {
			return
		}
		b.Close()
		b, err := Open(t.Context(), b.home, b.Options())
		must(t, err)
		t.Cleanup(func() { b.Close() })
		must(t, scanNow(b))
		_, state, err := b.Task(t.Context(), "t1")
		switch {
		case errors.Is(err, ErrNotFound):
			folders, err := durable.Names(b.path(task.ArtifactsDir))
			must(t, err)
			staged, err := home.StagedNames(b.home)
			must(t, err)
			if len(folders)+len(staged) > 0 {
				t.Errorf("write %d: %q and %q are left", k, folders, staged)
			}
		case err != nil || state != Pending || !hasAttached(Pending, inArtifacts)(t, b, nil):
			t.Errorf("write %d: %s %v", k, state, err)
		}
		attached(t, b, "later", "")
		wantClean(t, b)
	}
}

// After a power cut that took the renames but not the line, recovery puts the files
// into their place; those of no line go.
func TestRecoverPlacesAttachments(t *testing.T) {
	b := newBox(t, Options{})
	must(t, submitWith(t.Context(), b, nil))
	n, _, err := b.Task(t.Context(), "t1")
	must(t, err)
	must(t, os.Rename(b.path(task.ArtifactsDir, "t1.0"), home.StagedPath(b.home, "t1.0", n.Mbox.TX)))
	must(t, os.Mkdir(home.StagedPath(b.home, "t2.0", strings.Repeat("0", 32)), 0o700))
	b.Close()
	_, err = Recover(context.Background(), b.home, Options{Sync: durable.None}, RecoverOptions{})
	must(t, err)
	b = reopened(t, b)
	if !hasAttached(Pending, inArtifacts)(t, b, nil) {
		t.Error("the files are not there")
	}
	wantClean(t, b)
}

// Whoever works with mv alone keeps what came with the task, and the checks that its
// result has to pass, also where he has written into the file.
func TestAttachmentsOfWorkByHand(t *testing.T) {
	b := newBox(t, Options{})
	n := request("by hand")
	n.ID, n.Mbox.Accept, n.Mbox.ExpectOutput = "x", []string{"tests"}, true
	_, err := SubmitWith(t.Context(), b, n, []File{{Name: "a.txt", Data: []byte("a")}})
	must(t, err)
	sent, _, err := b.Task(t.Context(), "x")
	must(t, err)
	edit(t, b, "x", Pending, func(task map[string]any) { in(task, "mbox")["attempt"] = 7 })
	mv(t, b, "x", Pending, InProgress)
	must(t, scanNow(b))
	now, state, err := b.Task(t.Context(), "x")
	must(t, err)
	if state != InProgress || now.Mbox.Attempt != 1 || now.AskedHash() != sent.AskedHash() {
		t.Errorf("%s: %+v", state, now.Mbox)
	}
	wantClean(t, b)
}

// A ledger that is begun anew knows what came with a task, and under which key it was
// sent.
func TestForgottenAttachments(t *testing.T) {
	b := newBox(t, Options{})
	id := attached(t, b, "", "key", File{Name: "a.txt", Data: []byte("a")})
	child, _, err := Fire(t.Context(), b, request("nightly"), "nightly", "2026-01-02")
	must(t, err)
	must(t, b.Close())
	must(t, os.RemoveAll(b.path("audit/shared")))
	_, err = Recover(t.Context(), b.home, b.o, RecoverOptions{Forget: true})
	must(t, err)
	b, err = Open(t.Context(), b.home, b.o)
	must(t, err)
	t.Cleanup(func() { b.Close() })
	wantClean(t, b)
	if again := attached(t, b, "", "key"); again != id {
		t.Errorf("sent again as %s", again)
	}
	if again, made, err := Fire(t.Context(), b, request("nightly"), "nightly", "2026-01-02"); again != child || made || err != nil {
		t.Errorf("sent again as %s: %v", again, err)
	}
}

// A folder where the files of a task are to lie is a stranger's: another id is taken,
// and one that was asked for is refused. No file is lost.
func TestAttachmentsWhereSomethingLies(t *testing.T) {
	b := newBox(t, Options{})
	first := attached(t, b, "", "")
	second := strings.TrimSuffix(string(first), "001") + "002"
	for _, id := range []string{second, "named"} {
		must(t, os.Mkdir(b.path(task.ArtifactsDir, id+".0"), 0o700))
	}
	file := File{Name: "a.txt", Data: []byte("a")}
	id := attached(t, b, "", "", file)
	if data, err := os.ReadFile(b.path(task.ArtifactsDir, string(id)+".0", "a.txt")); err != nil || string(data) != "a" {
		t.Errorf("%s has %q: %v", id, data, err)
	}
	n := request("named")
	n.ID = "named"
	if _, err := SubmitWith(t.Context(), b, n, []File{file}); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	for _, id := range []string{second, "named"} {
		must(t, os.Remove(b.path(task.ArtifactsDir, id+".0")))
	}
	wantClean(t, b)
}
