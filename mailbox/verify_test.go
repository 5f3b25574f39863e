package mailbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	records "mbox/audit/record"
	chain "mbox/audit/verify"
	"mbox/mailbox/backup"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/linttest"
	"mbox/mailbox/task"
	"mbox/mailbox/verify"
	"mbox/schemas"
)

// verifyHome is a home on which everything has been done once, over two days,
// and that nobody has open.
type verifyHome struct {
	t   testing.TB
	dir string
	now time.Time
}

func newVerifyHome(t testing.TB) *verifyHome {
	t.Helper()
	h := &verifyHome{t: t, dir: filepath.Join(t.TempDir(), "home"), now: time.Date(2026, 2, 16, 10, 30, 0, 0, time.UTC)}
	h.must(Create(h.dir, h.options()))
	b := h.open()
	defer b.Close()
	ctx := t.Context()
	for _, id := range []ID{"v-done", "v-archived", "v-failed", "v-claimed", "v-held", "v-retried", "v-moved", "v-deleted", "v-pending"} {
		h.submit(b, id)
	}
	archived := h.claim(b, "v-archived")
	h.keep(archived, "old.txt")
	h.must(archived.Complete(ctx, Result{Output: jsontext.Value(`"old"`)}))
	_, err := b.Archive(ctx, 0, "human")
	h.must(err)
	done := h.claim(b, "v-done")
	h.must(done.Progress(ctx, Progress{Message: "half"}))
	h.now = h.now.AddDate(0, 0, 1)
	h.keep(done, "report.txt")
	h.must(done.Complete(ctx, Result{Output: jsontext.Value(`{"answer":42}`)}))
	if err := done.Complete(ctx, Result{Output: jsontext.Value(`"late"`)}); !errors.Is(err, ErrStale) {
		t.Fatal(err)
	}
	h.must(h.claim(b, "v-failed").Fail(ctx, Failure{TaskError: TaskError{Code: "no"}, Final: true}))
	h.must(h.claim(b, "v-retried").Fail(ctx, Failure{TaskError: TaskError{Code: "no"}, Final: true}))
	h.must(b.Retry(ctx, "v-retried", "human", "again"))
	h.must(os.Rename(h.path("tasks/pending/v-moved.json"), h.path("tasks/in-progress/v-moved.json")))
	h.must(os.Remove(h.path("tasks/pending/v-deleted.json")))
	h.write("tasks/pending/v-drop.json", `{"task":{"title":"drop"}}`)
	h.write("tasks/pending/v-rejected.json", `{"task":{"title":"drop","priority":"soon"}}`)
	h.write("tasks/pending/v-junk.json", `[]`)
	h.must(linkOut(h.dir, h.path("tasks/pending/v-link.json")))
	for _, name := range []string{"v-drop", "v-rejected", "v-junk"} {
		at := h.now.Add(-time.Hour)
		h.must(os.Chtimes(h.path("tasks/pending/"+name+".json"), at, at))
	}
	_, err = b.Scan(ctx)
	h.must(err)
	id, err := b.Decide(ctx, records.Decision{Agent: "coder", Context: "c", Options: []string{"a"}, Decision: "d"})
	h.must(err)
	h.must(b.Outcome(ctx, id, "coder", "well"))
	_, err = b.Change(ctx, records.Change{Agent: "coder", Type: "code", Description: "d", Rationale: "r", Before: "b", After: "a", Rollback: "r", Verification: "v"})
	h.must(err)
	h.claim(b, "v-held")
	c, err := b.Claim(ctx, ClaimRequest{Agent: "to-v-claimed", Process: true})
	h.must(err)
	h.must(c.Close())
	return h
}

func (h *verifyHome) options() Options {
	return Options{Sync: durable.None, Now: func() time.Time { return h.now }}
}

func (h *verifyHome) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *verifyHome) open() *Box {
	h.t.Helper()
	b, err := Open(h.t.Context(), h.dir, h.options())
	h.must(err)
	return b
}

func (h *verifyHome) submit(b *Box, id ID) {
	h.t.Helper()
	task := request(string(id))
	task.ID, task.Assignment.TargetAgent = id, "to-"+string(id)
	_, err := b.Submit(h.t.Context(), task)
	h.must(err)
}

func (h *verifyHome) claim(b *Box, id ID) *Claim {
	h.t.Helper()
	c, err := b.Claim(h.t.Context(), ClaimRequest{Agent: "to-" + string(id)})
	h.must(err)
	return c
}

// keep gives a claim an artifact.
func (h *verifyHome) keep(c *Claim, name string) {
	h.t.Helper()
	path := filepath.Join(h.t.TempDir(), name)
	h.must(os.WriteFile(path, []byte("an artifact"), 0o600))
	_, err := c.Keep(h.t.Context(), path)
	h.must(err)
}

func (h *verifyHome) path(name string) string { return filepath.Join(h.dir, name) }

func (h *verifyHome) write(name, text string) {
	h.t.Helper()
	h.must(os.WriteFile(h.path(name), []byte(text), 0o600))
}

func (h *verifyHome) read(name string) string {
	h.t.Helper()
	data, err := os.ReadFile(h.path(name))
	h.must(err)
	return string(data)
}

// replace edits a file, which must hold the old text.
func (h *verifyHome) replace(name, old, text string) {
	h.t.Helper()
	data := h.read(name)
	if !strings.Contains(data, old) {
		h.t.Fatalf("%s: no %q in it", name, old)
	}
	h.write(name, strings.Replace(data, old, text, 1))
}

func (h *verifyHome) mv(from, to string) {
	h.t.Helper()
	h.must(os.Rename(h.path(from), h.path(to)))
}

// entry is the quarantine entry whose name begins so, as a path from the home.
func (h *verifyHome) entry(prefix string) string {
	h.t.Helper()
	names, err := filepath.Glob(h.path("tasks/quarantine/" + prefix + "~*"))
	h.must(err)
	for _, n := range names {
		if !strings.HasSuffix(n, home.ReasonSuffix) {
			return strings.TrimPrefix(n, h.dir+"/")
		}
	}
	h.t.Fatalf("no entry %s", prefix)
	return ""
}

func (h *verifyHome) verify() verify.Report {
	h.t.Helper()
	r, err := verify.Home(h.t.Context(), h.dir, verify.Options{})
	h.must(err)
	return r
}

