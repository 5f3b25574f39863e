// Package life brings agents into the world and out of it: it makes the home of an agent,
// writes its entry into the registry, and puts both away when it is dead.
//
// What an agent is stands in three places: its home, agents/NAME; its entry, the file
// mbox.d/NAME.toml, which neither its actions nor a confined command of it can change (one
// that nothing confines runs as the user, and can); and the ledger, whose last line
// agent_state about it is its state (package lifecycle). They cannot change at once. So a
// birth, and the way back from the archive, go like this:
//
//	the home is made whole in agents/.NAME.birth, the entry in mbox.d/NAME.toml.new
//	line: provisioning        from here on it counts
//	the home is renamed to agents/NAME, its CLAUDE.md kept as mbox.d/UUID.CLAUDE.md
//	the entry is renamed to mbox.d/NAME.toml
//	what it has elsewhere, such as units, is made ([Follow])
//	the task with which it introduces itself is sent, once
//	first pulse, line: healthy; of one that nobody here runs at once ([Admit])
//
// and an end like this:
//
//	line: draining            it claims nothing more, and finishes what it has
//	the hashes of its home are written to agents/_archive/NAME-TIME/manifest.json
//	the entry is renamed to agents/_archive/NAME-TIME/agent.toml, the home to home
//	what it has elsewhere is removed
//	line: dead, with the place and the hash of the manifest
//
// A new name, of an agent that is at nothing, comes like this:
//
//	its entry for the new name is made in mbox.d/NEW.toml.new
//	line: renamed             from here on the old name means the new one
//	the home is renamed to agents/NEW, the entry to mbox.d/NEW.toml
//	what it has elsewhere follows
//	the pending tasks that name it are readdressed, a line for each
//	the old entry is removed
//
// Each step can be done twice. Whatever is killed between the lines, [Finish] does the
// rest: mbox up calls it, and so does the same command when it is given again. What was
// made before the first line is swept by the next birth, and by mbox up ([Sweep]). One process at a time does any
// of it, by a lock on agents/.lives.
package life

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/task"
)

// Newborn is what is said of an agent at its birth.
type Newborn struct {
	Name        string
	Role        string // for its texts alone; what counts is the entry
	Soul        string // who it is, in Markdown; "" leaves that to a template
	Instruction string // what it is there for
	Entry       []byte // the text of its file in the registry, which has been checked
	UUID        string // that it keeps whatever its name
	// Fill, if not nil, puts more into the home, which is whole otherwise. It is still in
	// another place; no agent is born or put away meanwhile. After an error nothing is left.
	Fill    func(ctx context.Context, home string) error
	Follow  Follow
	By      string // human, or whoever wants it
	Version string // of this mbox
}

// lockWait is how long another birth or end is waited for.
const lockWait = 30 * time.Second

// alone does something while no other process brings an agent in or out.
func alone(ctx context.Context, b *mailbox.Box, do func() error) error {
	unlock, err := lock(ctx, livesLock(b), lockWait)
	if err != nil {
		return err
	}
	return errors.Join(do(), unlock())
}

func livesLock(b *mailbox.Box) string { return filepath.Join(b.Home(), "agents", ".lives") }

// Birth makes an agent. It returns when its home and its entry are in their places and
// the ledger has it as provisioning; its first [Pulse] makes it healthy. A name that is
// taken is ErrConflict, also one of an agent that is dead. From the ledger's line on the
// birth counts, and Finish ends it.
func Birth(ctx context.Context, b *mailbox.Box, n Newborn) error {
	if err := checkName(n.Name); err != nil {
		return err
	}
	return alone(ctx, b, func() error {
		if err := free(b, n.Name); err != nil {
			return err
		}
		if err := sweep(b); err != nil {
			return err
		}
		home, mode := staged(b, n.Name), b.Options().Sync
		entry := filepath.Join(b.Home(), EntryName(n.Name)) + ".new"
		err := errors.Join(durable.RemoveAll(home), durable.RemoveIfThere(entry))
		if err == nil {
			err = n.stage(home, mode, b.Options().Now())
		}
		if err == nil && n.Fill != nil {
			err = errors.Join(n.Fill(ctx, home), durable.SyncDirs(home, mode))
		}
		if err == nil {
			err = stageEntry(entry, n.Entry, mode)
		}
		if err != nil {
			return errors.Join(err, durable.RemoveAll(home), durable.RemoveIfThere(entry))
		}
		// Where the line failed it may be there all the same: then Finish needs what was made.
		_, err = mailbox.MoveAgent(ctx, b, n.By, "began to make "+n.Name, lifecycle.Move{Agent: n.Name, After: lifecycle.Provisioning, UUID: n.UUID})
		if err != nil && !errors.Is(err, mailbox.ErrCommitted) {
			return err
		}
		return arrive(ctx, b, n.Name, n.Follow)
	})
}

