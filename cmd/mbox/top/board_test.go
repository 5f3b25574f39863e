package top

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/mailboxtest"
	"mbox/mailbox/task"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newBox is a mailbox with a clock that the test turns.
func newBox(t *testing.T, o mailbox.Options) (box *mailbox.Box, turn func(time.Duration)) {
	t.Helper()
	var mu sync.Mutex
	now := time.Now()
	o.Now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	return mailboxtest.New(t, o), func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
}

func send(t *testing.T, box *mailbox.Box, id mailbox.ID, change func(*mailbox.Task)) {
	t.Helper()
	s := &mailbox.Task{ID: id}
	s.Task.Title, s.Source.Agent = "title of "+string(id), "human"
	if change != nil {
		change(s)
	}
	_, err := box.Submit(t.Context(), s)
	must(t, err)
}

func (b *Board) problem(kind string) string {
	for _, p := range b.Problems {
		if p.Kind == kind {
			return string(p.Task) + ": " + p.Text + "; " + p.Hint
		}
	}
	return ""
}

func column(b *Board, s mailbox.State) *Column { return &b.Columns[task.FolderIndex(s)] }

// A board has what the folders have: counts, the order, titles, ages, and who works.
func TestBoardIsWhatLies(t *testing.T) {
	box, turn := newBox(t, mailbox.Options{Agents: map[string]mailbox.Capabilities{"coder": {Types: []string{"other"}}}})
	for _, id := range []mailbox.ID{"first", "second", "third", "fourth", "fifth"} {
		send(t, box, id, func(s *mailbox.Task) {
			if id == "fourth" {
				s.Task.Priority = "urgent"
			}
			if id == "fifth" {
				s.Assignment.TargetAgent = "coder"
			}
		})
		turn(time.Second)
	}
	r := newReader(box, nil)
	read := func() *Board {
		t.Helper()
		b, err := r.read(t.Context(), nil)
		must(t, err)
		return b
	}
	b := read()
	if c := column(b, mailbox.Pending); c.Count != 5 || c.Rows[0].ID != "fourth" || c.Rows[1].ID != "first" || c.Rows[1].Title != "title of first" || !c.Oldest.Equal(c.Rows[1].Since.Time) {
		t.Errorf("pending: %+v", c)
	}
	claim, err := box.Claim(t.Context(), mailbox.ClaimRequest{Agent: "coder", Process: true})
	must(t, err)
	defer claim.Close()
	must(t, box.Cancel(t.Context(), "first", "human", "no"))
	must(t, box.Cancel(t.Context(), "second", "human", "no"))
	b = read()
	if c := column(b, mailbox.InProgress); c.Count != 1 || c.Rows[0].ID != claim.ID() || c.Rows[0].By != "coder" {
		t.Errorf("in progress: %+v", c)
	}
	if c := column(b, mailbox.Failed); c.Count != 2 || len(c.Rows) != 2 || c.Rows[0].Title == "" || c.Rows[0].Since.Before(c.Rows[1].Since.Time) {
		t.Errorf("failed: %+v", c)
	}
	if a := b.Agents[0]; a.Name != "coder" || len(a.Holds) != 1 || a.Since == nil || !a.Known {
		t.Errorf("agents: %+v", b.Agents)
	}
	if len(b.Problems) != 0 {
		t.Errorf("problems where there are none: %+v", b.Problems)
	}
	if want, _ := box.Ledger().Seen(); b.Seq != want.Seq {
		t.Errorf("seq %d, want %d", b.Seq, want.Seq)
	}
}

