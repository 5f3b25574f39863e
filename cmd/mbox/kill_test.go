package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mbox/mailbox/durable"
	"mbox/mailbox/linttest"
)

// builtDir is where builtMbox built, to be removed when all tests have run.
var builtDir string

// builtMbox is the real program, built once a test run.
var builtMbox = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "mbox-built-")
	if err != nil {
		return "", err
	}
	builtDir = dir
	bin := filepath.Join(dir, "mbox")
	build := exec.Command("go", "build", "-tags", "urfave_cli_no_docs", "-buildvcs=false", "-o", bin, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // static, as it is shipped
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return bin, nil
})

// program is the path of the real program. It is built as it is shipped, without
// the race detector, so under that a test of it shows only what it shows without.
func program(t *testing.T) string {
	t.Helper()
	if raced && testing.Short() {
		t.Skip("what it starts is built without the race detector")
	}
	bin, err := builtMbox()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// diskDir is a folder on a real disk, where a flush is one.
func diskDir(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{os.TempDir(), "/var/tmp", "."} {
		if name, _, err := durable.FileSystem(dir); err != nil || name == "tmpfs" {
			continue
		}
		dir, err := os.MkdirTemp(dir, "mbox-kill-")
		if err != nil {
			continue
		}
		if dir, err = filepath.Abs(dir); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the home is left in %s", dir)
				return
			}
			os.RemoveAll(dir)
		})
		return dir
	}
	t.Fatal("there is no disk to write to")
	return ""
}

// storm is a home in which commands are killed, and the journal of what they
// acknowledged before. The journal is the oracle; it lies outside the home.
type storm struct {
	*testing.T
	bin, dir, home string
	random         *rand.Rand
	patience       time.Duration // after which a command is killed at the latest
	daemons        []*daemon

	sent    []string          // ids that send printed
	claims  []heldClaim       // that claim printed
	outputs map[string]string // id → the output whose completion was acknowledged
	acked   map[string]int    // event and id → acknowledged so often
	records []string          // ids that decision new printed
	answers map[string]int    // verb and exit code → how often
	serial  int
}

type heldClaim struct{ id, token string }

// daemon is a process that runs until it is killed.
type daemon struct {
	args []string
	cmd  *exec.Cmd
}

func (s *storm) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.bin, args...)
	cmd.Env = append(os.Environ(), "MBOX_HOME="+s.home, "GOCOVERDIR=")
	cmd.Dir = s.dir
	return cmd
}

