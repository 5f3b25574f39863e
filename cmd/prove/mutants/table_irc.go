package main

// ircTest is a test of the channel for IRC.
func ircTest(run string) command { return command{"agents/chat/irc", run} }

// ircMutants break the rules of who somebody is on IRC, of what goes to whom, and of
// what is sent in the clear.
var ircMutants = []mutant{
	{
		"irc-proof-of-nothing", "security", "agents/chat/irc/message.go",
		"if strings.HasPrefix(from, vouched) {", "if from != \"\" {",
		ircTest("TestIdentity"),
	},
	{
		"irc-operators-by-nick", "security", "agents/chat/irc/irc.go",
		"Claims: true,", "Claims: false,",
		command{"cmd/mbox", "TestTablesOfNoUseAreRefused"},
	},
	{
		"irc-account-of-anybody", "security", "agents/chat/irc/message.go",
		"if !s.has(\"account-tag\") || account", "if account",
		ircTest("TestIdentity"),
	},
	{
		"irc-nick-like-an-account", "security", "agents/chat/irc/message.go",
		" || strings.Contains(nick, \":\")", "",
		ircTest("TestIdentity"),
	},
	{
		"irc-extension-never-withdrawn", "security", "agents/chat/irc/session.go",
		"\t\tdelete(s.caps, name)\n", "\t\t_ = name\n",
		ircTest("TestCapDel"),
	},
	{
		"irc-programs-answer-programs", "security", "agents/chat/irc/message.go",
		"robot && s.has", "robot && !s.has",
		ircTest("TestIdentity"),
	},
	{
		"irc-answers-who-took-the-nick", "security", "agents/chat/irc/send.go",
		"&& who != mask:", "&& who == \"\":",
		ircTest("TestNgircdRefuses"),
	},
	{
		"irc-goes-on-without-login", "security", "agents/chat/irc/register.go",
		"if s.c.Password != \"\" && !s.known {", "if s.c.Password == \"\" && s.known {",
		ircTest("TestSASLRefused"),
	},
	{
		"irc-password-in-the-clear", "security", "agents/chat/irc/irc.go",
		"case c.Password+c.Token != \"\" && !c.Insecure", "case c.Password != \"\" && !c.Insecure",
		ircTest("TestOpen"),
	},
	{
		"irc-commands-in-a-text", "security", "agents/chat/irc/line.go",
		"case r < ' ' || r == 0x7f:", "case r < 0:",
		ircTest("TestNgircdSend|FuzzCut"),
	},
	{
		"irc-place-before-the-history", "recovery", "agents/chat/irc/irc.go",
		"if !s.whole || s.until.IsZero() {", "if s.until.IsZero() {",
		ircTest("TestTakeFails"),
	},
	{
		"irc-sent-before-it-is", "delivery", "agents/chat/irc/send.go",
		"\treturn sent(reply, target)\n", "\t_ = sent(reply, target)\n\treturn nil\n",
		ircTest("TestSendErrors"),
	},
}
