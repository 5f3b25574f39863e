package examples

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mbox/mailbox/linttest"
)

// here is this folder; the scripts are called by their full names.
var here string

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("SKIPPED: they run the built program, which is the same under the race detector")
		return
	}
	code, err := build(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// build puts the real mbox in front of PATH and runs the tests with it.
func build(m *testing.M) (int, error) {
	var err error
	if here, err = os.Getwd(); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "mbox-examples-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "mbox"), "mbox/cmd/mbox").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("go build: %w\n%s", err, out)
	}
	os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return m.Run(), nil
}

// house is a home and what runs in it.
type house struct {
	*testing.T
	home string
	env  []string
}

// newHouse makes a home. At the end of the test it has to pass mbox verify and
// the independent checker of the format.
func newHouse(t *testing.T, env ...string) *house {
	t.Helper()
	h := &house{T: t, home: filepath.Join(t.TempDir(), "agents")}
	h.env = append(append(os.Environ(), "MBOX_HOME="+h.home), env...)
	h.mbox("init", "--sync", "none")
	h.configure(`retry_base = "50ms"`)
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		h.mbox("verify")
		if err := linttest.Home(h.home, "--whole"); err != nil {
			t.Error(err)
		}
	})
	return h
}

// configure puts a line in front of mbox.toml.
func (h *house) configure(line string) {
	h.Helper()
	path := filepath.Join(h.home, "mbox.toml")
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append([]byte(line+"\n"), data...), 0o600)
	}
	if err != nil {
		h.Fatal(err)
	}
}

func (h *house) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Env = h.env
	c.Dir = filepath.Dir(h.home)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return c
}

