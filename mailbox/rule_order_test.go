package mailbox

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// Tests of single rules of the protocol: the order of writes, flushes and
// renames.

// realBox is a mailbox that flushes.
func realBox(t *testing.T, m durable.Mode) *Box {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	must(t, Create(home, Options{Sync: m}))
	return opened(t, home, Options{Sync: m})
}

var (
	random = regexp.MustCompile(`[0-9a-f]{32}`)
	ofADay = regexp.MustCompile(`\d{4}-\d\d-\d\d`)
	aShard = regexp.MustCompile(`shard-[0-9a-f]{2}`)
)

// steps notes what do changes on the disk, in its order, with paths from the
// home and without what differs from run to run.
func steps(t *testing.T, home string, do func()) []string {
	t.Helper()
	var said []string
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		name := strings.TrimPrefix(path, home+"/")
		name = aShard.ReplaceAllString(ofADay.ReplaceAllString(random.ReplaceAllString(name, "TX"), "DAY"), "shard-N")
		said = append(said, string(op)+" "+name)
		return true, nil
	})
	defer remove()
	do()
	return said
}

func sameSteps(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// inOrder fails where one of the steps is missing or comes before the one that
// it is told after.
func inOrder(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	from := 0
	for _, w := range want {
		i := slices.Index(got[from:], w)
		if i < 0 {
			t.Errorf("%s: %q is missing, or too early, in\n  %s", what, w, strings.Join(got, "\n  "))
			return
		}
		from += i + 1
	}
}

// The order of a transition, step by step: the intent record, the lease, the
// staged content, the line, one flush, the renames, the copy, the blank record.
func TestRule08_OrderOfTransition(t *testing.T) {
	mark := "writeat .mbox/intents"
	const staged = ".mbox/tmp/x~TX"
	line := map[durable.Mode][]string{
		durable.Standard: {"append audit/shared/DAY.jsonl", "writeat .mbox/journal", "writeat .mbox/locks/chain", "writeat .mbox/locks/sync", "sync .mbox/journal", "writeat .mbox/locks/sync"},
		durable.Strict:   {"append audit/shared/DAY.jsonl", "writeat .mbox/locks/chain", "sync audit/shared/DAY.jsonl"},
	}
	stage := map[durable.Mode][]string{
		durable.Standard: {"create " + staged, "append " + staged},
		durable.Strict:   {"create " + staged, "append " + staged, "sync " + staged},
	}
	for m, flushed := range line {
		if m == durable.Standard && !durable.CanSyncFS {
			continue
		}
		b := realBox(t, m)
		sent(t, b, "first") // it begins journal, day and copies
		c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
		must(t, err)
		must(t, c.Complete(t.Context(), Result{}))
		got := steps(t, b.home, func() { sent(t, b, "x") })
		want := slices.Concat([]string{mark}, stage[m], flushed, []string{"move tasks/pending/x.json"})
		sameSteps(t, fmt.Sprintf("submit in mode %d", m), got[:min(len(got), len(want))], want)

		got = steps(t, b.home, func() {
			c, err = b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: true})
			must(t, err)
		})
		lease := []string{"create .mbox/leases/x.TX", "append .mbox/leases/x.TX"}
		want = slices.Concat([]string{mark}, lease, stage[m], flushed)
		want = append(want, "move tasks/in-progress/x.json", "exchange tasks/in-progress/x.json")
		if m == durable.Strict {
			inOrder(t, "claim in mode strict", got, append(want, "syncdir tasks/pending", "syncdir tasks/in-progress", mark)...)
		} else {
			sameSteps(t, "claim", got, slices.Concat(want, []string{"remove " + staged, mark}))
		}

		got = steps(t, b.home, func() { must(t, c.Complete(t.Context(), Result{})) })
		want = slices.Concat([]string{mark}, stage[m], flushed, []string{"exchange tasks/in-progress/x.json"})
		if m == durable.Strict {
			inOrder(t, "complete in mode strict", got, append(want, "move tasks/completed/x.json", "syncdir tasks/in-progress", "syncdir tasks/completed", mark)...)
		} else {
			ended := []string{"remove " + staged, "move tasks/completed/x.json", "remove .mbox/children/x.TX", "remove .mbox/leases/x.TX", mark}
			want = slices.Concat(want, ended)
			sameSteps(t, "complete", slices.Compact(got), slices.Compact(want))
		}
		must(t, c.Close())
	}
}