// Each kind of problem is found, and goes when it is gone.
func TestBoardHasTheProblems(t *testing.T) {
	box, turn := newBox(t, mailbox.Options{
		Lease: time.Minute, StartWithin: time.Hour,
		Agents: map[string]mailbox.Capabilities{"coder": {}, "sleeper": {Disabled: true}},
		Approval: func(s *mailbox.Task) string {
			if s.Mbox.Action == nil {
				return ""
			}
			return "actions need a word"
		},
	})
	r, touched := newReader(box, nil), map[mailbox.ID]bool{}
	want := func(kind, text string) {
		t.Helper()
		b, err := r.read(t.Context(), touched)
		must(t, err)
		if got := b.problem(kind); text == "" && got != "" || !strings.Contains(got, text) {
			t.Errorf("%s: got %q, want %q in %+v", kind, got, text, b.Problems)
		}
	}
	send(t, box, "late", nil)
	want(kindAlarm, "")
	turn(2 * time.Hour)
	want(kindAlarm, "late: nobody has taken it for 2h")
	_, err := box.Claim(t.Context(), mailbox.ClaimRequest{Agent: "passer-by"})
	must(t, err)
	want(kindAlarm, "")
	want(kindClaim, "")
	turn(2 * time.Minute)
	want(kindClaim, "late: its lease ended at")
	must(t, box.Cancel(t.Context(), "late", "human", "no"))
	want(kindClaim, "")
	want(kindFailed, "") // somebody wanted it so

	send(t, box, "asleep", func(s *mailbox.Task) { s.Assignment.TargetAgent = "sleeper" })
	want(kindAlarm, "asleep: sleeper is not enabled")
	must(t, box.Cancel(t.Context(), "asleep", "human", "no"))
	send(t, box, "rests", func(s *mailbox.Task) { s.Assignment.TargetAgent = "coder" })
	want(kindPaused, "")
	_, err = mailbox.PauseAgent(t.Context(), box, mailbox.Pause{Agent: "coder", By: "human", Until: box.Options().Now().Add(time.Minute), Reason: "quiet"})
	must(t, err)
	want(kindPaused, ": quiet; tasks that wait for it: 1; mbox agent resume coder")
	turn(2 * time.Minute)
	want(kindPaused, "")
	must(t, box.Cancel(t.Context(), "rests", "human", "no"))
	send(t, box, "asks", func(s *mailbox.Task) {
		s.Assignment.TargetAgent, s.Mbox.Action = "coder", &mailbox.Action{Name: "deploy"}
	})
	want(kindApproval, "asks: pending: it waits for an approval (mbox approve asks): actions need a word; mbox approve asks")
	_, err = box.Approve(t.Context(), "asks", mailbox.Consent{By: "human", For: time.Hour})
	must(t, err)
	touched["asks"] = true
	want(kindApproval, "")

	send(t, box, "breaks", nil)
	c, err := box.Claim(t.Context(), mailbox.ClaimRequest{Agent: "passer-by"})
	must(t, err)
	must(t, c.Fail(t.Context(), mailbox.Failure{TaskError: mailbox.TaskError{Code: "broken", Message: "it\nbroke"}, Final: true}))
	want(kindFailed, string(c.ID())+": broken: it; broke")
	broken, err := os.ReadFile(filepath.Join(box.Home(), "tasks", "failed", c.ID().File()))
	must(t, err)
	bad := filepath.Join(box.Home(), "tasks", "failed", "-bad id!.json") // which no verb takes
	must(t, os.WriteFile(bad, broken, 0o600))
	want(kindFailed, string(c.ID())+": broken: it; broke")
	must(t, os.Remove(bad))
	must(t, box.Retry(t.Context(), c.ID(), "human", "again"))
	want(kindFailed, "")

	drop := filepath.Join(box.Home(), "tasks", "pending", "half.json")
	must(t, os.WriteFile(drop, []byte("{"), 0o600))
	must(t, os.Chtimes(drop, r.now(), r.now()))
	want(kindDrop, "")
	turn(time.Minute)
	want(kindDrop, ": 1 dropped in pending")
	must(t, os.Remove(drop))
	want(kindDrop, "")
	must(t, os.WriteFile(filepath.Join(box.Home(), "tasks", "quarantine", "odd~1"), []byte("x"), 0o600))
	want(kindQuarantine, ": 1 kept in tasks/quarantine")
	must(t, os.Rename(filepath.Join(box.Home(), "tasks", "completed"), filepath.Join(box.Home(), "elsewhere")))
	want(kindGone, "completed")
	must(t, os.Rename(filepath.Join(box.Home(), "elsewhere"), filepath.Join(box.Home(), "tasks", "completed")))
	want(kindGone, "")
	must(t, os.WriteFile(audit.ReadOnlyPath(box.Home()), []byte("2026-11-21T00:00:00.000Z: the disk broke\n"), 0o600))
	want(kindReadOnly, ": the mailbox is read-only since 2026-11-21T00:00:00.000Z: the disk broke; mbox doctor")
}

