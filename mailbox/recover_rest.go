package mailbox

import (
	"bytes"
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
	"mbox/mailbox/task"
)

// records brings decision and change files to what their last lines name.
func (r *recovery) records() error {
	last := map[string]*audit.Entry{}
	for line, err := range r.b.ledger.Read(audit.Position{}).Lines() {
		if err != nil {
			return err
		}
		if line.Event() != audit.DecisionEvent && line.Event() != audit.ChangeEvent {
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
		if err := r.b.placeRecord(last[file]); err != nil && !errors.Is(err, ErrIntegrity) {
			return err
		}
	}
	return nil
}

// asides finishes putting away what a line names as put away, before anything
// else looks at the bytes: it would put them away once more.
func (r *recovery) asides() error {
	return r.eachStaged(func(s *shard, name string) error {
		_, tx, ok := home.CutLast(strings.TrimSuffix(name, home.ReasonSuffix), "~")
		if !ok || !strings.HasSuffix(name, home.ReasonSuffix) {
			return nil
		}
		if d, _, err := r.b.intents.Read(s.number); err == nil && d.TX == tx {
			return nil // shards sees to it: the record knows the file's true name
		}
		return r.finishAside(s, tx)
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
		if home.StagesArtifacts(r.b.home, name) {
			id, _, _ := task.AttemptOf(owner)
			number = home.Shard(string(id))
		}
		for _, d := range all {
			if d.TX == tx {
				number = d.Number // its owner said so
			}
		}
		s, err := r.shardNumber(number)
		if err != nil {
			return err
		}
		err = do(s, name)
		s.unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// keepCut puts a staged file away whose line a power cut took. What has a line
// that counts was brought to its place before.
func (r *recovery) keepCut(s *shard, name string) (bool, error) {
	_, tx, ok := home.CutLast(name, "~")
	if !ok || strings.HasSuffix(name, home.ReasonSuffix) {
		return false, nil
	}
	if there, err := home.Look(home.Private(r.b.home, "tmp", name)); err != nil || !there.There {
		return false, err
	}
	why := "staged when the ledger was forgotten"
	if !r.forgot {
		if cut, err := r.b.ledger.Cut(tx); !cut || err != nil {
			return false, err
		}
		why = "staged for a ledger line that a power cut took"
	}
	r.out.Quarantine++
	path := home.Private(r.b.home, "tmp", name)
	return true, r.b.setAside(r.ctx, s, path, name, audit.Reconcile, home.Reason{Reason: why})
}

// shards settles what intent records are left and blanks their slots. A damaged one
// cannot be settled; the recovery until here has done it.
func (r *recovery) shards() error {
	all, err := r.b.intents.Filled()
	if err != nil {
		return err
	}
	for _, d := range all {
		s, err := r.shardNumber(d.Number)
		if err != nil {
			return err
		}
		if d, set, bad := home.ReadIntent(s.slots, s.number); set && bad == nil {
			err = r.settle(s, d)
		}
		if err == nil {
			err = home.WriteSlot(s.slots, s.number, home.BlankSlot)
		}
		s.unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// settle settles an intent record. What a power cut took the line of is kept
// before that, because settle takes it for what was never written.
func (r *recovery) settle(s *shard, d home.Intent) error {
	found, _, err := r.b.linesSince(d, nil)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		if _, err := r.keepCut(s, d.Name+"~"+d.TX); err != nil {
			return err
		}
	}
	return r.b.settle(r.ctx, s, d)
}

// finishAside finishes putting bytes away whose line is committed, where no
// intent record tells of it any more.
func (r *recovery) finishAside(s *shard, tx string) error {
	e, err := r.b.lineWith("tx", tx)
	if err != nil || e == nil {
		return err
	}
	if _, ok := task.MoveOf(e); ok {
		return nil // bring has seen to it
	}
	return r.b.redo(r.ctx, s, home.Intent{Kind: "drop"}, e)
}

// strays puts away what lies among leases and staged files and is neither.
func (r *recovery) strays() error {
	leases, err := home.LeaseNames(r.b.home)
	if err != nil {
		return err
	}
	for _, name := range leases {
		if home.IsLease(r.b.home, name) {
			continue
		}
		if err := r.putAway(home.LeasePath(r.b.home, name), "it lay among the leases and is none"); err != nil {
			return err
		}
	}
	staged, err := home.StagedNames(r.b.home)
	if err != nil {
		return err
	}
	for _, name := range staged {
		path := home.Private(r.b.home, "tmp", name)
		if info, err := os.Lstat(path); err != nil || !info.IsDir() || home.StagesArtifacts(r.b.home, name) {
			continue
		}
		if err := r.putAway(path, "a folder among the staged files"); err != nil {
			return err
		}
	}
	return nil
}

// copies mends the agents' copies of the ledger, and puts away what stands in
// their place.
func (r *recovery) copies() error {
	return r.b.ledger.MendCopies(r.ctx, func(path string) error {
		return r.putAway(path, "it lay where only agents' copies of the ledger lie")
	})
}

// putAway puts what is not mbox's, and lies in a folder of its own, into quarantine.
func (r *recovery) putAway(path, why string) error {
	s, err := r.b.lockShard(r.ctx, audit.MboxAgent)
	if err != nil {
		return err
	}
	defer s.unlock()
	r.out.Quarantine++
	return r.b.setAside(r.ctx, s, path, filepath.Base(path), audit.Reconcile, home.Reason{Reason: why})
}

// sayRemade appends a line if lock files were made anew, by this recovery or by
// one that died, before any shard of which it was is let go of. It also tells of
// an id that an operator had to name.
func (r *recovery) sayRemade() error {
	why := r.says
	if why == "" && r.out.Locks > 0 {
		why = home.MadeAnew
	}
	if r.named != "" {
		why = "the files of .mbox made anew, for the id that the operator named"
	} else if why == "" {
		return nil
	}
	_, err := r.say(r.saying("mbox: "+why, why, home.RandomHex(16)))
	return err
}

// say appends a line of the recovery itself.
func (r *recovery) say(e audit.Entry) (audit.Line, error) {
	return r.b.say(r.ctx, []durable.Held{r.b.recoveries}, e, audit.Payload{})
}

// saying is a line about the home.
func (r *recovery) saying(action, why, tx string) audit.Entry {
	return audit.Entry{
		Agent: audit.MboxAgent, Event: audit.Reconcile, Action: action,
		Details: audit.Details(struct {
			Reason    string `json:"reason"`
			TX        string `json:"tx"`
			MailboxID string `json:"mailbox_id,omitzero"` // where an operator named it
			audit.Writer
		}{why, tx, r.named, r.b.writer}),
	}
}

func (r *recovery) sayMoved() error {
	tx := home.RandomHex(16)
	s, err := r.b.lockShard(r.ctx, audit.MboxAgent)
	if err != nil {
		return err
	}
	defer s.unlock()
	return r.b.note(r.ctx, s, tx, r.saying("mbox: home moved or copied", "home moved or copied", tx))
}

// leases gives back the tasks whose lease is over. After a restart all leases
// of this machine are, those without a lease file too.
func (r *recovery) leases(sameBoot bool) error {
	b := r.b
	if err := b.update(); err != nil {
		return err
	}
	b.mu.Lock()
	ids := b.index.inProgress()
	b.mu.Unlock()
	for _, id := range ids {
		if sameBoot {
			ok, err := b.reclaimOne(r.ctx, id)
			if err != nil {
				return err
			}
			if ok {
				r.out.Reclaimed++
			}
			continue
		}
		if err := r.endLease(id); err != nil {
			return err
		}
	}
	return b.dropStrayLeases(r.ctx)
}

// endLease takes a task back after a restart.
func (r *recovery) endLease(id ID) error {
	s, err := r.b.lockShard(r.ctx, string(id))
	if err != nil {
		return err
	}
	defer s.unlock()
	f, rec, err := r.b.current(id)
	if errors.Is(err, ErrNotFound) || errors.Is(err, errForeign) {
		return nil
	}
	if err != nil || rec.state != InProgress {
		return err
	}
	r.out.Reclaimed++
	return r.b.commit(r.ctx, s, r.b.takeBack(f, leaseLost))
}

// standing tells which of the transactions, if any, stands in a file of the
// home, for the ledger, before it sets lines aside. A task under another one's
// name, or one that is torn, does not count: that is a file that a home of format 1
// used again, and nothing tells that it was renamed since.
func (b *Box) standing(txs []string) (string, error) {
	in := map[string]bool{}
	for _, tx := range txs {
		in[tx] = true
	}
	found := ""
	for _, dir := range []string{"tasks", "decisions", "changes"} {
		err := filepath.WalkDir(b.path(dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || found != "" || !e.Type().IsRegular() || strings.Contains(path, "/quarantine/") {
				return err
			}
			data, err := durable.Read(path, 4*MaxTask)
			if err != nil {
				return nil //nolint:nilerr // an unreadable file stands for no transaction
			}
			var t struct {
				Mbox struct {
					TX string `json:"tx"`
				} `json:"mbox"`
			}
			if i := bytes.Index(data, []byte(`"tx": "`)); i >= 0 && len(data) >= i+7+32 {
				t.Mbox.TX = string(data[i+7 : i+7+32])
			}
			if in[t.Mbox.TX] && (dir != "tasks" || ownName(path, data)) {
				found = t.Mbox.TX
			}
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return found, nil
}

// ownName tells whether the file holds a whole task of that name.
func ownName(path string, data []byte) bool {
	var t struct {
		ID ID `json:"id"`
	}
	return json.Unmarshal(data, &t) == nil && strings.EqualFold(filepath.Base(path), t.ID.File())
}
