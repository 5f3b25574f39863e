package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"mbox/audit"
	"mbox/cmd/mbox/gateway/pages"
	"mbox/cmd/mbox/sight"
	"mbox/mailbox"
	"mbox/mailbox/task"
)

// How much a page of the dashboard looks at.
const (
	mostCards  = 15   // in a column of the board
	mostRecent = 4000 // lines of the ledger, for what has ended last
	mostSought = 300  // tasks that a filter is held against, for one column
)

// board is the first page: how many there are, and the four folders.
type board struct {
	Tiles    []tile
	Columns  []column
	News     string
	Filtered bool
	options
}

// options are what filters offer, and what they are set to.
type options struct {
	Names, Types, Priorities, States []string

	State, To, By, From, Type, Priority, Q string
}

type tile struct {
	Name, Link, Note string
	Count            int
}

type column struct {
	State mailbox.State
	Link  string
	Count int
	More  int  // that are not shown
	Some  bool // there may be more than those that are counted
	Cards []card
}

type card struct {
	ID                  mailbox.ID
	State               mailbox.State
	Title               string
	Who, Words          string
	Priority            string
	Since               time.Time
	Late, Blocked, Asks bool
}

func (v view) options() options {
	return options{
		Names: slices.Sorted(maps.Keys(v.Agents)), Types: task.Types, Priorities: task.Priorities, States: append(stateNames(), string(mailbox.Archived)),
		State: v.value("state"), To: v.value("to"), By: v.value("by"), From: v.value("from"), Type: v.value("type"), Priority: v.value("priority"), Q: v.value("q"),
	}
}

// fits tells whether a task is what the filters ask for, and the caller's business.
func (v view) fits(t *mailbox.Task) (bool, error) {
	o := v.options()
	is := func(want, have string) bool { return want == "" || want == have }
	asked := is(o.To, t.Assignment.TargetAgent) && is(o.By, t.Claimant()) && is(o.Type, t.Task.Type) && is(o.Priority, t.Task.Priority) && is(o.From, t.Source.Agent) &&
		(o.Q == "" || strings.Contains(strings.ToLower(t.Task.Title+"\n"+string(t.ID)), strings.ToLower(o.Q)))
	if !asked {
		return false, nil
	}
	return v.mine.Sees(v.ctx, t)
}

// at is a task that is where it is looked for, and fits; nil if it has moved on, or is no
// task: the next look, or Problems, tells.
func (v view) at(id mailbox.ID, state mailbox.State) (*mailbox.Task, error) {
	t, now, err := v.Box.Task(v.ctx, id)
	if v.ctx.Err() != nil {
		return nil, v.ctx.Err()
	}
	if err != nil || now != state {
		return nil, nil
	}
	if yes, err := v.fits(t); err != nil || !yes {
		return nil, err
	}
	return t, nil
}

func (v view) board() error {
	if err := v.tidy(); err != nil {
		return err
	}
	x, err := v.Box.Index()
	if err != nil {
		return err
	}
	b := board{options: v.options(), Filtered: len(v.query) > 0}
	for _, state := range task.Folders {
		col, err := v.column(x, state)
		if err != nil {
			return err
		}
		b.Columns = append(b.Columns, col)
	}
	if v.all() {
		if b.Tiles, err = v.tiles(x); err != nil {
			return err
		}
	}
	for _, c := range b.Columns {
		b.News += fmt.Sprintf("%d %s, ", c.Count, c.State)
	}
	b.News = strings.TrimSuffix(b.News, ", ")
	return v.show("board", "/", "Board", b)
}

