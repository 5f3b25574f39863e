package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/urfave/cli/v2"

	"mbox/agents/secret"
	"mbox/audit/record"
	"mbox/mailbox"
)

func secretIdentityVerb() *verb {
	o := identityOptions{to: oneOf(secret.InFile, secret.InKeyring)}
	return &verb{
		name:  "identity",
		brief: "tell or change where lies what opens secrets",
		about: `Tells where the identity lies that opens the secrets of all agents, and whether it can
be used. --to brings it into the keyring of your user (Secret Service on Linux, Keychain
on macOS) or back into the file .mbox/keys/identity, and makes it there if there is none
yet. What is cut off on the way leaves it where it can be read; the same command again
does the rest. Commands and mbox up need not be told. A change record tells where it is.

A service without your desktop's session reaches no keyring, and one at boot finds it
locked: then the file is the place. mbox help secrets tells more. It is for people.`,
		shows: []string{"mbox secret identity", "mbox secret identity --to keyring"},
		exits: []int{exitNotFound, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{valueFlag("to", "where it is to lie: `PLACE` is file or keyring", &o.to), jsonFlag(&o.json)},
		run: func(ctx context.Context, s *session, _ []string) error {
			if o.to.value == "" {
				return s.looking(ctx, func(box *mailbox.Box) error { return o.tell(ctx, s, box) })
			}
			if o.json {
				return usagef("mbox secret identity --json", "--json tells where it is, --to changes that")
			}
			return sealing.with(ctx, s, func(box *mailbox.Box) error { return o.move(ctx, s, box) })
		},
	}
}

type identityOptions struct {
	to   choice
	json bool
}

// tell prints where the identity lies, also if it cannot be used there.
func (o *identityOptions) tell(ctx context.Context, s *session, box *mailbox.Box) error {
	at, err := secret.Where(ctx, box.Home())
	if errors.Is(err, fs.ErrNotExist) && at.In == secret.InFile {
		if all, _ := secret.List(ctx, box.Home(), ""); len(all) == 0 {
			s.infof("there is none yet: the first secret makes it, in %s", clean(at.File, maxLine))
			return nil
		}
		return err
	}
	if o.json {
		return firstError(s.printLine(at), err)
	}
	_, failed := fmt.Fprintln(s.out, clean(at.String(), maxLine))
	return firstError(failed, err)
}

// move records where the identity will lie before it lies there.
func (o *identityOptions) move(ctx context.Context, s *session, box *mailbox.Box) error {
	var committed error
	m, err := secret.Move(ctx, box.Home(), o.to.value, box.Options().LockWait, func() error {
		_, err := box.Change(ctx, identityMoved(o.to.value))
		if errors.Is(err, mailbox.ErrCommitted) {
			committed, err = err, nil
		}
		return err
	})
	if err != nil {
		return err
	}
	at, err := secret.Where(ctx, box.Home())
	if err != nil {
		return err
	}
	if m.Left != "" {
		s.warnf("account %s stays in the keyring: this home was another folder when that was made, and a copy of it may still need it", m.Left)
	}
	how := "lies already"
	if m.Moved {
		how = "now lies"
	}
	s.done("what opens the secrets %s %s", how, clean(at.String(), maxLine))
	return committed
}

func identityMoved(to string) record.Change {
	from, place := secret.InFile, "the keyring of the user"
	if to == secret.InFile {
		from, place = secret.InKeyring, "the file .mbox/keys/identity"
	}
	return record.Change{
		Agent: "human", Type: "config",
		Description:  "what opens secrets goes into " + place,
		Rationale:    "Somebody has said mbox secret identity --to " + to + ", from " + door() + ".",
		Before:       "It is not there.",
		After:        "It is there, and nowhere else in this mailbox.",
		Rollback:     "mbox secret identity --to " + from,
		Verification: "mbox secret identity tells where it is.",
	}
}
