package mailbox

import (
	"hash/maphash"
	"time"
)

// What one pass of a router does at most with files that are no known task. A
// pass that is not done goes on at once, but first it attends to what has come
// meanwhile, to leases and to tasks whose time has come: whoever drops junk, or
// very much, makes nobody else wait for it.
var perPass = bounds{
	looks: 2000, // files opened and parsed for the first time
	good:  500,  // tasks admitted
	bad:   200,  // files put away: each takes a line and three renames
}

type bounds struct{ looks, good, bad int }

// goOn is how soon a pass that is not done goes on.
const goOn = time.Millisecond

// quota is what is left of a pass. Looking is cheap and putting away is not, so
// junk that is seen in one pass may wait for another, and does not keep the good
// tasks behind it out. A nil quota has no bounds: a command that runs once does
// the whole work.
type quota struct {
	bounds
	most   bounds
	putOff map[uint64]bool // hashes of names: looked at, and to be put away later
	seed   maphash.Seed
}

func newQuota(most bounds) *quota {
	return &quota{bounds: most, most: most, putOff: map[uint64]bool{}, seed: maphash.MakeSeed()}
}

// renew begins a pass.
func (q *quota) renew() { q.bounds = q.most }

func (q *quota) key(name string) uint64 { return maphash.String(q.seed, name) }

// look tells whether a file may be opened in this pass.
func (q *quota) look(name string) bool {
	switch {
	case q == nil:
		return true
	case q.putOff[q.key(name)]:
		return q.bad > 0 // its turn has come
	case q.looks == 0 || q.good == 0:
		return false
	}
	q.looks--
	return true
}

// pass takes back a look at a file that stays where it is: however many those are, the
// others come to their turn.
func (q *quota) pass() {
	if q != nil {
		q.looks++
	}
}

// admit tells whether a task may be admitted in this pass.
func (q *quota) admit(name string) bool {
	switch {
	case q == nil:
		return true
	case q.good == 0:
		return false
	}
	q.good--
	delete(q.putOff, q.key(name))
	return true
}

// putAway tells whether a file may be put away in this pass; if not, it is
// known as one that waits for that.
func (q *quota) putAway(name string) bool {
	switch {
	case q == nil:
		return true
	case q.bad == 0:
		q.putOff[q.key(name)] = true
		return false
	}
	q.bad--
	delete(q.putOff, q.key(name))
	return true
}

// changed forgets what was seen of a file.
func (q *quota) changed(name string) {
	if q != nil {
		delete(q.putOff, q.key(name))
	}
}

// keep forgets all names but these, when many others have gone.
func (q *quota) keep(names []string) {
	if q == nil || len(q.putOff) <= 2*len(names)+q.most.looks {
		return
	}
	kept := map[uint64]bool{}
	for _, name := range names {
		if k := q.key(name); q.putOff[k] {
			kept[k] = true
		}
	}
	q.putOff = kept
}
