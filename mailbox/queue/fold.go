package queue

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"mbox/audit"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/task"
)

// state is the queue as it is folded up to a place of the ledger. Its base is a
// snapshot file that is read entry by entry, so that opening a mailbox costs the
// same whatever waits in it; what has changed since lies in memory.
type state struct {
	at      audit.Position
	reader  *audit.Reader
	base    *snapshot
	live    map[task.ID]*Entry // newer than base
	queues  map[Class]*[4]pile // what is ready, by priority
	waiting pile               // what is to be looked at when a time comes
	needs   links              // dependency or child → who waits for it
	kids    links              // parent → its live children
	works   map[task.ID]*Entry // in progress, with paths
	barred  links              // one of those → who is kept from being claimed by its paths
	checks  map[task.ID]bool   // blocked entries that are to be looked at
	tend    map[task.ID]bool   // children whose parent may have ended or forgotten them
	sets    [4]Set             // what each folder should hold
	agents  map[string]lifecycle.Agent
	lost    map[task.ID]bool  // ended tasks of which an alarm says that they are gone, until they move
	owed    map[uint64]string // hashes of the keys of inbox items that are not made yet → the file of their message
	special map[uint64]bool   // hashes of all ids ever, case-folded, of idempotency keys, and of what was approved
	folded  int               // lines folded since base
	names   bool              // special and agents alone are kept: nobody has asked for the queue yet
	waits   bool              // a task has waited for somebody else's line
	skimmer skimmer
}

func newState() state {
	return state{
		live: map[task.ID]*Entry{}, queues: map[Class]*[4]pile{}, waiting: pile{by: byTime},
		needs: links{}, kids: links{}, works: map[task.ID]*Entry{}, barred: links{}, checks: map[task.ID]bool{}, tend: map[task.ID]bool{}, special: map[uint64]bool{},
		agents: map[string]lifecycle.Agent{}, lost: map[task.ID]bool{}, owed: map[uint64]string{},
	}
}

func (x *state) close() {
	if x.reader != nil {
		x.reader.Close()
		x.reader = nil
	}
	if x.base != nil {
		x.base.file.Close()
		x.base = nil
	}
}

// links are ids that have to do with another one, by that one, case-folded.
type links map[string][]task.ID

func (l links) of(id task.ID) []task.ID { return l[id.Fold()] }

func (l links) add(id, to task.ID) {
	key := id.Fold()
	l[key] = append(l[key], to)
}

func (l links) drop(id, to task.ID) {
	key := id.Fold()
	left := slices.DeleteFunc(l[key], func(one task.ID) bool { return one == to })
	if len(left) == 0 {
		delete(l, key)
		return
	}
	l[key] = left
}

// Set is a set of ids reduced to its size and a sum of hashes: enough to see
// whether a folder's listing is the expected one.
type Set struct {
	Count int64
	Sum   uint64
}

// Add adds an id.
func (s *Set) Add(id task.ID)    { s.Count++; s.Sum += hash64(string(id)) }
func (s *Set) remove(id task.ID) { s.Count--; s.Sum -= hash64(string(id)) }

func hash64[T string | []byte](s T) uint64 {
	v := uint64(14695981039346656037) // FNV-1a
	for i := range len(s) {
		v = (v ^ uint64(s[i])) * 1099511628211
	}
	v ^= v >> 33 // FNV's high bits are weak for short, similar strings
	v *= 0xff51afd7ed558ccd
	return v ^ v>>33
}

// find returns the entry of a live task. Where it is to be changed, one of the
// base is taken over into memory.
func (x *state) find(id task.ID, own bool) *Entry {
	if e, ok := x.live[id]; ok || x.base == nil {
		return e
	}
	n, e := x.base.find(id)
	if e != nil && own {
		x.takeOver(n, e)
	}
	return e
}

func (x *state) takeOver(n uint32, e *Entry) {
	x.base.gone[n] = true
	x.live[e.ID] = e
}

// fold takes one ledger line in.
func (x *state) fold(line audit.Line) {
	s := x.skimmer.of(line)
	if !s.moves {
		x.foldNote(line, s)
		return
	}
	if len(s.key) > 0 {
		x.special[hash64(s.key)] = true
		delete(x.owed, hash64(s.key))
	}
	if s.from == task.None {
		x.special[hash64(s.ID.Fold())] = true
	}
	if !x.names {
		x.move(s)
	}
}

