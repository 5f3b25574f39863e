package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/cmd/mbox/top"
	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// teller tells lines of the ledger to people. What the ledger does not have, since it
// holds no text of tasks, it looks up in the task's file as that is now.
type teller struct {
	*printer
	box *mailbox.Box
}

// idWide is how wide the column of ids is: a longer one pushes its own line aside.
const idWide = 20

// line is a ledger line for people: when, which task, and what was done by whom, with the
// reason.
func (t *teller) line(ctx context.Context, e *audit.Entry) string {
	id := cmp.Or(clean(e.Task(), 128), "-")
	head := t.paint.dim(e.Time().Local().Format(time.TimeOnly)) + "  " + t.ofTask(id) + "  "
	margin := len(time.TimeOnly) + 4 + max(idWide, utf8.RuneCountInString(id))
	if margin > t.wide/2 && t.wide > 0 { // a long id has a line of its own
		margin = len(time.TimeOnly) + 2
		head = strings.TrimRight(head, " ") + "\n" + strings.Repeat(" ", margin)
	}
	if d, err := delegation.Of(e); err == nil {
		return head + t.hanging(t.delegationLine(&d), margin, plain)
	}
	said := clean(schemas.LocalTimes(sentence(e)+believed(e)), maxLine)
	if more := t.more(ctx, e); more != "" {
		said += ": " + clean(schemas.LocalTimes(more), maxLine)
	}
	return head + t.hanging(said, margin, t.eventColour(e.Event))
}

// ofTask is a task's id in the colour that it has in all lines.
func (p *printer) ofTask(id string) string {
	h := fnv.New32a()
	h.Write([]byte(id))
	code := [...]string{"32", "33", "34", "35", "36"}[h.Sum32()%5]
	return p.paint.with(code, id) + strings.Repeat(" ", max(idWide-utf8.RuneCountInString(id), 0))
}

// sentence is what was done, without the id, which stands before it.
func sentence(e *audit.Entry) string {
	var d struct {
		Name  string `json:"name"`
		Entry string `json:"entry"`
	}
	_ = e.Detail(&d) // a line without them has neither
	switch said, id := e.Action, e.Task(); {
	case e.Event == audit.TaskQuarantined && d.Name != "" && d.Entry != "":
		return strings.Replace(said, d.Entry, d.Name, 1)
	case id == "":
		return said
	case e.Event == audit.TaskRetried && strings.Contains(said, "will be tried again"):
		return e.Agent + " failed, and it will be tried again"
	case e.Event == audit.TaskReleased && strings.Contains(said, "handed work on"):
		return e.Agent + " handed work on"
	case e.Event == audit.TaskReleased && strings.Contains(said, " gave back "+id):
		return strings.Replace(said, "back "+id, "it back", 1)
	default:
		words := strings.Split(said, " ")
		for i, word := range words {
			switch behind, is := strings.CutPrefix(word, id); {
			case !is || behind != "" && behind != "," && behind != ":":
				continue
			case behind == ":" && i > 0 && strings.HasSuffix(words[i-1], ":"): // mbox: ID: what is wrong
				words = slices.Delete(words, i, i+1)
			default:
				words[i] = "it" + behind
			}
			break
		}
		return strings.Join(words, " ")
	}
}

// believed is by what a completion can be believed; "" of any other line.
func believed(e *audit.Entry) string {
	if e.Event != audit.TaskCompleted {
		return ""
	}
	if m, ok := task.MoveOf(e); ok && len(m.Checks) > 0 {
		return ", and it has passed " + strings.Join(m.Checks, ", ")
	}
	return ", unverified"
}

// dull are reasons that say no more than the event.
var dull = []string{"", "submitted", "admitted", "Picked up for processing", "progress", "Completed", "Cancelled"}

// together is how far apart a line and the change that it tells of may be.
const together = 2 * time.Second

// settled is how long after a line its task's file is where it belongs, but on a machine
// that has much to do.
const settled = 200 * time.Millisecond

