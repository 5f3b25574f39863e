package life

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/lifecycle"
)

// Follow has what an agent has outside of its home, such as its memory in a shared
// database, or units, follow it to another name. From is "" of one that arrives, by its
// birth or from the archive; to is "" of one that is put away. Whoever finishes what was
// cut off tells it, and it may be told of the same thing twice.
type Follow func(ctx context.Context, from, to string) error

func (f Follow) tell(ctx context.Context, from, to string) error {
	if f == nil {
		return nil
	}
	return f(ctx, from, to)
}

// Renaming is what is wanted for an agent: another name.
type Renaming struct {
	From, To string
	Entry    []byte // the text of its file in the registry under the new name, which has been checked
	By       string
	Reason   string
	Follow   Follow
}

// Rename gives an agent another name: one that nobody has or had, or one that it had
// itself. From the ledger's line on it counts, and Finish ends it. ErrConflict: the name
// is taken, or the agent works at something.
func Rename(ctx context.Context, b *mailbox.Box, r Renaming) error {
	return alone(ctx, b, func() error {
		if err := MayRename(b, r.From, r.To); err != nil {
			return err
		}
		entry := filepath.Join(b.Home(), EntryName(r.To)) + ".new"
		if err := durable.RemoveIfThere(entry); err != nil {
			return err
		}
		if err := stageEntry(entry, r.Entry, b.Options().Sync); err != nil {
			return err
		}
		err := mailbox.RenameAgent(ctx, b, r.By, r.From, r.To, r.Reason)
		if err != nil && !errors.Is(err, mailbox.ErrCommitted) {
			return err // the line may be there all the same
		}
		return moveOver(ctx, b, r.From, lockWait, r.Follow)
	})
}

// MayRename refuses a name that is another's, and an agent that cannot have another name
// now, as Rename does.
func MayRename(b *mailbox.Box, from, to string) error {
	if err := checkName(to); err != nil {
		return err
	}
	if held, err := Holds(b, from); err != nil {
		return err
	} else if len(held) > 0 {
		return fmt.Errorf("agent %s works at %s: %w", from, held[0], mailbox.ErrConflict)
	}
	if err := Born(b, from); err != nil {
		return err
	}
	all, err := mailbox.AgentsOf(b)
	if err != nil {
		return err
	}
	if a := all[from]; !lifecycle.Legal(a.State, lifecycle.Renamed) {
		return fmt.Errorf("agent %s is %s: %w", from, a, mailbox.ErrConflict)
	}
	if lifecycle.Called(all, to) != from {
		return free(b, to)
	}
	return nil
}

// Born is ErrConflict of an agent that has no home and entry of its own.
func Born(b *mailbox.Box, agent string) error {
	for _, path := range []string{filepath.Join(b.Home(), EntryName(agent)), b.AgentDir(agent)} {
		if is, err := there(path); err != nil {
			return err
		} else if !is {
			return fmt.Errorf("agent %s has no %s: %w: this is for an agent that was born", agent, path, mailbox.ErrConflict)
		}
	}
	return nil
}

// moveOver has all that is an agent's follow it to the name that it has now. It waits for
// whoever is in the home; what the agent got just before it was renamed it finishes first.
func moveOver(ctx context.Context, b *mailbox.Box, from string, wait time.Duration, follow Follow) error {
	left, err := there(filepath.Join(b.Home(), EntryName(from)))
	if err != nil {
		return err
	}
	if left {
		if err := moveHouse(ctx, b, from, wait, follow); err != nil {
			return err
		}
	}
	if _, err := mailbox.Readdress(ctx, b); err != nil {
		return err
	}
	if !left {
		return nil
	}
	entry := filepath.Join(b.Home(), EntryName(from))
	return errors.Join(durable.RemoveIfThere(entry), durable.SyncDir(filepath.Dir(entry), b.Options().Sync))
}

// moveHouse puts the home and the entry in the places of the new name.
func moveHouse(ctx context.Context, b *mailbox.Box, from string, wait time.Duration, follow Follow) error {
	a, err := mailbox.AgentOf(b, from)
	if err != nil {
		return err
	}
	if err := rehome(ctx, b, from, a.Name, wait); err != nil {
		return err
	}
	entry := filepath.Join(b.Home(), EntryName(a.Name))
	if err := moved(entry+".new", entry, b.Options().Sync); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return follow.tell(ctx, from, a.Name)
}

func rehome(ctx context.Context, b *mailbox.Box, from, to string, wait time.Duration) error {
	old, home := b.AgentDir(from), b.AgentDir(to)
	if is, err := there(home); is || err != nil {
		return err
	}
	leave, err := Enter(ctx, b, from, wait)
	if err != nil {
		return err
	}
	held, err := Holds(b, from)
	if err == nil && len(held) > 0 {
		err = fmt.Errorf("agent %s works at %s: %w: its home follows when that has ended", from, held[0], mailbox.ErrBusy)
	}
	if err == nil {
		err = copyEntry(b, old, to)
	}
	if err == nil {
		err = rewrite(b, old, from, to)
	}
	if err == nil {
		err = moved(old, home, b.Options().Sync)
	}
	return errors.Join(err, leave())
}

// copyEntry writes the copy of an entry that lies in the home.
func copyEntry(b *mailbox.Box, home, agent string) error {
	text, err := durable.Read(filepath.Join(b.Home(), EntryName(agent))+".new", mostState)
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(home, entryFile), entryCopy(agent, text), b.Options().Sync)
}

// Reenter gives an agent that was born another entry in the registry, which has been
// checked. It waits for who is in its home.
func Reenter(ctx context.Context, b *mailbox.Box, agent string, entry []byte) error {
	return alone(ctx, b, func() error {
		leave, err := Enter(ctx, b, agent, lockWait)
		if err != nil {
			return err
		}
		mode := b.Options().Sync
		err = durable.Replace(filepath.Join(b.Home(), EntryName(agent)), entry, mode)
		if err == nil {
			err = durable.Replace(filepath.Join(b.AgentDir(agent), entryFile), entryCopy(agent, entry), mode)
		}
		return errors.Join(err, leave())
	})
}
