package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/agents/life"
	"mbox/audit"
	"mbox/cmd/mbox/check"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
	"mbox/schemas"
)

func agentVerb() *verb {
	return &verb{
		name:  "agent",
		brief: "make agents, list them, pause or rename one, put one away",
		about: `An agent that was born has a home and an entry in the registry, and lives until it is
put away (mbox agent birth). An agent that is paused claims nothing, in no process, and goes on with what it has.
What waits for it stays pending. Each move is a line agent_state of the ledger, which
is where all processes know it from.`,
		verbs: []*verb{
			agentBirthVerb(), agentListVerb(), agentShowVerb(), agentPauseVerb(), agentResumeVerb(),
			agentRenameVerb(), agentUpgradeVerb(), agentDrainVerb(), agentKillVerb(), agentRestoreVerb(),
		},
	}
}

// agentStatus is an agent as the ledger and mbox.toml have it.
type agentStatus struct {
	Name       string        `json:"name"`
	Registered bool          `json:"registered"` // it stands in mbox.toml, or is one of the default four
	Enabled    bool          `json:"enabled"`
	Role       string        `json:"role,omitzero"`
	Runtime    string        `json:"runtime"`            // what does its tasks: exec, acp, agentzero or role; none: whoever claims as it
	Version    string        `json:"version,omitzero"`   // that its program has to have
	Home       string        `json:"home,omitzero"`      // of one that was born, from the mailbox's folder
	Formerly   []string      `json:"formerly,omitempty"` // names that it had, sorted
	Lifecycle  mailbox.Agent `json:"lifecycle"`
	Holds      []mailbox.ID  `json:"holds"`
	Waiting    int           `json:"waiting"`         // pending tasks that name it
	Claude     *life.Claude  `json:"claude,omitzero"` // its CLAUDE.md, where the one of its birth is kept; mbox agent show tells it
	Lacks      string        `json:"lacks,omitzero"`  // why its command cannot run
	Activity   string        `json:"activity"`        // idle, busy, offline (nothing is heard of it), or error (its last work failed, or its command cannot run)
}