// seq finds the last line of the event about a task, and its place.
func (h *verifyHome) seq(event audit.Event, id ID) (seq int64, file string, line int) {
	h.t.Helper()
	for _, day := range []string{"2026-02-16", "2026-02-17"} {
		name := "audit/shared/" + day + ".jsonl"
		for i, text := range strings.SplitAfter(h.read(name), "\n") {
			if strings.Contains(text, `"event":"`+string(event)+`"`) && (id == "" || strings.Contains(text, `"task_id":"`+string(id)+`"`)) {
				e, err := audit.Line{Raw: []byte(strings.TrimSuffix(text, "\n"))}.Decode()
				h.must(err)
				seq, file, line = e.Seq, name, i+1
			}
		}
	}
	if seq == 0 {
		h.t.Fatalf("no %s of %s", event, id)
	}
	return seq, file, line
}

// last is the seq of the last line that moved the task.
func (h *verifyHome) last(id ID) (seq int64) {
	h.t.Helper()
	v, err := home.ReadVersion(h.dir)
	h.must(err)
	ledger, err := audit.Open(h.dir, v.MailboxID, audit.Options{Looks: true})
	h.must(err)
	defer ledger.Close()
	for line, err := range ledger.Read(audit.Position{}).Lines() {
		h.must(err)
		if line.Of(string(id)) && line.Detail("to") != nil {
			seq = line.Seq
		}
	}
	return seq
}

// atLine is a fault that is told at the id's last line of the event.
func atLine(invariant int, event audit.Event, id ID, what string) func(h *verifyHome) verify.Finding {
	return func(h *verifyHome) verify.Finding {
		seq, file, line := h.seq(event, id)
		return finding(invariant, file, line, seq, id, what)
	}
}

func finding(invariant int, file string, line int, seq int64, id ID, what string) verify.Finding {
	return verify.Finding{Invariant: invariant, File: file, Line: line, Seq: seq, Task: id, What: what}
}

// rewritten is rewrite of the id's last line of the event.
func rewritten(event audit.Event, id ID, old, text string) func(h *verifyHome) {
	return func(h *verifyHome) {
		seq, _, _ := h.seq(event, id)
		h.rewrite(seq, old, text)
	}
}

// rewrite changes the details of a line and chains all lines behind it again,
// with their copies: what only one who holds the whole home can do.
func (h *verifyHome) rewrite(seq int64, old, text string) {
	h.t.Helper()
	copies := map[string]string{}
	prev := ""
	for _, day := range []string{"2026-02-16", "2026-02-17"} {
		name, out := "audit/shared/"+day+".jsonl", ""
		for _, line := range strings.SplitAfter(h.read(name), "\n") {
			if line == "" {
				continue
			}
			body := line[:len(line)-87] + "}"
			if strings.Contains(body, fmt.Sprintf(`","seq":%d,`, seq)) {
				if !strings.Contains(body, old) {
					h.t.Fatalf("no %s in %s", old, body)
				}
				body = strings.Replace(body, old, text, 1)
			}
			if at := strings.LastIndex(body, `,"prev":"`) + len(`,"prev":"`); prev != "" {
				body = body[:at] + prev + body[at+71:]
			}
			prev = audit.Hash([]byte(body))
			line = body[:len(body)-1] + `,"checksum":"` + prev + "\"}\n"
			out += line
			agent := audit.Line{Raw: []byte(line)}.Agent()
			copies["audit/"+audit.Folder(agent)+"/"+day+".jsonl"] += line
		}
		h.write(name, out)
	}
	for name, text := range copies {
		h.write(name, text)
	}
	h.write(".mbox/locks/chain", "") // no head record tells the old end
}

// lint is what the independent checker finds.
func (h *verifyHome) lint() linttest.Problems {
	h.t.Helper()
	err := linttest.Home(h.dir, "--whole")
	found, is := errors.AsType[linttest.Problems](err)
	if err != nil && !is {
		h.t.Fatal(err)
	}
	return found
}

func TestVerifyClean(t *testing.T) {
	h := newVerifyHome(t)
	before := treeOf(t, h.dir)
	r := h.verify()
	if len(r.Findings) > 0 || len(r.Notes) > 0 || r.Tasks != 10 || r.Records != 2 || r.Seq != r.Lines || r.Checksum == "" {
		t.Errorf("%+v", r)
	}
	if after := treeOf(t, h.dir); after != before {
		t.Error("verify has written")
	}
	if found := h.lint(); found != nil {
		t.Error(found)
	}
	if r, err := verify.Home(t.Context(), h.dir, verify.Options{LedgerOnly: true}); err != nil || r.Lines == 0 || r.Tasks != 0 || len(r.Findings) > 0 {
		t.Errorf("%+v %v", r, err)
	}
	var calls [][2]int64
	_, err := verify.Home(t.Context(), h.dir, verify.Options{Progress: func(done, total int64) { calls = append(calls, [2]int64{done, total}) }})
	if err != nil || len(calls) == 0 || calls[len(calls)-1] != [2]int64{10, 10} {
		t.Errorf("%v %v", calls, err)
	}
}

