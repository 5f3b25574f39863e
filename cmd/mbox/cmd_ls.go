package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/cmd/mbox/top"
	"mbox/mailbox"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

type lsOptions struct {
	states         choices
	kind, priority choice
	sort           choice
	to, by, from   string
	grep           string
	labels         labels
	since          moment
	most           number
	tree, json     bool
}

// asQuarantine is the state in which what is no task is listed.
const asQuarantine = "quarantine"

func stateNames() []string {
	return append(folderNames(), task.Cancelled, task.Rejected, asQuarantine)
}

// folderNames are the states that a task's file lies in.
func folderNames() (names []string) {
	for _, state := range append(slices.Clone(task.Folders), mailbox.Archived) {
		names = append(names, string(state))
	}
	return names
}

func lsVerb() *verb {
	o := lsOptions{
		states: choices{among: stateNames()}, kind: oneOf(task.Types...), priority: oneOf(task.Priorities...),
		sort: oneOf("oldest", "newest", "changed", "urgent"), since: moment{past: true}, most: number{max: math.MaxInt32},
	}
	return &verb{
		name:  "ls",
		brief: "list tasks",
		about: `Lists tasks, those in the archive and what lies in quarantine only when asked for
by --state. Each state is in the order of the ids, where numbers count by their
value: so what mbox has named comes oldest first. A terminal is shown the first 100. A task in tasks/failed that somebody
cancelled is listed as cancelled, a drop that was no task as rejected; --state failed
has them too. What was completed? has passed no check: none was asked for, or it was
moved by hand. TRY is which attempt it is, DONE how far. On a terminal a failure's
reason goes before its title, and columns that there is no room for, or nothing in,
are left out: first those in which all say the same. With --json each line is a task
file's content.`,
		shows: []string{
			"mbox ls --state pending --for coder",
			"mbox ls --state failed --since 1d --sort newest",
			"mbox ls --state failed --json | jq -r .id",
		},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			valueFlag("state", "only those `STATE`: pending, in-progress, completed, failed, cancelled, rejected, quarantine or archive; may be repeated", &o.states),
			filledFlag("for", "only those meant for `AGENT`", &o.to, "to"),
			filledFlag("by", "only those that `AGENT` has taken", &o.by),
			filledFlag("from", "only those that `AGENT` has sent", &o.from),
			valueFlag("type", "only those of `TYPE`", &o.kind),
			valueFlag("priority", "only those of priority `P`", &o.priority),
			valueFlag("label", "only those with the label `KEY=VALUE`; may be repeated", &o.labels),
			filledFlag("grep", "only those with `TEXT` in id, title or description, in any case", &o.grep),
			valueFlag("since", "only those that changed since `WHEN`: a time, or a duration ago", &o.since),
			valueFlag("sort", "`BY` what, over all states: oldest, newest (made), changed (last first) or urgent", &o.sort),
			boolFlag("tree", "put tasks that were handed on below those that they are part of", &o.tree),
			limitFlag("at most `N`; 0: all", &o.most),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, _ []string) error { return o.run(ctx, s) },
	}
}

func (o *lsOptions) filter() mailbox.Filter {
	f := mailbox.Filter{Agent: o.by, Target: o.to, Source: o.from, Type: o.kind.value, Priority: o.priority.value}
	for _, state := range o.states.values {
		switch state {
		case task.Cancelled, task.Rejected:
			state = string(mailbox.Failed)
		case asQuarantine:
			continue
		}
		if !slices.Contains(f.States, mailbox.State(state)) {
			f.States = append(f.States, mailbox.State(state))
		}
	}
	return f
}

// picks tells whether more is asked for than a mailbox's own filter knows.
func (o *lsOptions) picks() bool {
	return o.grep != "" || len(o.labels) > 0 || !o.since.at.IsZero() || slices.Contains(o.states.values, task.Cancelled) || slices.Contains(o.states.values, task.Rejected)
}

// wants tells whether an item is asked for, as far as the mailbox's filter does not.
func (o *lsOptions) wants(item *mailbox.Item) bool {
	if !o.picks() {
		return true
	}
	t := item.Task
	if t == nil {
		return false
	}
	if item.State == mailbox.Failed && len(o.states.values) > 0 && !slices.Contains(o.states.values, string(mailbox.Failed)) && !slices.Contains(o.states.values, listedAs(item)) {
		return false
	}
	text := strings.ToLower(string(t.ID) + "\n" + t.Task.Title + "\n" + t.Task.Description)
	return strings.Contains(text, strings.ToLower(o.grep)) && !t.Updated.Before(o.since.at) && labelled(t, o.labels)
}

// labelled tells whether a task has all these labels.
func labelled(t *mailbox.Task, wanted labels) bool {
	if len(wanted) == 0 {
		return true
	}
	has := labelsOf(&t.Mbox)
	for key, value := range wanted {
		if !slices.Contains(has, key+"="+value) {
			return false
		}
	}
	return true
}

// labelsOf are a task's labels, as flags give them.
func labelsOf(m *mailbox.Meta) (all []string) {
	var labels map[string]any
	_ = json.Unmarshal(m.Labels, &labels) // who has none, or what are none, has none
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, fmt.Sprintf("%s=%v", key, labels[key]))
	}
	return all
}

