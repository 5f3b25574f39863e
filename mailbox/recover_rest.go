package mailbox

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/lease"
	"mbox/mailbox/queue"
	"mbox/mailbox/task"
)

// records brings the files of decisions, changes and messages to what their last lines
// name.
func (r *recovery) records() error {
	last := map[string]*audit.Entry{}
	for line, err := range r.b.ledger.Read(audit.Position{}).Lines() {
		if err != nil {
			return err
		}
		if !slices.Contains([]audit.Event{audit.DecisionEvent, audit.ChangeEvent, audit.MessageEvent}, line.Event()) {
			continue
		}
		e, err := line.Decode()
		if err != nil {
			return err
		}
		var d recordDetails
		if e.Detail(&d) == nil && d.File != "" {
			last[d.File] = &e
		}
	}
	for _, file := range slices.Sorted(maps.Keys(last)) { // always the same calls in the same order
		err := r.b.placeRecord(last[file])
		if err != nil && !r.stagesRecord(file) {
			err = r.passBy(err) // it lies in its place, and nothing of it anywhere else
		}
		if err != nil && !errors.Is(err, ErrIntegrity) {
			return err
		}
	}
	return nil
}

// stagesRecord tells whether content of the record's file may be staged.
func (r *recovery) stagesRecord(file string) bool {
	names, err := home.StagedNames(r.b.home)
	return err != nil || slices.ContainsFunc(names, func(name string) bool {
		owner, _, _ := home.CutLast(name, "~")
		return owner == filepath.Base(file)
	})
}

// asides finishes putting away what a line names as put away, before anything
// else looks at the bytes: it would put them away once more. Where an intent
// record stands, shards does that, for the record knows the file's true name.
func (r *recovery) asides() error {
	return r.eachStaged(func(s *shard, name string) error {
		tx := reasonTX(name)
		if d, _, err := r.b.intents.Read(s.number); tx == "" || err == nil && d.TX == tx {
			return nil
		}
		return r.b.finishAside(r.ctx, s, tx, home.Intent{})
	})
}

// staged deals with what is left in tmp: it has no line, so it was never
// acknowledged. A reason whose entry lies in quarantine joins it; content whose
// line a power cut took is kept; the rest was not committed and goes.
func (r *recovery) staged() error {
	return r.eachStaged(func(s *shard, name string) error {
		if _, set, err := r.b.intents.Read(s.number); set || err != nil {
			return err // its holder has died just now: the next one settles it
		}
		if kept, err := r.keepCut(s, name); kept || err != nil {
			return err
		}
		return r.b.sweep(name)
	})
}

// eachStaged calls do for each staged file, under the shard of its owner.
func (r *recovery) eachStaged(do func(s *shard, name string) error) error {
	names, err := home.StagedNames(r.b.home)
	if err != nil {
		return err
	}
	all, err := r.b.intents.Filled()
	if err != nil {
		return err
	}
	for _, name := range names {
		owner, tx, _ := home.CutLast(strings.TrimSuffix(name, home.ReasonSuffix), "~")
		number := home.Shard(task.TrimJSON(owner))
		if id, _, _ := task.AttemptOf(owner); home.StagesArtifacts(r.b.home, name) {
			number = home.Shard(string(id))
		}
		for _, d := range all {
			if d.TX == tx {
				number = d.Number // its owner said so
			}
		}
		if err := r.under(number, func(s *shard) error { return do(s, name) }); err != nil {
			return err
		}
	}
	return nil
}

// keepCut puts a staged file away whose line a power cut took. What has a line
// that counts was brought to its place before.
func (r *recovery) keepCut(s *shard, name string) (bool, error) {
	path := home.Private(r.b.home, "tmp", name)
	_, tx, ok := home.CutLast(name, "~")
	if there, err := home.Look(path); err != nil || !there.There || !ok || strings.HasSuffix(name, home.ReasonSuffix) {
		return false, err
	}
	why := "staged when the ledger was forgotten"
	if !r.forgot {
		if cut, err := r.b.ledger.Cut(tx); !cut || err != nil {
			return false, err
		}
		why = "staged for a ledger line that a power cut took"
	}
	return true, r.quarantine(s, path, name, home.Reason{Reason: why})
}

