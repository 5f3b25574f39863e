package main

const (
	lifeGo    = "agents/life/life.go"
	archiveGo = "agents/life/archive.go"
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
		"half-born", "life", lifeGo,
		"failed = errors.Join(failed, arrive(ctx, b, name))", "_ = arrive",
		command{"agents/life", "TestFaults"},
	},
	{
		"buried-at-work", "life", archiveGo,
		"if err != nil || len(held) > 0 {", "if err != nil || len(held) > 1 {",
		command{"agents/life", "TestDrainWaits"},
	},
	{
		"changed-archives-come-back", "life", archiveGo,
		"if i >= len(now.Files) || now.Files[i] != f {", "if i >= len(now.Files) {",
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
		"manifest-waits-for-pipes", "life", archiveGo,
		"case info.Mode().IsRegular():", "case !info.IsDir():",
		command{"agents/life", "TestManifest"},
	},
	{
		"born-and-never-healthy", "life", lifeGo,
		"if a.State == lifecycle.Provisioning {\n\t\ta, err", "if a.State == lifecycle.Dead {\n\t\ta, err",
		command{"cmd/mbox", "TestScripts/agent_life$"},
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
		"cursors-go-back", "life", "agents/life/keeper.go",
		"max(s.ChannelCursors[m.Channel], m.Seq)", "m.Seq",
		command{"agents/life", "TestEnded"},
	},
	{
		"two-tasks-in-a-home", "life", "cmd/mbox/config/agents_check.go",
		"if a == nil || a.Concurrency <= 1 {", "if a == nil || a.Concurrency <= 5 {",
		command{"cmd/mbox", "TestScripts/agent_life$"},
	},
	{
		"offline-and-nobody-told", "life", "cmd/mbox/cmd_status.go",
		"		b.Miss(absent)\n", "		b.Miss(absent[:0])\n",
		command{"cmd/mbox", "TestScripts/agent_life$"},
	},
	{
		"paused-are-absent", "life", "cmd/mbox/check/absent.go",
		"!told.At(box.Options().Now()).Claims()", "told.State == \"\"",
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
		"line != \"\" && !strings.HasPrefix(line, \"#\")", "line != \"\"",
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
		"heartbeat-ok-hides-news", "life", "agents/home.go",
		"> mostBeside {", "> 1000*mostBeside {",
		command{"agents", "TestUnsaid"},
	},
	{
		"killed-at-work", "life", "cmd/mbox/cmd_agent_life.go",
		"if len(held) > 0 && !o.now {", "if len(held) > 1 && !o.now {",
		command{"cmd/mbox", "TestScripts/agent_life$"},
	},
}
