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
//	TIME.md, then TIME.before.new
//	the memory is replaced
//	a change record tells of it
//	TIME.before, in the place of TIME.before.new: the dream is over
//
// A line is in the memory, in a dream, or in both, at any moment. A dream that was cut off
// is taken back by the next one where the memory is as it was before, and else told of. No
// attempt of the agent's worker runs meanwhile: both hold the lock of its home.
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

	"golang.org/x/sys/unix"

	"mbox/agents"
	"mbox/agents/life"
	"mbox/audit"
	"mbox/audit/record"
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
		last, err := n.newest(".md", undone)
		if err != nil {
			return err
		}
		kept, gone := tidy(before, d.Most)
		if last != "" && n.left(last).is(before) || len(gone) == 0 && !d.speaks(before) {
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
	if s, err := life.Stateful(d.Box, d.Agent); err != nil || s == nil {
		return errors.Join(err, fmt.Errorf("agent %s: %w", d.Agent, ErrNoHome))
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
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	path := filepath.Join(root.Name(), name)
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no regular file: %w", path, mailbox.ErrConflict))
	}
	text, err := io.ReadAll(io.LimitReader(f, 2*MaxMemory+1))
	if err == nil && len(text) > 2*MaxMemory {
		err = fmt.Errorf("%s: %w: more than %d bytes", path, durable.ErrTooLarge, 2*MaxMemory)
	}
	return text, err
}

func (n *night) write(root *os.Root, name string, text []byte) error {
	return durable.ReplaceIn(root, name, text, n.Box.Options().Sync)
}

// keep writes a dream down.
func (n *night) keep(ctx context.Context, dreamed *Dream, before, kept, gone, about []byte) error {
	name, err := n.name()
	if err != nil {
		return err
	}
	dreamed.File = n.file(name + ".md")
	if err := n.write(n.dreams, name+".md", n.page(name, dreamed, before, kept, gone, about)); err != nil {
		return err
	}
	if err := n.write(n.dreams, name+newBefore, before); err != nil {
		return err
	}
	if now, err := n.read(); err != nil || !bytes.Equal(now, before) {
		return errors.Join(err, n.drop(name), fmt.Errorf("agent %s writes %s just now: %w", n.Agent, memoryFile, mailbox.ErrBusy))
	}
	if err := n.write(n.memory, memoryFile, kept); err != nil {
		return err
	}
	dreamed.Record, err = n.done(ctx, name, before, kept)
	return err
}

// done tells of a dream whose memory is in its place.
func (n *night) done(ctx context.Context, name string, before, after []byte) (id string, err error) {
	id, err = n.record(ctx, fmt.Sprintf("%s has dreamed: %s", n.Agent, n.file(name+".md")),
		"A memory stays short enough to be read.", before, after, "mbox dream "+n.Agent+" --undo")
	if err == nil {
		err = n.write(n.dreams, name+beforeSuffix, before)
	}
	if err == nil {
		err = durable.RemoveIn(n.dreams, name+newBefore)
	}
	return id, errors.Join(err, n.forget(name), life.Dreamt(ctx, n.Box, n.Agent))
}

// forget removes what older dreams kept for Undo: only the last one can be undone.
func (n *night) forget(but string) error {
	names, err := n.names()
	for _, name := range names {
		if strings.HasSuffix(name, beforeSuffix) && name != but+beforeSuffix {
			err = errors.Join(err, durable.RemoveIn(n.dreams, name))
		}
	}
	return err
}

// file is the path of a dream from the mailbox's home.
func (n *night) file(name string) string {
	return "agents/" + filepath.Base(n.Box.AgentDir(n.Agent)) + "/memory/dreams/" + name
}

const (
	beforeSuffix = ".before"
	newBefore    = ".before.new"
)

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

const undone = ".undone.md"

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
func (n *night) left(name string) (s sum) {
	text, _ := readIn(n.dreams, name+".md")
	for line := range strings.Lines(string(text)) {
		if line == goneHeading[:strings.IndexByte(goneHeading, '\n')+1] {
			break
		}
		if n, _ := fmt.Sscanf(line, "- after: %d bytes, %s", &s.size, &s.hash); n == 2 {
			return s
		}
	}
	return sum{}
}

