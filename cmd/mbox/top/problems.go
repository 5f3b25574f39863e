package top

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mbox/cmd/mbox/check"
	"mbox/mailbox"
	"mbox/mailbox/home"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Problem is something that somebody has to look at. Its text is as it came.
type Problem struct {
	Kind string     `json:"kind"`
	Task mailbox.ID `json:"task,omitzero"`
	Text string     `json:"text"`
	Hint string     `json:"hint,omitzero"` // the command that helps

	Count int `json:"count,omitzero"` // of how many things it tells, where those are several
}

// key tells a problem from others. Its text may change while it stays: how long it has
// lasted, how many there are.
func (p *Problem) key() string { return p.Kind + " " + string(p.Task) + " " + p.Hint }

// The kinds of problems, the worst first.
const (
	kindMailbox    = check.Mailbox // it cannot be opened
	kindReadOnly   = "read-only"
	kindGone       = "gone"
	kindLedger     = "ledger"
	kindDisk       = "disk"
	kindClaim      = "claim" // its worker is gone
	kindAgent      = "agent" // it cannot work, and has tasks; or nothing is heard of its worker
	kindAlarm      = "alarm" // nobody takes it
	kindApproval   = "approval"
	kindSchedule   = "schedules" // it never fires, or its tasks fail
	kindPaused     = "paused"    // an agent for which tasks wait
	kindDrop       = "drop"
	kindQuarantine = "quarantine"
	kindTelemetry  = "telemetry" // its server does not take what happens
	kindFailed     = "failed"
)

// How many tasks of a folder are asked why they stand still: each answer reads the task's
// file. How long one counts if no line comes: a worker dies without one.
// And how many tasks of a kind of problem are told one by one: a board is one screen.
const (
	mostAsked    = 10
	askNext      = 2 // of a board that is to be there soon, after the first
	waitCounts   = 5 * time.Minute
	workCounts   = 30 * time.Second
	mostTogether = 5
)

// cause is what was found out about a task that may stand still.
type cause struct {
	hash    task.Digest
	alarmed bool
	asked   time.Time
	found   *Problem // nil: nothing is wrong
}

func (b *Board) trouble(kind string, id mailbox.ID, text, hint string) {
	b.Problems = append(b.Problems, Problem{Kind: kind, Task: id, Text: oneLine(text), Hint: hint})
}

// many is one problem that tells of n things.
func (b *Board) many(kind string, n int, text, hint string) {
	b.Problems = append(b.Problems, Problem{Kind: kind, Text: oneLine(text), Hint: hint, Count: n})
}

// Needs counts what needs somebody.
func (b *Board) Needs() (n int) {
	for _, p := range b.Problems {
		n += max(p.Count, 1)
	}
	return n
}

// problems lists what mbox doctor and mbox why call so.
func (r *reader) problems(ctx context.Context, b *Board) {
	if b.ReadOnly != "" {
		b.trouble(kindReadOnly, "", b.ReadOnly, "mbox doctor")
	}
	if err := r.box.InPlace(); err != nil {
		b.trouble(kindGone, "", err.Error(), "mbox doctor")
	}
	b.room()
	r.standing(ctx, b)
	r.gone(ctx, b)
	b.paused()
	if r.lacks != nil {
		for _, f := range r.lacks() {
			kind := f.Check
			if f.Agent != "" {
				kind = kindAgent
			}
			b.trouble(kind, "", f.Text, f.Hint)
		}
	}
	kept, err := home.Entries(b.Home)
	r.quarantine(b, kept, err)
	r.failed(ctx, b, kept)
	b.sort()
}

// failed tells of the tasks that failed last, and counts the others. Of those whose files
// have not been read nobody knows whether they were cancelled.
func (r *reader) failed(ctx context.Context, b *Board, kept []string) {
	c, told, more, since := &b.Columns[task.FolderIndex(mailbox.Failed)], 0, 0, mailbox.Time{}
	unread := c.Count
	for _, row := range c.Rows {
		if _, read := r.titles[place{row.State, row.ID}]; !read {
			continue
		}
		switch unread--; {
		case strings.HasPrefix(row.err, "cancelled"):
		case told == mostTogether:
			more, since = more+1, row.Since
		default:
			told++
			hint := ""
			switch {
			case row.once:
				hint = "start it anew by mbox run; then mbox archive " + word(row.ID)
			case row.drop:
				hint = cmp.Or(check.Anew(b.Home, kept, row.ID), "send it anew, mended") + "; then mbox archive " + word(row.ID)
			default:
				hint = RetryAll(append(r.before(ctx, row.ID), row.ID))
			}
			b.trouble(kindFailed, row.ID, schemas.Sentence(oneLine(row.err), 200), hint)
		}
	}
	if more == 0 {
		return
	}
	text := number(more) + " more failed since " + since.String()
	if unread > 0 {
		text += ", and " + number(unread) + " before that failed or were cancelled"
	}
	b.many(kindFailed, more, text, "mbox ls --state failed, then mbox retry --failed")
}

