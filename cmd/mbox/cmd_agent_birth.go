package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/urfave/cli/v2"

	"mbox/agents/life"
	"mbox/cmd/mbox/check"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/channel"
	"mbox/mailbox/durable"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/task"
	"mbox/schemas"
)

type birthOptions struct {
	soul, instruction, role, exec, acp string
	repo, provisioner                  string
	runtime                            choice
	types                              choices
	service                            serviceOptions
	json                               bool
}

func agentBirthVerb() *verb {
	o := birthOptions{types: choices{among: task.Types}, runtime: oneOf("exec", "acp", "role", "none")}
	return &verb{
		name: "birth", args: "NAME", least: 1, most: 1,
		brief: "make an agent with a home",
		about: `Makes the home agents/NAME (CLAUDE.md, SOUL.md, IDENTITY.md, heartbeat.md, memory,
workspace, logs), and an entry in the registry, mbox.d/NAME.toml, which a running mbox
up takes over at once. Then the agent is asked to introduce itself.

--exec, --acp or --role says by what it works: it is provisioning, and claims nothing,
until its worker has begun, and healthy from then on. mbox up begins it, and is waited
for; where none runs, mbox up, mbox worker --agent NAME or its unit does so later. With
none of them it is whoever claims as NAME, and says by itself that it is there (POST
/api/agents/NAME/heartbeat), or never: it is healthy at once. What else it needs can be
written into its file in mbox.d.

--repo clones a repository into its workspace. --provisioner is run when all is there,
to make it more: a machine, say (mbox help colony tells what it gets). Where one of them
fails, nothing is left of the birth.

--systemd or --launchd writes the units of its worker and its dream (mbox unit --agent)
to where your supervisor reads them, for a machine where no mbox up runs. Nothing is
started: the command that does is told. They go when the agent goes, and come back with
it: its entry says so (units).

A birth that was cut off is finished by mbox up, or by the same command. A change record
tells of it. It is for people: an agent's process is refused, as mbox approve refuses it.`,
		shows: []string{
			`mbox agent birth ada --exec "claude -p" --soul ada.md`,
			`mbox agent birth site --exec "claude -p" --repo https://example.org/site.git`,
			`mbox agent birth reviewer --role coder --instruction "Review what the others write."`,
		},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			filledFlag("soul", "who it is, in Markdown: a `FILE`, or - for standard input", &o.soul),
			filledFlag("instruction", "what it is there for: `TEXT`", &o.instruction),
			filledFlag("role", "it thinks and acts by this `ROLE`", &o.role),
			filledFlag("exec", "the `COMMAND` that does its tasks", &o.exec),
			filledFlag("acp", "the `PROGRAM` that does its tasks by the Agent Client Protocol", &o.acp),
			valueFlag("runtime", "by what it works, in a `WORD`: exec, acp, role or none, with the flag that says so", &o.runtime),
			filledFlag("repo", "clone the repository `URL` into its workspace", &o.repo),
			filledFlag("provisioner", "run `COMMAND` when its home is made", &o.provisioner),
			valueFlag("type", "what it takes from any: `TYPE`s of tasks; may be repeated", &o.types),
			boolFlag("systemd", "write units for your systemd", &o.service.systemd),
			boolFlag("launchd", "write agents for your launchd", &o.service.launchd),
			boolFlag("no-service", "write no units: mbox up runs it, or you do (what is done if nothing is said)", &o.service.none),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			if _, err := o.service.keeper(); err != nil {
				return err
			}
			if err := o.checkRuntime(args[0]); err != nil {
				return err
			}
			return rearing.with(ctx, s, func(box *mailbox.Box) error { return o.run(ctx, s, box, args[0]) })
		},
	}
}