// shards settles what intent records are left and blanks their slots. A damaged one
// cannot be settled; the recovery until here has done it.
func (r *recovery) shards() error {
	all, err := r.b.intents.Filled()
	if err != nil {
		return err
	}
	for _, slot := range all {
		err := r.under(slot.Number, func(s *shard) error {
			if d, set, bad := home.ReadIntent(s.slots, s.number); set && bad == nil {
				if err := r.settle(s, d); err != nil && r.stands(d) {
					return r.passBy(err) // the record stays, and who takes the shard settles it
				} else if err != nil {
					return err
				}
			}
			return home.WriteSlot(s.slots, s.number, home.BlankSlot)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// stands tells whether the line of an intent record counts: settling it again finishes
// what it tells, and undoes nothing.
func (r *recovery) stands(d home.Intent) bool {
	lines, err := d.Lines(r.b.ledger.Ledger, d.TX)
	return err == nil && len(lines) > 0
}

// settle settles an intent record. What a power cut took the line of is kept
// before that, because settle takes it for what was never written.
func (r *recovery) settle(s *shard, d home.Intent) error {
	lines, err := d.Lines(r.b.ledger.Ledger, d.TX)
	if err == nil && len(lines) == 0 {
		_, err = r.keepCut(s, d.Name+"~"+d.TX)
	}
	if err != nil {
		return err
	}
	return r.b.settle(r.ctx, s, d)
}

// strays puts away what lies among leases and staged files and is neither.
func (r *recovery) strays() error {
	leases, tmp := home.Private(r.b.home, "leases"), home.Private(r.b.home, "tmp")
	for path, err := range home.Paths(leases, tmp) {
		name, why := filepath.Base(path), ""
		switch {
		case err != nil:
			return err
		case filepath.Dir(path) == leases && !home.IsLease(r.b.home, name):
			why = "it lay among the leases and is none"
		case filepath.Dir(path) == tmp && !home.StagesArtifacts(r.b.home, name):
			if info, err := os.Lstat(path); err == nil && info.IsDir() {
				why = "a folder among the staged files"
			}
		}
		if why == "" {
			continue
		}
		if err := r.putAway(path, why); err != nil {
			return err
		}
	}
	return nil
}

// giveUpEntries takes back what lines say of quarantine entries that somebody has removed,
// where an operator says that what is deleted is so.
func giveUpEntries(r *recovery) error {
	if !r.o.AdoptDeleted {
		return nil
	}
	known := map[string]bool{} // of which a later line has told
	var removed []task.Kept
	for line, err := range r.b.ledger.Naming("entry") {
		if err = cmp.Or(err, r.ctx.Err()); err != nil {
			return err
		}
		k := task.Kept{Entry: line.Text("entry"), SHA256: line.Text("sha256")}
		if kept := line.Detail("kept"); kept != nil && json.Unmarshal(kept, &k) != nil {
			continue
		}
		if k.Entry == "" || known[k.Entry] {
			continue
		}
		known[k.Entry] = true
		comes := home.StagedReason(r.b.home, k.Entry) // while somebody is putting it there
		if !isThere(comes) && !isThere(r.b.path("tasks", "quarantine", k.Entry)) {
			removed = append(removed, k)
		}
	}
	for _, k := range removed {
		err := r.under(home.Shard(k.Entry), func(s *shard) error {
			return r.b.sayGone(r.ctx, s, &k, "removed by hand, as the operator said")
		})
		if err != nil {
			return err
		}
		if err := durable.RemoveIfThere(r.b.path("tasks", "quarantine", k.Entry+home.ReasonSuffix)); err != nil {
			return err
		}
	}
	return nil
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// copies mends the agents' copies of the ledger, and puts away what stands in
// their place.
func (r *recovery) copies() error {
	err := r.b.ledger.MendCopies(r.ctx, func(path string) error {
		return r.putAway(path, "it lay where only agents' copies of the ledger lie")
	})
	if errors.Is(err, fs.ErrPermission) { // a copy is never evidence, and the next lines try again
		r.unread, err = append(r.unread, err), nil
	}
	return err
}

// putAway puts what is not mbox's, and lies in a folder of its own, into quarantine.
func (r *recovery) putAway(path, why string) error {
	s, err := r.b.lockShard(r.ctx, audit.MboxAgent)
	if err != nil {
		return err
	}
	defer s.unlock()
	return r.quarantine(s, path, filepath.Base(path), home.Reason{Reason: why})
}

// sayRemade appends a line if lock files were made anew, by this recovery or by
// one that died, before any shard of which it was is let go of. It also tells of
// an id that an operator had to name.
func (r *recovery) sayRemade() error {
	why := r.unsaid
	if why == "" && r.out.Locks > 0 {
		why = home.MadeAnew
	}
	if r.o.MailboxID != "" {
		why = "the files of .mbox made anew, for the id that the operator named"
	}
	if why == "" {
		return nil
	}
	return r.b.sayAlone(r.ctx, []durable.Held{r.b.recoveries}, r.aboutHome(why))
}

func (r *recovery) sayMoved() error {
	if !r.out.Moved {
		return nil
	}
	return r.b.Note(r.ctx, r.aboutHome("home moved or copied"))
}

// aboutHome is a line about the home, with the id that an operator named.
func (r *recovery) aboutHome(why string) audit.Entry {
	return audit.Entry{
		Agent: audit.MboxAgent, Event: audit.Reconcile, Action: "mbox: " + why,
		Details: audit.Details(struct {
			Reason    string `json:"reason"`
			MailboxID string `json:"mailbox_id,omitzero"`
		}{why, r.o.MailboxID}),
	}
}

// leases gives back the tasks whose lease is over. After a restart all leases
// of this machine are, those without a lease file too.
func (r *recovery) leases() error {
	b := r.b
	if err := b.queue.Update(); err != nil {
		return err
	}
	ids, err := b.queue.In(InProgress, func(*queue.Entry) bool { return true })
	if err != nil {
		return err
	}
	over := r.restarted || r.copied
	if !over {
		r.out.Reclaimed, err = b.reclaimer.reclaimAll(r.ctx, ids)
	}
	for _, id := range ids {
		if over && err == nil {
			err = r.endLease(id)
		}
	}
	if err != nil {
		return err
	}
	return b.reclaimer.dropStrayLeases(r.ctx)
}

// endLease takes a task back after a restart, when nothing works on any, or in a copy, where
// what a lease file names works in the home that was copied, and is left in peace.
func (r *recovery) endLease(id ID) error {
	s, err := r.b.lockShard(r.ctx, string(id))
	if err != nil {
		return err
	}
	defer s.unlock()
	back, err := r.b.reclaimer.reclaimHeld(r.ctx, s, id, func(t *Task) (v lease.Verdict, err error) {
		if r.restarted {
			return lease.Lost, nil
		}
		v, _, err = r.b.leases.Judge(t)
		return v, err
	})
	if back {
		r.out.Reclaimed++
	}
	return err
}