// listedAs is what the state of a task is called in a list, in one word.
func listedAs(item *mailbox.Item) string {
	switch {
	case item.Task == nil || item.State == mailbox.Archived:
		return string(item.State)
	case item.Task.Called(item.State) == task.Unverified:
		return "completed?"
	}
	return item.Task.Called(item.State)
}

func (o *lsOptions) run(ctx context.Context, s *session) error {
	limit := o.limit(s)
	return s.looking(ctx, func(box *mailbox.Box) error {
		items, err := o.items(ctx, box, limit)
		if err != nil {
			return err
		}
		found := len(items)
		if limit > 0 {
			items = items[:min(limit, found)]
		}
		rows := taskTable()
		for i := range items {
			if err := o.show(s, rows, &items[i]); err != nil {
				return err
			}
		}
		if slices.Contains(o.states.values, asQuarantine) {
			if err := o.showKept(s, box.Home(), rows, limit); err != nil {
				return err
			}
		}
		rows.printIfAny(s, "nothing to list")
		if err := warnAllByHand(ctx, s, box, items); err != nil {
			return err
		}
		if found > len(items) {
			return o.more(s, box, found, len(items))
		}
		return nil
	})
}

// warnAllByHand says of some of the listed tasks that their files were changed by hand.
func warnAllByHand(ctx context.Context, s *session, box *mailbox.Box, items []listed) error {
	const most = 10
	n := 0
	for i := range items {
		err := mailbox.ByHand(ctx, box, items[i].Item)
		if err == nil {
			continue
		}
		if n++; n > most {
			s.warnf("and perhaps more; mbox verify names all")
			break
		}
		warnByHand(s, err)
	}
	return ctx.Err()
}

// mostForPeople is how many tasks a terminal is shown where nothing was said.
const mostForPeople = 100

// limit is how many are listed; 0: all.
func (o *lsOptions) limit(s *session) int {
	switch {
	case o.most.value != nil:
		return *o.most.value
	case s.terminal && !o.json:
		return mostForPeople
	}
	return 0
}

// whole tells whether all tasks have to be read before the first is listed.
func (o *lsOptions) whole() bool { return o.sort.value != "" || o.tree }

// more says that there are more than were listed, and how many where that is known.
func (o *lsOptions) more(s *session, box *mailbox.Box, found, listed int) error {
	f := o.filter()
	states := f.States
	if len(states) == 0 {
		states = task.Folders
	}
	switch filtered := o.picks() || o.to+o.by+o.from+o.kind.value+o.priority.value != "" || slices.Contains(states, mailbox.Archived); {
	case o.whole():
	case filtered:
		s.infof("there are more; mbox ls --limit 0 lists all")
		return nil
	default:
		count, err := mailbox.Counts(box)
		if err != nil {
			return err
		}
		found = 0
		for _, state := range states {
			found += count[state]
		}
	}
	s.infof("%d more; mbox ls --limit 0 lists all", max(1, found-listed))
	return nil
}

// listed is an item, and how deep it is in the tree that is drawn.
type listed struct {
	mailbox.Item
	depth int
}

// items are those that are asked for: one more than the limit if there are more.
func (o *lsOptions) items(ctx context.Context, box *mailbox.Box, limit int) (items []listed, err error) {
	f := o.filter()
	if limit > 0 && !o.whole() && !o.picks() {
		f.Limit = limit + 1 // to know whether there are more
	}
	if len(f.States) > 0 || len(o.states.values) == 0 {
		for item, err := range box.List(ctx, f) {
			if err != nil {
				return nil, err
			}
			if o.wants(&item) {
				items = append(items, listed{Item: item})
			}
			if limit > 0 && len(items) > limit && !o.whole() {
				break
			}
		}
	}
	if o.sort.value != "" {
		slices.SortStableFunc(items, func(a, b listed) int { return o.compare(a.Task, b.Task) })
	}
	if o.tree {
		items = inTrees(items)
	}
	return items, nil
}

