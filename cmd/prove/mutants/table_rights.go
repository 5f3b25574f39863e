package main

// agentsTest is a test of package agents.
func agentsTest(run string) command { return command{"agents", run} }

// rightsMutants break the rules of what a child may do, and of who has to agree.
var rightsMutants = []mutant{
	{
		"refusal-with-what-was-asked", "texts", "agents/judge.go",
		"\t\treturn quotes.plain\n", "\t\treturn r.Error()\n",
		agentsTest("TestRefusedWordsAreNotNoted$"),
	},
	{
		"sandbox-left-by-the-child", "rights", "agents/policy/escalation.go",
		"return p.Sandbox == sandboxLandlock || q.Sandbox != sandboxLandlock", "return true",
		command{"agents/policy", "TestEveryAxisHolds"},
	},
	{
		"network-for-the-child", "rights", "agents/policy/escalation.go",
		"return !p.SandboxNetwork || q.SandboxNetwork", "return true",
		command{"agents/policy", "TestEveryAxisHolds"},
	},
	{
		"program-below-a-role", "rights", "agents/policy/escalation.go",
		"return !p.unbounded() || q.unbounded() || q.Level == Full", "return true",
		command{"agents/policy", "TestEveryAxisHolds"},
	},
	{
		"asked-less-than-the-parent", "rights", "agents/policy/escalation.go",
		"p.free(tool) && listed(q.AlwaysAsk, tool)", "false",
		command{"agents/policy", "TestEveryAxisHolds"},
	},
	{
		"more-approved-than-the-parent", "rights", "agents/policy/escalation.go",
		"p.free(tool) && q.NeedsApproval(tool)", "false",
		command{"agents/policy", "TestEveryAxisHolds"},
	},
	{
		"excluded-for-the-parent-only", "rights", "agents/policy/escalation.go",
		"p.Tool(tool) == nil && listed(q.ExcludedTools, tool)", "false",
		command{"agents/policy", "TestEveryAxisHolds"},
	},
	{
		"any-tool-for-the-child", "rights", "agents/policy/escalation.go",
		"p.Tool(tool) == nil && len(q.AllowedTools) > 0 && !listed(q.AllowedTools, tool)", "false",
		command{"agents/policy", "TestEveryAxisHolds"},
	},
	{
		"roots-as-they-are-written", "rights", "agents/policy/escalation.go",
		"return within(led(path), led(folder))", "return led != nil && within(path, folder)",
		command{"agents/policy", "TestBeyondFollowsRoots"},
	},
	{
		"right-without-an-axis", "rights", "agents/policy/escalation.go",
		"\tlimit(\"max_delegation_depth\", \"MaxDepth Delegates\", (*Policy).reach),\n", "",
		command{"agents/policy", "TestEveryRightHasAnAxis"},
	},
	{
		"artifacts-of-any-tree", "rights", "mailbox/inputs.go",
		"if !slices.Contains(parent.Mbox.DependsOn, other.ID) {", "if other.ID == \"\" {",
		command{"mailbox", "TestInputsOfAnotherTree"},
	},
	{
		"depth-is-the-childs", "rights", "agents/handon.go",
		"most := p.Team.maxDepth(p.policy); q.depth >= most {", "most := p.Team.maxDepth(p.policy); q.depth >= most && ask.Task == \"\" {",
		command{"agents", "TestDepthIsTheParents"},
	},
	{
		"command-unasked-at-claim", "rights", "agents/attempt.go",
		"if v, refused := p.entitled(); refused {", "if v, refused := p.entitled(); refused && hard == nil {",
		agentsTest("TestExecAgainstRoleAtClaim"),
	},
	{
		"bare-program-for-all", "rights", "agents/act.go",
		"	case asker != p.Agent && !p.answers():", "	case false && !p.answers():",
		agentsTest("TestBareProgramIsAsked"),
	},
	{
		"bare-program-sent-to", "rights", "agents/judge.go",
		"	refused := t.mayAsk(q.from, to)\n", "	refused := t.mayAsk(to, to)\n",
		agentsTest("TestBareProgramIsSent"),
	},
	{
		"thought-approved-in-advance", "rights", "mailbox/permit.go",
		"\tif f.Task.Mbox.Action == nil {\n", "\tif f.Task == nil {\n",
		boxTest("TestApproveNeedsAnAction"),
	},
	{
		"reply-done-unapproved", "rights", "agents/act.go",
		"return p.Team.asks(p.policy, s.name) != \"\"", "return p.task.Mbox.Action != nil && p.Team.asks(p.policy, s.name) != \"\"",
		agentsTest("TestAlwaysAskOfAReply"),
	},
	{
		"out-of-turn", "rights", "agents/handon.go",
		"child.After = []int{i - 1}", "child.After = nil",
		agentsTest("TestAlwaysAskOfAReply"),
	},
	{
		"own-child-is-deeper", "rights", "mailbox/tree/delegation.go",
		"\tif d.Own {\n\t\treturn parent.Mbox.Depth\n", "\tif d.Own {\n\t\treturn parent.Mbox.Depth + 1\n",
		boxTest("TestOwnChildren$"),
	},
	{
		"own-child-of-another", "rights", "mailbox/tree/delegation.go",
		"d.Own && (to != by || child.Task.Mbox.Action == nil)", "d.Own && child.Task.Mbox.Action == nil",
		boxTest("TestOwnChildrenRefused"),
	},
	{
		"own-child-thinks", "rights", "mailbox/tree/delegation.go",
		"d.Own && (to != by || child.Task.Mbox.Action == nil)", "d.Own && to != by",
		boxTest("TestOwnChildrenRefused"),
	},
	{
		"collecting-is-asked-for", "rights", "agents/judge.go",
		" || len(task.Mbox.WaitsFor) > 0", "",
		agentsTest("TestDelegationsAreApproved"),
	},
	{
		"approved-from-nowhere", "rights", "mailbox/permit.go",
		"From: schemas.Sentence(c.From, 200)", "From: schemas.Sentence(\"\", 200)",
		boxTest("TestApprovalTellsItsDoor"),
	},
	{
		"works-without-the-sandbox", "rights", "cmd/mbox/team.go",
		"if len(asking) == 0 {", "if len(asking) >= 0 {",
		command{"cmd/mbox", "TestScripts/no_landlock$"},
	},
	{
		"self-through-a-symlink", "rights", "agents/sandbox/rules.go",
		"if resolved(at) != at {", "if false {",
		command{"agents/sandbox", "TestRulesOfSelf$"},
	},
	{
		"protected-self", "rights", "agents/sandbox/rules.go",
		"r.keepClosed(self, nil)", "error(nil)",
		command{"agents/sandbox", "TestRulesOfSelf$"},
	},
	{
		"an-hour-for-each-name", "rights", "agents/hour.go",
		"{agent, manySenders * most}", "{agent + sender, manySenders * most}",
		agentsTest("TestHourOfManySenders"),
	},
	{
		"approved-unseen", "rights", "mailbox/permit.go",
		"c.SHA256 != \"\" && c.SHA256 != a.Sum()", "len(c.SHA256) == 1",
		boxTest("TestApproveWhatWasSeen"),
	},
	{
		"folders-unseen", "rights", "mailbox/permit.go",
		"if len(a.Folders) == 0 {", "if len(a.Folders) >= 0 {",
		boxTest("TestApproveWhatWasSeen"),
	},
	{
		"agent-approves-from-its-claim", "rights", "cmd/mbox/approver.go",
		"if agent := working[kin]; agent != \"\" {", "if agent := working[kin]; agent == \"\\x00\" {",
		command{"cmd/mbox", "TestScripts/approve$"},
	},
	{
		"agent-approves-by-a-clean-shell", "rights", "cmd/mbox/approver.go",
		"ofAgent(environment(kin)); name != \"\"", "ofAgent(environment(kin)); name == \"\\x00\"",
		command{"cmd/mbox", "TestScripts/approve$"},
	},
	{
		"any-key-is-a-yes", "rights", "cmd/mbox/top/model.go",
		"if name != \"y\" {", "if name == \"n\" {",
		command{"cmd/mbox/top", "TestChangesAreConfirmed"},
	},
	{
		"agents-board-changes", "rights", "cmd/mbox/top/model.go",
		"case m.o.ReadOnly != \"\":\n\t\tm.note = verb", "case m.o.ReadOnly == \"\\x00\":\n\t\tm.note = verb",
		command{"cmd/mbox/top", "TestReadOnlyHasNoKeysThatChange"},
	},
	{
		"titles-move-the-cursor", "rights", "cmd/mbox/top/columns.go",
		"clean(what), wide)", "what, wide)",
		command{"cmd/mbox/top", "TestNothingLeavesTheScreen"},
	},
	{
		"delegated-to-nobody", "rights", "agents/judge.go",
		"if refused := t.addressee(q.params); refused != nil {", "if refused := t.addressee(nil); refused != nil {",
		agentsTest("TestDelegationIsJudgedInOrder"),
	},
	{
		"approval-outside-the-index", "rights", "mailbox/queue/fold.go",
		"x.special[hash64(Approves+approval.SHA256)] = true", "_ = x.special[hash64(Approves+approval.SHA256)]",
		command{"mailbox", "TestManyWaitForApproval"},
	},
}
