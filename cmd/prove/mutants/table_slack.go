package main

func slackTest(run string) command { return command{"agents/chat/slack", run} }

// slackMutants break the bridge to Slack.
var slackMutants = []mutant{
	{
		"slack-acknowledged-untaken", "bridges", "agents/chat/slack/socket.go",
		"if err := c.take(ctx, e.Payload, me, in); err != nil {", "if err := c.take(ctx, e.Payload, me, in); err != nil && ctx.Err() != nil {",
		slackTest("TestAcknowledgedWhenTaken"),
	},
	{
		"slack-address-in-errors", "bridges", "agents/chat/slack/socket.go",
		"err = hidden.Err", "err = hidden",
		slackTest("TestSecretsInErrors"),
	},
	{
		"slack-programs-heard", "bridges", "agents/chat/slack/event.go",
		"e.Bot != \"\", e.User == me.User", "e.User == me.User",
		slackTest("TestReceive"),
	},
	{
		"slack-any-channel-heard", "bridges", "agents/chat/slack/event.go",
		"if !ok || m.In.Group && !slices.Contains(c.Rooms, m.In.Peer) {", "if !ok || m.In.Group && len(c.Rooms) == 0 && slices.Contains(c.Rooms, m.In.Peer) {",
		slackTest("TestReceive"),
	},
	{
		"slack-links-hidden", "bridges", "agents/chat/slack/event.go",
		"return label + \" (\" + target + \")\"", "return label",
		slackTest("TestReceive"),
	},
	{
		"slack-text-that-calls", "bridges", "agents/chat/slack/send.go",
		"\"text\": escaped(n.Text)", "\"text\": n.Text",
		slackTest("TestSend"),
	},
	{
		"slack-found-of-others", "bridges", "agents/chat/slack/send.go",
		"if m.User != me.User && (me.Bot == \"\" || m.Bot != me.Bot) || len", "if len",
		slackTest("TestSent"),
	},
	{
		"slack-first-page-alone", "bridges", "agents/chat/slack/send.go",
		"fields[\"cursor\"] = page.Next.Cursor; page.Next.Cursor == \"\" {", "fields[\"cursor\"] = page.Next.Cursor; true {",
		slackTest("TestSent"),
	},
	{
		"slack-unsearched-sent", "bridges", "agents/chat/slack/send.go",
		"return \"\", errLong", "return \"\", nil",
		slackTest("TestSent"),
	},
}