// checkRuntime refuses a runtime whose flag is missing, or another one's is given.
func (o *birthOptions) checkRuntime(name string) error {
	want := o.runtime.value
	if want == "" {
		return nil
	}
	right, lacks, other := "mbox agent birth "+schemas.ShellWord(clean(name, 80))+" --runtime "+want, "", ""
	for _, f := range []struct{ flag, value, what string }{{"exec", o.exec, "CMD"}, {"acp", o.acp, "PROGRAM"}, {"role", o.role, "coder"}} {
		switch {
		case f.flag != want && f.value != "":
			other = f.flag
		case f.flag == want && f.value == "":
			lacks = f.flag
			right += " --" + f.flag + " " + f.what
		case f.flag == want:
			right += " --" + f.flag + " " + schemas.ShellWord(clean(f.value, 80))
		}
	}
	switch {
	case other != "":
		return usagef(right, "--runtime %s and --%s do not go together", want, other)
	case lacks != "":
		return usagef(right, "--runtime %s needs --%s", want, lacks)
	}
	return nil
}

func (o *birthOptions) run(ctx context.Context, s *session, box *mailbox.Box, name string) error {
	a, err := mailbox.AgentOf(box, name)
	if err != nil {
		return err
	}
	switch a.State {
	case lifecycle.Provisioning:
		if err = o.same(s, box, name); err == nil {
			_, err = life.Finish(ctx, box, following(s, box))
			err = halfway(err)
		}
	case lifecycle.Renamed:
		err = hint(fmt.Errorf("agent %s is %s: %w", name, a, mailbox.ErrConflict), "another name: what is for %s goes to %s", name, a.Name)
	case lifecycle.Dead, lifecycle.Draining:
		err = hint(fmt.Errorf("agent %s is %s: %w", name, a, mailbox.ErrConflict), "mbox agent restore %s brings it back; or take another name", name)
	default:
		err = o.bear(ctx, s, box, name)
	}
	if err == nil {
		err = o.service.put(s, box, name)
	}
	if err != nil {
		return err
	}
	return halfway(arrived(ctx, s, box, name, o.json, "is born", "mbox agent birth"))
}

// same refuses to finish the birth of another one: that there is works by something else
// than is asked for, or takes something else. What was written into its home stays.
func (o *birthOptions) same(s *session, box *mailbox.Box, name string) error {
	there, err := comingAgent(s, box, name)
	if err != nil {
		return err
	}
	if there == nil || there.Role == o.role && there.Exec == o.exec && there.ACP == o.acp && slices.Equal(there.Types, o.types.values) {
		if o.soul != "" || o.instruction != "" {
			s.warnf("the birth of %s had begun: SOUL.md and CLAUDE.md stay as they were made then, whatever --soul and --instruction say now", name)
		}
		return nil
	}
	return hint(fmt.Errorf("agent %s: %w: it is in the registry already, with another exec, acp, role or types", name, mailbox.ErrConflict), "another name; mbox agent show %s tells of that one", name)
}

// comingAgent is the table of an agent that is provisioning: its entry may not be in its
// place yet. Nil if it has none.
func comingAgent(s *session, box *mailbox.Box, name string) (*config.Agent, error) {
	if a := s.config.Agents[name]; a != nil {
		return a, nil
	}
	text, err := life.StagedEntry(box, name)
	if errors.Is(err, fs.ErrNotExist) {
		c, err := config.Load(box.Home()) // it has come to its place meanwhile
		if err != nil {
			return nil, err
		}
		return c.Agents[name], nil
	}
	if err != nil {
		return nil, err
	}
	c, err := config.With(box.Home(), life.EntryName(name), text)
	if err != nil {
		return nil, hint(fmt.Errorf("%s.new: %w", life.EntryName(name), err), "mend it there, and say it again")
	}
	return c.Agents[name], nil
}