// tiles are how many tasks there are of a kind, and how old the oldest is.
func (v view) tiles(x *mailbox.Index) ([]tile, error) {
	now := v.door.o.Now()
	count := func(name, link string, of func(*mailbox.Live) bool, since func(*mailbox.Live) time.Time) tile {
		t := tile{Name: name, Link: link}
		var oldest time.Time
		for i := range x.Live {
			if l := &x.Live[i]; of(l) {
				t.Count++
				if at := since(l); oldest.IsZero() || at.Before(oldest) {
					oldest = at
				}
			}
		}
		if t.Count > 0 {
			t.Note = "oldest " + pages.Ago(now, oldest)
		}
		return t
	}
	made := func(l *mailbox.Live) time.Time { return l.Created }
	begun := func(l *mailbox.Live) time.Time { return l.Since }
	held, more, err := v.held(x)
	if err != nil {
		return nil, err
	}
	asks := tile{Name: "waiting for approval", Link: "/inbox", Count: len(held)}
	if len(held) > 0 {
		asks.Note = "oldest " + pages.Ago(now, held[0].Created.Time)
	}
	if more {
		asks.Note += ", and more"
	}
	return []tile{
		count("pending", "/list?state=pending", func(l *mailbox.Live) bool { return l.State == mailbox.Pending }, made),
		count("waiting for others", "/list?state=pending", func(l *mailbox.Live) bool { return l.State == mailbox.Pending && l.Blocked }, made),
		asks,
		count("late", "/problems", func(l *mailbox.Live) bool { return l.Alarmed }, made),
		count("in progress", "/list?state=in-progress", func(l *mailbox.Live) bool { return l.State == mailbox.InProgress }, begun),
		{Name: "completed", Link: "/list?state=completed", Count: x.Count[mailbox.Completed]},
		{Name: "failed", Link: "/list?state=failed", Count: x.Count[mailbox.Failed]},
	}, nil
}

// mostHeld is how many tasks with an action are asked about for the inbox.
const mostHeld = 200

// held are the tasks that wait for an approval, as far as the rules of the agents say so,
// oldest first; more tells that not all were looked at.
func (v view) held(x *mailbox.Index) (held []*mailbox.Task, more bool, err error) {
	asks := v.Box.Options().Approval
	if asks == nil {
		return nil, false, nil
	}
	var with []mailbox.Live
	for _, l := range x.Live {
		if l.State == mailbox.Pending && l.Action != "" && !l.Blocked {
			with = append(with, l)
		}
	}
	slices.SortFunc(with, func(a, b mailbox.Live) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	if len(with) > mostHeld {
		with, more = with[:mostHeld], true
	}
	for _, l := range with {
		t, state, err := v.Box.Task(v.ctx, l.ID)
		if err == nil && state == mailbox.Pending && asks(t) != "" {
			held = append(held, t)
		}
		if v.ctx.Err() != nil {
			return nil, false, v.ctx.Err()
		}
	}
	return held, more, nil
}

// column is a folder: those that came there last.
func (v view) column(x *mailbox.Index, state mailbox.State) (column, error) {
	c := column{State: state, Count: x.Count[state], Link: v.link("/list", map[string]string{"state": string(state)})}
	var err error
	if state.Terminal() {
		err = v.ended(&c)
	} else {
		err = v.living(&c, x)
	}
	if v.all() && len(v.query) == 0 {
		c.More, c.Some = c.Count-len(c.Cards), false
	} else {
		c.Count = len(c.Cards)
	}
	return c, err
}

// living fills the column of a folder whose tasks the index knows.
func (v view) living(c *column, x *mailbox.Index) error {
	var found []mailbox.Live
	for _, l := range x.Live {
		is := func(name, have string) bool { want := v.value(name); return want == "" || want == have }
		if l.State == c.State && is("to", l.Target) && is("by", l.Claimant) && is("type", l.Type) && is("priority", l.Priority) {
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b mailbox.Live) int { return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.ID, b.ID)) })
	asks := v.Box.Options().Approval
	for i, l := range found {
		if len(c.Cards) == mostCards || i == mostSought {
			c.Some = true
			break
		}
		t, err := v.at(l.ID, c.State)
		if err != nil {
			return err
		}
		if t == nil {
			continue
		}
		k := cardOf(t, c.State)
		k.Late, k.Blocked = l.Alarmed, l.Blocked
		k.Asks = l.Action != "" && c.State == mailbox.Pending && !l.Blocked && asks != nil && asks(t) != ""
		c.Cards = append(c.Cards, k)
	}
	return nil
}