// before are the failed tasks that a failed one waits for.
func (r *reader) before(ctx context.Context, id mailbox.ID) []mailbox.ID {
	t, _, err := r.box.Task(ctx, id)
	if err != nil {
		return nil // it has moved on
	}
	failed, _ := mailbox.FailedBefore(r.box, t) // mbox retry says what is wrong
	return failed
}

// RetryAll is the command that retries tasks.
func RetryAll(ids []mailbox.ID) string {
	words := []string{"mbox retry"}
	for _, id := range ids {
		words = append(words, word(id))
	}
	return strings.Join(words, " ")
}

// Name has name write the commands of each problem for this mailbox; nil: as they are.
func (b *Board) Name(name func(*Problem)) {
	for i := range b.Problems {
		if name != nil {
			name(&b.Problems[i])
		}
	}
}

// sort puts the worst first.
func (b *Board) sort() {
	order := []string{kindMailbox, kindReadOnly, kindGone, kindLedger, kindDisk, kindClaim, kindAgent, kindAlarm, kindApproval, kindSchedule, kindPaused, kindDrop, kindQuarantine, kindTelemetry, kindFailed}
	slices.SortStableFunc(b.Problems, func(a, b Problem) int { return slices.Index(order, a.Kind) - slices.Index(order, b.Kind) })
}

func word(id mailbox.ID) string { return schemas.ShellWord(string(id)) }

// standing looks into tasks that may not come further by themselves.
func (r *reader) standing(ctx context.Context, b *Board) {
	if !r.soon {
		r.asks = 2 * mostAsked
	}
	rest, causes, told := doubts{}, map[mailbox.ID]cause{}, map[string]int{}
	for _, s := range task.Folders[:2] {
		f, counts := r.folders[s], waitCounts
		if f == nil {
			continue
		}
		if s == mailbox.InProgress {
			counts = workCounts
		}
		rest = rest.and(f.doubts, 1)
		for _, l := range f.suspect.all() {
			if ctx.Err() != nil {
				break
			}
			rest = rest.and(r.doubt(l, r.asked), -1)
			known, ok := r.causes[l.ID]
			ok = ok && known.hash == l.Hash && known.alarmed == l.Alarmed
			switch due := !ok || b.At.Sub(known.asked) > counts; {
			case due && r.asks > 0:
				r.asks--
				known = cause{l.Hash, l.Alarmed, b.At.Time, r.why(ctx, l)}
			case due:
				if b.more = true; !ok {
					continue
				}
			}
			causes[l.ID] = known
			if known.found == nil {
				continue
			}
			if told[known.found.Kind]++; told[known.found.Kind] <= mostTogether {
				b.Problems = append(b.Problems, *known.found)
			}
		}
	}
	r.causes, r.asks = causes, askNext
	b.rest(kindClaim, told[kindClaim], 0, " more whose workers are gone", "mbox ls --state in-progress")
	if told[kindApproval] > 0 && rest.asking > 0 {
		b.rest(kindApproval, told[kindApproval], rest.asking, " more that may wait for an approval", "mbox approve")
	} else {
		b.rest(kindApproval, told[kindApproval], 0, " more wait for an approval", "mbox approve")
	}
	b.rest(kindAlarm, told[kindAlarm], rest.late, " more that wait long, or work longer than they said", "mbox ls")
}

// gone tells of ended tasks whose content is lost, and has not been put back.
func (r *reader) gone(ctx context.Context, b *Board) {
	told := 0
	for i, id := range r.lost {
		if told == mostTogether {
			b.many(kindAlarm, len(r.lost)-i, number(len(r.lost)-i)+" more whose content is lost, as an alarm says", "mbox verify")
			break
		}
		if it, err := mailbox.Lying(ctx, r.box, id); err == nil && it.Task != nil {
			continue
		}
		told++
		b.trouble(kindAlarm, id, "it has ended, and its content is lost", "mbox why "+word(id))
	}
}

// rest tells how many more there are of a kind of which n were found, and others were not
// looked into.
func (b *Board) rest(kind string, n, others int, text, hint string) {
	if more := max(n-mostTogether, 0) + others; more > 0 {
		b.many(kind, more, number(more)+text, hint)
	}
}

// suspect tells by the index alone whether a task deserves a closer look: a worker may
// be gone whatever it said, and an action may need somebody's word.
func (r *reader) suspect(l *mailbox.Live, now time.Time) bool {
	return r.overdue(l, now) || l.State == mailbox.InProgress || check.Nobody(l.Target, l.Action, r.options.Agents) != "" ||
		l.Action != "" && r.options.Approval != nil
}

// paused tells of agents that may not claim what waits for them.
func (b *Board) paused() {
	for _, a := range b.Agents {
		if !a.Life.Claims() && a.Waiting > 0 {
			hint := "mbox agent show " + schemas.ShellWord(a.Name)
			if a.Life.State == lifecycle.Paused {
				hint = "mbox agent resume " + schemas.ShellWord(a.Name)
			}
			b.trouble(kindPaused, "", a.Name+" is "+a.Life.String()+"; tasks that wait for it: "+number(a.Waiting), hint)
		}
	}
}

