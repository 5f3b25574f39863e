package top

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/task"
)

// A screen is a model whose messages the test sends, and that tells what was asked for.
type screen struct {
	*model
	asked []string
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func newScreen(o Options) *screen {
	s := &screen{}
	ask := func(format string, a ...any) tea.Cmd {
		s.asked = append(s.asked, fmt.Sprintf(format, a...))
		return nil
	}
	o.Line = func(e *audit.Entry) string { return fmt.Sprintf("%d %s %s", e.Seq, e.Event, clean(e.Action)) }
	o.Fault = func(err error) string { return err.Error() }
	s.model = newModel(o, source{
		news:    func() tea.Cmd { return ask("news") },
		board:   func(touched map[mailbox.ID]bool) tea.Cmd { return ask("board %d", len(touched)) },
		page:    func(kind string, id mailbox.ID) tea.Cmd { return ask("page %s %s", kind, id) },
		run:     func(verb string, id mailbox.ID) tea.Cmd { return ask("run %s %s", verb, id) },
		waiting: func(d time.Duration, then tea.Msg) tea.Cmd { return ask("waiting %T", then) },
	})
	s.model.now = func() time.Time { return noon }
	return s
}

func (s *screen) send(messages ...tea.Msg) {
	for _, m := range messages {
		s.Update(m)
	}
}

// keys presses keys: letters, and the names of others in < and >.
func (s *screen) keys(keys string) {
	named := map[string]rune{"up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight, "esc": tea.KeyEscape, "enter": tea.KeyEnter, "tab": tea.KeyTab, "backspace": tea.KeyBackspace, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "home": tea.KeyHome, "end": tea.KeyEnd}
	for _, k := range regexp.MustCompile(`<\w+>|.`).FindAllString(keys, -1) {
		if code, ok := named[strings.Trim(k, "<>")]; ok {
			s.send(tea.KeyPressMsg{Code: code})
		} else {
			s.send(tea.KeyPressMsg{Code: []rune(k)[0], Text: k})
		}
	}
}

// asks returns what was asked for since it was called last.
func (s *screen) asks() string {
	asked := strings.Join(s.asked, "; ")
	s.asked = nil
	return asked
}

// text is what is on the screen.
func (s *screen) text() string { return ansi.Strip(s.View().Content) }

func (s *screen) shows(t *testing.T, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(s.text(), want) {
			t.Errorf("no %q on the screen:\n%s", want, s.text())
		}
	}
}

func (s *screen) hides(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(s.text(), text) {
		t.Errorf("%q is on the screen:\n%s", text, s.text())
	}
}

// rowsOf makes tasks of titles, each a minute older than the one behind it.
func rowsOf(state mailbox.State, titles ...string) Column {
	c := Column{State: state, Count: len(titles)}
	for i, title := range titles {
		at := task.At(noon.Add(time.Duration(i-len(titles)) * time.Minute))
		c.older(at)
		r := Row{ID: mailbox.ID(fmt.Sprintf("%.1s%d", state, i+1)), State: state, Title: title, Since: at, Priority: "normal", Type: "other", Target: "any"}
		if state == mailbox.InProgress {
			r.By = "coder"
		}
		c.Rows = append(c.Rows, r)
	}
	return c
}

func boardOf(columns ...Column) *Board {
	b := &Board{Home: "/home/you/agents", At: task.At(noon), Seq: 7}
	for _, s := range folders {
		i := slices.IndexFunc(columns, func(c Column) bool { return c.State == s })
		if i < 0 {
			b.Columns = append(b.Columns, Column{State: s})
		} else {
			b.Columns = append(b.Columns, columns[i])
		}
	}
	b.agents(map[string]mailbox.Capabilities{"coder": {}, "idler": {Disabled: true}}, map[string]mailbox.Agent{"resting": {State: lifecycle.Paused}})
	return b
}

func line(seq int64, id, action string) audit.Entry {
	return audit.Entry{Seq: seq, Event: audit.TaskCreated, TaskID: &id, Agent: "human", Action: action}
}

func shown(o Options) *screen {
	s := newScreen(o)
	b := boardOf(rowsOf(mailbox.Pending, "Write it", "Read it", "Bin it"), rowsOf(mailbox.InProgress, "Build it"),
		rowsOf(mailbox.Completed, "Was fine"), rowsOf(mailbox.Failed, "Was not"))
	b.Problems = []Problem{
		{Kind: kindAlarm, Task: "p2", Text: "nobody takes it", Hint: "mbox why p2"},
		{Kind: kindFailed, Task: "f1", Text: "broken", Hint: "mbox retry f1"},
	}
	s.send(tea.WindowSizeMsg{Width: 120, Height: 30}, boardMsg{board: b}, newsMsg{entries: []audit.Entry{line(6, "p1", "sent p1"), line(8, "p2", "sent p2")}})
	s.asks()
	return s
}

func TestBoardShowsWhatThereIs(t *testing.T) {
	s := newScreen(Options{})
	s.shows(t, "reading the mailbox")
	s = shown(Options{})
	s.shows(t, "seq 8", "no mbox up", "/home/you/agents",
		"PENDING 3 oldest 3m", "IN-PROGRESS 1", "COMPLETED 1", "FAILED 1", "Write it", "coder: Build it", "Was fine", "Was not",
		"8 task_created sent p2", "p1  pending  normal  other  for any  Write it")
	lines := strings.Split(s.text(), "\n")
	if !strings.HasPrefix(lines[1], "alarm       p2  nobody takes it") || !strings.HasPrefix(lines[2], "failed      f1") || !strings.HasPrefix(lines[3], "PENDING") {
		t.Errorf("problems do not come first:\n%s", s.text())
	}
	s.send(boardMsg{err: errors.New("the disk broke")})
	s.shows(t, "the disk broke", "Write it")
	s.send(newsMsg{err: errors.New("no checksum")})
	s.shows(t, "the ledger cannot be read on", "no checksum")
}

func TestViewsAreTheKeys1To5(t *testing.T) {
	s := shown(Options{})
	for keys, want := range map[string][]string{
		"2": {"ID ", "TITLE", "Was not", "p3"},
		"3": {"LEDGER", "6 task_created sent p1"},
		"4": {"AGENT", "coder", "works", "i1", "idler", "not enabled", "resting", "paused"},
		"5": {"PROBLEMS", "nobody takes it", "mbox retry f1"},
		"1": {"PENDING 3"},
	} {
		s.keys(keys)
		s.shows(t, want...)
	}
	s.keys("5<esc>")
	s.shows(t, "PENDING 3")
}

func TestMovingAndPages(t *testing.T) {
	s := shown(Options{})
	for _, c := range []struct{ keys, asked string }{
		{"d", "page task p1"},
		{"<esc>jl", "page ledger lines p2"},
		{"<esc>k<enter>", "page task p1"},
		{"<esc>Gd", "page task p3"},
		{"<esc>gd", "page task p1"},
		{"<esc><right>d", "page task i1"},
		{"<esc><tab><tab>d", "page task f1"},
		{"<esc>hd", "page task c1"},
		{"<esc><right><right><down>d", "page task p2"},
		{"<esc>2Gd", "page task f1"},
		{"<esc>3l", "page ledger lines p2"},
		{"<esc>3gl", "page ledger lines p1"},
		{"<esc>4d", "page task i1"},
		{"<esc>5d", "page task p2"},
	} {
		s.keys(c.keys)
		if asked := s.asks(); asked != c.asked {
			t.Errorf("%s asks for %q, not %q:\n%s", c.keys, asked, c.asked, s.text())
		}
	}
	s.send(pageMsg{kind: pageTask, id: "p2", text: strings.Repeat("one\n", 100) + "the end"}, pageMsg{kind: pageTask, id: "other", text: "not this"})
	s.shows(t, "task p2", "one")
	s.hides(t, "the end")
	s.keys("G")
	s.shows(t, "the end")
	s.send(newsMsg{entries: []audit.Entry{line(9, "p2", "changed")}})
	if asked := s.asks(); !strings.Contains(asked, "page task p2") {
		t.Errorf("a line about the task that is shown: %s", asked)
	}
}

func TestCursorStaysWithItsTask(t *testing.T) {
	s := shown(Options{})
	s.keys("j")
	s.send(boardMsg{board: boardOf(rowsOf(mailbox.Pending, "New", "Write it", "Read it"))})
	s.board.Columns[0].Rows[0].ID, s.board.Columns[0].Rows[1].ID, s.board.Columns[0].Rows[2].ID = "p9", "p1", "p2"
	s.keys("d")
	if asked := s.asks(); asked != "page task p2" {
		t.Errorf("the cursor went to another task: %s", asked)
	}
	s.keys("<esc>")
	s.send(boardMsg{board: boardOf()})
	s.keys("dc")
	s.shows(t, "there is no task under the cursor")
}

func TestFilter(t *testing.T) {
	s := shown(Options{})
	s.keys("/rEAD")
	s.shows(t, "/rEAD█", "Read it")
	s.hides(t, "Write it")
	s.keys("<backspace><backspace><backspace><backspace>build<enter>")
	s.shows(t, "filter build", "Build it")
	s.hides(t, "Read it")
	s.keys("/q\x1b")
	s.send(tea.PasteMsg{Content: "\x1b[2J\n"})
	s.hides(t, "\x1b")
	s.keys("<esc>")
	s.shows(t, "Read it", "Write it")
	if s.typing || s.filter != "" {
		t.Errorf("esc leaves the filter %q", s.filter)
	}
}

// Nothing is changed but by y, said to a question that names the task and the command.
func TestChangesAreConfirmed(t *testing.T) {
	s := shown(Options{})
	s.keys("c")
	s.shows(t, "cancel p1?", "Write it", "y runs mbox cancel p1   any other key does not")
	for _, no := range []string{"n", "<esc>", "<enter>", "Y", "q", "c"} {
		s.keys(no)
		s.shows(t, "cancel p1: not done")
		s.keys("c")
	}
	if asked := s.asks(); asked != "" {
		t.Fatalf("without a yes: %s", asked)
	}
	s.keys("y")
	if asked := s.asks(); asked != "run cancel p1" {
		t.Fatalf("after a yes: %s", asked)
	}
	s.send(doneMsg{command: "mbox cancel p1"})
	s.shows(t, "mbox cancel p1: done")
	s.keys("c")
	s.keys("y")
	s.send(doneMsg{command: "mbox cancel p1", err: errors.New("busy")})
	s.shows(t, "mbox cancel p1: busy")
	s.asks()
	s.keys("r")
	s.shows(t, "retry: p1 has not failed: it is in pending")
	s.keys("hc")
	s.shows(t, "cancel: f1 has ended: it is in failed")
	s.keys("dry")
	if asked := s.asks(); asked != "page task f1; run retry f1" {
		t.Fatalf("retry from the task's page: %s", asked)
	}
}

// The same holds for pausing and resuming an agent, in the list of agents alone.
func TestPausingIsConfirmed(t *testing.T) {
	s := shown(Options{})
	s.keys("p")
	s.shows(t, "there is no agent under the cursor")
	s.keys("4p")
	s.shows(t, "agent pause coder?", "y runs mbox agent pause coder   any other key does not")
	s.keys("n")
	s.shows(t, "agent pause coder: not done")
	s.keys("py")
	s.send(doneMsg{command: "mbox agent pause coder"})
	s.keys("Gpy")
	if asked := s.asks(); asked != "run agent pause coder; board 2; run agent resume resting" {
		t.Errorf("asks for %s", asked)
	}
}

func TestReadOnlyHasNoKeysThatChange(t *testing.T) {
	s := shown(Options{ReadOnly: "this is an agent's command"})
	s.hides(t, "cancel")
	s.keys("cyry<right><right><right>ry4py1")
	if asked := s.asks(); asked != "" || s.ask != nil {
		t.Errorf("asks for %s", asked)
	}
	s.keys("r")
	s.shows(t, "retry: this is an agent's command", "only looking")
	s.keys("?")
	s.shows(t, "nothing can be changed here", "quit")
	s.hides(t, "once you have said y")
}

// The ledger is kept in bounds, and follows its end until somebody goes back in it.
func TestLedgerIsBounded(t *testing.T) {
	s := shown(Options{})
	s.keys("3")
	for i := range int64(3000) {
		s.send(newsMsg{entries: []audit.Entry{line(10+i, "x", "again")}})
	}
	if len(s.lines) != mostLines || cap(s.lines) > 3*mostLines {
		t.Errorf("%d lines are kept, in %d", len(s.lines), cap(s.lines))
	}
	s.shows(t, "3009 task_created")
	s.keys("<up>")
	at := s.cursors[viewLedger].key
	s.send(newsMsg{entries: []audit.Entry{line(5000, "y", "later")}})
	s.View()
	if now := s.cursors[viewLedger].key; now != at || at != "3008" {
		t.Errorf("the cursor went from %s to %s", at, now)
	}
	s.keys("G")
	s.send(newsMsg{entries: []audit.Entry{line(5001, "y", "last")}})
	s.shows(t, "5001 task_created last")
}

// One board is read at a time, and the more it costs the less often.
func TestBoardsAreReadNoOftenerThanNeeded(t *testing.T) {
	s := newScreen(Options{})
	s.Init()
	if asked := s.asks(); asked != "news; board 0; waiting top.tickMsg" {
		t.Fatalf("at the beginning: %s", asked)
	}
	s.send(newsMsg{entries: []audit.Entry{line(1, "a", "")}}, newsMsg{entries: []audit.Entry{line(2, "b", "")}}, tickMsg{})
	if asked := s.asks(); strings.Contains(asked, "board") {
		t.Fatalf("two boards at once: %s", asked)
	}
	b := boardOf()
	s.send(boardMsg{board: b, took: time.Second})
	if asked := s.asks(); asked != "waiting top.dueMsg" {
		t.Fatalf("after a slow one: %s", asked)
	}
	s.send(newsMsg{entries: []audit.Entry{line(3, "c", "")}}, tickMsg{})
	if asked := s.asks(); strings.Contains(asked, "board") || strings.Contains(asked, "dueMsg") {
		t.Fatalf("too soon: %s", asked)
	}
	now := noon.Add(share * time.Second)
	s.model.now = func() time.Time { return now }
	s.send(dueMsg{})
	if asked := s.asks(); asked != "board 3" {
		t.Fatalf("when it is due: %s", asked)
	}
	now = now.Add(4 * time.Second)
	s.shows(t, "reading the mailbox for 4s")
	b.At = task.At(now)
	s.send(boardMsg{board: b})
	now = now.Add(latest - time.Millisecond)
	s.send(tickMsg{})
	if asked := s.asks(); asked != "waiting top.tickMsg" {
		t.Fatalf("nothing has happened: %s", asked)
	}
	now = now.Add(time.Second)
	s.send(tickMsg{})
	if asked := s.asks(); !strings.Contains(asked, "board 0") {
		t.Fatalf("now and then: %s", asked)
	}
}

// The table of mbox help top is that of the keys.
func TestHelpTellsTheKeys(t *testing.T) {
	text, err := os.ReadFile("../help/top.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, b := range bindings() {
		fmt.Fprintf(&rows, "| `%s` | %s |\n", b.keys, b.what)
	}
	if !strings.Contains(string(text), "|---|---|\n"+rows.String()+"\n") {
		t.Errorf("help/top.md has another table than:\n%s", rows.String())
	}
	s := shown(Options{})
	s.keys("?")
	s.shows(t, "quit", "filter what is listed", "once you have said y")
	s.send(tea.WindowSizeMsg{Width: 40, Height: 10})
	s.hides(t, "q         quit")
	s.keys("G")
	s.shows(t, "q         quit")
	s.keys("?")
	s.shows(t, "pend 3")
}

// What happened is told whole where a line is too narrow for it.
func TestLongNotes(t *testing.T) {
	s := shown(Options{})
	s.send(tea.WindowSizeMsg{Width: 60, Height: 20}, doneMsg{command: "mbox cancel p1", err: errors.New("the mailbox is read-only since noon; hint: mbox doctor tells why")})
	s.shows(t, "read-only since", "doctor tells why")
}

func TestProblemsThatComeAndGoAreTold(t *testing.T) {
	var out strings.Builder
	a, b := boardOf(), boardOf()
	a.trouble(kindFailed, "one", "it\x1b[2J broke", "mbox retry one")
	b.trouble(kindQuarantine, "", "1 kept", "")
	told(&out, a, b)
	if got, want := out.String(), "problem      quarantine: 1 kept\nno more      failed one: it\\x1b[2J broke; mbox retry one\n"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}
