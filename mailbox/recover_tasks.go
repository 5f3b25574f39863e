package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// walk notes where the files of each id lie.
func (r *recovery) walk() error {
	r.files, r.artifacts = map[ID][]string{}, map[ID]bool{}
	dirs, err := home.TaskFolders(r.b.home)
	if err != nil {
		return err
	}
	artifacts, tmp := r.b.path(task.ArtifactsDir), home.Private(r.b.home, "tmp")
	for path, err := range home.Paths(append(dirs, artifacts, tmp)...) {
		if err != nil {
			return err
		}
		name := filepath.Base(path)
		switch filepath.Dir(path) {
		case artifacts:
			if id, _, ok := task.AttemptOf(name); ok {
				r.artifacts[id] = true
			}
		case tmp:
			if id, tx, ok := home.CutLast(name, "~"); ok && len(tx) == 32 {
				r.files[ID(id)] = append(r.files[ID(id)], path)
			}
		default:
			if id := ID(task.TrimJSON(name)); id.File() == name {
				r.files[id] = append(r.files[id], path)
			}
		}
	}
	return nil
}

// spot is where a task's file belongs by its last move, and where its files lie.
type spot struct {
	id ID
	*fate
	place  string   // where it belongs
	staged string   // where it lies until it is brought there
	others []string // where files of the id lie besides
}

// spotOf is where a task belongs by its last move, whatever lies where.
func (b *Box) spotOf(id ID, f *fate) *spot {
	return &spot{id: id, fate: f, place: filepath.Join(home.Folder(b.home, f.m.Enters(), f.at), id.File()), staged: home.StagedPath(b.home, string(id), f.m.TX)}
}

// spot is a task's place as the fold and the walk have it; nil if it has none.
func (r *recovery) spot(id ID) *spot {
	if to := r.last[id].m.Enters(); to == None || to == task.Pruned {
		return nil
	}
	p := r.b.spotOf(id, r.last[id])
	p.others = slices.DeleteFunc(slices.Clone(r.files[id]), func(path string) bool { return path == p.place })
	return p
}

