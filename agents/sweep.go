package agents

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
)

// taskFile is the name of the copy of a task that an attempt's command gets.
func taskFile(t *mailbox.Task) string { return taskPrefix + attemptName(t) + taskSuffix }

// attemptName is what the folders of an attempt are called.
func attemptName(t *mailbox.Task) string {
	return string(t.ID) + "." + strconv.FormatInt(t.Mbox.Epoch, 10)
}

// folder is the attempt's own below one of the workspace.
func (a *attempt) folder(in string) string {
	return filepath.Join(in, attemptName(a.claim.Task))
}

// layInputs copies what the task may read into the workspace, and into nothing
// else, whatever symlinks the agent has put there.
func (a *attempt) layInputs() ([]mailbox.Artifact, error) {
	root, err := os.OpenRoot(a.workspace)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := a.makeWay(root, inputsFolder); err != nil {
		return nil, err
	}
	return a.claim.Inputs(a.live, root, a.folder(inputsFolder))
}

// layArtifacts makes the folder for what the attempt leaves, in the workspace and
// nowhere else.
func (a *attempt) layArtifacts() (string, error) {
	root, err := os.OpenRoot(a.workspace)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := a.makeWay(root, "artifacts"); err != nil {
		return "", err
	}
	folder := a.folder("artifacts")
	for _, dir := range []string{"artifacts", folder} {
		if err := durable.MkdirIn(root, dir, durable.None); err != nil {
			return "", err
		}
	}
	return filepath.Join(a.workspace, folder), nil
}

// reopen opens the folders that a command may have closed to its own user.
func (a *attempt) reopen() {
	if info, err := os.Lstat(a.workspace); err == nil && info.IsDir() && info.Mode()&0o700 != 0o700 {
		_ = os.Chmod(a.workspace, info.Mode()|0o700)
	}
	root, err := os.OpenRoot(a.workspace)
	if err != nil {
		return
	}
	defer root.Close()
	for _, in := range []string{"artifacts", inputsFolder} {
		if info, err := root.Lstat(in); err == nil && info.IsDir() {
			_ = root.Chmod(in, durable.DirMode)
		}
	}
}

// makeWay removes what an earlier attempt may have put in the place of this one's
// folder, or of the one around it, so that it harms no other task of its agent.
func (a *attempt) makeWay(root *os.Root, in string) error {
	if info, err := root.Lstat(in); err == nil && !info.IsDir() {
		if err := root.Remove(in); err != nil {
			return err
		}
	}
	return durable.RemoveIn(root, a.folder(in))
}

// clear removes the attempt's folder in one of the workspace.
func (a *attempt) clear(in string) { clearIn(a.workspace, a.folder(in)) }

func clearIn(workspace, name string) {
	if root, err := os.OpenRoot(workspace); err == nil {
		_ = durable.RemoveIn(root, name)
		root.Close()
	}
}

const (
	taskPrefix = ".task-"
	taskSuffix = ".json"
)

// copyOf is the id in the name of a copy, and that of the attempt, which stands
// between prefix and suffix.
func copyOf(name, prefix, suffix string) (id mailbox.ID, attempt string, ok bool) {
	attempt, prefixed := strings.CutPrefix(name, prefix)
	attempt, suffixed := strings.CutSuffix(attempt, suffix)
	text := strings.TrimRight(attempt, "0123456789")
	id = mailbox.ID(strings.TrimSuffix(text, "."))
	return id, attempt, prefixed && suffixed && strings.HasSuffix(text, ".") && task.CheckID(id) == nil
}

// A command may leave any number of files under such names. So a sweep reads a
// folder batch by batch, and of one folder no more than sweptAtMost attempts; the
// next worker goes on with what is left.
const (
	sweptBatch  = 1000
	sweptAtMost = 1000
)

// sweep removes the copies that killed workers left: those of attempts that are
// over. What cannot be looked at stays for the next time.
func (s *shift) sweep(ctx context.Context) {
	if s.Home != nil {
		leave, err := s.Home.Enter(ctx, 0)
		if err != nil {
			return // what works there, or puts the home away, leaves it as it is
		}
		defer s.leaving(leave)()
	}
	s.sweepIn(ctx, "", taskPrefix, taskSuffix)
	s.sweepIn(ctx, inputsFolder, "", "")
}

// sweepIn does so in one folder of the workspace.
func (s *shift) sweepIn(ctx context.Context, folder, prefix, suffix string) {
	d, err := durable.OpenDir(filepath.Join(s.workspace, folder))
	if err != nil {
		return
	}
	defer d.Close()
	looked := 0
	for err == nil && ctx.Err() == nil {
		var names []string
		names, err = d.Readdirnames(sweptBatch)
		for _, name := range names {
			id, attempt, ok := copyOf(name, prefix, suffix)
			if !ok {
				continue
			}
			if looked++; looked > sweptAtMost {
				return
			}
			if s.isOver(ctx, id, attempt) {
				clearIn(s.workspace, filepath.Join(folder, name))
			}
		}
	}
}

// isOver tells whether nobody works at the attempt any more.
func (s *shift) isOver(ctx context.Context, id mailbox.ID, attempt string) bool {
	t, state, err := s.Box.Task(ctx, id)
	if err != nil {
		return errors.Is(err, mailbox.ErrNotFound)
	}
	return state != mailbox.InProgress || attemptName(t) != attempt
}
