package main

import (
	"bufio"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"mbox/audit/record"
	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/gateway/token"
	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// A crash is put behind each step of making and of revoking a token. Whatever it
// leaves, a token that works has a record that it was made, none that works has a
// record that it was revoked, and the command said again does the rest.
func TestTokenHasItsRecord(t *testing.T) {
	made, revoked := 0, 0
	for _, revokes := range []bool{false, true} {
		for steps := 0; ; steps++ {
			h := newTokenHome(t)
			if revokes {
				h.must(h.create())
			}
			verb := h.create
			if revokes {
				verb = h.revoke
			}
			err := h.cutOff(steps, verb)
			h.reopen()
			tokens, changes := h.look()
			works, stands := len(tokens) == 1, standing(changes, "phone") != ""
			if works && !stands {
				t.Errorf("revokes %v, cut off after %d steps: it works, and its records are %q", revokes, steps, described(changes))
			}
			if err == nil && works == revokes {
				t.Errorf("revokes %v: acknowledged, and it works: %v", revokes, works)
			}
			if works != stands {
				made, revoked = made+1, revoked+1
			}
			again := verb()
			if errors.Is(again, token.ErrExists) && !works { // a file that is cut off: the hint says what to do
				h.must(h.revoke())
				again = verb()
			}
			if again != nil && !errors.Is(again, token.ErrExists) && !errors.Is(again, token.ErrUnknown) {
				t.Errorf("revokes %v, cut off after %d steps, said again: %v", revokes, steps, again)
			}
			if tokens, changes = h.look(); (len(tokens) == 1) == revokes || (standing(changes, "phone") != "") == revokes {
				t.Errorf("revokes %v, cut off after %d steps, said again: %v, %q", revokes, steps, tokens, described(changes))
			}
			if err == nil {
				break
			}
		}
	}
	if made == 0 || revoked == 0 {
		t.Error("no crash came between a record and its token")
	}
}

type tokenHome struct {
	*testing.T
	dir string
	s   *session
	box *mailbox.Box
}

func newTokenHome(t *testing.T) *tokenHome {
	h := &tokenHome{T: t, dir: filepath.Join(t.TempDir(), "agents"), s: &session{printer: printer{out: bufio.NewWriter(io.Discard)}, err: io.Discard, config: config.Default()}}
	h.must(mailbox.Create(h.dir, mailbox.Options{Sync: durable.None}))
	h.open()
	t.Cleanup(func() { h.box.Close() })
	return h
}

func (h *tokenHome) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *tokenHome) open() {
	h.Helper()
	var err error
	h.box, err = mailbox.Open(h.Context(), h.dir, mailbox.Options{Sync: durable.None})
	h.must(err)
}

func (h *tokenHome) reopen() {
	h.Helper()
	h.box.Close()
	_, err := mailbox.Recover(h.Context(), h.dir, mailbox.Options{Sync: durable.None}, mailbox.RecoverOptions{AfterIOError: true})
	h.must(err)
	h.open()
}

func (h *tokenHome) create() error {
	o := tokenOptions{role: choice{value: string(token.Operator)}}
	return o.run(h.Context(), h.s, h.box, "phone")
}

func (h *tokenHome) revoke() error { return h.s.revoke(h.Context(), h.box, "phone") }

// cutOff lets a verb do so many steps that change the disk, and none after them.
func (h *tokenHome) cutOff(steps int, verb func() error) error {
	defer durable.SetFault(func(durable.Op, string) (bool, error) {
		if steps--; steps < 0 {
			return false, errors.New("cut off")
		}
		return true, nil
	})()
	return verb()
}

func (h *tokenHome) look() ([]token.Token, []record.Change) {
	h.Helper()
	tokens, _ := token.List(h.dir) // one that is damaged does not work
	changes, err := h.box.Changes(h.Context())
	h.must(err)
	return tokens, changes
}

func described(changes []record.Change) (all []string) {
	for _, c := range changes {
		all = append(all, c.Description)
	}
	return all
}
