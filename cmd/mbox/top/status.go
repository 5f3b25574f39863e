package top

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"mbox/cmd/mbox/check"
	"mbox/mailbox"
	"mbox/schemas"
)

// Read reads one board. Of tasks that are completed it has no rows, which would cost a
// look at each file, and of those that are pending no titles, unless they are wanted.
// Lacks is that of Options.
func Read(ctx context.Context, box *mailbox.Box, titles bool, lacks func() []check.Finding) (*Board, error) {
	r := newReader(box, lacks)
	r.brief, r.untitled = true, !titles
	return r.once(ctx)
}

// once reads a board that is not followed: the ledger's end is looked at, and the rows of
// each folder are few.
func (r *reader) once(ctx context.Context) (*Board, error) {
	_, end, broken := last(r.box.Ledger(), 1)
	b, err := r.read(ctx, nil)
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

// Watch calls show with a board as Read makes them at once and then again and again, until
// the context ends.
func Watch(ctx context.Context, box *mailbox.Box, titles bool, lacks func() []check.Finding, show func(*Board) error) error {
	r := newReader(box, lacks)
	r.brief, r.untitled = true, !titles
	look := time.NewTicker(often)
	defer look.Stop()
	for {
		b, err := r.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = show(b)
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// often is how often Watch looks.
const often = time.Second

// Tell adds what was found out about agents: by what each works. One that cannot work
// is a problem if tasks wait for it that it cannot do: without a brain it does what carries
// an action.
func (b *Board) Tell(found []check.Finding) {
	for _, f := range found {
		i := slices.IndexFunc(b.Agents, func(a Agent) bool { return a.Name == f.Agent })
		if i < 0 {
			continue
		}
		a := &b.Agents[i]
		a.Works, a.Able = oneLine(f.Text), f.Level == check.Fine
		kept := a.Waiting
		if f.Check == check.Brain {
			kept = a.thinks
		}
		if !a.Able && kept > 0 {
			b.trouble(kindAgent, "", a.Works+"; "+tasks(kept)+" for it", f.Hint)
		}
	}
	b.sort()
}

// room tells how much the disk has left, and when that is a problem.
func (b *Board) room() {
	free, f := check.Disk(b.Home)
	b.Free = free
	if f.Level == check.Wrong {
		b.trouble(kindDisk, "", f.Text, f.Hint)
	}
}

// Style is how a board is printed.
type Style struct {
	Wide    int // columns of the terminal; 0: a line may be as long as it likes
	Colours bool
}

// Print writes a board for people.
func (b *Board) Print(w io.Writer, s Style) {
	b.printState(w, s)
	for i := range b.Agents {
		s.line(w, "agent", b.Agents[i].line(b))
	}
	for _, p := range b.Problems {
		if s.Wide == 0 {
			s.line(w, "problem", p.line())
			continue
		}
		s.wrapped(w, "problem", red(clean(p.about()))+": "+p.text())
		if p.Hint != "" {
			s.wrapped(w, "", dim(clean(p.Hint)))
		}
	}
}

// printState writes what there is of each thing once.
func (b *Board) printState(w io.Writer, s Style) {
	router := yellow("no mbox up") + ": every command does its work when it is called"
	if b.Routed {
		router = green("mbox up") + " serves it"
	}
	s.line(w, "mailbox", clean(b.Home))
	s.line(w, "router", router)
	s.line(w, "ledger", fmt.Sprintf("seq %d", b.Seq))
	s.line(w, "disk", schemas.Size(b.Free)+" free")
	s.line(w, "looks", "every "+b.Every+" for what came by hand, or is lost or late")
	for _, c := range b.Columns {
		oldest := ""
		if c.Oldest != nil {
			oldest = ", the oldest " + schemas.Ago(c.Oldest.Time, b.At.Time)
		}
		count := number(c.Count)
		if c.Count > 0 {
			count = colour(c.State)(count)
		}
		s.line(w, string(c.State), count+oldest)
	}
	s.line(w, "quarantine", number(b.Quarantine))
}

// line is what an agent does now.
func (a *Agent) line(b *Board) string {
	name := bold(fit(clean(a.Name), 12)) + " "
	rests := ""
	switch {
	case !a.Enabled:
		rests = "not enabled"
	case !a.Life.Claims():
		rests = schemas.LocalTimes(a.Life.String())
	}
	if name += yellow(clean(rests)); rests != "" && len(a.Holds) > 0 {
		name += ", "
	}
	switch works, what := "", strings.TrimPrefix(clean(a.Works), clean(a.Name)+" "); {
	case len(a.Holds) > 0:
		name += cyan(clean(string(a.Holds[0])))
		if a.Since != nil {
			name += " for " + schemas.Ago(a.Since.Time, b.At.Time)
		}
		if p := a.Said; p != nil {
			works = p.Message
			if p.Percent != nil {
				works = strings.TrimSpace(fmt.Sprintf("%d%% %s", *p.Percent, works))
			}
			name += ": " + clean(works)
		}
		if more := len(a.Holds) - 1; more > 0 {
			name += dim(fmt.Sprintf(", and %d more", more))
		}
	case rests != "":
	case what == "":
		name += "idle"
	case a.Able:
		name += dim(what)
	default:
		name += yellow(what)
	}
	if a.Waiting > 0 {
		name += fmt.Sprintf(", %s for it", tasks(a.Waiting))
	}
	return name
}

func tasks(n int) string {
	if n == 1 {
		return "1 task waits"
	}
	return number(n) + " tasks wait"
}

// margin is where the second column of a printed board begins.
const margin = 13

// line prints a name and what belongs to it, on one line.
func (s Style) line(w io.Writer, name, text string) {
	text = fit(name, margin) + text
	if s.Wide > 0 {
		text = Cut(text, s.Wide)
	}
	s.put(w, text)
}

// wrapped prints a name and what belongs to it, on as many lines as that needs.
func (s Style) wrapped(w io.Writer, name, text string) {
	for line := range strings.SplitSeq(ansi.WrapWc(text, max(s.Wide-margin, margin), ""), "\n") {
		s.put(w, fit(name, margin)+line)
		name = ""
	}
}

func (s Style) put(w io.Writer, text string) {
	if !s.Colours {
		text = ansi.Strip(text)
	}
	text = strings.ReplaceAll(text, ansi.ResetStyle, "\x1b[0m") // as all other commands end a colour
	fmt.Fprintln(w, strings.TrimRight(text, " "))
}

// Clear makes a terminal ready for a board in the place of the one before.
func Clear(w io.Writer) { fmt.Fprint(w, ansi.CursorHomePosition+ansi.EraseScreenBelow) }