// What the journal does not take is flushed before the line, and what a line
// names besides: artifacts, what goes to quarantine, records.
func TestRule11_FlushedBeforeTheLine(t *testing.T) {
	b := realBox(t, durable.Standard)
	sent(t, b, "x")
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	const line = "append audit/shared/DAY.jsonl"
	large := jsontext.Value(`"` + strings.Repeat("o", 2*audit.MaxPayload) + `"`)
	got := steps(t, b.home, func() { must(t, c.Complete(t.Context(), Result{Output: large})) })
	inOrder(t, "a large task", got, "append .mbox/tmp/x~TX", "sync .mbox/tmp/x~TX", line, "exchange tasks/in-progress/x.json")

	b.drop(t, "junk.json", "[]")
	got = steps(t, b.home, func() { mustScan(t, b) })
	const reason = ".mbox/tmp/junk.json~TX.reason.json"
	inOrder(t, "quarantine", got, "sync "+reason, line, "move tasks/quarantine/junk.json~TX", "move tasks/quarantine/junk.json~TX.reason.json")
	if i := slices.IndexFunc(got, func(s string) bool { return s == "sync "+b.pending("junk.json") || s == "sync tasks/pending/junk.json" }); i < 0 || i > slices.Index(got, line) {
		t.Errorf("what goes to quarantine is not flushed before its line: %q", got)
	}

	got = steps(t, b.home, func() {
		if err := c.Complete(t.Context(), Result{Output: jsontext.Value(`"late"`)}); err == nil {
			t.Error("a late result was taken")
		}
	})
	inOrder(t, "a late result", got, "sync .mbox/tmp/x.result.json~TX", line, "move tasks/quarantine/x.result.json~TX")

	got = steps(t, b.home, func() {
		if _, err := b.Decide(t.Context(), decision("")); err != nil {
			t.Error(err)
		}
	})
	inOrder(t, "a decision", got, "writeat .mbox/intents", "sync .mbox/tmp/decision-DAY-001.md~TX", line, "move decisions/decision-DAY-001.md")
}

// Artifacts, and the folders that they lie in, are on disk before anything names
// them.
func TestRule11_ArtifactsAreFlushed(t *testing.T) {
	b := realBox(t, durable.Standard)
	sent(t, b, "x")
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	from := filepath.Join(t.TempDir(), "report.txt")
	must(t, put(from, "a report"))
	_, err = c.Keep(t.Context(), from)
	must(t, err)
	got := steps(t, b.home, func() { must(t, c.Complete(t.Context(), Result{})) })
	const dir = ".mbox/tmp/x.1~TX"
	inOrder(t, "completed", got, "writeat .mbox/intents", "append "+dir+"/report.txt", "sync "+dir+"/report.txt", "syncdir "+dir,
		"move tasks/artifacts/x.1", "syncdir tasks/artifacts", "append audit/shared/DAY.jsonl")
}

// What comes with a task is on disk, under its name, before the line; and in its place
// before the task is.
func TestRule11_AttachmentsAreFlushed(t *testing.T) {
	b := realBox(t, durable.Standard)
	got := steps(t, b.home, func() {
		n := request("x")
		n.ID = "x"
		_, err := SubmitWith(t.Context(), b, n, []File{{Name: "report.txt", Data: []byte("a report")}})
		must(t, err)
	})
	const dir = ".mbox/tmp/x.0~TX"
	inOrder(t, "submitted", got, "writeat .mbox/intents", "append "+dir+"/report.txt", "sync "+dir+"/report.txt", "syncdir "+dir,
		"syncdir .mbox/tmp", "append audit/shared/DAY.jsonl", "move tasks/artifacts/x.0", "syncdir tasks/artifacts", "move tasks/pending/x.json")
}

