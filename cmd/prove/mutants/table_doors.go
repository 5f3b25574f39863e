package main

// tokenTest is a test of the tokens, configTest one of the configuration.
func tokenTest(run string) command  { return command{"cmd/mbox/gateway/token", run} }
func configTest(run string) command { return command{"cmd/mbox/config", run} }

// doorsMutants break the rules of who comes in by the doors, and of where they are.
var doorsMutants = []mutant{
	{
		"cursor-in-clear", "doors", "cmd/mbox/gateway/tasks.go",
		"d.cursors.Seal(nil, nil, []byte(at), nil))", "d.cursors.Seal([]byte(at), nil, []byte(at), nil))",
		doorTest("TestCursorTellsNothing$"),
	},
	{
		"token-any-secret", "doors", "cmd/mbox/gateway/token/token.go",
		"subtle.ConstantTimeCompare(e.sum, sum) == 1", "subtle.ConstantTimeCompare(e.sum, sum) >= 0",
		tokenTest("TestNearlyASecret"),
	},
	{
		"token-revoked-still-counts", "doors", "cmd/mbox/gateway/token/token.go",
		"err := durable.Remove(file(mailbox, name))", "_, err := durable.Lstat(file(mailbox, name))",
		tokenTest("TestCountsAtOnce"),
	},
	{
		"token-under-another-name", "doors", "cmd/mbox/gateway/token/token.go",
		"err == nil && e.Name != name", "err == nil && e.Name == \"\"",
		tokenTest("TestDamaged"),
	},
	{
		"token-without-its-agent", "doors", "cmd/mbox/gateway/token/token.go",
		"if err = schemas.Decode(data, &e); err == nil {\n\t\terr = e.check()\n\t}", "err = schemas.Decode(data, &e)",
		tokenTest("TestDamaged"),
	},
	{
		"token-others-may-change", "doors", "cmd/mbox/gateway/token/token.go",
		"durable.ReadPrivate(path, maxFile)", "durable.Read(path, maxFile)",
		tokenTest("TestDamaged"),
	},
	{
		"token-damaged-locks-out", "doors", "cmd/mbox/gateway/token/token.go",
		"damaged = append(damaged, err)\n\t\tdefault:", "return nil, err\n\t\tdefault:",
		tokenTest("TestDamaged"),
	},
	{
		"secret-of-others", "doors", "mailbox/durable/read.go",
		"case st.Mode&0o077 != 0:", "case st.Mode&0o007 != 0:",
		durableTest("TestReadPrivate"),
	},
	{
		"token-without-its-record", "doors", "cmd/mbox/cmd_token.go",
		"recorded != nil && !errors.Is(recorded, mailbox.ErrCommitted)", "recorded != nil && box == nil",
		command{"cmd/mbox", "TestTokenHasItsRecord"},
	},
	{
		"token-record-cut-off", "doors", "cmd/mbox/cmd_token.go",
		"errors.Is(err, token.ErrUnknown) && role != \"\"", "errors.Is(err, token.ErrUnknown) && role == \"\\x00\"",
		command{"cmd/mbox", "TestTokenHasItsRecord"},
	},
	{
		"token-by-an-agents-environment", "doors", "cmd/mbox/approver.go",
		"if name := ofAgent(os.LookupEnv); name != \"\" {", "if name := ofAgent(os.LookupEnv); name != \"\" && d != keeping {",
		command{"cmd/mbox", "TestScripts/token$"},
	},
	{
		"token-made-by-a-worker", "doors", "cmd/mbox/cmd_token.go",
		"box *mailbox.Box, name string) error {\n\tif err := keeping.byNoWorker(ctx, box); err != nil {\n\t\treturn err\n\t}\n\tif o.agent",
		"box *mailbox.Box, name string) error {\n\tif o.agent",
		command{"cmd/mbox", "TestScripts/token$"},
	},
	{
		"token-revoked-waits-on", "doors", "cmd/mbox/gateway/routes.go",
		"\t\t\t\trevoked <- err\n\t\t\t\tend()\n", "",
		doorTest("TestWaitEndsWithTheToken"),
	},
	{
		"silence-keeps-others-out", "doors", "agents/chat/web/silent.go",
		"len(s.silent) > 1 {", "len(s.silent) < 0 {",
		command{"agents/chat/web", "TestSilent$"},
	},
	{
		"page-approves-what-is-cut", "security", "cmd/mbox/gateway/view_task.go",
		"&& !pages.Whole(t.Mbox.Action.Params) {", "&& t == nil {",
		doorTest("TestApproveWhatIsShown"),
	},
	{
		"token-revoked-by-a-worker", "doors", "cmd/mbox/cmd_token.go",
		"\tif err := keeping.byNoWorker(ctx, box); err != nil {\n\t\treturn err\n\t}\n\tchanges, failed", "\tchanges, failed",
		command{"cmd/mbox", "TestScripts/token$"},
	},
	{
		"doors-open-in-the-clear", "doors", "cmd/mbox/config/serve.go",
		"!onLoopback(address) && s.Cert == \"\" && !s.Insecure", "!onLoopback(address) && s.Cert == \"\" && s.MaxBody < 0",
		configTest("TestRefusedConfig"),
	},
	{
		"doors-asked-by-http-check", "doors", "cmd/mbox/config/limits.go",
		"append(c.doors.listens(), ", "append(defaultServe().listens(), ",
		configTest("TestNeverWhereMboxListens"),
	},
	{
		"doors-by-name-asked", "doors", "cmd/mbox/config/serve.go",
		"err != nil && host != \"\"", "err != nil && host == \"\\x00\"",
		configTest("TestNeverWhereMboxListens"),
	},
	{
		"doors-on-every-address-asked", "doors", "agents/action/dial.go",
		"err == nil && (want.IsLoopback() || want.IsUnspecified()):", "err == nil && want.IsLoopback():",
		command{"agents/action", "TestGuardOfMboxItself"},
	},
	{
		"door-anybody-decides", "security", "cmd/mbox/gateway/caller.go",
		"return c.role == token.Operator", "return true",
		doorTest("TestRights"),
	},
	{
		"door-believes-nobody", "security", "cmd/mbox/gateway/leave.go",
		"\tif c.name == \"\" {\n\t\town = \"unknown\"\n\t}\n", "",
		doorTest("TestSend"),
	},
	{
		"door-of-any-name", "security", "cmd/mbox/gateway/routes.go",
		"if !d.ours(r.Host) {", "if d.ours(\"\") {",
		doorTest("TestSend"),
	},
	{
		"door-for-other-sites", "security", "cmd/mbox/gateway/routes.go",
		"err != nil || embedded(r) {", "err != nil && embedded(r) {",
		doorTest("TestSend"),
	},
	{
		"door-for-other-machines", "security", "cmd/mbox/gateway/caller.go",
		"d.o.Loopback && fromLoopback(r)", "d.o.Loopback",
		doorTest("TestSend"),
	},
	{
		"door-agent-sees-all", "security", "cmd/mbox/gateway/routes.go",
		"sight.Of(c.Box, c.agent)", "sight.Of(c.Box, \"\")",
		doorTest("TestRights"),
	},
	{
		"door-artifact-unproven", "security", "cmd/mbox/gateway/tasks.go",
		"if sum != a.SHA256 {", "if sum == \"\" {",
		doorTest("TestArtifacts"),
	},
	{
		"login-link-twice", "security", "cmd/mbox/gateway/session.go",
		"\ts.link = key{}\n\treturn true", "\treturn true",
		doorTest("TestLoginLink"),
	},
	{
		"quarantine-shows-tokens", "security", "cmd/mbox/gateway/view_problems.go",
		"claimToken().ReplaceAllString(string(data), `$1…\"`)", "string(data)",
		command{"cmd/mbox/gateway", "TestClaimTokenStays"},
	},
	{
		"login-link-late", "security", "cmd/mbox/gateway/session.go",
		"!now.Before(s.until)", "now.IsZero()",
		doorTest("TestLoginLink"),
	},
	{
		"session-read-by-scripts", "security", "cmd/mbox/gateway/session.go",
		"HttpOnly: true, ", "",
		doorTest("TestLoginLink"),
	},
	{
		"session-kept-at-login", "security", "cmd/mbox/gateway/view.go",
		"\tif v.seat != nil {\n\t\tv.door.sessions.end(v.seat)\n\t}\n\tv.door.setCookie(v.w, v.r, v.door", "\tv.door.setCookie(v.w, v.r, v.door",
		doorTest("TestSession$"),
	},
	{
		"session-for-ever", "security", "cmd/mbox/gateway/session.go",
		"case now.Sub(one.used) >= sessionIdle:", "case now.IsZero():",
		doorTest("TestSession$"),
	},
	{
		"session-outlives-its-token", "security", "cmd/mbox/gateway/session.go",
		"\tif s.secret == \"\" {", "\tif s != nil {",
		doorTest("TestSessionEndsWithItsToken"),
	},
	{
		"page-for-other-sites", "security", "cmd/mbox/gateway/routes.go",
		" && !fromPage(r) {", " && r == nil {",
		doorTest("TestForgedRequests"),
	},
	{
		"page-approves-unseen", "security", "cmd/mbox/gateway/view_task.go",
		"name == \"approve\" && o.SHA256 == \"\"", "name == \"approve\" && o.SHA256 == name",
		doorTest("TestApproveByForm"),
	},
	{
		"page-text-that-hides", "security", "cmd/mbox/gateway/pages/pages.go",
		"return schemas.Sentence(word(v), mostLine)", "return word(v)",
		doorTest("TestHostileText"),
	},
	{
		"page-links-to-anything", "security", "cmd/mbox/gateway/pages/markdown.go",
		"err != nil || u.Scheme != \"https\" && u.Scheme != \"http\" ||", "err != nil ||",
		command{"cmd/mbox/gateway/pages", "TestMarkdown"},
	},
	{
		"list-numbers-by-their-bytes", "doors", "mailbox/list.go",
		"cmp.Or(cmp.Compare(len(p), len(q)), cmp.Compare(p, q)); c != 0", "cmp.Compare(p, q); c != 0",
		boxTest("TestCompareIDs"),
	},
	{
		"list-repeats", "doors", "mailbox/list.go",
		"compareIDs(id, after) > 0", "compareIDs(id, after) >= 0",
		boxTest("TestListPieceByPiece"),
	},
	{
		"list-begins-anew", "doors", "mailbox/list.go",
		"\t\t\t\tcase folder != \"\":\n\t\t\t\t\tcontinue\n", "",
		boxTest("TestListPieceByPiece"),
	},
	{
		"list-reads-all", "doors", "mailbox/list.go",
		"min(ahead, len(left))", "len(left)",
		boxTest("TestListPieceByPiece"),
	},
	{
		"page-looks-at-all", "doors", "cmd/mbox/gateway/tasks.go",
		" || looked == mostLooked", "",
		doorTest("TestListLooksAtSome"),
	},
	{
		"ls-floods-terminals", "doors", "cmd/mbox/cmd_ls.go",
		"case s.terminal && !o.json:", "case s.terminal && o.json:",
		command{"cmd/mbox", "TestLsOnATerminal"},
	},
	{
		"ledger-days-too-late", "doors", "audit/backward.go",
		"end.Seq > 0 && end.Seq <= seq", "end.Seq > 0",
		auditTest("TestBeforeBlankDays"),
	},
	{
		"ledger-days-all-read", "doors", "audit/backward.go",
		"l.endOf(files[i-1]).Seq >= seq", "l.endOf(files[i-1]).Seq > seq",
		auditTest("TestBeforeAndBackwardFrom"),
	},
	{
		"ledger-days-passed-over", "doors", "audit/backward.go",
		"l.endOf(files[i-1]).Seq >= seq", "l.endOf(files[i-1]).Seq >= seq-1",
		auditTest("TestBeforeAndBackwardFrom"),
	},
	{
		"ledger-read-to-its-end", "doors", "cmd/mbox/gateway/ledger.go",
		"n < mostLines && ", "",
		doorTest("TestEntriesInPieces"),
	},
	{
		"ledger-place-not-checked", "doors", "cmd/mbox/gateway/ledger.go",
		" && ledger.Check(at) == nil", "",
		doorTest("TestPlaces"),
	},
	{
		"ledger-out-of-turn", "doors", "cmd/mbox/gateway/ledger.go",
		"\tdefer c.door.finding.leave()\n\tfrom, err := c.place(seq)", "\tc.door.finding.leave()\n\tfrom, err := c.place(seq)",
		doorTest("TestPlaces"),
	},
	{
		"cancel-whatever-stands", "security", "mailbox/verbs.go",
		"return true, seen.Check(f.Task, f.State)", "return true, nil",
		doorTest("TestDecidesWhatWasSeen"),
	},
	{
		"retry-whatever-stands", "security", "mailbox/verbs.go",
		"\tif err := seen.Check(f.Task, f.State); err != nil {\n\t\treturn err\n\t}\n\tif failed", "\tif failed",
		doorTest("TestDecidesWhatWasSeen"),
	},
	{
		"release-whatever-stands", "security", "cmd/mbox/gateway/verbs.go",
		"if err := o.seen.Check(t, state); err != nil {", "if err := o.seen.Check(t, state); err != nil && false {",
		doorTest("TestDecidesWhatWasSeen"),
	},
	{
		"form-that-showed-nothing", "security", "cmd/mbox/gateway/view_task.go",
		" || name != \"approve\" && o.Seen == \"\"", "",
		doorTest("TestDecidesWhatWasSeen"),
	},
	{
		"all-whatever-stands", "security", "cmd/mbox/gateway/view_all.go",
		"\t\to.Seen = c.tasks[0].seen\n", "",
		doorTest("TestAllAsTheyWere"),
	},
	{
		"page-links-to-neighbours", "security", "cmd/mbox/gateway/pages/markdown.go",
		" || !elsewhere().MatchString(u.Hostname())", " || u.Host == \"\"",
		command{"cmd/mbox/gateway/pages", "TestMarkdownLinksToNoNeighbour"},
	},
	{
		"page-links-to-its-host", "security", "cmd/mbox/gateway/pages/markdown.go",
		" || strings.EqualFold(strings.TrimSuffix(u.Hostname(), \".\"), m.own)", "",
		command{"cmd/mbox/gateway/pages", "TestMarkdownLinksToNoNeighbour"},
	},
	{
		"records-repeat", "doors", "cmd/mbox/gateway/view_records.go",
		"slices.Index(ids, before)+1:", "slices.Index(ids, before):",
		doorTest("TestRecordsPageByPage"),
	},
	{
		"records-one-hides-all", "doors", "cmd/mbox/gateway/view_records.go",
		"case errors.As(err, &bad):", "case errors.As(err, &bad) && bad == nil:",
		doorTest("TestRecordsPageByPage"),
	},
	{
		"record-anywhere", "security", "mailbox/record.go",
		"if task.CheckID(ID(id)) != nil {", "if id == \"\" {",
		doorTest("TestRecordsPageByPage"),
	},
	{
		"artifacts-all-at-once", "doors", "cmd/mbox/gateway/tasks.go",
		"\tif err := c.door.hashing.take(c.ctx); err != nil {\n\t\treturn \"\", err\n\t}\n\tdefer c.door.hashing.leave()\n", "",
		doorTest("TestArtifacts"),
	},
	{
		"health-stale-whoever-is-late", "doors", "cmd/mbox/gateway/health.go",
		"if c.Agents[agent].Enabled {", "if agent != \"\" {",
		doorTest("TestHealthNamesStaleAgents"),
	},
	{
		"door-on-ipv6-too", "security", "cmd/mbox/gateway/gateway.go",
		"network = \"tcp4\"", "network = \"tcp\"",
		doorTest("TestListensOnWhatIsNamed"),
	},
}

func doorTest(run string) command { return command{"cmd/mbox/gateway", run} }
