package top

import (
	"cmp"
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"time"

	"mbox/audit"
	"mbox/cmd/mbox/check"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// How much a board holds, and how much of it is read at once. What is beyond is counted.
const (
	mostRead  = 10_000       // tasks of a folder whose files are read, for their titles
	mostEnded = 1000         // rows of a folder of ended tasks
	readFirst = 4 * mostTold // files that the first board reads, so that it is there soon
	readNext  = 2000         // files that any other one does
)

// Board is a mailbox at one moment.
type Board struct {
	Home     string       `json:"home"`
	At       mailbox.Time `json:"at"`
	Seq      int64        `json:"seq"`                // of the ledger's last line that was read
	ReadOnly string       `json:"read_only,omitzero"` // why nothing can be written
	Routed   bool         `json:"routed"`             // mbox up serves it
	Free     uint64       `json:"disk_free"`          // bytes, where the home lies
	Every    string       `json:"looks_every"`        // how often mbox up and workers scan the folders
	Columns  []Column     `json:"columns"`

	Quarantine int `json:"quarantine"` // what is kept there, but for the reasons

	Problems []Problem `json:"problems"` // the worst first
	Agents   []Agent   `json:"agents"`

	more bool // there are titles that the next board will have
}

// Column is one of the four folders.
type Column struct {
	State  mailbox.State `json:"state"`
	Count  int           `json:"count"`
	Oldest *mailbox.Time `json:"oldest,omitzero"` // since when the one that is here longest is; in pending, when the oldest was made
	Rows   []Row         `json:"tasks"`           // the most urgent or the newest first

	waiting map[string]*waiting // how many of them name each agent
}

// waiting counts tasks that name an agent.
type waiting struct {
	all    int
	thinks int // of these, such as carry no action
}

// Row is a task in a list. Its texts are as they came: whoever shows one cleans it.
type Row struct {
	ID       mailbox.ID    `json:"id"`
	State    mailbox.State `json:"state"`
	Priority string        `json:"priority,omitzero"`
	Type     string        `json:"type,omitzero"`
	Target   string        `json:"for,omitzero"`
	By       string        `json:"by,omitzero"`
	Title    string        `json:"title,omitzero"`
	Since    mailbox.Time  `json:"since"` // it was made, if it is pending; else it is in this state

	Progress *mailbox.Progress `json:"progress,omitzero"` // what its worker said last

	live *mailbox.Live
	err  string // of a task that failed: its code, and what it says
	once bool   // nobody can do it again
	drop bool   // it was rejected, so it has to be dropped anew
}

// Agent is an agent of the configuration, or one that has a task.
type Agent struct {
	Name    string        `json:"name"`
	Known   bool          `json:"known"` // it stands in mbox.toml
	Enabled bool          `json:"enabled"`
	Life    mailbox.Agent `json:"lifecycle"`
	Holds   []mailbox.ID  `json:"holds"`          // the one that it has had longest first
	Since   *mailbox.Time `json:"since,omitzero"` // it has the oldest of these
	Waiting int           `json:"waiting"`        // pending tasks that name it
	thinks  int           // of these, such as carry no action

	Said  *mailbox.Progress `json:"said,omitzero"`  // last, of the oldest of these
	Works string            `json:"works,omitzero"` // by what, or why it cannot, where that was looked at
	Able  bool              `json:"able"`           // it can, as far as was looked
}

// reader reads boards, one after another. What it has read it keeps as long as that
// has not changed.
type reader struct {
	box      *mailbox.Box
	options  mailbox.Options // of the box
	now      func() time.Time
	lacks    func() []check.Finding // of Options
	at       audit.Position         // of the ledger, when the index was asked
	agents   map[string]mailbox.Agent
	lost     []mailbox.ID
	asked    time.Time                 // the index was
	took     time.Duration             // to tell
	folders  map[mailbox.State]*folder // by the index; nil where the ledger cannot tell
	titles   map[place]title
	used     map[place]bool // of titles, by this board
	files    int            // that may still be read for this board
	ended    map[mailbox.State]*listing
	causes   map[mailbox.ID]cause
	reasons  map[string]home.Reason // why entries lie in quarantine
	untitled bool                   // of those that are pending nothing is told but what the index tells
	brief    bool                   // nothing is told of tasks that are completed
	soon     bool                   // a board is to be there soon: what takes long is left to the next
	asks     int                    // that may still be put for this board
}

// place is where a task's file lies, and title what is shown of it.
type place struct {
	state mailbox.State
	id    mailbox.ID
}

type title struct {
	version string // of the file
	row     Row
}

func newReader(box *mailbox.Box, lacks func() []check.Finding) *reader {
	o := box.Options()
	return &reader{box: box, options: o, now: o.Now, lacks: lacks, files: readFirst, titles: map[place]title{}, ended: map[mailbox.State]*listing{}, causes: map[mailbox.ID]cause{}, reasons: map[string]home.Reason{}}
}

// read makes a board. touched are the tasks about which there have been lines since
// the last one.
func (r *reader) read(ctx context.Context, touched map[mailbox.ID]bool) (*Board, error) {
	for id := range touched {
		delete(r.causes, id)
	}
	b := &Board{Home: r.box.Home(), At: task.At(r.now()), Routed: r.box.Routed(), Every: config.Span(r.options.ScanInterval), Problems: []Problem{}}
	readOnly := audit.CheckWritable(b.Home)
	if readOnly != nil {
		b.ReadOnly = oneLine(readOnly.Error())
	}
	r.used = map[place]bool{}
	if err := r.fill(ctx, b, errors.Is(readOnly, audit.ErrDamaged)); err != nil {
		return nil, err
	}
	b.more, r.files = r.files == 0, readNext
	for name := range r.titles {
		if !r.used[name] {
			delete(r.titles, name)
		}
	}
	b.Seq = r.box.Ledger().End().Seq
	b.agents(r.options.Agents, r.agents)
	r.problems(ctx, b)
	return b, ctx.Err()
}

// fill makes the columns: of the ledger, or of the files where that is damaged.
func (r *reader) fill(ctx context.Context, b *Board, damaged bool) error {
	if damaged {
		return r.asTheyLie(ctx, b)
	}
	listed := r.listAhead(ctx)
	err := r.index()
	if listed(); err != nil {
		b.trouble(kindLedger, "", err.Error(), "mbox verify")
		return r.asTheyLie(ctx, b)
	}
	r.drops(b)
	return r.columns(ctx, b)
}

// folder is what the index tells of the tasks of one folder.
type folder struct {
	Column         // without its rows
	first   urgent // of those that have not ended
	suspect urgent // of those that may stand still
	doubts  doubts
}

// doubts counts tasks that may stand still.
type doubts struct {
	late   int // they should have come further by now
	asking int // of the others, such as may need somebody's word
}

// index asks for what the ledger tells, unless it has not grown. Time alone makes a task
// late, too: it is asked again for that, and the longer it takes, the more seldom.
func (r *reader) index() error {
	now := r.now()
	at, sure := r.box.Ledger().Seen()
	if sure && at == r.at && r.folders != nil && now.Sub(r.asked) < slowness*r.took {
		return nil
	}
	begun, folders := time.Now(), map[mailbox.State]*folder{}
	for _, s := range task.Folders {
		folders[s] = &folder{Column: newColumn(s), first: urgent{most: math.MaxInt / 2}, suspect: urgent{most: mostAsked}}
	}
	if r.brief { // those in progress are told with who has them
		folders[mailbox.Pending].first.most = mostTold
	}
	index, err := mailbox.Overview(r.box, func(l *mailbox.Live) { r.count(folders[l.State], l, now) })
	if err != nil {
		return err
	}
	for s, f := range folders {
		f.Count = index.Count[s]
		f.first.sort() // here, for that takes time as well
	}
	r.at, r.asked, r.took, r.agents, r.lost, r.folders = at, now, time.Since(begun), index.Agents, index.Lost, folders
	return nil
}

// count takes in a task that has not ended.
func (r *reader) count(f *folder, l *mailbox.Live, now time.Time) {
	f.older(task.At(from(l)))
	f.names(l.Target, l.Action)
	f.first.add(l)
	if !r.suspect(l, now) {
		return
	}
	f.suspect.add(l)
	f.doubts = f.doubts.and(r.doubt(l, now), 1)
}

// doubt is how one suspect counts.
func (r *reader) doubt(l *mailbox.Live, now time.Time) (s doubts) {
	switch {
	case r.overdue(l, now):
		s.late = 1
	case l.State == mailbox.Pending && l.Action != "":
		s.asking = 1
	}
	return s
}

func (s doubts) and(o doubts, n int) doubts { return doubts{s.late + n*o.late, s.asking + n*o.asking} }

// from is since when a task waits, or is at work.
func from(l *mailbox.Live) time.Time {
	if l.State == mailbox.Pending {
		return l.Created
	}
	return l.Since
}

func newColumn(s mailbox.State) Column {
	return Column{State: s, Rows: []Row{}, waiting: map[string]*waiting{}}
}

// columns fills the board from the index, and from the folders of what has ended.
func (r *reader) columns(ctx context.Context, b *Board) error {
	for _, s := range task.Folders {
		f := r.folders[s]
		c := f.Column
		if r.tellsEnded(s) {
			if err := r.endedRows(ctx, &c); err != nil {
				return err
			}
		}
		for _, l := range f.first.all() {
			c.Rows = append(c.Rows, Row{ID: l.ID, State: s, Priority: l.Priority, Type: l.Type, Target: l.Target, By: l.Claimant, Since: task.At(from(l)), live: l})
		}
		b.Columns = append(b.Columns, c)
	}
	parts := [][2]int{{0, mostTold}, {mostTold, mostRead}} // what is seen first, of each folder
	if r.brief {
		parts = parts[:1]
	}
	for _, part := range parts {
		for _, c := range b.Columns {
			if r.untitled && c.State == mailbox.Pending {
				continue
			}
			rows := c.Rows[:min(len(c.Rows), part[1])]
			r.entitle(ctx, rows[min(len(rows), part[0]):])
		}
	}
	return ctx.Err()
}

// urgent keeps the most urgent of tasks that have not ended, of which there may be very
// many.
type urgent struct {
	most   int
	kept   []ranked
	sorted int // so many of these are in order, and the most urgent so far
}

// ranked is a task with what it is sorted by.
type ranked struct {
	rank int
	from int64 // Unix milliseconds
	*mailbox.Live
}

func (u *urgent) add(l *mailbox.Live) {
	r := ranked{task.Rank(l.Priority), from(l).UnixMilli(), l}
	if u.sorted == u.most && moreUrgent(r, u.kept[u.most-1]) > 0 {
		return
	}
	kept := *l
	r.Live = &kept
	if u.kept = append(u.kept, r); len(u.kept) == 2*u.most {
		u.sort()
	}
}

func (u *urgent) sort() {
	if u.sorted < len(u.kept) {
		slices.SortFunc(u.kept, moreUrgent)
		u.sorted = min(len(u.kept), u.most)
		u.kept = u.kept[:u.sorted]
	}
}

// all are those that it keeps, the most urgent first.
func (u *urgent) all() []*mailbox.Live {
	u.sort()
	out := make([]*mailbox.Live, len(u.kept))
	for i, r := range u.kept {
		out[i] = r.Live
	}
	return out
}

func moreUrgent(a, b ranked) int {
	if c := cmp.Compare(b.rank, a.rank); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.ID, b.ID))
}

