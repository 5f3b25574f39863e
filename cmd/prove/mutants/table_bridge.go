package main

// chatTest is a test of the bridges.
func chatTest(run string) command { return command{"agents/chat", run} }

// bridgeMutants break the rules of who is heard by a bridge, and of what becomes of it.
var bridgeMutants = []mutant{
	{
		"bridge-for-anyone", "bridges", "agents/chat/rules.go",
		"case !g.known(m):", "case !g.known(m) && m.From == \"\":",
		chatTest("TestOnlyWhoIsAllowedIsHeard"),
	},
	{
		"bridge-in-any-room", "bridges", "agents/chat/rules.go",
		"case !g.Answers(m.In):", "case !g.Answers(m.In) && !m.In.Group:",
		chatTest("TestOnlyWhoIsAllowedIsHeard"),
	},
	{
		"bridge-without-proof", "bridges", "agents/chat/rules.go",
		"case g.RequireProof && m.Proof == \"\":", "case g.RequireProof && m.Proof == \"\" && m.From == \"\":",
		chatTest("TestASenderIsProvenWhereThatIsAsked"),
	},
	{
		"bridge-tells-strangers", "bridges", "agents/chat/intake.go",
		"return i.refuse(ctx, m, why)", "i.say(m, why)\n\t\treturn i.refuse(ctx, m, why)",
		chatTest("TestOnlyWhoIsAllowedIsHeard"),
	},
	{
		"bridge-takes-any-size", "bridges", "agents/chat/attach.go",
		"if err != nil || int64(len(data)) > most {", "if err != nil {",
		command{"agents/chat", "TestFilesThatAreLeftOut"},
	},
	{
		"bridge-takes-any-number", "bridges", "agents/chat/attach.go",
		"if n >= i.Rules.MaxAttachments {", "if n > task.MaxAttachments {",
		command{"agents/chat", "TestFilesThatAreLeftOut"},
	},
	{
		"bridge-takes-names-as-they-come", "bridges", "agents/chat/attach.go",
		"name := task.AttachmentName(f.Name)", "name := f.Name\n\t\tif n > task.MaxAttachments {\n\t\t\treturn nil, nil, nil\n\t\t}",
		command{"agents/chat", "TestFileNamesInAnswers"},
	},
	{
		"imsg-opens-any-file", "bridges", "agents/chat/imsg/watch.go",
		"root.OpenFile(below, ", "os.OpenFile(path, ",
		command{"agents/chat/imsg", "TestMessagesIn"},
	},
	{
		"bridge-without-key", "bridges", "agents/chat/intake.go",
		"t.Mbox.IdempotencyKey, t.Mbox.Labels = i.key(m.ID), labels", "t.Mbox.Labels = labels",
		chatTest("TestAMessageBecomesOneTask"),
	},
	{
		"bridge-key-of-any-account", "bridges", "agents/chat/intake.go",
		"[]string{i.Name, i.cursor.Kind, i.cursor.Account, id}", "[]string{i.Name, i.cursor.Kind, id}",
		chatTest("TestAnIDIsOfItsAccount"),
	},
	{
		"bridge-takes-control-characters", "bridges", "agents/chat/intake.go",
		"m.Text, m.Title = strings.TrimSpace(Plain(m.Text)),", "m.Text, m.Title = strings.TrimSpace(m.Text),",
		chatTest("TestAMessageBecomesOneTask"),
	},
	{
		"bridge-without-bounds", "bridges", "agents/chat/rules.go",
		"over := b.used + 1 - float64(burst); over > 0", "over := b.used + 1 - float64(burst); over > 1e6",
		chatTest("TestTooManyAreRefusedAndToldOnce"),
	},
	{
		"bridge-anybody-approves", "bridges", "agents/chat/command.go",
		"(len(args) == 1 || len(args) == 2) && i.guard.operator(m):", "(len(args) == 1 || len(args) == 2):",
		chatTest("TestOnlyOperatorsApprove"),
	},
	{
		"bridge-approves-what-was-not-seen", "bridges", "agents/chat/command.go",
		"MatchString(seen), seen != code(w.Approve):", "MatchString(seen):",
		chatTest("TestOnlyOperatorsApprove"),
	},
	{
		"bridge-ends-others-tasks", "bridges", "agents/chat/command.go",
		"own := t.Source.Agent == i.agent && t.Source.User == m.From", "own := t.Source.Agent == i.agent",
		chatTest("TestCommandsAreForOnesOwnTasks"),
	},
	{
		"operator-in-clear", "bridges", "agents/chat/command.go",
		"mailbox.Person(i.Box, m.From)", "m.From",
		chatTest("TestOperatorsAreHashed"),
	},
	{
		"bridge-tells-a-room-of-others", "bridges", "agents/chat/command.go",
		"see: (own || operator) && (here || !m.In.Group)", "see: own || operator",
		chatTest("TestCommandsAreForOnesOwnTasks"),
	},
	{
		"bridge-place-before-the-flush", "18", "agents/chat/cursor.go",
		"if err := box.Ledger().Flushed(ctx); err != nil {", "if err := ctx.Err(); err != nil {",
		chatTest("TestRule18_PlaceBehindTheFlush"),
	},
	{
		"bridge-place-of-another-account", "bridges", "agents/chat/cursor.go",
		"was.Kind != c.Kind || was.Account != c.Account", "was.Kind != c.Kind",
		chatTest("TestPlaceIsKeptForItsAccount"),
	},
	{
		"bridge-without-lock", "bridges", "agents/chat/cursor.go",
		"lock, err := durable.TryLock(path)\n\tif err != nil {", "lock, err := durable.TryLock(path)\n\tif err != nil && !errors.Is(err, durable.ErrBusy) {",
		chatTest("TestOneProcessABridge"),
	},
	{
		"bridge-secret-in-the-log", "bridges", "agents/chat/bridge.go",
		"b.Log(\"%s\", r.secrets.scrub(fmt.Sprintf(format, a...)))", "b.Log(format, a...)",
		chatTest("TestAChannelIsCalledAgain"),
	},
	{
		"bridge-secret-for-agents", "bridges", "cmd/mbox/bridges.go",
		"if _, err := p.Read(file); err == nil {", "if _, err := p.Read(file); err == nil && file == \"\" {",
		command{"cmd/mbox", "TestScripts/bridge_up$"},
	},
	{
		"bridge-operators-by-name-alone", "bridges", "cmd/mbox/config/bridges.go",
		"case k.Claims && len(b.Operators) > 0 && !b.RequireProof:", "case k.Claims && len(b.Operators) > 9 && !b.RequireProof:",
		configTest("TestBridgesAreChecked"),
	},
	{
		"bridge-deaf-for-proof", "bridges", "cmd/mbox/config/bridges.go",
		"case b.RequireProof && !k.Claims:", "case b.RequireProof && !k.Claims && b.PerHour < 0:",
		configTest("TestBridgesAreChecked"),
	},
	{
		"bridge-secret-by-a-link", "bridges", "cmd/mbox/config/bridges.go",
		"err == nil && real != b.path(file) {", "err == nil && real == \"\" {",
		command{"cmd/mbox", "TestScripts/bridge_up$"},
	},
	{
		"bridge-approves-without-a-code", "bridges", "agents/chat/command.go",
		"\tcase seen == \"\":\n\t\treturn i.why(ctx, m, id)\n\tcase !regexp", "\tcase seen == \"\":\n\tcase !regexp",
		chatTest("TestOnlyOperatorsApprove"),
	},
	{
		"bridge-code-of-half", "bridges", "agents/chat/command.go",
		"utf8.RuneCountInString(params) <= mostShown && ", "utf8.ValidString(params) && ",
		chatTest("TestNoCodeForHalf"),
	},
	{
		"bridge-code-of-what-is-not-sent", "bridges", "agents/chat/command.go",
		" && i.fits(strings.Join(all, \"\\n\"))", "",
		chatTest("TestNoCodeForHalf"),
	},
	{
		"bridge-approves-again", "bridges", "agents/chat/command.go",
		"spent || err != nil {", "spent && err != nil || err != nil {",
		chatTest("TestOnlyOperatorsApprove"),
	},
	{
		"bridge-for-agents-commands", "bridges", "cmd/mbox/cmd_send.go",
		"if !strings.HasPrefix(t.Source.Agent, task.Bridge) {", "if !strings.HasPrefix(t.Source.Agent, task.Bridge+\"no\") {",
		command{"cmd/mbox", "TestScripts/bridge$"},
	},
	{
		"bridge-counts-repetitions", "bridges", "agents/chat/intake.go",
		"return id != \"\", err", "return false, err",
		chatTest("TestWhatComesAgainIsNotCounted"),
	},
	{
		"bridge-heard-twice", "bridges", "cmd/mbox/config/bridges.go",
		"return common(ours, theirs) ||", "return",
		configTest("TestNobodyIsHeardTwice"),
	},
	{
		"bridge-room-heard-twice", "bridges", "cmd/mbox/config/bridges.go",
		"chat.Anyone) && common(b.Rooms, o.Rooms)", "chat.Anyone) && b == o",
		configTest("TestNobodyIsHeardTwice"),
	},
	{
		"bridge-operator-in-a-flood", "bridges", "agents/chat/rules.go",
		"wait == 0 && !slices.Contains(g.Operators, from) {", "wait == 0 {",
		chatTest("TestTooManyAreRefusedAndToldOnce"),
	},
	{
		"bridge-place-of-an-old-token", "bridges", "agents/chat/cursor.go",
		"if kind.Account != nil {", "if kind.Account != nil && who == \"\" && s.Token != \"\" {",
		chatTest("TestPlaceIsKeptForItsAccount"),
	},
	{
		"bridge-repetition-unflushed", "18", "mailbox/submit.go",
		"return id, b.ledger.Flushed(ctx)", "return id, nil",
		chatTest("TestRule18_PlaceBehindTheFlush"),
	},
	{
		"bridge-ended-by-a-full-disk", "bridges", "cmd/mbox/bridges.go",
		"case err == nil, ctx.Err() != nil, errors.Is(err, chat.ErrSetup):", "case err == nil, ctx.Err() != nil, !busy:",
		command{"cmd/mbox", "TestABridgeBeginsAgain"},
	},
	{
		"bridge-answers-again", "bridges", "agents/chat/intake.go",
		"i.done.add(i.key(m.ID))", "",
		chatTest("TestWhatComesAgainIsNotCounted"),
	},
}
