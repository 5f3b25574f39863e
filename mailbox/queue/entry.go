package queue

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"mbox/mailbox/task"
)

// Class is what tasks have in common that decides who may take them.
type Class struct {
	Target string `json:"target"`
	Type   string `json:"type"`
	Action string `json:"action"` // its name, "" for a thinking task
}

// Entry is what the queue knows of one live task (pending or in progress). It is
// made from ledger lines alone. Times are Unix milliseconds; 0 is none.
type Entry struct {
	Class
	ID        task.ID
	State     task.State
	Priority  int // rank
	Created   int64
	NotBefore int64
	Deadline  int64
	Until     int64 // lease's deadline as the last line knows it
	Since     int64 // in this state
	After     task.Digest
	Asked     task.Digest
	Claim     task.Digest // of the token, while in progress
	Claimant  string
	Revision  int64
	Epoch     int64
	Attempt   int64
	Max       int64
	DependsOn []task.ID
	Parent    task.ID   // who waits for it; "" if it is no child of a delegation
	Born      int64     // the parent's epoch in which it was made
	WaitsFor  []task.ID // its own children, until the next time it is handed on
	Join      string
	Paths     []string // no other task in progress may have one of them

	Blocked bool // waits for a dependency, or for its children
	Held    bool // waits for an approval; this process has been told so
	Alarmed bool // an alarm about it stands in the ledger

	check bool    // one of those that it waits for may have ended: look
	calls int     // how often one of them had a line since this process knows the entry
	taken bool    // a goroutine of this process is trying to claim it
	wake  int64   // when it is to be looked at
	bars  task.ID // has one of its paths, as far as somebody has looked; "" for nobody
	place [2]int  // in its heap by turn and in that by time, from 1 on; 0 when not there
}

func (e *Entry) copy() *Entry {
	c := *e
	return &c
}

// Awaits are the ids whose end a blocked entry waits for.
func (e *Entry) Awaits() []task.ID { return slices.Concat(e.DependsOn, e.WaitsFor) }

// Expires is when the task fails if nobody has taken it by then; 0 is never: it
// has no deadline, or it was taken once.
func (e *Entry) Expires() int64 {
	if e.Epoch > 0 {
		return 0
	}
	return e.Deadline
}

// ageStep is the waiting time after which a task rises one step of priority.
const ageStep = 15 * time.Minute

// standing is an entry's rank among those that can be claimed at now: priority
// with ageing. Within one priority the older is always first, so a heap's head is
// its best.
func (e *Entry) standing(now time.Time) int {
	aged := int(time.Duration(now.UnixMilli()-e.Created) * time.Millisecond / ageStep)
	return min(e.Priority+max(0, aged), len(task.Priorities)-1)
}

// age orders entries of one standing: by created, then id.
func (e *Entry) age(o *Entry) int {
	return cmp.Or(cmp.Compare(e.Created, o.Created), cmp.Compare(e.ID, o.ID))
}

// inRun tells whether the entry can be in a run of a snapshot. A child of a
// delegation is in none, so that it is always in memory and known when its parent
// ends; nor is a task with a deadline, which has to be looked at when that passes, or
// one with paths, which others may have.
func (e *Entry) inRun(now int64) bool {
	return e.State == task.Pending && !e.Blocked && e.NotBefore <= now && e.Parent == "" && e.Expires() == 0 && len(e.Paths) == 0
}

// runs orders entries by run, and as they stand in it.
func (e *Entry) runs(o *Entry) int {
	return cmp.Or(
		cmp.Compare(e.Target, o.Target), cmp.Compare(e.Type, o.Type), cmp.Compare(e.Action, o.Action),
		cmp.Compare(e.Priority, o.Priority), e.age(o),
	)
}

// codec writes an entry's binary form, or reads it: each value is named once, for
// both.
type codec struct {
	data  []byte // written so far, or still to be read
	reads bool
	bad   bool // what is read is no entry
}

func (e *Entry) code(c *codec) {
	text(c, &e.ID)
	c.state(&e.State)
	for _, s := range []*string{&e.Target, &e.Type, &e.Action, &e.Claimant, &e.Join} {
		text(c, s)
	}
	text(c, &e.Parent)
	priority := int64(e.Priority)
	for _, v := range []*int64{
		&priority, &e.Created, &e.NotBefore, &e.Deadline, &e.Until, &e.Since, &e.Revision, &e.Epoch, &e.Attempt, &e.Max, &e.Born,
	} {
		c.number(v)
	}
	e.Priority = int(priority)
	for _, d := range []*task.Digest{&e.After, &e.Asked, &e.Claim} {
		c.digest(d)
	}
	for _, f := range []*bool{&e.Blocked, &e.check, &e.Alarmed} {
		c.flag(f)
	}
	texts(c, &e.DependsOn, task.MaxDependsOn)
	texts(c, &e.WaitsFor, task.MaxChildren)
	texts(c, &e.Paths, task.MaxPaths)
	c.bad = c.bad || e.Priority < 0 || e.Priority >= len(task.Priorities)
}

// next is what is read next: size bytes.
func (c *codec) next(size int64) []byte {
	if size < 0 || size > int64(len(c.data)) {
		c.bad, c.data = true, nil
		return nil
	}
	part := c.data[:size]
	c.data = c.data[size:]
	return part
}

func (c *codec) number(v *int64) {
	if !c.reads {
		c.data = binary.AppendVarint(c.data, *v)
		return
	}
	if len(c.data) > 0 && c.data[0] < 0x80 { // nearly all are of one byte
		n := int64(c.data[0] >> 1)
		if c.data[0]&1 != 0 {
			n = ^n
		}
		*v, c.data = n, c.data[1:]
		return
	}
	n, size := binary.Varint(c.data)
	if size == 0 {
		size = -1 // nothing is there
	}
	c.next(int64(size))
	*v = n
}

func (c *codec) state(s *task.State) {
	n := int64(task.FolderIndex(*s))
	if c.number(&n); !c.reads {
		return
	}
	if n < 0 {
		*s = ""
		return
	}
	if c.bad = c.bad || n >= int64(len(task.Folders)); !c.bad {
		*s = task.Folders[n]
	}
}

func text[S ~string](c *codec, s *S) {
	size := int64(len(*s))
	c.number(&size)
	if c.reads {
		if part := c.next(size); string(part) != string(*s) { // of many entries most have the same
			*s = S(part)
		}
		return
	}
	c.data = append(c.data, *s...)
}

func (c *codec) digest(d *task.Digest) {
	if !c.reads {
		c.data = append(c.data, d[:]...)
		return
	}
	copy(d[:], c.next(int64(len(d))))
}

func (c *codec) flag(f *bool) {
	n := int64(0)
	if *f {
		n = 1
	}
	c.number(&n)
	*f = n != 0
}

func texts[S ~string](c *codec, all *[]S, most int64) {
	n := int64(len(*all))
	c.number(&n)
	if c.reads {
		c.bad = c.bad || n < 0 || n > most
		if *all = nil; c.bad || n == 0 {
			return
		}
		*all = make([]S, n)
	}
	for i := range *all {
		text(c, &(*all)[i])
	}
}

// encode appends the entry's binary form.
func (e *Entry) encode(data []byte) []byte {
	c := codec{data: data}
	e.code(&c)
	return c.data
}

// decode reads what encode has written, into an entry that is new or was decoded.
func (e *Entry) decode(data []byte) error {
	c := codec{data: data, reads: true}
	if e.code(&c); c.bad {
		return errNoSnapshot
	}
	return nil
}