// newest is the newest name in dreams/ with this suffix, without it, but for those with the
// other one; "" if there is none.
func (n *night) newest(suffix, but string) (newest string, err error) {
	names, err := n.names()
	for _, file := range names {
		name, is := strings.CutSuffix(file, suffix)
		if is && (but == "" || !strings.HasSuffix(file, but)) && !strings.HasPrefix(file, ".") && older(newest, name) {
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

// record writes a change record.
func (n *night) record(ctx context.Context, what, why string, before, after []byte, rollback string) (string, error) {
	id, err := n.Box.Change(ctx, record.Change{
		Agent: n.By, Type: "data", Description: what, Rationale: why,
		Before:   fmt.Sprintf("%s: %s, %s", memoryFile, schemas.Count(linesIn(before), "line", "lines"), sumOf(before)),
		After:    fmt.Sprintf("%s: %s, %s", memoryFile, schemas.Count(linesIn(after), "line", "lines"), sumOf(after)),
		Rollback: rollback, Verification: "sha256sum of that file, while nobody has written there since.",
	})
	if errors.Is(err, mailbox.ErrCommitted) {
		err = nil
	}
	return id, err
}

// finish ends a dream that was cut off: it is taken back where the memory is as it was, or
// only has more at its end, and else told of.
func (n *night) finish(ctx context.Context) error {
	for {
		name, err := n.newest(newBefore, "")
		if err != nil || name == "" {
			return err
		}
		before, err := readIn(n.dreams, name+newBefore)
		if err != nil {
			return err
		}
		now, err := n.read()
		if err != nil {
			return err
		}
		if bytes.HasPrefix(now, before) {
			err = n.drop(name)
		} else {
			_, err = n.done(ctx, name, before, now)
		}
		if err != nil {
			return err
		}
	}
}

// drop takes a dream back that has changed nothing.
func (n *night) drop(name string) error {
	return errors.Join(durable.RemoveIn(n.dreams, name+".md"), durable.RemoveIn(n.dreams, name+newBefore))
}

// Undo puts the memory back as it was before the last dream, with what was written behind
// its end since. ErrConflict: there is no dream to undo, or the memory was changed
// otherwise.
func (d *Dreamer) Undo(ctx context.Context) (dreamed *Dream, err error) {
	err = d.alone(ctx, func(n *night) error {
		name, err := n.newest(beforeSuffix, "")
		if err != nil {
			return err
		}
		if name == "" {
			return fmt.Errorf("agent %s: %w: it has not dreamed, or all is undone", d.Agent, mailbox.ErrConflict)
		}
		before, err := readIn(n.dreams, name+beforeSuffix)
		if err != nil {
			return err
		}
		now, err := n.read()
		if err != nil {
			return err
		}
		back, err := n.undone(name, before, now)
		if err != nil {
			return err
		}
		if err := n.write(n.memory, memoryFile, back); err != nil {
			return err
		}
		dreamed = &Dream{Agent: d.Agent, File: n.file(name + undone), Before: linesIn(now), After: linesIn(back)}
		dreamed.Record, err = n.record(ctx, fmt.Sprintf("the dream %s of %s is undone", n.file(name+".md"), d.Agent), "Somebody has asked for it.", now, back, "mbox dream "+d.Agent)
		if err != nil {
			return err
		}
		text, err := readIn(n.dreams, name+".md")
		if err == nil {
			err = n.write(n.dreams, name+undone, text)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // it was removed by hand, or just before an undo was cut off
		}
		if err != nil {
			return err
		}
		return errors.Join(durable.RemoveIn(n.dreams, name+".md"), durable.RemoveIn(n.dreams, name+beforeSuffix))
	})
	return dreamed, err
}

// undone is the memory without a dream.
func (n *night) undone(name string, before, now []byte) ([]byte, error) {
	left := n.left(name)
	switch {
	case left.begins(now):
		return slices.Concat(before, now[left.size:]), nil
	case bytes.HasPrefix(now, before): // an undo was cut off
		return now, nil
	}
	return nil, fmt.Errorf("agent %s: %w: %s was changed since its dream; as it was before it lies in %s", n.Agent, mailbox.ErrConflict, memoryFile, n.file(name+beforeSuffix))
}
