package main

const (
	sightGo   = "cmd/mbox/sight/sight.go"
	mcpWorkGo = "cmd/mbox/mcp/work.go"
	mcpAskGo  = "cmd/mbox/mcp/ask.go"

	mcpChannelsGo = "cmd/mbox/mcp/channels.go"
)

func mcpTest(run string) command { return command{"cmd/mbox/mcp", run} }

// mcpMutants break what an MCP client may see and do.
var mcpMutants = []mutant{
	{
		"mcp-hidden-task-shown", "security", sightGo,
		"\tif !yes {\n\t\treturn nil, \"\", task.About(", "\tif !yes && false {\n\t\treturn nil, \"\", task.About(",
		mcpTest("TestSight"),
	},
	{
		"mcp-hidden-lines-shown", "security", sightGo,
		"\treturn v.about(ctx, l.Agent(), l.Task())", "\treturn true, nil",
		mcpTest("TestSight"),
	},
	{
		"mcp-hidden-records-shown", "security", sightGo,
		"\tcase id == \"\":\n\t\treturn false, nil\n", "\tcase id == \"\":\n\t\treturn true, nil\n",
		mcpTest("TestRecords"),
	},
	{
		"mcp-tree-not-seen", "security", sightGo,
		"\tif t.Mbox.RootID == \"\" {", "\tif true {",
		mcpTest("TestSightOfTree"),
	},
	{
		"mcp-after-hidden-task", "security", mcpAskGo,
		"err != nil && s.o.Agent != \"\" {\n\t\t\treturn outcome{}, fmt", "err != nil && false {\n\t\t\treturn outcome{}, fmt",
		mcpTest("TestSight"),
	},
	{
		"mcp-token-shown", "security", sightGo,
		"\t\tlease.Token = \"\"\n", "",
		mcpTest("TestTokenIsNotShown"),
	},
	{
		"mcp-token-of-another", "security", mcpWorkGo,
		"by != nil && *by != s.o.Agent {", "by != nil && false {",
		mcpTest("TestTokenIsNotShown"),
	},
	{
		"mcp-claims-without-agent", "security", "cmd/mbox/mcp/mcp.go",
		"if o.Agent != \"\" {\n\t\t\ts.addWork()", "if true {\n\t\t\ts.addWork()",
		mcpTest("TestIdentityGivesTools"),
	},
	{
		"mcp-claims-twice", "7", mcpWorkGo,
		"\tif g.claim != nil {", "\tif false {",
		mcpTest("TestSaidAgain"),
	},
	{
		"mcp-claims-for-nobody", "7", mcpWorkGo,
		"\tif err := ctx.Err(); err != nil {\n\t\treturn claimOutput{}, errors.Join(", "\tif err := ctx.Err(); false {\n\t\treturn claimOutput{}, errors.Join(",
		mcpTest("TestClaimOfNobodyIsGivenBack"),
	},
	{
		"mcp-key-of-another", "7", mcpAskGo,
		"!t.Repeats(made) {", "false {",
		mcpTest("TestSaidAgain"),
	},
	{
		"mcp-record-twice", "7", "cmd/mbox/mcp/record.go",
		"again := id != \"\"", "again := false",
		mcpTest("TestRecords"),
	},
	{
		"mcp-task-undeclared", "security", "cmd/mbox/mcp/extension.go",
		"\tcase declares(p.Meta):", "\tcase true:",
		mcpTest("TestExtensionRefuses"),
	},
	{
		"mcp-speaks-without-claim", "channels", mcpChannelsGo,
		"case f.s.o.Agent != \"\":\n\t\treturn nil, &advised{errors", "case f.s.o.Agent == \"any\":\n\t\treturn nil, &advised{errors",
		mcpTest("TestChannels"),
	},
	{
		"mcp-speaks-as-person", "channels", mcpChannelsGo,
		"case f.s.o.Person != nil:", "case false:",
		mcpTest("TestPersonSpeaks"),
	},
	{
		"mcp-acks-unseen", "channels", mcpChannelsGo,
		"if _, _, err := f.s.task(ctx, id); err != nil {", "if _, _, err := f.s.task(ctx, id); err != nil && false {",
		mcpTest("TestChannels"),
	},
	{
		"messages-left-out", "channels", "mailbox/post.go",
		"of.Limit > 0 && !of.First && len(said)", "of.Limit > 0 && len(said)",
		mcpTest("TestReadChannel"),
	},
	{
		"mcp-agents-are-people", "channels", "cmd/mbox/cmd_mcp.go",
		"return firstError(posting.byPerson(), posting.byNoWorker(ctx, box))", "return nil",
		command{"cmd/mbox", "TestScripts/mcp$"},
	},
}