// bear makes what there is not yet.
func (o *birthOptions) bear(ctx context.Context, s *session, box *mailbox.Box, name string) error {
	if s.config.Agents[name] != nil {
		return hint(fmt.Errorf("agent %s: %w: it is in the registry already", name, mailbox.ErrConflict), "another name; mbox agent show %s tells of that one", name)
	}
	if problem := takenName(name); problem != "" {
		return usagef("mbox agent birth ada", "NAME: %s", problem)
	}
	if err := o.checkFill(); err != nil {
		return err
	}
	soul, err := o.readSoul(ctx, s)
	if err != nil {
		return err
	}
	id := uuid.NewString()
	units, err := o.service.keeper()
	if err != nil {
		return err
	}
	entry, err := config.AgentText(name, &config.Agent{Role: o.role, Exec: o.exec, ACP: o.acp, Types: o.types.values, UUID: id, Units: units})
	if err != nil {
		return err
	}
	next, err := config.With(box.Home(), life.EntryName(name), entry)
	if err != nil {
		return ofBirth(err, name, filepath.Join(box.Home(), life.EntryName(name)))
	}
	if next.Agents[name].Command() != "" {
		if f := check.Command(next, box.Home(), name); f.Level != check.Fine {
			return usagef(cmp.Or(f.Hint, "mbox agent birth --help"), "%s", f.Text)
		}
	}
	if err := o.service.check(s, next.Agents[name], name); err != nil {
		return err
	}
	if lack := check.Lack(next, name); lack != "" {
		s.warnf("%s", lack)
	}
	err = halfway(life.Birth(ctx, box, life.Newborn{
		Name: name, Role: o.role, Soul: soul, Instruction: o.instruction, Entry: entry, By: "human", Version: thisVersion().Version, UUID: id, Fill: o.fill(s, box, name, id), Follow: following(s, box),
	}))
	if !errors.Is(err, mailbox.ErrConflict) {
		return err
	}
	if all, failed := mailbox.AgentsOf(box); failed == nil && all[name].State != lifecycle.Unborn {
		return hint(err, "take another name: one of which the ledger tells is born no more; [agents.%s] in mbox.toml makes an agent without a birth", name)
	}
	return hint(err, "move it away, or take another name")
}

// takenName tells what else in mbox has such a name, which no agent may be given; ""
// if nothing does.
func takenName(name string) string {
	switch {
	case strings.Contains(name, ":"):
		return schemas.Quote(name) + " is a bridge's name"
	case channel.Group(name):
		return schemas.Quote(name) + " is a group in channels"
	case name == runAgent:
		return schemas.Quote(name) + " is reserved: mbox run works by that name"
	}
	return ""
}

// ofBirth makes of an error about an entry that is not there yet one about the command.
func ofBirth(err error, name, path string) error {
	var bad *config.Error
	if !errors.As(err, &bad) || bad.File != path {
		return err
	}
	problem := strings.TrimPrefix(bad.Problem, "agents."+name+".")
	if problem == bad.Problem {
		return usagef(cmp.Or(bad.Hint, "mbox agent birth --help"), "%s", problem)
	}
	return usagef(cmp.Or(bad.Hint, "mbox agent birth --help"), "--%s", problem)
}

// mostSoul is how long the file of a soul may be, in bytes.
const mostSoul = 256 << 10

func (o *birthOptions) readSoul(ctx context.Context, s *session) (string, error) {
	switch o.soul {
	case "":
		return "", nil
	case "-":
		text, err := io.ReadAll(io.LimitReader(patient{ctx, s.in}, mostSoul+1))
		if err == nil && len(text) > mostSoul {
			err = usagef("at most 256 KiB", "--soul -: it is longer than %s", schemas.Size(mostSoul))
		}
		return string(text), err
	}
	text, err := durable.ReadLinked(o.soul, mostSoul)
	if errors.Is(err, fs.ErrNotExist) {
		err = hint(fmt.Errorf("--soul: there is no %s: %w", schemas.Quote(o.soul), mailbox.ErrNotFound), "a file in Markdown that says who it is; --soul - reads that from standard input")
	}
	return string(text), err
}
