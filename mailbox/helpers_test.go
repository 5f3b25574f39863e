package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/mailbox/verify"
)

// clock is a clock that a test turns by hand. It begins at a whole second.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.at.Store(time.Now().Truncate(time.Second).UnixNano())
	return c
}

func (c *clock) now() time.Time           { return time.Unix(0, c.at.Load()) }
func (c *clock) turn(d time.Duration)     { c.at.Add(int64(d)) }
func (c *clock) options() Options         { return Options{Now: c.now, RetryBase: time.Nanosecond} }
func (c *clock) stamp(path string)        { _ = os.Chtimes(path, c.now(), c.now()) } // a dangling symlink has no times
func old(path string)                     { at := time.Now().Add(-10 * time.Minute); _ = os.Chtimes(path, at, at) }
func put(path, text string) error         { return os.WriteFile(path, []byte(text), 0o600) }
func (b *Box) pending(name string) string { return b.path("tasks", "pending", name) }

// whole runs our own verify on a home: it has to agree with the checker.
func whole(t interface {
	Helper()
	Errorf(string, ...any)
}, dir string,
) {
	t.Helper()
	r, err := verify.Home(context.Background(), dir, verify.Options{Deep: true})
	if err != nil {
		t.Errorf("verify: %v", err)
	}
	for _, f := range r.Findings {
		t.Errorf("verify: %v", f)
	}
}

// homes collects the homes of a table's rows, for one run of the checker.
type homes map[string]string

// open makes and opens a mailbox whose home is checked with the others.
func (h homes) open(t *testing.T, o Options) *Box {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	if o.Sync == durable.Standard {
		o.Sync = durable.None
	}
	must(t, Create(dir, o))
	b, err := Open(t.Context(), dir, o)
	must(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// keep registers a home for the checker. It is copied, because a subtest's
// folder goes with the subtest.
func (h homes) keep(t *testing.T, b *Box, kept string) {
	t.Helper()
	if t.Failed() {
		return
	}
	dir := filepath.Join(kept, fmt.Sprint(len(h)))
	must(t, os.Rename(b.Home(), dir))
	h[dir] = t.Name()
}

func must(t interface {
	Helper()
	Fatal(...any)
}, err error,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within fails the test if do takes longer, and then calls unblock, for a scan
// may not block on anything that lies in a folder. A panic is a failure too.
func within(t *testing.T, limit time.Duration, what string, unblock func(), do func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v", p)
			}
		}()
		done <- do()
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(limit):
		t.Errorf("%s: not done after %v", what, limit)
		if unblock != nil {
			unblock()
		}
		<-done
	}
}

// scanNow scans as a process does that has just been started: it looks into
// every folder, whatever it cost the last time.
func scanNow(b *Box, folders ...State) error {
	b.forgetPaces()
	if len(folders) == 0 {
		folders = []State{Pending, InProgress}
	}
	_, err := b.scan(context.Background(), folders, nil)
	return err
}

// forgetPaces makes the box look at everything again, as a new process does.
func (b *Box) forgetPaces() {
	b.paces.mu.Lock()
	b.paces.last = map[State]pace{}
	b.paces.mu.Unlock()
	b.mu.Lock()
	b.settledAt = time.Time{}
	b.mu.Unlock()
}

func mustScan(t testing.TB, b *Box, folders ...State) {
	t.Helper()
	must(t, scanNow(b, folders...))
}

// quarantine lists the reasons of the quarantine whose bytes are there.
func quarantine(t testing.TB, b *Box) []home.Reason {
	t.Helper()
	names, err := durable.Names(b.path("tasks", "quarantine"))
	must(t, err)
	var out []home.Reason
	for _, name := range names {
		entry, ok := strings.CutSuffix(name, home.ReasonSuffix)
		if !ok {
			continue
		}
		data, err := os.ReadFile(b.path("tasks", "quarantine", name))
		must(t, err)
		var r home.Reason
		must(t, json.Unmarshal(data, &r))
		if _, err := os.Lstat(b.path("tasks", "quarantine", entry)); err != nil {
			t.Errorf("%s is there, its entry is not: %v", name, err)
		}
		out = append(out, r)
	}
	return out
}

// lines returns the ledger's entries about a task; "" for all.
func lines(t testing.TB, b *Box, id ID) []audit.Entry {
	t.Helper()
	r := b.ledger.Read(audit.Position{})
	defer r.Close()
	var out []audit.Entry
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			if broken := r.Broken(); broken != nil {
				t.Error(broken)
			}
			return out
		}
		must(t, err)
		e, err := line.Decode()
		must(t, err)
		if id == "" || ID(e.Task()) == id {
			out = append(out, e)
		}
	}
}

// sent submits a task with everything in it that an edit could spoil.
func sent(t testing.TB, b *Box, id ID) {
	t.Helper()
	task, err := task.ParseDrop(id.File(), []byte(`{"task":{"title":"what was asked","description":"naïve ☂ 🙂","context":{"a":[1,2],"conversation_summary":"s","z":1}},
		"source":{"agent":"asker","session":"s"}}`))
	must(t, err)
	_, err = b.Submit(t.Context(), task)
	must(t, err)
}

func alarmsOf(t testing.TB, b *Box, id ID) (n int) {
	t.Helper()
	for _, e := range lines(t, b, id) {
		if e.Event == audit.ErrorEvent {
			n++
		}
	}
	return n
}

func movesOf(t testing.TB, b *Box, id ID) (n int) {
	t.Helper()
	for _, e := range lines(t, b, id) {
		if _, ok := task.MoveOf(&e); ok {
			n++
		}
	}
	return n
}

// said is where the ledger has a task.
func said(t testing.TB, b *Box, id ID) (s State) {
	t.Helper()
	for _, e := range lines(t, b, id) {
		if m, ok := task.MoveOf(&e); ok {
			s = m.Enters()
		}
	}
	return s
}

// adopt is mbox recover --adopt, said twice: the second time it does nothing.
func adopt(t testing.TB, b *Box, ids ...ID) Recovered {
	t.Helper()
	r, err := Recover(t.Context(), b.Home(), b.Options(), RecoverOptions{Adopt: ids})
	must(t, err)
	again, err := Recover(t.Context(), b.Home(), b.Options(), RecoverOptions{Adopt: ids})
	must(t, err)
	if again.Adopted != 0 || again.Mended != 0 || again.Quarantine != 0 {
		t.Errorf("recovering again did %+v", again)
	}
	return r
}
