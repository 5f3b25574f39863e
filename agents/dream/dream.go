// Package dream tidies what an agent that was born remembers. A dream makes the file
// memory/memory.md in its home shorter, and keeps what left it, word for word, in a file
// of its own:
//
//	memory/dreams/TIME.md       what the dream was about, and the lines that left the memory
//	memory/dreams/TIME.before   the memory as it was before the last dream, for Undo
//
// With a brain the dream says what the memory was about, and on which tasks that rests: a
// task that the ledger does not know makes its words count for nothing. What leaves the
// memory is decided by rule in any case: of entries that say the same the older ones, and
// of the rest the oldest, as many as are too many.
//
// The order of writes:
//
//	TIME.md, TIME.after, then TIME.before.new, the memory as it is
//	TIME.after takes the place of the memory
//	a change record tells of it
//	TIME.before.new becomes TIME.before: the dream is over
//
// and of an undo:
//
//	TIME.after, then TIME.undo.new, the memory as it is
//	TIME.after takes the place of the memory
//	a change record tells of it
//	TIME.md becomes TIME.undone.md; TIME.before and TIME.undo.new are removed
//
// A line is in the memory, in a dream, or in both, at any moment. Of what was cut off
// TIME.after tells whether it counts: while that is there the memory is as it was, and the
// next command takes it back; else it does the rest. No attempt of the agent's worker runs
// meanwhile: both hold the lock of its home.
//
// An agent may write in its home: what stands there is data of the agent's, and decides of
// nothing but its own memory.
package dream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mbox/agents"
	"mbox/agents/life"
	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// MaxMemory is how many bytes a memory may have that is dreamed of.
const MaxMemory = 4 << 20

// lockWait is how long an attempt of the agent's worker is waited for.
const lockWait = 10 * time.Second

// Dreamer dreams for one agent.
type Dreamer struct {
	Box   *mailbox.Box
	Agent string
	By    string       // who wants it: human, or the agent itself
	Most  int          // lines that a memory may have
	Brain agents.Brain // nil: by rule alone

	Context int // tokens that the brain has room for; 0: nobody knows
}

// Dream is what came of it.
type Dream struct {
	Agent  string `json:"agent"`
	File   string `json:"file,omitzero"`   // from the home of the mailbox; "" where there was nothing to dream of
	Before int    `json:"lines_before"`    // of the memory
	After  int    `json:"lines_after"`     //
	Gone   int    `json:"lines_gone"`      // that are in the dream alone
	Model  string `json:"model,omitzero"`  // that said what it was about; "" for none
	Record string `json:"record,omitzero"` // the change record
	Note   string `json:"note,omitzero"`   // why no model has said anything
}

// ErrNoHome says that an agent was not born, so that it has nothing to dream of.
var ErrNoHome = fmt.Errorf("%w: it has no memory/memory.md of its own", mailbox.ErrNotFound)

// memoryFile lies in the folder memory of the agent's home.
const memoryFile = "memory.md"

// night is a Dreamer at work. The agent may have put anything into its home: no step
// leaves these two folders.
type night struct {
	*Dreamer
	memory, dreams *os.Root
}

// Dream dreams once. A memory that is as the last dream has left it is not dreamed of
// again, and no brain is asked. mailbox.ErrBusy says that the agent is at work.
func (d *Dreamer) Dream(ctx context.Context) (dreamed *Dream, err error) {
	err = d.alone(ctx, func(n *night) error {
		before, err := n.read()
		if err != nil {
			return err
		}
		dreamed = &Dream{Agent: d.Agent, Before: linesIn(before), After: linesIn(before)}
		last, err := n.newest(".md")
		if err != nil {
			return err
		}
		kept, gone := tidy(before, d.Most)
		left, err := n.left(last)
		if err != nil {
			return err
		}
		if left.is(before) || len(gone) == 0 && !d.speaks(before) {
			return life.Dreamt(ctx, d.Box, d.Agent)
		}
		dreamed.After, dreamed.Gone = linesIn(kept), linesIn(gone)
		return n.keep(ctx, dreamed, before, kept, gone, d.about(ctx, before, gone, dreamed))
	})
	return dreamed, err
}

// speaks tells whether there is something to say of a memory that is short enough.
func (d *Dreamer) speaks(memory []byte) bool {
	return d.Brain != nil && slices.ContainsFunc(items(memory), func(i item) bool { return i.kind == entry })
}

// alone does something in the home of an agent that was born, behind the end of what was
// cut off.
func (d *Dreamer) alone(ctx context.Context, do func(*night) error) error {
	if life.Seen(d.Box, d.Agent) == nil {
		return fmt.Errorf("agent %s: %w", d.Agent, ErrNoHome)
	}
	leave, err := life.Enter(ctx, d.Box, d.Agent, lockWait)
	if err != nil {
		return fmt.Errorf("agent %s is at work: %w", d.Agent, err)
	}
	n, err := d.open()
	if err == nil {
		err = n.finish(ctx)
		if err == nil {
			err = do(n)
		}
		err = errors.Join(err, n.memory.Close(), n.dreams.Close())
	}
	return errors.Join(err, leave())
}

