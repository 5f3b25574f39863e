package agents

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox"
)

// What becomes of stdout.
func TestOutput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ line, want string }{
		"text":                 {`echo 'all 30 files read'`, `"all 30 files read"`},
		"newlines at the end":  {`printf 'one\ntwo\n\n'`, `"one\ntwo"`},
		"nothing":              {`:`, `""`},
		"newlines only":        {`echo`, `""`},
		"json":                 {`echo '{"answer": [42, null]}'`, `{"answer":[42,null]}`},
		"number":               {`echo 12345678901234567890`, `12345678901234567890`},
		"json with a rest":     {`echo '{"a":1} x'`, `"{\"a\":1} x"`},
		"breaking out":         {`echo '1],[2'`, `"1],[2"`},
		"duplicate key":        {`echo '{"a":1,"a":2}'`, `"{\"a\":1,\"a\":2}"`},
		"no UTF-8":             {`printf 'a\377b'`, `"a` + "\uFFFD" + `b"`},
		"no UTF-8 in JSON":     {`printf '"a\377b"'`, `"\"a` + "\uFFFD" + `b\""`},
		"thirty levels":        {`printf '%30s%30s' | tr ' ' '[' | sed 's/\[\{30\}$/]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]/'`, strings.Repeat("[", 30) + strings.Repeat("]", 30)},
		"too deep for a task":  {`printf '%31s%31s' | tr ' ' '[' | sed 's/\[\{31\}$/]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]/'`, `"` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `"`},
		"stdin is not read":    {`exec <&-; echo fine`, `"fine"`},
		"stdout is closed":     {`exec >&-; sleep 0.05`, `""`},
		"a command's own exec": {`exec echo gone`, `"gone"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, mailbox.Options{})
			id := s.submit("x")
			s.once(s.worker(c.line))
			task, _ := s.task(id)
			var compact bytes.Buffer
			if err := json.Compact(&compact, task.Result.Output); err != nil || compact.String() != c.want {
				t.Errorf("output %s, want %s, error %+v", compact.String(), c.want, task.Result.Error)
			}
		})
	}
}

// A long output goes through a file and becomes an artifact; its tail stays.
func TestLongOutput(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	id := s.submit("x")
	s.once(s.worker(`seq 1 400000; echo the end`))
	task, state := s.task(id)
	if state != mailbox.Completed || len(task.Result.Artifacts) != 1 {
		t.Fatalf("%s %+v %+v", state, task.Result.Artifacts, task.Result.Error)
	}
	if !strings.HasSuffix(string(task.Result.Output), `400000\nthe end"`) {
		t.Errorf("the output's tail is %.60s", task.Result.Output[len(task.Result.Output)-60:])
	}
	data, err := os.ReadFile(filepath.Join(s.box.Home(), task.Result.Artifacts[0].Path))
	if err != nil || len(data) <= maxMemory || !strings.HasPrefix(string(data), "1\n2\n3\n") || !strings.HasSuffix(string(data), "\nthe end") {
		t.Errorf("the artifact has %d bytes: %v", len(data), err)
	}
}

// No more than maxOutput is kept, less what a secret may begin with, and the result says
// so.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	o := &output{dir: t.TempDir(), heard: func() {}, hide: hideKey}
	defer o.close()
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range maxOutput>>20 + 1 {
		if n, err := o.Write(block); n != len(block) || err != nil {
			t.Fatal(n, err)
		}
	}
	if o.memory.Len() > maxMemory || o.size != maxOutput || o.cut != 1<<20 {
		t.Errorf("%d in memory, %d of all, %d cut", o.memory.Len(), o.size, o.cut)
	}
	v, err := o.value()
	if err != nil || !strings.HasSuffix(string(v), `x\n[mbox: 1064960 bytes more were not kept]"`) {
		t.Errorf("%v, ends in %s", err, v[len(v)-50:])
	}
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{MaxAttempts: 1})
	id := s.submit("x")
	s.once(s.worker(`echo one >$MBOX_ARTIFACTS/one; mkdir $MBOX_ARTIFACTS/d; echo two >$MBOX_ARTIFACTS/d/two; echo done`))
	s.wantOutput(id, `"done"`)
	task, _ := s.task(id)
	var paths []string
	for _, a := range task.Result.Artifacts {
		paths = append(paths, a.Path)
	}
	at := "tasks/artifacts/" + string(id) + ".1/"
	if got := strings.Join(paths, " "); got != at+"d/two "+at+"one" {
		t.Errorf("artifacts %s", got)
	}
	if left, _ := filepath.Glob(filepath.Join(s.box.AgentDir("coder"), "workspace/*/*")); left != nil {
		t.Errorf("the workspace keeps %q", left)
	}
	next := &mailbox.Task{Task: mailbox.Request{Title: "read"}, Mbox: mailbox.Meta{DependsOn: []mailbox.ID{id}}}
	next.Assignment.TargetAgent = "coder"
	reader, err := s.box.Submit(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	s.once(s.worker(`cd $MBOX_INPUTS; cat */d/two */one; ls ` + string(id)))
	s.wantOutput(reader, `"two\none\nd\none"`)
	none := s.submit("y")
	s.once(s.worker(`:`))
	s.wantOutput(none, `""`)
	if left, _ := filepath.Glob(filepath.Join(s.box.AgentDir("coder"), "workspace/artifacts/"+string(none)+"*")); left != nil {
		t.Errorf("an empty folder stays: %q", left)
	}
	link := s.submit("z")
	s.once(s.worker(`echo canary >canary; ln -s $PWD/canary $MBOX_ARTIFACTS/link`))
	s.wantFailed(link, "artifacts", "link")
}

