package main

const (
	agentGo     = "mailbox/agent.go"
	lifecycleGo = "mailbox/lifecycle/lifecycle.go"
)

// lifecycleMutants break the states of agents, and who may change them.
var lifecycleMutants = []mutant{
	{
		"paused-hears-nothing-to-claim", "lifecycle", "mailbox/claim.go",
		"\tif err := mayClaim(b.books, r.Agent); err != nil {\n\t\treturn nil, false, err\n\t}\n", "",
		boxTest("TestPausedMeanwhile"),
	},
	{
		"paused-takes-what-it-saw", "lifecycle", "mailbox/claim.go",
		"\tif err := mayClaim(b.books, r.Agent); err != nil {\n\t\treturn nil, err\n\t}\n", "",
		boxTest("TestPausedMeanwhile"),
	},
	{
		"dead-agents-are-paused", "lifecycle", agentGo,
		"!lifecycle.Legal(m.Before, m.After)", "m.Before == m.After",
		boxTest("TestPauseRefused"),
	},
	{
		"pause-without-a-look", "lifecycle", agentGo,
		"\tdefer s.unlock()\n\tif a, err = AgentOf(b, m.Agent); err", "\tdefer s.unlock()\n\tif a = b.queue.Agent(m.Agent); err",
		boxTest("TestPausedClaimsNothing"),
	},
	{
		"pause-shortened", "lifecycle", agentGo,
		"(p.Longer || said)", "(said)",
		boxTest("TestPauseEnds"),
	},
	{
		"pause-without-a-time", "lifecycle", agentGo,
		"if !p.Until.After(b.now()) || p.Until.UTC().Year() > 9999 {", "if !p.Until.After(b.now()) {",
		boxTest("TestPauseRefused"),
	},
	{
		"pause-already-over", "lifecycle", agentGo,
		"if !p.Until.After(b.now()) || p.Until", "if p.Until",
		boxTest("TestPauseRefused"),
	},
	{
		"pause-never-ends", "lifecycle", lifecycleGo,
		"a.Until != nil && !now.Before(a.Until.Time) {", "a.Until != nil && now.IsZero() {",
		command{"mailbox/lifecycle", "TestAgentAt"},
	},
	{
		"unborn-agents-claim-nothing", "lifecycle", lifecycleGo,
		"if a.State == Unborn || a.State == Paused", "if a.State == Paused",
		command{"mailbox/lifecycle", "TestAgentAt"},
	},
	{
		"draining-claims", "lifecycle", lifecycleGo,
		"return a.State == Healthy }", "return a.State != Paused && a.State != Dead }",
		command{"mailbox/lifecycle", "TestAgentAt"},
	},
	{
		"dead-comes-back", "lifecycle", lifecycleGo,
		"Dead:         {Provisioning},", "Dead:         {Provisioning, Healthy},",
		command{"mailbox/lifecycle", "TestMoves"},
	},
	{
		"any-line-moves-an-agent", "lifecycle", lifecycleGo,
		"if !Legal(m.Before, m.After) || m.Until", "if m.Until",
		command{"mailbox/lifecycle", "TestMoveOf"},
	},
	{
		"any-name-is-an-agent", "lifecycle", lifecycleGo,
		" || task.CheckAgent(m.Agent) != nil {", " {",
		command{"mailbox/lifecycle", "TestMoveOf"},
	},
	{
		"snapshot-forgets-agents", "lifecycle", "mailbox/queue/follow.go",
		"\tmaps.Copy(q.agents, s.head.Agents)\n", "\tmaps.Copy(q.agents, q.agents)\n",
		boxTest("TestPausedClaimsNothing"),
	},
	{
		"snapshot-lacks-agents", "lifecycle", "mailbox/queue/snapshot_write.go",
		"Agents: maps.Clone(x.agents), ", "",
		boxTest("TestPausedClaimsNothing"),
	},
	{
		"resume-unheard", "lifecycle", "mailbox/lookout.go",
		"(paused || l.p.b.queue.Waits())", "(false && paused || l.p.b.queue.Waits())",
		boxTest("TestWaitOfPaused"),
	},
	{
		"end-of-a-pause-unheard", "lifecycle", "mailbox/claim.go",
		"most := min(l.p.next(), untilClaims(b, err))", "most := min(l.p.next(), max(b.o.ScanInterval, untilClaims(b, err)))",
		boxTest("TestWaitOfPaused"),
	},
	{
		"why-hides-a-pause", "lifecycle", "mailbox/alarm.go",
		"case !now.Claims():", "case now.State == \"\":",
		boxTest("TestWhyPaused"),
	},
	{
		"quota-for-one-alone", "lifecycle", "agents/quota.go",
		"append([]string{s.Agent}, s.Fellows...)", "append([]string{s.Agent}, s.Fellows[:0]...)",
		command{"agents", "TestQuotaPausesTheAccount"},
	},
	{
		"quota-over-a-persons-pause", "lifecycle", "agents/quota.go",
		"Longer: true,", "Longer: false,",
		command{"agents", "TestQuotaPausesTheAccount"},
	},
	{
		"agents-environment-pauses", "rights", "cmd/mbox/approver.go",
		"\tif err := d.byPerson(); err != nil {\n\t\treturn err\n\t}\n", "",
		command{"cmd/mbox", "TestScripts/agent$"},
	},
	{
		"agents-command-pauses", "rights", "cmd/mbox/approver.go",
		"\t\tif err := d.byNoWorker(ctx, box); err != nil {\n\t\t\treturn err\n\t\t}\n", "",
		command{"cmd/mbox", "TestScripts/agent$"},
	},
	{
		"agents-board-pauses", "rights", "cmd/mbox/top/model.go",
		"case m.o.ReadOnly != \"\":\n\t\tm.note = \"pause", "case m.o.ReadOnly == \"\\x00\":\n\t\tm.note = \"pause",
		command{"cmd/mbox/top", "TestReadOnlyHasNoKeysThatChange"},
	},
	{
		"readers-pause", "rights", "cmd/mbox/gateway/agent.go",
		"path: \"/agents/{name}/pause\", needs: operate,", "path: \"/agents/{name}/pause\", needs: read,",
		doorTest("TestRights"),
	},
	{
		"readers-resume-by-form", "rights", "cmd/mbox/gateway/view.go",
		"path: \"/agent/{name}/{verb}\", needs: operate,", "path: \"/agent/{name}/{verb}\", needs: read,",
		doorTest("TestPageRights"),
	},
	{
		"agents-hear-of-others-pauses", "rights", "cmd/mbox/gateway/health.go",
		"!a.Claims() && (c.all() || c.agent == name)", "!a.Claims()",
		doorTest("TestPauseAndResume"),
	},
}
