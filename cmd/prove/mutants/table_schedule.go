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
		"a.name == b.name && bytes.Equal(a.data, b.data)", "a.name == b.name && a.name != Name",
		configTest("TestWatchFurtherFiles"),
	},
	{
		"further-files-open-to-agents", "configuration", "agents/policy/build.go",
		"\"prompts\", \"mbox.d\"}", "\"prompts\"}",
		policyTest("TestForAgent$"),
	},
}
