package main

const (
	boundsGo  = "agents/action/compose_bounds.go"
	composeGo = "agents/action/compose_check.go"
	bindGo    = "agents/action/compose_bind.go"
	loadGo    = "agents/action/compose_load.go"
	fileGo    = "agents/action/compose_file.go"
	copiesGo  = "agents/action/compose_copy.go"
	commandGo = "agents/policy/command.go"
	orphansGo = "agents/sandbox/orphans_linux.go"
	wrapperGo = "agents/policy/wrapper.go"
)

func policyTest(run string) command { return command{"agents/policy", run} }

func actionTest(run string) command { return command{"agents/action", run} }

// policyMutants break what keeps an agent from more than it may do.
var policyMutants = []mutant{
	{
		"compose-deep", "security", boundsGo,
		"case level > maxLevels:", "case level > 9*maxNodes:",
		actionTest("TestComposeIsBounded"),
	},
	{
		"compose-aliases-for-nothing", "security", boundsGo,
		"\t\treturn count(n.Alias, level+1, nodes)\n", "\t\treturn nil\n",
		actionTest("TestComposeIsBounded"),
	},
	{
		"compose-every-way", "security", boundsGo,
		"n += ways[next]", "n++",
		actionTest("TestComposeIsBounded"),
	},
	{
		"compose-many-documents", "security", boundsGo,
		"!errors.Is(err, io.EOF)", "!errors.Is(err, io.EOF) && false",
		actionTest("TestComposeIsBounded"),
	},
	{
		"compose-keys-unseen", "security", loadGo,
		"case map[any]any:", "case chan any:",
		actionTest("TestComposeRefuses"),
	},
	{
		"compose-volume-of-a-path", "security", fileGo,
		"if !composeName().MatchString(name) {", "if name == \"\" {",
		actionTest("TestComposeRefuses"),
	},
	{
		"compose-volume-of-others", "security", fileGo,
		"v.Type == volumeMount && v.Source != \"\" && !ok", "false && !ok",
		actionTest("TestComposeRefuses"),
	},
	{
		"compose-wide-ports", "security", fileGo,
		"if *ports += rangeOf(short); *ports > maxPorts {", "if *ports += rangeOf(short); false {",
		actionTest("TestComposeIsBounded"),
	},
	{
		"compose-mount-to-write", "security", fileGo,
		"m[\"read_only\"] = option == \"ro\"", "m[\"read_only\"] = false",
		actionTest("TestComposeMeansTheSame"),
	},
	{
		"compose-shared-folder", "security", composeGo,
		"by != \"\" && by != name {", "false {",
		actionTest("TestComposeRefuses"),
	},
	{
		"compose-mount-in-a-mount", "security", composeGo,
		"if inside(v.Target, other.Target) || inside(other.Target, v.Target) {", "if v.Target == other.Target {",
		actionTest("TestComposeRefuses"),
	},
	{
		"compose-of-any-registry", "security", composeGo,
		"image != \"\" && !slices.Contains(allowed, registry)", "image != \"\" && !strings.Contains(registry, \".\")",
		actionTest("TestComposeRefuses"),
	},
	{
		"compose-changed-since", "security", copiesGo,
		"if sum != want {", "if sum == \"\" {",
		actionTest("TestApprovalBindsFolders"),
	},
	{
		"compose-rights-changed-since", "security", bindGo,
		"s.line(\"file\", info.Mode().Perm(), at,", "s.line(\"file\", 0, at,",
		actionTest("TestApprovalBindsFolders"),
	},
	{
		"compose-link-changed-since", "security", bindGo,
		"s.line(\"symlink\", 0, at, target)", "s.line(\"symlink\", 0, at, \"\")",
		actionTest("TestApprovalBindsFolders"),
	},
	{
		"compose-of-other-folders", "security", copiesGo,
		"if len(left) > 0 {", "if len(left) > 9 {",
		actionTest("TestApprovalOfOtherFolders"),
	},
	{
		"compose-with-the-originals", "security", copiesGo,
		"\treturn moved(project, at), nil\n", "\treturn project, nil\n",
		actionTest("TestDeployedIsACopy"),
	},
	{
		"compose-with-a-spoilt-copy", "security", copiesGo,
		"err == nil && have == sum {", "err == nil && have != \"\" {",
		actionTest("TestDeployedIsACopy"),
	},
	{
		"logs-written", "security", "agents/policy/build.go",
		"\"logs\", \"memory\"", "\"memory\"",
		policyTest("TestPaths"),
	},
	{
		"compose-copies-to-write", "security", "agents/policy/build.go",
		"\"state.json\", deployed}", "\"state.json\"}",
		actionTest("TestDeployedIsACopy"),
	},
	{
		"compose-setuid", "security", bindGo,
		"if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {", "if info.Mode()&fs.ModeSetgid != 0 {",
		actionTest("TestFoldersAreBounded"),
	},
	{
		"compose-by-another-name", "security", "agents/action/compose_run.go",
		"if place.Rel != h.path {", "if place.Rel == \"\" {",
		actionTest("TestComposeRunLooks"),
	},
	{
		"parameters-without-end", "security", "agents/action/registry.go",
		"if crowded(params) {", "if crowded(nil) {",
		actionTest("TestCrowdedParameters"),
	},
	{
		"compose-others-containers", "security", composeGo,
		"[]string{\"none\"}},", "[]string{\"none\", \"bridge\"}},",
		actionTest("TestComposeRefuses"),
	},
	{
		"command-by-its-base-name", "security", commandGo,
		"return name == base || p.samePlace(name, at)", "return true",
		policyTest("TestNamesLeadThroughPath"),
	},
	{
		"command-before-in-path", "security", commandGo,
		"!filepath.IsAbs(dir) || err != nil || slices.ContainsFunc(lists, in)", "err != nil || dir == base && slices.ContainsFunc(lists, in)",
		policyTest("TestNamesLeadThroughPath"),
	},
	{
		"wrapper-of-any-folder", "security", commandGo,
		"case (wraps || shells.has(base)) && (filepath.Base(name.text) != base || !j.genuine(name.text)):", "case false:",
		policyTest("TestNamesLeadThroughPath"),
	},
	{
		"variables-of-any-name", "security", "agents/policy/risk.go",
		"return !known && (!ownName().MatchString(name) || strings", "return !known && (strings",
		policyTest("TestCommands"),
	},
	{
		"for-over-path", "security", commandGo,
		"\t\t\t\tj.sets(words[1:2])\n", "",
		policyTest("TestCommands"),
	},
	{
		"option-in-short", "security", commandGo,
		"strings.HasPrefix(short, \"--\") && strings.HasPrefix(name, short)", "false",
		policyTest("TestCommands"),
	},
	{
		"interactive-shell", "security", wrapperGo,
		"-+abcefhkm", "-+abcefhikm",
		policyTest("TestCommands"),
	},
	{
		"redirection-where-the-file-is", "security", commandGo,
		"j.moves = j.moves || strings.HasSuffix(text, \"dir\")", "j.moves = j.moves || strings.HasSuffix(text, \"dirs\")",
		policyTest("TestCommands"),
	},
	{
		"commands-without-end", "security", commandGo,
		"<= maxCommands {", "<= maxLine {",
		policyTest("TestCommandBounds"),
	},
	{
		"compose-file-of-podman", "security", "agents/action/write_file.go",
		"\t\tautorunForms().MatchString(seen) {", "\t\tfalse {",
		actionTest("TestWriteFileValidate"),
	},
	{
		"dotfile-in-a-folder", "security", "agents/action/write_file.go",
		"if strings.HasPrefix(part, \".\") && part != \".\" {", "if part == name && strings.HasPrefix(part, \".\") {",
		actionTest("TestWriteFileValidate"),
	},
	{
		"delegated-past-the-role", "security", "agents/judge.go",
		"limits.Autorun = t.Roles[m.Role].Autorun", "limits.Autorun = true",
		command{"agents", "TestAutorunFiles"},
	},
	{
		"control-words-for-models", "security", "agents/think.go",
		"Harmless(talk)", "talk",
		command{"agents", "TestPromptControlWords"},
	},
	{
		"control-words-of-one-bar", "security", "agents/prompt.go",
		"<[|｜][^<>\\s]+>|", "",
		command{"agents", "TestPromptControlWords"},
	},
	{
		"files-past-the-tools", "security", "agents/prompt.go",
		"err := p.policy.Tool(\"read_file\")", "err := error(nil)",
		command{"agents", "TestPromptFilesAreThePolicys"},
	},
	{
		"files-past-an-approval", "security", "agents/prompt.go",
		"err == nil && asks != \"\"", "err == nil && asks == name",
		command{"agents", "TestPromptFilesAreThePolicys"},
	},
	{
		"star-excludes-nothing", "security", "agents/policy/tool.go",
		"case listed(p.ExcludedTools, name):", "case slices.Contains(p.ExcludedTools, name):",
		policyTest("TestTool"),
	},
	{
		"a-line-goes-on", "security", "agents/policy/shell.go",
		"s.giveUp(\"a line goes on in the next\")", "s.at++",
		policyTest("TestCommands"),
	},
	{
		"setuid-from-a-sandbox", "security", "agents/sandbox/filter_linux.go",
		"mask(unix.S_ISUID | unix.S_ISGID)", "mask(unix.S_ISGID)",
		command{"agents/sandbox", "TestFilter"},
	},
	{
		"orphans-to-nobody", "security", orphansGo,
		"if err := adoptOrphans(); err != nil {", "if err := error(nil); err != nil {",
		command{"agents", "TestKeeperKilled"},
	},
	{
		"orphans-of-keepers-live", "security", orphansGo,
		"if !failed {", "if failed {",
		command{"agents/sandbox", "TestKeeperKilledFromBelow"},
	},
	{
		"keepers-end-as-orphans", "security", orphansGo,
		" || keepers.by[pid] != nil", "",
		command{"agents/sandbox", "TestOrphansEndAmongOthers"},
	},
	{
		"own-children-end-as-orphans", "security", orphansGo,
		" || k.session == all[self].session", "",
		command{"agents/sandbox", "TestOnlyOrphansEnd"},
	},
	{
		"elders-end-as-orphans", "security", orphansGo,
		" || k.born < born", "",
		command{"agents/sandbox", "TestOnlyOrphansEnd"},
	},
	{
		"reports-without-end", "security", "agents/sandbox/keep.go",
		"SetReadDeadline(time.Now().Add(time.Second))", "SetReadDeadline(time.Now().Add(time.Hour))",
		command{"agents/sandbox", "TestReportsHeld"},
	},
	{
		"keeper-in-our-session", "security", "agents/sandbox/keep.go",
		"cmd.SysProcAttr.Setsid = true", "cmd.SysProcAttr.Setpgid = true",
		command{"agents/sandbox", "TestKeeperStoppedFromBelow"},
	},
	{
		"brain-leaves-the-deaf", "security", "agents/brain/process.go",
		"kept.End(context.WithoutCancel(ctx), p.grace)", "kept.Terminate()",
		command{"agents/brain", "TestExecLeavesNothing"},
	},
	{
		"root-in-a-root", "security", "agents/policy/roots.go",
		"ok && rel != \".\"", "ok && rel == \"\"",
		policyTest("TestCheckRoots"),
	},
	{
		"root-in-a-root-of-others", "security", "agents/policy/roots.go",
		"slices.Concat([]*Policy{p}, others)", "slices.Concat([]*Policy{p}, others[:0])",
		policyTest("TestCheckRootsOfOthers"),
	},
	{
		"workspace-in-a-root", "security", "agents/policy/roots.go",
		"slices.Concat([]string{p.Workspace}, p.ReadWrite", "slices.Concat([]string{\"/\"}, p.ReadWrite",
		policyTest("TestCheckRootsOfOthers"),
	},
	{
		"root-as-it-is-written", "security", "agents/policy/roots.go",
		"[]string{root, at}", "[]string{at}",
		policyTest("TestCheckRootsOfOthers"),
	},
	{
		"others-are-not-asked", "security", "cmd/mbox/team.go",
		"p.CheckRoots(others(c, name)...)", "p.CheckRoots()",
		command{"cmd/mbox", "TestMayStartBesideOthers"},
	},
	{
		"root-behind-a-link", "security", "agents/policy/roots.go",
		"linkErr == nil && link != \"\"", "linkErr == nil && link == \"/\"",
		policyTest("TestCheckRoots"),
	},
	{
		"artifacts-laid-by-path", "security", "agents/sweep.go",
		"durable.MkdirIn(root, dir, durable.None)", "durable.MkdirAll(filepath.Join(a.workspace, dir), durable.None)",
		command{"agents", "TestFoldersBesideAnother"},
	},
	{
		"root-replaced", "security", "agents/action/path.go",
		"opened, err := dir.Stat(\".\")\n\tif err == nil && !os.SameFile(seen, opened) {\n\t\terr = throughLink(path)", "_, err = dir.Stat(\".\")\n\tif err == nil && seen == nil {\n\t\terr = throughLink(path)",
		actionTest("TestRootBecomesASymlink"),
	},
}
