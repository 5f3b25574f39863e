package agents

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"mbox/mailbox"
)

// taskFile is the name of the copy of a task that an attempt's command gets.
func taskFile(t *mailbox.Task) string {
	return taskPrefix + string(t.ID) + "." + strconv.FormatInt(t.Mbox.Epoch, 10) + taskSuffix
}

const (
	taskPrefix = ".task-"
	taskSuffix = ".json"
)

// taskOf is the id in the name of a copy.
func taskOf(name string) (mailbox.ID, bool) {
	inner, prefixed := strings.CutPrefix(name, taskPrefix)
	inner, suffixed := strings.CutSuffix(inner, taskSuffix)
	id := strings.TrimRight(inner, "0123456789")
	return mailbox.ID(strings.TrimSuffix(id, ".")), prefixed && suffixed && strings.HasSuffix(id, ".")
}

// sweep removes the copies that killed workers left: those of attempts that are
// over. What cannot be looked at stays for the next time.
func (s *shift) sweep(ctx context.Context) {
	entries, err := os.ReadDir(s.workspace)
	if err != nil {
		return
	}
	for _, e := range entries {
		id, ok := taskOf(e.Name())
		if !ok {
			continue
		}
		t, state, err := s.Box.Task(ctx, id)
		if errors.Is(err, mailbox.ErrNotFound) || err == nil && (state != mailbox.InProgress || taskFile(t) != e.Name()) {
			_ = os.Remove(filepath.Join(s.workspace, e.Name()))
		}
	}
}
