package mailbox

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"
	"time"

	"mbox/audit"
	"mbox/mailbox/task"
)

// class is what tasks have in common that decides who may take them.
type class struct {
	target string
	typ    string
	action string // name of its action, "" for a thinking task
}

// record is what the index knows of one live task (pending or in progress). It
// is made from ledger lines alone.
type record struct {
	id        ID
	state     State
	class     class
	priority  int   // rank
	created   int64 // Unix milliseconds
	notBefore int64
	deadline  int64 // 0: none
	until     int64 // lease's deadline as the last line knows it
	since     int64 // in this state
	after     task.Digest
	asked     task.Digest
	claim     task.Digest // of the token, while in progress
	claimant  string
	revision  int64
	epoch     int64
	attempt   int64
	max       int64
	dependsOn []ID
	parent    ID    // who waits for it; "" if it is no child of a delegation
	born      int64 // the parent's epoch in which it was made
	waitsFor  []ID  // its own children, until the next time it is handed on
	join      string

	place   int   // in its queue's heap; -1 when in none
	wake    int64 // when a waiting record is to be looked at
	rest    int   // place among the waiting; -1 when not there
	blocked bool  // waits for a dependency, or for its children
	check   bool  // one of them may have ended: look
	calls   int   // how often one of them had a line since this box knows the record
	held    bool  // waits for an approval; this process has been told so
	alarmed bool  // an alarm about it stands in the ledger
	taken   bool  // a goroutine of this process is trying to claim it
}

// index is the queue, folded from the ledger. Its base is a snapshot file that
// is read record by record, so that opening a mailbox costs the same whatever
// waits in it; what has changed since lies in memory.
//
// An index is derived and only suggests: each claim is decided by the file and
// the ledger under the task's shard. It is guarded by Box.mu.
type index struct {
	at      audit.Position
	reader  *audit.Reader
	base    *snapshot
	live    map[ID]*record // newer than base
	gone    map[uint32]bool
	queues  map[class]*[4]queueHeap
	waiting timeHeap        // pending with a not_before to come
	needs   map[string][]ID // folded dependency → who waits for it
	checks  map[ID]bool     // blocked records that are to be looked at
	kids    map[string][]ID // folded parent → its live children
	tend    map[ID]bool     // children whose parent may have ended or forgotten them
	sets    [4]idSet        // what each folder should hold
	special map[uint64]bool // hashes of all ids ever, case-folded, of idempotency keys, and of what was approved
	folded  int             // lines folded since base
	names   bool            // special alone is kept: nobody has asked for the queue yet
	skimmer skimmer
	waits   bool // a task has waited for somebody else's line
}

func newIndex() *index {
	return &index{
		live: map[ID]*record{}, gone: map[uint32]bool{}, queues: map[class]*[4]queueHeap{},
		needs: map[string][]ID{}, checks: map[ID]bool{}, special: map[uint64]bool{},
		kids: map[string][]ID{}, tend: map[ID]bool{},
	}
}

func (x *index) close() {
	if x.reader != nil {
		x.reader.Close()
		x.reader = nil
	}
	if x.base != nil {
		x.base.close()
		x.base = nil
	}
}

// idSet is a set of ids reduced to its size and a sum of hashes: enough to see
// whether a folder's listing is the expected one.
type idSet struct {
	count int64
	sum   uint64
}

func (s *idSet) add(id ID)    { s.count++; s.sum += hash64(string(id)) }
func (s *idSet) remove(id ID) { s.count--; s.sum -= hash64(string(id)) }
func hash64[T string | []byte](s T) uint64 {
	v := uint64(14695981039346656037) // FNV-1a
	for i := range len(s) {
		v = (v ^ uint64(s[i])) * 1099511628211
	}
	v ^= v >> 33 // FNV's high bits are weak for short, similar strings
	v *= 0xff51afd7ed558ccd
	return v ^ v>>33
}

// find returns the record of a live task.
func (x *index) find(id ID) *record {
	if r, ok := x.live[id]; ok {
		return r
	}
	if x.base == nil {
		return nil
	}
	_, r := x.ofBase(id)
	return r
}

// ofBase finds the record of a live task that is still as the snapshot has it.
// Those that were not ready there were taken into memory with it, so what it has
// of them counts for nothing any more.
func (x *index) ofBase(id ID) (uint32, *record) {
	n, r := x.base.find(id)
	if r == nil || n >= x.base.head.Ready || x.gone[n] {
		return 0, nil
	}
	return n, r
}

// own returns the record of a live task as one that may be changed: one of the
// base is taken over into memory.
func (x *index) own(id ID) *record {
	if r, ok := x.live[id]; ok {
		return r
	}
	if x.base == nil {
		return nil
	}
	n, r := x.ofBase(id)
	if r == nil {
		return nil
	}
	x.gone[n] = true
	x.live[id] = r
	return r
}

