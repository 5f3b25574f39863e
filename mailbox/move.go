package mailbox

import (
	"cmp"
	"time"

	"mbox/audit"
	"mbox/mailbox/artifact"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// change is a decided transition that has not happened yet. The decision is
// made under the shard's lock, from what was read there.
type change struct {
	id       ID
	by       string
	event    audit.Event
	from, to State
	task     *Task        // the new content; nil where no file is left
	before   string       // SHA-256 of the present file, as the ledger has it
	reason   string       // stands in the task's state_changes
	brief    string       // stands in the ledger; reason if empty. It holds no text of the work
	action   string       // the line's action, in words
	token    string       // of the lease that ends or begins
	lease    func() error // of a claim: makes its lease file
	extra    func(*task.Move)
	keep     *keeping
	left     *artifact.Set // of a completion: its artifacts; of a new task: what came with it
	checks   []string      // of a completion: what its result has passed
	spent    Budget        // debited with the line
	settled  bool          // the task's trail ends in to already
	stolen   bool          // set by commit: a stranger had moved the file to where a claim moves it
}

// endsLease tells whether the claim with the change's token is over by it: the
// task leaves in-progress, or somebody else has it there.
func (c *change) endsLease() bool {
	return c.from == InProgress && (c.to != InProgress || c.task.Mbox.Lease.Token != c.token)
}

// keeping is a foreign file that a transition puts into quarantine.
type keeping struct {
	path  string      // where it lies
	why   home.Reason // with the entry's name and, once it is staged, the SHA-256
	noted string      // SHA-256 of the reason file

	shared bool // somebody else could still write it
}

func (c *change) line(b *books, tx string, after string) (audit.Entry, *task.Move) {
	m := &task.Move{
		TX: tx, From: task.Field(c.from), To: task.Field(c.to), Reason: task.OneLine(cmp.Or(c.brief, c.reason)),
		Before: task.Field(c.before), After: task.Field(after), Writer: b.writer,
	}
	if t := c.task; t != nil {
		m.Revision, m.Epoch, m.Attempt = t.Mbox.Revision, t.Mbox.Epoch, t.Mbox.Attempt
		m.Root, m.Spent, m.Checks = t.Mbox.RootID, c.spent, c.checks
		switch c.to {
		case Pending:
			m.Queue = task.EnvelopeOf(t)
		case InProgress:
			m.Until, m.Claim = &t.Mbox.Lease.Deadline, b.saltedHash("token", t.Mbox.Lease.Token)
		}
	}
	if k := c.keep; k != nil {
		// The whole reason, which may quote what was dropped, lies beside the bytes.
		m.Kept = &task.Kept{Entry: k.why.Entry, SHA256: k.why.SHA256, Why: task.OneLine(cmp.Or(c.brief, k.why.Reason)), ReasonSHA256: k.noted, Shared: k.shared}
	}
	if c.extra != nil {
		c.extra(m)
	}
	return audit.Entry{
		Agent: c.by, Event: c.event, TaskID: new(string(c.id)), Session: b.Session(c.task), Action: c.action, Details: audit.Details(m),
	}, m
}

// stamp brings the parts of the task that follow the state up to date.
func (c *change) stamp(tx string, now time.Time) {
	t := c.task
	at := task.At(now)
	t.Updated = at
	t.Mbox.TX = tx
	t.Mbox.Revision++
	if c.to != Archived {
		t.Result.Status = c.to
	}
	if c.from != c.to && c.from != None && c.to != Archived && !c.settled || c.event == audit.TaskRejected {
		t.Audit.StateChanges = append(t.Audit.StateChanges, StateChange{From: cmp.Or(c.from, Pending), To: c.to, By: c.by, At: at, Reason: task.StateReason(c.reason)})
		t.Audit.Trim()
	}
	if c.to == Pending {
		t.Assignment.PickedUpBy, t.Assignment.PickedUpAt = nil, nil
		t.Mbox.Lease, t.Mbox.Progress = nil, nil
		t.Result.Output, t.Result.Artifacts, t.Result.Error = nil, []Artifact{}, nil
	}
}
