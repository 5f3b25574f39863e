package main

func acpTest(run string) command { return command{"agents/acp", run} }

// runtimeMutants break what holds of programs that do whole tasks.
var runtimeMutants = []mutant{
	{
		"approval-answers-twice", "runtimes", "agents/permission.go",
		"\t\tj.terms.yes[sum]--\n", "",
		acpTest("TestPermission$"),
	},
	{
		"approval-answers-another", "runtimes", "agents/permission.go",
		"case j.terms.yes[sum] > 0:", "case len(j.terms.yes) > 0:",
		acpTest("TestPermission$"),
	},
	{
		"refusal-forgotten", "runtimes", "agents/permission.go",
		"\t\tt.no[sum] = true\n", "",
		acpTest("TestPermission$"),
	},
	{
		"question-not-held", "runtimes", "agents/judge.go",
		"question := m.Asks && act != nil && act.Name == Permission", "question := false",
		acpTest("TestQuestionOfAnother"),
	},
	{
		"allowed-for-always", "runtimes", "agents/acp/client.go",
		"return answerWith(r.Options, sdk.PermissionOptionKindAllowOnce), nil", "return answerWith(r.Options, sdk.PermissionOptionKindAllowAlways), nil",
		acpTest("TestPermission$"),
	},
	{
		"file-outside", "runtimes", "agents/runtime.go",
		"\terr := act.Validate(p.Team.Limits)\n", "\tvar err error\n",
		acpTest("TestSession"),
	},
	{
		"file-past-the-profile", "runtimes", "agents/runtime.go",
		"\t\terr = act.Permit(p.policy)\n", "\t\terr = nil\n",
		acpTest("TestExcludedTools"),
	},
	{
		"terminal-past-the-profile", "runtimes", "agents/runtime.go",
		"err := j.p.policy.Tool(Terminal)", "var err error",
		acpTest("TestExcludedTools"),
	},
	{
		"terminal-not-judged", "runtimes", "agents/runtime.go",
		"v, err = j.p.policy.Command(line)", "_ = line",
		acpTest("TestSession"),
	},
	{
		"frames-without-a-bound", "runtimes", "agents/acp/frames.go",
		"if len(f.line)+len(part) > maxFrame {", "if false {",
		acpTest("TestMisbehaving/giant"),
	},
	{
		"request-before-its-news", "runtimes", "agents/acp/frames.go",
		" || request && len(f.notes) > 0", "",
		acpTest("TestPermission"),
	},
	{
		"key-in-the-error", "runtimes", "agents/agentzero/agentzero.go",
		"schemas.Sentence(strings.TrimSpace(g.redact(text)), 300)", "schemas.Sentence(strings.TrimSpace(text), 300)",
		command{"agents/agentzero", "TestFailures"},
	},
	{
		"key-carried-on", "runtimes", "agents/agentzero/agentzero.go",
		"CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },", "",
		command{"agents/agentzero", "TestFailures"},
	},
	{
		"key-in-the-clear", "runtimes", "agents/agentzero/agentzero.go",
		"if u.Scheme == \"http\" && !isLocal(u.Hostname()) {", "if false {",
		command{"agents/agentzero", "TestAddress"},
	},
	{
		"context-left-open", "runtimes", "agents/agentzero/agentzero.go",
		"if id := answer.Context; id != \"\" && len(id) <= maxContext {", "if id := answer.Context; false {",
		command{"agents/agentzero", "TestMessage"},
	},
	{
		"question-worked-at", "runtimes", "agents/attempt.go",
		"case a.asked():", "case false:",
		acpTest("TestPermission$"),
	},
	{
		"approval-answers-another-tool", "runtimes", "agents/permission.go",
		"json.Marshal([]any{tool, v})", "json.Marshal([]any{v})",
		acpTest("TestApprovalIsForItsTool"),
	},
	{
		"question-as-a-permission", "runtimes", "agents/judge.go",
		"return t.asksInQuestion(p, act.Params)", "return t.asks(p, act.Name)",
		acpTest("TestToolsAskAnyway"),
	},
	{
		"answer-without-an-approval", "runtimes", "agents/permission.go",
		"if asks := p.Team.asksInQuestion(own, p.task.Mbox.Action.Params); asks != \"\" {", "if asks := \"\"; asks != \"\" || own == nil {",
		acpTest("TestQuestionClaimedUnapproved"),
	},
	{
		"terminals-not-asked-for", "runtimes", "agents/permission.go",
		"case p.MustAsk(Terminal):", "case false:",
		acpTest("TestToolsAskAnyway"),
	},
	{
		"question-of-any-tool", "runtimes", "agents/permission.go",
		"if err != nil || !slices.Contains([]string{Permission, Terminal, \"read_file\", \"write_file\"}, q.Tool) {", "if err != nil || !slices.Contains([]string{q.Tool}, q.Tool) {",
		acpTest("TestQuestionWithoutTool"),
	},
	{
		"start-waits-for-a-write", "runtimes", "agents/acp/acp.go",
		"case <-ctx.Done():\n\t\tvar none T", "case <-s.conn.Done():\n\t\tvar none T",
		acpTest("TestUnread"),
	},
	{
		"frames-hold-any-bytes", "runtimes", "agents/acp/frames.go",
		" || f.held > 0 && f.held+size > maxHeld", "",
		acpTest("TestFramesHoldFewBytes"),
	},
	{
		"answers-count-for-nothing", "runtimes", "agents/acp/frames.go",
		"len(line)+answerOf(m.Method)", "len(line)",
		acpTest("TestFramesHoldFewBytes"),
	},
	{
		"request-as-news", "runtimes", "agents/acp/frames.go",
		"case request == told:", "case !request && !told:",
		acpTest("TestFramesDropWhatIsNeither"),
	},
	{
		"response-of-any-size", "runtimes", "agents/acp/frames.go",
		"case m.Method == \"\" && len(line) > maxResponse:", "case false:",
		acpTest("TestMisbehaving/windy"),
	},
	{
		"calls-keep-all", "runtimes", "agents/acp/client.go",
		"for i := 0; s.kept > maxKept; i++ {", "for i := 0; false; i++ {",
		acpTest("TestCallsKeepFewBytes"),
	},
	{
		"half-a-request-approved", "runtimes", "agents/acp/client.go",
		"\tif c.cut {\n", "\tif false {\n",
		acpTest("TestCallsKeepFewBytes"),
	},
	{
		"handlers-outlive-the-session", "runtimes", "agents/acp/terminal.go",
		"\ts.working.Wait()\n", "",
		acpTest("TestCloseWaitsForHandlers"),
	},
	{
		"requests-count-for-nothing", "runtimes", "agents/runtime.go",
		"\treserved.commit()\n", "\treserved.release()\n",
		acpTest("TestRequestsBeyondTheHour"),
	},
	{
		"requests-in-no-line", "runtimes", "agents/runtime.go",
		"\tj.noteDone(w, err)\n", "",
		acpTest("TestRequestsAreActions"),
	},
	{
		"last-reads-in-no-line", "runtimes", "agents/runtime.go",
		"\tj.tellReads()\n", "",
		acpTest("TestRequestsAreActions"),
	},
	{
		"key-in-the-answer", "runtimes", "agents/agentzero/agentzero.go",
		"g.redact(*answer.Response)", "*answer.Response",
		command{"agents/agentzero", "TestKeyInTheAnswer"},
	},
	{
		"quota-in-a-result", "runtimes", "agents/attempt.go",
		"if e.verdict().complete {", "if false {",
		command{"agents", "TestQuotaIsAFailure"},
	},
	{
		"quota-of-who-was-ended", "runtimes", "agents/attempt.go",
		"if e.status.Exited() && e.status.ExitStatus() != 0 {", "if true {",
		command{"agents", "TestQuotaIsAFailure"},
	},
	{
		"quota-in-a-refusal", "runtimes", "agents/acp/acp.go",
		"d.Said = s.said", "d.Message += s.said",
		acpTest("TestQuotaIsTheProgramsWord"),
	},
	{
		"messages-joined-anew", "runtimes", "agents/format.go",
		"r.text = append(r.text, e.Content...)", "r.text = append(append([]byte{}, r.text...), e.Content...)",
		command{"agents", "TestFormatsAreCheap"},
	},
	{
		"message-of-many-parts", "runtimes", "agents/format.go",
		"if len(e.Message.Content) <= maxMessage {", "if true {",
		command{"agents", "TestFormatsAreCheap"},
	},
	{
		"key-to-another-machine", "runtimes", "agents/agentzero/agentzero.go",
		"\t\tdialer.Control = brain.OnlyLocal\n", "",
		command{"agents/agentzero", "TestLocalOnly"},
	},
	{
		"permission-past-the-profile", "runtimes", "agents/permission.go",
		"if err := j.p.policy.Tool(Permission); err != nil {", "if err := error(nil); err != nil {",
		acpTest("TestPermissionExcluded"),
	},
	{
		"end-not-found-out", "runtimes", "agents/acp/acp.go",
		"\t\ts.died.Store(true)\n\t\ts.frames.end(over)\n\t\treturn\n", "\t\t<-p.Over()\n",
		acpTest("TestEndsUnanswered"),
	},
}
