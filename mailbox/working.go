package mailbox

import (
	"context"
	"os"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// Working are the processes that do tasks now: the workers that hold claims, and
// the keepers of their commands, each with the agent that it works for. What is below one of them is an agent's.
func (b *Box) Working(ctx context.Context) (map[int]string, error) {
	working := map[int]string{}
	for it, err := range b.List(ctx, Filter{States: []State{InProgress}}) {
		if err != nil {
			return nil, err
		}
		if it.Task == nil || it.Task.Mbox.Lease == nil {
			continue
		}
		note := b.noteOf(it.Task)
		if !b.here(note) {
			continue
		}
		for pid, start := range map[int]string{note.PID: note.Start, note.Child: note.ChildStart} {
			if start != "" && home.StartTime(pid) == start {
				working[pid] = pickedBy(it.Task)
			}
		}
	}
	return working, nil
}

// noteOf reads the note of a claim's lease, without touching its lock; nil if there
// is none.
func (b *Box) noteOf(t *Task) *home.Note {
	f, err := durable.OpenFile(home.LeasePath(b.home, home.LeaseName(t.ID, t.Mbox.Lease.Token)), os.O_RDONLY)
	if err != nil {
		return nil // the claim has ended, or has no process
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	return home.ReadNote(f, info.Size())
}
