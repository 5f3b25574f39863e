package main

// familyMutants break the rules of delegation, which stand in section 5 of the
// design: who is whose child and for how long, when a parent goes on, what a tree
// may spend, and who has to agree.
var familyMutants = []mutant{
	{
		"orphans-live", "delegation", "mailbox/queue/queue.go",
		"\t\t\tids = append(ids, id)\n\t\t}\n\t}\n\tslices.Sort(ids)\n\treturn ids\n", "\t\t\tdelete(q.tend, id)\n\t\t}\n\t}\n\tslices.Sort(ids)\n\treturn ids\n",
		boxTest("TestOrphans$"),
	},
	{
		"child-of-any-claim", "delegation", "mailbox/queue/fold.go",
		"parent.State == task.InProgress && parent.Epoch == child.Born", "parent.State == task.InProgress",
		boxTest("TestOrphanOfAnEarlierClaim"),
	},
	{
		"child-of-no-claim", "delegation", "mailbox/queue/fold.go",
		"parent.State == task.InProgress && parent.Epoch == child.Born", "parent.State == task.None",
		boxTest("TestOrphans$"),
	},
	{
		"children-outlive-their-parent", "delegation", "mailbox/queue/fold.go",
		"\t\tx.tend[child] = true\n", "\t\tdelete(x.tend, child)\n",
		boxTest("TestParentEnds"),
	},
	{
		"any-is-all", "delegation", "mailbox/task/budget.go",
		"return completed >= 1", "return completed >= all",
		boxTest("TestJoin$"),
	},
	{
		"quorum-is-half", "delegation", "mailbox/task/budget.go",
		"completed >= all/2+1", "completed >= all/2",
		boxTest("TestJoin$"),
	},
	{
		"hopeless-join-waits", "delegation", "mailbox/task/budget.go",
		"!Succeeded(rule, all-failed, all)", "completed+failed == all",
		boxTest("TestJoin$"),
	},
	{
		"failed-child-never-ends", "delegation", "mailbox/task/budget.go",
		"return completed+failed == all", "return completed == all",
		boxTest("TestJoin$"),
	},
	{
		"one-child-too-many", "delegation", "mailbox/tree/delegation.go",
		"+int64(missing) > most", "+int64(missing) > most+1",
		boxTest("TestDelegateRefused/budget"),
	},
	{
		"same-children-paid-twice", "delegation", "mailbox/tree/delegation.go",
		"\t\t\tmissing++\n", "\t\t}\n\t\t{\n\t\t\tmissing++\n",
		boxTest("TestDelegateAgain"),
	},
	{
		"spent-budget-allows-one", "delegation", "mailbox/task/budget.go",
		"s[kind] >= limit[kind]", "s[kind] > limit[kind]",
		boxTest("TestBudget$"),
	},
	{
		"full-family-may-not-go-on", "delegation", "mailbox/task/budget.go",
		"kind != SpentChildren && s[kind]", "s[kind]",
		boxTest("TestEveryFamilyWriteFails/delegate"),
	},
	{
		"budget-unasked-at-claim", "delegation", "mailbox/permit.go",
		"kind := tree.Spent.Over(t.Mbox.Budget)", "kind := tree.Spent.Over(nil)",
		boxTest("TestBudget$"),
	},
	{
		"failed-write-is-free", "delegation", "mailbox/verbs.go",
		"\t\tc.Spend(ch.spent) //", "\t\t_ = ch.spent //",
		boxTest("TestSpentIsKept"),
	},
	{
		"approved-whatever-the-bytes", "delegation", "mailbox/permit.go",
		"d.Approves.SHA256 == hash && ", "",
		boxTest("TestApprove$"),
	},
	{
		"approved-for-ever", "delegation", "mailbox/permit.go",
		" && b.now().Before(d.Approves.Until.Time)", "",
		boxTest("TestApprovalEnds"),
	},
	{
		"approval-overlooked", "delegation", "mailbox/permit.go",
		"\tb.queue.Hold(t.ID, true) // first: an approval that comes behind the look lets it go\n\ta, err := b.approved(t.ID, f.Hash)\n", "\ta, err := b.approved(t.ID, f.Hash)\n\tb.queue.Hold(t.ID, true)\n",
		boxTest("TestApprovedDuringClaim"),
	},
	{
		"one-too-deep", "delegation", "mailbox/delegate.go",
		"depth >= int64(b.o.MaxDepth)", "depth > int64(b.o.MaxDepth)",
		boxTest("TestDelegateDepth"),
	},
	{
		"depth-unasked-at-claim", "delegation", "mailbox/permit.go",
		"t.Mbox.Depth >= int64(b.o.MaxDepth)", "t.Mbox.Depth > int64(b.o.MaxDepth)",
		boxTest("TestEveryFamilyWriteFails/refused_for_the_depth"),
	},
	{
		"circle-of-agents", "delegation", "mailbox/tree/delegation.go",
		"way := t.circle(by, to); way != nil", "way := t.circle(by, to); len(way) == 1",
		boxTest("TestDelegateSideways"),
	},
	{
		"circle-only-upwards", "delegation", "mailbox/tree/tree.go",
		"if q.Parent != \"\" && ", "if q.Parent == t.Root && ",
		boxTest("TestDelegateSideways"),
	},
	{
		"circle-of-tasks", "delegation", "mailbox/delegate.go",
		"\tif isDep(id) {\n", "\tif b == nil {\n",
		boxTest("TestDelegateRefused/on_its_parent"),
	},
	{
		"reviewed-behind-creation", "delegation", "mailbox/submit.go",
		"\tnotes, err := b.approvals.review(ctx, nil, n)\n\tif err != nil {\n\t\treturn \"\", err\n\t}\n\tid, err := b.sender.submitNew(ctx, nil, n, files, nil)\n", "\tid, err := b.sender.submitNew(ctx, nil, n, files, nil)\n\tnotes, refused := b.approvals.review(ctx, nil, n)\n\tif refused != nil {\n\t\treturn \"\", refused\n\t}\n",
		boxTest("TestReviewBeforeCreation"),
	},
	{
		"drop-unreviewed", "delegation", "mailbox/admit.go",
		"\tcase err != nil:\n\t\treturn 0, d.refuse(ctx, err)\n", "",
		boxTest("TestReview$"),
	},
	{
		"slow-check-refused-at-once", "delegation", "mailbox/checks.go",
		"if b.now().Sub(r.begun) < checkTime {", "if false {",
		boxTest("TestSlowReview"),
	},
	{
		"checks-without-end", "delegation", "mailbox/checks.go",
		"if running >= maxChecks {", "if false {",
		boxTest("TestSlowReview"),
	},
	{
		"refusal-unnoted", "delegation", "mailbox/permit.go",
		"errors.Join(refused, b.noteAll(ctx, s, t.ID, notes))", "refused",
		boxTest("TestReview$"),
	},
	{
		"snapshot-forgets-families", "delegation", "mailbox/queue/follow.go",
		"\t\tq.adopt(e)\n", "",
		boxTest("TestSnapshotKeepsFamilies"),
	},
	{
		"children-out-of-memory", "delegation", "mailbox/queue/entry.go",
		" && e.Parent == \"\"", "",
		boxTest("TestSnapshotKeepsFamilies"),
	},
	{
		"snapshot-of-any-version", "delegation", "mailbox/queue/snapshot.go",
		"s.head.V != home.SnapshotVersion || ", "",
		boxTest("TestOldSnapshot"),
	},
	{
		"end-overlooked", "delegation", "mailbox/queue/queue.go",
		"case e.calls == seen.calls:", "default:",
		boxTest("TestEndDuringLook"),
	},
	{
		"damaged-child-stops-all", "delegation", "mailbox/ready.go",
		"return None, false, nil // damaged by hand: an alarm says so, others go on", "return None, false, err",
		boxTest("TestHarmedChildAlarms"),
	},
	{
		"harmed-child-unnamed", "delegation", "mailbox/alarm.go",
		"if err != nil || state != None || settled {", "if err != nil || state == None || settled {",
		boxTest("TestHarmedChildAlarms"),
	},
	{
		"retried-child-is-an-orphan", "delegation", "mailbox/verbs.go",
		"m.Trigger = \"retry\"", "m.Trigger += \"\"",
		boxTest("TestRetryChild"),
	},
	{
		"child-of-every-claim", "delegation", "mailbox/delegate.go",
		"c.Task.Mbox.Epoch, i)", "0, i)",
		boxTest("TestFamilies"),
	},
	{
		"waiting-burns-an-attempt", "delegation", "mailbox/delegate.go",
		"\t\tm.Attempt = max(0, m.Attempt-1)\n", "",
		boxTest("TestDelegate$"),
	},
	{
		"siblings-unordered", "delegation", "mailbox/delegate.go",
		"m.DependsOn = append(slices.Clone(m.DependsOn), ids[before])", "m.DependsOn = append(slices.Clone(m.DependsOn), ids[before])[:0]",
		boxTest("TestDelegate$"),
	},
	{
		"family-read-anew", "delegation", "mailbox/tree/families.go",
		"f.of == nil || f.ledger.Check(f.at) != nil", "true",
		boxTest("TestFamily$"),
	},
	{
		"family-as-it-was", "delegation", "mailbox/tree/families.go",
		"!seen || end != f.at", "!seen || end.Seq < f.at.Seq || f.of == nil",
		boxTest("TestFamily$"),
	},
}
