package top

import (
	"fmt"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
	"mbox/schemas"
)

// The views, by the keys that show them.
const (
	viewBoard = iota
	viewTasks
	viewLedger
	viewAgents
	viewProblems
	views
)

// The pages about one task, and the verbs that a key runs.
const (
	pageTask   = "task"
	pageLedger = "ledger lines"
	pageKeys   = "keys"

	verbCancel = "cancel"
	verbRetry  = "retry"
	verbPause  = "agent pause" // these two are about an agent
	verbResume = "agent resume"
)

// model is what is on the screen. Only Update changes it, and it reads nothing itself.
type model struct {
	o    Options
	from source
	now  func() time.Time

	wide, high int
	view       int
	column     int // of the board: the folder that the cursor is in
	cursors    [views + len(folders)]cursor

	board   *Board
	failed  error // the last board could not be read
	lines   []audit.Entry
	broken  error // why no more lines come
	reading time.Time
	ready   time.Time // no board is read before
	put     bool      // it is put off until ready
	touched map[mailbox.ID]bool

	filter string
	typing bool // the filter
	page   *page
	ask    *question
	note   string // what came of the last key that changed something
}

// folders are the columns.
var folders = [...]mailbox.State{mailbox.Pending, mailbox.InProgress, mailbox.Completed, mailbox.Failed}

// page is a text about one task, in front of the view.
type page struct {
	kind string
	id   mailbox.ID
	text string
	top  int // the first line that is shown
}

// question is a change that waits for a yes. About an agent, the row has its name as id.
type question struct {
	verb string
	row  Row
}

// How often a board is read: not before one has been on the screen for a while, nor so
// often that reading is more than a twentieth of all work; and now and then though no
// line came, for what nobody writes a line about.
const (
	soonest  = 200 * time.Millisecond
	share    = 20
	latest   = 5 * time.Second
	slowRead = 2 * time.Second // from then on it is said that reading takes long
)

func newModel(o Options, from source) *model {
	return &model{o: o, from: from, now: time.Now, wide: 80, high: 24, touched: map[mailbox.ID]bool{}}
}

// Init asks for the first board and the ledger.
func (m *model) Init() tea.Cmd {
	return tea.Batch(m.from.news(), m.read(), m.from.waiting(time.Second, tickMsg{}))
}

// Update takes one message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.wide, m.high = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		if m.typing {
			m.filter += schemas.Sentence(msg.Content, mostFilter)
		}
	case newsMsg:
		return m, m.hear(news(msg))
	case boardMsg:
		return m, m.take(msg)
	case pageMsg:
		if m.page != nil && m.page.id == msg.id && m.page.kind == msg.kind {
			m.page.text = msg.text
		}
	case doneMsg:
		m.note = msg.command + ": done"
		if msg.err != nil {
			m.note = msg.command + ": " + m.o.Fault(msg.err)
		}
		m.ready = time.Time{}
		return m, m.read()
	case dueMsg:
		m.put = false
		return m, m.read()
	case tickMsg:
		return m, tea.Batch(m.due(), m.from.waiting(time.Second, tickMsg{}))
	}
	return m, nil
}

// hear takes new lines, and has read anew what they are about.
func (m *model) hear(n news) tea.Cmd {
	m.broken = n.err
	m.lines = append(m.lines, n.entries...)
	if over := len(m.lines) - mostLines; over > 0 {
		m.lines = append([]audit.Entry(nil), m.lines[over:]...)
	}
	cmds := []tea.Cmd{m.from.news()}
	for i := range n.entries {
		id := mailbox.ID(n.entries[i].Task())
		m.touched[id] = true
		if m.page != nil && m.page.id == id {
			cmds = append(cmds, m.from.page(m.page.kind, id))
		}
	}
	if len(n.entries) > 0 {
		cmds = append(cmds, m.soon())
	}
	return tea.Batch(cmds...)
}

// soon has the board read as soon as that may be.
func (m *model) soon() tea.Cmd {
	wait := m.ready.Sub(m.now())
	if wait <= 0 || !m.reading.IsZero() || m.put {
		return m.read()
	}
	m.put = true
	return m.from.waiting(wait, dueMsg{})
}