// treeOf is a fingerprint of all names, modes, times and bytes.
func treeOf(t testing.TB, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, path, info.Mode(), info.ModTime(), info.Size())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			sum.Write(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Each row damages a home. The first fault has to be the one that is wanted.
// lint is whether the independent checker sees it too; where it does not, why
// says so.
var tamperings = []struct {
	name string
	do   func(h *verifyHome)
	want func(h *verifyHome) verify.Finding // asked before the damage
	why  string                             // the reason why lint.py is silent
}{
	{"a line edited", func(h *verifyHome) {
		h.replace("audit/shared/2026-02-16.jsonl", `"event":"task_created"`, `"event":"task_creates"`)
	}, func(h *verifyHome) verify.Finding {
		return finding(10, "audit/shared/2026-02-16.jsonl", 1, 1, "", "checksum does not match")
	}, ""},
	{"a line deleted", func(h *verifyHome) {
		text := h.read("audit/shared/2026-02-16.jsonl")
		_, rest, _ := strings.Cut(text, "\n")
		h.write("audit/shared/2026-02-16.jsonl", rest)
	}, func(h *verifyHome) verify.Finding {
		return finding(10, "audit/shared/2026-02-16.jsonl", 1, 2, "", "prev is not the checksum")
	}, ""},
	{"the last line cut", func(h *verifyHome) {
		text := strings.TrimSuffix(h.read("audit/shared/2026-02-17.jsonl"), "\n")
		h.write("audit/shared/2026-02-17.jsonl", text[:strings.LastIndexByte(text, '\n')+1])
	}, func(h *verifyHome) verify.Finding {
		seq, file, line := h.seq(audit.TaskPicked, "v-claimed")
		return finding(10, file, line, seq, "", "it was cut")
	}, ""},
	{
		"a day lost", func(h *verifyHome) { h.must(os.Remove(h.path("audit/shared/2026-02-16.jsonl"))) },
		func(h *verifyHome) verify.Finding {
			seq, _, _ := h.seq(audit.TaskProgress, "v-done")
			return finding(10, "audit/shared/2026-02-17.jsonl", 1, seq+1, "", "prev is not")
		}, "",
	},
	{
		"a day renamed", func(h *verifyHome) { h.mv("audit/shared/2026-02-16.jsonl", "audit/shared/2026-02-18.jsonl") },
		func(h *verifyHome) verify.Finding {
			seq, _, _ := h.seq(audit.TaskProgress, "v-done")
			return finding(10, "audit/shared/2026-02-17.jsonl", 1, seq+1, "", "prev is not")
		}, "",
	},
	{"another mailbox's ledger", func(h *verifyHome) {
		v, err := home.ReadVersion(h.dir)
		h.must(err)
		h.replace(".mbox/VERSION", v.MailboxID, strings.Repeat("0f", 16))
	}, func(h *verifyHome) verify.Finding {
		return finding(10, "audit/shared/2026-02-16.jsonl", 1, 1, "", "prev is not")
	}, ""},
	{"a forged move", rewritten(audit.TaskCompleted, "v-done", `"from":"in-progress"`, `"from":"pending"`), atLine(7, audit.TaskCompleted, "v-done", "task_completed may not move v-done from pending to completed"), ""},
	{"a forged before", rewritten(audit.TaskCompleted, "v-done", `"before":"sha256:`, `"before":"sha256:0000`), atLine(7, audit.TaskCompleted, "v-done", "before is not the hash of a file"), ""},
	{"another before", rewritten(audit.TaskCompleted, "v-done", `"before":"sha256:`, `"before":"`+audit.Hash(nil)+`","beforf":"sha256:`), atLine(7, audit.TaskCompleted, "v-done", "before is not the after of seq"), ""},
	{"an epoch that does not rise", rewritten(audit.TaskPicked, "v-held", `"epoch":1`, `"epoch":0`), atLine(7, audit.TaskPicked, "v-held", "epoch 0 of v-held does not rise"), ""},
	{"a move without its tx", rewritten(audit.TaskPicked, "v-held", `"tx":"`, `"ty":"`), atLine(7, audit.TaskPicked, "v-held", "no tx"), ""},
	{"a move that moves nothing", rewritten(audit.TaskPicked, "v-held", `"to":"in-progress"`, `"tp":"in-progress"`), atLine(7, audit.TaskPicked, "v-held", "task_picked moves no task"), ""},
	{"a note with half a move", rewritten(audit.DecisionEvent, "", `"file":"`, `"file":"decisions/x.md","from":"`), atLine(7, audit.DecisionEvent, "", "from, but no to"), ""},
	{"a line that does not say who wrote it", rewritten(audit.ChangeEvent, "", `"uid":`, `"vid":`), atLine(10, audit.ChangeEvent, "", "who wrote it"), "it does not look at uid, pid and host"},
	{"another task's id in another case", rewritten(audit.TaskCreated, "v-pending", `"task_id":"v-pending"`, `"task_id":"V-DONE"`), func(h *verifyHome) verify.Finding {
		seq, file, line := h.seq(audit.TaskCreated, "v-pending")
		return finding(7, file, line, seq, "V-DONE", "differ in case only")
	}, ""},
	{"an id made twice", rewritten(audit.TaskCreated, "v-pending", `"task_id":"v-pending"`, `"task_id":"v-held"`), func(h *verifyHome) verify.Finding {
		seq, file, line := h.seq(audit.TaskCreated, "v-pending")
		return finding(7, file, line, seq, "v-held", "was there already")
	}, ""},
	{
		"a completed task edited", func(h *verifyHome) { h.replace("tasks/completed/v-done.json", `42`, `43`) },
		func(h *verifyHome) verify.Finding {
			return finding(6, "tasks/completed/v-done.json", 0, h.last("v-done"), "v-done", "edited by hand")
		}, "",
	},
	{
		"a task overwritten with junk", func(h *verifyHome) { h.write("tasks/completed/v-done.json", `[]`) },
		func(h *verifyHome) verify.Finding {
			return finding(6, "tasks/completed/v-done.json", 0, h.last("v-done"), "v-done", "edited by hand")
		}, "",
	},
	{
		"an archived task edited", func(h *verifyHome) { h.replace("tasks/archive/2026-02/v-archived.json", `"old"`, `"new"`) },
		func(h *verifyHome) verify.Finding {
			return finding(6, "tasks/archive/2026-02/v-archived.json", 0, h.last("v-archived"), "v-archived", "edited by hand")
		}, "",
	},
	{
		"completed moved to pending", func(h *verifyHome) { h.mv("tasks/completed/v-done.json", "tasks/pending/v-done.json") },
		func(h *verifyHome) verify.Finding {
			return finding(3, "tasks/pending/v-done.json", 0, h.last("v-done"), "v-done", `result.status is "completed" in tasks/pending`)
		}, "",
	},
	{
		"pending moved to completed", func(h *verifyHome) { h.mv("tasks/pending/v-pending.json", "tasks/completed/v-pending.json") },
		func(h *verifyHome) verify.Finding {
			return finding(3, "tasks/completed/v-pending.json", 0, h.last("v-pending"), "v-pending", `result.status is "pending" in tasks/completed`)
		}, "",
	},
	{"archived into another month", func(h *verifyHome) {
		h.must(os.Mkdir(h.path("tasks/archive/2026-03"), 0o700))
		h.mv("tasks/archive/2026-02/v-archived.json", "tasks/archive/2026-03/v-archived.json")
	}, func(h *verifyHome) verify.Finding {
		return finding(7, "tasks/archive/2026-03/v-archived.json", 0, h.last("v-archived"), "v-archived", "moved by hand")
	}, "it takes the archive for one folder"},
	{
		"a task removed", func(h *verifyHome) { h.must(os.Remove(h.path("tasks/failed/v-failed.json"))) },
		func(h *verifyHome) verify.Finding {
			return finding(8, "tasks/failed/v-failed.json", 0, h.last("v-failed"), "v-failed", "the file is gone")
		}, "",
	},
	{
		"an archived task removed", func(h *verifyHome) { h.must(os.Remove(h.path("tasks/archive/2026-02/v-archived.json"))) },
		func(h *verifyHome) verify.Finding {
			return finding(8, "tasks/archive/2026-02/v-archived.json", 0, h.last("v-archived"), "v-archived", "the file is gone")
		}, "",
	},
	{"a task that no line knows", func(h *verifyHome) {
		h.write("tasks/completed/v-alien.json", strings.Replace(h.read("tasks/completed/v-done.json"), "v-done", "v-alien", 1))
	}, func(h *verifyHome) verify.Finding {
		return finding(8, "tasks/completed/v-alien.json", 0, 0, "v-alien", "no ledger line knows it")
	}, ""},
	{"a deleted task that is back", func(h *verifyHome) {
		h.write("tasks/failed/v-deleted.json", strings.ReplaceAll(h.read("tasks/failed/v-failed.json"), "v-failed", "v-deleted"))
	}, func(h *verifyHome) verify.Finding {
		return finding(7, "tasks/failed/v-deleted.json", 0, h.last("v-deleted"), "v-deleted", "the task is given up")
	}, ""},
	{"a task in two folders", func(h *verifyHome) {
		h.write("tasks/failed/v-done.json", h.read("tasks/completed/v-done.json"))
	}, func(h *verifyHome) verify.Finding {
		return finding(1, "tasks/failed/v-done.json", 0, h.last("v-done"), "v-done", "a second file")
	}, ""},
	{"a task twice, in another case", func(h *verifyHome) {
		h.write("tasks/completed/V-Done.json", h.read("tasks/completed/v-done.json"))
	}, func(h *verifyHome) verify.Finding {
		return finding(1, "tasks/completed/V-Done.json", 0, h.last("v-done"), "v-done", "a second file")
	}, ""},
	{
		"a task under another name", func(h *verifyHome) { h.mv("tasks/completed/v-done.json", "tasks/completed/v-gone.json") },
		func(h *verifyHome) verify.Finding {
			return finding(8, "tasks/completed/v-done.json", 0, h.last("v-done"), "v-done", "the file is gone")
		}, "",
	},
	{"two tasks swapped", func(h *verifyHome) {
		h.mv("tasks/pending/v-pending.json", "tasks/x")
		h.mv("tasks/pending/v-retried.json", "tasks/pending/v-pending.json")
		h.mv("tasks/x", "tasks/pending/v-retried.json")
	}, func(h *verifyHome) verify.Finding {
		return finding(2, "tasks/pending/v-pending.json", 0, h.last("v-pending"), "v-pending", `its id is "v-retried"`)
	}, ""},
	{"a task that is a symlink", func(h *verifyHome) {
		h.mv("tasks/completed/v-done.json", "x")
		h.must(os.Symlink(h.path("x"), h.path("tasks/completed/v-done.json")))
	}, func(h *verifyHome) verify.Finding {
		return finding(14, "tasks/completed/v-done.json", 0, h.last("v-done"), "v-done", "is no regular file")
	}, ""},
	{"a task with a second name", func(h *verifyHome) {
		h.must(os.Link(h.path("tasks/completed/v-done.json"), h.path("x")))
	}, func(h *verifyHome) verify.Finding {
		return finding(14, "tasks/completed/v-done.json", 0, 0, "", "has 2 names")
	}, ""},
	{
		"a task that all may read", func(h *verifyHome) { h.must(os.Chmod(h.path("tasks/completed/v-done.json"), 0o644)) },
		func(h *verifyHome) verify.Finding {
			return finding(14, "tasks/completed/v-done.json", 0, 0, "", "mode is 0644, not 0600")
		}, "",
	},
	{
		"a pending task that all may read", func(h *verifyHome) { h.must(os.Chmod(h.path("tasks/pending/v-pending.json"), 0o644)) },
		func(h *verifyHome) verify.Finding {
			return finding(14, "tasks/pending/v-pending.json", 0, 0, "", "mode is 0644, not 0600")
		}, "",
	},
	{
		"a folder that all may read", func(h *verifyHome) { h.must(os.Chmod(h.path("audit/shared"), 0o755)) },
		func(h *verifyHome) verify.Finding {
			return finding(14, "audit/shared", 0, 0, "", "mode is 0755, not 0700")
		}, "",
	},
	{
		"a home that all may read", func(h *verifyHome) { h.must(os.Chmod(h.dir, 0o755)) },
		func(h *verifyHome) verify.Finding { return finding(14, ".", 0, 0, "", "mode is 0755, not 0700") }, "it does not look at the home itself",
	},
	{
		"a symlink planted", func(h *verifyHome) { h.must(linkOut(h.dir, h.path("decisions/x"))) },
		func(h *verifyHome) verify.Finding { return finding(14, "decisions/x", 0, 0, "", "is a symlink") }, "",
	},
	{
		"a FIFO planted", func(h *verifyHome) { h.must(syscall.Mkfifo(h.path("tasks/completed/v-fifo.json"), 0o600)) },
		func(h *verifyHome) verify.Finding {
			return finding(8, "tasks/completed/v-fifo.json", 0, 0, "v-fifo", "no ledger line knows it")
		}, "",
	},
	{
		"a folder missing", func(h *verifyHome) { h.must(os.RemoveAll(h.path("tasks/failed"))) },
		func(h *verifyHome) verify.Finding {
			return finding(14, "tasks/failed", 0, 0, "", "the folder is missing")
		}, "",
	},
	{
		"a lock file missing", func(h *verifyHome) { h.must(os.Remove(h.path(".mbox/locks/task-07"))) },
		func(h *verifyHome) verify.Finding {
			return finding(14, ".mbox/locks/task-07", 0, 0, "", "mbox recover makes it anew")
		}, "it knows nothing of locks",
	},
	{"a staged file left", func(h *verifyHome) {
		h.write(".mbox/tmp/v-done~0123456789abcdef0123456789abcdef", "{}")
	}, func(h *verifyHome) verify.Finding {
		return finding(13, ".mbox/tmp/v-done~0123456789abcdef0123456789abcdef", 0, 0, "", "no transition is at it")
	}, ""},
	{
		"a lease of nobody", func(h *verifyHome) { h.write(".mbox/leases/v-done.0123", "") },
		func(h *verifyHome) verify.Finding {
			return finding(13, ".mbox/leases/v-done.0123", 0, h.last("v-done"), "v-done", "the lease of no task in progress")
		}, "",
	},
	{
		"a lease with another token", func(h *verifyHome) { h.write(".mbox/leases/v-claimed.0123", "") },
		func(h *verifyHome) verify.Finding {
			return finding(13, ".mbox/leases/v-claimed.0123", 0, h.last("v-claimed"), "v-claimed", "the lease of no task in progress")
		}, "",
	},
	{"a lease of a process that lives", func(h *verifyHome) {
		boot, err := durable.BootID()
		h.must(err)
		note, err := schemas.Canonical(home.Note{PID: os.Getpid(), Start: home.StartTime(os.Getpid()), Boot: boot, Namespace: home.PIDNamespace()})
		h.must(err)
		h.write(".mbox/leases/v-done.0123456789abcdef0123456789abcdef", string(note)+"\n")
	}, func(h *verifyHome) verify.Finding {
		return finding(13, ".mbox/leases/v-done.0123456789abcdef0123456789abcdef", 0, h.last("v-done"), "v-done", "the lease of no task in progress")
	}, ""},
	{
		"a decision edited", func(h *verifyHome) { h.replace("decisions/decision-2026-02-17-001.md", "well", "badly") },
		func(h *verifyHome) verify.Finding {
			seq, _, _ := h.seq(audit.DecisionEvent, "")
			return finding(12, "decisions/decision-2026-02-17-001.md", 0, seq, "", "its bytes are not those")
		}, "",
	},
	{
		"a change removed", func(h *verifyHome) { h.must(os.Remove(h.path("changes/change-2026-02-17-001.md"))) },
		func(h *verifyHome) verify.Finding {
			seq, _, _ := h.seq(audit.ChangeEvent, "")
			return finding(12, "changes/change-2026-02-17-001.md", 0, seq, "", "the file is gone")
		}, "",
	},
	{
		"a decision that no line knows", func(h *verifyHome) { h.write("decisions/decision-2026-02-17-002.md", "# Decision") },
		func(h *verifyHome) verify.Finding {
			return finding(12, "decisions/decision-2026-02-17-002.md", 0, 0, "", "no ledger line knows it")
		}, "",
	},
	{
		"a quarantine entry removed", func(h *verifyHome) { h.must(os.Remove(h.path(h.entry("v-junk.json")))) },
		func(h *verifyHome) verify.Finding {
			seq, _, _ := h.seq(audit.TaskQuarantined, "")
			return finding(13, h.entry("v-junk.json"), 0, seq-1, "", "the entry is gone")
		}, "it counts entries and lines only",
	},
	{"a quarantine entry removed with its reason", func(h *verifyHome) {
		entry := h.entry("v-done.result.json")
		h.must(errors.Join(os.Remove(h.path(entry)), os.Remove(h.path(entry+home.ReasonSuffix))))
	}, func(h *verifyHome) verify.Finding {
		seq, _, _ := h.seq(audit.TaskLateResult, "v-done")
		return finding(13, h.entry("v-done.result.json"), 0, seq, "v-done", "the entry is gone")
	}, "it counts entries and lines only"},
	{
		"a quarantine entry edited", func(h *verifyHome) { h.replace(h.entry("v-rejected.json"), "soon", "high") },
		func(h *verifyHome) verify.Finding {
			return finding(13, h.entry("v-rejected.json"), 0, h.last("v-rejected"), "v-rejected", "its bytes are not those")
		}, "it does not read entries",
	},
	{
		"a reason removed", func(h *verifyHome) { h.must(os.Remove(h.path(h.entry("v-link.json") + home.ReasonSuffix))) },
		func(h *verifyHome) verify.Finding {
			seq, _, _ := h.seq(audit.TaskQuarantined, "")
			return finding(13, h.entry("v-link.json")+home.ReasonSuffix, 0, seq, "", "is missing")
		}, "",
	},
	{"a reason of another entry", func(h *verifyHome) {
		h.write(h.entry("v-link.json")+home.ReasonSuffix, h.read(h.entry("v-junk.json")+home.ReasonSuffix))
	}, func(h *verifyHome) verify.Finding {
		seq, _, _ := h.seq(audit.TaskQuarantined, "")
		return finding(13, h.entry("v-link.json")+home.ReasonSuffix, 0, seq, "", "speaks of another entry")
	}, "it does not read reasons"},
	{"an entry that no line names", func(h *verifyHome) {
		h.write("tasks/quarantine/x~0123456789abcdef0123456789abcdef", "x")
	}, func(h *verifyHome) verify.Finding {
		return finding(13, "tasks/quarantine/x~0123456789abcdef0123456789abcdef", 0, 0, "", "no ledger line names it")
	}, ""},
	{
		"a copy edited", func(h *verifyHome) { h.replace("audit/coder/2026-02-17.jsonl", "decided", "Decided") },
		func(h *verifyHome) verify.Finding {
			return finding(11, "audit/coder/2026-02-17.jsonl", 1, 0, "", "is not the agent's line")
		}, "",
	},
	{"a copy short", func(h *verifyHome) {
		h.must(os.Truncate(h.path("audit/coder/2026-02-17.jsonl"), int64(len(h.read("audit/coder/2026-02-17.jsonl"))-1)))
	}, func(h *verifyHome) verify.Finding {
		return finding(11, "audit/coder/2026-02-17.jsonl", 3, 0, "", "has lost 1 bytes")
	}, ""},
	{
		"a reason that all may read", func(h *verifyHome) { h.must(os.Chmod(h.path(h.entry("v-junk.json")+home.ReasonSuffix), 0o644)) },
		func(h *verifyHome) verify.Finding {
			seq, _, _ := h.seq(audit.TaskQuarantined, "")
			return finding(13, h.entry("v-junk.json")+home.ReasonSuffix, 0, seq-1, "", "mode is 0644, not 0600")
		}, "",
	},
	{
		"a ledger with a second name", func(h *verifyHome) {
			h.must(os.Link(h.path("audit/shared/2026-02-16.jsonl"), filepath.Join(h.t.TempDir(), "copy")))
		}, func(h *verifyHome) verify.Finding {
			return finding(14, "audit/shared/2026-02-16.jsonl", 0, 0, "", "has 2 names")
		}, "",
	},
	{
		"an artifact changed", func(h *verifyHome) { h.write("tasks/artifacts/v-done.1/report.txt", "an artefact") },
		func(h *verifyHome) verify.Finding {
			return finding(15, "tasks/artifacts/v-done.1/report.txt", 0, h.last("v-done"), "v-done", "bytes are not those")
		}, "",
	},
	{
		"an artifact cut", func(h *verifyHome) { h.must(os.Truncate(h.path("tasks/artifacts/v-done.1/report.txt"), 3)) },
		func(h *verifyHome) verify.Finding {
			return finding(15, "tasks/artifacts/v-done.1/report.txt", 0, h.last("v-done"), "v-done", "has 3 bytes, and its task names 11")
		}, "",
	},
	{
		"an artifact gone", func(h *verifyHome) { h.must(os.Remove(h.path("tasks/artifacts/v-done.1/report.txt"))) },
		func(h *verifyHome) verify.Finding {
			return finding(15, "tasks/artifacts/v-done.1/report.txt", 0, h.last("v-done"), "v-done", "is gone")
		}, "",
	},
	{"an artifact that is a symlink", func(h *verifyHome) {
		h.mv("tasks/artifacts/v-done.1", "x")
		h.must(os.Symlink(h.path("x"), h.path("tasks/artifacts/v-done.1")))
	}, func(h *verifyHome) verify.Finding {
		return finding(14, "tasks/artifacts/v-done.1", 0, 0, "", "is a symlink")
	}, ""},
	{
		"a file among the artifacts", func(h *verifyHome) { h.write("tasks/artifacts/v-done.1/more.txt", "more") },
		func(h *verifyHome) verify.Finding {
			return finding(15, "tasks/artifacts/v-done.1/more.txt", 0, h.last("v-done"), "v-done", "does not name it")
		}, "",
	},
	{
		"an archived artifact changed", func(h *verifyHome) { h.write("tasks/archive/2026-02/v-archived.1/old.txt", "an artefact") },
		func(h *verifyHome) verify.Finding {
			return finding(15, "tasks/archive/2026-02/v-archived.1/old.txt", 0, h.last("v-archived"), "v-archived", "bytes are not those")
		}, "",
	},
	{
		"artifacts of nobody", func(h *verifyHome) { h.must(os.Mkdir(h.path("tasks/artifacts/v-done.2"), 0o700)) },
		func(h *verifyHome) verify.Finding {
			return finding(15, "tasks/artifacts/v-done.2", 0, 0, "", "is no folder of a task's artifacts")
		}, "",
	},
	{
		"a copy gone", func(h *verifyHome) { h.must(os.RemoveAll(h.path("audit/coder"))) },
		func(h *verifyHome) verify.Finding {
			return finding(11, "audit/coder/2026-02-17.jsonl", 0, 0, "", "bytes that were there")
		}, "",
	},
}

func TestRule36_VerifyTampering(t *testing.T) {
	for _, row := range tamperings {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newVerifyHome(t)
			want := row.want(h)
			row.do(h)
			r := h.verify()
			if len(r.Findings) == 0 {
				t.Fatalf("no fault: %+v", r)
			}
			got := r.Findings[0]
			if !strings.Contains(got.What, want.What) {
				t.Errorf("got %q, want %q in it", got.What, want.What)
			}
			if want.What = got.What; got != want {
				t.Errorf("got  %+v\nwant %+v\nall %v", got, want, r.Findings)
			}
			if found := h.lint(); (found == nil) != (row.why != "") {
				t.Errorf("lint.py finds %q, expected to be silent: %q", found, row.why)
			}
		})
	}
}

