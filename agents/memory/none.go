package memory

import (
	"context"
	"fmt"
	"iter"

	"mbox/schemas"
)

// None is the store of an agent without a memory: it has nothing, and takes nothing.
type None struct{ Agent string }

// Add returns ErrNone.
func (n None) Add(context.Context, Entry) (string, error) {
	return "", fmt.Errorf("agent %s: %w", n.Agent, ErrNone)
}

// Recall finds nothing.
func (None) Recall(context.Context, string, int) ([]Entry, error) { return nil, nil }

// All yields nothing.
func (None) All(context.Context) iter.Seq2[Entry, error] { return func(func(Entry, error) bool) {} }

// Forget returns ErrNone.
func (n None) Forget(context.Context, ...string) error {
	return fmt.Errorf("agent %s: %w", n.Agent, ErrNone)
}

// Close does nothing.
func (None) Close() error { return nil }

// Unknown is the error of a store that has no entry with this id.
func Unknown(id string) error { return fmt.Errorf("entry %s: %w", schemas.Quote(id), ErrUnknown) }

// inEntry names the entry, from 1, in an error about it.
func inEntry(i int, err error) error { return fmt.Errorf("entry %d: %w", i+1, err) }