// move brings the entry of a task that has moved up to date.
func (x *state) move(s *skimmed) {
	x.count(s)
	delete(x.lost, s.ID)
	var e *Entry
	if s.from != task.None { // a new id is in no snapshot
		e = x.find(s.ID, true)
	}
	if e != nil {
		x.unqueue(e)
	}
	for _, child := range x.kids.of(s.ID) {
		x.tend[child] = true
	}
	if s.State == task.Pending || s.State == task.InProgress {
		if e == nil {
			e = &Entry{ID: s.ID}
			x.live[s.ID] = e
		}
		x.update(e, s)
	} else {
		if e != nil {
			x.orphan(e)
		}
		delete(x.live, s.ID)
	}
	x.unbar(s)
	x.ended(s.ID) // who waits for an id nobody had heard of learns of it, too
	if s.State == task.Pending {
		x.enqueue(e, s.at)
	}
}

// foldNote takes in a line that moves no task: an agent has another state, an alarm has been
// given, or something has been decided for which a held task waits.
func (x *state) foldNote(line audit.Line, s *skimmed) {
	if s.event == audit.AgentState {
		x.foldAgent(line)
	}
	if s.event == audit.MessageEvent {
		x.foldMessage(line)
	}
	if s.ID == "" {
		return
	}
	if value := line.Detail("approves"); value != nil {
		var approval struct {
			SHA256 string `json:"sha256"`
		}
		if json.Unmarshal(value, &approval) == nil {
			x.special[hash64(Approves+approval.SHA256)] = true
		}
	}
	if x.names {
		return
	}
	if e, ok := x.live[s.ID]; ok && e.Held {
		e.Held = false
		x.putBack(e, s.at)
	}
	if s.event != audit.ErrorEvent || line.Detail("alarm") == nil {
		return
	}
	if e := x.find(s.ID, true); e != nil {
		e.Alarmed = true
		x.putBack(e, s.at) // it may just have come out of the base
	} else if task.SaysGone(line) {
		x.lost[s.ID] = true
	}
}

// foldAgent takes in a move of an agent. What is none is for the tools that prove the
// ledger; here it changes nothing.
func (x *state) foldAgent(line audit.Line) {
	e, err := line.Decode()
	if err != nil {
		return
	}
	if m, ok := lifecycle.MoveOf(&e); ok {
		lifecycle.Fold(x.agents, &e, m)
	}
}

// foldMessage takes in a message: its id is taken, and the items are owed for which it
// comes into inboxes. In a ledger that was begun anew they may stand before it.
func (x *state) foldMessage(line audit.Line) {
	if key := line.Text("key"); key != "" {
		x.special[hash64(key)] = true
	}
	var items []string
	if x.names || json.Unmarshal(line.Detail("inbox"), &items) != nil {
		return
	}
	for _, item := range items {
		if h := hash64(item); !x.has(h) {
			x.owed[h] = line.Text("file")
		}
	}
}

// has tells whether a hash is among the special ones.
func (x *state) has(h uint64) bool { return x.special[h] || x.base != nil && x.base.has(h) }

func (x *state) count(s *skimmed) {
	from, to := task.FolderIndex(s.from), task.FolderIndex(s.State)
	if from == to {
		return
	}
	if from >= 0 {
		x.sets[from].remove(s.ID)
	}
	if to >= 0 {
		x.sets[to].Add(s.ID)
	}
}

func (x *state) update(e *Entry, s *skimmed) {
	if e.State != s.State {
		e.Since, e.Alarmed = s.at.UnixMilli(), false
	}
	e.State, e.Held, e.After, e.Claim = s.State, false, s.After, s.Entry.Claim
	e.Revision, e.Epoch, e.Attempt, e.Until = s.Revision, s.Epoch, s.Attempt, s.Until
	if s.queued {
		x.orphan(e)
		e.Class, e.Priority, e.Created, e.Max = s.Class, s.Priority, s.Created, s.Max
		e.NotBefore, e.Deadline, e.DependsOn, e.Asked = s.NotBefore, s.Deadline, s.DependsOn, s.Asked
		e.Parent, e.Born, e.WaitsFor, e.Join, e.Paths = s.Parent, s.Born, s.WaitsFor, s.Join, s.Paths
		e.Blocked = len(e.DependsOn) > 0 || len(e.WaitsFor) > 0
		e.check = e.Blocked
	}
	switch {
	case e.State == task.Pending:
		e.Claimant = ""
	case s.event == audit.TaskPicked:
		e.Claimant = s.agent
	case s.event == audit.Reconcile:
		e.Claimant = task.ByHand(e.Target)
	}
	x.adopt(e)
	x.occupy(e)
}

