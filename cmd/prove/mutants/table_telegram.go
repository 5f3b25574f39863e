package main

const (
	telegramInGo  = "agents/chat/telegram/receive.go"
	telegramRowGo = "agents/chat/telegram/update.go"
	telegramAPIGo = "agents/chat/telegram/api.go"
)

func telegramTest(run string) command { return command{"agents/chat/telegram", run} }

// telegramMutants break that no message is lost, who speaks, and what is told of the
// token.
var telegramMutants = []mutant{
	{"telegram-confirms-unkept", "once", telegramInGo, "poll{Offset: place + 1,", "poll{Offset: place + 50,", telegramTest("TestKeptPlace")},
	{"telegram-start-not-kept", "once", telegramInGo, "return place, in.Keep(ctx, strconv.FormatInt(place, 10))\n}\n\n// updates", "return place, nil\n}\n\n// updates", telegramTest("TestFromNowOn")},
	{"telegram-ids-only-grow", "once", telegramInGo, "\tfor _, u := range all {\n\t\tplace = u.ID", "\tfor _, u := range all {\n\t\tif u.ID <= place {\n\t\t\tcontinue\n\t\t}\n\t\tplace = u.ID", telegramTest("TestLowerIDs")},
	{"telegram-anonymous-admin", "security", telegramRowGo, " || m.As != nil", "", telegramTest("TestHeard")},
	{"telegram-hears-bots", "security", telegramRowGo, " || m.From.Bot", "", telegramTest("TestHeard")},
	{"telegram-tells-token", "security", telegramAPIGo, "strings.ReplaceAll(text, c.Token, \"…\")", "text", telegramTest("TestSendErrors")},
	{"telegram-answer-without-end", "security", telegramAPIGo, "io.LimitReader(answer.Body, maxAnswer+1)", "answer.Body", telegramTest("TestSendErrors")},
	{"telegram-path-out", "security", telegramAPIGo, "part == \"\" || part == \".\" || part == \"..\"", "part == \"\"", telegramTest("TestFiles")},
	{"telegram-moves-to-person", "security", "agents/chat/telegram/send.go", "no.migrate < 0", "no.migrate != 0", telegramTest("TestMigrated")},
	{"ntfy-text-becomes-file", "once", "agents/chat/ntfy/ntfy.go", "n.Text[:min(len(n.Text), Kind.Limits.Text)]", "n.Text", command{"agents/chat/ntfy", "TestNoticeOut"}},
	{"ntfy-secret-in-url", "security", "agents/chat/ntfy/ntfy.go", "u.Query().Has(\"auth\")", "false", command{"agents/chat/ntfy", "TestSettings"}},
}