// more is why something was done, or what it is about.
func (t *teller) more(ctx context.Context, e *audit.Entry) string {
	var d struct {
		Reason string        `json:"reason"`
		From   mailbox.State `json:"from"`
		To     mailbox.State `json:"to"`
	}
	_ = e.Detail(&d) // a line without them has none
	file := t.fileOf(ctx, e)
	switch e.Event {
	case audit.TaskCreated:
		return file.Task.Title
	case audit.TaskProgress:
		if p := file.Mbox.Progress; p != nil && near(p.At.Time, e) {
			return progressText(p)
		}
		return ""
	case audit.ErrorEvent:
		if _, reason, ok := strings.Cut(d.Reason, ": "); ok && strings.HasPrefix(d.Reason, "schedule ") {
			return reason
		}
		return ""
	case audit.TaskFailed, audit.TaskRejected, audit.TaskRetried, audit.TaskReleased, audit.TaskCancelled, audit.TaskQuarantined, audit.TaskLateResult:
	default:
		return ""
	}
	for _, c := range slices.Backward(file.Audit.StateChanges) {
		if c.To == d.To && near(c.At.Time, e) {
			d.Reason = strings.TrimPrefix(c.Reason, "rejected: ")
			break
		}
	}
	if slices.Contains(dull, d.Reason) || strings.HasSuffix(e.Action, d.Reason) {
		return ""
	}
	return d.Reason
}

// fileOf is a line's task as that line has left it, or a later one; empty where there is
// none. A file follows its line a moment later.
func (t *teller) fileOf(ctx context.Context, e *audit.Entry) *mailbox.Task {
	var d struct {
		Revision int64 `json:"revision"`
	}
	_ = e.Detail(&d) // a line without it changes no file
	for {
		file, _, err := t.box.Task(ctx, mailbox.ID(e.Task()))
		late := time.Since(e.Time()) > settled
		switch {
		case err == nil && (late || file.Mbox.Revision >= d.Revision):
			return file
		case err != nil && (late || !errors.Is(err, mailbox.ErrNotFound)):
			return &mailbox.Task{}
		}
		select {
		case <-time.After(settled / 20):
		case <-ctx.Done():
			return &mailbox.Task{}
		}
	}
}

func near(at time.Time, e *audit.Entry) bool {
	d := e.Time().Sub(at)
	return d > -together && d < together
}

// progressText is how far a task is: "40% reading".
func progressText(p *mailbox.Progress) string {
	if p.Percent == nil {
		return p.Message
	}
	return strings.TrimSpace(fmt.Sprintf("%d%% %s", *p.Percent, p.Message))
}

// wrap breaks a line between words, where it is longer than that many cells; at
// less than a few it is left as it is. What is broken off is indented as the line is.
func wrap(text string, wide int) (lines []string) {
	const least = 16
	words := strings.TrimLeft(text, " ")
	indent := text[:len(text)-len(words)]
	if wide -= len(indent); wide < least {
		return []string{text}
	}
	line := ""
	for word := range strings.SplitSeq(words, " ") {
		switch {
		case line == "":
			line = word
		case top.Cells(line)+1+top.Cells(word) > wide:
			lines, line = append(lines, indent+line), word
		default:
			line += " " + word
		}
	}
	return append(lines, indent+line)
}

// hanging is a line behind so many columns: what a terminal has no room for stands below
// its beginning.
func (p *printer) hanging(text string, margin int, colour paint) string {
	lines := wrap(text, p.wide-margin)
	for i := range lines {
		lines[i] = colour(lines[i])
	}
	return strings.Join(lines, "\n"+strings.Repeat(" ", margin))
}

// whileRead ends with ctx, or when nobody reads standard output any more: the pipe to
// head, say, would be noticed at the next line only.
func whileRead(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(ctx)
	go func() {
		for ctx.Err() == nil {
			out := []unix.PollFd{{Fd: int32(os.Stdout.Fd())}}
			n, err := unix.Poll(out, pollEvery)
			if err != nil && !errors.Is(err, unix.EINTR) {
				return
			}
			if n > 0 && out[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0 {
				end()
			}
		}
	}()
	return ctx, end
}

// pollEvery is how often whileRead looks whether it has to end itself, in milliseconds.
const pollEvery = 1000