// ended fills the column of a folder with the tasks that came there last, by the ledger.
func (v view) ended(c *column) error {
	looked := 0
	known := map[string]bool{}
	for line, err := range v.Box.Ledger().Backward() {
		if err != nil {
			return err
		}
		if looked++; looked > mostRecent || len(c.Cards) == mostCards || v.ctx.Err() != nil {
			c.Some = true
			break
		}
		ends := slices.Contains([]audit.Event{audit.TaskCompleted, audit.TaskFailed, audit.TaskCancelled, audit.TaskRejected}, line.Event())
		if id := line.Task(); ends && !known[id] {
			known[id] = true
			t, err := v.at(mailbox.ID(id), c.State)
			if err != nil {
				return err
			}
			if t != nil {
				c.Cards = append(c.Cards, cardOf(t, c.State))
			}
		}
	}
	return v.ctx.Err()
}

func cardOf(t *mailbox.Task, state mailbox.State) card {
	k := card{ID: t.ID, State: state, Title: t.Task.Title, Priority: t.Task.Priority, Who: cmp.Or(t.Claimant(), "for "+t.Assignment.TargetAgent), Since: t.Updated.Time}
	switch {
	case state == mailbox.InProgress && t.Mbox.Progress != nil:
		k.Words = t.Mbox.Progress.Message
		if p := t.Mbox.Progress.Percent; p != nil {
			k.Words = strings.TrimSpace(fmt.Sprintf("%d %% %s", *p, k.Words))
		}
	case state == mailbox.Failed && t.Result.Error != nil:
		k.Words = t.Result.Error.Code
	}
	return k
}

// link is a page with the filters of this one, and some more.
func (v view) link(path string, more map[string]string) string {
	q := url.Values{}
	for name, values := range v.query {
		q[name] = values
	}
	for name, value := range more {
		q.Set(name, value)
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// list is the page of all tasks that a filter lets through, page by page.
type list struct {
	Tasks    []*mailbox.Task
	Next     string
	Filter   map[string]string
	Filtered bool
	options
}

// listSize is how many tasks a page of the list has.
const listSize = 50

func (v view) list() error {
	if err := v.tidy(); err != nil {
		return err
	}
	f, err := v.filter()
	if err != nil {
		return err
	}
	page, err := v.page(f, listSize, v.fits)
	if err != nil {
		return err
	}
	l := list{Tasks: page.Tasks, options: v.options(), Filter: map[string]string{}, Filtered: len(v.query) > 0}
	for name, values := range v.query {
		if name != "cursor" {
			l.Filter[name] = values[0]
		}
	}
	if page.Next != "" {
		l.Next = v.link("/list", map[string]string{"cursor": page.Next})
	}
	return v.show("list", "/list", "Tasks", l)
}

// approvals is the inbox.
type approvals struct {
	Waiting []*mailbox.Why
	More    bool
}

// mostInbox is how many approvals the inbox shows at a time.
const mostInbox = 20

func (v view) inbox() error {
	if err := v.tidy(); err != nil {
		return err
	}
	x, err := v.Box.Index()
	if err != nil {
		return err
	}
	held, more, err := v.held(x)
	if err != nil {
		return err
	}
	w := approvals{More: more}
	for _, t := range held {
		if len(w.Waiting) == mostInbox {
			w.More = true
			break
		}
		why, err := v.Box.Why(v.ctx, t.ID)
		if errors.Is(err, mailbox.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if why.State == mailbox.Pending && (why.Approve != "" || len(why.Waits) > 0) {
			why.Task = sight.Shown(why.Task)
			w.Waiting = append(w.Waiting, why)
		}
	}
	return v.show("inbox", "/inbox", "Inbox", w)
}
