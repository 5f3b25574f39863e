package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mbox/audit/record"
	"mbox/cmd/mbox/gateway"
	"mbox/cmd/mbox/gateway/token"
	"mbox/mailbox"
	"mbox/schemas"
)

func tokenVerb() *verb {
	return &verb{
		name:  "token",
		brief: "say who may come in by the doors",
		about: `A token lets a program or a person in by one of the doors (mbox help doors), as
reader, agent or operator. Only the SHA-256 of its secret is kept.`,
		verbs: []*verb{tokenCreateVerb(), tokenListVerb(), tokenRevokeVerb()},
	}
}

type tokenOptions struct {
	role  choice
	agent string
	json  bool
}

func tokenCreateVerb() *verb {
	o := tokenOptions{role: oneOf(token.Roles...)}
	return &verb{
		name: "create", args: "NAME", least: 1, most: 1,
		brief: "make a token, and print its secret this once",
		about: `Makes a token and prints its secret, which nobody can find out afterwards: if it is
lost, revoke the token and make another one. A reader looks. An agent's token does
what the agent may that --agent names, and in its name. An operator does what you
may at the command line: who has such a token can approve.

Making a token is written down by a change record, with name and role. It is for
people: an agent's process is refused, as mbox approve refuses it.`,
		shows: []string{
			"mbox token create phone --role reader",
			"mbox token create ci --role agent --agent coder >ci.token",
		},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			valueFlag("role", "what it may do: `ROLE` is reader, agent or operator", &o.role),
			textFlag("agent", "for the role agent: the `AGENT` that it speaks for", &o.agent),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			if err := keeping.byPerson(); err != nil {
				return err
			}
			right := "mbox token create " + schemas.ShellWord(clean(args[0], 80))
			switch role := token.Role(o.role.value); {
			case role == "":
				return usagef(right+" --role reader", "mbox token create needs --role: %s", strings.Join(token.Roles, ", "))
			case role == token.Agent && o.agent == "":
				return usagef(right+" --role agent --agent coder", "--role agent needs --agent: whom it speaks for")
			case role != token.Agent && o.agent != "":
				return usagef(right+" --role agent --agent "+schemas.ShellWord(clean(o.agent, 80)), "--agent is for --role agent, and not for %s", role)
			}
			return s.with(ctx, func(box *mailbox.Box) error { return o.run(ctx, s, box, args[0]) })
		},
	}
}

// tokenMade is what --json prints of a token: this once with its secret.
type tokenMade struct {
	Name   string     `json:"name"`
	Role   token.Role `json:"role"`
	Agent  string     `json:"agent,omitzero"`
	Secret string     `json:"token"`
	Record string     `json:"record"`
}

// run records the token before it makes it: a token that works has its record,
// wherever a crash cuts in. What that leaves is the record of a token that nobody
// has; said again the command makes one.
func (o *tokenOptions) run(ctx context.Context, s *session, box *mailbox.Box, name string) error {
	if err := keeping.byNoWorker(ctx, box); err != nil {
		return err
	}
	if o.agent != "" {
		if err := noStranger(s, box, o.agent); err != nil {
			return err
		}
	}
	role := token.Role(o.role.value)
	if err := token.Vacant(box.Home(), name, role, o.agent); err != nil {
		return err
	}
	t := token.Token{Name: name, Role: role, Agent: o.agent}
	id, recorded := box.Change(ctx, gateway.TokenMade(t, "Somebody has said mbox token create, from "+door()+"."))
	if recorded != nil && !errors.Is(recorded, mailbox.ErrCommitted) {
		return recorded
	}
	secret, _, err := token.Create(box.Home(), name, role, o.agent)
	if errors.Is(err, token.ErrExists) {
		return err // somebody has made one meanwhile, and recorded it
	}
	if err != nil {
		return hint(fmt.Errorf("token %s is not made, though %s says so: %w", name, id, err),
			"the same command again makes it; mbox token revoke %s records that there is none", schemas.ShellWord(name))
	}
	if o.json {
		return errors.Join(s.printLine(tokenMade{name, role, o.agent, secret, id}), recorded)
	}
	s.printf("%s\n", secret)
	s.done("token %s is made, %s: it is not shown again; %s", name, gateway.TokenRole(t), id)
	return recorded
}

