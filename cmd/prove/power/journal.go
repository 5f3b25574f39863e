package main

import (
	"encoding/json"
	"os"
	"slices"
	"sync"
)

// never is the mark of an operation that was not acknowledged.
const never = 1 << 40

// An act is one operation on the mailbox, as it looks from outside: when it was
// begun, when it was acknowledged, and what must be seen of it from then on.
// Marks are places in the disk's log. What an act may have done lies behind
// Begun; what is on the disk at Acked must be enough to prove it.
type act struct {
	Verb  string
	ID    string // of the task or record; "" for those that concern no single one
	Begun int
	Acked int // never, if it was not

	State    string // of the task afterwards: open, completed, failed; "" for no change
	Event    string // of the ledger line
	Text     string // that must stand in the task's file, or in the record's
	Artifact string // path from the home, of a file that holds Text
	Late     bool   // refused, but Text must be kept in quarantine
	Token    string // of the claim that the act ended, or began
	Epoch    int    // of the claim
}

// The states of a task as the journal tells them. Whether a task waits or is
// worked on is the same to it: a reboot ends every claim.
const (
	open      = "open"
	completed = "completed"
	failed    = "failed"
)

// journal is the oracle. It lies outside the disk.
type journal struct {
	mu   sync.Mutex
	acts []*act
}

func (j *journal) add(a *act) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.acts = append(j.acts, a)
}

func (j *journal) drop(a *act) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.acts = slices.DeleteFunc(j.acts, func(b *act) bool { return a == b })
}

// keep writes the journal to a file, for whoever looks into a violation.
func (j *journal) keep(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out := json.NewEncoder(f)
	for _, a := range j.acts {
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return f.Close()
}

// acknowledged counts the acts that were acknowledged before the mark.
func (j *journal) acknowledged(until int) (n int) {
	for _, a := range j.acts {
		if a.Acked <= until {
			n++
		}
	}
	return n
}

// verdict is what the journal says of one task, or of one record, at a moment.
type verdict struct {
	must    []*act // acknowledged, in order
	may     []*act // begun and not acknowledged
	settled *act   // the last of must that set a state
}

// at sorts the acts of each task or record by whether they were acknowledged
// when the power failed. An id's acts never overlap, but for the last.
func (j *journal) at(until int) map[string]*verdict {
	told := map[string]*verdict{}
	for _, a := range j.acts {
		if a.ID == "" || a.Begun > until {
			continue
		}
		v := told[a.ID]
		if v == nil {
			v = &verdict{}
			told[a.ID] = v
		}
		if a.Acked > until {
			v.may = append(v.may, a)
			continue
		}
		v.must = append(v.must, a)
		if a.State != "" {
			v.settled = a
		}
	}
	return told
}

// acked is the mark at which the first act of the verb was acknowledged.
func (j *journal) acked(verb string) int {
	for _, a := range j.acts {
		if a.Verb == verb {
			return a.Acked
		}
	}
	return never
}
