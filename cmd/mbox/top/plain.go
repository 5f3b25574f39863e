package top

import (
	"context"
	"fmt"
	"io"
	"time"

	"mbox/mailbox"
	"mbox/schemas"
)

// mostTold is how many tasks of a folder a board has that is printed as JSON, or is there first.
const mostTold = 100

// Read reads one board.
func Read(ctx context.Context, box *mailbox.Box) (*Board, error) {
	_, end, broken := last(box.Ledger(), 1)
	b, err := newReader(box).read(ctx, nil)
	if err != nil {
		return nil, err
	}
	b.Seq = end.Seq
	if broken != nil {
		b.trouble(kindLedger, "", broken.Error(), "mbox verify")
	}
	for i := range b.Columns {
		c := &b.Columns[i]
		c.Rows = append([]Row{}, c.Rows[:min(len(c.Rows), mostTold)]...)
	}
	return b, nil
}

// Print writes a board in a few lines.
func (b *Board) Print(w io.Writer) {
	fmt.Fprintf(w, "mailbox      %s\n", clean(b.Home))
	served := "no mbox up"
	if b.Routed {
		served = "mbox up serves it"
	}
	fmt.Fprintf(w, "ledger       seq %d, %s\n", b.Seq, served)
	for _, c := range b.Columns {
		oldest := ""
		if c.Oldest != nil {
			oldest = ", the oldest " + schemas.Ago(c.Oldest.Time, b.At.Time)
		}
		fmt.Fprintf(w, "%-12s %d%s\n", c.State, c.Count, oldest)
	}
	for _, p := range b.Problems {
		fmt.Fprintf(w, "problem      %s\n", p.line())
	}
}

// line is a problem for one line without colours.
func (p *Problem) line() string {
	about := p.Kind
	if p.Task != "" {
		about += " " + string(p.Task)
	}
	if p.Hint != "" {
		return clean(about + ": " + p.Text + "; " + p.Hint)
	}
	return clean(about + ": " + p.Text)
}

// Plain prints a board, and then a line for each new one of the ledger and for each
// problem that comes or goes, until the context ends. flush is called when there is
// something to see.
func Plain(ctx context.Context, box *mailbox.Box, o Options, w io.Writer, flush func() error) error {
	work := newWork(ctx)
	defer work.end()
	lines, r := make(chan news, mostAtOne), newReader(box)
	_, end, _ := last(box.Ledger(), 1) // an error comes again below
	b, err := r.read(ctx, nil)
	if err != nil {
		return err
	}
	b.Seq = end.Seq
	b.Print(w)
	if o.Doubt != nil {
		fmt.Fprintf(w, "problem      when the mailbox was opened: %s\n", clean(oneLine(o.Doubt.Error())))
	}
	go work.do(func(ctx context.Context) { follow(ctx, box, lines) })
	look := time.NewTicker(latest)
	defer look.Stop()
	for shown := end.Seq; ; {
		if err := flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case n := <-lines:
			if n.err != nil {
				fmt.Fprintf(w, "problem      the ledger: %s\n", clean(oneLine(n.err.Error())))
			}
			for i := range n.entries {
				if e := &n.entries[i]; e.Seq > shown {
					fmt.Fprintln(w, o.Line(e))
					shown = e.Seq
				}
			}
		case <-look.C:
			next, err := r.read(ctx, nil)
			if err != nil && ctx.Err() == nil {
				fmt.Fprintf(w, "problem      the mailbox: %s\n", clean(oneLine(err.Error())))
			} else if err == nil {
				told(w, b, next)
				b = next
			}
		}
	}
}

// told writes which problems have come and gone.
func told(w io.Writer, before, now *Board) {
	had, has := map[string]bool{}, map[string]bool{}
	for _, p := range before.Problems {
		had[p.key()] = true
	}
	for _, p := range now.Problems {
		if has[p.key()] = true; !had[p.key()] {
			fmt.Fprintf(w, "problem      %s\n", p.line())
		}
	}
	for _, p := range before.Problems {
		if !has[p.key()] {
			fmt.Fprintf(w, "no more      %s\n", p.line())
		}
	}
}
