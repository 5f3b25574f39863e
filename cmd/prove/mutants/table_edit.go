package main

const (
	editGo  = "mailbox/edit.go"
	fieldGo = "mailbox/task/edit.go"
)

// editMutants break what holds when a task that waits is changed.
var editMutants = []mutant{
	{
		"edited-target-unasked-at-claim", "edit", claimGo,
		" || !b.fits(r)(rec.Class) {", " {",
		boxTest("TestEditAgainstClaim"),
	},
	{
		"edit-of-other-bytes", "edit", editGo,
		"err == nil && f.Hash != p.hash {", "err == nil && f.Hash == \"\" {",
		boxTest("TestEditTogether"),
	},
	{
		"edit-of-a-task-in-progress", "edit", editGo,
		"len(fields) > 0 && f.State != Pending", "len(fields) > 0 && f.State.Terminal()",
		boxTest("TestEditRefused"),
	},
	{
		"edit-of-no-task-yet", "edit", editGo,
		"gone == nil && !ended.State.Terminal()", "gone == nil && ended.State == InProgress",
		boxTest("TestEditDrop"),
	},
	{
		"edit-by-any-agent", "edit", editGo,
		"e.by != \"human\" && e.b.queue.Called(f.Task.Source.Agent) != e.by", "e.by == \"\"",
		boxTest("TestEditRefused"),
	},
	{
		"edit-unreviewed", "edit", editGo,
		"b.approvals.review(ctx, nil, p.task)", "b.approvals.review(ctx, nil, new(Task))",
		boxTest("TestEditIsReviewed"),
	},
	{
		"every-edit-asks-anew", "edit", editGo,
		"if p.changes(\"assignment.target_agent\") { // else", "if p.changes(\"task.priority\") || p.changes(\"assignment.target_agent\") { // else",
		boxTest("TestEditIsReviewed"),
	},
	{
		"edit-closes-a-circle", "edit", editGo,
		"if err == nil && p.waits() && !e.follows {", "if err == nil && p.changes(\"assignment.target_agent\") {",
		boxTest("TestEditCircles"),
	},
	{
		"two-edits-close-a-circle", "edit", editGo,
		"under, err := e.b.lockShardNumber(ctx, home.Delegations)", "under, err := e.b.lockShardNumber(ctx, home.Shard(\"key:\"+string(e.id)))",
		boxTest("TestEditHoldsDelegations"),
	},
	{
		"child-waits-for-its-parent", "edit", editGo,
		"\t\tway = waitingFor(b, at.ID, on)\n", "\t\tway = nil\n",
		boxTest("TestEditChildCircles"),
	},
	{
		"edited-child-asks-above", "edit", editGo,
		"child && p.changes(\"assignment.target_agent\")", "child && p.changes(\"mbox.labels\")",
		boxTest("TestEditChildCircles"),
	},
	{
		"edited-asker-forgotten", "edit", "mailbox/tree/tree.go",
		"t.graph[n.asker] = append(t.graph[n.asker], q.Target)", "t.graph[e.Agent] = append(t.graph[e.Agent], q.Target)",
		boxTest("TestEditChildCircles"),
	},
	{
		"retry-behind-an-edit", "7", verbsGo,
		"b.ledger.LastStep(id)", "b.ledger.LastMove(id)",
		boxTest("TestEditAfterRetry"),
	},
	{
		"edited-labels-byte-by-byte", "edit", fieldGo,
		"if a.Canonicalize() != nil || b.Canonicalize() != nil {", "if len(a) != len(b) {",
		boxTest("TestEdit$"),
	},
	{
		"edit-as-wide-as-the-file", "edit", fieldGo,
		"cmp.Or(now.asNew().Validate(), ", "cmp.Or(now.Sound(), ",
		boxTest("TestEditRefused"),
	},
	{
		"edit-of-a-full-file-refused", "edit", fieldGo,
		"now.asNew().Validate()", "now.Validate()",
		boxTest("TestEditLarge"),
	},
	{
		"deadline-that-does-nothing", "edit", fieldGo,
		"case deadline && t.Mbox.Epoch > 0:", "case deadline && t.Mbox.Epoch < 0:",
		boxTest("TestEditRefused"),
	},
	{
		"edited-fields-unskimmed", "32", "mailbox/queue/skim.go",
		"\"checks\", \"fields\":", "\"checks\":",
		command{"mailbox/queue", "TestRule32"},
	},
}
