package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mbox/agents/secret"
	"mbox/audit/record"
	"mbox/mailbox"
	"mbox/schemas"
)

func secretVerb() *verb {
	return &verb{
		name:  "secret",
		brief: "what an agent's commands need to know, and nobody else",
		about: `A secret is a variable in the environment of an agent's commands: a password, a
token, a key. It lies encrypted in the mailbox, and no line, log, result or task that
mbox writes holds it. mbox help secrets tells what that is worth.`,
		verbs: []*verb{secretSetVerb(), secretListVerb(), secretRemoveVerb(), secretIdentityVerb()},
	}
}

type secretOptions struct {
	agent, file string
	json        bool
}

func (o *secretOptions) agentFlag() cli.Flag {
	return filledFlag("agent", "whose secret: `NAME`", &o.agent)
}

func secretSetVerb() *verb {
	var o secretOptions
	return &verb{
		name: "set", args: "NAME", least: 1, most: 1,
		brief: "give an agent's commands a secret",
		about: `Sets a secret to what is on standard input, or in --file, without the newline at its
end; on a terminal it is asked for and not shown. Never give it as an argument: every
program sees those. The agent's next attempt has it, also with mbox up running.

NAME is that of the variable. A change record tells who has which secret, and nothing
of its value. Agents' processes are refused, as mbox approve refuses them.`,
		shows: []string{
			"mbox secret set --agent coder API_TOKEN <token.txt",
			"pass show api | mbox secret set --agent coder API_TOKEN",
		},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{o.agentFlag(), fileFlag("file", "read it from `FILE`", &o.file), jsonFlag(&o.json)},
		run: func(ctx context.Context, s *session, args []string) error {
			if err := o.named("set", args[0]); err != nil {
				return err
			}
			return sealing.byName(ctx, s, o.agent, func(box *mailbox.Box, agent string) error {
				o.agent = agent
				return o.set(ctx, s, box, args[0])
			})
		},
	}
}

// named refuses a command line without an agent, and a name that is none.
func (o *secretOptions) named(verb, name string) error {
	if o.agent == "" {
		return usagef("mbox secret "+verb+" --agent coder "+schemas.ShellWord(clean(name, 80)), "mbox secret %s needs --agent: whose secret it is", verb)
	}
	if strings.Contains(name, "=") {
		return usagef("mbox secret "+verb+" --agent "+schemas.ShellWord(clean(o.agent, 80))+" API_TOKEN <file", "a secret has only its name on the command line: every program sees the rest, so set another value than that one")
	}
	return nil
}

// set records the secret before it sets it: one that commands get has its record,
// wherever a crash cuts in. Said again the command does the rest.
func (o *secretOptions) set(ctx context.Context, s *session, box *mailbox.Box, name string) error {
	if err := noStranger(s, box, o.agent); err != nil {
		return err
	}
	if err := secret.CheckName(name); err != nil {
		return err // before somebody has typed it
	}
	value, err := o.value(ctx, s, name)
	if err != nil {
		return err
	}
	made, err := secret.Check(ctx, box.Home(), o.agent, name, value)
	if err != nil {
		return err
	}
	id, recorded := box.Change(ctx, secretSet(o.agent, name, made))
	if recorded != nil && !errors.Is(recorded, mailbox.ErrCommitted) {
		return recorded
	}
	if _, err := secret.Set(ctx, box.Home(), o.agent, name, value, box.Options().LockWait); err != nil {
		return fmt.Errorf("%s is not set, though %s says so; the same command again sets it: %w", name, id, err)
	}
	if p := s.config.Agents[o.agent]; p == nil {
		s.warnf("%s is not in mbox.toml: it gets the secret when mbox worker --agent %s runs a command", o.agent, o.agent)
	}
	return errors.Join(s.told(o.json, o.line(name, id), "%s of %s is set; %s", name, o.agent, id), recorded)
}

// value reads the secret. Of what ends in a newline, as files and echo do, that is no part.
func (o *secretOptions) value(ctx context.Context, s *session, name string) (string, error) {
	const most = secret.Most + 2
	var text []byte
	var err error
	switch {
	case o.file != "":
		text, err = s.readInput(ctx, o.file, most)
	case term.IsTerminal(int(s.in.Fd())):
		text, err = s.ask(ctx, name+" of "+o.agent)
	default:
		text, err = s.readInput(ctx, "-", most)
	}
	value := strings.TrimSuffix(string(text), "\n")
	return strings.TrimSuffix(value, "\r"), err
}

// ask has somebody type what is not shown. A signal ends it with the terminal as it was.
func (s *session) ask(ctx context.Context, what string) ([]byte, error) {
	fd := int(s.in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(s.err, "%s (not shown): ", clean(what, maxLine))
	defer fmt.Fprintln(s.err)
	type answer struct {
		text []byte
		err  error
	}
	typed := make(chan answer, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		typed <- answer{text, err}
	}()
	select {
	case a := <-typed:
		return a.text, a.err
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), term.Restore(fd, before))
	}
}

