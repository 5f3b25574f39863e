package main

const pathsGo, queuePathsGo = "mailbox/task/paths.go", "mailbox/queue/paths.go"

func taskTest(run string) command { return command{"mailbox/task", run} }

// pathsMutants let two tasks work on the same files, or keep one from working at all;
// and have mbox run and mbox worker --only-named do more than they say.
var pathsMutants = []mutant{
	{
		"paths-under-no-lock", "paths", "mailbox/claim.go",
		"	return b.tryShard(ctx, home.Delegations)\n", "	return &shard{lock: b.shards[home.Delegations]}, nil\n",
		boxTest("TestPathsHoldDelegations"),
	},
	{
		"paths-not-looked-at-again", "paths", "mailbox/claim.go",
		"		if b.queue.InTheWay(id) != nil {\n			return nil, errNotReady\n		}\n", "",
		boxTest("TestPathsInTheWay"),
	},
	{
		"paths-of-the-snapshot-lost", "paths", "mailbox/queue/entry.go",
		"	texts(c, &e.Paths, task.MaxPaths)\n", "",
		boxTest("TestPathsInTheWay"),
	},
	{
		"work-of-the-snapshot-forgotten", "paths", "mailbox/queue/follow.go",
		"		q.occupy(e)\n", "",
		boxTest("TestPathsInTheWay"),
	},
	{
		"barred-for-ever", "paths", queuePathsGo,
		"			x.putBack(e, s.at)\n", "",
		boxTest("TestPathsInTheWay"),
	},
	{
		"barred-and-not-woken", "paths", queuePathsGo,
		"e.bars, x.waits = w.ID, true", "e.bars = w.ID",
		boxTest("TestPathsWake"),
	},
	{
		"family-in-its-own-way", "paths", queuePathsGo,
		" && !x.descends(e, w.ID) && !x.descends(w, e.ID)", "",
		boxTest("TestPathsOfFamily"),
	},
	{
		"paths-lost-by-hand", "paths", "mailbox/reconcile.go",
		" Paths: old.Paths,", "",
		boxTest("TestPathsAreKept"),
	},
	{
		"paths-not-asked", "paths", "mailbox/task/move.go",
		"		m.Paths,\n", "		nil,\n",
		taskTest("TestPathsAreAsked"),
	},
	{
		"run-for-somebody-else", "run", "cmd/mbox/cmd_run.go",
		"	t.Mbox.MaxAttempts = 1 // nobody else has its command\n", "",
		command{"cmd/mbox", "TestScripts/^run$"},
	},
	{
		"run-outlives-mbox", "run", "cmd/mbox/cmd_run.go",
		"	if err := r.claim.Started(cmd.Process.Pid); err != nil {", "	if err := error(nil); err != nil {",
		command{"cmd/mbox", "TestScripts/^run$"},
	},
	{
		"only-named-takes-any", "run", "mailbox/claim.go",
		" && !r.OnlyNamed", "",
		command{"cmd/mbox", "TestScripts/^worker$"},
	},
	{
		"path-of-half-a-name", "paths", pathsGo,
		"strings.HasPrefix(p, folder+\"/\")", "strings.HasPrefix(p, folder)",
		taskTest("TestOverlap$"),
	},
	{
		"path-of-two-spellings", "paths", pathsGo,
		" || p != clean ||", " ||",
		taskTest("TestPaths$"),
	},
	{
		"path-outside", "paths", pathsGo,
		"outside || ", "",
		taskTest("TestPaths$"),
	},
}