// must runs a command to its end and wants exit code 0.
func (s *storm) must(args ...string) string {
	s.Helper()
	cmd := s.command(args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		s.Fatalf("mbox %s: %v\n%s%s", strings.Join(args, " "), err, out, said.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// strike runs a command, most often with a SIGKILL on its way. done tells that
// it came to its end with exit code 0, or 76: committed.
func (s *storm) strike(args ...string) (out string, done bool) {
	s.Helper()
	cmd := s.command(args...)
	var data, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &data, &said
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	if s.random.IntN(5) < 3 {
		killer := time.AfterFunc(time.Duration(s.random.Int64N(int64(s.patience))), func() { _ = cmd.Process.Kill() })
		defer killer.Stop()
	}
	err := cmd.Wait()
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode() // -1: killed
	} else if err != nil {
		s.Fatal(err)
	}
	s.answers[fmt.Sprintf("%s %d", args[0], code)]++
	switch code {
	case 0, exitCommitted:
		return strings.TrimSpace(data.String()), true
	case -1, exitNotFound, exitConflict, exitStale, exitBusy, exitPolicy:
		return "", false
	}
	s.Errorf("mbox %s: exit code %d\n%s", strings.Join(args, " "), code, said.Bytes())
	return "", false
}

func (s *storm) any(ids []string) string {
	if len(ids) == 0 {
		return "no-such-task"
	}
	return ids[s.random.IntN(len(ids))]
}

// The verbs. Each notes what was acknowledged.

func (s *storm) send() {
	s.serial++
	args := []string{"send", fmt.Sprintf("task %d", s.serial), "--to", []string{"hand", "worker", "any"}[s.random.IntN(3)]}
	if s.random.IntN(2) == 0 {
		args = append(args, "--id", fmt.Sprintf("own-%d", s.serial))
	}
	if id, done := s.strike(args...); done {
		s.sent = append(s.sent, id)
		s.note("task_created", id)
	}
}

func (s *storm) note(event, id string) {
	s.acked[event+" "+id]++
	fmt.Fprintln(s.journal(), event, id)
}

// journal is kept in a file too, for whoever has to find out what happened.
func (s *storm) journal() io.Writer {
	f, err := os.OpenFile(filepath.Join(s.dir, "journal"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { f.Close() })
	return f
}

func (s *storm) claim() {
	out, done := s.strike("claim", "--agent", "hand", "--json")
	if !done {
		return
	}
	var task struct {
		ID   string `json:"id"`
		Mbox struct {
			Lease struct {
				Token string `json:"token"`
			} `json:"lease"`
		} `json:"mbox"`
	}
	if err := json.Unmarshal([]byte(out), &task); err != nil || task.Mbox.Lease.Token == "" {
		s.Fatalf("claim printed %q: %v", out, err)
	}
	s.claims = append(s.claims, heldClaim{task.ID, task.Mbox.Lease.Token})
	s.note("task_picked", task.ID)
}

// held says a verb of a claim, one of the last.
func (s *storm) held(verb string, args ...string) (id string, done bool) {
	if len(s.claims) == 0 {
		s.claim()
		return "", false
	}
	i := len(s.claims) - 1 - s.random.IntN(min(3, len(s.claims)))
	c := s.claims[i]
	_, done = s.strike(slices.Concat([]string{verb, c.id, "--token", c.token}, args)...)
	if done && verb != "progress" && s.random.IntN(4) > 0 {
		s.claims = slices.Delete(s.claims, i, i+1) // some are kept, to come late with
	}
	return c.id, done
}

func (s *storm) complete() {
	s.serial++
	output := fmt.Sprintf("output %d", s.serial)
	if id, done := s.held("complete", "--output", output); done {
		s.outputs[id] = output
		s.note("task_completed", id)
	}
}

func (s *storm) fail() {
	s.serial++ // the same verb with the same content is done once
	args := []string{"--reason", fmt.Sprint("no ", s.serial)}
	event := "task_retried or task_failed"
	if s.random.IntN(2) == 0 {
		args, event = append(args, "--final"), "task_failed"
	}
	if id, done := s.held("fail", args...); done {
		s.note(event, id)
	}
}

func (s *storm) release() {
	s.serial++
	if id, done := s.held("release", "--reason", fmt.Sprint("later ", s.serial)); done {
		s.note("task_released", id)
	}
}

func (s *storm) progress() { s.held("progress", "--percent", "50", "--message", "on it") }

func (s *storm) cancel() {
	id := s.any(s.sent)
	if _, done := s.strike("cancel", id); done {
		s.acked["cancelled "+id] = 1
	}
}

func (s *storm) retry() {
	s.strike("retry", s.any(s.sent))
}

func (s *storm) archive() { s.strike("archive", "--older-than", "0s") }
func (s *storm) recover() { s.strike("recover") }
func (s *storm) look()    { s.strike("audit", "delegation", "--json") }

func (s *storm) decide() {
	if id, done := s.strike("decision", "new", "--context", "c", "--option", "o", "--decision", "d"); done {
		s.records = append(s.records, id)
	}
}

// approve approves a task that carries an action; others are refused.
func (s *storm) approve() {
	s.serial++
	file := filepath.Join(s.dir, "task.json")
	text := fmt.Sprintf(`{"task":{"title":"task %d"},"assignment":{"target_agent":"hand"},"mbox":{"action":{"name":"touch"}}}`, s.serial)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	if id, done := s.strike("send", file); done {
		s.sent = append(s.sent, id)
		s.note("task_created", id)
	}
	if id, done := s.strike("approve", s.any(s.sent)); done {
		s.records = append(s.records, id)
	}
}

func (s *storm) start(d *daemon) {
	s.Helper()
	d.cmd = s.command(d.args...)
	log, err := os.OpenFile(filepath.Join(s.dir, d.args[0]+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	d.cmd.Stderr = log
	if err := d.cmd.Start(); err != nil {
		s.Fatal(err)
	}
}

func (s *storm) kill(d *daemon) {
	s.Helper()
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Kill()
	err := d.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		log, _ := os.ReadFile(filepath.Join(s.dir, d.args[0]+".log"))
		s.Errorf("mbox %s ended by itself: %v\n%s", strings.Join(d.args, " "), err, log)
	}
	d.cmd = nil
}

// calm kills what runs and looks: the next command settles everything, and the
// home is whole.
func (s *storm) calm() {
	s.Helper()
	for _, d := range s.daemons {
		s.kill(d)
	}
	s.must("ls")
	s.must("verify")
	if err := linttest.Home(s.home); err != nil {
		s.Error(err)
	}
}

// fact is a ledger line, as far as the oracle reads it.
type fact struct {
	Event   string  `json:"event"`
	TaskID  *string `json:"task_id"`
	Details struct {
		From, To *string
		Reason   string
	} `json:"details"`
}

func (s *storm) ledger() (facts []fact) {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(s.home, "audit", "shared", "*.jsonl"))
	if err != nil || len(files) == 0 {
		s.Fatalf("no ledger: %v", err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			s.Fatal(err)
		}
		in := bufio.NewScanner(f)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			var line fact
			if json.Unmarshal(in.Bytes(), &line) == nil { // what a kill tore is verify's
				facts = append(facts, line)
			}
		}
		f.Close()
	}
	return facts
}

// files finds every task file there is: id → folder and content.
func (s *storm) files() (folders map[string]string, contents map[string][]byte) {
	s.Helper()
	folders, contents = map[string]string{}, map[string][]byte{}
	for _, pattern := range []string{"pending", "in-progress", "completed", "failed", "archive/*"} {
		names, err := filepath.Glob(filepath.Join(s.home, "tasks", pattern, "*.json"))
		if err != nil {
			s.Fatal(err)
		}
		for _, name := range names {
			id := strings.TrimSuffix(filepath.Base(name), ".json")
			if folders[id] != "" {
				s.Errorf("%s lies in %s and in %s", id, folders[id], name)
			}
			data, err := os.ReadFile(name)
			if err != nil {
				s.Fatal(err)
			}
			folders[id], contents[id] = strings.Split(pattern, "/")[0], data
		}
	}
	return folders, contents
}

// account compares the journal with what is there.
func (s *storm) account() {
	s.Helper()
	folders, contents := s.files()
	counts := map[string]int{}
	for _, f := range s.ledger() {
		if f.TaskID != nil && f.Details.To != nil {
			counts[f.Event+" "+*f.TaskID]++
		}
	}
	for id, folder := range folders {
		if n := counts["task_completed "+id]; n > 1 {
			s.Errorf("%s was completed %d times", id, n)
		}
		if folder == "" {
			s.Errorf("%s lies nowhere", id)
		}
	}
	for _, id := range s.sent {
		if folders[id] == "" {
			s.Errorf("%s was acknowledged and is gone", id)
		}
	}
	for id, output := range s.outputs {
		if f := folders[id]; f != "completed" && f != "archive" || !bytes.Contains(contents[id], []byte(`"output": "`+output+`"`)) {
			s.Errorf("%s was acknowledged as completed with %q and is in %s: %s", id, output, f, contents[id])
		}
	}
	for what, n := range s.acked {
		events, id, _ := strings.Cut(what, " ")
		if events == "cancelled" {
			if counts["task_cancelled "+id] == 0 {
				s.Errorf("%s was acknowledged as cancelled; it is in %s", id, folders[id])
			}
			continue
		}
		have := 0
		for event := range strings.SplitSeq(what[:strings.LastIndex(what, " ")], " or ") {
			have += counts[event+" "+what[strings.LastIndex(what, " ")+1:]]
		}
		if have < n {
			s.Errorf("%q was acknowledged %d times, the ledger has %d", what, n, have)
		}
	}
	for _, id := range s.records {
		if _, err := os.Stat(filepath.Join(s.home, "decisions", id+".md")); err != nil {
			s.Errorf("decision %s was acknowledged: %v", id, err)
		}
	}
}

// TestKillStorm kills one-shot commands after 0 to 15 ms, and a router and a
// worker now and then, in one home on a real disk. Whatever was acknowledged
// holds in the end, and every twenty commands the home is whole.
func TestKillStorm(t *testing.T) {
	bin := program(t)
	rounds := sized(40, 200, 2000)
	dir := diskDir(t)
	s := &storm{
		T: t, bin: bin, dir: dir, home: filepath.Join(dir, "home"), random: rand.New(rand.NewPCG(seedOf(t), 1)),
		outputs: map[string]string{}, acked: map[string]int{}, answers: map[string]int{},
		daemons: []*daemon{
			{args: []string{"up"}},
			{args: []string{"worker", "--agent", "worker", "--exec", `sleep 0.0$(($$ % 5)); test $(($$ % 7)) != 0 && echo "by pid $$"`}},
		},
	}
	s.must("init")
	config := "retry_base = \"10ms\"\npoll_interval = \"1s\"\n"
	if err := os.WriteFile(filepath.Join(s.home, "mbox.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.patience = s.measure()
	defer func() {
		for _, d := range s.daemons {
			if d.cmd != nil {
				_ = d.cmd.Process.Kill()
				_ = d.cmd.Wait()
			}
		}
	}()
	verbs := []func(){
		s.send, s.send, s.send, s.send, s.claim, s.claim, s.claim, s.progress, s.complete, s.complete, s.complete,
		s.fail, s.release, s.cancel, s.retry, s.archive, s.decide, s.approve, s.recover, s.look,
	}
	for i := range rounds {
		switch d := s.daemons[s.random.IntN(len(s.daemons))]; {
		case d.cmd == nil:
			s.start(d)
		case s.random.IntN(6) == 0:
			s.kill(d)
		}
		verbs[s.random.IntN(len(verbs))]()
		if i%20 == 19 {
			s.calm()
			s.account()
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	s.afterwards()
}

// measure is how long a command may take before it is killed: up to 15 ms, and
// on a slow machine long enough that kills fall into all of its steps.
func (s *storm) measure() time.Duration {
	var took []time.Duration
	for range 5 {
		begun := time.Now()
		id := s.must("send", "to measure")
		took = append(took, time.Since(begun))
		s.sent = append(s.sent, id)
	}
	slices.Sort(took)
	limit := max(15*time.Millisecond, took[2]*3/2)
	s.Logf("a send takes %v; commands are killed within %v", took[2], limit)
	return limit
}

// afterwards is one more full cycle: everything that waits is worked off.
func (s *storm) afterwards() {
	s.must("recover")
	s.calm()
	s.account()
	for _, agent := range []string{"hand", "worker"} {
		s.must("worker", "--agent", agent, "--once", "--exec", "echo in the end")
	}
	s.calm()
	s.account()
	s.Logf("answers: %v", s.answers)
	folders, _ := s.files()
	ends := map[string]int{}
	for _, f := range folders {
		ends[f]++
	}
	s.Logf("%d acknowledged tasks; in the end: %v", len(s.sent), ends)
	if ends["pending"] > 0 {
		s.Errorf("%d tasks still wait after every agent has worked", ends["pending"])
	}
	for _, needed := range []string{"send 0", "send -1", "claim 0", "claim -1", "complete 0"} {
		if s.answers[needed] == 0 && !testing.Short() {
			s.Errorf("no command answered %q: the storm proves little", needed)
		}
	}
}
