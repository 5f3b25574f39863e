package mailbox

import (
	"context"

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
		note := b.leases.NoteOf(it.Task)
		if !b.leases.Here(note) {
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
