package main

import (
	"bufio"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/gateway/token"
	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// A crash is put behind each step of making and of revoking a token. Whatever it
// leaves, a token that works has a record that it was made, none that works has a
// record that it was revoked, and the command said again does the rest.
func TestTokenHasItsRecord(t *testing.T) {
	h := newTokenHome(t)
	for _, revokes := range []bool{false, true} {
		verb, between := h.create, 0
		if revokes {
			verb = h.revoke
		}
		for steps := 0; ; steps++ {
			if revokes {
				h.must(h.create())
			}
			err := h.cutOff(steps, verb)
			h.reopen()
			works, stands := h.look()
			if works && !stands || err == nil && works == revokes {
				t.Errorf("revokes %v, cut off after %d steps, %v: it works: %v, its records say so: %v", revokes, steps, err, works, stands)
			}
			if works != stands {
				between++
			}
			again := verb()
			if errors.Is(again, token.ErrExists) && !works { // a file that is cut off: the hint says what to do
				h.must(h.revoke())
				again = verb()
			}
			if again != nil && !errors.Is(again, token.ErrExists) && !errors.Is(again, token.ErrUnknown) {
				t.Errorf("revokes %v, cut off after %d steps, said again: %v", revokes, steps, again)
			}
			if works, stands := h.look(); works == revokes || stands == revokes {
				t.Errorf("revokes %v, cut off after %d steps, said again: it works: %v, its records say so: %v", revokes, steps, works, stands)
			}
			if !revokes {
				h.must(h.revoke())
			}
			if err == nil {
				break
			}
		}
		if between == 0 {
			t.Errorf("revokes %v: no crash came between a record and its token", revokes)
		}
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

// look tells whether the token works, and whether its records say that it does.
func (h *tokenHome) look() (works, stands bool) {
	h.Helper()
	tokens, _ := token.List(h.dir) // one that is damaged does not work
	changes, err := h.box.Changes(h.Context())
	h.must(err)
	return len(tokens) == 1, standing(changes, "phone") != ""
}