func secretListVerb() *verb {
	var o secretOptions
	return &verb{
		name:  "list",
		brief: "list the names of secrets",
		about: `Lists whose secrets there are and when each was set, never what they are. One that
cannot be opened is told, with exit code 65; its agent takes no tasks until that is
mended.`,
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{filledFlag("agent", "only those of `NAME`", &o.agent), jsonFlag(&o.json)},
		run: func(ctx context.Context, s *session, _ []string) error {
			return s.looking(ctx, func(box *mailbox.Box) error {
				agent, err := mailbox.AgentCalled(box, o.agent)
				if err != nil {
					return err
				}
				all, locked := secret.List(ctx, box.Home(), agent)
				if len(all) == 0 && locked == nil && agent != "" {
					if err := noStranger(s, box, agent); err != nil {
						return err
					}
				}
				if o.json {
					return firstError(s.printLines(len(all), func(i int) any { return all[i] }), locked)
				}
				t := table{head: []string{"AGENT", "NAME", "SET"}}
				for _, k := range all {
					t.add(text(k.Agent), text(k.Name), text(schemas.LocalTime(k.Set)))
				}
				t.printIfAny(s, "there is no secret; mbox secret set sets one")
				return locked
			})
		},
	}
}

func secretRemoveVerb() *verb {
	var o secretOptions
	return &verb{
		name: "rm", args: "NAME", least: 1, most: 1,
		brief: "take a secret away",
		about: `Removes a secret, also one that nobody can open any more. A command that runs keeps
it, the next attempt does not get it. Backups and whoever has seen it keep it, too: end
it where it comes from as well. A change record is written. It is for people.`,
		shows: []string{"mbox secret rm --agent coder API_TOKEN"},
		exits: []int{exitNotFound, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{o.agentFlag(), jsonFlag(&o.json)},
		run: func(ctx context.Context, s *session, args []string) error {
			if err := o.named("rm", args[0]); err != nil {
				return err
			}
			return sealing.byName(ctx, s, o.agent, func(box *mailbox.Box, agent string) error {
				o.agent = agent
				return o.remove(ctx, s, box, args[0])
			})
		},
		words: secretWords,
	}
}

// remove takes the secret away before it records that, so that no record says of one that
// commands get that it is gone. Said again it writes the record that a crash has cut off.
func (o *secretOptions) remove(ctx context.Context, s *session, box *mailbox.Box, name string) error {
	err := secret.Remove(ctx, box.Home(), o.agent, name, box.Options().LockWait)
	if errors.Is(err, secret.ErrUnknown) {
		changes, failed := box.Changes(ctx)
		if failed != nil || !owed(changes, o.agent, name) {
			return firstError(failed, err)
		}
		err = nil
	}
	if err != nil {
		return err
	}
	id, err := box.Change(ctx, secretRemoved(o.agent, name))
	if err != nil && !errors.Is(err, mailbox.ErrCommitted) {
		return fmt.Errorf("%s of %s is removed, and no record tells of it: %w", name, o.agent, err)
	}
	return errors.Join(s.told(o.json, o.line(name, id), "%s of %s is removed; %s", name, o.agent, id), err)
}

// line is what --json prints of a secret that was set or removed.
func (o *secretOptions) line(name, record string) any {
	return map[string]string{"agent": o.agent, "name": name, "record": record}
}

// What the records of secrets say behind their names.
const (
	secretIsSet     = " is set"
	secretIsRemoved = " is removed"
)

// owed tells whether the last record of a secret says that there is one.
func owed(changes []record.Change, agent, name string) (is bool) {
	for _, c := range changes {
		switch rest, about := strings.CutPrefix(c.Description, secretTitle(agent, name)); {
		case about && strings.HasPrefix(rest, secretIsSet):
			is = true
		case about && rest == secretIsRemoved:
			is = false
		}
	}
	return is
}

func secretTitle(agent, name string) string { return "secret " + name + " of " + agent }

func secretSet(agent, name string, made bool) record.Change {
	before, how := "There is a secret of this name, which is another one.", " anew"
	if made {
		before, how = "There is no secret of this name.", ""
	}
	return record.Change{
		Agent: "human", Type: "config",
		Description:  secretTitle(agent, name) + secretIsSet + how,
		Rationale:    "Somebody has said mbox secret set, from " + door() + ".",
		Before:       before,
		After:        "Commands of " + agent + " get it in their environment.",
		Rollback:     "mbox secret rm --agent " + agent + " " + name,
		Verification: "mbox secret list shows it.",
	}
}

func secretRemoved(agent, name string) record.Change {
	return record.Change{
		Agent: "human", Type: "config",
		Description:  secretTitle(agent, name) + secretIsRemoved,
		Rationale:    "Somebody has said mbox secret rm, from " + door() + ".",
		Before:       "Commands of " + agent + " got it in their environment.",
		After:        "They get it no more.",
		Rollback:     "mbox secret set --agent " + agent + " " + name + " sets it again, by who knows it.",
		Verification: "mbox secret list does not show it.",
	}
}
