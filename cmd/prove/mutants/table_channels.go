package main

func channelTest(run string) command { return command{"mailbox/channel", run} }

func talkTest(run string) command { return command{"mailbox", run} }

// channelsMutants break the rules of messages, and of how they come into inboxes.
var channelsMutants = []mutant{
	{
		"message-for-its-poster", "channels", "mailbox/channel/channel.go",
		"name != m.From && ", "",
		channelTest("TestAddress"),
	},
	{
		"message-twice-for-one", "channels", "mailbox/channel/channel.go",
		"!slices.ContainsFunc(m.Receivers, func(r Receiver) bool { return r.Agent == name })", "true",
		channelTest("TestAddress"),
	},
	{
		"mention-in-an-address", "channels", "mailbox/channel/channel.go",
		"at[0] > 0 && inWord(before)", "at[0] < 0 && inWord(before)",
		channelTest("TestNames"),
	},
	{
		"mention-of-a-host", "channels", "mailbox/channel/channel.go",
		" || goesOn(text[at[3]:])", "",
		channelTest("TestNames"),
	},
	{
		"message-id-of-mbox", "channels", "mailbox/channel/channel.go",
		"if folded := strings.ToLower(id); strings.HasPrefix(folded, createdPrefix) || strings.HasPrefix(folded, replyPrefix) {", "if false {",
		channelTest("TestCheckID"),
	},
	{
		"channel-above-its-folder", "channels", "mailbox/channel/channel.go",
		"^[a-z0-9][a-z0-9_-]{0,63}$", "^[a-z0-9.][a-z0-9_.-]{0,63}$",
		channelTest("TestCheck$"),
	},
	{
		"message-too-long", "channels", "mailbox/channel/channel.go",
		"len(m.Text) > MaxText", "len(m.Text) > 2*MaxText",
		channelTest("TestCheck$"),
	},
	{
		"message-of-other-words", "channels", "mailbox/channel/channel.go",
		" && m.Text == other.Text", "",
		channelTest("TestParse"),
	},
	{
		"message-id-in-capitals", "channels", "mailbox/post.go",
		"strings.ToLower(id)) }", "id) }",
		talkTest("TestPostMessage"),
	},
	{
		"message-over-another", "channels", "mailbox/post.go",
		"!any && !there.Same(m)", "false",
		talkTest("TestPostMessage"),
	},
	{
		"message-with-a-made-up-token", "channels", "mailbox/post.go",
		" || r.Claim != task.DigestOf(c.box.saltedHash(\"token\", c.token))", "",
		talkTest("TestTalkEnds"),
	},
	{
		"talk-without-an-end", "channels", "mailbox/post.go",
		"p.By.agent, t.ID, t.Root(), t.Mbox.Depth+1", "p.By.agent, t.ID, t.Root(), t.Mbox.Depth",
		talkTest("TestTalkEnds"),
	},
	{
		"item-answered-again", "channels", "mailbox/post.go",
		"m.ID = channel.ReplyID(t.ID)", "_ = t",
		talkTest("TestTalkEnds"),
	},
	{
		"reply-to-another-channel", "channels", "mailbox/post.go",
		"to == nil || to.Channel != p.Channel", "to == nil",
		talkTest("TestPostMessage"),
	},
	{
		"item-key-taken", "channels", "mailbox/post.go",
		"b.saltedHash(\"item\", key)", "b.saltedHash(\"key\", key)",
		talkTest("TestGuessedItem"),
	},
	{
		"message-changed-and-delivered", "channels", "mailbox/post.go",
		"audit.Hash(data) != d.SHA256", "false",
		talkTest("TestChangedBeforeDelivery"),
	},
	{
		"items-owed-and-forgotten", "channels", "mailbox/queue/fold.go",
		"x.owed[h] = line.Text(\"file\")", "_ = h",
		talkTest("TestOwedItems"),
	},
	{
		"items-owed-not-in-the-snapshot", "channels", "mailbox/queue/follow.go",
		"maps.Copy(q.owed, s.head.Owed)", "_ = s.head.Owed",
		talkTest("TestOwedItems"),
	},
	{
		"items-owed-after-recovery", "channels", "mailbox/recover.go",
		"r.leases, r.owed, ", "r.leases, ",
		talkTest("TestOwedItems"),
	},
	{
		"items-owed-twice", "channels", "mailbox/queue/fold.go",
		"if h := hash64(item); !x.has(h) {", "if h := hash64(item); true {",
		talkTest("TestForgottenMessages"),
	},
	{
		"messages-not-forgotten-with-the-ledger", "channels", "mailbox/forget.go",
		"for _, m := range said {", "for _, m := range said[:0] {",
		talkTest("TestForgottenMessages"),
	},
	{
		"messages-unproved", "channels", "mailbox/verify/files.go",
		"(said(file) || strings.HasSuffix(file, \".md\"))", "strings.HasSuffix(file, \".md\")",
		talkTest("TestTamperedMessages"),
	},
	{
		"items-kept-for-ever", "channels", "mailbox/history/history.go",
		"s.Tasks[id].Delivered = e.Time()", "_ = e.Time()",
		talkTest("TestArchivedItems"),
	},
	{
		"failed-items-archived", "channels", "mailbox/history/history.go",
		"s.inbox[id] && to == task.Completed", "s.inbox[id]",
		talkTest("TestArchivedItems"),
	},
	{
		"channels-open-to-agents", "channels", "agents/policy/build.go",
		"\"channels\", ", "",
		policyTest("TestForAgent$"),
	},
	{
		"note-out-of-its-quotation", "channels", "cmd/mbox/cmd_note.go",
		"\"\\n> \"))", "\"\\n\"))",
		command{"cmd/mbox", "TestNotesOf"},
	},
	{
		"notes-without-a-bound", "channels", "cmd/mbox/cmd_note.go",
		"size > maxNoteView && len(notes) > 0", "size < 0 && len(notes) > 0",
		command{"cmd/mbox", "TestNotesOf"},
	},
	{
		"item-of-another-acknowledged", "channels", "mailbox/inbox.go",
		"case t.Assignment.TargetAgent != agent:", "case false:",
		command{"cmd/mbox/gateway", "TestInbox$"},
	},
	{
		"task-acknowledged-as-an-item", "channels", "mailbox/inbox.go",
		"case t.Message() == \"\":", "case false:",
		command{"cmd/mbox/gateway", "TestInbox$"},
	},
	{
		"door-speaks-without-claim", "channels", "cmd/mbox/gateway/channels.go",
		"case o.Task == \"\" && c.agent != \"\":", "case o.Task == \"\" && c.agent == \"any\":",
		command{"cmd/mbox/gateway", "TestChannels$"},
	},
	{
		"door-speaks-by-anothers-claim", "channels", "cmd/mbox/gateway/channels.go",
		"c.agent != \"\" && claim.Agent() != c.agent", "c.agent == \"any\" && claim.Agent() != c.agent",
		command{"cmd/mbox/gateway", "TestChannels$"},
	},
	{
		"door-speaks-nameless", "channels", "cmd/mbox/gateway/channels.go",
		"case c.name == \"\":", "case c.name == \"nobody\":",
		command{"cmd/mbox/gateway", "TestChannels$"},
	},
	{
		"watch-before-broadcast", "channels", "mailbox/channel/channel.go",
		"if all && !who.Off && !who.Unasked {", "if all && !who.Off && !who.Unasked && !slices.Contains(who.Watches, m.Channel) {",
		command{"mailbox/channel", "TestAddress"},
	},
	{
		"broadcast-to-nobody", "channels", "cmd/mbox/config/agents.go",
		"unasked := !c.mentions(\"agents.\" + name)", "unasked := false",
		command{"cmd/mbox", "TestScripts/channels$"},
	},
	{
		"pulse-of-another", "channels", "cmd/mbox/gateway/life.go",
		"if name != c.agent {", "if name == \"any\" {",
		command{"cmd/mbox/gateway", "TestPulse$"},
	},
	{
		"users-by-anybody", "channels", "cmd/mbox/gateway/life.go",
		"path: \"/api/users\", needs: operate,", "path: \"/api/users\", needs: post, agents: true,",
		command{"cmd/mbox/gateway", "TestUsers$"},
	},
	{
		"users-operators", "channels", "cmd/mbox/gateway/life.go",
		"case token.Reader:", "case token.Reader, token.Operator:",
		command{"cmd/mbox/gateway", "TestUsers$"},
	},
	{
		"people-told-of-all", "channels", "agents/chat/notify.go",
		"at.Detail(\"people\") == nil || ", "",
		command{"agents/chat", "TestNotifyMessages"},
	},
	{
		"messages-not-searched", "channels", "cmd/mbox/cmd_search.go",
		"err = searchMessages(ctx, box, strings.ToLower(what), visit)", "err = nil",
		command{"cmd/mbox", "TestScripts/search$"},
	},
	{
		"line-of-another", "channels", "cmd/mbox/message.go",
		"box.Ledger().BackwardFrom(seq)", "box.Ledger().BackwardFrom(seq - 1)",
		command{"cmd/mbox", "TestScripts/channels$"},
	},
}