// spotNow is the spot once the task's shard is held: somebody may have been at
// work since the fold and the walk.
func (r *recovery) spotNow(id ID) (*spot, error) {
	if err := r.follow(); err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(r.files[id], func(path string) bool { return task.FolderIndex(home.StateAt(r.b.home, path)) >= 0 })
	for _, s := range task.Folders {
		path := r.b.path("tasks", string(s), id.File())
		if _, err := os.Lstat(path); err == nil {
			files = append(files, path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	r.files[id] = files
	return r.spot(id), nil
}

// tasks brings every id to rest, in the order of the ids.
func (r *recovery) tasks() error {
	ids := slices.Sorted(maps.Keys(r.last))
	r.out.Tasks = len(ids)
	for i, id := range ids {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if i%500 == 0 {
			r.b.o.Progress("recovering", int64(i), int64(len(ids)))
		}
		err := r.task(id)
		if err == nil {
			continue
		}
		if d, set, bad := r.b.intents.Read(home.Shard(string(id))); bad == nil && set && d.TX == r.last[id].m.TX {
			err = r.passBy(err) // shards comes to it, and leaves it to who takes the shard
		}
		if err != nil {
			return err
		}
	}
	r.b.o.Progress("recovering", int64(len(ids)), int64(len(ids)))
	return nil
}

// task brings one id to rest, under its shard unless it is there already.
func (r *recovery) task(id ID) error {
	p := r.spot(id)
	if p == nil {
		return nil
	}
	begun := p.m.Dropped != "" || r.besides(p) || slices.Contains(r.o.Adopt, id)
	there, err := home.Look(p.place)
	switch {
	case err != nil && len(p.others) == 0 && !begun:
		return r.passBy(err) // it lies in its place, and nothing of it anywhere else
	case err != nil:
		return err
	case there.Hash == task.HashOf(p.m.After) && len(p.others) == 0 && !begun:
		return nil
	}
	return r.under(home.Shard(string(id)), func(s *shard) error {
		p, err := r.spotNow(id)
		if p == nil || err != nil {
			return err
		}
		if adopted, err := r.adopted(s, p); adopted || err != nil {
			return err
		}
		return r.bring(s, p)
	})
}

// besides tells whether files that come with a task are not in their place.
func (r *recovery) besides(p *spot) bool {
	return len(p.m.Attachments) > 0 && r.files[ID(task.ArtifactFolder(p.id, 0))] != nil || p.m.Enters() == Archived && r.artifacts[p.id]
}

// dropStays tells whether the drop that a task was made of is not put away yet.
func dropStays(b *books, m *task.Move) (bool, error) {
	if m.Dropped == "" {
		return false, nil
	}
	if m.Kept != nil {
		if _, err := os.Lstat(home.StagedReason(b.home, m.Kept.Entry)); !errors.Is(err, fs.ErrNotExist) {
			return true, err
		}
	}
	return hasHash(b.path("tasks", string(Pending), m.DropName()), m.SourceSHA256)
}

// under calls do with a shard that is not settled: recovery is the settling, and
// what a dead holder's record tells is left for it.
func (r *recovery) under(number int, do func(*shard) error) error {
	s, err := r.b.holdShard(r.ctx, number)
	if err != nil {
		return err
	}
	defer s.unlock()
	s.marked, s.locks = true, append(s.locks, r.b.recoveries)
	return do(s)
}

// bring puts the right bytes into the right folder, wherever they lie, by the
// function of the normal path.
func (r *recovery) bring(s *shard, p *spot) error {
	from, err := p.right()
	if err != nil {
		return err
	}
	switch state := home.StateAt(r.b.home, from); {
	case from == "":
		return r.lost(s, p)
	case from == p.place, from == p.staged:
	case state != None && state != Archived && state != p.m.Leaves():
		return nil // moved there by hand: that is reconciled, not undone
	default:
		if err := durable.Move(from, p.staged); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	mends, err := dropStays(r.b.books, p.m)
	if err != nil {
		return err
	}
	if _, err := r.b.finish(r.ctx, s, p.id, p.m, p.at, false); err != nil {
		return err
	}
	if err := r.b.leases.DropOthers(p.id); err != nil {
		return err
	}
	if mends || from != p.place || len(p.others) > 0 || r.besides(p) {
		r.out.mended(p.id)
	}
	return r.clear(s, p)
}

// right is where the content lies that the last move names: in its place, else
// elsewhere, else staged; "" for nowhere.
func (p *spot) right() (string, error) {
	others := slices.DeleteFunc(slices.Clone(p.others), func(path string) bool { return path == p.staged })
	for _, path := range slices.Concat([]string{p.place}, others, []string{p.staged}) {
		if seen, err := home.Look(path); err != nil || seen.There && seen.Hash == task.HashOf(p.m.After) {
			return path, err
		}
	}
	return "", nil
}

// clear removes what is left of older versions once the right one is in place,
// and keeps what is no version of ours.
func (r *recovery) clear(s *shard, p *spot) error {
	for _, path := range p.others {
		seen, err := home.Look(path)
		if err != nil {
			return err
		}
		switch state := home.StateAt(r.b.home, path); {
		case !seen.There:
		case seen.Hash != "" && slices.Contains([]string{task.HashOf(p.m.After), task.HashOf(p.m.Before), p.m.Found}, seen.Hash):
			err = durable.RemoveIfThere(path)
		case state == Pending: // a drop with a used id, which the next scan admits or refuses
		case state == None: // staged for a move that was not made, and swept with that
		default:
			err = r.quarantine(s, path, p.id.File(), home.Reason{Reason: "a file of a task that lies elsewhere", Task: p.id})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lost deals with content that the ledger names and that is nowhere. A claim
// that a power cut overtook is voided. What was edited by hand stays where it is
// for verify to name and an operator to adopt. What is no task any more goes to
// quarantine, and a line says that the content is lost; verify goes on naming
// the task until an operator gives it up.
func (r *recovery) lost(s *shard, p *spot) error {
	var left []*home.File
	for _, path := range append([]string{p.place}, p.others...) {
		f, err := home.Read(r.b.home, None, path)
		if f != nil {
			left = append(left, f)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	before := task.HashOf(p.m.Before)
	for _, f := range left {
		if f.Task != nil && f.Hash == before && p.m.Leaves() == Pending && p.m.Enters() == InProgress {
			return r.void(s, p, f)
		}
	}
	for _, f := range left {
		if f.Task != nil && f.Task.ID == p.id && f.Hash != before {
			return nil
		}
	}
	r.out.lost(p.id)
	for _, f := range left {
		why := home.Reason{Reason: "lost: the content that the ledger names is nowhere, this was left", Code: home.Lost, Task: p.id}
		if err := r.quarantine(s, f.Path, p.id.File(), why); err != nil {
			return err
		}
	}
	if p.gone {
		return nil
	}
	why := fmt.Sprintf("its content is lost; mbox recover --adopt %s gives it up", p.id)
	return r.b.note(r.ctx, s, alarmOf(p.id, "lost", why, why))
}

// void undoes a claim whose staged file a power cut took: the task goes back to
// pending with its old content, and its epoch stays used.
func (r *recovery) void(s *shard, p *spot, old *home.File) error {
	t := old.Task
	t.Mbox.Epoch = p.m.Epoch
	t.Audit.StateChanges = append(t.Audit.StateChanges, StateChange{From: Pending, To: InProgress, By: p.agent, At: task.At(p.at), Reason: task.StateReason(p.m.Reason)})
	r.out.mended(p.id)
	return r.b.commit(r.ctx, s, &change{
		id: p.id, by: audit.MboxAgent, event: audit.Reconcile, from: InProgress, to: Pending, task: t, before: task.HashOf(p.m.After),
		reason: "the claim was voided: a power cut took its content",
		action: fmt.Sprintf("mbox voided the claim on %s", p.id),
		extra:  func(m *task.Move) { m.Found = old.Hash },
	})
}

// quarantine puts a file away that is in the way, or no version of ours.
func (r *recovery) quarantine(s *shard, path, name string, why home.Reason) error {
	r.out.Quarantine++
	return r.b.setAside(r.ctx, s, path, name, audit.Reconcile, why)
}