// names counts a task for the agent that it names.
func (c *Column) names(agent, action string) {
	w := c.waiting[agent]
	if w == nil {
		w = &waiting{}
		c.waiting[agent] = w
	}
	if w.all++; action == "" {
		w.thinks++
	}
}

func actionOf(t *mailbox.Task) string {
	if t.Mbox.Action == nil {
		return ""
	}
	return t.Mbox.Action.Name
}

func (c *Column) older(at mailbox.Time) {
	if !at.IsZero() && (c.Oldest == nil || at.Before(c.Oldest.Time)) {
		oldest := at
		c.Oldest = &oldest
	}
}

// entitle adds to rows what only the tasks' files tell. What has ended is written when
// it ends, and not again.
func (r *reader) entitle(ctx context.Context, rows []Row) {
	var unread []*Row
	for i := range rows {
		row := &rows[i]
		r.used[row.place()] = true
		if known, ok := r.titles[row.place()]; ok && known.version == row.version() {
			live, since := row.live, row.Since
			*row = known.row
			row.live, row.Since = live, since
		} else if r.files > 0 && task.CheckID(row.ID) == nil { // no verb takes another; verify tells of it
			r.files--
			unread = append(unread, row)
		}
	}
	told := make([]bool, len(unread))
	home.OnAllCores(ctx, len(unread), func(i int) error {
		row := unread[i]
		f, err := home.Read(r.box.Home(), row.State, filepath.Join(r.folder(row.State), row.ID.File()))
		if told[i] = err == nil && f.Task != nil; told[i] {
			row.tell(f.Task)
		}
		return nil // it moves just now: the next board has it
	})
	for i, row := range unread {
		if told[i] {
			r.titles[row.place()] = title{row.version(), *row}
		}
	}
}