// adopt notes whose child a live entry is, and that somebody has to look whether
// the parent still wants it.
func (x *state) adopt(e *Entry) {
	if e.Parent == "" {
		return
	}
	x.waits = true
	if !slices.Contains(x.kids.of(e.Parent), e.ID) {
		x.kids.add(e.Parent, e.ID)
	}
	x.tend[e.ID] = true
}

// orphan forgets whose child an entry was.
func (x *state) orphan(e *Entry) {
	delete(x.tend, e.ID)
	if e.Parent != "" {
		x.kids.drop(e.Parent, e.ID)
	}
}

// wanted tells whether somebody waits, or may come to wait, for a live child.
func (x *state) wanted(id task.ID) bool {
	child := x.live[id]
	if child == nil || child.Parent == "" {
		return true
	}
	parent := x.find(child.Parent, false)
	return parent != nil && (slices.Contains(parent.WaitsFor, id) ||
		parent.State == task.InProgress && parent.Epoch == child.Born) // it is just being handed on
}

// enqueue puts a pending entry where it belongs: behind its dependencies, behind
// its time, or into its queue.
func (x *state) enqueue(e *Entry, now time.Time) {
	wake := int64(0)
	switch {
	case e.Blocked:
		x.waits = true
		for _, d := range e.Awaits() {
			x.needs.add(d, e.ID)
		}
		if e.check {
			x.checks[e.ID] = true
		}
	case e.NotBefore > now.UnixMilli():
		wake = e.NotBefore
	default:
		x.ready(e)
	}
	if end := e.Expires(); end > 0 && (wake == 0 || end < wake) {
		wake = end
	}
	if wake > 0 {
		x.await(e, wake)
	}
}

// await has an entry looked at when a time comes.
func (x *state) await(e *Entry, at int64) {
	x.waiting.drop(e)
	e.wake = at
	x.waiting.add(e)
}

func (x *state) ready(e *Entry) {
	q := x.queues[e.Class]
	if q == nil {
		q = new([4]pile)
		x.queues[e.Class] = q
	}
	q[e.Priority].add(e)
}

func (x *state) unqueue(e *Entry) {
	if e.place[byTurn] > 0 {
		x.queues[e.Class][e.Priority].drop(e)
	}
	if e.Blocked {
		delete(x.checks, e.ID)
		for _, d := range e.Awaits() {
			x.needs.drop(d, e.ID)
		}
	}
	x.waiting.drop(e)
	if e.bars != "" {
		x.barred.drop(e.bars, e.ID)
		e.bars = ""
	}
}

// putBack returns an entry to its queue, if it is to be had.
func (x *state) putBack(e *Entry, now time.Time) {
	if x.live[e.ID] == e && e.State == task.Pending && e.place[byTurn] == 0 && !e.taken && !e.Blocked && !e.Held {
		x.unqueue(e)
		x.enqueue(e, now)
	}
}

// ended notes that those who wait for the id have to be looked at.
func (x *state) ended(id task.ID) {
	for _, waiter := range x.needs.of(id) {
		if e := x.live[waiter]; e != nil && e.Blocked {
			e.check = true
			e.calls++
			x.checks[waiter] = true
		}
	}
}

// best is the entry whose turn it is among those that fit; in the base it has a
// number.
func (x *state) best(fits func(Class) bool, now time.Time) (best *Entry, n uint32) {
	better := func(number uint32, e *Entry) {
		if e == nil {
			return
		}
		if best == nil || e.standing(now) > best.standing(now) || e.standing(now) == best.standing(now) && e.age(best) < 0 {
			best, n = e, number
		}
	}
	for class, q := range x.queues {
		if !fits(class) {
			continue
		}
		for p := range q {
			better(0, q[p].head())
		}
	}
	if x.base != nil {
		for i, r := range x.base.head.Runs {
			if fits(r.Class) {
				better(x.base.first(i))
			}
		}
	}
	return best, n
}