// agentStatuses are the agents of mbox.toml, those that have a task, and those of which
// the ledger tells, by name.
func agentStatuses(c *config.File, box *mailbox.Box) (map[string]*agentStatus, error) {
	x, err := box.Index()
	if err != nil {
		return nil, err
	}
	all := map[string]*agentStatus{}
	of := func(name string) *agentStatus {
		if all[name] == nil {
			all[name] = &agentStatus{Name: name, Enabled: true, Runtime: "none", Lifecycle: x.Agents[name].At(box.Options().Now()), Holds: []mailbox.ID{}}
		}
		return all[name]
	}
	for _, name := range c.AgentNames() {
		a := of(name)
		entry := c.Agents[name]
		a.Registered, a.Enabled, a.Role, a.Runtime, a.Version = true, entry.Enabled, entry.Role, runtimeName(entry), entry.Version
	}
	for _, name := range slices.Sorted(maps.Keys(x.Agents)) {
		of(name)
	}
	for _, l := range x.Live {
		switch {
		case l.State == mailbox.InProgress && l.Claimant != "":
			a := of(l.Claimant)
			a.Holds = append(a.Holds, l.ID)
		case l.State == mailbox.Pending && l.Target != "any":
			of(l.Target).Waiting++
		}
	}
	told, err := mailbox.AgentsOf(box)
	for _, old := range slices.Sorted(maps.Keys(told)) {
		if name := lifecycle.Called(told, old); name != old {
			of(name).Formerly = append(of(name).Formerly, old)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a := all[name]
		slices.Sort(a.Holds)
		state := life.Seen(box, name)
		if state != nil {
			a.Home = "agents/" + filepath.Base(box.AgentDir(name))
		}
		a.Lacks = check.Unable(c, box.Home(), name)
		a.Activity = a.activity(c.Agents[name], state, box.Options().Now())
	}
	return all, err
}

func runtimeName(a *config.Agent) string {
	switch {
	case a.Exec != "":
		return "exec"
	case a.ACP != "":
		return "acp"
	case a.Whole():
		return "agentzero"
	case a.Role != "":
		return "role"
	}
	return "none"
}

// activity is what an agent does, as far as its tasks tell, and the state in its home if it
// has one. Table is nil for a stranger.
func (a *agentStatus) activity(table *config.Agent, state *life.State, now time.Time) string {
	if table != nil {
		if _, stale := state.Stale(now, time.Duration(table.IdleInterval), table.HasWorker()); stale {
			return "offline"
		}
	}
	switch {
	case len(a.Holds) > 0:
		return "busy"
	case a.Lacks != "", state != nil && state.Status == life.Failing:
		return "error"
	}
	return "idle"
}

// agentStatusOf is one agent, by the name that it has or had. Where mbox.toml registers
// nobody, a name of which nobody has heard is that of an agent that may claim.
func agentStatusOf(c *config.File, box *mailbox.Box, name string) (*agentStatus, error) {
	a, err := knownAgent(c, box, name)
	if errors.Is(err, mailbox.ErrNotFound) && config.StrangerProblem(c, name) == "" {
		return strangerStatus(name), nil
	}
	return a, err
}

// heardAgent is knownAgent, or one that the ledger has a line of.
func heardAgent(c *config.File, box *mailbox.Box, name string) (*agentStatus, error) {
	a, err := knownAgent(c, box, name)
	if errors.Is(err, mailbox.ErrNotFound) {
		if _, none := os.Lstat(filepath.Join(box.Home(), "audit", audit.Folder(name))); none == nil {
			return strangerStatus(name), nil
		}
	}
	return a, err
}

// strangerStatus is an agent without a table and without a task.
func strangerStatus(name string) *agentStatus {
	return &agentStatus{Name: name, Enabled: true, Runtime: "none", Lifecycle: mailbox.Agent{}.At(time.Time{}), Holds: []mailbox.ID{}, Activity: "idle"}
}

// knownAgent is one that has a table or a task, or of which the ledger tells, by the name
// that it has or had. For any other name the error is ErrNotFound, with the one that was
// probably meant.
func knownAgent(c *config.File, box *mailbox.Box, name string) (*agentStatus, error) {
	all, err := agentStatuses(c, box)
	if err != nil {
		return nil, err
	}
	now, err := mailbox.AgentCalled(box, name)
	if err != nil {
		return nil, err
	}
	if a := all[now]; a != nil {
		return a, nil
	}
	if problem := config.AgentProblem(name); problem != "" {
		return nil, usagef("mbox agent list", "%s", problem)
	}
	err = fmt.Errorf("agent %s: %w", name, mailbox.ErrNotFound)
	if near := schemas.Suggest(name, slices.Sorted(maps.Keys(all))); near != "" {
		return nil, hint(err, "did you mean %s? mbox agent list shows all", near)
	}
	return nil, hint(err, "mbox agent list shows those there are")
}

// noStranger refuses a name that cannot be that of an agent here: as knownAgent does,
// where nobody has heard of it.
func noStranger(s *session, box *mailbox.Box, name string) error {
	problem := config.StrangerProblem(s.config, name)
	if problem == "" {
		return nil
	}
	if _, err := knownAgent(s.config, box, name); err != nil {
		return err
	}
	return usagef("mbox agent list", "%s", problem)
}

func (a *agentStatus) state() string {
	switch {
	case !a.Lifecycle.Claims():
		return string(a.Lifecycle.State)
	case !a.Enabled:
		return "not enabled"
	}
	return a.Activity
}

func (s *printer) agentColour(a *agentStatus) paint {
	switch a.state() {
	case "idle":
		return plain
	case "busy":
		return s.paint.cyan
	}
	return s.paint.yellow
}

func agentListVerb() *verb {
	var inJSON bool
	return &verb{
		name:  "list",
		brief: "list the agents and what they do",
		about: `Lists the agents of mbox.toml, those that hold a task or are waited for, and those
of whose state the ledger tells, by the names that they have now. One that was born is
offline when nothing is heard of it for three times its idle_interval; one is in
error when its last work failed or its command cannot run. With --json each line is one agent: its state and
since when, by what it works, its home, what it holds.`,
		shows: []string{"mbox agent list", `mbox agent list --json | jq -r 'select(.lifecycle.state == "paused").name'`},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{jsonFlag(&inJSON)},
		run: func(ctx context.Context, s *session, _ []string) error {
			return s.looking(ctx, func(box *mailbox.Box) error {
				all, err := agentStatuses(s.config, box)
				if err != nil {
					return err
				}
				names := slices.Sorted(maps.Keys(all))
				if inJSON {
					return s.printLines(len(names), func(i int) any { return all[names[i]] })
				}
				t := table{head: []string{"AGENT", "STATE", "ROLE", "WAITING", "HOLDS", "SINCE", "WHY"}}
				for _, name := range names {
					a := all[name]
					since, why := "-", "-"
					if a.Enabled && a.Lacks != "" {
						why = a.Lacks
					}
					if !a.Lifecycle.Claims() {
						since, why = schemas.LocalTime(a.Lifecycle.Since.Time), a.why()
					}
					t.add(text(name), coloured(a.state(), s.agentColour(a)), text(orDash(a.Role)), text(fmt.Sprint(a.Waiting)), text(orDash(joinIDs(a.Holds))), text(since), text(why))
				}
				t.printIfAny(s, "there is no agent; [agents.NAME] in mbox.toml makes one")
				return nil
			})
		},
	}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func joinIDs(ids []mailbox.ID) string {
	var out []string
	for _, id := range ids {
		out = append(out, string(id))
	}
	return strings.Join(out, " ")
}

// why is by whom an agent may not claim, for how long, and for what reason.
func (a *agentStatus) why() string {
	text := "by " + a.Lifecycle.By
	if a.Lifecycle.Until != nil {
		text += ", until " + schemas.LocalTime(a.Lifecycle.Until.Time)
	}
	if a.Lifecycle.Reason != "" {
		text += ": " + a.Lifecycle.Reason
	}
	return text
}

func agentShowVerb() *verb {
	var inJSON bool
	return &verb{
		name: "show", args: "NAME", least: 1, most: 1,
		brief: "tell what an agent does, and whether it may claim",
		about: `Tells the state of an agent, since when it has it and by whom, what it holds, and
how many pending tasks name it; of one that was born also whether its CLAUDE.md is the
one of its birth, and how to put that back.`,
		shows: []string{"mbox agent show coder"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{jsonFlag(&inJSON)},
		run: func(ctx context.Context, s *session, args []string) error {
			return s.looking(ctx, func(box *mailbox.Box) error {
				a, err := heardAgent(s.config, box, args[0])
				if err == nil {
					a.Claude, err = life.ClaudeOf(box, a.Name)
				}
				if err != nil {
					return err
				}
				if inJSON {
					return s.printLine(a)
				}
				s.printAgent(a)
				if a.Claude.Changed() {
					s.field("CLAUDE.md", differs(box, a.Claude))
					s.printf("%s\n", putBack(box, a.Claude))
				}
				return nil
			})
		},
		words: agentWords,
	}
}

// differs says what is wrong with the CLAUDE.md of an agent.
func differs(box *mailbox.Box, c *life.Claude) string {
	home := filepath.Dir(filepath.FromSlash(c.File))
	if _, err := os.Lstat(filepath.Join(box.Home(), home)); errors.Is(err, os.ErrNotExist) {
		return "is gone, as all of " + home + "; to make that anew, where no backup has it:"
	}
	return "is not the one of its birth; to put that back:"
}

// putBack is the command that brings back the CLAUDE.md of a birth, in a new home where that
// is gone. It follows no link that an agent may have put in its place.
func putBack(box *mailbox.Box, c *life.Claude) string {
	path := filepath.Join(box.Home(), filepath.FromSlash(c.File))
	file, home := schemas.ShellWord(path), ""
	if _, err := os.Lstat(filepath.Dir(path)); errors.Is(err, os.ErrNotExist) {
		home = "mkdir -m 700 " + schemas.ShellWord(filepath.Dir(path)) + " " + schemas.ShellWord(filepath.Join(filepath.Dir(path), "workspace")) + " && "
	}
	return home + "rm -f " + file + " && cp " + schemas.ShellWord(filepath.Join(box.Home(), filepath.FromSlash(c.Kept))) + " " + file
}

func (s *printer) printAgent(a *agentStatus) {
	s.printf("%s  %s\n\n", s.paint.bold(clean(a.Name, 128)), s.agentColour(a)(a.state()))
	if !a.Lifecycle.Claims() {
		s.field("since", schemas.LocalTime(a.Lifecycle.Since.Time))
		s.field("why", a.why())
	}
	if a.Lacks != "" {
		s.field("cannot run", a.Lacks)
	}
	if !a.Registered {
		s.field("table", "none in mbox.toml")
	}
	if a.Lifecycle.UUID != "" {
		s.field("uuid", clean(a.Lifecycle.UUID, 64))
	}
	if len(a.Formerly) > 0 {
		s.field("formerly", strings.Join(a.Formerly, ", "))
	}
	if a.Role != "" {
		s.field("role", a.Role)
	}
	if a.Version != "" {
		s.field("version", clean(a.Version, 128))
	}
	if a.Home != "" {
		s.field("home", clean(a.Home, maxLine))
	}
	for _, id := range a.Holds {
		s.field("holds", string(id))
	}
	s.field("waiting", fmt.Sprint(a.Waiting))
}

type pauseOptions struct {
	lasts  length
	reason string
	json   bool
}

func agentPauseVerb() *verb {
	var o pauseOptions
	return &verb{
		name: "pause", args: "NAME", least: 1, most: 1,
		brief: "keep an agent from claiming",
		about: `Keeps an agent from claiming, in all processes, until mbox agent resume, or as long
as --for says. It goes on with what it has; mbox cancel or mbox release ends that.
What waits for it stays pending, and is an alarm after start_within as ever; what is
for any goes to others. A pause that is there already gets the new end and reason.

A command that says its account's quota is used up pauses the account's agents until
that ends (mbox help runtimes). Such a pause shortens none that was made here.

Pausing is for people: an agent's process is refused, as mbox approve refuses it.`,
		shows: []string{
			`mbox agent pause coder --reason "looking into what it did last night"`,
			"mbox agent pause coder --for 2h",
		},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			valueFlag("for", "end it by itself after `DURATION`; not given: never", &o.lasts),
			textFlag("reason", "why: `TEXT`", &o.reason),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			name := args[0]
			if o.lasts.given && o.lasts.Duration <= 0 {
				return usagef("mbox agent pause "+schemas.ShellWord(clean(name, 80))+" --for 2h", "--for %s: a pause has to last", config.Span(time.Duration(o.lasts.Duration)))
			}
			return moveAgent(ctx, s, name, o.json, func(box *mailbox.Box, name string) error {
				p := mailbox.Pause{Agent: name, By: "human", Reason: o.reason}
				if o.lasts.given {
					p.Until = time.Now().Add(time.Duration(o.lasts.Duration))
				}
				_, err := mailbox.PauseAgent(ctx, box, p)
				return err
			})
		},
		words: agentWords,
	}
}

func agentResumeVerb() *verb {
	var o pauseOptions
	return &verb{
		name: "resume", args: "NAME", least: 1, most: 1,
		brief: "let a paused agent claim again",
		about: `Ends an agent's pause, whoever has made it and whenever it would end. Workers that
wait have the next task at once. Like pausing it is for people.`,
		shows: []string{"mbox agent resume coder"},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{textFlag("reason", "why: `TEXT`", &o.reason), jsonFlag(&o.json)},
		run: func(ctx context.Context, s *session, args []string) error {
			return moveAgent(ctx, s, args[0], o.json, func(box *mailbox.Box, name string) error {
				_, err := mailbox.ResumeAgent(ctx, box, name, "human", o.reason)
				return err
			})
		},
		words: agentWords,
	}
}

// moveAgent does what a person wants to be done with an agent, and tells what it is then.
func moveAgent(ctx context.Context, s *session, name string, inJSON bool, move func(box *mailbox.Box, name string) error) error {
	return pausing.with(ctx, s, func(box *mailbox.Box) error {
		a, err := agentStatusOf(s.config, box, name)
		if err != nil {
			return err
		}
		name = a.Name
		s.doubtTarget(name)
		if err := move(box, name); err != nil {
			return hintConflict(err, name)
		}
		if a, err = agentStatusOf(s.config, box, name); err != nil {
			return err
		}
		if inJSON {
			return s.printLine(a)
		}
		goesOn := ""
		if len(a.Holds) > 0 && !a.Lifecycle.Claims() {
			goesOn = "; it goes on with " + joinIDs(a.Holds)
		}
		s.done("%s is %s%s", name, a.Lifecycle, goesOn)
		return nil
	})
}

// hintConflict adds to an error about an agent's state what tells that state.
func hintConflict(err error, name string) error {
	if errors.Is(err, mailbox.ErrConflict) {
		return hint(err, "mbox agent show %s tells what it is, and why", schemas.ShellWord(name))
	}
	return err
}
