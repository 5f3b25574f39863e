package main

const (
	hookInGo   = "agents/chat/webhook/in.go"
	phoneRowGo = "agents/chat/bluebubbles/row.go"
	phoneInGo  = "agents/chat/bluebubbles/receive.go"
	phoneOutGo = "agents/chat/bluebubbles/send.go"
)

func hookTest(run string) command  { return command{"agents/chat/webhook", run} }
func phoneTest(run string) command { return command{"agents/chat/bluebubbles", run} }
func imsgTest(run string) command  { return command{"agents/chat/imsg", run} }

// hooksMutants break who may come in by a webhook or by iMessage, that a message is
// taken once and none is lost, and that a notice is sent once.
var hooksMutants = []mutant{
	{"hook-unsigned", "security", hookInGo, "case !c.signed(r.Header.Get(signatureHeader), body):", "case false:", hookTest("TestRefusedRequests")},
	{"hook-any-mac", "security", "agents/chat/webhook/webhook.go", "hmac.Equal(given, c.mac(body))", "len(given) > 0", hookTest("TestRefusedRequests")},
	{"hook-key-swallows", "once", hookInGo, "\"%d %s %s\", len(key), key, body", "\"%d %s\", len(key), key", hookTest("TestSameMessage")},
	{"hook-header-over-id", "once", hookInGo, "case m.ID != \"\":", "case m.ID != \"\" && key == \"\":", hookTest("TestSameMessage")},
	{"hook-sender-forgotten", "once", hookInGo, "return withoutSlash.Replace(sender) + \"/\"", "return \"\"", hookTest("TestSameMessage")},
	{"hook-id-of-two-senders", "once", hookInGo, "\"/\", \"%2F\")", "\"#\", \"%2F\")", hookTest("TestSameMessage")},
	{"hook-sender-like-another", "once", hookInGo, "\"%\", \"%25\"", "\"#\", \"%25\"", hookTest("TestSameMessage")},
	{
		"hook-window-not-kept", "once", "agents/chat/webhook/window.go",
		"return a.id(), in.Keep(ctx, w.String())", "return a.id(), nil", hookTest("TestKilledInWindow"),
	},
	{"hook-open-to-all", "security", "agents/chat/web/door.go", "!Local(host) && !s.Insecure", "!Local(host) && false", hookTest("TestSettings")},
	{"hook-in-the-clear", "security", "agents/chat/web/web.go", "u.Scheme == \"http\" && !local && !s.Insecure", "false", hookTest("TestSettings")},
	{"hook-short-secret", "security", "agents/chat/webhook/webhook.go", "case len(s.Token) < leastSecret:", "case false:", hookTest("TestSettings")},
	{"phone-any-caller", "security", phoneInGo, "[]byte(c.secret)) != 1", "[]byte(c.secret)) < 0", phoneTest("TestCallsOfStrangers")},
	{
		"phone-tells-password", "security", "agents/chat/bluebubbles/api.go",
		"text = strings.ReplaceAll(text, secret, \"…\")", "_ = strings.ReplaceAll(text, secret, \"…\")", phoneTest("TestAnswersOfServers"),
	},
	{"phone-own-messages", "once", phoneRowGo, "return !r.FromMe && r.Temp == \"\" &&", "return", phoneTest("TestMessagesIn")},
	{"phone-any-group", "security", phoneInGo, "return slices.Contains(c.Rooms, room)", "return true", phoneTest("TestMessagesIn")},
	{"phone-takes-again", "once", phoneInGo, "r.Created < after || p.has(r.GUID)", "r.Created < after", phoneTest("TestReplayedCalls")},
	{"phone-keeps-first", "once", phoneInGo, "\t\t\t\treturn err\n\t\t\t}\n\t\t\tp.add(r)", "\t\t\t\tcontinue\n\t\t\t}\n\t\t\tp.add(r)", phoneTest("TestKilledReceiving")},
	{"phone-believes-clocks", "once", "agents/chat/bluebubbles/place.go", "min(newest, now.UnixMilli())", "newest", phoneTest("TestLateMessages")},
	{"phone-failed-counts", "once", phoneOutGo, " || r.Error != 0", "", phoneTest("TestSent")},
	{"phone-one-for-two", "once", phoneOutGo, "return k.key == n.Key", "return true", phoneTest("TestSent")},
	{"phone-busy-is-final", "once", phoneOutGo, "strings.Contains(r.text, \"already queued\")", "false", phoneTest("TestKilledSending")},
	{"imsg-whole-environment", "security", "agents/chat/imsg/child.go", "cmd.Env = []string{}", "cmd.Env = os.Environ()", imsgTest("TestEnvironmentOfChild")},
	{"imsg-loses-untaken", "once", "agents/chat/imsg/watch.go", "c.take(ctx, m, in); err != nil {", "c.take(ctx, m, in); false {", imsgTest("TestKeptPlace")},
}