// Of many that failed a few are told, and the others counted; of what was cancelled none.
func TestManyThatFailed(t *testing.T) {
	box, turn := newBox(t, mailbox.Options{})
	for i := range 63 {
		send(t, box, mailbox.ID(fmt.Sprintf("t%04d", i)), nil)
		c, err := box.Claim(t.Context(), mailbox.ClaimRequest{Agent: "coder"})
		must(t, err)
		must(t, c.Fail(t.Context(), mailbox.Failure{TaskError: mailbox.TaskError{Code: "broken", Message: "no"}, Final: true}))
	}
	send(t, box, "unwanted", nil)
	must(t, box.Cancel(t.Context(), "unwanted", "human", "no"))
	turn(time.Second)
	b, err := Read(t.Context(), box, true, nil)
	must(t, err)
	last := b.Problems[len(b.Problems)-1]
	if len(b.Problems) != mostTogether+1 || b.Needs() != 63 || last.Count != 58 || !strings.HasPrefix(last.Text, "58 more failed since 20") || strings.Contains(last.Text, "before that") {
		t.Errorf("%d problems of %d, the last is %+v", len(b.Problems), b.Needs(), last)
	}
}

// What waits for approvals in great number is counted, too.
func TestManyApprovals(t *testing.T) {
	box, _ := newBox(t, mailbox.Options{Approval: func(*mailbox.Task) string { return "actions need a word" }})
	for i := range mostAsked + 7 {
		send(t, box, mailbox.ID(fmt.Sprintf("t%04d", i)), func(s *mailbox.Task) {
			s.Assignment.TargetAgent, s.Mbox.Action = "coder", &mailbox.Action{Name: "deploy"}
		})
	}
	b, err := Read(t.Context(), box, true, nil)
	must(t, err)
	if last := b.Problems[len(b.Problems)-1]; len(b.Problems) != mostTogether+1 || last.Text != "12 more that may wait for an approval" || last.Hint != "mbox approve" {
		t.Errorf("%d problems, the last is %+v", len(b.Problems), last)
	}
}

// Of many tasks that stand still a few are looked into, and the others counted.
func TestManyThatStandStill(t *testing.T) {
	box, turn := newBox(t, mailbox.Options{StartWithin: time.Hour})
	for i := range mostAsked + 7 {
		send(t, box, mailbox.ID(fmt.Sprintf("t%04d", i)), nil)
	}
	turn(2 * time.Hour)
	b, err := newReader(box, nil).read(t.Context(), nil)
	must(t, err)
	if last := b.Problems[len(b.Problems)-1]; len(b.Problems) != mostTogether+1 || b.Needs() != mostAsked+7 || last.Text != "12 more that wait long, or work longer than they said" {
		t.Errorf("%d problems, the last is %+v", len(b.Problems), last)
	}
	r := newReader(box, nil) // of a board on a screen
	r.soon = true
	for n, want := range []int{0, askNext, 2 * askNext} {
		b, err := r.read(t.Context(), nil)
		must(t, err)
		if len(r.causes) != want || !b.more {
			t.Errorf("board %d has looked into %d, want %d, and more is %t", n, len(r.causes), want, b.more)
		}
	}
}

// The first board is there soon: of many tasks it lacks titles, which the next ones have.
func TestManyTitlesComeLater(t *testing.T) {
	box, _ := newBox(t, mailbox.Options{})
	for i := range readFirst + 20 {
		send(t, box, mailbox.ID(fmt.Sprintf("t%04d", i)), nil)
	}
	r := newReader(box, nil)
	for board, want := range []struct {
		titles int
		more   bool
	}{{readFirst, true}, {readFirst + 20, false}, {readFirst + 20, false}} {
		b, err := r.read(t.Context(), nil)
		must(t, err)
		titles := 0
		for _, row := range column(b, mailbox.Pending).Rows {
			if row.Title != "" {
				titles++
			}
		}
		if titles != want.titles || b.more != want.more {
			t.Errorf("board %d has %d titles, and more is %t", board, titles, b.more)
		}
		if left := r.files; board == 2 && left != readNext {
			t.Errorf("what had not changed was read again: %d", left)
		}
	}
	must(t, box.Cancel(t.Context(), "t0000", "human", "no"))
	b, err := r.read(t.Context(), nil)
	must(t, err)
	if n := len(r.titles); column(b, mailbox.Failed).Rows[0].Title != "title of t0000" || n != readFirst+20 {
		t.Errorf("after a move %d titles are kept: %+v", n, column(b, mailbox.Failed))
	}
}

// buffer is an output that two goroutines may use.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 20 s for %s", what)
		}
	}
}

// ours are the goroutines that a board, or what it uses, has begun.
func ours() (n int) {
	stacks := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if (strings.Contains(g, "mbox/cmd/mbox/top.") || strings.Contains(g, "bubbletea") || strings.Contains(g, "fsnotify")) && !strings.Contains(g, "testing.tRunner") {
			n++
		}
	}
	return n
}