// overdue tells whether a task should have come further by now.
func (r *reader) overdue(l *mailbox.Live, now time.Time) bool {
	if l.State == mailbox.InProgress {
		return now.After(l.Until)
	}
	ready := l.Since
	if l.NotBefore.After(ready) {
		ready = l.NotBefore
	}
	return l.Alarmed || now.Sub(ready) > r.options.StartWithin
}

// why asks about one task; nil if nothing is wrong with it.
func (r *reader) why(ctx context.Context, l *mailbox.Live) *Problem {
	if reason := check.Nobody(l.Target, l.Action, r.options.Agents); reason != "" && l.State == mailbox.Pending {
		return &Problem{Kind: kindAlarm, Task: l.ID, Text: reason, Hint: "mbox why " + word(l.ID)}
	}
	w, err := mailbox.Stands(ctx, r.box, l.ID)
	if err == nil && l.State == mailbox.Pending && l.Alarmed && len(w.Alarms)+len(w.Waits) == 0 {
		w, err = r.box.Why(ctx, l.ID) // what the alarm said stands in the ledger alone
	}
	switch {
	case errors.Is(err, mailbox.ErrNotFound) || ctx.Err() != nil:
		return nil
	case err != nil:
		return &Problem{Kind: kindAlarm, Task: l.ID, Text: err.Error(), Hint: "mbox why " + word(l.ID)}
	case len(w.Faults) > 0:
		return &Problem{Kind: kindAlarm, Task: l.ID, Text: w.Faults[0], Hint: "mbox why " + word(l.ID)}
	case w.Over:
		return &Problem{Kind: kindClaim, Task: l.ID, Text: w.Lease, Hint: "mbox why " + word(l.ID)}
	case w.Approve != "":
		return &Problem{Kind: kindApproval, Task: l.ID, Text: w.Summary, Hint: "mbox approve " + word(l.ID)}
	case l.State == mailbox.Pending && l.Alarmed && len(w.Waits) > 0:
		return &Problem{Kind: kindAlarm, Task: l.ID, Text: w.Summary, Hint: "mbox why " + word(l.ID)}
	case l.State == mailbox.Pending && len(w.Alarms) > 0:
		return &Problem{Kind: kindAlarm, Task: l.ID, Text: w.Alarms[len(w.Alarms)-1], Hint: "mbox why " + word(l.ID)}
	}
	return nil
}

// dropWait is how long a file may lie in pending before it is said that nobody takes
// it in.
const dropWait = 10 * time.Second

// drops tells of files in pending that are no tasks yet.
func (r *reader) drops(b *Board) {
	names, err := mailbox.Unexpected(r.box, mailbox.Pending)
	if err != nil {
		b.trouble(kindGone, "", err.Error(), "mbox doctor")
		return
	}
	waiting, told := 0, 0
	for _, name := range names {
		if told < mostTogether {
			if text, hint := check.Pinned(b.Home, name); text != "" {
				told++
				b.trouble(kindDrop, "", text, hint)
				continue
			}
		}
		if info, err := os.Lstat(filepath.Join(b.Home, "tasks", string(mailbox.Pending), name)); err == nil && r.now().Sub(info.ModTime()) > dropWait {
			waiting++
		}
	}
	if waiting > 0 {
		b.trouble(kindDrop, "", number(waiting)+" dropped in pending, and not admitted yet", "mbox ls")
	}
}

// mostReasons is how many reasons of what lies in quarantine a board reads. One that it
// has not read counts as one that somebody has to see.
const mostReasons = 1000

// quarantine tells how much lies there that nobody has seen, and what came last.
func (r *reader) quarantine(b *Board, kept []string, err error) {
	seen, failed := home.Seen(b.Home)
	if err = errors.Join(err, failed); err != nil {
		b.trouble(kindGone, "", err.Error(), "mbox doctor")
		return
	}
	b.Quarantine = len(kept)
	names := slices.DeleteFunc(slices.Clone(kept), func(name string) bool { return seen[name] })
	n, last := len(names), home.Reason{}
	for _, name := range names[:min(n, mostReasons)] {
		why, err := r.reason(name)
		switch {
		case err != nil:
		case why.Answered():
			n--
		case why.At.After(last.At.Time):
			last = why
		}
	}
	if n == 0 {
		return
	}
	text := number(n) + " kept in tasks/quarantine"
	if last.Name != "" {
		text += "; the last: " + last.Name + ": " + last.Text()
	}
	b.many(kindQuarantine, n, schemas.Sentence(oneLine(text), 300), "mbox ls --state quarantine, then mbox status --seen")
}

// reason is why an entry lies in quarantine, where it does not change.
func (r *reader) reason(entry string) (home.Reason, error) {
	if why, known := r.reasons[entry]; known {
		return why, nil
	}
	why, err := home.ReadReason(filepath.Join(r.box.Home(), "tasks", "quarantine", entry+home.ReasonSuffix))
	if err == nil {
		r.reasons[entry] = why
	}
	return why, err
}

func number(n int) string { return strconv.Itoa(n) }
