package life

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// memoryFile is what an agent has done and learned, in its home.
const memoryFile = "memory/memory.md"

// Bounds of what is remembered of a task, in runes, and of all, in bytes: a dream makes it
// shorter long before.
const (
	mostTitle  = 120
	mostAnswer = 200
	mostLines  = 4 << 20
)

// remember writes a line of what the agent has done behind the others; none of a heartbeat
// in which there was nothing to do. An agent that has removed its memory has none.
func (k *Keeper) remember(t *mailbox.Task, failed bool) error {
	if t.Quiet() {
		return nil
	}
	root, err := os.OpenRoot(k.box.AgentDir(k.agent))
	if err != nil {
		return err
	}
	defer root.Close()
	f, info, err := durable.OpenIn(root, memoryFile, os.O_RDWR|os.O_APPEND)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, durable.ErrNotRegular):
		return fmt.Errorf("%w: %w", err, mailbox.ErrConflict)
	case err != nil:
		return err
	}
	defer f.Close()
	if info.Size() > mostLines {
		return fmt.Errorf("%s: %w: mbox dream %s makes it shorter", f.Name(), durable.ErrTooLarge, k.agent)
	}
	line := "- " + now(k.box).Format("2006-01-02 15:04 ") + string(t.ID) + done(t, failed) + "\n"
	last := make([]byte, 1)
	if n, err := f.ReadAt(last, info.Size()-1); err == nil && n == 1 && last[0] != '\n' {
		line = "\n" + line
	}
	return durable.Append(f, []byte(line))
}

// done is what became of a task.
func done(t *mailbox.Task, failed bool) string {
	what := ", " + schemas.Sentence(t.Task.Title, mostTitle)
	if failed {
		return what + ": failed"
	}
	if said := t.Result.Said(); said != "" {
		return what + ": " + schemas.Sentence(said, mostAnswer)
	}
	return what + ": done"
}