// run runs a program to its end and returns what it printed.
func (h *house) run(name string, args ...string) string {
	h.Helper()
	var stderr bytes.Buffer
	c := h.command(name, args...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		h.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

func (h *house) mbox(args ...string) string { h.Helper(); return h.run("mbox", args...) }

// example is the full name of a file of this folder.
func example(name string) string { return filepath.Join(here, name) }

// start runs a program in the background; the returned function sends it SIGTERM
// and waits for it.
func (h *house) start(name string, args ...string) (stop func()) {
	h.Helper()
	var output bytes.Buffer
	c := h.command(name, args...)
	c.Stdout, c.Stderr = &output, &output
	c.WaitDelay = time.Second
	if err := c.Start(); err != nil {
		h.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	stop = sync.OnceFunc(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			<-ended
			h.Errorf("%s did not end by SIGTERM", filepath.Base(name))
		}
		if h.Failed() {
			h.Logf("%s %s:\n%s", filepath.Base(name), strings.Join(args, " "), output.String())
		}
	})
	h.Cleanup(stop)
	return stop
}

// up runs the router, and returns when it serves.
func (h *house) up() {
	h.Helper()
	h.start("mbox", "up")
	h.until("the router is up", func() bool {
		lock, err := os.OpenFile(filepath.Join(h.home, ".mbox/locks/routing"), os.O_RDWR, 0)
		if err != nil {
			h.Fatal(err)
		}
		defer lock.Close()
		return errors.Is(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
	})
}

func (h *house) until(what string, true func() bool) {
	h.Helper()
	for end := time.Now().Add(10 * time.Minute); !true(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatalf("still not: %s\n%s", what, h.mbox("ls"))
		}
	}
}

// drop puts a task into pending as anybody may: written beside, then renamed.
func (h *house) drop(name string, data []byte) {
	h.Helper()
	path := filepath.Join(h.home, "tasks/pending", name)
	if err := os.WriteFile(path+".part", data, 0o600); err != nil {
		h.Fatal(err)
	}
	if err := os.Rename(path+".part", path); err != nil {
		h.Fatal(err)
	}
}

// dropExamples drops the files of examples/tasks and returns their ids.
func (h *house) dropExamples() (ids []string) {
	h.Helper()
	paths, err := filepath.Glob(example("tasks/*.json"))
	if err != nil || len(paths) < 4 {
		h.Fatal(len(paths), err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			h.Fatal(err)
		}
		h.drop(filepath.Base(path), data)
		ids = append(ids, strings.TrimSuffix(filepath.Base(path), ".json"))
	}
	return ids
}

type task struct {
	ID         string `json:"id"`
	Assignment struct {
		PickedUpBy string `json:"picked_up_by"`
	} `json:"assignment"`
	Result struct {
		Output    any `json:"output"`
		Artifacts []struct {
			Path string `json:"path"`
		} `json:"artifacts"`
	} `json:"result"`
	Audit struct {
		StateChanges []struct {
			Reason string `json:"reason"`
		} `json:"state_changes"`
	} `json:"audit"`
	Mbox struct {
		Attempt  int `json:"attempt"`
		Progress struct {
			Message string `json:"message"`
		} `json:"progress"`
	} `json:"mbox"`
}

func (h *house) completed(id string) (t task) {
	h.Helper()
	data, err := os.ReadFile(filepath.Join(h.home, "tasks/completed", id+".json"))
	if err != nil {
		h.Fatal(err)
	}
	if err := json.Unmarshal(data, &t); err != nil {
		h.Fatal(err)
	}
	return t
}

func (h *house) names(state string) []string {
	h.Helper()
	entries, err := os.ReadDir(filepath.Join(h.home, "tasks", state))
	if err != nil {
		h.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

// summarise.sh under mbox worker does every example task.
func TestSummarise(t *testing.T) {
	h := newHouse(t)
	ids := h.dropExamples()
	h.mbox("worker", "--agent", "writer", "--exec", "'"+example("summarise.sh")+"'", "--once")
	if got := h.names("completed"); !slices.Equal(got, ids) {
		t.Fatalf("completed %v, want %v", got, ids)
	}
	done := h.completed("fix-login")
	if done.Result.Output != "Fix the login page: 23 words, attempt 1" {
		t.Errorf("%+v", done)
	}
	// A progress that comes with the end is not written down any more.
	if m := done.Mbox.Progress.Message; m != "" && m != "read the task" {
		t.Errorf("progress %q", m)
	}
	if len(done.Result.Artifacts) != 1 || filepath.Base(done.Result.Artifacts[0].Path) != "task.json" {
		t.Errorf("artifacts %+v", done.Result.Artifacts)
	}
	log, err := os.ReadFile(filepath.Join(h.home, "agents/writer/logs/fix-login.1.log"))
	if err != nil || strings.Contains(string(log), "mbox:progress") || !strings.Contains(string(log), " stderr fix-login has a description of 23 words\n") {
		t.Errorf("log %s: %v", log, err)
	}
}

// worker.sh does every example task, alone and without a router.
func TestWorkerSh(t *testing.T) {
	h := newHouse(t, "ONCE=yes", "WAIT=1s")
	ids := h.dropExamples()
	h.run(example("worker.sh"), "writer")
	if got := h.names("completed"); !slices.Equal(got, ids) {
		t.Fatalf("completed %v, want %v", got, ids)
	}
	if done := h.completed("fix-login"); done.Result.Output != "Fix the login page" || done.Assignment.PickedUpBy != "writer" || done.Mbox.Progress.Message != "begun" {
		t.Errorf("%+v", done)
	}
}

// A command that fails is tried again; a task's text cannot be taken for its id
// or token.
func TestWorkerShCommand(t *testing.T) {
	h := newHouse(t, "ONCE=yes", "WAIT=1s")
	h.mbox("send", "{\n  \"id\": \"other\",\n    \"lease\": {\n      \"token\": \"bad\"", "--id", "sly", "--to", "writer")
	h.run(example("worker.sh"), "writer", "sh", "-c", `echo "$MBOX_TASK_ID" >>ran; [ "$(wc -l <ran)" -ge 2 ] || exit 3; grep -c . `)
	done := h.completed("sly")
	if done.Mbox.Attempt != 2 || done.Audit.StateChanges[1].Reason != "exit: sh ended with exit code 3" {
		t.Errorf("%+v", done)
	}
}

// worker.py does every example task, and reads what they depend on.
func TestWorkerPy(t *testing.T) {
	h := newHouse(t, "ONCE=yes", "WAIT=1s")
	ids := h.dropExamples()
	h.run(example("worker.py"), "writer")
	if got := h.names("completed"); !slices.Equal(got, ids) {
		t.Fatalf("completed %v, want %v", got, ids)
	}
	out, ok := h.completed("release-notes").Result.Output.(map[string]any)
	if !ok || out["title"] != "Write the release notes" {
		t.Fatalf("%+v", out)
	}
	if before, ok := out["builds_on"].(map[string]any)["fix-login"].(map[string]any); !ok || before["words"] != 23.0 {
		t.Errorf("%+v", out)
	}
}

func TestWorkerPyCommand(t *testing.T) {
	h := newHouse(t, "ONCE=yes", "WAIT=1s")
	h.mbox("send", "x", "--id", "twice", "--to", "writer")
	h.run(example("worker.py"), "writer", "sh", "-c", `echo "$MBOX_TASK_ID" >>ran; [ "$(wc -l <ran)" -ge 2 ] || exit 3; echo fine`)
	done := h.completed("twice")
	if done.Mbox.Attempt != 2 || done.Result.Output != "fine" {
		t.Errorf("%+v", done)
	}
}

// mv-worker.sh does what names it, and nothing else.
func TestMvWorker(t *testing.T) {
	h := newHouse(t, "ONCE=yes")
	h.up()
	for i := range 5 {
		h.mbox("send", strings.Repeat("word ", i)+"word", "--id", fmt.Sprint("mine-", i), "--to", "hand")
	}
	h.mbox("send", "x", "--id", "other", "--to", "writer")
	h.mbox("send", "x", "--id", "later", "--to", "hand", "--not-before", "2099-01-01T00:00:00Z")
	h.run(example("mv-worker.sh"), "hand")
	h.until("all moves are written down", func() bool {
		return strings.Count(h.mbox("tail", "--json", "--no-follow", "--since", "1h"), `"to":"completed"`) == 5
	})
	for i := range 5 {
		done := h.completed(fmt.Sprint("mine-", i))
		if want := fmt.Sprint(i+1, " words in the title"); done.Result.Output != want || done.Assignment.PickedUpBy != "hand" {
			t.Errorf("%+v, want %q", done, want)
		}
	}
	if got := h.names("pending"); !slices.Equal(got, []string{"later", "other"}) {
		t.Errorf("pending %v", got)
	}
	if alarms := h.mbox("tail", "--json", "--no-follow", "--since", "1h", "--event", "error"); alarms != "" || len(h.names("quarantine")) > 0 {
		t.Errorf("quarantine %v, alarms %s", h.names("quarantine"), alarms)
	}
}

// The Python agent and mbox worker do a thousand tasks of one mailbox between
// them: none is lost, and none is done twice. What was done is known from a file
// outside the home, to which every execution appends one line.
func TestThousandTasks(t *testing.T) {
	const n = 1000
	journal := filepath.Join(t.TempDir(), "done")
	h := newHouse(t, "WAIT=1s")
	h.up()
	work := `echo "$MBOX_TASK_ID $0" >>'` + journal + `'; echo "done by $0"`
	h.start(example("worker.py"), "snake", "sh", "-c", work, "snake")
	h.start("mbox", "worker", "--agent", "badger", "--concurrency", "2", "--exec", `set -- badger; `+strings.ReplaceAll(work, "$0", "$1"))
	begun := time.Now()
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprintf("job-%04d", i)
		h.drop(want[i]+".json", fmt.Appendf(nil, `{"task":{"title":"Job %d"}}`, i))
	}
	h.until("all are completed", func() bool { return len(h.names("completed")) == n })
	t.Logf("%d tasks in %v", n, time.Since(begun))

	data, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	by := map[string]int{}
	for line := range strings.Lines(string(data)) {
		id, who, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		got = append(got, id)
		by[who]++
		if done := h.completed(id); done.Result.Output != "done by "+who || done.Assignment.PickedUpBy != who || done.Mbox.Attempt != 1 {
			t.Errorf("%s was done by %s: %+v", id, who, done)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d executions of %d tasks", len(got), n)
	}
	if by["snake"] == 0 || by["badger"] == 0 {
		t.Errorf("done by %v", by)
	}
	t.Logf("done by %v", by)
}
