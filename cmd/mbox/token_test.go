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

// A crash is put behind each step of making and of revoking a token, and each step
// alone is made to fail. Whatever that leaves, a token that works has a record that
// it was made, none that works has a record that it was revoked, and the command
// said again does the rest.
func TestTokenHasItsRecord(t *testing.T) {
	h := newTokenHome(t)
	for _, c := range []struct{ revokes, crash bool }{{false, true}, {false, false}, {true, true}, {true, false}} {
		between, hit := 0, true
		for steps := 0; hit; steps++ {
			works, stands := false, false
			hit, works, stands = h.spoiled(c.revokes, c.crash, steps)
			if works != stands {
				between++
			}
		}
		if between == 0 {
			t.Errorf("%+v: nothing came between a record and its token", c)
		}
	}
}

// spoiled makes or revokes the token with a step spoiled, and then without. It tells
// whether there was such a step, and what it left.
func (h *tokenHome) spoiled(revokes, crash bool, steps int) (hit, works, stands bool) {
	h.Helper()
	verb := h.create
	if revokes {
		h.must(h.create())
		verb = h.revoke
	}
	hit, err := spoil(steps, crash, verb)
	h.reopen()
	works, stands = h.look()
	if works && !stands || err == nil && works == revokes {
		h.Errorf("revokes %v, crash %v at step %d, %v: it works: %v, its records say so: %v", revokes, crash, steps, err, works, stands)
	}
	again := verb()
	if want := map[bool]error{false: token.ErrExists, true: token.ErrUnknown}[revokes]; again != nil && (!errors.Is(again, want) || works == revokes) {
		h.Errorf("revokes %v, crash %v at step %d, said again: %v", revokes, crash, steps, again)
	}
	if works, stands := h.look(); works == revokes || stands == revokes {
		h.Errorf("revokes %v, crash %v at step %d, said again: it works: %v, its records say so: %v", revokes, crash, steps, works, stands)
	}
	if !revokes {
		h.must(h.revoke())
	}
	return hit, works, stands
}

// spoil lets a verb do so many steps that change the disk. The next one fails, and
// after a crash all others do.
func spoil(steps int, crash bool, verb func() error) (hit bool, err error) {
	defer durable.SetFault(func(durable.Op, string) (bool, error) {
		if steps--; steps == -1 || steps < -1 && crash {
			hit = true
			return false, errors.New("spoiled")
		}
		return true, nil
	})()
	err = verb()
	return hit, err
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

func (h *tokenHome) revoke() error { return h.s.revoke(h.Context(), h.box, "phone", false) }

// look tells whether the token works, and whether its records say that it does.
func (h *tokenHome) look() (works, stands bool) {
	h.Helper()
	tokens, _ := token.List(h.dir) // one that is damaged does not work
	changes, err := h.box.Changes(h.Context())
	h.must(err)
	return len(tokens) == 1, standing(changes, "phone") != ""
}