// due has the board read where a change waits for that, or where it is old.
func (m *model) due() tea.Cmd {
	if len(m.touched) > 0 || m.board == nil || m.now().Sub(m.board.At.Time) > latest {
		return m.read()
	}
	return nil
}

func (m *model) read() tea.Cmd {
	if !m.reading.IsZero() || m.now().Before(m.ready) {
		return nil
	}
	m.reading = m.now()
	touched := m.touched
	m.touched = map[mailbox.ID]bool{}
	return m.from.board(touched)
}

func (m *model) take(msg boardMsg) tea.Cmd {
	m.reading = time.Time{}
	m.ready = m.now().Add(max(soonest, share*msg.took))
	if m.failed = msg.err; msg.board != nil {
		m.board = msg.board
	}
	if len(m.touched) > 0 || msg.board != nil && msg.board.more {
		return m.soon()
	}
	return nil
}

// key does what a key says.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.ask != nil:
		return m.answer(name)
	case m.typing:
		m.typeFilter(k, name)
		return nil
	}
	m.note = ""
	for _, b := range bindings() {
		if slices.Contains(b.names, name) {
			return b.do(m, name)
		}
	}
	return nil
}

// mostFilter is how long a filter may be.
const mostFilter = 80

// typeFilter takes a key as a letter of the filter.
func (m *model) typeFilter(k tea.KeyPressMsg, name string) {
	switch letters := []rune(m.filter); name {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		m.filter = string(letters[:max(len(letters)-1, 0)])
	case "ctrl+u":
		m.filter = ""
	default:
		if len(letters) < mostFilter {
			m.filter += schemas.Sentence(k.Text, 8)
		}
	}
}

// answer takes the key that a question asked for. Only y is a yes.
func (m *model) answer(name string) tea.Cmd {
	q := m.ask
	m.ask = nil
	if name != "y" {
		m.note = q.verb + " " + string(q.row.ID) + ": not done"
		return nil
	}
	m.note = "runs " + command(q.verb, q.row.ID)
	return m.from.run(q.verb, q.row.ID)
}

// change asks whether to do something to the task under the cursor.
func (m *model) change(verb string) tea.Cmd {
	row, ok := m.selected()
	state := string(row.State)
	switch {
	case m.o.ReadOnly != "":
		m.note = verb + ": " + m.o.ReadOnly
	case !ok:
		m.note = verb + ": there is no task under the cursor"
	case verb == verbCancel && row.State != mailbox.Pending && row.State != mailbox.InProgress:
		m.note = fmt.Sprintf("cancel: %s has ended: it is in %s", row.ID, state)
	case verb == verbRetry && row.State != mailbox.Failed:
		m.note = fmt.Sprintf("retry: %s has not failed: it is in %s", row.ID, state)
	default:
		m.ask = &question{verb, row}
	}
	return nil
}

// keep asks whether to pause the agent under the cursor, or to resume it.
func (m *model) keep() tea.Cmd {
	var at *Agent
	if c, items := m.settle(); m.view == viewAgents && m.page == nil && len(items) > 0 {
		at = &m.agents()[c.at]
	}
	switch {
	case m.o.ReadOnly != "":
		m.note = "pause: " + m.o.ReadOnly
	case at == nil:
		m.note = "pause: there is no agent under the cursor; 4 lists them"
	case at.Life.State == lifecycle.Paused:
		m.ask = &question{verbResume, Row{ID: mailbox.ID(at.Name), Title: at.Life.String()}}
	default:
		m.ask = &question{verbPause, Row{ID: mailbox.ID(at.Name), Title: at.state()}}
	}
	return nil
}

// open shows a page about the task under the cursor.
func (m *model) open(kind string) tea.Cmd {
	row, ok := m.selected()
	if !ok {
		m.note = "there is no task under the cursor"
		return nil
	}
	m.page = &page{kind: kind, id: row.ID, text: "…"}
	return m.from.page(kind, row.ID)
}

// explain shows the keys, or what was there before them.
func (m *model) explain() {
	if m.page != nil && m.page.kind == pageKeys {
		m.page = nil
		return
	}
	m.page = &page{kind: pageKeys, text: m.helpText()}
}

// back closes what lies in front.
func (m *model) back() {
	switch {
	case m.page != nil:
		m.page = nil
	case m.filter != "":
		m.filter = ""
	default:
		m.view = viewBoard
	}
}
