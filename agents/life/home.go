package life

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/template"
	"time"

	agentshome "mbox/agents-home"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/lifecycle"
	"mbox/schemas"
)

// State is the file state.json in the home of an agent that was born: what the machine
// keeps of its work, and no model is told.
type State struct {
	LastPulseAt    *time.Time       `json:"last_pulse_at"` // when its worker last said that it is there
	LastDreamAt    *time.Time       `json:"last_dream_at"`
	InboxCursor    int64            `json:"inbox_cursor"`
	ChannelCursors map[string]int64 `json:"channel_cursors"`
	Status         string           `json:"status"`  // as of the last pulse, or Failing; the ledger has the state that counts
	Version        string           `json:"version"` // of the mbox that wrote this
	BootCount      int64            `json:"boot_count"`
}

// Names in an agent's home.
const (
	stateFile = "state.json"
	entryFile = "agent.toml"
	mostState = 1 << 20
)

// texts are the files of a new home that have a template: the name there, and here.
var texts = []struct{ file, from string }{
	{"CLAUDE.md", "CLAUDE.md"},
	{"IDENTITY.md", "IDENTITY.md"},
	{"heartbeat.md", "heartbeat.md"},
	{"memory/memory.md", "memory.md"},
}

// stage makes a whole home in an empty folder.
func (n *Newborn) stage(dir string, mode durable.Mode, born time.Time) error {
	for _, sub := range []string{"", "memory/dreams", "workspace", "logs"} {
		if err := durable.MkdirAll(filepath.Join(dir, sub), mode); err != nil {
			return err
		}
	}
	files := map[string][]byte{
		"SOUL.md": []byte(strings.TrimSpace(n.Soul) + "\n"),
		entryFile: entryCopy(n.Name, n.Entry),
	}
	if n.Soul == "" {
		files["SOUL.md"] = []byte("CLAUDE.md is all that was said of " + n.Name + " at its birth.\n")
	}
	about := map[string]string{
		"Name": n.Name, "Role": n.Role, "Soul": strings.TrimSpace(n.Soul),
		"Instruction": strings.TrimSpace(n.Instruction), "Born": born.UTC().Format(time.RFC3339),
	}
	for _, t := range texts {
		text, err := fill(t.from, about)
		if err != nil {
			return err
		}
		files[t.file] = text
	}
	state, err := schemas.Encode(State{ChannelCursors: map[string]int64{}, Status: string(lifecycle.Provisioning), Version: n.Version})
	if err != nil {
		return err
	}
	files[stateFile] = state
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := durable.Stage(filepath.Join(dir, name), files[name], mode); err != nil {
			return err
		}
	}
	return durable.SyncDirs(dir, mode)
}

// entryCopy is the readable copy of an agent's entry.
func entryCopy(agent string, entry []byte) []byte {
	return append([]byte("# A copy: what decides stands in "+EntryName(agent)+".\n"), entry...)
}

func fill(name string, about map[string]string) ([]byte, error) {
	text, err := agentshome.Born.ReadFile("born/" + name)
	if err != nil {
		return nil, err
	}
	t, err := template.New(name).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, about)
	return out.Bytes(), err
}

// Stateful is the state of an agent that was born; nil of one that has no such home.
func Stateful(b *mailbox.Box, agent string) (*State, error) {
	path := filepath.Join(b.AgentDir(agent), stateFile)
	data, err := durable.Read(path, mostState)
	if gone(err) {
		return nil, nil
	}
	s := &State{}
	if err == nil {
		err = schemas.Decode(data, s)
	}
	return s, err
}

// kept is Stateful for who writes the state anew: what an agent has spoilt there decides
// nothing, and is made again.
func kept(b *mailbox.Box, agent string) (*State, error) {
	s, err := Stateful(b, agent)
	var number syscall.Errno
	if s != nil && err != nil && (!errors.As(err, &number) || number == syscall.ELOOP) {
		s, err = &State{}, nil
	}
	if s != nil && s.ChannelCursors == nil {
		s.ChannelCursors = map[string]int64{}
	}
	return s, err
}

// stateWait is how long another change of state.json is waited for.
const stateWait = 5 * time.Second

// lockState keeps others from writing the state of an agent.
func lockState(ctx context.Context, b *mailbox.Box, agent string) (unlock func() error, err error) {
	return lock(ctx, home.LockPath(b.Home(), "state-"+agent), stateWait)
}

// change writes the state of an agent anew, if it has one, while nobody else does: its
// worker and its dream are processes of their own. What stands there an agent may have
// written: it decides nothing.
func change(ctx context.Context, b *mailbox.Box, agent string, do func(*State)) error {
	path := filepath.Join(b.AgentDir(agent), stateFile)
	return inHome(ctx, b, agent, func() error {
		s, err := kept(b, agent)
		if err != nil || s == nil {
			return err
		}
		do(s)
		text, err := schemas.Encode(s)
		if err == nil {
			err = durable.Replace(path, text, durable.None)
		}
		return err
	})
}

// inHome writes into the home of an agent that was born, while mbox writes nothing else
// there, and does not put it away.
func inHome(ctx context.Context, b *mailbox.Box, agent string, write func() error) error {
	if is, err := there(filepath.Join(b.AgentDir(agent), stateFile)); err != nil || !is {
		return err
	}
	unlock, err := lockState(ctx, b, agent)
	if gone(err) {
		return nil // it was put away meanwhile
	}
	if err != nil {
		return err
	}
	if is, err := there(b.AgentDir(agent)); err != nil || !is {
		return errors.Join(err, unlock())
	}
	return errors.Join(write(), unlock())
}

// Recopy writes the copy of an agent's entry in its home anew, where the entry says
// something else now.
func Recopy(ctx context.Context, b *mailbox.Box, agent string) error {
	path := filepath.Join(b.AgentDir(agent), entryFile)
	return inHome(ctx, b, agent, func() error {
		entry, err := durable.Read(filepath.Join(b.Home(), EntryName(agent)), mostState)
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		text := entryCopy(agent, entry)
		if there, err := durable.Read(path, mostState+1024); err == nil && bytes.Equal(there, text) {
			return nil
		}
		return durable.Replace(path, text, durable.None)
	})
}

// Seen is Stateful for who only looks: of what an agent has spoilt there nothing counts.
func Seen(b *mailbox.Box, agent string) *State {
	s, err := Stateful(b, agent)
	if s != nil && err != nil {
		return &State{}
	}
	return s
}

// now is this moment as a state has it.
func now(b *mailbox.Box) *time.Time {
	at := b.Options().Now().UTC().Truncate(time.Millisecond)
	return &at
}

// Dreamt notes that an agent has dreamed.
func Dreamt(ctx context.Context, b *mailbox.Box, agent string) error {
	return change(ctx, b, agent, func(s *State) { s.LastDreamAt = now(b) })
}