// The same homes, each in the hands of a process that died at every write of
// every verb: what the next command finishes is no fault, and when it has done
// so not even a note is left.
func TestVerifyInterrupted(t *testing.T) {
	for _, sc := range scenes {
		t.Run(sc.name, func(t *testing.T) {
			for k := 1; verifyFailed(t, sc, k) && !t.Failed(); k += stride() {
			}
		})
	}
}

// verifyFailed lets the process die at its write k; false if there were fewer.
func verifyFailed(t *testing.T, sc scene, k int) bool {
	ctx := t.Context()
	h := &verifyHome{t: t, dir: filepath.Join(t.TempDir(), "home")}
	o := Options{Sync: durable.None, RetryBase: time.Nanosecond}
	h.must(Create(h.dir, o))
	b, err := Open(ctx, h.dir, o)
	h.must(err)
	prior := sc.before(t, b)
	r, err := verify.Home(ctx, h.dir, verify.Options{Deep: true})
	h.must(err)
	strange := len(r.Findings) > 0 // a scene that begins with a stranger's deed
	var n atomic.Int64
	label := fmt.Sprint("write ", k)
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		i := n.Add(1)
		if i < int64(k) {
			return true, nil
		}
		if i == int64(k) {
			label += fmt.Sprintf(", %s %s", op, filepath.Base(path))
		}
		return false, errInjected
	})
	said := sc.verb(ctx, b, prior)
	remove()
	b.Close()
	if n.Load() < int64(k) {
		return false
	}
	r, err = verify.Home(ctx, h.dir, verify.Options{Deep: true})
	if err != nil || len(r.Findings) > 0 && !strange {
		t.Errorf("%s (%v): %v %+v", label, said, err, r)
	}
	b, err = Open(ctx, h.dir, o)
	if errors.Is(err, ErrReadOnly) {
		return true
	}
	h.must(err)
	_, err = b.Scan(ctx)
	b.Close()
	if after, failed := verify.Home(ctx, h.dir, verify.Options{Deep: true}); failed != nil || err == nil && len(after.Findings)+len(after.Notes) > 0 {
		t.Errorf("%s (%v), then settled (%v): %v %+v", label, said, err, failed, after)
	}
	return true
}

