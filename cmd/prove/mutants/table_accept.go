package main

const acceptGo = "mailbox/accept.go"

// acceptMutants break what results have to pass.
var acceptMutants = []mutant{
	{
		"completed-unchecked", "acceptance", verbsGo,
		"	if err := c.Check(ctx, r); err != nil {\n		return err\n	}\n", "",
		boxTest("TestChecksRefuse"),
	},
	{
		"check-of-the-agent-left-out", "acceptance", acceptGo,
		"slices.Concat(own.Accept, t.Mbox.Accept)", "t.Mbox.Accept",
		boxTest("TestChecksPassed"),
	},
	{
		"refused-and-not-failed", "acceptance", acceptGo,
		"			if err := c.Fail(context.WithoutCancel(ctx), failure); err != nil {\n				return err\n			}\n", "			_ = failure\n",
		boxTest("TestChecksRefuse"),
	},
	{
		"examined-twice", "acceptance", acceptGo,
		" || c.checked == request {\n", " {\n",
		boxTest("TestChecksPassed"),
	},
	{
		"ended-claim-examined", "acceptance", acceptGo,
		"	c.checked = request\n", "	c.checked = request + \"x\"\n",
		boxTest("TestChecksPassed"),
	},
	{
		"no-checks-known-is-fine", "acceptance", acceptGo,
		"return \"this process knows no checks\", nil", "return \"\", nil",
		boxTest("TestNoChecks"),
	},
	{
		"white-is-an-output", "acceptance", acceptGo,
		"strings.TrimSpace(task.TextOf(h.Output)) == \"\"", "strings.Trim(task.TextOf(h.Output), \"\") == \"\"",
		boxTest("TestChecksRefuse/white"),
	},
	{
		"lease-ends-while-examined", "acceptance", acceptGo,
		"func() { _ = renew() })", "func() {})",
		boxTest("TestCheckRenews$"),
	},
	{
		"lease-of-a-token-ends-while-examined", "acceptance", acceptGo,
		"	if c.lease == nil {\n", "	if c.lease == nil && c.token == \"\" {\n",
		boxTest("TestCheckRenews$"),
	},
	{
		"little-lease-left-to-examine", "acceptance", acceptGo,
		"l == nil || l.Deadline.Sub(c.box.now()) < 2*pause", "l == nil",
		boxTest("TestCheckRenewsFirst"),
	},
	{
		"checks-of-another-file", "acceptance", verbsGo,
		"checks, err := c.passed(f.Task, c.content(r))", "checks, err := c.checks(f.Task), error(nil)",
		boxTest("TestChecksOfAnotherFile"),
	},
	{
		"other-checks-are-enough", "acceptance", acceptGo,
		" || !slices.Equal(names, c.checks(c.Task))", "",
		boxTest("TestChecksOfAnotherFile"),
	},
	{
		"checks-lost-by-hand", "acceptance", "mailbox/reconcile.go",
		"Accept: old.Accept, ExpectOutput: old.ExpectOutput, ", "",
		boxTest("TestAttachmentsOfWorkByHand"),
	},
	{
		"attachments-lost-by-hand", "attachments", "mailbox/reconcile.go",
		" Attachments: old.Attachments,", "",
		boxTest("TestAttachmentsOfWorkByHand"),
	},
	{
		"attachments-shown-where-they-lay", "attachments", "cmd/mbox/cmd_show.go",
		"				in = there\n", "				_ = there\n",
		command{"cmd/mbox", "TestScripts/together$"},
	},
	{
		"attachments-in-a-strangers-folder", "attachments", "mailbox/transition.go",
		"c.from == None && err == nil {\n", "c.from == None && err == nil && s == nil {\n",
		boxTest("TestAttachmentsWhereSomethingLies"),
	},
	{
		"attachments-of-a-ledger-begun-anew", "attachments", "mailbox/forget.go",
		"if m.Attachments = t.Mbox.Attachments; t.Mbox", "if t.Mbox",
		boxTest("TestForgottenAttachments"),
	},
	{
		"keys-of-a-ledger-begun-anew", "attachments", "mailbox/forget.go",
		"				m.Key = r.b.sender.keyHash(t)\n", "",
		boxTest("TestForgottenAttachments"),
	},
	{
		"verdict-not-in-the-line", "acceptance", "mailbox/move.go",
		"m.Root, m.Spent, m.Checks = t.Mbox.RootID, c.spent, c.checks", "m.Root, m.Spent = t.Mbox.RootID, c.spent",
		boxTest("TestChecksPassed"),
	},
	{
		"checks-taken-out-by-hand", "acceptance", "mailbox/task/move.go",
		"m.Labels, m.Accept, m.ExpectOutput, m.Attachments,\n", "m.Labels, nil, false, m.Attachments,\n",
		boxTest("TestAcceptNames"),
	},
	{
		"check-outside-the-sandbox", "acceptance", "agents/accept.go",
		"confine: t.Confine(h.Agent),", "",
		command{"agents", "TestAcceptConfined"},
	},
	{
		"check-without-end", "acceptance", "agents/accept.go",
		"	late := time.NewTimer(c.Timeout)\n", "	late := time.NewTimer(time.Minute)\n",
		command{"agents", "TestAccept$"},
	},
	{
		"file-through-a-link", "acceptance", "agents/accept.go",
		"	switch info, err := root.Stat(name); {", "	switch info, err := os.Stat(filepath.Join(dir, name)); {",
		command{"agents", "TestAccept$"},
	},
	{
		"unknown-check-taken", "acceptance", "agents/judge.go",
		"if _, known := t.Checks[name]; !known {", "if _, known := t.Checks[name]; !known && false {",
		command{"cmd/mbox", "TestScript/^accept$"},
	},
	{
		"status-not-expected", "acceptance", "agents/action/http_check.go",
		"case c.Status != 0 && r.StatusCode != c.Status:", "case false:",
		command{"agents/action", "TestHTTPCheckExpects"},
	},
	{
		"header-not-expected", "acceptance", "agents/action/http_check.go",
		"case c.Header != \"\" && !slices.ContainsFunc(r.Header.Values(name), has):", "case c.Header != \"\" && !slices.ContainsFunc(r.Header.Values(name), has) && false:",
		command{"agents/action", "TestHTTPCheckExpects"},
	},
	{
		"named-claim-takes-another", "claims", claimGo,
		"	if r.ID != \"\" {\n		return claimThis(ctx, b, r)\n	}\n", "",
		command{"cmd/mbox", "TestScripts/^work$"},
	},
}
