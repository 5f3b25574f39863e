package life

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// heartbeatFile is an agent's list of what it looks after between tasks.
const heartbeatFile = "heartbeat.md"

// BeatEvery is how often an agent looks after heartbeat.md at most.
const BeatEvery = 30 * time.Minute

// mostHeartbeat is how much of the file it is told, in bytes.
const mostHeartbeat = 32 << 10

// heartbeat is what a keeper knows of heartbeat.md. It is read when it has changed alone.
type heartbeat struct {
	was  os.FileInfo // nil: it was not there
	text string      // "" where there is nothing to do
}

// look reads the file if it is not what it was.
func (h *heartbeat) look(path string) error {
	info, err := os.Lstat(path)
	switch {
	case gone(err):
		*h = heartbeat{}
		return nil
	case err != nil:
		return err
	case h.was != nil && os.SameFile(h.was, info) && h.was.ModTime().Equal(info.ModTime()) && h.was.Size() == info.Size():
		return nil
	}
	text, err := durable.Read(path, mostHeartbeat)
	if errors.Is(err, durable.ErrTooLarge) {
		err = errors.New(path + " is longer than " + schemas.Size(mostHeartbeat))
	}
	*h = heartbeat{was: info}
	if err == nil && toDo(string(text)) {
		h.text = strings.ToValidUTF8(string(text), "\uFFFD")
	}
	return err
}

// toDo tells whether a file has anything but blank lines and headings.
func toDo(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !isHeading(line) {
			return true
		}
	}
	return false
}

// isHeading tells a heading of Markdown, one to six # and a blank, from "#42: see why".
func isHeading(line string) bool {
	rest := strings.TrimLeft(line, "#")
	depth := len(line) - len(rest)
	return depth > 0 && depth <= 6 && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
}

// Beat sends the agent what stands in heartbeat.md as a task, where it has anything to do,
// may claim, has not done so for BeatEvery, and has ended what it was sent last.
func (k *Keeper) Beat(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.heartbeat.look(filepath.Join(k.box.AgentDir(k.agent), heartbeatFile)); err != nil || k.heartbeat.text == "" {
		return err
	}
	if k.box.Options().Now().Before(k.beat.Add(BeatEvery)) || mailbox.MayClaim(k.box, k.agent) != nil {
		return nil
	}
	now := k.box.Options().Now()
	last, err := k.lastBeat(ctx, now)
	if err != nil || now.Before(last.Add(BeatEvery)) {
		return err
	}
	if at, err := k.beating(ctx); err != nil || at {
		return err
	}
	t := &mailbox.Task{Task: mailbox.Request{
		Type: "other", Priority: "normal", Title: "Look after what stands in heartbeat.md",
		Description: "Look after what stands below, which is your heartbeat.md. If nothing needs anybody, answer HEARTBEAT_OK.\n\n" + k.heartbeat.text,
	}}
	t.Source.Agent, t.Assignment.TargetAgent = k.agent, k.agent
	_, _, err = mailbox.Beat(ctx, k.box, t, tickOf(now))
	if err == nil || errors.Is(err, mailbox.ErrCommitted) {
		k.beat = now
	}
	return err
}

// lastBeat is when the agent was last sent its heartbeat, of this tick and the one before,
// by any name that it had.
func (k *Keeper) lastBeat(ctx context.Context, now time.Time) (last time.Time, err error) {
	names, err := namesOf(k.box, k.agent)
	if err != nil {
		return last, err
	}
	for _, at := range []time.Time{now, now.Add(-BeatEvery)} {
		id, err := k.beatAt(names, tickOf(at))
		if err != nil {
			return last, err
		}
		if id == "" {
			continue
		}
		t, _, err := k.box.Task(ctx, id)
		if errors.Is(err, mailbox.ErrNotFound) {
			return at, nil
		}
		if err != nil {
			return last, err
		}
		return t.Created.Time, nil
	}
	return last, nil
}

// beatAt is the task of a tick, under one of these names; "" if there is none.
func (k *Keeper) beatAt(names []string, tick string) (id mailbox.ID, err error) {
	for i := 0; i < len(names) && id == "" && err == nil; i++ {
		id, err = mailbox.BeatAt(k.box, names[i], tick)
	}
	return id, err
}

// beating tells whether a heartbeat of the agent has not ended.
func (k *Keeper) beating(ctx context.Context) (bool, error) {
	for it, err := range k.box.List(ctx, mailbox.Filter{States: []mailbox.State{mailbox.Pending, mailbox.InProgress}, Target: k.agent}) {
		if err != nil {
			return false, err
		}
		if it.Task != nil && it.Task.Mbox.Trigger == task.Heartbeat {
			return true, nil
		}
	}
	return false, nil
}

// tickOf is the half hour of a time.
func tickOf(at time.Time) string { return at.UTC().Truncate(BeatEvery).Format(time.RFC3339) }