// A new home is on disk when Create says so, and so is a new month of the archive.
func TestRule12_NewNamesAreFlushed(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	got := steps(t, home, func() { must(t, Create(home, Options{})) })
	for i, s := range got {
		op, name, _ := strings.Cut(s, " ")
		if (op == "mkdir" || op == "create" && name != ".mbox/tmp/probe~a" && name != ".mbox/tmp/probe~b") && name != home {
			parent := filepath.Dir(name)
			if parent == "." {
				parent = home
			}
			if !slices.Contains(got[i:], "syncdir "+parent) {
				t.Errorf("%s: its name is not flushed", name)
			}
		}
	}
	last := slices.Index(got, "replace .mbox/VERSION")
	if last < 0 {
		t.Fatal("VERSION was not written")
	}
	for _, s := range got[last:] { // behind it only the journal begins, which the first line would begin as well
		op, name, _ := strings.Cut(s, " ")
		if op != "syncdir" && name != ".mbox/VERSION" && name != ".mbox/journal" && name != ".mbox/locks/chain" {
			t.Errorf("VERSION is not the last: %q follows", s)
		}
	}
	b := opened(t, home, Options{})
	sent(t, b, "x")
	must(t, b.Cancel(t.Context(), "x", "human", "no"))
	got = steps(t, home, func() {
		n, err := b.Archive(t.Context(), 0, "human")
		if err != nil || n != 1 {
			t.Errorf("%d %v", n, err)
		}
	})
	month := "tasks/archive/" + b.now().UTC().Format("2006-01")
	inOrder(t, "archive", got, "mkdir "+month, "syncdir tasks/archive", "move "+month+"/x.json")
}

// Whoever settles flushes the ledger before he acts on a line from it.
func TestRule05_SettleFlushesFirst(t *testing.T) {
	for _, m := range []durable.Mode{durable.Standard, durable.Strict} {
		b := realBox(t, m)
		sent(t, b, "first")
		remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
			if op == durable.OpSync && (strings.HasSuffix(path, "journal") || strings.HasSuffix(path, ".jsonl")) || op == durable.OpMove {
				return false, errInjected // killed while it flushes, so its line is written
			}
			return true, nil
		})
		task := request("x")
		task.ID = "x"
		_, err := b.Submit(t.Context(), task)
		remove()
		if err == nil {
			t.Fatal("it was not killed")
		}
		must(t, b.Close())
		must(t, os.Remove(audit.ReadOnlyPath(b.home))) // that mark came from how it was killed
		var next *Box
		got := steps(t, b.home, func() { next = opened(t, b.home, b.o) })
		flush := slices.IndexFunc(got, func(s string) bool { return s == "sync .mbox/journal" || s == "sync audit/shared/DAY.jsonl" })
		move := slices.Index(got, "move tasks/pending/x.json")
		if flush < 0 || move < flush {
			t.Errorf("mode %d: %q", m, got)
		}
		if at := said(t, next, "x"); at != Pending {
			t.Errorf("it is %q", at)
		}
	}
}

// The mailbox is made writable again only when what the journal alone had is on
// disk, file by file.
func TestOrderAfterIOError(t *testing.T) {
	b := realBox(t, durable.Standard)
	if !durable.CanSyncFS {
		t.Skip("syncfs is missing: there is no journal on this system")
	}
	sent(t, b, "x")
	must(t, b.Close())
	must(t, put(audit.ReadOnlyPath(b.home), "now: a test"))
	got := steps(t, b.home, func() {
		_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{AfterIOError: true})
		must(t, err)
	})
	inOrder(t, "recover", got,
		"replace .mbox/boot", "sync .mbox/journal", "sync .mbox/tmp/x~TX", "exchange tasks/pending/x.json", "sync audit/shared/.DAY.jsonl.new", "exchange audit/shared/DAY.jsonl",
		"syncfs .mbox", "remove .mbox/journal", "remove .mbox/readonly", "replace .mbox/boot")
}
