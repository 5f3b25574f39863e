package task

import (
	"slices"

	"mbox/audit"
)

// State is where a task is. The folder it lies in is the truth; result.status
// and audit.state_changes follow it.
//
//	            submit, admit                    complete
//	(nothing) ────────────────▶ pending ─claim─▶ in-progress ─▶ completed ─▶ archive
//	    │                        ▲   │ ▲              │ │                      ▲
//	    │ reject           retry │   │ └─ release,    │ │ fail for good,       │
//	    │                        │   │    retry with  │ │ cancel               │
//	    │                        │   │    backoff ────┘ ▼                      │
//	    └────────────────────▶ failed ◀───────────── (dead letter) ────────────┘
//	                               ◀─ cancel, deadline, failed dependency
type State string

const (
	// Pending tasks wait in tasks/pending, put there by Submit, by admission of
	// a drop, or given back. They leave by a claim, a cancel, a passed deadline
	// or a failed dependency.
	Pending State = "pending"
	// InProgress tasks have a claimant and a lease. They leave by complete,
	// fail, release or cancel, or are reclaimed when the lease is over.
	InProgress State = "in-progress"
	// Completed tasks have a result. They leave to the archive only.
	Completed State = "completed"
	// Failed tasks have an error: cancelled, rejected, or out of attempts. They
	// leave by a retry or to the archive.
	Failed State = "failed"
	// Archived tasks lie in tasks/archive/<month>, with the status they ended in.
	Archived State = "archive"
	// None is where a task is before it is created and after it is gone.
	None State = ""
)

// Folders of live and ended tasks, in the order in which a task passes them.
var Folders = []State{Pending, InProgress, Completed, Failed}

type step struct{ from, to State }

// Moves tells which event makes which moves. It is the automaton that every
// writer obeys and verify checks.
var Moves = map[audit.Event][]step{
	audit.TaskCreated:   {{None, Pending}},
	audit.TaskRejected:  {{None, Failed}},
	audit.TaskPicked:    {{Pending, InProgress}},
	audit.TaskProgress:  {{InProgress, InProgress}},
	audit.TaskCompleted: {{InProgress, Completed}},
	audit.TaskFailed:    {{InProgress, Failed}, {Pending, Failed}},
	audit.TaskRetried:   {{InProgress, Pending}, {Failed, Pending}},
	audit.TaskReleased:  {{InProgress, Pending}},
	audit.TaskCancelled: {{Pending, Failed}, {InProgress, Failed}},
	audit.TaskEdited:    {{Pending, Pending}},
	audit.TaskArchived:  {{Completed, Archived}, {Failed, Archived}, {Archived, "pruned"}},
	audit.Reconcile: {
		{Pending, InProgress}, {InProgress, Completed}, {InProgress, Failed}, {InProgress, Pending}, {Pending, None},
	},
}

// Allowed tells whether the event may make the move. What an operator adopted
// by name may be any move.
func Allowed(e audit.Event, from, to State, adopted bool) bool {
	return e == audit.Reconcile && adopted || slices.Contains(Moves[e], step{from, to})
}

// Terminal tells whether the task has ended.
func (s State) Terminal() bool { return s == Completed || s == Failed || s == Archived }

// FolderIndex is a state's place among [Folders]; -1 for the others.
func FolderIndex(s State) int { return slices.Index(Folders, s) }

// Pruned is where a task is whose archive was pruned: only lines of it are left.
const Pruned State = "pruned"
