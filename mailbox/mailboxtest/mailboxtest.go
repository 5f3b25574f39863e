// Package mailboxtest makes mailboxes for the tests of what uses one.
package mailboxtest

import (
	"path/filepath"
	"testing"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// New is an empty mailbox that lasts as long as the test and flushes nothing.
func New(t testing.TB, o mailbox.Options) *mailbox.Box {
	t.Helper()
	return In(t, filepath.Join(t.TempDir(), "home"), o)
}

// In is New in a folder that is not there yet.
func In(t testing.TB, home string, o mailbox.Options) *mailbox.Box {
	t.Helper()
	o.Sync = durable.None
	if err := mailbox.Create(home, o); err != nil {
		t.Fatal(err)
	}
	b, err := mailbox.Open(t.Context(), home, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}
