package top

import (
	"context"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"mbox/mailbox"
)

// source is where the model has its messages from. Each function gives a command that
// ends with one message; tests put others in their place.
type source struct {
	news    func() tea.Cmd
	board   func(touched map[mailbox.ID]bool) tea.Cmd
	page    func(kind string, id mailbox.ID) tea.Cmd
	run     func(verb string, id mailbox.ID) tea.Cmd
	waiting func(d time.Duration, then tea.Msg) tea.Cmd
}

// The messages.
type (
	newsMsg  news
	boardMsg struct {
		board *Board
		err   error
		took  time.Duration
	}
	pageMsg struct {
		kind string
		id   mailbox.ID
		text string
	}
	doneMsg struct {
		command string
		err     error
	}
	tickMsg struct{} // a second has passed
	dueMsg  struct{} // a board may be read
)

// newSource reads from the box.
func newSource(w *work, box *mailbox.Box, o Options) source {
	lines, r := make(chan news, mostAtOne), newReader(box, o.Lacks)
	r.soon = true
	go w.do(func(ctx context.Context) { follow(ctx, box, lines) })
	return source{
		news: func() tea.Cmd {
			return w.cmd(func(ctx context.Context) tea.Msg {
				if n, ok := take(ctx, lines); ok {
					return newsMsg(n)
				}
				return nil
			})
		},
		board: func(touched map[mailbox.ID]bool) tea.Cmd {
			return w.cmd(func(ctx context.Context) tea.Msg {
				begun := time.Now()
				b, err := r.read(ctx, touched)
				if err == nil {
					b.Name(o.Name)
				}
				return boardMsg{b, err, time.Since(begun)}
			})
		},
		page: func(kind string, id mailbox.ID) tea.Cmd {
			return w.cmd(func(ctx context.Context) tea.Msg {
				read := o.Describe
				if kind == pageLedger {
					read = func(ctx context.Context, id mailbox.ID) (string, error) { return linesOf(ctx, box, id, o) }
				}
				text, err := read(ctx, id)
				if err != nil {
					text = o.Fault(err)
				}
				return pageMsg{kind, id, text}
			})
		},
		run: func(verb string, id mailbox.ID) tea.Cmd {
			do := map[string]func(context.Context, mailbox.ID) error{verbCancel: o.Cancel, verbRetry: o.Retry, verbPause: o.Pause, verbResume: o.Resume}[verb]
			return w.cmd(func(ctx context.Context) tea.Msg {
				// What has been confirmed is not left half done when the board is quit.
				return doneMsg{command(verb, id), do(context.WithoutCancel(ctx), id)}
			})
		},
		waiting: func(d time.Duration, then tea.Msg) tea.Cmd {
			return w.cmd(func(ctx context.Context) tea.Msg {
				sleep(ctx, d)
				return then
			})
		},
	}
}

// command is the command line that does the same.
func command(verb string, id mailbox.ID) string { return "mbox " + verb + " " + word(id) }

// linesOf are the ledger's lines about a task, the oldest first.
func linesOf(ctx context.Context, box *mailbox.Box, id mailbox.ID, o Options) (string, error) {
	var lines []string
	for line, err := range box.Ledger().LinesOf(string(id)) {
		if err != nil {
			return "", err
		}
		e, err := line.Decode()
		if err != nil {
			return "", err
		}
		lines = append(lines, o.Line(&e))
		if len(lines) == mostLines || ctx.Err() != nil {
			break
		}
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n"), ctx.Err()
}