// A stranger's hand on a task whose transition was interrupted is still a fault.
func TestVerifyInterruptedAndEdited(t *testing.T) {
	h := newVerifyHome(t)
	b := h.open()
	defer durable.SetFault(func(op durable.Op, _ string) (bool, error) {
		switch op {
		case durable.OpMove, durable.OpExchange, durable.OpRemove:
			return false, errInjected
		}
		return true, nil
	})()
	err := b.Cancel(t.Context(), "v-pending", "human", "no")
	b.Close()
	if !errors.Is(err, ErrCommitted) {
		t.Fatal(err)
	}
	r := h.verify()
	if len(r.Findings) > 0 || !slices.Contains(r.Notes, "the transition of v-pending was interrupted; the next command finishes it") {
		t.Fatalf("%+v", r)
	}
	staged, err := filepath.Glob(h.path(".mbox/tmp/v-pending~*"))
	if err != nil || len(staged) != 1 {
		t.Fatal(staged, err)
	}
	h.must(os.WriteFile(staged[0], []byte("{}"), 0o600))
	if r := h.verify(); len(r.Findings) == 0 || r.Findings[0].Task != "v-pending" {
		t.Errorf("the staged content was edited: %+v", r)
	}
}

// Drops that wait for admission are no fault, whatever they are.
func TestVerifyDrops(t *testing.T) {
	h := newVerifyHome(t)
	h.write("tasks/pending/new.json", `{"task":{"title":"x"}}`)
	h.write("tasks/pending/half.json", `{"task"`)
	h.write("tasks/pending/.hidden", "")
	h.write("tasks/pending/x.part", "")
	h.must(os.Chmod(h.path("tasks/pending/half.json"), 0o644))
	h.must(linkOut(h.dir, h.path("tasks/pending/link")))
	r := h.verify()
	if len(r.Findings) > 0 || !slices.Equal(r.Notes, []string{"3 dropped files are in tasks/pending not admitted yet"}) {
		t.Errorf("%+v", r)
	}
	h.write("tasks/pending/v-done.json", `{"task":{"title":"x"}}`)
	if r := h.verify(); len(r.Findings) != 1 || r.Findings[0].Invariant != 1 {
		t.Errorf("a drop with a used id: %+v", r)
	}
}