func TestDeferred(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line string
		want time.Duration
	}{
		"without a delay": {`exit 75`, 5 * time.Second},
		"with one":        {`echo mbox:delay 30s >&2; exit 75`, 30 * time.Second},
		"the last counts": {`echo mbox:delay 1h >&2; echo mbox:delay 2h >&2; exit 75`, 2 * time.Hour},
		"a wrong one":     {`echo mbox:delay soon >&2; exit 75`, 5 * time.Second},
		"a negative one":  {`echo mbox:delay -1s >&2; exit 75`, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, mailbox.Options{})
			id := s.submit("x")
			before := time.Now()
			s.once(s.worker(c.line))
			task, state := s.task(id)
			if state != mailbox.Pending || task.Mbox.Attempt != 0 || task.Mbox.NotBefore == nil {
				t.Fatalf("%s, attempt %d, not before %v", state, task.Mbox.Attempt, task.Mbox.NotBefore)
			}
			if wait := task.Mbox.NotBefore.Sub(before); wait < c.want-time.Millisecond || wait > c.want+patienceOfTests {
				t.Errorf("waits %v, want %v", wait, c.want)
			}
		})
	}
}

// A command that cannot be run is no task's fault: no attempt is burnt, the reason stands
// in the ledger, and its agent claims nothing more for a while.
func TestCommandCannotRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line, why string
		exits     map[int]Meaning
		failed    bool
	}{
		"not there":       {line: `exec /nowhere/at/all`, why: "exit status 127: "},
		"not executable":  {line: `touch a; exec ./a`, why: "exit status 126: "},
		"no interpreter":  {line: `printf '#!/nowhere/sh\n' >a; chmod +x a; exec ./a`, why: "exit status 12"},
		"says what it is": {line: `echo full >&2; exit 127`, exits: map[int]Meaning{127: MeansFinal}, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, mailbox.Options{MaxAttempts: 1})
			id, second := s.submit("x"), s.submit("y")
			w := s.worker(c.line)
			w.Exit = c.exits
			want := ""
			if !c.failed {
				want = "cannot work: the command cannot run: " + c.why
			}
			s.onceFails(w, want)
			task, state := s.task(id)
			if c.failed {
				s.wantFailed(id, "exit", "exit status 127: full")
				return
			}
			if state != mailbox.Pending || task.Mbox.Attempt != 0 || time.Until(task.Mbox.NotBefore.Time) > releaseDelay {
				t.Fatalf("%s, attempt %d, not before %v", state, task.Mbox.Attempt, task.Mbox.NotBefore)
			}
			changes := task.Audit.StateChanges
			if reason := changes[len(changes)-1].Reason; !strings.Contains(reason, "the command cannot run: "+c.why) {
				t.Errorf("the reason is %q", reason)
			}
			if events := s.events(second); len(events) != 1 {
				t.Errorf("another task was claimed as well: %v", events)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ line, code, text string }{
		"exit code":      {`echo wrong >&2; exit 3`, "exit", "exit status 3: wrong"},
		"says nothing":   {`exit 1`, "exit", "exit status 1"},
		"no newline":     {`printf 'the end' >&2; exit 4`, "exit", "exit status 4: the end"},
		"control lines":  {`echo mbox:progress 40% reading >&2; echo wrong >&2; exit 5`, "exit", "exit status 5: wrong"},
		"signal":         {`kill -SEGV $$`, "signal", "killed by signal: segmentation fault"},
		"killed":         {`echo ouch >&2; kill -KILL $$`, "signal", "killed by signal: killed: ouch"},
		"cannot start":   {`: ` + strings.Repeat("x", 200<<10), "start", "argument list too long"},
		"does not parse": {`if`, "exit", "exit status 2: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, mailbox.Options{MaxAttempts: 1})
			id := s.submit("x")
			s.once(s.worker(c.line))
			s.wantFailed(id, c.code, c.text)
		})
	}
}

// An attempt that failed is not final: the next one begins after a pause.
func TestRetries(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{MaxAttempts: 3})
	id := s.submit("x")
	s.run(s.worker(`echo $MBOX_ATTEMPT >>$OUT/attempts; [ $MBOX_ATTEMPT = 3 ] || exit 9; echo third`))
	s.untilState(id, mailbox.Completed)
	if got := s.written("attempts"); got != "1\n2\n3\n" {
		t.Errorf("attempts %q", got)
	}
}