// fold takes one ledger line in.
func (x *index) fold(line audit.Line) {
	s := x.skimmer.of(line)
	if !s.moves {
		x.foldNote(line, s)
		return
	}
	if len(s.key) > 0 {
		x.special[hash64(s.key)] = true
	}
	if s.from == None {
		x.special[hash64(s.id.Fold())] = true
	}
	if x.names {
		return
	}
	id := s.id
	x.count(s)
	var r *record
	if s.from != None { // a new id is in no snapshot
		r = x.own(id)
	}
	if r != nil {
		x.unqueue(r)
	}
	for _, child := range x.kids[id.Fold()] {
		x.tend[child] = true
	}
	if s.to != Pending && s.to != InProgress {
		if r != nil {
			x.orphan(r)
		}
		delete(x.live, id)
		x.ended(id)
		return
	}
	if r == nil {
		r = &record{id: id, place: -1, rest: -1}
		x.live[id] = r
	}
	x.update(r, s)
	x.adopt(r)
	switch {
	case r.state == Pending:
		r.claimant = ""
	case s.event == audit.TaskPicked:
		r.claimant = s.agent
	case s.event == audit.Reconcile:
		r.claimant = byHand(r.class.target)
	}
	x.ended(id) // who waits for an id nobody had heard of learns of it
	if r.state == Pending {
		x.enqueue(r, s.at)
	}
}

// foldNote takes in a line about a task that moves nothing: an alarm has been
// given, or something has been decided for which a held task waits.
func (x *index) foldNote(line audit.Line, s *skimmed) {
	if s.id == "" {
		return
	}
	if line.Detail("approves") != nil {
		var d recordDetails
		if e, err := line.Decode(); err == nil && e.Detail(&d) == nil && d.Approves != nil {
			x.special[hash64(approves+d.Approves.SHA256)] = true
		}
	}
	if r, ok := x.live[s.id]; ok && r.held {
		r.held = false
		if r.state == Pending && r.place < 0 && !r.taken {
			x.unqueue(r)
			x.enqueue(r, s.at)
		}
	}
	if s.event != audit.ErrorEvent || x.names || line.Detail("alarm") == nil {
		return
	}
	if r, ok := x.live[s.id]; ok {
		r.alarmed = true
		return
	}
	if r := x.own(s.id); r != nil {
		r.alarmed = true
		x.enqueue(r, s.at)
	}
}

func (x *index) count(s *skimmed) {
	from, to := task.FolderIndex(s.from), task.FolderIndex(s.to)
	if from == to {
		return
	}
	if from >= 0 {
		x.sets[from].remove(s.id)
	}
	if to >= 0 {
		x.sets[to].add(s.id)
	}
}

func (x *index) update(r *record, s *skimmed) {
	if r.state != s.to {
		r.since, r.alarmed = s.at.UnixMilli(), false
	}
	r.state, r.held = s.to, false
	r.after, r.claim = s.after, s.claim
	r.revision, r.epoch, r.attempt, r.until = s.revision, s.epoch, s.attempt, s.until
	if !s.queued {
		return
	}
	q := &s.seat
	r.class, r.priority, r.created, r.max = q.class, q.priority, q.created, q.max
	r.notBefore, r.deadline, r.dependsOn, r.asked = q.notBefore, q.deadline, q.dependsOn, q.asked
	if r.parent != "" && r.parent != q.parent {
		x.orphan(r)
	}
	r.parent, r.born, r.waitsFor, r.join = q.parent, q.born, q.waitsFor, q.join
	r.blocked = len(q.dependsOn) > 0 || len(q.waitsFor) > 0
	r.check = r.blocked
}

// awaits are the ids whose end a blocked record waits for.
func (r *record) awaits() iter.Seq[ID] {
	return func(yield func(ID) bool) {
		for _, ids := range [][]ID{r.dependsOn, r.waitsFor} {
			for _, id := range ids {
				if !yield(id) {
					return
				}
			}
		}
	}
}

// adopt notes whose child a live record is, and that somebody has to look
// whether the parent still wants it.
func (x *index) adopt(r *record) {
	if r.parent == "" {
		return
	}
	x.waits = true
	key := r.parent.Fold()
	if !slices.Contains(x.kids[key], r.id) {
		x.kids[key] = append(x.kids[key], r.id)
	}
	x.tend[r.id] = true
}

// orphan forgets whose child a record was.
func (x *index) orphan(r *record) {
	delete(x.tend, r.id)
	if r.parent == "" {
		return
	}
	key := r.parent.Fold()
	left := slices.DeleteFunc(x.kids[key], func(id ID) bool { return id == r.id })
	if len(left) == 0 {
		delete(x.kids, key)
		return
	}
	x.kids[key] = left
}

// enqueue puts a pending record where it belongs: behind its dependencies,
// behind its time, or into its queue.
func (x *index) enqueue(r *record, now time.Time) {
	switch {
	case r.blocked:
		x.waits = true
		for d := range r.awaits() {
			x.needs[d.Fold()] = append(x.needs[d.Fold()], r.id)
		}
		if r.check {
			x.checks[r.id] = true
		}
		x.await(r, r.expires())
	case r.notBefore > now.UnixMilli():
		x.await(r, r.notBefore)
	default:
		x.ready(r)
		x.await(r, r.expires())
	}
}

