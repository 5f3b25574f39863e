package acp

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"mbox/agents"
	"mbox/agents/policy"
	"mbox/agents/sandbox"
	"mbox/mailbox"
	"mbox/mailbox/linttest"
	"mbox/mailbox/mailboxtest"
)

// The test binary is also the program that speaks the protocol, well or badly.
func TestMain(m *testing.M) {
	sandbox.Main()
	if as := os.Getenv("ACP_TEST_AS"); as != "" {
		play(as)
	}
	os.Exit(m.Run())
}

// scene is a mailbox with one agent, claude, that is such a program.
type scene struct {
	*testing.T
	box    *mailbox.Box
	team   *agents.Team
	worker *agents.Worker
	canary string // a file outside
}

func newScene(t *testing.T, as string) *scene {
	t.Helper()
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	risk := policy.DefaultRiskProfile()
	s := &scene{T: t, canary: filepath.Join(t.TempDir(), "canary.md")}
	if err := os.WriteFile(s.canary, []byte("a secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.team = &agents.Team{
		Members: map[string]agents.Member{"claude": {Enabled: true, Asks: true}}, Actions: policy.NewWindow(math.MaxInt, nil), Salt: []byte("salt"),
		Policies: policy.Config{
			RiskProfiles: map[string]policy.RiskProfile{"default": risk}, RuntimeProfiles: map[string]policy.RuntimeProfile{"default": policy.DefaultRuntimeProfile()},
			Agents: map[string]policy.Agent{"claude": {Enabled: true, Exec: true}},
		},
	}
	t.Cleanup(func() { // when the box is closed
		if err := linttest.Home(home, "--whole"); err != nil {
			t.Error(err)
		}
	})
	s.box = mailboxtest.In(t, home, mailbox.Options{MaxAttempts: 1, ScanInterval: 300 * time.Millisecond, Review: s.team.Review, Approval: s.team.Approval})
	s.team.Policies.Home = s.box.Home()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.worker = &agents.Worker{
		Box: s.box, Agent: "claude", Team: s.team, Once: true, Grace: time.Second, Timeout: 30 * time.Second, Log: zerolog.New(zerolog.NewTestWriter(t)),
		Runtime: &Agent{Command: "ACP_TEST_AS='" + as + "' ACP_CANARY='" + s.canary + "' exec '" + self + "'", Start: 10 * time.Second},
	}
	return s
}

func (s *scene) send(title string) mailbox.ID {
	s.Helper()
	id, err := s.box.Submit(context.Background(), &mailbox.Task{Task: mailbox.Request{Title: title}, Assignment: mailbox.Assignment{TargetAgent: "claude"}})
	if err != nil {
		s.Fatal(err)
	}
	return id
}

// works lets the agent work until there is nothing to claim.
func (s *scene) works() {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.worker.Run(ctx); err != nil || ctx.Err() != nil {
		s.Fatal(err, ctx.Err())
	}
}

func (s *scene) task(id mailbox.ID) (*mailbox.Task, mailbox.State) {
	s.Helper()
	task, state, err := s.box.Task(context.Background(), id)
	if err != nil {
		s.Fatal(err)
	}
	return task, state
}

// answer is what the agent said at the end of a task that is completed.
func (s *scene) answer(id mailbox.ID) result {
	s.Helper()
	task, state := s.task(id)
	var r result
	if err := json.Unmarshal(task.Result.Output, &r); err != nil || state != mailbox.Completed {
		s.Fatalf("%s is %s: %s, %+v, %v", id, state, task.Result.Output, task.Result.Error, err)
	}
	return r
}

// question is the one that a task waits for.
func (s *scene) question(id mailbox.ID) mailbox.ID {
	s.Helper()
	task, state := s.task(id)
	if state != mailbox.Pending || len(task.Mbox.WaitsFor) != 1 {
		s.Fatalf("%s is %s and waits for %v: %+v %s", id, state, task.Mbox.WaitsFor, task.Result.Error, task.Result.Output)
	}
	return task.Mbox.WaitsFor[0]
}

func (s *scene) approve(id mailbox.ID) {
	s.Helper()
	if _, err := s.box.Approve(context.Background(), id, mailbox.Consent{By: "human", From: "a test", For: time.Hour}); err != nil {
		s.Fatal(err)
	}
}

// An agent does a task: what it says last is the result, with the files that it has
// changed; what it asks its client for goes through its policy.
func TestSession(t *testing.T) {
	s := newScene(t, "good")
	id := s.send("Tidy up")
	s.works()
	got := s.answer(id)
	told := strings.Split(strings.TrimPrefix(got.Answer, "Done: "), " | ")
	want := []string{
		"write", "read", `"two\n"`, "read outside refused (params.path: ", "write outside refused (params.path: ", "write up refused (params.path: ",
		"run", "wait", "output", `0 "it's $HOME\n"`, "release", "released refused (there is no such terminal)",
		"forbidden refused (", "hidden refused (", "preload refused (", "unknown refused (Method not found)",
	}
	for i, w := range want {
		if i >= len(told) || !strings.HasPrefix(told[i], w) {
			t.Errorf("it was told\n%s\nwant, at %d, %q", strings.Join(told, "\n"), i, w)
			break
		}
	}
	if len(told) != len(want) || strings.Join(got.Files, " ") != "a.md b.md" {
		t.Errorf("%d answers, files %q", len(told), got.Files)
	}
	if data, err := os.ReadFile(s.canary); err != nil || string(data) != "a secret" || strings.Contains(got.Answer, "a secret") {
		t.Errorf("outside there is %q, %v", data, err)
	}
	task, _ := s.task(id)
	if task.Mbox.Progress == nil || task.Mbox.Progress.Message == "" {
		t.Errorf("progress %+v", task.Mbox.Progress)
	}
}

// What the risk profile excludes no client does for the program.
func TestExcludedTools(t *testing.T) {
	s := newScene(t, "good")
	risk := s.team.Policies.RiskProfiles["default"]
	risk.ExcludedTools = []string{"read_file", agents.Terminal}
	s.team.Policies.RiskProfiles["default"] = risk
	id := s.send("Tidy up")
	s.works()
	got := s.answer(id).Answer
	for _, want := range []string{"| read refused (", "| run refused ("} {
		if !strings.Contains(got, want) {
			t.Errorf("it was told %s, want %s", got, want)
		}
	}
}

// A permission is a question to a person, for exactly one request: the task waits for
// it, and the next session has the answer. The same request twice is asked twice.
func TestPermission(t *testing.T) {
	s := newScene(t, "permission")
	id := s.send("Push it")
	s.works()
	first := s.question(id)
	asked, _ := s.task(first)
	params := string(asked.Mbox.Action.Params)
	if asked.Mbox.Action.Name != agents.Permission || !strings.Contains(params, `"push it"`) || !strings.Contains(params, "12345678901234567890") {
		t.Errorf("the question is %s", params)
	}
	s.works() // nobody has said anything
	if again := s.question(id); again != first {
		t.Errorf("it asks again: %s", again)
	}
	s.approve(first)
	s.works()
	second := s.question(id) // the same once more
	if second == first {
		t.Fatal("one approval has answered twice")
	}
	s.approve(second)
	s.works()
	third := s.question(id)
	if task, _ := s.task(third); !strings.Contains(string(task.Mbox.Action.Params), `"drop it"`) {
		t.Errorf("the third question is %s", task.Mbox.Action.Params)
	}
	if err := s.box.Cancel(context.Background(), third, "human", "not that"); err != nil {
		t.Fatal(err)
	}
	s.works()
	if got := s.answer(id); got.Answer != "push yes, push yes, drop no" {
		t.Errorf("it was told %q", got.Answer)
	}
	if task, _ := s.task(id); task.Mbox.Attempt != 1 {
		t.Errorf("%d attempts", task.Mbox.Attempt)
	}
}

// Where the risk profile approves by itself nobody is asked.
func TestPermissionByPolicy(t *testing.T) {
	s := newScene(t, "permission")
	risk := s.team.Policies.RiskProfiles["default"]
	risk.AutoApprove = append(risk.AutoApprove, agents.Permission)
	s.team.Policies.RiskProfiles["default"] = risk
	id := s.send("Push it")
	s.works()
	if got := s.answer(id); got.Answer != "push yes, push yes, drop yes" {
		t.Errorf("it was told %q", got.Answer)
	}
}

// A risk profile that excludes permissions refuses them all, and nobody is asked.
func TestPermissionExcluded(t *testing.T) {
	s := newScene(t, "permission")
	s.profiled(func(r *policy.RiskProfile) { r.ExcludedTools = []string{agents.Permission} })
	id := s.send("Push it")
	s.works()
	if got := s.answer(id); got.Answer != "push no, push no, drop no" {
		t.Errorf("it was told %q", got.Answer)
	}
}

// A question that somebody else makes answers nothing, and cannot be had without an
// approval.
func TestQuestionOfAnother(t *testing.T) {
	s := newScene(t, "permission")
	id := s.send("Push it")
	s.works()
	first, _ := s.task(s.question(id))
	forged, err := s.box.Submit(context.Background(), &mailbox.Task{
		Task: mailbox.Request{Title: "x"}, Assignment: mailbox.Assignment{TargetAgent: "claude"}, Source: mailbox.Source{Agent: "claude"}, Mbox: mailbox.Meta{Action: first.Mbox.Action},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.works()
	if _, state := s.task(forged); state != mailbox.Pending {
		t.Errorf("the forged question is %s", state)
	}
	s.approve(forged)
	s.works()
	if _, state := s.task(forged); state != mailbox.Completed {
		t.Errorf("the forged question is %s", state)
	}
	if s.question(id) != first.ID {
		t.Error("it has answered")
	}
}

// Programs that misbehave end their attempt, and nothing else.
func TestMisbehaving(t *testing.T) {
	for as, want := range map[string]struct{ code, text string }{
		"garbage": {"acp_garbage", "much that is no JSON"},
		"giant":   {"acp_garbage", "a frame of more than 4 MiB"},
		"windy":   {"acp_garbage", "an answer of more than 1 MiB"},
		"named":   {"acp_garbage", "an id of more than 256 bytes"},
		"hang":    {"timeout", "no end"},
		"deaf":    {"timeout", "no end"},
		"dies":    {"exit", "exit status 3: out of memory"},
		"mute":    {"acp_start", "initialize was not answered in"},
		"newer":   {"acp_version", "another version"},
		"login":   {"acp_login", "log in"},
		"refuses": {"acp_refusal", "I will not"},
	} {
		t.Run(as, func(t *testing.T) {
			s := newScene(t, as)
			s.worker.Timeout = 2 * time.Second
			if as == "mute" {
				s.worker.Runtime.(*Agent).Start = time.Second
			}
			id := s.send("x")
			begun := time.Now()
			s.works()
			task, state := s.task(id)
			if e := task.Result.Error; state != mailbox.Failed || e.Code != want.code || !strings.Contains(e.Message, want.text) {
				t.Errorf("%s: %+v", state, e)
			}
			if took := time.Since(begun); took > 25*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A program that does not read what it is sent holds up neither the beginning of its
// session nor the end of its time.
func TestUnread(t *testing.T) {
	for code, c := range map[string]struct{ start, timeout time.Duration }{
		"acp_start": {time.Second, 30 * time.Second},
		"timeout":   {30 * time.Second, 2 * time.Second},
	} {
		t.Run(code, func(t *testing.T) {
			s := newScene(t, "unread")
			s.worker.Runtime.(*Agent).Start, s.worker.Timeout = c.start, c.timeout
			id := s.send("x")
			s.works()
			if task, state := s.task(id); state != mailbox.Failed || task.Result.Error.Code != code {
				t.Errorf("%s: %+v", state, task.Result.Error)
			}
		})
	}
}

// An error of the program may tell that its quota is used up; what the agent says, in a
// result or in a refusal, may not.
func TestQuotaIsTheProgramsWord(t *testing.T) {
	for as, want := range map[string]mailbox.State{"spent": mailbox.Pending, "refuses": mailbox.Failed, "speaks of quotas": mailbox.Completed} {
		t.Run(as, func(t *testing.T) {
			s := newScene(t, as)
			s.worker.Quota = []*regexp.Regexp{regexp.MustCompile(`usage limit reached\|(\d+)`)}
			id := s.send("x")
			s.works()
			if task, state := s.task(id); state != want {
				t.Errorf("%s: %+v", state, task.Result.Error)
			}
		})
	}
}

// A program that ends is found out, whatever it has left unanswered.
func TestEndsUnanswered(t *testing.T) {
	s := newScene(t, "leaves")
	s.profiled(func(r *policy.RiskProfile) { r.AllowedCommands = []string{"sleep"} })
	id := s.send("x")
	s.works()
	if task, state := s.task(id); state != mailbox.Failed || task.Result.Error.Code != "exit" {
		t.Errorf("%s: %+v", state, task.Result.Error)
	}
}

// No notification is lost, however fast they come.
func TestFlood(t *testing.T) {
	s := newScene(t, "flood")
	id := s.send("x")
	s.works()
	if got := s.answer(id); len(got.Answer) != 5000 {
		t.Errorf("%d of 5000 came", len(got.Answer))
	}
}

// A task that is cancelled ends its session, and the program.
func TestCancelled(t *testing.T) {
	s := newScene(t, "hang")
	id := s.send("x")
	s.worker.Once = false
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- s.worker.Run(ctx) }()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, state := s.task(id); state == mailbox.InProgress {
			break
		} else if time.Now().After(end) {
			t.Fatal("it is not claimed")
		}
	}
	if err := s.box.Cancel(context.Background(), id, "human", "no more"); err != nil {
		t.Fatal(err)
	}
	stop()
	select {
	case err := <-over:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the worker does not end")
	}
	if task, state := s.task(id); state != mailbox.Failed || task.Result.Error.Code != "cancelled" {
		t.Errorf("%s: %+v", state, task.Result.Error)
	}
}

// The example agent of the SDK does a task, with its permission.
func TestExampleAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes its time")
	}
	s := newScene(t, "none")
	program := filepath.Join(t.TempDir(), "agent")
	build := exec.Command("go", "build", "-o", program, "github.com/coder/acp-go-sdk/example/agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.worker.Runtime = &Agent{Command: program}
	id := s.send("Look around")
	s.works()
	question := s.question(id)
	if task, _ := s.task(question); !strings.Contains(string(task.Mbox.Action.Params), "new-host") {
		t.Errorf("the question is %s", task.Mbox.Action.Params)
	}
	s.approve(question)
	s.works()
	if got := s.answer(id); !strings.HasPrefix(strings.TrimSpace(got.Answer), "Perfect!") || len(got.Files) != 1 {
		t.Errorf("%+v", got)
	}
}
