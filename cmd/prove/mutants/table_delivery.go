package main

const (
	deliveryGo = "agents/chat/delivery.go"
	receiptGo  = "mailbox/task/receipt.go"
)

// deliveryMutants break how results come back.
var deliveryMutants = []mutant{
	{
		"delivery-without-intent", "bridges", deliveryGo,
		"if fault := d.receive(ctx, r, receipt, \"is about to send the result of\"); fault != nil || !d.still(r, t) {", "if fault := error(nil); fault != nil || !d.still(r, t) {",
		chatTest("TestDeliveredOnce"),
	},
	{
		"delivery-not-searched-for", "bridges", deliveryGo,
		"if s, ok := d.o.Channel.(Searcher); ok {", "if s, ok := d.o.Channel.(Searcher); ok && s == nil {",
		chatTest("TestKilledBetween"),
	},
	{
		"delivery-repeated-in-silence", "bridges", deliveryGo,
		"\tn.Text = repeated(n.Text, d.o.Kind.Limits)\n", "",
		chatTest("TestKilledBetween"),
	},
	{
		"delivery-key-of-each-try", "bridges", deliveryGo,
		"r.ID, r.Epoch, r.End, part))", "r.ID, r.Epoch, r.End, time.Now().UnixNano()+int64(part)))",
		chatTest("TestKilledBetween"),
	},
	{
		"delivery-of-children", "bridges", receiptGo,
		"strings.HasPrefix(e.Agent, Bridge) && !child", "strings.HasPrefix(e.Agent, Bridge) && (!child || true)",
		chatTest("TestChildUnderTheBridgesName"),
	},
	{
		"delivery-for-other-bridges", "bridges", "agents/chat/outbox.go",
		"return task.AskedByBridge(e, m) && (o.only == \"\" || e.Agent == o.only)", "return task.AskedByBridge(e, m)",
		chatTest("TestOnlyWhoAskedIsAnswered"),
	},
	{
		"delivery-of-forged-drops", "bridges", "agents/chat/outbox.go",
		"return task.AskedByBridge(e, m) && (o.only == \"\" || e.Agent == o.only)", "return m.Leaves() == mailbox.None",
		chatTest("TestForgedDropIsNotAnswered"),
	},
	{
		"delivery-without-a-way-back", "bridges", "agents/chat/bridge.go",
		"return r.Kind.OneWay != nil && r.Kind.OneWay(r.Settings)", "return false",
		chatTest("TestNoWayBack"),
	},
	{
		"delivery-retained-for-ever", "bridges", receiptGo,
		"case Retained, Seen, Acknowledged:", "case Seen, Acknowledged:",
		chatTest("TestNoWayBack"),
	},
	{
		"openclaw-numbers-for-channels", "bridges", "agents/chat/openclaw/openclaw.go",
		"target = form + target", "target += form[:0]",
		command{"agents/chat/openclaw", "TestPlaces"},
	},
	{
		"openclaw-account-for-a-group", "bridges", "agents/chat/openclaw/openclaw.go",
		"{0,63}))??:(direct", "{0,63}))?:(direct",
		command{"agents/chat/openclaw", "TestPlaces"},
	},
	{
		"command-tells-the-text", "bridges", "agents/chat/command/command.go",
		"problem = strings.ReplaceAll(problem, p.Text, \"…\")", "problem += p.Text[:0]",
		command{"agents/chat/openclaw", "TestSendFails"},
	},
	{
		"bridge-settings-of-no-use", "bridges", "cmd/mbox/config/bridges.go",
		"if k.Sends {\n\t\treturn f.checkSender(key, b, k)\n\t}", "if k.Sends {\n\t\treturn nil\n\t}",
		configTest("TestBridgesAreChecked"),
	},
	{
		"delivery-of-nothing-to-see", "bridges", "agents/chat/cut.go",
		"case len(pieces) > 0 && blank(piece):", "case len(pieces) > 0 && piece == \"\":",
		chatTest("TestCut"),
	},
	{
		"delivery-to-strangers", "bridges", deliveryGo,
		"if !ok || d.o.Allowed != nil && !d.o.Allowed(to) {", "if !ok {",
		chatTest("TestForgedDropIsNotAnswered"),
	},
	{
		"delivery-of-edited-results", "bridges", deliveryGo,
		"f != nil && f.Hash != r.After", "f != nil && f.Hash == \"\"",
		chatTest("TestEditedResultIsNotSent"),
	},
	{
		"delivery-of-an-end-before", "bridges", "agents/chat/outbox.go",
		"if r == nil || r.End != receipt.End {", "if r == nil {",
		chatTest("TestReceiptOfAnEndBefore"),
	},
	{
		"delivery-kept-before-the-flush", "18", "agents/chat/kept.go",
		"err = d.o.Box.Ledger().Flushed(ctx)", "err = ctx.Err()",
		chatTest("TestRule18_KeptBehindTheFlush"),
	},
	{
		"delivery-secret-in-the-ledger", "bridges", "agents/chat/voice.go",
		"return id, c.secrets.scrubbed(err)", "return id, err",
		chatTest("TestNoSecretInTheLedger"),
	},
	{
		"archive-by-any-leg", "bridges", "mailbox/history/history.go",
		"r.End == t.Seq && r.Delivers()", "r.End == t.Seq",
		boxTest("TestArchiveByLeg"),
	},
	{
		"archive-by-a-part", "bridges", receiptGo,
		"return r.Part == r.Parts", "return true",
		boxTest("TestArchiveByLeg"),
	},
	{
		"archive-waits-for-drops", "bridges", receiptGo,
		"m.Leaves() == None && strings.HasPrefix(e.Agent, Bridge)", "m.Leaves() == None && (strings.HasPrefix(e.Agent, Bridge) || m.SourceSHA256 != \"\")",
		boxTest("TestArchiveOfForgedDrop"),
	},
	{
		"words-in-the-ledger", "bridges", "agents/chat/receipt.go",
		"\t\twhy = words.Err\n", "",
		chatTest("TestWordsStayOutOfTheLedger"),
	},
	{
		"command-words-in-the-ledger", "bridges", "agents/chat/command/command.go",
		"&chat.WordsError{Err: fmt.Errorf(\"%s: %w\", p.Argv[0], err), Words: p.brief(beginning(problem, maxSaid))}", "fmt.Errorf(\"%s: %w: %s\", p.Argv[0], err, p.brief(beginning(problem, maxSaid)))",
		command{"agents/chat/command", "TestSendFails"},
	},
	{
		"notify-alarms-again", "bridges", "agents/chat/notify.go",
		"\tif n.place.Alarmed {\n\t\treturn nil\n\t}\n", "",
		chatTest("TestNotifyAlarmsOnce"),
	},
	{
		"notify-forgets-what-failed", "bridges", "agents/chat/notify.go",
		"if fault := n.alarm(ctx, err); fault != nil || refused {", "if fault := n.alarm(ctx, err); true {",
		chatTest("TestNotifyAlarmsOnce"),
	},
}
