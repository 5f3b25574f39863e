package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// walk notes where the files of each id lie.
func (r *recovery) walk() error {
	r.files, r.artifacts = map[ID][]string{}, map[ID]bool{}
	dirs := []string{}
	for _, s := range task.Folders {
		dirs = append(dirs, filepath.Join("tasks", string(s)))
	}
	months, err := home.Months(r.b.home)
	if err != nil {
		return err
	}
	for _, m := range months {
		dirs = append(dirs, filepath.Join("tasks", "archive", m))
	}
	for _, dir := range dirs {
		names, err := durable.Names(r.b.path(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a missing folder is judged by gone
			return err
		}
		for _, name := range names {
			if id := ID(task.TrimJSON(name)); id.File() == name {
				r.files[id] = append(r.files[id], filepath.Join(dir, name))
			}
		}
	}
	names, err := durable.Names(r.b.path(task.ArtifactsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		if id, _, ok := task.AttemptOf(name); ok {
			r.artifacts[id] = true
		}
	}
	if names, err = home.StagedNames(r.b.home); err != nil {
		return err
	}
	for _, name := range names {
		if id, tx, ok := home.CutLast(name, "~"); ok && len(tx) == 32 {
			r.files[ID(id)] = append(r.files[ID(id)], filepath.Join(".mbox", "tmp", name))
		}
	}
	return nil
}

// tasks brings every id to rest, in the order of the ids.
func (r *recovery) tasks() error {
	ids := make([]ID, 0, len(r.last))
	for id := range r.last {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for i, id := range ids {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if i%500 == 0 {
			r.b.o.Progress("recovering", int64(i), int64(len(ids)))
		}
		if err := r.task(id, r.last[id]); err != nil {
			return err
		}
	}
	r.b.o.Progress("recovering", int64(len(ids)), int64(len(ids)))
	r.out.Tasks = len(ids)
	return nil
}

// task brings one id to rest under its shard: by the function of the normal
// path where the content is at hand, else by looking for it everywhere.
func (r *recovery) task(id ID, f *fate) error {
	to := f.m.Enters()
	if to == None || to == "pruned" {
		return nil
	}
	place := filepath.Join(home.Folder(r.b.home, to, f.at), id.File())
	there, err := home.Look(place)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(r.files[id]), func(p string) bool { return r.b.path(p) == place })
	if there.Hash == task.HashOf(f.m.After) && len(rest) == 0 && f.m.Dropped == "" {
		if (to != Archived || !r.artifacts[id]) && !slices.Contains(r.adopt, id) {
			return nil
		}
	}
	s, err := r.shard(id)
	if err != nil {
		return err
	}
	defer s.unlock()
	if f, err = r.again(id, f); err != nil {
		return err
	}
	if to = f.m.Enters(); to == None || to == "pruned" {
		return nil
	}
	place = filepath.Join(home.Folder(r.b.home, to, f.at), id.File())
	rest = slices.DeleteFunc(slices.Clone(r.files[id]), func(p string) bool { return r.b.path(p) == place })
	if adopted, err := r.adopted(s, id, f, place); adopted || err != nil {
		return err
	}
	return r.bring(s, id, f, place, rest)
}

// again reads the id's last move and where its files lie once more, now that
// its shard is held: somebody may have been at work since the fold.
func (r *recovery) again(id ID, f *fate) (*fate, error) {
	if err := r.follow(); err != nil {
		return nil, err
	}
	if now := r.last[id]; now != nil {
		f = now
	}
	var files []string
	for _, p := range r.files[id] {
		if strings.HasPrefix(p, ".mbox/") || strings.HasPrefix(p, "tasks/archive/") {
			files = append(files, p)
		}
	}
	for _, s := range task.Folders {
		p := filepath.Join("tasks", string(s), id.File())
		if _, err := os.Lstat(r.b.path(p)); err == nil {
			files = append(files, p)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	r.files[id] = files
	return f, nil
}

// shard takes a task's lock without settling: recovery is the settling, and what
// a dead holder's record tells is left for it.
func (r *recovery) shard(id ID) (*shard, error) { return r.shardNumber(home.Shard(string(id))) }

func (r *recovery) shardNumber(number int) (*shard, error) {
	s, err := r.b.holdShard(r.ctx, number)
	if err == nil {
		s.marked, s.locks = true, append(s.locks, r.b.recoveries)
	}
	return s, err
}

// bring puts the right bytes into the right folder, wherever they lie.
func (r *recovery) bring(s *shard, id ID, f *fate, place string, rest []string) error {
	b, after := r.b, task.HashOf(f.m.After)
	staged := home.StagedPath(b.home, string(id), f.m.TX)
	there, err := home.Look(place)
	if err != nil {
		return err
	}
	found := there.Hash == after
	for _, p := range append(rest[:len(rest):len(rest)], strings.TrimPrefix(staged, b.home+"/")) {
		seen, err := home.Look(b.path(p))
		if err != nil {
			return err
		}
		if there.Hash == after || seen.Hash != after {
			continue // a second copy of the right bytes is removed below
		}
		if found = true; b.path(p) == staged {
			continue
		}
		if r.outOfReach(f, p) {
			return nil // a stranger moved the right bytes on: that is reconciled, not undone
		}
		if err := durable.Move(b.path(p), staged); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		break
	}
	if !found {
		return r.lost(s, id, f, place, rest)
	}
	if _, err := b.finish(r.ctx, s, id, f.m, f.at, false); err != nil {
		return err
	}
	if err := b.dropOtherLeases(id); err != nil {
		return err
	}
	r.out.Mended++
	return r.clear(s, id, f, place, rest)
}

// outOfReach tells whether the right bytes lie in another live folder, where
// only a stranger's mv puts them.
func (r *recovery) outOfReach(f *fate, p string) bool {
	dir := filepath.ToSlash(filepath.Dir(p))
	if dir == "tasks/"+string(f.m.Leaves()) {
		return false // our own move, not yet made
	}
	return strings.HasPrefix(dir, "tasks/") && !strings.HasPrefix(dir, "tasks/archive")
}

// clear removes what is left of older versions once the right one is in place,
// and keeps what is no version of ours.
func (r *recovery) clear(s *shard, id ID, f *fate, place string, rest []string) error {
	b := r.b
	for _, p := range rest {
		path := b.path(p)
		seen, err := home.Look(path)
		if err != nil || !seen.There || path == place {
			if err != nil {
				return err
			}
			continue
		}
		if seen.Hash != "" && (seen.Hash == task.HashOf(f.m.After) || seen.Hash == task.HashOf(f.m.Before) || seen.Hash == f.m.Found) {
			if err := durable.RemoveIfThere(path); err != nil {
				return err
			}
			continue
		}
		if strings.HasPrefix(p, "tasks/pending/") {
			continue // a drop with a used id: the scan after this sees to it
		}
		if strings.HasPrefix(p, ".mbox/tmp/") {
			continue // staged for a move that was not made: swept with its intent record
		}
		if err := b.setAside(r.ctx, s, path, id.File(), audit.Reconcile, home.Reason{Reason: "a file of a task that lies elsewhere", Task: id}); err != nil {
			return err
		}
		r.out.Quarantine++
	}
	return nil
}

// lost deals with content that the ledger names and that is nowhere. A claim
// that a power cut overtook is voided. What a stranger edited stays where it is
// for verify to name and an operator to adopt. What is no task any more goes to
// quarantine, and a line says that the content is lost; verify goes on naming
// the task until an operator gives it up.
func (r *recovery) lost(s *shard, id ID, f *fate, place string, rest []string) error {
	b := r.b
	best := append([]string{strings.TrimPrefix(place, b.home+"/")}, rest...)
	for _, p := range best {
		seen, err := home.Look(b.path(p))
		if err != nil {
			return err
		}
		if seen.There && seen.Hash == task.HashOf(f.m.Before) && f.m.Enters() == InProgress && f.m.Leaves() == Pending {
			return r.void(s, id, f, p)
		}
	}
	for _, p := range best {
		if found, err := home.Read(b.home, None, b.path(p)); err == nil && found.Task.ID == id && found.Hash != task.HashOf(f.m.Before) {
			return nil
		}
	}
	r.out.Lost++
	for _, p := range best {
		if seen, err := home.Look(b.path(p)); err != nil || !seen.There {
			continue
		}
		if err := b.setAside(r.ctx, s, b.path(p), id.File(), audit.Reconcile, home.Reason{Reason: "lost: the content that the ledger names is nowhere, this was left", Code: "lost", Task: id}); err != nil {
			return err
		}
		r.out.Quarantine++
	}
	if f.gone {
		return nil
	}
	return b.sayAlarm(r.ctx, s, id, "lost", fmt.Sprintf("its content is lost; mbox recover --adopt %s gives it up", id))
}

// void undoes a claim whose staged file a power cut took: the task goes back to
// pending with its old content, and its epoch stays used.
func (r *recovery) void(s *shard, id ID, f *fate, p string) error {
	b := r.b
	found, err := home.Read(b.home, Pending, b.path(p))
	if err != nil {
		return err
	}
	t := found.Task
	t.Mbox.Epoch = f.m.Epoch
	t.Audit.StateChanges = append(t.Audit.StateChanges, StateChange{From: Pending, To: InProgress, By: f.agent, At: task.At(f.at), Reason: task.StateReason(f.m.Reason)})
	err = b.commit(r.ctx, s, &change{
		id: id, by: audit.MboxAgent, event: audit.Reconcile, from: InProgress, to: Pending, task: t, before: task.HashOf(f.m.After),
		reason: "the claim was voided: a power cut took its content",
		said:   fmt.Sprintf("mbox voided the claim on %s", id),
		extra:  func(m *task.Move) { m.Found = found.Hash },
	})
	r.out.Mended++
	return err
}