// The tail of stderr that goes into the error is bounded, and so is a line.
func TestTail(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{MaxAttempts: 1})
	id := s.submit("x")
	s.once(s.worker(`head -c 300000 /dev/zero | tr '\0' y >&2; echo >&2; seq 1 5000 >&2; printf '\377end' >&2; exit 3`))
	task, _ := s.task(id)
	m := task.Result.Error.Message
	if len(m) > maxTail+40 || len(m) < maxTail-40 || !strings.HasSuffix(m, "\n4999\n5000\n\uFFFDend") {
		t.Errorf("%d bytes: %q", len(m), m)
	}
	for _, line := range s.logged() {
		if len(line.Text) > maxRemark+500 {
			t.Errorf("a line of %d bytes", len(line.Text))
		}
	}
}

// logged are the lines of what was said in the tasks' attempts.
func (s *scene) logged() (said []Said) {
	s.Helper()
	logs, err := AttemptLogs(s.box.Home(), "coder", "")
	for _, l := range logs {
		if err == nil {
			_, err = l.Lines(Place{}, func(line Said) error {
				said = append(said, line)
				return nil
			})
		}
	}
	if err != nil {
		s.Fatal(err)
	}
	return said
}

// Lines on stderr are kept by attempt, made harmless, and in nobody else's reach.
func TestLog(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	id := s.submit("x")
	s.once(s.worker(`printf 'one\nmbox:progress 5 five\ntw\033[2Jo\377\r\nmbox:progressive\n"three' >&2`))
	var messages []string
	for _, l := range s.logged() {
		if l.Kind != SaidStderr || time.Since(l.At.Time) > time.Minute {
			t.Errorf("%+v", l)
		}
		messages = append(messages, l.Text)
	}
	if got, want := strings.Join(messages, "|"), `one|tw\x1b[2Jo`+"\uFFFD"+`|mbox:progressive|"three`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	info, err := os.Stat(filepath.Join(s.box.AgentDir("coder"), "logs", string(id)+".1.log"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

func TestParseProgress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		percent int
		message string
	}{
		"40% reading":      {40, "reading"},
		"40 reading files": {40, "reading files"},
		"100":              {100, ""},
		"0%":               {0, ""},
		"reading":          {-1, "reading"},
		"101 dalmatians":   {-1, "101 dalmatians"},
		"-1 below":         {-1, "-1 below"},
		"4.5% precise":     {-1, "4.5% precise"},
		"":                 {-1, ""},
	} {
		p := parseProgress(text)
		if got := p.Message; got != want.message {
			t.Errorf("%q: message %q", text, got)
		}
		if p.Percent == nil && want.percent >= 0 || p.Percent != nil && *p.Percent != want.percent {
			t.Errorf("%q: percent %v", text, p.Percent)
		}
	}
}

// Progress goes into the task file, at most once a second, and the last one in a
// second is not lost; with a short lease, which is renewed more often, neither.
func TestProgress(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]time.Duration{"long lease": time.Minute, "short lease": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, mailbox.Options{Lease: lease})
			id := s.submit("x")
			s.run(s.worker(`echo mbox:progress 1% step 1 >&2; until grep -q '"step 1"' $MBOX_HOME/tasks/in-progress/*; do sleep 0.02; done
				for i in $(seq 2 50); do echo "mbox:progress $i% step $i" >&2; done; until [ -e $OUT/go ]; do sleep 0.02; done`))
			begun := time.Now()
			until(t, "the last progress", func() bool {
				task, _ := s.task(id)
				p := task.Mbox.Progress
				return p != nil && p.Percent != nil && *p.Percent == 50 && p.Message == "step 50"
			})
			took := time.Since(begun)
			s.give("go")
			s.untilState(id, mailbox.Completed)
			n := 0
			for _, e := range s.events(id) {
				if e == audit.TaskProgress {
					n++
				}
			}
			if most := 1 + int(took/time.Second) + 1; n > most {
				t.Errorf("%d progress lines in %v", n, took)
			}
		})
	}
}

// give makes $OUT/name, for a command that waits for it.
func (s *scene) give(name string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
		s.Fatal(err)
	}
}

// A command may end its claim itself; then its exit code counts for nothing and
// nothing is called late.
func TestCommandCompletesItself(t *testing.T) {
	t.Parallel()
	for name, rest := range map[string]string{"and succeeds": `; echo ignored`, "and fails": `; exit 3`, "and goes on": `; sleep 0.3; echo on >$OUT/on`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, mailbox.Options{})
			id := s.submit("x")
			s.once(s.worker(self(t, "complete") + rest))
			s.wantOutput(id, `"by the command"`)
			if got := s.events(id); len(got) != 3 {
				t.Errorf("events %v", got)
			}
			if strings.Contains(rest, "on") && s.written("on") == "" {
				t.Error("the command was killed when it had completed its task")
			}
		})
	}
}
