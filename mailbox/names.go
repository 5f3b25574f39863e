package mailbox

import (
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/mailbox/tree"
)

// The words of the packages below that everybody uses who has a mailbox.

type (
	Action      = task.Action
	Artifact    = task.Artifact
	Assignment  = task.Assignment
	Budget      = task.Budget
	Child       = tree.Child
	Delegation  = tree.Delegation
	ID          = task.ID
	Lease       = task.Lease
	Meta        = task.Meta
	Node        = tree.Node
	Progress    = task.Progress
	Refusal     = tree.Refusal
	Request     = task.Request
	Result      = task.Result
	Source      = task.Source
	State       = task.State
	StateChange = task.StateChange
	Task        = task.Task
	TaskError   = task.TaskError
	Time        = task.Time
	Tree        = tree.Tree
)

const (
	Archived       = task.Archived
	Completed      = task.Completed
	Failed         = task.Failed
	InProgress     = task.InProgress
	JoinAll        = task.JoinAll
	JoinAny        = task.JoinAny
	JoinQuorum     = task.JoinQuorum
	MaxDepth       = task.MaxDepth
	MaxDescription = task.MaxDescription
	MaxNew         = task.MaxNew
	MaxOutput      = task.MaxOutput
	MaxReason      = task.MaxReason
	MaxTask        = task.MaxTask
	MaxTitle       = task.MaxTitle
	None           = task.None
	Pending        = task.Pending
	SpentActions   = task.SpentActions
	SpentChildren  = task.SpentChildren
	SpentSeconds   = task.SpentSeconds
	SpentTokens    = task.SpentTokens
)

type OwnerError = home.OwnerError

var (
	ErrExists     = home.ErrExists
	ErrFileSystem = home.ErrFileSystem
	ErrFormat     = home.ErrFormat
	ErrGone       = home.ErrGone
	ErrIntegrity  = home.ErrIntegrity
	ErrLost       = home.ErrLost
	ErrNoMailbox  = home.ErrNoMailbox
	ErrNotFound   = task.ErrNotFound
	ErrOldFormat  = home.ErrOldFormat

	ErrOlderAtWork = home.ErrOlderAtWork
)