// A home that was restored, or copied, waits for its full recovery: that is a
// note, and all the rest is as it was.
func TestVerifyRestored(t *testing.T) {
	h := newVerifyHome(t)
	b := h.open()
	var packed bytes.Buffer
	_, err := b.Backup(t.Context(), &packed, nil, nil)
	h.must(err)
	b.Close()
	was := h.verify()
	h.dir += "-restored"
	_, err = backup.Restore(t.Context(), &packed, h.dir, durable.None)
	h.must(err)
	r := h.verify()
	if len(r.Findings) > 0 || r.Checksum != was.Checksum || r.Tasks != was.Tasks || !strings.Contains(strings.Join(r.Notes, "\n"), "the next command recovers everything first") {
		t.Errorf("%+v", r)
	}
	h.open().Close()
	if r := h.verify(); len(r.Findings) > 0 || strings.Contains(strings.Join(r.Notes, "\n"), "recovers") {
		t.Errorf("after the recovery: %+v", r)
	}
}

func TestVerifyCannot(t *testing.T) {
	if _, err := verify.Home(t.Context(), t.TempDir(), verify.Options{}); !errors.Is(err, ErrNoMailbox) {
		t.Error(err)
	}
	h := newVerifyHome(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := verify.Home(ctx, h.dir, verify.Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	h.replace("tasks/completed/v-done.json", `42`, `43`)
	lock, err := durable.TryLock(home.Private(h.dir, "locks", home.ShardName(home.Shard("v-done"))))
	h.must(err)
	if _, err := verify.Home(t.Context(), h.dir, verify.Options{Wait: 50 * time.Millisecond}); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	h.must(lock.Unlock())
	if r := h.verify(); len(r.Findings) != 1 || r.Findings[0].Invariant != 6 {
		t.Errorf("%+v", r)
	}
	h.replace(".mbox/VERSION", `"format": 2`, `"format": 3`)
	if _, err := verify.Home(t.Context(), h.dir, verify.Options{}); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

func TestVerifyTruncates(t *testing.T) {
	h := newVerifyHome(t)
	for i := range chain.MaxFaults + 1 {
		h.write(fmt.Sprintf("tasks/failed/x%d.json", i), "{}")
	}
	if r := h.verify(); len(r.Findings) != chain.MaxFaults || !r.Truncated {
		t.Errorf("%d faults, truncated %v", len(r.Findings), r.Truncated)
	}
}

// Hundreds of operations at random leave a home without a fault, at every moment.
func TestVerifyRandom(t *testing.T) {
	first := seedOf(t)
	for seed := first; seed < first+uint64(amount(3, 3, 30)); seed++ {
		b := newBox(t, Options{RetryBase: time.Nanosecond})
		w := &verifyWorker{b: b, r: rand.New(rand.NewPCG(seed, 7)), ctx: t.Context(), name: "one"}
		for i := range 400 {
			if err := w.act(); err != nil {
				t.Fatalf("seed %d, act %d: %v", seed, i, err)
			}
			if i%40 != 39 {
				continue
			}
			if r, err := verify.Home(t.Context(), b.home, verify.Options{Deep: true}); err != nil || len(r.Findings) > 0 {
				t.Fatalf("seed %d, act %d: %v %+v", seed, i, err, r.Findings)
			}
		}
		if err := w.rest(); err != nil {
			t.Fatal(err)
		}
	}
}

// While others work as fast as they can, nothing looks wrong.
func TestVerifyWhileWorking(t *testing.T) {
	first, seed := newBox(t, Options{RetryBase: time.Nanosecond}), seedOf(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var group sync.WaitGroup
	for i := range 4 {
		b := first
		if i%2 == 1 { // as another process
			other, err := Open(t.Context(), first.home, first.o)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			b = other
		}
		w := &verifyWorker{b: b, r: rand.New(rand.NewPCG(seed+uint64(i), 1)), ctx: t.Context(), name: fmt.Sprint("w", i), crowd: true}
		group.Go(func() {
			for ctx.Err() == nil {
				if err := w.act(); err != nil {
					t.Errorf("%s: %v", w.name, err)
					return
				}
			}
		})
	}
	runs, lines := 0, int64(0)
	for ; ctx.Err() == nil; runs++ {
		r, err := verify.Home(t.Context(), first.home, verify.Options{Deep: true})
		if err != nil || len(r.Findings) > 0 {
			t.Errorf("run %d: %v %+v", runs, err, r)
			break
		}
		for _, n := range r.Notes {
			if !strings.Contains(n, "not admitted yet") {
				t.Errorf("run %d: %s", runs, n)
			}
		}
		lines = r.Lines
	}
	cancel()
	group.Wait()
	w := &verifyWorker{b: first, ctx: t.Context(), name: "last"}
	if err := w.rest(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs, %d lines in the last", runs, lines)
}

// verifyVictim names the home in which a child of TestVerifyKilled works,
// verifyVictimSeed where it begins to draw.
const (
	verifyVictim     = "MBOX_TEST_VERIFY_VICTIM"
	verifyVictimSeed = "MBOX_TEST_VERIFY_SEED"
)

func init() {
	dir := os.Getenv(verifyVictim)
	if dir == "" {
		return
	}
	b, err := Open(context.Background(), dir, Options{Sync: durable.None, RetryBase: time.Nanosecond})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	seed, err := strconv.ParseUint(os.Getenv(verifyVictimSeed), 10, 64)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	w := &verifyWorker{b: b, r: rand.New(rand.NewPCG(seed, 3)), ctx: context.Background(), name: fmt.Sprint("p", os.Getpid()), crowd: true, lease: true}
	for {
		if err := w.act(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}

// Processes are killed at any moment, and others go on: that leaves notes, never
// faults, and nothing at all once somebody has opened the mailbox and looked.
func TestVerifyKilled(t *testing.T) {
	b := newBox(t, Options{RetryBase: time.Nanosecond})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var group sync.WaitGroup
	var kills atomic.Int64
	seed := seedOf(t)
	for i := range 2 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(seed+uint64(i), 5))
			for ctx.Err() == nil {
				var out strings.Builder
				child := exec.Command(os.Args[0])
				child.Env, child.Stdout = append(os.Environ(), verifyVictim+"="+b.home, fmt.Sprint(verifyVictimSeed, "=", r.Uint64())), &out
				if err := child.Start(); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(20+r.IntN(80)) * time.Millisecond)
				child.Process.Kill()
				child.Wait()
				kills.Add(1)
				if out.Len() > 0 {
					t.Errorf("a worker said: %s", out.String())
					return
				}
			}
		})
	}
	runs, notes := 0, map[string]int{}
	for ; ctx.Err() == nil; runs++ {
		r, err := verify.Home(t.Context(), b.home, verify.Options{Deep: true})
		if err != nil || len(r.Findings) > 0 {
			t.Errorf("run %d: %v %v %q", runs, err, r.Findings, r.Notes)
			break
		}
		for _, n := range r.Notes {
			notes[strings.Join(strings.FieldsFunc(n, func(r rune) bool { return r >= '0' && r <= '9' }), "#")]++
		}
	}
	cancel()
	group.Wait()
	again, err := Open(t.Context(), b.home, b.o)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	w := &verifyWorker{b: again, ctx: t.Context(), name: "last"}
	if err := w.rest(); err != nil {
		t.Fatal(err)
	}
	if r, err := verify.Home(t.Context(), b.home, verify.Options{Deep: true}); err != nil || len(r.Findings)+len(r.Notes) > 0 {
		t.Errorf("at the end: %v %v %q", err, r.Findings, r.Notes)
	}
	submit(t, again, request("who writes the next line copies those of the killed as well"))
	t.Logf("%d kills, %d runs, %v", kills.Load(), runs, notes)
}

// verifyWorker does something at random, as agents and people do.
type verifyWorker struct {
	b      *Box
	r      *rand.Rand
	ctx    context.Context
	name   string
	crowd  bool // others are at work: what one of them was faster at is no error
	lease  bool // claims with a lease only
	claims []*Claim
	n      int
}

func (w *verifyWorker) act() error {
	w.n++
	err := w.acts()
	if w.crowd && (errors.Is(err, ErrBusy) || errors.Is(err, ErrStale) || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) || errors.Is(err, fs.ErrNotExist)) {
		return nil
	}
	return err
}

func (w *verifyWorker) acts() error {
	b, ctx := w.b, w.ctx
	id := ID(fmt.Sprintf("%s-%d", w.name, w.n))
	switch w.r.IntN(16) {
	case 0, 1, 2:
		task := request("random")
		if w.r.IntN(2) == 0 {
			task.ID = id
		}
		if w.r.IntN(4) == 0 {
			task.Mbox.IdempotencyKey = fmt.Sprint("key", w.r.IntN(5))
		}
		_, err := b.Submit(ctx, task)
		return err
	case 3, 4, 5:
		c, err := b.Claim(ctx, ClaimRequest{Agent: w.name, Process: w.lease || w.r.IntN(2) == 0})
		if errors.Is(err, ErrEmpty) {
			return nil
		}
		if err == nil {
			w.claims = append(w.claims, c)
		}
		return err
	case 6:
		texts := []string{`{"task":{"title":"drop"}}`, `{"task":{"title":"drop","priority":"no"}}`, `[]`}
		path := b.path("tasks", "pending", string(id)+".json")
		if err := os.WriteFile(path+".part", []byte(texts[w.r.IntN(3)]), 0o644); err != nil {
			return err
		}
		return os.Rename(path+".part", path)
	case 7:
		_, err := b.Scan(ctx)
		return err
	case 8:
		_, err := b.Decide(ctx, records.Decision{Agent: "coder", Context: "c", Options: []string{"a"}, Decision: "d"})
		return err
	case 9:
		_, err := b.Archive(ctx, 0, "human")
		return err
	case 10:
		return b.Note(ctx, audit.Entry{Agent: w.name, Event: audit.AgentState, Action: "state"})
	}
	return w.work()
}

// work goes on with one of the claims.
func (w *verifyWorker) work() error {
	if len(w.claims) == 0 {
		return nil
	}
	i := w.r.IntN(len(w.claims))
	c := w.claims[i]
	drop := func() { c.Close(); w.claims = slices.Delete(w.claims, i, i+1) }
	switch w.r.IntN(8) {
	case 0:
		return c.Progress(w.ctx, Progress{Message: "on"})
	case 1:
		drop()
		return c.Release(w.ctx, "no time", 0)
	case 2:
		drop()
		return c.Fail(w.ctx, Failure{TaskError: TaskError{Code: "no"}, Final: w.r.IntN(2) == 0})
	case 3:
		err := w.b.Cancel(w.ctx, c.ID(), "human", "no")
		drop()
		return err
	case 4:
		drop()
		err := c.Fail(w.ctx, Failure{TaskError: TaskError{Code: "no"}, Final: true})
		if err != nil {
			return err
		}
		return w.b.Retry(w.ctx, c.ID(), "human", "again")
	case 5: // twice, and differently: the second is late
		drop()
		if err := c.Complete(w.ctx, Result{Output: jsontext.Value(`"first"`)}); err != nil {
			return err
		}
		if err := c.Complete(w.ctx, Result{Output: jsontext.Value(`"second"`)}); !errors.Is(err, ErrStale) {
			return fmt.Errorf("a second completion: %w", err)
		}
		return nil
	}
	drop()
	return c.Complete(w.ctx, Result{Output: jsontext.Value(`"done"`)})
}

// rest leaves nothing in flight, so that the checker of quiet homes can look.
func (w *verifyWorker) rest() error {
	for _, c := range w.claims {
		c.Close()
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		if err := scanNowFor(w.b); err != nil {
			return err
		}
		names, err := durable.Names(w.b.path("tasks", "pending"))
		if err != nil || time.Now().After(deadline) {
			return err
		}
		waiting := 0
		for _, name := range names {
			if strings.HasSuffix(name, ".part") { // its dropper was killed
				if err := os.Remove(w.b.path("tasks", "pending", name)); err != nil {
					return err
				}
				continue
			}
			if known, err := w.b.lookup(ID(task.TrimJSON(name))); err == nil && known == nil {
				waiting++
			}
		}
		if waiting == 0 {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func scanNowFor(b *Box) error {
	b.forgetPaces()
	_, err := b.Scan(context.Background())
	return err
}

func BenchmarkVerify(b *testing.B) {
	box := newBox(b, Options{})
	for range 2000 {
		if _, err := box.Submit(b.Context(), request("bench")); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 1500 {
		c, err := box.Claim(b.Context(), ClaimRequest{Agent: "coder"})
		if err == nil && i < 1000 {
			err = c.Complete(b.Context(), Result{Output: jsontext.Value(`"done"`)})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	var r verify.Report
	for b.Loop() {
		var err error
		if r, err = verify.Home(b.Context(), box.home, verify.Options{}); err != nil || len(r.Findings) > 0 {
			b.Fatal(err, r.Findings)
		}
	}
	b.ReportMetric(float64(r.Tasks)*float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