func watching(box *mailbox.Box) Options {
	return Options{
		Line:     func(e *audit.Entry) string { return clean(e.Action) },
		Fault:    func(err error) string { return err.Error() },
		Describe: func(context.Context, mailbox.ID) (string, error) { return "", errors.New("no page") },
		Cancel:   func(ctx context.Context, id mailbox.ID) error { return box.Cancel(ctx, id, "human", "no") },
	}
}

// A board that was looked at leaves no goroutine behind, however it ends.
func TestNothingIsLeftRunning(t *testing.T) {
	box, _ := newBox(t, mailbox.Options{})
	send(t, box, "one", nil)
	for _, ending := range []string{"q", "cancel"} {
		ctx, cancel := context.WithCancel(t.Context())
		out, ended := &buffer{}, make(chan error, 1)
		in, keys := io.Pipe()
		go func() {
			ended <- run(ctx, box, watching(box), tea.WithInput(in), tea.WithOutput(out), tea.WithWindowSize(100, 30), tea.WithEnvironment([]string{"TERM=xterm"}))
		}()
		eventually(t, "the board", func() bool { return strings.Contains(out.String(), "title of one") })
		if ours() == 0 {
			t.Fatal("the goroutines of a board are not seen")
		}
		if ending == "q" {
			fmt.Fprint(keys, "q")
		} else {
			cancel()
		}
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", ending, err)
		}
		in.Close()
		eventually(t, "the goroutines to end", func() bool { return ours() == 0 })
		cancel()
	}
}

// In lines: the board, then each line once, and no goroutine is left behind.
func TestPlainTellsEachLineOnce(t *testing.T) {
	box, _ := newBox(t, mailbox.Options{})
	send(t, box, "one", nil)
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := &buffer{}, make(chan error, 1)
	go func() { ended <- Plain(ctx, box, watching(box), out, func() error { return nil }) }()
	eventually(t, "the board", func() bool { return strings.Contains(out.String(), "failed       0\n") })
	for i := range 20 {
		send(t, box, mailbox.ID(fmt.Sprintf("t%02d", i)), nil)
	}
	eventually(t, "the last line", func() bool { return strings.Contains(out.String(), "sent t19") })
	cancel()
	must(t, <-ended)
	for i := range 20 {
		if n := strings.Count(out.String(), fmt.Sprintf("sent t%02d", i)); n != 1 {
			t.Errorf("line %d is told %d times", i, n)
		}
	}
	if strings.Contains(out.String(), "sent one") || !strings.Contains(out.String(), "seq 1\n") {
		t.Errorf("what was there before:\n%s", out)
	}
	eventually(t, "the goroutines to end", func() bool { return ours() == 0 })
}

// The most urgent of many are those that are first where all are put in order.
func TestMostUrgent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for most := range 20 {
		for range 50 {
			u := urgent{most: most + 1}
			var all []*mailbox.Live
			for i := range random.IntN(100) {
				l := mailbox.Live{
					ID: mailbox.ID(fmt.Sprintf("t%02d", i)), State: task.Folders[random.IntN(2)], Priority: task.Priorities[random.IntN(len(task.Priorities))],
					Created: task.UnixMillis(random.Int64N(5)), Since: task.UnixMillis(random.Int64N(5)),
				}
				u.add(&l)
				all = append(all, &l)
			}
			slices.SortFunc(all, func(a, b *mailbox.Live) int {
				return cmp.Or(cmp.Compare(task.Rank(b.Priority), task.Rank(a.Priority)), from(a).Compare(from(b)), cmp.Compare(a.ID, b.ID))
			})
			for range 2 {
				if got, want := u.all(), all[:min(len(all), most+1)]; !reflect.DeepEqual(got, want) && len(want) > 0 {
					t.Fatalf("%d of %d are %v, want %v", len(got), len(all), got, want)
				}
			}
		}
	}
}

// A task is late by the clock alone, of which no line tells.
func TestLateWithoutALine(t *testing.T) {
	box, turn := newBox(t, mailbox.Options{StartWithin: time.Hour})
	send(t, box, "t1", nil)
	r := newReader(box, nil)
	for _, late := range []int{0, 1} {
		b, err := r.read(t.Context(), nil)
		must(t, err)
		if b.Needs() != late {
			t.Errorf("%d problems, want %d: %+v", b.Needs(), late, b.Problems)
		}
		turn(2 * time.Hour)
	}
}