// compare orders tasks as --sort says; what is no task comes last.
func (o *lsOptions) compare(a, b *mailbox.Task) int {
	if a == nil || b == nil {
		return cmp.Compare(btoi(a == nil), btoi(b == nil))
	}
	created := a.Created.Compare(b.Created.Time)
	switch o.sort.value {
	case "newest":
		return -created
	case "changed":
		return b.Updated.Compare(a.Updated.Time)
	case "urgent":
		return cmp.Or(task.Rank(b.Task.Priority)-task.Rank(a.Task.Priority), created)
	}
	return created
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// inTrees puts each task behind the one that it is part of, if that is listed.
func inTrees(items []listed) (out []listed) {
	below, there := map[mailbox.ID][]int{}, map[mailbox.ID]bool{}
	for _, it := range items {
		if it.Task != nil {
			there[it.Task.ID] = true
		}
	}
	var roots []int
	for i, it := range items {
		if it.Task != nil && there[it.Task.Mbox.ParentID] {
			below[it.Task.Mbox.ParentID] = append(below[it.Task.Mbox.ParentID], i)
		} else {
			roots = append(roots, i)
		}
	}
	done := make([]bool, len(items))
	var put func(i, depth int)
	put = func(i, depth int) {
		if done[i] {
			return
		}
		done[i] = true
		it := items[i]
		it.depth = depth
		out = append(out, it)
		if it.Task == nil {
			return
		}
		for _, child := range below[it.Task.ID] {
			put(child, depth+1)
		}
	}
	for _, i := range roots {
		put(i, 0)
	}
	for i := range items { // of a circle, which somebody has made by hand
		put(i, 0)
	}
	return out
}

func (o *lsOptions) show(s *session, rows *table, item *listed) error {
	switch {
	case item.Err != nil && o.json:
		return s.printLine(map[string]string{"path": item.Path, "error": item.Err.Error()})
	case item.Err != nil:
		id := strings.TrimSuffix(path.Base(item.Path), ".json")
		rows.blank(text(id), coloured(string(item.State), s.stateColour(item.State)), coloured(item.Err.Error(), s.paint.red))
		return nil
	case o.json:
		return s.printLine(item.Task)
	}
	rows.add(s.taskRow(item)...)
	return nil
}

// showKept lists what lies in quarantine, as --sort says only by time.
func (o *lsOptions) showKept(s *session, in string, rows *table, limit int) error {
	kept, err := home.Kept(in)
	if err != nil {
		return err
	}
	n := 0
	for _, k := range kept {
		if k.At.Before(o.since.at) || !strings.Contains(strings.ToLower(k.Name+"\n"+k.Reason), strings.ToLower(o.grep)) || limit > 0 && n == limit {
			continue
		}
		n++
		if o.json {
			if err := s.printLine(k); err != nil {
				return err
			}
			continue
		}
		rows.blank(text(k.Name), cell{text: asQuarantine, colour: s.paint.red}, text(k.Text()))
		rows.rows[len(rows.rows)-1][ageColumn] = text(schemas.Ago(k.At.Time, time.Now()))
	}
	return nil
}

// ageColumn is where AGE stands in a list of tasks.
const ageColumn = 8

func taskTable() *table {
	return &table{
		head:  []string{"ID", "STATE", "PRIORITY", "TYPE", "FOR", "BY", "TRY", "DONE", "AGE", "TITLE"},
		spare: []string{"TYPE", "PRIORITY", "BY", "AGE", "FOR", "TRY", "DONE"},
	}
}

// blank adds a row of what is no task.
func (t *table) blank(id, state, title cell) {
	row := make([]cell, len(t.head))
	for i := range row {
		row[i] = text("-")
	}
	row[0], row[1], row[len(row)-1] = id, state, title
	t.add(row...)
}

func (s *printer) taskRow(item *listed) []cell {
	t, by, try, done := item.Task, cmp.Or(item.Task.Claimant(), "-"), "-", "-"
	if t.Mbox.Attempt > 0 {
		try = fmt.Sprintf("%d/%d", t.Mbox.Attempt, t.Mbox.MaxAttempts)
	}
	if p := t.Mbox.Progress; p != nil && p.Percent != nil && item.State == mailbox.InProgress {
		done = fmt.Sprintf("%d%%", *p.Percent)
	}
	title, as := text(t.Task.Title), listedAs(&item.Item)
	if as != task.Cancelled && t.Result.Error != nil && item.State.Terminal() {
		title = text(t.Task.Title + because(t))
		title.fit = func(room int) string { return failureIn(t, room) }
	}
	id := string(t.ID)
	if item.depth > 0 {
		id = strings.Repeat("  ", item.depth-1) + "└ " + id
	}
	return []cell{
		text(id),
		coloured(as, s.stateColour(item.State)),
		coloured(t.Task.Priority, s.priorityColour(t.Task.Priority)),
		text(t.Task.Type), text(t.Assignment.TargetAgent), text(by), text(try), text(done),
		text(schemas.Ago(t.Created.Time, time.Now())),
		title,
	}
}

// failureIn is the title of a failed task and why it failed, in so many columns: of the
// title there is what the reason leaves.
func failureIn(t *mailbox.Task, room int) string {
	const least = 12 // of a title
	why := strings.TrimPrefix(because(t), ": ")
	if t.Result.Error.Path != "" {
		why = strings.TrimPrefix(why, t.Result.Error.Code+": ")
	}
	left := room - top.Cells(why) - len(": ")
	if left < least {
		return top.Cut(why, room)
	}
	return top.Cut(clean(t.Task.Title, maxLine), left) + ": " + why
}

func (s *printer) stateColour(state mailbox.State) paint {
	switch state {
	case mailbox.Pending:
		return s.paint.yellow
	case mailbox.InProgress:
		return s.paint.cyan
	case mailbox.Completed:
		return s.paint.green
	case mailbox.Failed:
		return s.paint.red
	}
	return s.paint.dim
}

func (s *printer) priorityColour(priority string) paint {
	switch priority {
	case "urgent":
		return s.paint.red
	case "high":
		return s.paint.yellow
	case "low":
		return s.paint.dim
	}
	return plain
}