func (row *Row) place() place { return place{row.State, row.ID} }

// version is that of the task's file.
func (row *Row) version() string {
	if row.live != nil {
		return string(row.live.Hash[:])
	}
	return row.Since.String()
}

// tell takes what a task's file says.
func (row *Row) tell(t *mailbox.Task) {
	row.Title, row.Priority, row.Type, row.Target = t.Task.Title, t.Task.Priority, t.Task.Type, t.Assignment.TargetAgent
	if row.State == mailbox.InProgress {
		row.Progress = t.Mbox.Progress
	}
	row.By = cmp.Or(t.Claimant(), row.By)
	if e := t.Result.Error; e != nil && row.State == mailbox.Failed {
		row.once, row.drop = check.OnlyHere(t), t.Called(row.State) == task.Rejected
		row.err = e.Text()
	}
}

// asTheyLie fills the board from the folders alone, as mbox ls does.
func (r *reader) asTheyLie(ctx context.Context, b *Board) error {
	r.folders = nil
	for _, s := range task.Folders {
		c := newColumn(s)
		for it, err := range r.box.List(ctx, mailbox.Filter{States: []mailbox.State{s}}) {
			if err != nil {
				return err
			}
			c.Count++
			row := Row{ID: mailbox.ID(task.TrimJSON(filepath.Base(it.Path))), State: s}
			if it.Task != nil {
				row.tell(it.Task)
				c.names(row.Target, actionOf(it.Task))
				if row.Since = it.Task.Created; s != mailbox.Pending {
					row.Since = it.Task.Updated
				}
			} else if it.Err != nil {
				row.Title = it.Err.Error()
			}
			c.older(row.Since)
			c.Rows = append(c.Rows, row)
		}
		if s == mailbox.Pending || s == mailbox.InProgress {
			slices.SortFunc(c.Rows, func(a, b Row) int {
				return cmp.Or(cmp.Compare(task.Rank(b.Priority), task.Rank(a.Priority)), a.Since.Compare(b.Since.Time), cmp.Compare(a.ID, b.ID))
			})
		} else {
			slices.SortFunc(c.Rows, func(a, b Row) int { return b.Since.Compare(a.Since.Time) })
		}
		c.Rows = c.Rows[:min(len(c.Rows), mostEnded)]
		b.Columns = append(b.Columns, c)
	}
	return nil
}