func checkName(name string) error {
	if strings.Contains(name, ":") {
		return task.Fault("name", "is a bridge's", "one of a-z, 0-9, _ and -")
	}
	return task.CheckAgent(name)
}

// free refuses a name that somebody has or had.
func free(b *mailbox.Box, name string) error {
	all, err := mailbox.AgentsOf(b)
	if err != nil {
		return err
	}
	if a, told := all[name]; told {
		return fmt.Errorf("agent %s is %s: %w", name, a, mailbox.ErrConflict)
	}
	for _, path := range []string{b.AgentDir(name), filepath.Join(b.Home(), EntryName(name))} {
		if is, err := there(path); err != nil {
			return err
		} else if is {
			return fmt.Errorf("%s is there already: %w", path, mailbox.ErrConflict)
		}
	}
	return nil
}

func stageEntry(path string, text []byte, mode durable.Mode) error {
	if err := durable.MkdirAll(filepath.Dir(path), mode); err != nil {
		return err
	}
	return errors.Join(durable.Stage(path, text, mode), durable.SyncDir(filepath.Dir(path), mode))
}

// StagedEntry is the entry of an agent that is not in its place yet: fs.ErrNotExist if there
// is none.
func StagedEntry(b *mailbox.Box, name string) ([]byte, error) {
	return durable.Read(filepath.Join(b.Home(), EntryName(name))+".new", mostState)
}

// arrive puts in place what was made before the line, and has the agent introduce itself.
func arrive(ctx context.Context, b *mailbox.Box, name string, follow Follow) error {
	if err := arriveHome(b, name); err != nil {
		return err
	}
	if is, err := there(b.AgentDir(name)); err != nil || !is {
		return err // it comes from another name, and so does the rest: moveOver brings them
	}
	if err := keepClaude(b, name); err != nil {
		return err
	}
	entry := filepath.Join(b.Home(), EntryName(name))
	if err := moved(entry+".new", entry, b.Options().Sync); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := follow.tell(ctx, "", name); err != nil {
		return err
	}
	s, err := Stateful(b, name)
	if err != nil || s == nil || s.BootCount > 0 {
		return err
	}
	names, err := namesOf(b, name)
	if err != nil || len(names) > 1 {
		return err // it has been asked under the name that it had
	}
	t := &mailbox.Task{Task: mailbox.Request{
		Type: "other", Priority: "normal", Title: "Introduce yourself",
		Description: "You were just born. Read CLAUDE.md in your home, and say in a few sentences who you are and what you are there for.",
	}}
	t.Source.Agent, t.Assignment.TargetAgent, t.Mbox.IdempotencyKey = "human", name, "birth:"+name
	for n := 2; ; n++ { // somebody else may have used that key
		id, err := b.Submit(ctx, t)
		if err != nil {
			return err
		}
		if made, _, err := b.Task(ctx, id); err != nil || t.Repeats(made) {
			return nil //nolint:nilerr // it is sent all the same
		}
		t.Mbox.IdempotencyKey = fmt.Sprintf("birth:%s.%d", name, n)
	}
}

// namesOf are the names that an agent has and had.
func namesOf(b *mailbox.Box, agent string) ([]string, error) {
	names := []string{agent}
	all, err := mailbox.AgentsOf(b)
	for old := range all {
		if old != agent && lifecycle.Called(all, old) == agent {
			names = append(names, old)
		}
	}
	return names, err
}

