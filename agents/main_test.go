package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"mbox/agents/sandbox"
	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/linttest"
)

// The test binary is also what the tests run: a worker that can be killed, and
// a command that completes its own task.
func TestMain(m *testing.M) {
	sandbox.Main()
	switch os.Getenv("AGENTS_TEST_AS") {
	case "worker":
		exit(runWorker(os.Getenv("AGENTS_TEST_HOME"), os.Getenv("AGENTS_TEST_EXEC")))
	case "complete":
		exit(completeOwn())
	}
	dir, err := os.MkdirTemp("/dev/shm", "mbox-agents-")
	if err == nil {
		os.Setenv("TMPDIR", dir) // tmpfs, where there is one
	}
	code := m.Run()
	if err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runWorker(home, line string) error {
	ctx := context.Background()
	lease, _ := time.ParseDuration(os.Getenv("AGENTS_TEST_LEASE")) // 0 if it is not there
	b, err := mailbox.Open(ctx, home, mailbox.Options{Sync: durable.None, Lease: lease})
	if err != nil {
		return err
	}
	w := Worker{Box: b, Agent: "coder", Exec: line}
	return w.Run(ctx)
}

// completeOwn does what mbox complete does: it ends the claim with its token.
func completeOwn() error {
	ctx := context.Background()
	b, err := mailbox.Open(ctx, os.Getenv("MBOX_HOME"), mailbox.Options{Sync: durable.None})
	if err != nil {
		return err
	}
	c, err := b.Held(ctx, mailbox.ID(os.Getenv("MBOX_TASK_ID")), os.Getenv("MBOX_TOKEN"))
	if err != nil {
		return err
	}
	return c.Complete(ctx, mailbox.Result{Output: []byte(`"by the command"`)})
}

// self is a command line that runs this binary as something else.
func self(t *testing.T, as string) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return "AGENTS_TEST_AS=" + as + " '" + path + "'"
}

// patienceOfTests is how long a test waits for what has to come.
const patienceOfTests = 20 * time.Second

// until polls for what has to come true.
func until(t *testing.T, what string, true func() bool) {
	t.Helper()
	for end := time.Now().Add(patienceOfTests); !true(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// scene is a mailbox with one worker, and what the worker logs.
type scene struct {
	*testing.T
	box *mailbox.Box
	dir string // outside the home, for what commands write; $OUT for them
	log *transcript
}

// newScene makes a mailbox. At the end of the test its home has to pass the
// independent checker of the format.
func newScene(t *testing.T, o mailbox.Options) *scene {
	t.Helper()
	o.Sync = durable.None
	if o.ScanInterval == 0 {
		o.ScanInterval = 300 * time.Millisecond
	}
	if o.RetryBase == 0 {
		o.RetryBase = time.Millisecond
	}
	s := &scene{T: t, dir: t.TempDir(), log: new(transcript)}
	home := filepath.Join(t.TempDir(), "home")
	if err := mailbox.Create(home, o); err != nil {
		t.Fatal(err)
	}
	s.box = s.open(home, o)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the worker's log:\n%s", s.log)
			return
		}
		s.noLeftovers()
		s.box.Close()
		lint(t, home)
	})
	return s
}

func (s *scene) open(home string, o mailbox.Options) *mailbox.Box {
	s.Helper()
	b, err := mailbox.Open(context.Background(), home, o)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { b.Close() })
	return b
}

// another opens the mailbox a second time, as another process would.
func (s *scene) another() *mailbox.Box { return s.open(s.box.Home(), s.box.Options()) }

func lint(t *testing.T, home string) {
	t.Helper()
	if err := linttest.Home(home, "--whole"); err != nil {
		t.Error(err)
	}
}

// noLeftovers checks that no attempt left its copy of the task, its spool or a
// lease behind.
func (s *scene) noLeftovers() {
	for _, pattern := range []string{"agents/coder/workspace/.*", ".mbox/leases/*", ".mbox/children/*", ".mbox/tmp/*"} {
		if left, _ := filepath.Glob(filepath.Join(s.box.Home(), pattern)); len(left) > 0 {
			s.Errorf("left behind: %q", left)
		}
	}
}

