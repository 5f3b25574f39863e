package main

// mboxTest is a test of the command.
func mboxTest(run string) command { return command{"cmd/mbox", run} }

// statusMutants break what tells people how things stand, and what agents said.
var statusMutants = []mutant{
	{
		"signals-are-failures", "people", "cmd/mbox/cmd_wait.go",
		"return context.Cause(ctx)", "return err",
		mboxTest("TestWaitEndsBySignal"),
	},
	{
		"unheard-of-is-awaited-in-silence", "people", "cmd/mbox/cmd_send.go",
		"err == nil && !heard {", "err == nil && heard {",
		mboxTest("TestScripts/send$"),
	},
	{
		"rejected-drops-are-retried", "people", "mailbox/verbs.go",
		"case f.Task.Called(Failed) == task.Rejected:", "case false:",
		mboxTest("TestScripts/retry$"),
	},
	{
		"ended-tasks-are-not-found", "people", "mailbox/claim.go",
		"err = asEnded(b.books, r.ID, err)", "err = task.About(r.ID, err)",
		mboxTest("TestScripts/cancel$"),
	},
	{
		"completions-are-believed", "people", "mailbox/task/called.go",
		"return strings.HasPrefix(c.Reason, Passed)", "return true",
		mboxTest("TestTerminalsAreWideEnough"),
	},
	{
		"titles-before-reasons", "people", "cmd/mbox/cmd_ls.go",
		"if left < least {", "if left < -999 {",
		mboxTest("TestTerminalsAreWideEnough"),
	},
	{
		"names-of-files-are-titles", "people", "cmd/mbox/taskfile.go",
		"if !pathLike().MatchString(what) ||", "if !namesTasks(what) ||",
		mboxTest("TestScripts/send$"),
	},
	{
		"homes-among-the-files-of-others", "people", "cmd/mbox/cmd_init.go",
		"\tif err := checkStrangers(dir); err != nil {\n\t\treturn err\n\t}\n", "",
		mboxTest("TestScripts/^init$"),
	},
	{
		"files-of-others-are-mended", "people", "cmd/mbox/check/home.go",
		"if name != \".\" && !slices.Contains(ours, top[0]) {", "if false {",
		mboxTest("TestScripts/^doctor$"),
	},
	{
		"waiting-tasks-keep-their-modes", "people", "cmd/mbox/check/home.go",
		"return f.Task.Mbox.TX != \"\" && ", "return f.Task.Mbox.TX == \"\" && ",
		mboxTest("TestScripts/^doctor$"),
	},
	{
		"commands-are-titles", "people", "cmd/mbox/args.go",
		"case n < v.least, v.split && l.before != 1:", "case n < v.least:",
		mboxTest("TestScripts/^run$"),
	},
	{
		"agents-are-born-as-shell", "people", "cmd/mbox/cmd_agent_birth.go",
		"\tcase name == runAgent:\n", "\tcase false:\n",
		mboxTest("TestScripts/^run$"),
	},
	{
		"pasted-tasks-are-titles", "people", "cmd/mbox/cmd_send.go",
		"\tcase isJSON(what):\n", "\tcase false:\n",
		mboxTest("TestScripts/^send$"),
	},
	{
		"late-tasks-are-sent", "people", "mailbox/submit.go",
		"if deadline == nil || deadline.After(now) {", "if deadline != nil || deadline == nil {",
		mboxTest("TestScripts/^send$"),
	},
	{
		"late-tasks-are-not-found-again", "people", "mailbox/submit.go",
		"\ts, unlock, err := b.lockForSubmit(ctx, t)\n", "\tif err := ahead(t.Mbox.Deadline, b.now()); err != nil {\n\t\treturn \"\", err\n\t}\n\ts, unlock, err := b.lockForSubmit(ctx, t)\n",
		mboxTest("TestScripts/^send$"),
	},
	{
		"backups-hold-backups", "people", "cmd/mbox/cmd_backup.go",
		"\t\tdir, err = filepath.EvalSymlinks(dir)\n", "",
		mboxTest("TestScripts/^backup$"),
	},
	{
		"what-was-written-is-lost", "people", "cmd/mbox/cmd_edit.go",
		"return withDraft(s, draft, err)", "return err",
		mboxTest("TestScripts/^edit$"),
	},
	{
		"strangers-are-idle", "people", "cmd/mbox/cmd_agent.go",
		"a, err := heardAgent(", "a, err := agentStatusOf(",
		mboxTest("TestScripts/^agent_unknown$"),
	},
	{
		"drops-wait-in-silence", "people", "mailbox/why.go",
		"case last == nil && f.State == Pending:\n\t\t\tw.Sum", "case last != nil && f.State == Pending:\n\t\t\tw.Sum",
		mboxTest("TestWalkthroughs$/04_drop"),
	},
	{
		"status-reads-the-ledger", "status", "cmd/mbox/top/problems.go",
		"w, err := mailbox.Stands(ctx, r.box, l.ID)", "w, err := r.box.Why(ctx, l.ID)",
		command{"cmd/mbox/top", "TestStatusReadsNoOldDays"},
	},
	{
		"edits-pass-a-status", "status", "mailbox/why.go",
		"w.differs(f, r.State, r.After.String())", "w.differs(f, f.State, f.Hash)",
		command{"cmd/mbox/top", "TestStatusReadsNoOldDays"},
	},
	{
		"lame-agents-pass", "status", "cmd/mbox/top/status.go",
		"if !a.Able && kept > 0 {", "if a.Able && kept > 0 {",
		command{"cmd/mbox/top", "TestBoardIsPrinted"},
	},
	{
		"status-looks-at-all", "status", "cmd/mbox/top/ended.go",
		"s == mailbox.Completed && !r.brief", "s == mailbox.Completed",
		command{"cmd/mbox/top", "TestStatusLooksAtNothingCompleted"},
	},
	{
		"late-by-lines-alone", "status", "cmd/mbox/top/board.go",
		"now.Sub(r.asked) < slowness*r.took", "true",
		command{"cmd/mbox/top", "TestLateWithoutALine"},
	},
	{
		"the-first-are-kept", "status", "cmd/mbox/top/board.go",
		"moreUrgent(r, u.kept[u.most-1]) > 0", "true",
		command{"cmd/mbox/top", "TestMostUrgent"},
	},
	{
		"suspects-count-twice", "status", "cmd/mbox/top/problems.go",
		"r.doubt(l, r.asked), -1)", "r.doubt(l, r.asked), 0)",
		command{"cmd/mbox/top", "TestManyThatStandStill"},
	},
	{
		"agents-words-move-the-cursor", "status", "cmd/mbox/top/status.go",
		"name += \": \" + clean(works)", "name += \": \" + works",
		command{"cmd/mbox/top", "TestBoardIsPrinted"},
	},
	{
		"seen-is-told-again", "status", "cmd/mbox/top/problems.go",
		"return seen[name] })", "return false && seen[name] })",
		mboxTest("TestScripts/status$"),
	},
	{
		"answered-drops-count-twice", "status", "cmd/mbox/top/problems.go",
		"case why.Answered():", "case false:",
		mboxTest("TestScripts/status$"),
	},
	{
		"lines-told-with-old-files", "status", "cmd/mbox/telling.go",
		"late || file.Mbox.Revision >= d.Revision", "late || true",
		mboxTest("TestLineIsToldWithTheFileThatFollowsIt"),
	},
	{
		"a-screen-of-failures", "status", "cmd/mbox/top/problems.go",
		"case told == mostTogether:", "case told == 50:",
		command{"cmd/mbox/top", "TestManyThatFailed"},
	},
	{
		"approvals-beyond-ten", "status", "cmd/mbox/top/board.go",
		"s.asking = 1", "s.asking = 0",
		command{"cmd/mbox/top", "TestManyApprovals"},
	},
	{
		"actions-need-brains", "status", "cmd/mbox/top/status.go",
		"kept = a.thinks", "kept = a.Waiting",
		command{"cmd/mbox/top", "TestBoardIsPrinted"},
	},
	{
		"alarms-of-schedules-pass", "status", "cmd/mbox/cmd_status.go",
		"slices.Concat(closed, found, schedules,", "slices.Concat(closed, found, schedules[:0],",
		mboxTest("TestScripts/schedule$"),
	},
	{
		"runs-are-tried-again", "status", "cmd/mbox/cmd_retry.go",
		"err == nil && was.Result.Status == mailbox.Failed && check.OnlyHere(was)", "err == nil && was.Result.Status == mailbox.Pending && check.OnlyHere(was)",
		mboxTest("TestScripts/run$"),
	},
	{
		"retry-behind-a-failure", "status", "mailbox/verbs.go",
		"err != nil || len(failed) > 0 {", "err != nil {",
		mboxTest("TestScripts/retry$"),
	},
	{
		"proposals-for-another-mailbox", "status", "cmd/mbox/exit.go",
		"return code, s.proposes.named(hint)", "return code, hint",
		mboxTest("TestScripts/home_flag$"),
	},
	{
		"other-content-has-the-key", "status", "cmd/mbox/cmd_send.go",
		"made.Task.Title == t.Task.Title && made.Task.Description == t.Task.Description", "made.Task.Title != \"\" || t.Task.Title != \"\"",
		mboxTest("TestScripts/send$"),
	},
	{
		"lost-is-no-failure", "status", "cmd/mbox/cmd_recover.go",
		"err == nil && done.Lost > 0", "err == nil && done.Lost < 0",
		mboxTest("TestScripts/recover$"),
	},
	{
		"archive-takes-what-is-awaited", "status", "mailbox/archive.go",
		"if e != nil && e.Awaited && e.Delivered.IsZero() {", "if false {",
		mboxTest("TestScripts/deliver$"),
	},
	{
		"lame-workers-claim", "status", "agents/worker.go",
		"why != \"\" || s.Lacks == nil", "true",
		mboxTest("TestScripts/worker$"),
	},
	{
		"lame-workers-end-well", "status", "agents/worker.go",
		"return fmt.Errorf(\"%s cannot work: %s\", s.Agent, why)", "return nil",
		command{"agents", "TestCommandCannotRun"},
	},
	{
		"all-is-well", "status", "cmd/mbox/cmd_status.go",
		"n > 0 && err == nil", "n > 99 && err == nil",
		mboxTest("TestScripts/status$"),
	},
	{
		"demo-among-other-files", "init", "cmd/mbox/demo.go",
		"err == nil && len(lies) > 0", "err == nil && len(lies) > 99",
		mboxTest("TestScripts/init_demo$"),
	},
	{
		"interpreters-not-looked-for", "status", "cmd/mbox/check/commands.go",
		"needs != \"\" && lookFor(needs, \"/\") == \"\"", "false && needs != \"\"",
		command{"cmd/mbox/check", "TestDoctorLooksForCommands"},
	},
	{
		"known-secrets-kept", "logs", "agents/said.go",
		"text = strings.ReplaceAll(text, word, \"<redacted>\")", "_ = word",
		agentsTest("TestSaidHasNoSecrets"),
	},
	{
		"tokens-kept", "logs", "agents/said.go",
		"a.secrets.Words()...), a.claim.Token())", "a.secrets.Words()...))",
		agentsTest("TestSaidHasNoSecrets"),
	},
	{
		"marked-secrets-kept", "logs", "agents/said.go",
		"return delegation.WithoutMarked(hideWords(secrets, text))", "return delegation.WithoutMarked(\"\") + hideWords(secrets, text)",
		agentsTest("TestSaidHasNoSecrets"),
	},
	{
		"logs-without-end", "logs", "agents/said.go",
		"l.size+int64(len(line)) > l.most/2", "l.size+int64(len(line)) > l.most*2",
		agentsTest("TestSaidIsBounded"),
	},
	{
		"logs-written-into-what-lies-there", "logs", "agents/said.go",
		"os.O_WRONLY|os.O_CREATE|os.O_EXCL", "os.O_WRONLY|os.O_CREATE",
		agentsTest("TestSaidFollowsNothing"),
	},
	{
		"logs-of-the-running-removed", "logs", "agents/said.go",
		"if !s.isOver(ctx, l.Task,", "if ctx.Err() != nil && !s.isOver(ctx, l.Task,",
		agentsTest("TestSaidIsSwept"),
	},
	{
		"logs-of-any-age", "logs", "agents/said.go",
		"now.Sub(l.Last) <= s.Logs.Age", "now.Sub(l.Last) >= 0",
		agentsTest("TestSaidIsSwept"),
	},
	{
		"log-of-a-unit-without-end", "logs", "agents/unitlog.go",
		"return f.Truncate(0)", "return nil",
		agentsTest("TestLogOfUnitIsBounded"),
	},
	{
		"log-of-a-unit-cut-in-a-line", "logs", "agents/unitlog.go",
		"_, err = in.ReadSlice('\\n')", "_, err = in.Discard(0)",
		agentsTest("TestLogOfUnitIsBounded"),
	},
	{
		"log-of-another-name-emptied", "logs", "agents/unitlog.go",
		"!known || st.Nlink > 1", "!known || st.Nlink > 2",
		agentsTest("TestLogOfUnitFollowsNothing"),
	},
	{
		"log-of-a-unit-left-while-idle", "logs", "agents/worker.go",
		"\t\ts.sweepIfDue(ctx)\n\t}\n}", "\t}\n}",
		agentsTest("TestLogOfUnitIsTrimmedByWorkers"),
	},
	{
		"unit-with-a-log-elsewhere", "units", "cmd/mbox/cmd_unit.go",
		"append:%[1]s\\n\", systemdPath(u.log))", "append:%[1]s\\n\", u.log)",
		command{"cmd/mbox", "TestUnitsOfAgents"},
	},
	{
		"setup-burns-attempts", "setup", "agents/ending.go",
		"code == exitNotRun || code == exitNotFound", "code == exitNotRun && code == exitNotFound",
		agentsTest("TestCommandCannotRun"),
	},
	{
		"setup-goes-on-claiming", "setup", "agents/attempt.go",
		"if e.setup() {", "if e.setup() && e.timedOut > 0 {",
		agentsTest("TestCommandCannotRun"),
	},
	{
		"led-to-a-change", "words", "cmd/mbox/args.go",
		"strings.EqualFold(near[:1], word[:1])", "strings.EqualFold(near[:0], word[:0])",
		mboxTest("TestArrangeMeans"),
	},
	{
		"table-wider-than-the-terminal", "words", "cmd/mbox/print.go",
		"return used+min(widths[last], wide*2/5) <= wide", "return used <= 9*wide",
		mboxTest("TestTableFitsTheTerminal"),
	},
	{
		"circles-left-out", "words", "cmd/mbox/cmd_ls.go",
		"for i := range items { // of a circle", "for i := range items[:0] { // of a circle",
		mboxTest("TestListInTrees"),
	},
	{
		"any-output-file-is-the-whole", "results", "mailbox/spill.go",
		"err == nil && full+4*keep > MaxTask-2*laterRoom", "err == nil && full+4*keep > 0",
		mboxTest("TestScripts/show_whole"),
	},
	{
		"whole-result-is-not-checked", "results", "cmd/mbox/cmd_show.go",
		`if fmt.Sprintf("sha256:%x", sum.Sum(nil)) != of.SHA256 {`, `if fmt.Sprintf("sha256:%x", sum.Sum(nil)) == "" {`,
		mboxTest("TestScripts/show_whole"),
	},
	{
		"end-given-for-the-whole", "results", "cmd/mbox/mcp/bound.go",
		"if whole, a, ok := mailbox.Spilled(c.home, t); ok {", "if whole, a, ok := mailbox.Spilled(c.home, t); ok && a.Size == 0 {",
		command{"cmd/mbox/mcp", "TestLongIsCut"},
	},
	{
		"refused-adoption-moves-the-file", "words", "mailbox/recover.go",
		"if err := fitToAdopt(r); err != nil {", "if err := fitToAdopt(r); err != nil && r.ctx.Err() != nil {",
		mboxTest("TestScripts/lost$"),
	},
	{
		"empty-key-is-none", "doors", "mailbox/task/drop.go",
		"if t.Mbox.IdempotencyKey != \"\" || !bytes", "if len(data) > 0 || !bytes",
		boxTest("TestDroppedFiles"),
	},
	{
		"deadline-that-has-passed", "doors", "mailbox/submit.go",
		"if deadline == nil || deadline.After(now) {", "if deadline == nil || !deadline.IsZero() {",
		boxTest("TestDeadlineThatHasPassed"),
	},
	{
		"empty-filter-shows-all", "doors", "cmd/mbox/gateway/query.go",
		"if v == \"\" { // of", "if v == \"\" && p.many { // of",
		command{"cmd/mbox/gateway", "TestList"},
	},
	{
		"a-token-that-may-not", "doors", "cmd/mbox/gateway/caller.go",
		"\"mbox token create NAME --role \" + string(to.least())", "\"mbox token create NAME --role \" + string(token.Reader)",
		command{"cmd/mbox/gateway", "TestRights|TestRefusalsHelp"},
	},
	{
		"claim-ends-as-if-damaged", "words", "cmd/mbox/cmd_claim.go",
		"return claim, bySignal(ctx, err)", "return claim, err",
		mboxTest("TestClaimEndsBySignal"),
	},
	{
		"newer-task-to-be-mended", "words", "mailbox/adopt.go",
		"if f.Hash == after {", "if f.Hash == after && err == nil {",
		boxTest("TestTaskOfANewerVersion"),
	},
}
