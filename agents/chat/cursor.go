package chat

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

const maxCursor = 4 << 10

// cursor is the file in which a bridge keeps how far its channel was read.
type cursor struct {
	Bridge  string `json:"bridge"`
	Kind    string `json:"kind"`
	Account string `json:"account"` // SHA-256 of what names it: the place of another one would lose messages
	Place   string `json:"place"`
}

// cursorOf is what a bridge keeps before it has read anything.
func cursorOf(name string, kind *Kind, s *Settings) cursor {
	who := cmp.Or(s.User, s.Token)
	if kind.Account != nil {
		who = kind.Account(*s)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{kind.Name, s.Server, who}, "\x00")))
	return cursor{Bridge: name, Kind: kind.Name, Account: hex.EncodeToString(sum[:16])}
}

// folder is where bridges keep their places, NAME.in, and have their locks,
// NAME.lock. A backup does not have it: a mailbox that is restored hears what is said
// from then on.
func folder(home string) string { return filepath.Join(home, ".mbox", "bridges") }

func (c *cursor) path(home string) string { return filepath.Join(folder(home), c.Bridge+".in") }

// read finds the place that was kept for the same account; other tells that there is
// one of another account.
func (c *cursor) read(home string) (other bool, err error) {
	data, err := durable.Read(c.path(home), 8*maxCursor)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var was cursor
	if err == nil {
		err = schemas.Decode(data, &was)
	}
	if err != nil {
		return false, fmt.Errorf("%w: the place that it kept: %w; without %s it hears what is said from then on", ErrSetup, err, c.path(home))
	}
	if was.Bridge != c.Bridge || was.Kind != c.Kind || was.Account != c.Account {
		return true, nil
	}
	c.Place = was.Place
	return false, nil
}

// keep replaces the place when every line that is in the ledger now is on the disk:
// what was said before it are tasks then, whatever happens (rule 18). A task that a
// killed process has sent is known by its line, and that may not be flushed yet.
func (c *cursor) keep(ctx context.Context, box *mailbox.Box, text string) error {
	if len(text) > maxCursor || !utf8.ValidString(text) {
		return fmt.Errorf("the channel's place is no text of at most %d bytes", maxCursor)
	}
	if text == c.Place {
		return nil
	}
	if err := box.Ledger().Flushed(ctx); err != nil {
		return err
	}
	next := *c
	next.Place = text
	data, err := schemas.Encode(&next)
	if err == nil {
		err = durable.Replace(c.path(box.Home()), data, box.Options().Sync)
	}
	if err == nil {
		*c = next
	}
	return err
}

// hold takes the lock of a bridge: at most one process is at it.
func hold(home, name string, m durable.Mode) (*durable.Lock, error) {
	path := filepath.Join(folder(home), name+".lock")
	err := durable.MkdirAll(folder(home), m)
	if err == nil {
		err = durable.Stage(path, nil, m)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	lock, err := durable.TryLock(path)
	if err != nil {
		return nil, fmt.Errorf("bridge %s: %w", name, err)
	}
	return lock, nil
}