func (d *Dreamer) open() (*night, error) {
	home, err := os.OpenRoot(d.Box.AgentDir(d.Agent))
	if err != nil {
		return nil, err
	}
	defer home.Close()
	n, mode := &night{Dreamer: d}, d.Box.Options().Sync
	if err = durable.MkdirIn(home, "memory", mode); err != nil {
		return nil, err
	}
	if n.memory, err = home.OpenRoot("memory"); err != nil {
		return nil, err
	}
	if err = durable.MkdirIn(n.memory, "dreams", mode); err == nil {
		n.dreams, err = n.memory.OpenRoot("dreams")
	}
	if err != nil {
		return nil, errors.Join(err, n.memory.Close())
	}
	return n, nil
}

// read reads the memory; what the agent has not written is empty.
func (n *night) read() ([]byte, error) {
	text, err := readIn(n.memory, memoryFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// readIn reads a regular file of a folder; it follows no symlink and waits for nobody.
func readIn(root *os.Root, name string) ([]byte, error) {
	f, _, err := durable.OpenIn(root, name, os.O_RDONLY)
	if errors.Is(err, durable.ErrNotRegular) {
		err = fmt.Errorf("%w: %w", err, mailbox.ErrConflict)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 2*MaxMemory+1))
	if err == nil && len(text) > 2*MaxMemory {
		err = fmt.Errorf("%s: %w: more than %d bytes", f.Name(), durable.ErrTooLarge, 2*MaxMemory)
	}
	return text, err
}

// file is the path of a dream from the mailbox's home.
func (n *night) file(name string) string {
	return "agents/" + filepath.Base(n.Box.AgentDir(n.Agent)) + "/memory/dreams/" + name
}

// name is a new dream's, by the minute.
func (n *night) name() (string, error) {
	taken, err := n.names()
	first := n.Box.Options().Now().UTC().Format("2006-01-02T1504")
	for i, name := 2, first; ; i++ {
		if !slices.ContainsFunc(taken, func(file string) bool { return strings.HasPrefix(file, name+".") }) {
			return name, err
		}
		name = fmt.Sprintf("%s-%d", first, i)
	}
}

func (n *night) names() ([]string, error) {
	d, err := n.dreams.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// The heading of what left the memory, below which nothing else stands.
const goneHeading = "## What left the memory, word for word\n\n"

// page is the file of a dream.
func (n *night) page(name string, dreamed *Dream, before, kept, gone, about []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Dream of %s, %s\n\n", n.Agent, name)
	fmt.Fprintf(&b, "- before: %s\n- after: %s\n", sumOf(before), sumOf(kept))
	by := "rule"
	if dreamed.Model != "" {
		by = "model " + schemas.Sentence(dreamed.Model, 100)
	}
	fmt.Fprintf(&b, "- by: %s\n", by)
	if dreamed.Note != "" {
		fmt.Fprintf(&b, "- note: %s\n", schemas.Sentence(dreamed.Note, 300))
	}
	b.WriteString("\n")
	b.Write(about)
	b.WriteString(goneHeading)
	b.Write(gone)
	return b.Bytes()
}

// sum is what a dream says of a text: its bytes, and their hash.
type sum struct {
	hash string
	size int
}

func sumOf(text []byte) sum { return sum{audit.Hash(text), len(text)} }

func (s sum) String() string { return fmt.Sprintf("%d bytes, %s", s.size, s.hash) }

func (s sum) is(text []byte) bool { return s == sumOf(text) }

// begins tells whether a text begins with what has the sum.
func (s sum) begins(text []byte) bool {
	return s.size >= 0 && len(text) >= s.size && s.is(text[:s.size])
}

// left is what a dream says of the memory that it has left; zero where it says nothing.
func (n *night) left(name string) (s sum, err error) {
	text, err := readIn(n.dreams, name+".md")
	if name == "" || errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	for line := range strings.Lines(string(text)) {
		if line == goneHeading[:strings.IndexByte(goneHeading, '\n')+1] {
			break
		}
		if n, _ := fmt.Sscanf(line, "- after: %d bytes, %s", &s.size, &s.hash); n == 2 {
			return s, err
		}
	}
	return sum{}, err
}

// dreamName is the name of a dream: the agent may put files with others beside them.
var dreamName = schemas.Pattern(`^\d{4}-\d{2}-\d{2}T\d{4}(-\d+)?$`)

// newest is the newest dream with a file that ends in this suffix; "" if there is none.
func (n *night) newest(suffix string) (newest string, err error) {
	names, err := n.names()
	for _, file := range names {
		name, is := strings.CutSuffix(file, suffix)
		if is && dreamName().MatchString(name) && older(newest, name) {
			newest = name
		}
	}
	return newest, err
}

// older compares names of dreams: 2026-01-02T1504 comes before 2026-01-02T1504-2, and that
// before 2026-01-02T1504-10.
func older(a, b string) bool {
	minute := len("2006-01-02T1504")
	x, y := a[:min(minute, len(a))], b[:min(minute, len(b))]
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) < 0
}