func tokenListVerb() *verb {
	var inJSON bool
	return &verb{
		name:  "list",
		brief: "list the tokens there are",
		about: `Lists the tokens that count, by name. With --json each line is one token. A file
that is none is named, with exit code 65; it lets nobody in.`,
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{jsonFlag(&inJSON)},
		run: func(ctx context.Context, s *session, _ []string) error {
			return s.looking(ctx, func(box *mailbox.Box) error {
				tokens, damaged := token.List(box.Home())
				if inJSON {
					return firstError(s.printLines(len(tokens), func(i int) any { return tokens[i] }), damaged)
				}
				t := table{head: []string{"NAME", "ROLE", "AGENT", "MADE"}}
				for _, k := range tokens {
					t.add(text(k.Name), text(string(k.Role)), text(k.Agent), text(schemas.LocalTime(k.Created)))
				}
				t.printIfAny(s, "there is no token; mbox token create makes one")
				return damaged
			})
		},
	}
}

func tokenRevokeVerb() *verb {
	var inJSON bool
	return &verb{
		name: "revoke", args: "NAME", least: 1, most: 1,
		brief: "end a token",
		about: `Ends a token at once, also for servers that run: whoever shows it is refused. A
change record is written, with name and role. Like making one it is for people.`,
		shows: []string{"mbox token revoke phone"},
		exits: []int{exitNotFound, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{jsonFlag(&inJSON)},
		run: func(ctx context.Context, s *session, args []string) error {
			if err := keeping.byPerson(); err != nil {
				return err
			}
			return s.with(ctx, func(box *mailbox.Box) error { return s.revoke(ctx, box, args[0], inJSON) })
		},
		words: tokenWords,
	}
}

// revoke ends the token before it records that, so that no record says of a token
// that works that it is revoked, and a mailbox that cannot write keeps nobody from
// shutting a door. Said again it writes the record that a crash has cut off.
func (s *session) revoke(ctx context.Context, box *mailbox.Box, name string, inJSON bool) error {
	if err := keeping.byNoWorker(ctx, box); err != nil {
		return err
	}
	changes, failed := box.Changes(ctx)
	role := standing(changes, name)
	tokens, _ := token.List(box.Home())
	for _, t := range tokens {
		if t.Name == name {
			role = gateway.TokenRole(t)
		}
	}
	err := token.Revoke(box.Home(), name)
	switch {
	case errors.Is(err, token.ErrUnknown) && role != "": // it was ended before, and not recorded
	case errors.Is(err, token.ErrUnknown):
		return firstError(failed, err)
	case err != nil:
		return err
	}
	id, err := box.Change(ctx, tokenRevoked(name, cmp.Or(role, "unknown role")))
	if err != nil && !errors.Is(err, mailbox.ErrCommitted) {
		return fmt.Errorf("token %s is revoked, and no record tells of it: %w", name, err)
	}
	return errors.Join(s.told(inJSON, map[string]string{"name": name, "record": id}, "token %s is revoked; %s", name, id), err)
}

// isRevoked is what the record of a token says of its end, behind the name and before the
// role.
const isRevoked = " is revoked: "

// standing is the role of a token that was made, as the records tell, and never
// revoked; "" if there is none.
func standing(changes []record.Change, name string) (role string) {
	for _, c := range changes {
		if made, is := strings.CutPrefix(c.Description, "token "+name+gateway.IsMade); is {
			role = made
		} else if strings.HasPrefix(c.Description, "token "+name+isRevoked) {
			role = ""
		}
	}
	return role
}

func tokenRevoked(name, role string) record.Change {
	return record.Change{
		Agent: "human", Type: "config",
		Description:  "token " + name + isRevoked + role,
		Rationale:    "Somebody has said mbox token revoke, from " + door() + ".",
		Before:       "Who showed its secret came in by the doors, with this role.",
		After:        "Who shows its secret is refused.",
		Rollback:     "mbox token create makes one of the same name, with another secret.",
		Verification: "mbox token list does not show it.",
	}
}
