package dream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"mbox/agents/life"
	"mbox/audit/record"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// What the names of the files of a dream end in.
const (
	beforeSuffix = ".before"
	newBefore    = ".before.new" // of a dream that has not ended
	newUndo      = ".undo.new"   // of an undo that has not ended
	newMemory    = ".after"      // what is to take the place of the memory
	undone       = ".undone.md"
)

// keep writes a dream down.
func (n *night) keep(ctx context.Context, dreamed *Dream, before, kept, gone, about []byte) error {
	name, err := n.name()
	if err != nil {
		return err
	}
	dreamed.File = n.file(name + ".md")
	if err := n.begin(name, newBefore, before, kept); err != nil {
		return err
	}
	if err := n.write(name+".md", n.page(name, dreamed, before, kept, gone, about)); err != nil {
		return err
	}
	if err := n.replace(name, newBefore, before); err != nil {
		return err
	}
	dreamed.Record, err = n.done(ctx, name, before, kept)
	return err
}

// begin writes what is to take the place of the memory, and what that is now: the file with
// this suffix is there until somebody has been told.
func (n *night) begin(name, suffix string, now, then []byte) error {
	if err := n.write(name+newMemory, then); err != nil {
		return err
	}
	return n.write(name+suffix, now)
}

// replace puts what was begun in the place of the memory, if that is as it was.
func (n *night) replace(name, suffix string, was []byte) error {
	now, err := n.read()
	if err == nil && !bytes.Equal(now, was) {
		err = fmt.Errorf("agent %s writes %s just now: %w", n.Agent, memoryFile, mailbox.ErrBusy)
	}
	if err != nil {
		return errors.Join(err, n.drop(name, suffix))
	}
	return durable.RenameIn(n.memory, "dreams/"+name+newMemory, memoryFile, n.mode()) // from here on it counts
}

func (n *night) mode() durable.Mode { return n.Box.Options().Sync }

func (n *night) write(name string, text []byte) error {
	return durable.ReplaceIn(n.dreams, name, text, n.mode())
}

// rename gives a file of a dream another name; one that somebody has removed has none.
func (n *night) rename(from, to string) error {
	err := durable.RenameIn(n.dreams, from, to, n.mode())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// remove removes files of a dream, one after the other.
func (n *night) remove(names ...string) error {
	for _, name := range names {
		if err := durable.RemoveIn(n.dreams, name); err != nil {
			return err
		}
	}
	return nil
}

// drop takes back what has not changed the memory. What tells so goes last.
func (n *night) drop(name, suffix string) error {
	if suffix == newBefore {
		if err := n.remove(name + ".md"); err != nil {
			return err
		}
	}
	return n.remove(name+suffix, name+newMemory)
}

// done tells of a dream whose memory is in its place.
func (n *night) done(ctx context.Context, name string, before, after []byte) (id string, err error) {
	id, err = n.record(ctx, fmt.Sprintf("%s has dreamed: %s", n.Agent, n.file(name+".md")),
		"A memory stays short enough to be read.", before, after, "mbox dream "+n.Agent+" --undo")
	if err == nil {
		err = n.rename(name+newBefore, name+beforeSuffix)
	}
	if err == nil {
		err = n.forget(name)
	}
	return id, errors.Join(err, life.Dreamt(ctx, n.Box, n.Agent))
}

// forget removes what older dreams kept for Undo: only the last one can be undone.
func (n *night) forget(but string) error {
	names, err := n.names()
	if err != nil {
		return err
	}
	return n.remove(slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasSuffix(name, beforeSuffix) || name == but+beforeSuffix
	})...)
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

// finish ends what was cut off: it is taken back where the memory is as it was, and else
// told of.
func (n *night) finish(ctx context.Context) error {
	for suffix, tell := range map[string]func(context.Context, string, []byte, []byte) (string, error){newBefore: n.done, newUndo: n.undid} {
		name, err := n.newest(suffix)
		for ; err == nil && name != ""; name, err = n.newest(suffix) {
			if err := n.end(ctx, name, suffix, tell); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return n.sweep()
}

func (n *night) end(ctx context.Context, name, suffix string, tell func(ctx context.Context, name string, was, now []byte) (string, error)) error {
	if _, err := n.dreams.Lstat(name + newMemory); err == nil {
		return n.drop(name, suffix)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	was, err := readIn(n.dreams, name+suffix)
	if err != nil {
		return err
	}
	now, err := n.read()
	if err == nil {
		_, err = tell(ctx, name, was, now)
	}
	return err
}

// sweep removes what was cut off before it was begun.
func (n *night) sweep() error {
	names, err := n.names()
	if err != nil {
		return err
	}
	return n.remove(slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasSuffix(name, newMemory) && !durable.Temporary(name)
	})...)
}

// Undo puts the memory back as it was before the last dream, with what was written behind
// its end since. ErrConflict: there is no dream to undo, or the memory was changed
// otherwise.
func (d *Dreamer) Undo(ctx context.Context) (dreamed *Dream, err error) {
	err = d.alone(ctx, func(n *night) error {
		name, err := n.newest(beforeSuffix)
		if err != nil {
			return err
		}
		if name == "" {
			return fmt.Errorf("agent %s: %w: it has not dreamed, or all is undone", d.Agent, mailbox.ErrConflict)
		}
		now, back, err := n.without(name)
		if err == nil {
			err = n.begin(name, newUndo, now, back)
		}
		if err == nil {
			err = n.replace(name, newUndo, now)
		}
		if err != nil {
			return err
		}
		dreamed = &Dream{Agent: d.Agent, File: n.file(name + undone), Before: linesIn(now), After: linesIn(back)}
		dreamed.Record, err = n.undid(ctx, name, now, back)
		return err
	})
	return dreamed, err
}

// without is the memory as it is, and without a dream.
func (n *night) without(name string) (now, back []byte, err error) {
	before, err := readIn(n.dreams, name+beforeSuffix)
	if err != nil {
		return nil, nil, err
	}
	if now, err = n.read(); err != nil {
		return nil, nil, err
	}
	left, err := n.left(name)
	if err != nil {
		return nil, nil, err
	}
	if !left.begins(now) {
		return nil, nil, fmt.Errorf("agent %s: %w: %s was changed since its dream; as it was before it lies in %s", n.Agent, mailbox.ErrConflict, memoryFile, n.file(name+beforeSuffix))
	}
	return now, slices.Concat(before, now[left.size:]), nil
}

// undid tells of an undo whose memory is in its place.
func (n *night) undid(ctx context.Context, name string, now, back []byte) (id string, err error) {
	id, err = n.record(ctx, fmt.Sprintf("the dream %s of %s is undone", n.file(name+".md"), n.Agent), "Somebody has asked for it.", now, back, "mbox dream "+n.Agent)
	if err == nil {
		err = n.rename(name+".md", name+undone)
	}
	if err != nil {
		return id, err
	}
	return id, n.remove(name+beforeSuffix, name+newUndo)
}