// leaseFile is the lease of the one claim that there is.
func (s *scene) leaseFile() string {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(s.box.Home(), ".mbox/leases/*"))
	if err != nil || len(files) != 1 {
		s.Fatalf("leases: %q (%v)", files, err)
	}
	return files[0]
}

func (s *scene) worker(line string) *Worker {
	line = "export OUT='" + s.dir + "'\n" + line
	return &Worker{Box: s.box, Agent: "coder", Exec: line, Grace: 5 * time.Second, Log: zerolog.New(s.log)}
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) submit(title string) mailbox.ID {
	s.Helper()
	id, err := s.box.Submit(context.Background(), &mailbox.Task{Task: mailbox.Request{Title: title}})
	if err != nil {
		s.Fatal(err)
	}
	return id
}

// run starts a worker; the returned function stops it and waits.
func (s *scene) run(w *Worker) (stop func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		s.Helper()
		cancel()
		select {
		case err := <-done:
			if err != nil {
				s.Errorf("Run: %v", err)
			}
		case <-time.After(w.Grace + patienceOfTests):
			s.Errorf("Run does not end")
		}
	})
	s.Cleanup(stop)
	return stop
}

// once runs a worker until there is nothing to claim.
func (s *scene) once(w *Worker) {
	s.Helper()
	s.onceFails(w, "")
}

// onceFails is once for a worker that has to say that it cannot work, and why.
func (s *scene) onceFails(w *Worker, want string) {
	s.Helper()
	w.Once = true
	ctx, cancel := context.WithTimeout(context.Background(), patienceOfTests)
	defer cancel()
	if err := w.Run(ctx); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		s.Fatalf("Run: %v, want %q", err, want)
	}
	if ctx.Err() != nil {
		s.Fatal("Run did not end by itself")
	}
}

func (s *scene) task(id mailbox.ID) (*mailbox.Task, mailbox.State) {
	s.Helper()
	t, state, err := s.box.Task(context.Background(), id)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Fatal(err)
	}
	return t, state
}

func (s *scene) untilState(id mailbox.ID, want mailbox.State) *mailbox.Task {
	s.Helper()
	until(s.T, fmt.Sprintf("%s in %s", id, want), func() bool { _, state := s.task(id); return state == want })
	t, _ := s.task(id)
	return t
}

// wantOutput checks that the task is completed with the output.
func (s *scene) wantOutput(id mailbox.ID, want string) {
	s.Helper()
	t, state := s.task(id)
	if state != mailbox.Completed || string(t.Result.Output) != want {
		s.Errorf("%s is %s with output %.200s and error %+v, want %s", id, state, t.Result.Output, t.Result.Error, want)
	}
}

// wantFailed checks that the task has failed with the code, and that the message
// has the text.
func (s *scene) wantFailed(id mailbox.ID, code, text string) {
	s.Helper()
	t, state := s.task(id)
	if e := t.Result.Error; state != mailbox.Failed || e.Code != code || !strings.Contains(e.Message, text) {
		s.Errorf("%s is %s with error %+v, want %s and %q", id, state, t.Result.Error, code, text)
	}
}

// events are the ledger's events for a task, in order.
func (s *scene) events(id mailbox.ID) (events []audit.Event) {
	s.Helper()
	r := s.box.Ledger().Read(audit.Position{})
	defer r.Close()
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			s.Fatal(err)
		}
		if e, err := line.Decode(); err != nil {
			s.Fatal(err)
		} else if e.Task() == string(id) {
			events = append(events, e.Event)
		}
	}
}

// written is what a command wrote to $OUT/name; "" if it is not there yet.
func (s *scene) written(name string) string {
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Fatal(err)
	}
	return string(data)
}

// pid is the process that a command wrote to $OUT/name.
func (s *scene) pid(name string) int {
	s.Helper()
	var n int
	until(s.T, name, func() (ok bool) {
		text := s.written(name)
		n, _ = strconv.Atoi(strings.TrimSpace(text))
		return n > 1 && strings.HasSuffix(text, "\n")
	})
	return n
}

// dead tells whether a process has ended; a zombie has.
func dead(pid int) bool {
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

// transcript collects a log.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
