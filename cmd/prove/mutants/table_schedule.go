package main

// scheduleMutants break the rules of the files of mbox.d, and of schedules.
var scheduleMutants = []mutant{
	{
		"further-files-twice-set", "configuration", "cmd/mbox/config/sources.go",
		"case at.source != from:", "case at.source == nil:",
		configTest("TestTwiceSet"),
	},
	{
		"further-files-of-others", "configuration", "cmd/mbox/config/sources.go",
		"err = checkWriters(dir)", "err = nil",
		configTest("TestFurtherFilesOfOthers"),
	},
	{
		"further-file-of-others", "configuration", "cmd/mbox/config/sources.go",
		"err = checkWriters(path)", "err = nil",
		configTest("TestFurtherFilesOfOthers|TestConfigOfOthers"),
	},
	{
		"further-files-not-watched", "configuration", "cmd/mbox/config/changes.go",
		"a.name == b.name && bytes.Equal(a.data, b.data)", "a.name == b.name && (bytes.Equal(a.data, b.data) || a.name != Name)",
		configTest("TestWatchFurtherFiles"),
	},
	{
		"further-files-open-to-agents", "configuration", "agents/policy/build.go",
		"\"prompts\", \"mbox.d\",", "\"prompts\",",
		policyTest("TestForAgent$"),
	},
	{
		"schedule-lost-in-the-gap", "schedules", "cmd/mbox/schedule/wall.go",
		"return from.UTC()", "return t",
		scheduleTest("TestTicks"),
	},
	{
		"schedule-twice-in-the-double-hour", "schedules", "cmd/mbox/schedule/wall.go",
		"before.After(wall)", "before.Before(wall)",
		scheduleTest("TestDue$"),
	},
	{
		"schedule-before-it-was-made", "schedules", "cmd/mbox/schedule/due.go",
		"t.At.After(since)", "!t.At.Before(since)",
		scheduleTest("TestDue$"),
	},
	{
		"schedule-one-too-many", "schedules", "cmd/mbox/schedule/due.go",
		"len(due) < most", "len(due) <= most",
		scheduleTest("TestDue$"),
	},
	{
		"schedule-late-all-the-same", "schedules", "cmd/mbox/schedule/due.go",
		"now.Sub(t.At) > Grace", "now.Sub(t.At) > 60*Grace",
		scheduleTest("TestDue$"),
	},
	{
		"schedule-days-of-both", "schedules", "cmd/mbox/schedule/rule.go",
		" | cron.DowOrDom", "",
		scheduleTest("TestTicks"),
	},
	{
		"schedule-zone-in-the-line", "schedules", "cmd/mbox/schedule/rule.go",
		"strings.HasPrefix(text, \"tz=\")", "strings.HasPrefix(text, \"tz==\")",
		scheduleTest("TestRefused"),
	},
	{
		"schedule-never-comes", "schedules", "cmd/mbox/schedule/rule.go",
		"both.Next(r.first).IsZero()", "both == nil",
		scheduleTest("TestRefused"),
	},
	{
		"schedule-tick-taken", "schedules", "mailbox/submit.go",
		"b.saltedHash(\"tick\", key)", "b.saltedHash(\"key\", key)",
		command{"mailbox", "TestNobodyTakesATick"},
	},
	{
		"schedule-tick-twice", "schedules", "mailbox/submit.go",
		"sendOnce(ctx, b, t, trigger, trigger)", "sendOnce(ctx, b, t, trigger, \"\")",
		command{"mailbox", "TestATickHasOneTask"},
	},
	{
		"schedules-listed-by-an-agent", "schedules", "cmd/mbox/timetable/timetable.go",
		"c.Agent == \"human\" && ", "",
		timetableTest("TestListOfAnAgent"),
	},
	{
		"schedule-overlaps", "schedules", "cmd/mbox/timetable/timetable.go",
		"if err != nil || busy != \"\" {\n\t\t\t\treturn errors.Join(err, t.waits", "if err != nil {\n\t\t\t\treturn errors.Join(err, t.waits",
		timetableTest("TestNoOverlap"),
	},
	{
		"schedule-overlaps-a-run", "schedules", "cmd/mbox/timetable/timetable.go",
		"range []Sent{last, run}", "range []Sent{last, run}[:1]",
		timetableTest("TestNoOverlap"),
	},
	{
		"schedule-alarm-at-each-turn", "schedules", "cmd/mbox/timetable/timetable.go",
		"busy == \"\" || k.waits == busy", "busy == \"\"",
		timetableTest("TestNoOverlap"),
	},
	{
		"schedule-waits-for-a-clock", "schedules", "cmd/mbox/timetable/timetable.go",
		"k.since.IsZero() || k.since.After(now)", "k.since.IsZero()",
		timetableTest("TestClockIsSet"),
	},
	{
		"schedule-records-the-future", "schedules", "cmd/mbox/timetable/timetable.go",
		" || e.since.After(now) {", " {",
		timetableTest("TestClockIsSet"),
	},
	{
		"schedule-refused-and-sent-again", "schedules", "cmd/mbox/timetable/timetable.go",
		"k.refused = tick", "k.refused = \"\"",
		timetableTest("TestAlwaysFails"),
	},
	{
		"schedule-alarm-at-each-failure", "schedules", "cmd/mbox/timetable/timetable.go",
		"len(failed) < tooMany || more", "len(failed) < tooMany || more && ctx == nil",
		timetableTest("TestAlwaysFails"),
	},
	{
		"schedule-paused-and-made-up-for", "schedules", "cmd/mbox/timetable/timetable.go",
		"lines = append(lines, name+\" is paused\")", "lines = append(lines, fmt.Sprintf(\"%s %s since %s\", name, s.Mark(), listed[name].since.UTC().Format(time.RFC3339)))",
		timetableTest("TestCatchUp"),
	},
	{
		"unit-of-half-a-name", "units", "cmd/mbox/cmd_unit.go",
		"`\"`, `\\\"`, \"%\", \"%%\")", "`\"`, `\\\"`)",
		command{"cmd/mbox", "TestUnitOfSystemd"},
	},
	{
		"unit-cut-by-cron", "units", "cmd/mbox/cmd_unit.go",
		"\"%\", `\\%`)", "\"%\", \"%\")",
		command{"cmd/mbox", "TestUnitOfCron"},
	},
	{
		"unit-with-no-watchdog", "units", "cmd/mbox/units.go",
		"\"WatchdogSec=180\", \"Restart=on-failure\"", "\"Restart=on-failure\"",
		command{"cmd/mbox", "TestUnitsOfAgents"},
	},
	{
		"unit-without-bounds", "units", "cmd/mbox/units.go",
		"case a.Role == \"tester\":", "case a.Role == \"coder\":",
		command{"cmd/mbox", "TestUnitsOfAgents"},
	},
	{
		"unit-of-a-command-starved", "units", "cmd/mbox/units.go",
		"case a.Whole():", "case a.Whole() && a.Role != \"\":",
		command{"cmd/mbox", "TestUnitsOfAgents"},
	},
	{
		"cron-of-two-workers", "units", "cmd/mbox/cmd_unit.go",
		"name == \"cron\" && o.agent != \"\" && !o.dream", "name == \"\" && o.agent != \"\" && !o.dream",
		command{"cmd/mbox", "TestScripts/unit$"},
	},
	{
		"ready-unsaid", "units", "cmd/mbox/cmd_up.go",
		"{ first.ready(); c.manager.ready() }", "{ first.ready() }",
		command{"cmd/mbox", "TestUpTellsSystemd"},
	},
	{
		"life-unsaid", "units", "cmd/mbox/service.go",
		"v.scanned(r, err); c.manager.alive()", "v.scanned(r, err)",
		command{"cmd/mbox", "TestUpTellsSystemd"},
	},
	{
		"worker-unit-with-no-watchdog", "units", "cmd/mbox/units.go",
		"\"WatchdogSec=180\", \"Restart=always\"", "\"Restart=always\"",
		command{"cmd/mbox", "TestUnitsOfAgents"},
	},
	{
		"idle-worker-tells-nothing", "units", "agents/worker.go",
		", Looked: s.Alive}", "}",
		command{"cmd/mbox", "TestWorkerIsWatched"},
	},
	{
		"busy-worker-tells-nothing", "units", "agents/worker.go",
		"if s.Alive != nil {", "if s.Alive != nil && s.busy() == 0 {",
		command{"cmd/mbox", "TestWorkerIsWatched"},
	},
	{
		"watchdog-of-another", "units", "cmd/mbox/manager.go",
		"watches: limit > 0}", "watches: limit >= 0}",
		command{"cmd/mbox", "TestUpIsNotWatched"},
	},
	{
		"export-formula", "export", "cmd/mbox/cmd_export.go",
		"\"=+-@\"", "\"+-@\"",
		command{"cmd/mbox", "TestScripts/search$"},
	},
	{
		"search-in-names-of-fields", "search", "cmd/mbox/cmd_search.go",
		"lineWith(f.text, needle); line != \"\"", "lineWith(f.text, \"\"); line != \"\"",
		command{"cmd/mbox", "TestScripts/search$"},
	},
	{
		"search-as-it-is-not-written", "search", "cmd/mbox/cmd_search.go",
		"bytes.ToLower(bytes.Trim(bytes.TrimSpace(written), `\"`))", "append([]byte(needle), written[:0]...)",
		command{"cmd/mbox", "TestScripts/search$"},
	},
	{
		"schedule-changed-by-an-agent", "schedules", "cmd/mbox/approver.go",
		"if err := d.byPerson(); err != nil {\n\t\treturn err\n\t}\n\treturn s.with(ctx, func(box *mailbox.Box) error {\n\t\tif err := d.byNoWorker(ctx, box); err != nil {\n\t\t\treturn err\n\t\t}\n\t\treturn do(box)\n\t})", "return s.with(ctx, do)",
		command{"cmd/mbox", "TestScripts/schedule$"},
	},
}

func scheduleTest(run string) command  { return command{"cmd/mbox/schedule", run} }
func timetableTest(run string) command { return command{"cmd/mbox/timetable", run} }