// await has a record looked at when a time comes, or its deadline, if that is
// sooner; 0 is no time.
func (x *index) await(r *record, at int64) {
	if end := r.expires(); end > 0 && (at == 0 || end < at) {
		at = end
	}
	if at > 0 {
		x.waiting.add(r, at)
	}
}

// expires is when the record fails if nobody has taken it by then; 0 is never:
// it has no deadline, or it was taken once.
func (r *record) expires() int64 {
	if r.epoch > 0 {
		return 0
	}
	return r.deadline
}

func (x *index) ready(r *record) {
	q := x.queues[r.class]
	if q == nil {
		q = new([4]queueHeap)
		x.queues[r.class] = q
	}
	heap.Push(&q[r.priority], r)
}

func (x *index) unqueue(r *record) {
	if r.place >= 0 {
		heap.Remove(&x.queues[r.class][r.priority], r.place)
	}
	if r.blocked {
		x.forget(r)
	}
	x.waiting.drop(r)
}

func (x *index) forget(r *record) {
	delete(x.checks, r.id)
	for d := range r.awaits() {
		left := slices.DeleteFunc(x.needs[d.Fold()], func(id ID) bool { return id == r.id })
		if len(left) == 0 {
			delete(x.needs, d.Fold())
			continue
		}
		x.needs[d.Fold()] = left
	}
}

// ended notes that those who wait for the id have to be looked at.
func (x *index) ended(id ID) {
	for _, waiter := range x.needs[id.Fold()] {
		if r := x.live[waiter]; r != nil && r.blocked {
			r.check = true
			r.calls++
			x.checks[waiter] = true
		}
	}
}

// unblock makes a record whose dependencies are all completed ready.
func (x *index) unblock(r *record, now time.Time) {
	x.unqueue(r)
	r.blocked, r.check = false, false
	x.enqueue(r, now)
}

// due moves records whose time has come into their queues, and returns those
// whose deadline has passed.
func (x *index) due(now time.Time) (late []ID) {
	for len(x.waiting) > 0 && x.waiting[0].wake <= now.UnixMilli() {
		r := heap.Pop(&x.waiting).(*record)
		switch {
		case x.live[r.id] != r || r.state != Pending:
		case r.expires() > 0 && r.expires() <= now.UnixMilli():
			late = append(late, r.id)
		case !r.blocked && r.place < 0 && !r.taken && !r.held:
			x.ready(r)
			x.await(r, r.expires())
		}
	}
	return late
}

// nextDue is when the next waiting record's time comes; zero if none waits.
func (x *index) nextDue() time.Time {
	if len(x.waiting) == 0 {
		return time.Time{}
	}
	return time.UnixMilli(x.waiting[0].wake)
}

// ageStep is the waiting time after which a task rises one step of priority.
const ageStep = 15 * time.Minute

// standing is a record's rank among those that can be claimed at now: priority
// with ageing, then created, then id. Within one priority the older is always
// first, so a queue's head is its best.
func standing(r *record, now time.Time) int {
	aged := int(time.Duration(now.UnixMilli()-r.created) * time.Millisecond / ageStep)
	return min(r.priority+max(0, aged), len(task.Priorities)-1)
}

func ahead(a, b *record, now time.Time) bool {
	return cmp.Or(
		-cmp.Compare(standing(a, now), standing(b, now)),
		cmp.Compare(a.created, b.created),
		cmp.Compare(a.id, b.id),
	) < 0
}

// take removes the best record that fits from the queues and returns it; nil if
// there is none of that standing or a higher one. The caller gives it back with
// putBack, unless its claim came to pass.
func (x *index) take(fits func(class) bool, now time.Time, least int) *record {
	var best *record
	var number uint32 // in the base
	better := func(n uint32, r *record) {
		if best == nil || ahead(r, best, now) {
			best, number = r, n
		}
	}
	for c, q := range x.queues {
		if !fits(c) {
			continue
		}
		for p := range q {
			if len(q[p]) > 0 {
				better(0, q[p][0])
			}
		}
	}
	if x.base != nil {
		x.base.heads(fits, x.gone, better)
	}
	if best == nil || standing(best, now) < least {
		return nil
	}
	if best.place >= 0 {
		heap.Remove(&x.queues[best.class][best.priority], best.place)
	} else {
		x.gone[number] = true
		x.live[best.id] = best
	}
	best.taken = true
	return best
}

// putBack returns a taken record to its queue, if it is still to be had.
func (x *index) putBack(r *record, now time.Time) {
	r.taken = false
	if x.live[r.id] == r && r.state == Pending && r.place < 0 && !r.blocked && !r.held {
		x.unqueue(r)
		x.enqueue(r, now)
	}
}

// inProgress returns the ids of claimed tasks. They all lie in memory: a
// snapshot's are loaded with it.
func (x *index) inProgress() []ID {
	var ids []ID
	for id, r := range x.live {
		if r.state == InProgress {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (h *timeHeap) add(r *record, at int64) {
	r.wake = at
	heap.Push(h, r)
}
