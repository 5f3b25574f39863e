package mailbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// errNowhere says that the file of a live task is in no folder.
var errNowhere = fmt.Errorf("%w: its file is in no folder", ErrByHand)

// byHandAtMost is how many tasks may be gone at once from a folder that is the
// same as before. It is what a person deletes by hand.
const byHandAtMost = 16

// InPlace returns ErrGone where a folder of tasks is not the one that it was at
// the last recovery, or one has found that tasks are gone, and a [home.ReplacedError]
// where another home lies in the place of this one.
func (b *Box) InPlace() error { return b.places.Check() }

// judgeGone ends a stop when the tasks are back. While they are not, it uses at
// most a tenth of the time.
func (b *Box) judgeGone(ctx context.Context) error {
	err := b.InPlace()
	if !errors.Is(err, ErrGone) {
		return err
	}
	b.mu.Lock()
	rest := 10*b.judging - time.Since(b.judgedAt)
	b.mu.Unlock()
	if rest > 0 {
		return err
	}
	return b.recoverAll(ctx, false)
}

// judgeMissing deals with live tasks whose files are in no folder. A few in pending
// were deleted by hand. For more at once it calls a recovery, which stops the
// mailbox if they are gone.
func (b *Box) judgeMissing(ctx context.Context, ids []ID) error {
	if len(ids) > byHandAtMost {
		return b.recoverAll(ctx, true)
	}
	for _, id := range ids {
		if _, err := b.ifFree(ctx, id, func(s *shard) error { return b.reconciler.adoptMissing(ctx, s, id) }); err != nil {
			return err
		}
	}
	return nil
}

// adoptMissing takes it over that somebody deleted a pending task. What a recovery
// put away was not deleted by anybody.
func (b *reconciler) adoptMissing(ctx context.Context, s *shard, id ID) error {
	if err := b.reconcile(ctx, s, id); !errors.Is(err, errNowhere) {
		return err
	}
	r, err := b.lookup(id)
	if err != nil || r == nil {
		return err
	}
	if r.State != Pending {
		return b.alarm(ctx, s, id, "missing", fmt.Sprintf("its file is gone from %s; mbox recover --adopt %s gives it up", r.State, id))
	}
	if known, err := b.ledger.KnownGone(id); err != nil || known {
		return err
	}
	return b.commit(ctx, s, &change{
		id: id, by: audit.MboxAgent, event: audit.Reconcile, from: Pending, to: None, before: r.After.String(),
		reason: "deleted by hand", action: fmt.Sprintf("mbox saw that %s was deleted by hand", id),
		extra: func(m *task.Move) { m.Revision, m.Epoch, m.Attempt = r.Revision, r.Epoch, r.Attempt },
	})
}

// gone ends the recovery with nothing changed where tasks are gone: any from a
// folder that is missing, that is another than before, or whose tasks were found
// gone before; more than a person deletes from the same folder, or from one of
// which nothing is known because the home was moved. What an alarm has named is
// not counted again. Else the folders count as they are from now on.
func (r *recovery) gone() error {
	if r.judged {
		return nil
	}
	found := map[State][]ID{}
	for id, f := range r.last {
		if r.spot(id) != nil && len(r.files[id]) == 0 {
			found[f.m.Enters()] = append(found[f.m.Enters()], id)
		}
	}
	if r.o.AdoptDeleted {
		for _, ids := range found {
			r.deleted = append(r.deleted, ids...)
		}
		r.o.Adopt = append(r.o.Adopt, r.deleted...)
		return r.settleFolders()
	}
	for i, s := range home.TaskPlaces {
		most, why := byHandAtMost, ""
		switch {
		case r.now.Folders[i] == 0 || !r.out.Moved && r.was.Folders[i] != 0 && r.was.Folders[i] != r.now.Folders[i]:
			most, why = 0, "; "+home.NotTheSame(s, r.now.Folders[i])
		case r.was.Stopped != "":
			most = 0
		}
		n, err := r.confirmed(found[s], most)
		if err != nil {
			return err
		}
		if n > most {
			return r.stop(fmt.Sprintf("%d files of tasks/%s are nowhere%s", n, s, why))
		}
	}
	return r.settleFolders()
}

// goneFirst judges what is gone before the journal brings contents back. Within
// one boot no power cut took them. Only a ledger that cannot be read has to be
// mended before.
func (r *recovery) goneFirst() error {
	if r.restarted || r.o.AfterIOError || r.moves() != nil {
		return nil
	}
	if err := r.walk(); err != nil {
		return err
	}
	err := r.gone()
	r.judged = true
	return err
}

// confirmed is how many of the tasks are gone. It opens their names once more, one
// by one under their shards, because somebody may be at work; once more than most
// are gone it counts the rest without that.
func (r *recovery) confirmed(ids []ID, most int) (int, error) {
	if len(ids) <= most {
		return 0, nil
	}
	ids = slices.DeleteFunc(ids, func(id ID) bool { return r.last[id].gone })
	slices.Sort(ids)
	n := 0
	for i, id := range ids {
		if n > most {
			return n + len(ids) - i, nil
		}
		err := r.under(home.Shard(string(id)), func(*shard) error {
			p, err := r.spotNow(id)
			if p == nil || err != nil || len(r.files[id]) > 0 {
				return err
			}
			place, err := home.Look(p.place)
			if err != nil || place.There {
				return err
			}
			if staged, err := home.Look(p.staged); err != nil || staged.There {
				return err
			}
			n++
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// stop makes every process see that tasks are gone, and says so once.
func (r *recovery) stop(why string) error {
	gone := fmt.Errorf("%w: %s", ErrGone, why)
	before := r.was.Stopped
	if before != why {
		r.was.Stopped = why
		if err := home.WriteBoot(r.b.home, r.was, r.b.o.Sync); err != nil {
			return errors.Join(gone, err)
		}
	}
	if before != "" {
		return gone
	}
	e := alarmOf("", "gone", why, "")
	e.TaskID, e.Action = nil, "mbox: "+why+"; nothing is written until they are back"
	return errors.Join(gone, r.b.sayAlone(r.ctx, []durable.Held{r.b.recoveries}, e))
}

// makePrivate makes mbox's own folders that are missing: a clone by git has no
// empty ones. The ledger's is never empty.
func (r *recovery) makePrivate() error { return home.MakeFolders(r.b.home, ".mbox/", r.b.o.Sync) }

// settleFolders makes the missing folders and ends a stop. The rest of the boot
// record stays: it says until the end what has to be recovered.
func (r *recovery) settleFolders() (err error) {
	for _, f := range home.Folders {
		if _, err := os.Stat(r.b.path(f)); err == nil || f == "audit/shared" {
			continue
		}
		if err := home.MakeFolders(r.b.home, f, r.b.o.Sync); err != nil {
			return err
		}
	}
	if r.now.Folders, err = home.TaskInodes(r.b.home); err != nil {
		return err
	}
	if r.was.Stopped == "" && r.was.Folders == r.now.Folders {
		return nil
	}
	r.was.Stopped, r.was.Folders, r.was.Recovering = "", r.now.Folders, true
	return home.WriteBoot(r.b.home, r.was, r.b.o.Sync)
}