// arriveHome puts the home of an agent in its place, if it is not there yet: the one that
// was made for it, or that of its archive. What a worker that ended late has made in the
// place of that goes into the archive.
func arriveHome(b *mailbox.Box, name string) error {
	home, mode := b.AgentDir(name), b.Options().Sync
	if is, err := there(staged(b, name)); err != nil {
		return err
	} else if is {
		return moved(staged(b, name), home, mode)
	}
	archive, err := lastArchive(b, name)
	if err != nil || archive == "" {
		return err
	}
	for range lateTries {
		err = moved(home, filepath.Join(archive, "late-"+stamp(b.Options().Now())), mode)
		if err != nil && !gone(err) {
			return err
		}
		err = moved(filepath.Join(archive, "home"), home, mode)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return err
}

// lateTries is how often a home is made way for: who makes one there does so once.
const lateTries = 3

// moved renames, and flushes both folders.
func moved(from, to string, mode durable.Mode) error {
	if err := durable.Move(from, to); err != nil {
		return err
	}
	return errors.Join(durable.SyncDir(filepath.Dir(to), mode), durable.SyncDir(filepath.Dir(from), mode))
}

// Pulse is said by a worker of the agent when it begins, and again and again: it is kept
// in state.json. The first one makes an agent that was just born healthy. An agent
// without such a home has none.
func Pulse(ctx context.Context, b *mailbox.Box, agent, version string, begins bool) error {
	return heard(ctx, b, agent, agent, "is there: first pulse of "+agent, func(s *State) {
		s.LastPulseAt, s.Version = now(b), version
		if begins {
			s.BootCount++
		}
	})
}

// Admit makes an agent healthy that was just born, or brought back, and that nobody here
// runs: it claims when it likes. It has no pulse before it says one itself.
func Admit(ctx context.Context, b *mailbox.Box, agent, by string) error {
	if a, err := mailbox.AgentOf(b, agent); err != nil || a.State != lifecycle.Provisioning {
		return err
	}
	return heard(ctx, b, agent, by, "let in "+agent+", which has no worker here", func(s *State) { s.LastPulseAt = nil })
}

// heard has a new agent be healthy, by its own word or by that of another, and keeps in its
// state what is heard of it.
func heard(ctx context.Context, b *mailbox.Box, agent, by, words string, keep func(*State)) error {
	if is, err := there(filepath.Join(b.AgentDir(agent), stateFile)); err != nil || !is {
		return err
	}
	a, err := mailbox.AgentOf(b, agent)
	if err != nil {
		return err
	}
	if a.State == lifecycle.Provisioning {
		a, err = mailbox.MoveAgent(ctx, b, by, words, lifecycle.Move{Agent: agent, After: lifecycle.Healthy})
		if err != nil && !errors.Is(err, mailbox.ErrCommitted) {
			return err
		}
	}
	return change(ctx, b, agent, func(s *State) {
		if s.Status != Failing || !a.Claims() {
			s.Status = string(a.State)
		}
		keep(s)
	})
}

// Drain has an agent claim nothing more. What it has it finishes, unless free, which may be
// nil, takes that away; when it has nothing left it is put away, at once or by Finish.
// Archive is where; "" while it still works.
func Drain(ctx context.Context, b *mailbox.Box, agent, by, reason string, free func() error, follow Follow) (archive string, err error) {
	err = alone(ctx, b, func() error {
		err := drained(ctx, b, agent, by, reason)
		if err == nil && free != nil {
			err = free()
		}
		if err != nil {
			return err
		}
		archive, err = depart(ctx, b, agent, by, reason, lockWait, follow)
		return err
	})
	return archive, err
}

// drained has an agent that lives be draining.
func drained(ctx context.Context, b *mailbox.Box, agent, by, reason string) error {
	a, err := mailbox.AgentOf(b, agent)
	switch {
	case err != nil || a.State == lifecycle.Draining:
		return err
	case a.State == lifecycle.Dead:
		return fmt.Errorf("agent %s is %s: %w", agent, a, mailbox.ErrConflict)
	}
	if is, err := there(filepath.Join(b.Home(), EntryName(agent))); err != nil {
		return err
	} else if !is {
		return fmt.Errorf("agent %s has no %s: %w: only an agent that was born can end so", agent, EntryName(agent), mailbox.ErrConflict)
	}
	if _, err := os.Lstat(b.AgentDir(agent)); err != nil {
		return fmt.Errorf("agent %s: its home is gone, and nothing to put away: %w", agent, err)
	}
	_, err = mailbox.MoveAgent(ctx, b, by, "drains "+agent, lifecycle.Move{Agent: agent, After: lifecycle.Draining, Reason: reason})
	return err
}

// Holds are the tasks that an agent is at.
func Holds(b *mailbox.Box, agent string) (ids []mailbox.ID, err error) {
	x, err := b.Index()
	if err != nil {
		return nil, err
	}
	for _, l := range x.Live {
		if l.State == mailbox.InProgress && l.Claimant == agent {
			ids = append(ids, l.ID)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// Finish does the rest of a birth, of an end, of a way back and of a change of names that
// was cut off, for all agents, and tells which of them were put away.
func Finish(ctx context.Context, b *mailbox.Box, follow Follow) (buried []string, err error) {
	if begun, err := between(b); err != nil || len(begun) == 0 {
		return nil, err
	}
	err = alone(ctx, b, func() error {
		begun, failed := between(b) // as it is now
		for _, name := range slices.Sorted(maps.Keys(begun)) {
			switch begun[name].State {
			case lifecycle.Provisioning:
				failed = errors.Join(failed, arrive(ctx, b, name, follow))
				continue
			case lifecycle.Renamed:
				if err := moveOver(ctx, b, name, 0, follow); !errors.Is(err, mailbox.ErrBusy) { // else the next Finish does it
					failed = errors.Join(failed, err)
				}
				continue
			}
			archive, err := depart(ctx, b, name, "mbox", begun[name].Reason, 0, follow)
			if archive != "" {
				buried = append(buried, name)
			}
			if !errors.Is(err, mailbox.ErrBusy) {
				failed = errors.Join(failed, err)
			}
		}
		return failed
	})
	return buried, err
}

// between are the agents that are on their way in or out, or to another name.
func between(b *mailbox.Box) (map[string]mailbox.Agent, error) {
	all, err := mailbox.AgentsOf(b)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{} // by pending tasks
	if slices.ContainsFunc(slices.Collect(maps.Values(all)), isRenamed) {
		x, err := b.Index()
		if err != nil {
			return nil, err
		}
		for i := range x.Live {
			named[x.Live[i].Target] = named[x.Live[i].Target] || x.Live[i].State == mailbox.Pending
		}
	}
	maps.DeleteFunc(all, func(name string, a mailbox.Agent) bool {
		if isRenamed(a) {
			left, _ := there(filepath.Join(b.Home(), EntryName(name))) // moveOver tells what is wrong
			return !left && !named[name]
		}
		return a.State != lifecycle.Provisioning && a.State != lifecycle.Draining
	})
	return all, nil
}

func isRenamed(a mailbox.Agent) bool { return a.State == lifecycle.Renamed }

// EntryName is the file of an agent's entry in the registry, from the home.
func EntryName(agent string) string { return "mbox.d/" + agent + ".toml" }

// staged is where the home of an agent is made.
func staged(b *mailbox.Box, agent string) string {
	dir, name := filepath.Split(b.AgentDir(agent))
	return filepath.Join(dir, "."+name+".birth")
}

// there tells whether something has this name.
func there(path string) (bool, error) {
	_, err := os.Lstat(path)
	if gone(err) {
		return false, nil
	}
	return err == nil, err
}

func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// stamp is a time in the name of an archive.
func stamp(at time.Time) string {
	return strings.ReplaceAll(at.UTC().Format("20060102T150405.000Z"), ".", "")
}
