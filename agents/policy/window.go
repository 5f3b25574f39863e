package policy

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// Hour is the length of the window that max_actions_per_hour counts in.
	Hour = 3600 * time.Second
	// NoSender is the key of actions that nobody in particular has asked for.
	NoSender = "__global__"
)

// Window counts actions per sender in the hour that ends now. An action is
// reserved before it begins, then committed, or released if it was not done;
// it counts from the reservation until an hour after the commit.
//
// Share one between a parent and its children with [Window.Narrow]: all count in
// the same hour, each up to its own limit. Any number of goroutines may use it.
// It is memory only: who restarts fills it with [Window.Record].
type Window struct {
	limit  int
	shared *counts
}

// counts is what windows share.
type counts struct {
	now func() time.Time

	mu      sync.Mutex
	senders map[string]*sender
	sweep   time.Time // when to drop senders that have been quiet for an hour
}

// sender is one key's actions. Invariant: done is sorted.
type sender struct {
	open int // reserved, neither committed nor released
	done []time.Time
}

// NewWindow makes a window for at most limit actions in an hour; 0 allows none.
// A nil clock is time.Now.
func NewWindow(limit int, now func() time.Time) *Window {
	if now == nil {
		now = time.Now
	}
	return &Window{limit: limit, shared: &counts{now: now, senders: map[string]*sender{}}}
}

// Narrow gives a window that counts in the same hour and has a limit of its own,
// never above that of w.
func (w *Window) Narrow(limit int) *Window {
	return &Window{limit: min(limit, w.limit), shared: w.shared}
}

// Reservation is one action that counts already. Commit or Release it; the first
// of them counts, the rest do nothing.
type Reservation struct {
	shared *counts
	key    string
	ended  bool // under shared.mu
}

// Reserve counts one action of a sender; "" is NoSender. The error is a
// [*Denied] with rule action_budget that tells when the next one is free.
func (w *Window) Reserve(key string) (*Reservation, error) {
	c := w.shared
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.forget(now)
	s := c.sender(key)
	s.prune(now)
	if s.open+len(s.done) >= w.limit {
		return nil, w.full(key, s, now)
	}
	s.open++
	return &Reservation{shared: c, key: orNoSender(key)}, nil
}

// Used is how many actions of a sender count now.
func (w *Window) Used(key string) int {
	c := w.shared
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sender(key)
	s.prune(c.now())
	return s.open + len(s.done)
}

// Record counts an action that was done at a time, as the ledger knows it from
// before a restart. It has no limit.
func (w *Window) Record(key string, at time.Time) {
	c := w.shared
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sender(key).add(at)
}

// Commit keeps the action counted for an hour from now.
func (r *Reservation) Commit() { r.end(true) }

// Release takes the action back, as if it had never been asked for.
func (r *Reservation) Release() { r.end(false) }

func (r *Reservation) end(done bool) {
	c := r.shared
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	s := c.sender(r.key)
	s.open--
	if done {
		s.add(c.now())
	}
}

// full words the refusal.
func (w *Window) full(key string, s *sender, now time.Time) *Denied {
	d := &Denied{
		Rule: "action_budget", What: "an action for " + orNoSender(key),
		Why:  fmt.Sprintf("%d of %d actions in the last hour are used", s.open+len(s.done), w.limit),
		Hint: "raise max_actions_per_hour of the agent's table in runtime_profiles in mbox.toml",
	}
	over := s.open + len(s.done) - w.limit // so many must go, and one more
	switch {
	case w.limit <= 0:
		d.Why = "the agent may do nothing at all"
	case over < len(s.done):
		free := s.done[over].Add(Hour)
		d.Free = free
		d.Why += fmt.Sprintf("; the next is free at %s, in %s", free.UTC().Format(time.RFC3339), free.Sub(now).Round(time.Second))
	default:
		d.Why += "; the next is free when one of those under way has not been done, or an hour after"
	}
	return d
}

func orNoSender(key string) string {
	if key == "" {
		return NoSender
	}
	return key
}

func (c *counts) sender(key string) *sender {
	key = orNoSender(key)
	s := c.senders[key]
	if s == nil {
		s = &sender{}
		c.senders[key] = s
	}
	return s
}

// forget drops quiet senders, once an hour: they come from outside, and would
// otherwise only become more.
func (c *counts) forget(now time.Time) {
	if now.Before(c.sweep) && c.sweep.Sub(now) <= Hour {
		return
	}
	for key, s := range c.senders {
		if s.prune(now); s.open+len(s.done) == 0 {
			delete(c.senders, key)
		}
	}
	c.sweep = now.Add(Hour)
}

func (s *sender) add(at time.Time) {
	i, _ := slices.BinarySearchFunc(s.done, at, time.Time.Compare)
	s.done = slices.Insert(s.done, i, at)
}

// prune drops what is an hour old. What lies in the future, since the clock was
// set back, counts from now on, and so never for longer than an hour.
func (s *sender) prune(now time.Time) {
	old := 0
	for i, at := range s.done {
		if at.After(now) {
			s.done[i] = now
		} else if now.Sub(at) >= Hour {
			old = i + 1
		}
	}
	s.done = slices.Delete(s.done, 0, old)
}
