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

// line is a problem for one line without colours.
func (p *Problem) line() string {
	if p.Hint != "" {
		return clean(p.about()) + ": " + p.text() + "; " + clean(p.Hint)
	}
	return clean(p.about()) + ": " + p.text()
}

// text is what a person reads of it.
func (p *Problem) text() string { return clean(schemas.LocalTimes(p.Text)) }

// about is what kind of problem it is, and whose.
func (p *Problem) about() string {
	if p.Task != "" {
		return p.Kind + " " + string(p.Task)
	}
	return p.Kind
}

// Plain prints a board, and then a line for each new one of the ledger and for each
// problem that comes or goes, until the context ends. flush is called when there is
// something to see.
func Plain(ctx context.Context, box *mailbox.Box, o Options, w io.Writer, flush func() error) error {
	work := newWork(ctx)
	defer work.end()
	lines, r := make(chan news, mostAtOne), newReader(box, o.Lacks)
	_, end, _ := last(box.Ledger(), 1) // an error comes again below
	b, err := r.read(ctx, nil)
	if err != nil {
		return err
	}
	b.Seq = end.Seq
	b.Name(o.Name)
	b.Print(w, Style{})
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
				next.Name(o.Name)
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
