package mailbox

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// Who has opened a home writes nothing into another one that lies in its place since: no
// line of what it knows, and no mark that says it is damaged.
func TestReplacedHome(t *testing.T) {
	for what, makes := range map[string]func(dir, aside string) error{
		"a new mailbox": func(dir, _ string) error { return Create(dir, Options{Sync: durable.None}) },
		"a copy as it was before": func(dir, aside string) error {
			return errors.Join(os.CopyFS(dir, os.DirFS(aside)), os.RemoveAll(dir+"/.mbox/boot"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBox(t, Options{ScanInterval: time.Second})
			sent(t, b, "one")
			dir := b.Home()
			aside := t.TempDir() + "/aside"
			must(t, os.CopyFS(aside, os.DirFS(dir)))
			sent(t, b, "two")
			must(t, errors.Join(os.Rename(dir, dir+".old"), makes(dir, aside)))
			end := ledgerOf(t, dir)

			var other *home.ReplacedError
			if _, err := b.Submit(t.Context(), &Task{Task: Request{Title: "three"}}); !errors.As(err, &other) {
				t.Errorf("submit: %v", err)
			}
			if err := b.judgeMissing(t.Context(), []ID{"two"}); !errors.As(err, &other) {
				t.Errorf("what the other home lacks: %v", err)
			}
			if err := b.ledger.Stop(audit.ErrDamaged); !errors.As(err, &other) {
				t.Errorf("stop: %v", err)
			}
			if err := b.recoverAll(t.Context(), true); !errors.As(err, &other) {
				t.Errorf("recovery: %v", err)
			}
			if err := b.Route(t.Context(), RouterOptions{}); !errors.As(err, &other) {
				t.Errorf("router: %v", err)
			}
			if _, err := os.Stat(audit.ReadOnlyPath(dir)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it is read-only: %v", err)
			}
			if now := ledgerOf(t, dir); now != end {
				t.Errorf("its ledger has %q, it had %q", now, end)
			}
			must(t, errors.Join(os.RemoveAll(dir), os.Rename(dir+".old", dir)))
		})
	}
}

// ledgerOf is all that the ledger of a home has.
func ledgerOf(t *testing.T, dir string) (all string) {
	t.Helper()
	names, err := durable.Names(dir + "/audit/shared")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(dir + "/audit/shared/" + name)
		must(t, err)
		all += name + "\n" + string(data)
	}
	return all
}

// A router ends where its home is replaced while it waits.
func TestRouterOfAReplacedHome(t *testing.T) {
	b := newBox(t, Options{ScanInterval: time.Second})
	dir := b.Home()
	ready := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- b.Route(t.Context(), RouterOptions{Ready: func() { close(ready) }}) }()
	<-ready
	must(t, errors.Join(os.Rename(dir, dir+".old"), Create(dir, Options{Sync: durable.None})))
	var other *home.ReplacedError
	if err := <-ended; !errors.As(err, &other) || other.Home != dir {
		t.Errorf("it ended with %v", err)
	}
	must(t, errors.Join(os.RemoveAll(dir), os.Rename(dir+".old", dir)))
}

// What a copy of a home says to be at work works in the home that was copied, and goes on.
func TestRule22_CopyEndsNoWork(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", ID: "x", Process: true})
	must(t, err)
	work := exec.Command("cat")
	in, err := work.StdinPipe()
	must(t, err)
	must(t, work.Start())
	must(t, c.Started(work.Process.Pid))
	copied := t.TempDir() + "/copy"
	must(t, os.CopyFS(copied, os.DirFS(b.Home())))
	other, err := Open(t.Context(), copied, b.Options())
	must(t, err)
	if f, _, err := other.Task(t.Context(), "x"); err != nil || f.Result.Status != Pending {
		t.Errorf("in the copy it is %s: %v", f.Result.Status, err)
	}
	must(t, other.Close())
	must(t, in.Close())
	if err := work.Wait(); err != nil { // cat ends by itself, with 0
		t.Errorf("the work: %v", err)
	}
	must(t, c.Complete(t.Context(), Result{}))
}
