package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/urfave/cli/v2"

	"mbox/agents"
	"mbox/agents/life"
	"mbox/cmd/mbox/check"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
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

// mostSoul is how long the file of a soul may be, in bytes.
const mostSoul = 256 << 10

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
			textFlag("soul", "who it is, in Markdown: a `FILE`, or - for standard input", &o.soul),
			textFlag("instruction", "what it is there for: `TEXT`", &o.instruction),
			textFlag("role", "it thinks and acts by this `ROLE`", &o.role),
			textFlag("exec", "the `COMMAND` that does its tasks", &o.exec),
			textFlag("acp", "the `PROGRAM` that does its tasks by the Agent Client Protocol", &o.acp),
			valueFlag("runtime", "by what it works, in a `WORD`: exec, acp, role or none, with the flag that says so", &o.runtime),
			textFlag("repo", "clone the repository `URL` into its workspace", &o.repo),
			textFlag("provisioner", "run `COMMAND` when its home is made", &o.provisioner),
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

// byName does a person's deed to an agent, which may be given by a name that it had.
func (d deed) byName(ctx context.Context, s *session, name string, do func(box *mailbox.Box, name string) error) error {
	return d.with(ctx, s, func(box *mailbox.Box) error {
		now, err := mailbox.AgentCalled(box, name)
		if err != nil {
			return err
		}
		return do(box, now)
	})
}

// halfwayError is an error in the middle of a birth or an end. One of its lines may count,
// and no other command brings the rest about: so it does not match ErrCommitted.
type halfwayError struct{ err error }

func halfway(err error) error {
	if errors.Is(err, mailbox.ErrCommitted) {
		return hint(&halfwayError{err}, "say it again: it goes on where it was cut off; so does mbox up")
	}
	return err
}

func (e *halfwayError) Error() string { return e.err.Error() }
func (e *halfwayError) Is(target error) bool {
	return target != mailbox.ErrCommitted && errors.Is(e.err, target)
}
func (e *halfwayError) As(target any) bool { return errors.As(e.err, target) }

