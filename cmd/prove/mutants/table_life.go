package main

const (
	lifeGo      = "agents/life/life.go"
	archiveGo   = "agents/life/archive.go"
	ownGo       = "agents/own.go"
	claudeGo    = "agents/life/claude.go"
	learningGo  = "cmd/mbox/learning.go"
	dreamGo     = "agents/dream/dream.go"
	keepGo      = "agents/dream/keep.go"
	linesAtGo   = "audit/places.go"
	unitFilesGo = "cmd/mbox/unitfiles.go"
)

// lifeMutants break how agents are born, put away and brought back.
var lifeMutants = []mutant{
	{
		"names-born-twice", "life", lifeGo,
		"if a, told := all[name]; told {", "if a, told := all[name]; told && a.Claims() {",
		command{"agents/life", "TestTakenName"},
	},
	{
		"birth-over-files", "life", lifeGo,
		"} else if is {\n\t\t\treturn fmt.Errorf(\"%s is there", "} else if is && path == \"\" {\n\t\t\treturn fmt.Errorf(\"%s is there",
		command{"agents/life", "TestTakenName"},
	},
	{
		"lines-begin-late", "ledger", "audit/backward.go",
		"from = ends[i-1]", "from = ends[i-1] + 1",
		command{"audit", "TestLinesBackward"},
	},
	{
		"wanted-blocks-passed-over", "ledger", "audit/backward.go",
		"if !wanted(lines) {", "if !wanted(lines[:len(lines)/2]) {",
		command{"audit", "TestLinesBackward"},
	},
	{
		"table-of-another-day", "ledger", linesAtGo,
		`fmt.Sscanf(text, placesHead(end)+" %d", &p.rows)`, `fmt.Sscanf(text[strings.LastIndexByte(text, ' ')+1:], "%d", &p.rows)`,
		command{"audit", "TestPlacesOfLines"},
	},
	{
		"table-unchecked", "ledger", linesAtGo,
		"crc32.Update(p.sum, crc32.IEEETable, body) != binary.LittleEndian.Uint32(sum)", "sum == nil",
		command{"audit", "TestPlacesOfLines"},
	},
	{
		"table-page-too-late", "ledger", linesAtGo,
		"len(page)/rowWidth-1).hash >= hash", "len(page)/rowWidth-1).hash > hash",
		command{"audit", "TestPlacesOfLines"},
	},
	{
		"table-unused", "ledger", linesAtGo,
		"if !over {", "if !over || task != \"\" {",
		command{"audit", "TestPlacesAreUsed"},
	},
	{
		"table-never-made-anew", "ledger", linesAtGo,
		"kept := l.keepPlaces(name)", "kept := error(errNoPlaces)",
		command{"audit", "TestPlacesOfLines"},
	},
	{
		"tradeoffs-not-read", "record", "audit/record/form.go",
		"if !s.extra || r.at(s.heading()) {", "if !s.extra {",
		command{"cmd/mbox", "TestScripts/decision"},
	},
	{
		"dreams-show-too-much", "life", "agents/own.go",
		"return context - min(reply, context/2) - spare", "return 4*context - min(reply, context/2) - spare",
		command{"agents/dream", "TestDreamFitsTheContext"},
	},
	{
		"dreams-of-nobody", "life", "cmd/mbox/cmd_dream.go",
		"box, name, name).Dream(", "box, name, \"mbox\").Dream(",
		command{"cmd/mbox", "TestScripts/dream$"},
	},
	{
		"dreams-believe-the-model", "life", "agents/dream/about.go",
		"if err := d.known(id); err != nil {", "if err := d.known(id); err != nil && id == \"\" {",
		command{"agents/dream", "TestDreamWithBrain"},
	},
	{
		"dreams-of-the-same-again", "life", dreamGo,
		"left.is(before) ||", "left.size < 0 ||",
		command{"agents/dream", "TestDreamWithBrain"},
	},
	{
		"dreams-lose-lines", "life", keepGo,
		"if _, err := n.dreams.Lstat(name + newMemory); err == nil {", "if err := error(nil); err == nil {",
		command{"agents/dream", "TestDreamFaults"},
	},
	{
		"undo-doubles-lines", "life", keepGo,
		"return n.write(name+suffix, now)", "return nil",
		command{"agents/dream", "TestDreamFaults"},
	},
	{
		"dreams-that-were-none", "life", keepGo,
		"n.remove(name+suffix, name+newMemory)", "n.remove(name+newMemory, name+suffix)",
		command{"agents/dream", "TestFinishFaults"},
	},
	{
		"dreams-leave-files", "life", keepGo,
		"!strings.HasSuffix(name, newMemory) && !durable.Temporary(name)", "!strings.HasSuffix(name, newMemory) || !durable.Temporary(name)",
		command{"agents/dream", "TestFinishFaults"},
	},
	{
		"undo-forgets-what-was-added", "life", keepGo,
		"slices.Concat(before, now[left.size:])", "before",
		command{"agents/dream", "TestUndo"},
	},
	{
		"undo-over-changes", "life", keepGo,
		"if !left.begins(now) {", "if left.size < 0 {",
		command{"agents/dream", "TestUndo"},
	},
	{
		"dreams-beside-an-attempt", "life", dreamGo,
		"life.Enter(ctx, d.Box, d.Agent, lockWait)", "func() error { return nil }, error(nil)",
		command{"agents/dream", "TestDreamWaitsForTheHome"},
	},
	{
		"the-newest-goes", "life", "agents/dream/tidy.go",
		"	for i, it := range all {\n\t\tif lines <= most {", "	for i, it := range slices.Backward(all) {\n\t\tif lines <= most {",
		command{"agents/dream", "TestDreamByRule"},
	},
	{
		"headings-stay-for-ever", "life", "agents/dream/tidy.go",
		"\t\t\t\tleave(above[last])\n", "",
		command{"agents/dream", "TestTidySections"},
	},
	{
		"resumed-before-the-first-pulse", "life", "mailbox/agent.go",
		"if now.State == lifecycle.Provisioning {", "if now.State == lifecycle.Unborn {",
		boxTest("TestResumeMakesNobodyHealthy"),
	},
	{
		"messages-on-their-way-are-gone", "channels", "mailbox/post.go",
		"b.path(d.File), home.StagedPath(b.home, filepath.Base(d.File), d.TX), b.path(d.File)}", "b.path(d.File)}",
		command{"mailbox", "TestReadBesidePost"},
	},
	{
		"half-born", "life", lifeGo,
		"failed = errors.Join(failed, arrive(ctx, b, name, follow))", "_ = arrive",
		command{"agents/life", "TestFaults"},
	},
	{
		"buried-at-work", "life", archiveGo,
		"if err != nil || len(held) > 0 {", "if err != nil || len(held) > 1 {",
		command{"agents/life", "TestDrainWaits"},
	},
	{
		"changed-archives-come-back", "life", archiveGo,
		"case now[i] != f:", "case false:",
		command{"agents/life", "TestChangedArchive"},
	},
	{
		"forged-manifests-count", "life", archiveGo,
		"if sum != audit.Hash(text) {", "if sum == \"\" {",
		command{"agents/life", "TestChangedArchive"},
	},
	{
		"namesakes-archives", "life", archiveGo,
		"if !is || !stamped().MatchString(at) {", "if !is || at == \"\" {",
		command{"agents/life", "TestArchiveOfAnother"},
	},
	{
		"unread-files-are-listed", "life", archiveGo,
		"!(errors.Is(err, fs.ErrPermission) && closed(f.Path))", "!errors.Is(err, fs.ErrPermission)",
		command{"agents/life", "TestManifestOfTheClosed"},
	},
	{
		"links-take-a-place", "life", "mailbox/durable/within.go",
		"!os.SameFile(info, opened)", "false",
		command{"mailbox/durable", "TestOpenIn"},
	},
	{
		"links-to-ones-own", "life", "mailbox/durable/within.go",
		"if !info.Mode().IsRegular() {", "if info.IsDir() {",
		command{"mailbox/durable", "TestOpenIn"},
	},
	{
		"manifest-waits-for-pipes", "life", archiveGo,
		"case known && info.Mode().IsRegular() && hashes(", "case known && !info.IsDir() && hashes(",
		command{"agents/life", "TestManifest"},
	},
	{
		"born-and-never-healthy", "life", lifeGo,
		"if a.State == lifecycle.Provisioning {\n\t\ta, err", "if a.State == lifecycle.Dead {\n\t\ta, err",
		command{"cmd/mbox", "TestScripts/agent_life$"},
	},
	{
		"born-and-healthy-without-a-worker", "life", "cmd/mbox/cmd_agent_life.go",
		"case a == nil || !a.Enabled || !a.HasWorker():", "case a == nil || !a.Enabled || !a.HasWorker() || !box.Routed():",
		command{"cmd/mbox", "TestScripts/agent_life$"},
	},
	{
		"another-birth-finished", "life", "cmd/mbox/cmd_agent_birth.go",
		"there == nil || there.Role", "there != nil || there.Role",
		command{"cmd/mbox", "TestScripts/agent_life$"},
	},
	{
		"nobody-misses-who-works-elsewhere", "life", "cmd/mbox/check/absent.go",
		"!told.At(now).Claims() || !a.Enabled {", "!told.At(now).Claims() || !a.Enabled || !a.HasWorker() {",
		command{"cmd/mbox", "TestScripts/agent_outside$"},
	},
	{
		"the-never-heard-are-missed", "life", "agents/life/keeper.go",
		"return since, run\n", "return since, true\n",
		command{"agents/life", "TestAdmit"},
	},
	{
		"admitted-with-a-pulse", "life", lifeGo,
		"func(s *State) { s.LastPulseAt = nil }", "func(s *State) { s.LastPulseAt = now(b) }",
		command{"agents/life", "TestAdmit"},
	},
	{
		"arrives-before-its-home", "life", lifeGo,
		"if is, err := there(b.AgentDir(name)); err != nil || !is {", "if is, err := there(b.AgentDir(name)); err != nil || !is && false {",
		command{"agents/life", "TestFaults/new_name_of_a_newborn"},
	},
	{
		"runtime-of-another-flag", "life", "cmd/mbox/cmd_agent_birth.go",
		"case f.flag != want && f.value != \"\":", "case f.flag != want && f.value == want:",
		command{"cmd/mbox", "TestScripts/agent_life$"},
	},
	{
		"soul-told-twice", "life", "agents/own.go",
		" && !strings.Contains(told, text) {", " {",
		command{"agents", "TestOwnTextsOnce"},
	},
	{
		"sweeps-whom-the-ledger-knows", "life", "agents/life/sweep.go",
		"a[name].State == lifecycle.Unborn {", "a[name].State != lifecycle.Dead {",
		command{"agents/life", "TestSweep"},
	},
	{
		"sweeps-during-a-birth", "life", "agents/life/sweep.go",
		"lock(ctx, livesLock(b), 0)", "func() error { return nil }, error(nil)",
		command{"agents/life", "TestSweep"},
	},
	{
		"ack-keeps-nothing", "life", "agents/life/keeper.go",
		"failed = change(ctx, b, agent, advance)", "_ = advance",
		command{"cmd/mbox", "TestScripts/agent_outside$"},
	},
	{
		"old-copy-stays", "life", "agents/life/home.go",
		"err == nil && bytes.Equal(there, text) {", "err == nil && len(there) > 0 {",
		command{"cmd/mbox", "TestScripts/agent_life$"},
	},
	{
		"changed-claude-written-anew", "life", "agents/life/renamed.go",
		"case err == nil && bytes.Equal(now, born):", "case err == nil:",
		command{"agents/life", "TestRenamedTexts"},
	},
	{
		"kept-claude-tells-the-old-name", "life", "agents/life/renamed.go",
		"return durable.Replace(kept, text, mode)", "return nil",
		command{"agents/life", "TestRenamedTexts"},
	},
	{
		"renamed-at-work", "life", "agents/life/rename.go",
		"} else if len(held) > 0 {\n\t\treturn fmt.Errorf(\"agent %s works", "} else if len(held) > 1 {\n\t\treturn fmt.Errorf(\"agent %s works",
		command{"agents/life", "TestRenameRefused"},
	},
	{
		"home-moves-under-a-worker", "life", "agents/life/rename.go",
		"if err == nil && len(held) > 0 {", "if err == nil && len(held) > 1 {",
		command{"agents/life", "TestRenameWaits"},
	},
	{
		"home-moves-under-who-is-in-it", "life", "agents/life/rename.go",
		"leave, err := Enter(ctx, b, from, wait)", "leave, err := func() error { return nil }, error(nil)",
		command{"agents/life", "TestRenameWaits"},
	},
	{
		"anothers-old-name", "life", "agents/life/rename.go",
		"if lifecycle.Called(all, to) != from {", "if lifecycle.Called(all, to) == to {",
		command{"agents/life", "TestRenameRefused"},
	},
	{
		"old-entry-stays", "life", "agents/life/rename.go",
		"errors.Join(durable.RemoveIfThere(entry), durable", "errors.Join(durable",
		command{"agents/life", "TestRename$"},
	},
	{
		"rename-unfinished", "life", lifeGo,
		"return !left && !named[name]", "return !named[name] || left",
		command{"agents/life", "TestFaults"},
	},
	{
		"tasks-for-the-dead", "lifecycle", agentGo,
		"a.State == lifecycle.Draining || a.State == lifecycle.Dead {", "a.State == lifecycle.Draining {",
		boxTest("TestEndedAgentGetsNothing"),
	},
	{
		"the-dead-are-asked", "lifecycle", "mailbox/delegate.go",
		"mayGet(b.books, child.Task.Assignment.TargetAgent); err != nil {", "mayGet(b.books, child.Task.Assignment.TargetAgent); err == errHeld {",
		boxTest("TestEndedAgentGetsNothing"),
	},
	{
		"tasks-given-to-the-dead", "lifecycle", "mailbox/edit.go",
		"mayGet(b.books, p.task.Assignment.TargetAgent); err != nil {", "mayGet(b.books, p.task.Assignment.TargetAgent); err == errHeld {",
		boxTest("TestEndedAgentGetsNothing"),
	},
	{
		"dead-schedules-stop", "lifecycle", "mailbox/submit.go",
		"if t.Mbox.Trigger == \"\" {", "if t.Mbox.ParentID == \"\" {",
		boxTest("TestEndedAgentGetsNothing"),
	},
	{
		"why-hides-a-dead-child", "lifecycle", "mailbox/why.go",
		"if len(able) > 0 || len(kept) == 0 {", "if len(able) == 0 || len(kept) == 0 {",
		boxTest("TestEndedAgentGetsNothing"),
	},
	{
		"tasks-of-an-old-name-wait", "lifecycle", "mailbox/submit.go",
		"\tt.Assignment.TargetAgent = b.queue.Called(t.Assignment.TargetAgent)\n", "",
		boxTest("TestRename"),
	},
	{
		"drops-of-an-old-name-wait", "lifecycle", "mailbox/admit.go",
		"\tt.Assignment.TargetAgent = b.queue.Called(t.Assignment.TargetAgent)\n", "",
		boxTest("TestRename"),
	},
	{
		"edits-of-an-old-name", "lifecycle", "mailbox/edit.go",
		"\t\tt.Assignment.TargetAgent = e.b.queue.Called(t.Assignment.TargetAgent)\n", "",
		boxTest("TestRename"),
	},
	{
		"senders-hear-of-no-new-name", "lifecycle", "mailbox/queue/fold.go",
		"if s.event == audit.AgentState {", "if s.event == audit.AgentState && !x.names {",
		boxTest("TestRename"),
	},
	{
		"a-new-name-ends-a-pause", "lifecycle", lifecycleGo,
		"\t\tall[m.Name] = was\n", "\t\tall[m.Name] = Agent{UUID: was.UUID}\n",
		boxTest("TestRename"),
	},
	{
		"mentions-of-an-old-name", "lifecycle", "mailbox/post.go",
		"registered && now != old {", "registered && now == old {",
		boxTest("TestRename"),
	},
	{
		"settings-of-an-old-name", "life", "cmd/mbox/config/names.go",
		"if is, was := now[*name]; was {", "if is, was := now[*name]; !was {",
		command{"cmd/mbox/config", "TestFormerly"},
	},
	{
		"a-living-name-is-another", "life", "cmd/mbox/config/names.go",
		"if c.Agents[old] == nil {", "if c.Agents[name] != nil {",
		command{"cmd/mbox/config", "TestFormerly"},
	},
	{
		"two-of-one-uuid", "life", "cmd/mbox/config/names.go",
		"a.UUID != \"\" && o.UUID == a.UUID", "a.UUID == \"\" && o.UUID == a.UUID && other == name",
		command{"cmd/mbox/config", "TestFormerly"},
	},
	{
		"memories-stay-behind", "life", "agents/memory/sqlite/rename.go",
		"WHERE alias = ?\", to, from)", "WHERE alias = ?\", from, from)",
		command{"agents/memory/sqlite", "TestRename"},
	},
	{
		"another-version-works", "life", "cmd/mbox/check/version.go",
		"if said != a.Version && !strings.HasPrefix(said, a.Version+\".\") {", "if said == \"\" {",
		command{"cmd/mbox", "TestScripts/agent_upgrade$"},
	},
	{
		"a-version-is-told-once", "life", "cmd/mbox/check/version.go",
		"if now != asked {", "if asked == \"\" {",
		command{"cmd/mbox/check", "TestPin"},
	},
	{
		"unfit-burns-an-attempt", "life", "agents/ending.go",
		"\tif e.unfit != nil {\n\t\treturn verdict{release: \"the command cannot run: \" + e.unfit.Error(), delay: releaseDelay}\n\t}\n", "",
		command{"cmd/mbox", "TestScripts/agent_upgrade$"},
	},
	{
		"upgrade-not-put-back", "life", "cmd/mbox/cmd_agent_upgrade.go",
		"life.Reenter(context.WithoutCancel(ctx), box, name, old)", "life.Reenter(context.WithoutCancel(ctx), box, name, text)",
		command{"cmd/mbox", "TestScripts/agent_upgrade$"},
	},
	{
		"upgraded-at-work", "life", "cmd/mbox/cmd_agent_upgrade.go",
		"return len(held) == 0, err", "return len(held) <= 1, err",
		command{"cmd/mbox", "TestScripts/agent_upgrade$"},
	},
	{
		"passwords-in-addresses", "life", "cmd/mbox/cmd_agent_fill.go",
		"secret || u.Scheme != \"ssh\" {", "secret && u.Scheme == \"ssh\" {",
		command{"cmd/mbox", "TestScripts/agent_birth$"},
	},
	{
		"failed-hooks-bear", "life", "cmd/mbox/cmd_agent_fill.go",
		"case status.ExitStatus() != 0:", "case status.ExitStatus() == 255:",
		command{"cmd/mbox", "TestScripts/agent_birth$"},
	},
	{
		"any-protocol-is-cloned", "life", "cmd/mbox/cmd_agent_fill.go",
		"GIT_ALLOW_PROTOCOL=file:", "GIT_ALLOW_PROTOCOL=ext:file:",
		command{"cmd/mbox", "TestScripts/agent_birth$"},
	},
	{
		"renamed-parents-have-all-rights", "life", "agents/act.go",
		"mailbox.AgentCalled(p.Box, p.task.Source.Agent)", "p.task.Source.Agent, error(nil)",
		command{"agents", "TestRenamedParentAtClaim"},
	},
	{
		"tokens-of-an-old-name", "life", "cmd/mbox/gateway/routes.go",
		"if c.agent, err = mailbox.AgentCalled(box, c.agent); err != nil {", "if _, err = mailbox.AgentCalled(box, c.agent); err != nil {",
		command{"cmd/mbox/gateway", "TestRenamed"},
	},
	{
		"tokens-of-the-dead", "life", "cmd/mbox/gateway/routes.go",
		"if err == nil && a.State == lifecycle.Dead {", "if err == nil && a.State == lifecycle.Unborn {",
		command{"cmd/mbox/gateway", "TestTokenOfTheDead"},
	},
	{
		"events-of-a-ledger-given-up", "serve", "cmd/mbox/gateway/ledger.go",
		"	return err == nil && seen > end.Seq\n", "	return err != nil && seen > end.Seq\n",
		command{"cmd/mbox/gateway", "TestEventsOfAnotherLedger"},
	},
	{
		"frequent-misses-untold", "schedules", "cmd/mbox/timetable/standing.go",
		"tick = first { // of those", "{ // of those",
		command{"cmd/mbox/timetable", "TestFrequentMisses"},
	},
	{
		"doors-know-no-old-name", "life", "cmd/mbox/gateway/leave.go",
		"now, err := mailbox.AgentCalled(c.Box, target)", "now, err := target, error(nil)",
		command{"cmd/mbox/gateway", "TestRenamed"},
	},
	{
		"sent-to-the-dead-for-ever", "life", "mailbox/submit.go",
		"; ended || !errors.Is(err, ErrConflict) {", "; ended && id != \"\" || !errors.Is(err, ErrConflict) {",
		command{"mailbox", "TestPauseRefused"},
	},
	{
		"claimed-in-a-dream", "life", "mailbox/claim.go",
		"\t\t\tif !ok {\n\t\t\t\treturn nil, true, ErrEmpty\n\t\t\t}\n", "\t\t\t_ = ok\n\t\t\tif leave == nil {\n\t\t\t\tleave = func() {}\n\t\t\t}\n",
		command{"agents", "TestHomeIsEnteredAlone"},
	},
	{
		"homes-are-never-left", "life", "agents/home.go",
		"	defer leave()\n", "	_ = leave\n",
		command{"agents", "TestHomeIsEnteredAlone"},
	},
	{
		"one-pulse", "life", "agents/home.go",
		"if s.pulse(ctx, false); s.busy() == 0 {", "if s.busy() == 0 {",
		command{"agents", "TestPulses"},
	},
	{
		"panics-end-the-worker", "life", "agents/attempt.go",
		"	defer a.survive(hard)\n", "",
		command{"agents", "TestPanic"},
	},
	{
		"spoilt-state-stops-a-worker", "life", "agents/life/home.go",
		"if s != nil && err != nil && (!errors.As(err, &number) || number == syscall.ELOOP) {", "if s != nil && err != nil && errors.As(err, &number) && number == syscall.ELOOP {",
		command{"agents/life", "TestSpoiltState"},
	},
	{
		"late-worker-in-the-way", "life", "agents/life/life.go",
		"err = moved(home, filepath.Join(archive, \"late-\"+stamp(b.Options().Now())), mode)", "err = nil",
		command{"agents/life", "TestLateWorker"},
	},
	{
		"two-entries-of-one", "life", "cmd/mbox/config/names.go",
		"slices.Contains(a.Formerly, other) || slices.Contains(o.Formerly, name) {\n			continue", "false {\n			continue",
		command{"cmd/mbox/config", "TestFormerly"},
	},
	{
		"taken-away-and-worked-on", "life", "agents/watch.go",
		"HasSuffix(move.Reason, \" \"+TakenAway)", "HasSuffix(move.Reason, \" x\"+TakenAway)",
		command{"agents", "TestTakenAway"},
	},
	{
		"swept-in-anothers-work", "life", "agents/sweep.go",
		"leave, err := s.Home.Enter(ctx, 0)\n		if err != nil {\n			return", "leave, err := func() error { return nil }, error(nil)\n		if err != nil {\n			return",
		command{"agents", "TestSweepEnters"},
	},
	{
		"finish-waits-for-dreams", "life", "agents/life/life.go",
		"begun[name].Reason, 0, follow)", "begun[name].Reason, lockWait, follow)",
		command{"agents/life", "TestFinishDuringADream"},
	},
	{
		"home-locked-from-within", "life", "agents/life/lock.go",
		"\"home-\"+agent)", "\"../../agents/\"+agent+\"/agent.lock\")",
		command{"agents/life", "TestLocksOfAHome"},
	},
	{
		"unlistable-names", "life", archiveGo,
		"if utf8.ValidString(name) {", "if utf8.ValidString(\"\") {",
		command{"agents/life", "TestNothingKeepsAnAgentFromItsEnd"},
	},
	{
		"unlisted-uncounted", "life", archiveGo,
		"if now.Unlisted != was.Unlisted {", "if now.Unlisted < was.Unlisted {",
		command{"agents/life", "TestManifestOfTooMuch"},
	},
	{
		"done-under-another-name", "life", "mailbox/list.go",
		"|| f.called != nil && f.called(want) == f.called(have)", "",
		command{"cmd/mbox", "TestScripts/agent_rename$"},
	},
	{
		"told-under-another-name", "life", "cmd/mbox/cmd_tail.go",
		" || o.called(line.Agent()) == o.called(o.agent))", ")",
		command{"cmd/mbox", "TestScripts/agent_rename$"},
	},
	{
		"secrets-of-nobody", "secrets", "cmd/mbox/cmd_secret.go",
		"\t\t\t\to.agent = agent\n\t\t\t\treturn o.set(", "\t\t\t\t_ = agent\n\t\t\t\treturn o.set(",
		command{"cmd/mbox", "TestScripts/agent_rename$"},
	},
	{
		"state-of-two-writers", "life", "agents/life/home.go",
		"\"state-\"+agent)", "\"state-\"+agent+time.Now().String())",
		command{"agents/life", "TestStateOfTwo"},
	},
	{
		"cursors-go-back", "life", "agents/life/keeper.go",
		"max(s.ChannelCursors[said.Channel], said.Seq)", "said.Seq",
		command{"agents/life", "TestEnded"},
	},
	{
		"two-tasks-in-a-home", "life", "cmd/mbox/config/agents_check.go",
		"if a == nil || a.Concurrency <= 1 {", "if a == nil || a.Concurrency <= 5 {",
		command{"cmd/mbox", "TestScripts/agent_life$"},
	},
	{
		"offline-and-nobody-told", "life", "cmd/mbox/top/problems.go",
		"range r.lacks() {", "range r.lacks()[:0] {",
		command{"cmd/mbox", "TestScripts/agent_life$"},
	},
	{
		"paused-are-absent", "life", "cmd/mbox/check/absent.go",
		"!told.At(now).Claims()", "told.State == \"\"",
		command{"cmd/mbox", "TestScripts/agent_life$"},
	},
	{
		"late-is-never", "life", "agents/life/keeper.go",
		"> StaleAfter*interval", "> 1000*StaleAfter*interval",
		command{"agents/life", "TestStale"},
	},
	{
		"beats-forgotten-at-a-restart", "life", "agents/life/heartbeat.go",
		"if err != nil || now.Before(last.Add(BeatEvery)) {", "if err != nil || now.Before(last) {",
		command{"agents/life", "TestBeat"},
	},
	{
		"beat-after-beat", "life", "agents/life/heartbeat.go",
		"; err != nil || at {", "; err != nil && at {",
		command{"agents/life", "TestBeat"},
	},
	{
		"headings-are-work", "life", "agents/life/heartbeat.go",
		"line != \"\" && !isHeading(line)", "line != \"\"",
		command{"agents/life", "TestBeat"},
	},
	{
		"paused-hearts-beat", "life", "agents/life/heartbeat.go",
		" || mailbox.MayClaim(k.box, k.agent) != nil {", " {",
		command{"agents/life", "TestBeat"},
	},
	{
		"heartbeats-are-read-each-time", "life", "agents/life/heartbeat.go",
		"h.was.Size() == info.Size():", "h.was.Size() != info.Size():",
		command{"agents/life", "TestHeartbeatIsReadOnce"},
	},
	{
		"heartbeat-ok-hides-news", "life", "agents/answer.go",
		"<= mostBeside", "<= 1000*mostBeside",
		command{"agents", "TestUnsaid"},
	},
	{
		"killed-at-work", "life", "cmd/mbox/cmd_agent_end.go",
		"if len(held) > 0 && !o.now {", "if len(held) > 1 && !o.now {",
		command{"cmd/mbox", "TestScripts/agent_life$"},
	},
	{
		"units-over-anothers", "units", unitFilesGo,
		"if err == nil && foreign != \"\" {", "if err == nil && foreign == home {",
		command{"cmd/mbox", "TestScripts/agent_units$"},
	},
	{
		"timers-over-anothers", "units", unitFilesGo,
		"foreign = cmp.Or(foreign, timer)", "foreign = cmp.Or(foreign, \"\")",
		command{"cmd/mbox", "TestScripts/agent_units$"},
	},
	{
		"units-of-the-dead", "units", "cmd/mbox/cmd_agent_end.go",
		"if a.Lifecycle.State == lifecycle.Dead {", "if false {",
		command{"cmd/mbox", "TestScripts/agent_units$"},
	},
	{
		"units-of-others-removed", "units", unitFilesGo,
		"if err != nil || !strings.Contains(string(text), k.mark(home)) {", "if err != nil || len(text) == 0 {",
		command{"cmd/mbox", "TestScripts/agent_units$"},
	},
	{
		"units-stay-enabled", "units", unitFilesGo,
		"if _, err := os.Readlink(link); err == nil {", "if _, err := os.Readlink(link); err == nil && home == \"\" {",
		command{"cmd/mbox", "TestScripts/agent_units$"},
	},
	{
		"units-stay-behind", "units", "cmd/mbox/cmd_agent_rename.go",
		"\t\t\tdropUnits(s, box.Home(), from)\n", "",
		command{"cmd/mbox", "TestScripts/agent_units$"},
	},
	{
		"units-do-not-come-back", "units", "cmd/mbox/cmd_agent_rename.go",
		"\t\t\twriteUnits(s, box, to)\n", "",
		command{"cmd/mbox", "TestScripts/agent_units$"},
	},
	{
		"units-keep-the-old-name", "units", "cmd/mbox/cmd_agent_rename.go",
		"\t\tmoveUnits(s, box, from, to)\n", "",
		command{"cmd/mbox", "TestScripts/agent_units_cut$"},
	},
	{
		"own-texts-without-a-home", "life", ownGo,
		"if p.Home == nil {", "if p == nil {",
		command{"agents", "TestOwnTexts$"},
	},
	{
		"own-texts-without-a-budget", "life", ownGo,
		"n <= *room {", "n >= 0 {",
		command{"agents", "TestOwnTextsAreCut"},
	},
	{
		"own-memory-loses-the-newest", "life", ownGo,
		"text, end, true, ownMemory)", "text, end, false, ownMemory)",
		command{"agents", "TestOwnTextsAreCut"},
	},
	{
		"own-texts-by-the-shortest-tokens", "life", ownGo,
		"slices.Min(g.seen)", "slices.Max(g.seen)",
		command{"agents", "TestOwnTextsAreMeasured"},
	},
	{
		"own-memory-gives-orders", "security", ownGo,
		"data(mark, \"your \"", "data(\"\", \"your \"",
		command{"agents", "TestOwnTexts$"},
	},
	{
		"own-texts-with-control-words", "security", ownGo,
		"return apart(", "return strings.Clone(",
		command{"agents", "TestOwnTexts$"},
	},
	{
		"own-memory-of-another-folder", "security", ownGo,
		"err == nil && !dir.IsDir()", "err == nil && dir == nil",
		command{"agents", "TestOwnTextsOfAttackers"},
	},
	{
		"cycles-without-end", "life", "agents/home.go",
		"s.cycle < s.Cycle {", "s.cycle < s.Cycle+1 {",
		command{"agents", "TestCycles"},
	},
	{
		"hour-begins-with-each-process", "life", "agents/hour.go",
		"s.Team.Actions.Used(s.Agent) > 0 {", "s.Team.Actions.Used(s.Agent) >= 0 {",
		command{"agents", "TestHourOverRestarts"},
	},
	{
		"hour-counts-twice", "life", "agents/hour.go",
		"s.Team.Actions.Used(s.Agent) > 0 {", "s.Team.Actions.Used(s.Agent) < 0 {",
		command{"agents", "TestHourOverRestarts"},
	},
	{
		"hour-of-anybody", "life", "agents/hour.go",
		"agent, sender = payer(e.Agent, t)", "agent, _ = payer(e.Agent, t)",
		command{"agents", "TestHourOverRestarts"},
	},
	{
		"hour-without-what-was-handed-on", "life", "agents/hour.go",
		"n = 1 // it was handed on", "n = 0",
		command{"agents", "TestHourOfDelegations"},
	},
	{
		"hour-of-a-former-name", "life", "agents/hour.go",
		"if agent, err = mailbox.AgentCalled(s.Box, agent); err != nil || agent != s.Agent {", "if err = nil; agent != s.Agent {",
		command{"cmd/mbox", "TestScripts/^agent_hour$"},
	},
	{
		"rests-that-end-at-once", "life", "agents/brain/server.go",
		"r.length+spread(r.length)", "r.length",
		command{"agents/brain", "TestRestsAreSpread"},
	},
	{
		"rests-that-are-too-short", "life", "agents/brain/server.go",
		"r.length+spread(r.length)", "r.length-spread(r.length)",
		command{"agents/brain", "TestRestsAreSpread"},
	},
	{
		"claude-of-a-later-day", "life", claudeGo,
		"is, err := there(path); is || err != nil {", "is, err := there(path); is && false || err != nil {",
		command{"agents/life", "TestClaudeOfACutBirth"},
	},
	{
		"claude-by-a-link", "security", claudeGo,
		"text, err = durable.Read(filepath.Join(b.AgentDir", "text, err = durable.ReadLinked(filepath.Join(b.AgentDir",
		command{"agents/life", "TestClaude$"},
	},
	{
		"claude-that-is-gone", "life", claudeGo,
		"return c != nil && c.AtBirth != c.Now", "return c != nil && c.Now != \"\" && c.AtBirth != c.Now",
		command{"agents/life", "TestClaude$"},
	},
	{
		"stranger-with-an-inbox", "life", "cmd/mbox/cmd_inbox.go",
		"if o.agent != \"\" { // an agent", "if false { // an agent",
		command{"cmd/mbox", "TestScripts/^agent_unknown$"},
	},
	{
		"answered-and-thought-again", "life", "agents/answer.go",
		"v := completed(thoughtful{Answer: m.Text})\n\treturn &v, nil", "_ = m\n\treturn nil, nil",
		command{"agents", "TestAnswerOnce$"},
	},
	{
		"answers-without-a-tree", "security", "agents/answer.go",
		"ReplyTo: t.Message(), By: a.claim}", "ReplyTo: t.Message(), From: a.Agent}",
		command{"agents", "TestMindsTalkToAnEnd$"},
	},
	{
		"answer-that-fits-no-channel", "life", "agents/answer.go",
		"if len(text) <= channel.MaxText {", "if len(text) > 0 {",
		command{"agents", "TestAnswersThatAreNone$"},
	},
	{
		"dead-by-its-last-name-alone", "life", "cmd/mbox/config/dead.go",
		"append(a.Formerly, name)", "append(a.Formerly[:0], name)",
		command{"cmd/mbox/config", "TestNamesOfTheDead$"},
	},
	{
		"back-and-still-dead", "life", "cmd/mbox/config/dead.go",
		"return c.Agents[name] != nil })", "return false })",
		command{"cmd/mbox/config", "TestNamesOfTheDead$"},
	},
	{
		"claude-of-the-dead", "life", claudeGo,
		" || a.State == lifecycle.Dead || ", " || ",
		command{"agents/life", "TestClaude$"},
	},
	{
		"claude-put-back-over-a-link", "security", "cmd/mbox/cmd_agent.go",
		"return home + \"rm -f \" + file + \" && cp \"", "return home + \"cp \"",
		command{"cmd/mbox", "TestScripts/^agent_claude$"},
	},
	{
		"claude-of-which-doctor-is-silent", "life", "cmd/mbox/check/tasks.go",
		"e.check(\"agents\", err) && c.Changed()", "e.check(\"agents\", err) && c == nil",
		command{"cmd/mbox", "TestScripts/^agent_claude$"},
	},
	{
		"learning-without-a-bound", "life", learningGo,
		"size > mostLearnedSize", "size < 0",
		command{"cmd/mbox", "TestLearnedText$"},
	},
	{
		"learning-upside-down", "life", learningGo,
		"lines[len(lines)-1-i]", "lines[i]",
		command{"cmd/mbox", "TestLearnedText$"},
	},
	{
		"learning-that-agents-write", "security", "agents/policy/build.go",
		", \"memory/learning.jsonl\"}", "}",
		command{"agents/policy", "TestPaths$"},
	},
	{
		"learning-forgets", "life", learningGo,
		"for _, l := range w.known.all {", "for _, l := range w.known.all[:0] {",
		command{"cmd/mbox", "TestScripts/^learning$"},
	},
	{
		"hour-of-the-born-alone", "rights", "agents/worker.go",
		"\tif s.policy != nil {\n\t\tif err := s.recount", "\tif s.Home != nil && s.policy != nil {\n\t\tif err := s.recount",
		command{"agents", "TestHourOverRestarts"},
	},
	{
		"hour-hidden-by-the-clock", "rights", "agents/hour.go",
		"since.Add(-setBack)", "since",
		command{"agents", "TestHourOverRestarts"},
	},
}