// agents lists those of the configuration, those that have a task, and those that may
// not claim.
func (b *Board) agents(known map[string]mailbox.Capabilities, states map[string]mailbox.Agent) {
	all := map[string]*Agent{}
	add := func(name string, known, enabled bool) *Agent {
		all[name] = &Agent{Name: name, Known: known, Enabled: enabled, Life: states[name].At(b.At.Time), Able: true, Holds: []mailbox.ID{}}
		return all[name]
	}
	for name, a := range known {
		add(name, true, !a.Disabled)
	}
	for name, a := range states {
		if all[name] == nil && !a.At(b.At.Time).Claims() {
			add(name, false, true)
		}
	}
	for name, w := range b.Columns[task.FolderIndex(mailbox.Pending)].waiting {
		if all[name] != nil {
			all[name].Waiting, all[name].thinks = w.all, w.thinks
		}
	}
	for _, row := range b.Columns[task.FolderIndex(mailbox.InProgress)].Rows {
		a := all[row.By]
		if a == nil {
			a = add(row.By, false, true)
		}
		if a.Since == nil || row.Since.Before(a.Since.Time) {
			a.Holds, a.Since, a.Said = slices.Insert(a.Holds, 0, row.ID), &row.Since, row.Progress
		} else {
			a.Holds = append(a.Holds, row.ID)
		}
	}
	b.Agents = []Agent{}
	for _, a := range all {
		b.Agents = append(b.Agents, *a)
	}
	slices.SortFunc(b.Agents, func(a, b Agent) int {
		return cmp.Or(cmp.Compare(len(b.Holds), len(a.Holds)), cmp.Compare(a.Name, b.Name))
	})
}