func (o *birthOptions) run(ctx context.Context, s *session, box *mailbox.Box, name string) error {
	a, err := mailbox.AgentOf(box, name)
	if err != nil {
		return err
	}
	switch a.State {
	case lifecycle.Provisioning:
		if err = o.same(s.config.Agents[name], name); err == nil {
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
// than is asked for. Its entry may not be in its place yet.
func (o *birthOptions) same(there *config.Agent, name string) error {
	if there == nil || there.Role == o.role && there.Exec == o.exec && there.ACP == o.acp {
		return nil
	}
	return hint(fmt.Errorf("agent %s: %w: it is in the registry already, and works by something else", name, mailbox.ErrConflict), "another name; mbox agent show %s tells of that one", name)
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
	if errors.Is(err, mailbox.ErrConflict) {
		return hint(err, "move it away, or take another name")
	}
	return err
}

// takenName tells what else in mbox has such a name, which no agent may be given; ""
// if nothing does.
func takenName(name string) string {
	switch {
	case strings.Contains(name, ":"):
		return schemas.Quote(name) + " is a bridge's name"
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

// arrived waits until an agent that is provisioning is healthy, where mbox up runs its
// worker, which says so. One that nobody here runs is healthy at once; any other goes on
// provisioning until somebody runs it.
func arrived(ctx context.Context, s *session, box *mailbox.Box, name string, inJSON bool, what, command string) error {
	next, err := config.Load(box.Home())
	if err != nil {
		return err
	}
	id, err := recordSettings(ctx, box, next, "agent "+name+" "+what, "Somebody has said "+command+", from "+door()+".")
	if err != nil && !errors.Is(err, mailbox.ErrCommitted) {
		return fmt.Errorf("agent %s %s, and no record tells of it: %w", name, what, err)
	}
	switch a := next.Agents[name]; {
	case a == nil || !a.Enabled || !a.HasWorker():
		err = life.Admit(ctx, box, name, "human")
	case box.Routed():
		err = waitForPulse(ctx, box, name)
	}
	if err != nil {
		return err
	}
	return toldAgent(s, next, box, name, inJSON, what, id)
}

// pulseWait is how long the first pulse of an agent is waited for.
const pulseWait = 30 * time.Second

func waitForPulse(ctx context.Context, box *mailbox.Box, name string) error {
	ctx, stop := context.WithTimeout(ctx, pulseWait)
	defer stop()
	err := watchUntil(ctx, box, func() (bool, error) {
		a, err := mailbox.AgentOf(box, name)
		return a.State != lifecycle.Provisioning, err
	})
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return hint(fmt.Errorf("agent %s is provisioning, and its worker has not begun: %w", name, mailbox.ErrBusy), "mbox status tells what mbox up does; the birth goes on by itself")
	}
	return err
}

// watchUntil asks whether it is done, at once and whenever the ledger has grown, until it is
// or the context ends, whose error it returns then.
func watchUntil(ctx context.Context, box *mailbox.Box, done func() (bool, error)) error {
	for from := box.Ledger().End(); ; {
		if is, err := done(); is || err != nil {
			return err
		}
		for _, err := range box.Follow(ctx, from) { // what it yields only says that there is something
			if err != nil && ctx.Err() == nil {
				return err
			}
			from = box.Ledger().End()
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// toldAgent tells what an agent is now.
func toldAgent(s *session, c *config.File, box *mailbox.Box, name string, inJSON bool, what, record string) error {
	a, err := agentStatusOf(c, box, name)
	if err != nil {
		return err
	}
	if inJSON {
		return s.printLine(a)
	}
	s.printf("%s\n", clean(box.AgentDir(name), maxLine))
	s.done("%s %s, and %s; %s", name, what, a.Lifecycle.State, cmp.Or(record, "no record was needed"))
	if a.Lifecycle.State == lifecycle.Provisioning {
		s.infof("%s is provisioning: mbox up, or mbox worker --agent %[1]s, has it begin", name)
	}
	return nil
}

type endOptions struct {
	reason string
	now    bool
	json   bool
}

func agentDrainVerb() *verb {
	var o endOptions
	return &verb{
		name: "drain", args: "NAME", least: 1, most: 1,
		brief: "let an agent finish, and put it away",
		about: `Keeps an agent that was born from claiming, for good. When it has finished what it has,
its home and its entry are put away in agents/_archive/NAME-TIME, with a manifest of the
home's hashes, and it is dead: at once where it has nothing, else by mbox up. Its name
stays taken. What waits for it stays pending, until somebody moves or cancels it.

A change record tells of it. It is for people, as births are.`,
		shows: []string{`mbox agent drain ada --reason "the project is over"`},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{textFlag("reason", "why: `TEXT`", &o.reason), jsonFlag(&o.json)},
		run: func(ctx context.Context, s *session, args []string) error {
			return rearing.byName(ctx, s, args[0], func(box *mailbox.Box, name string) error { return o.end(ctx, s, box, name, "mbox agent drain") })
		},
		words: agentWords,
	}
}

func agentKillVerb() *verb {
	var o endOptions
	return &verb{
		name: "kill", args: "NAME", least: 1, most: 1,
		brief: "put an agent away now",
		about: `Does what drain does, to an agent that has nothing to do. One that has a task is
refused, unless --now says that its tasks go back to pending: what it is doing then
counts no more. mbox agent restore brings it back.`,
		shows: []string{"mbox agent kill ada --now"},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			boolFlag("now", "take its tasks away from it", &o.now),
			textFlag("reason", "why: `TEXT`", &o.reason), jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			return rearing.byName(ctx, s, args[0], func(box *mailbox.Box, name string) error {
				held, err := life.Holds(box, name)
				if err != nil {
					return err
				}
				if len(held) > 0 && !o.now {
					err := fmt.Errorf("agent %s works at %s: %w", name, joinIDs(held), mailbox.ErrConflict)
					return hint(err, "mbox agent drain %s lets it finish, mbox agent kill %[1]s --now takes its tasks away", name)
				}
				return o.end(ctx, s, box, name, "mbox agent kill")
			})
		},
		words: agentWords,
	}
}

func (o *endOptions) end(ctx context.Context, s *session, box *mailbox.Box, name, command string) error {
	a, err := knownAgent(s.config, box, name)
	if err != nil {
		return err
	}
	if a.Lifecycle.State == lifecycle.Dead {
		dropUnits(s, box.Home(), name) // which a command may have left that was cut off
	}
	without, err := config.With(box.Home(), life.EntryName(name), nil)
	if err != nil {
		return hint(fmt.Errorf("without %s the settings make no sense: %w", life.EntryName(name), err), "move what else stands in that file to one of its own; mbox up notices")
	}
	var free func() error
	if o.now {
		free = func() error { return takeBack(ctx, box, name) }
	}
	archive, err := life.Drain(ctx, box, name, "human", o.reason, free, following(s, box))
	err = halfway(err)
	if errors.Is(err, mailbox.ErrConflict) {
		if a, failed := mailbox.AgentOf(box, name); failed == nil && a.State == lifecycle.Dead {
			return hint(err, "mbox agent restore %s brings it back", schemas.ShellWord(name))
		}
		return hint(err, "mbox agent pause %s keeps it from claiming; enabled = false in its table switches it off", schemas.ShellWord(name))
	}
	if err != nil {
		return err
	}
	if a, err = agentStatusOf(s.config, box, name); err != nil {
		return err
	}
	if archive != "" {
		next, err := config.Load(box.Home())
		if err != nil {
			return err
		}
		if _, err = recordSettings(ctx, box, next, "agent "+name+" is put away in "+archive, "Somebody has said "+command+", from "+door()+"."); err != nil && !errors.Is(err, mailbox.ErrCommitted) {
			return fmt.Errorf("agent %s is put away, and no record tells of it: %w", name, err)
		}
	}
	if o.json {
		return s.printLine(a)
	}
	switch {
	case archive != "":
		s.printf("%s\n", archive)
		s.done("%s is dead; mbox agent restore %[1]s brings it back", name)
	case len(a.Holds) > 0:
		s.done("%s is draining: it finishes %s, and mbox up puts it away then", name, joinIDs(a.Holds))
	default:
		s.done("%s is %s", name, a.Lifecycle)
	}
	for _, naming := range config.NamingDead(without) {
		if !slices.Contains(config.NamingDead(s.config), naming) {
			s.warnf("%s: that counts no more, until it is back", naming)
		}
	}
	if a.Waiting > 0 {
		s.warnf("%s for it; mbox move gives them to others: mbox move --pending --for %s AGENT", schemas.Count(a.Waiting, "task waits", "tasks wait"), name)
	}
	return nil
}

// takeBack gives the tasks of an agent back to pending, by the tokens that stand in them.
func takeBack(ctx context.Context, box *mailbox.Box, name string) error {
	held, err := life.Holds(box, name)
	if err != nil {
		return err
	}
	for _, id := range held {
		t, state, err := box.Task(ctx, id)
		if err != nil {
			return err
		}
		if state != mailbox.InProgress || t.Mbox.Lease == nil || t.Claimant() != name {
			continue // it has ended meanwhile
		}
		claim, err := box.Held(ctx, id, t.Mbox.Lease.Token)
		if err == nil {
			err = claim.Release(ctx, agents.TakenAway, 0)
		}
		if err != nil && !errors.Is(err, mailbox.ErrStale) {
			return err
		}
	}
	return nil
}

func agentRestoreVerb() *verb {
	var o endOptions
	return &verb{
		name: "restore", args: "NAME", least: 1, most: 1,
		brief: "bring a dead agent back",
		about: `Brings an agent back from its newest archive: its home, compared with the manifest and
the ledger, its entry in the registry, and the units that its birth has written. Then it
goes on as after a birth. An archive that was changed is refused: what is in it can be
copied by hand.`,
		shows: []string{"mbox agent restore ada"},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{textFlag("reason", "why: `TEXT`", &o.reason), jsonFlag(&o.json)},
		run: func(ctx context.Context, s *session, args []string) error {
			return rearing.byName(ctx, s, args[0], func(box *mailbox.Box, name string) error { return o.restore(ctx, s, box, name) })
		},
		words: agentWords,
	}
}

func (o *endOptions) restore(ctx context.Context, s *session, box *mailbox.Box, name string) error {
	a, err := knownAgent(s.config, box, name)
	if err != nil {
		return err
	}
	if a.Lifecycle.State == lifecycle.Provisioning {
		_, err = life.Finish(ctx, box, following(s, box))
		err = halfway(err)
	} else {
		err = o.fetch(ctx, s, box, name)
	}
	if err != nil {
		return err
	}
	return halfway(arrived(ctx, s, box, name, o.json, "is back", "mbox agent restore"))
}

func (o *endOptions) fetch(ctx context.Context, s *session, box *mailbox.Box, name string) error {
	archive, entry, err := life.Archived(box, name)
	if errors.Is(err, mailbox.ErrNotFound) {
		return hint(err, "bring that folder back from a backup, or take another name for a new agent")
	}
	if err != nil {
		return hintConflict(err, name)
	}
	if _, err := config.With(box.Home(), life.EntryName(name), entry); err != nil {
		return hint(fmt.Errorf("%s/agent.toml: %w", archive, err), "mend it there, or write a table of your own")
	}
	err = halfway(life.Restore(ctx, box, name, "human", o.reason, following(s, box)))
	var changed *life.ChangedError
	if errors.As(err, &changed) {
		return hint(err, "look into %s: what was changed, and by whom", filepath.Join(box.Home(), archive))
	}
	return err
}

// livesPause is how often mbox up looks for births and ends that were cut off, for agents
// that have finished, and for those that were just born.
const livesPause = 2 * time.Second

// keepLives does the rest of births and ends until ctx ends.
func (c *crew) keepLives(ctx context.Context, v *service) {
	tick := time.NewTicker(livesPause)
	defer tick.Stop()
	asked := map[string]bool{} // agents for which the registry was read again
	for {
		buried, err := life.Finish(ctx, v.box, following(v.session, v.box))
		if err == nil {
			err = c.welcome(ctx, v, asked)
		}
		err = errors.Join(err, life.Sweep(ctx, v.box))
		if err != nil && ctx.Err() == nil {
			v.warnf("agents: %v", err)
		}
		for _, name := range buried {
			v.infof("%s has finished, and is put away", name)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// welcome says the first pulse of agents that were just born, or brought back, and whose
// worker is here, and lets those in that nobody runs. For one that this service does not
// know, or whose worker has ended meanwhile, the registry is read again.
func (c *crew) welcome(ctx context.Context, v *service, asked map[string]bool) error {
	all, err := mailbox.AgentsOf(v.box)
	for name, a := range all {
		if a.State != lifecycle.Provisioning {
			continue
		}
		_, gone := os.Lstat(filepath.Join(v.box.Home(), life.EntryName(name)))
		entry := v.config.Agents[name]
		switch {
		case entry != nil && !(entry.Enabled && entry.HasWorker()):
			err = errors.Join(err, life.Admit(ctx, v.box, name, "mbox"))
		case c.runs(name):
			err = errors.Join(err, life.Pulse(ctx, v.box, name, thisVersion().Version, false))
		case gone == nil && !asked[name]:
			asked[name] = true
			select {
			case c.hup <- syscall.SIGHUP:
			default: // it is read again anyway
			}
		}
	}
	return err
}
