// Package top shows a mailbox in a terminal, live: what waits, what is worked at, what
// has ended, what is wrong, and the ledger as it grows.
//
// What is seen comes from a Board, which is read of the index, of the few files whose
// titles are shown, and of the folders (board.go, problems.go); and from the ledger,
// which is followed (feed.go). Both are read by goroutines of their own, so that a slow
// disk stops no key (model.go). Where no terminal is to be drawn on, the same is told in
// lines (plain.go).
//
// Nothing is changed but by a key that was confirmed, and that does what the command
// does that is shown with it. No text of a task reaches the terminal but through
// schemas.Sentence or the functions that Options has, which do the same.
package top

import (
	"context"
	"errors"
	"sync"

	tea "charm.land/bubbletea/v2"

	"mbox/audit"
	"mbox/cmd/mbox/check"
	"mbox/mailbox"
)

// Options are what the board needs of the command that shows it.
type Options struct {
	ReadOnly string // why no key may change anything; "" if keys may
	Doubt    error  // what was found wrong when the mailbox was opened
	// Describe is what mbox show and mbox why tell of a task, for a terminal.
	Describe func(context.Context, mailbox.ID) (string, error)
	// Lacks tells of agents of whose workers nothing is heard, and of what else is not there;
	// nil: nobody asks.
	Lacks  func() []check.Finding
	Line   func(*audit.Entry) string // a line of the ledger, for a terminal
	Fault  func(error) string        // an error with the hint that a command gives
	Name   func(*Problem)            // has its commands name the mailbox
	Cancel func(context.Context, mailbox.ID) error
	Retry  func(context.Context, mailbox.ID) error
	Pause  func(ctx context.Context, agent mailbox.ID) error
	Resume func(ctx context.Context, agent mailbox.ID) error
}

// fps is how often a second at most the screen is drawn: bubbletea looks that often
// whether there is something to draw.
const fps = 20

// Run shows the board on this process's terminal until it is quit.
func Run(ctx context.Context, box *mailbox.Box, o Options) error { return run(ctx, box, o) }

func run(ctx context.Context, box *mailbox.Box, o Options, also ...tea.ProgramOption) error {
	w := newWork(ctx)
	m := newModel(o, newSource(w, box, o))
	also = append(also, tea.WithContext(w.ctx), tea.WithFPS(fps), tea.WithoutSignalHandler())
	_, err := tea.NewProgram(m, also...).Run()
	w.end()
	if ctx.Err() != nil && !errors.Is(err, tea.ErrProgramPanic) {
		return nil // a signal asked for the end, and got it
	}
	return err
}

// work is the goroutines of one board.
type work struct {
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex // orders what begins and the end
	group  sync.WaitGroup
}

func newWork(ctx context.Context) *work {
	w := &work{}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

// do does something, unless the end has come.
func (w *work) do(what func(context.Context)) {
	w.mu.Lock()
	if w.ctx.Err() != nil {
		w.mu.Unlock()
		return
	}
	w.group.Add(1)
	w.mu.Unlock()
	defer w.group.Done()
	what(w.ctx)
}

// end returns when nothing is being done any more.
func (w *work) end() {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.group.Wait()
}

// cmd makes a command of what may take long.
func (w *work) cmd(make func(context.Context) tea.Msg) tea.Cmd {
	return func() (m tea.Msg) {
		w.do(func(ctx context.Context) { m = make(ctx) })
		return m
	}
}
