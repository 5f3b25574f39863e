package mailbox

import "time"

// mem is a task of a mailbox in memory: the specification that TestModel holds
// mbox to. A verb tells what becomes of a task at a time, in Unix milliseconds,
// and what is answered. Tasks meet only in the order of claims.
type mem struct {
	id                 ID
	state              State
	rank, created      int64 // decide who is claimed first
	attempt, epoch     int64
	ready              int64 // pending: not to be had before
	until              int64 // in progress: the lease's deadline; 0 once the worker has died
	progress, last     int64 // its last progress, and its last move
	cancelled, retried bool  // by its last move
	rejected           bool  // the same
}

const memLease, memStep, memAttempts = int64(10 * time.Minute / time.Millisecond), int64(15 * time.Minute / time.Millisecond), 3

func (m mem) to(s State, now int64) mem {
	m.state, m.last, m.until, m.progress, m.cancelled, m.retried, m.rejected = s, now, 0, 0, false, false, false
	return m
}

// next is n where the verb may be said. Said again it is fine and does nothing.
func (m mem) next(n mem, may, again bool, refused error) (mem, error) {
	switch {
	case may:
		return n, nil
	case again:
		return m, nil
	}
	return m, refused
}

func (m mem) submit(now int64) (mem, error) {
	n := m.to(Pending, now)
	n.created = now
	return m.next(n, m.state == None, true, nil)
}

func (m mem) claim(now int64) (mem, error) {
	n := m.to(InProgress, now)
	n.attempt, n.epoch, n.ready, n.until = m.attempt+1, m.epoch+1, 0, now+memLease
	return m.next(n, m.state == Pending && m.ready <= now, false, ErrEmpty)
}

// before tells which of two tasks is claimed first. Waiting raises the rank.
func (m mem) before(o mem, now int64) bool {
	a, b := min(m.rank+(now-m.created)/memStep, 3), min(o.rank+(now-o.created)/memStep, 3)
	return a > b || a == b && (m.created < o.created || m.created == o.created && m.id < o.id)
}

// held is a verb of the claim with the epoch; it makes n of the task.
func (m mem) held(epoch int64, n mem) (mem, error) {
	return m.next(n, m.state == InProgress && m.epoch == epoch, false, ErrStale)
}

func (m mem) report(now int64) mem {
	if m.until > 0 && (m.progress == 0 || now-m.progress >= 1000) {
		m.progress, m.until = now, now+memLease
	}
	return m
}

func (m mem) fail(now int64) mem {
	if m.attempt >= memAttempts {
		return m.to(Failed, now)
	}
	m.ready = now
	return m.to(Pending, now)
}

func (m mem) release(now, ready int64) mem {
	m.attempt, m.ready = m.attempt-1, ready
	return m.to(Pending, now)
}

func (m mem) cancel(now int64) (mem, error) {
	n := m.to(Failed, now)
	n.cancelled = true
	return m.next(n, m.state == Pending || m.state == InProgress, m.cancelled, ErrConflict)
}

func (m mem) retry(now int64) (mem, error) {
	n := m.to(Pending, now)
	n.attempt, n.ready, n.retried = 0, 0, true
	return m.next(n, m.state == Failed && !m.rejected, m.retried, ErrConflict)
}

func (m mem) archive(now int64) (mem, error) {
	return m.next(m.to(Archived, now), (m.state == Completed || m.state == Failed) && m.last <= now, true, nil)
}

// scan takes back what nobody works on any more.
func (m mem) scan(now int64) (mem, error) {
	return m.next(m.fail(now), m.state == InProgress && now > m.until, true, nil)
}
